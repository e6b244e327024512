r"""An adapter without a model: fills a schema only from what its patterns find in the document.

Deterministic and extractive. A rule file (TOML) looks like this::

    format = "casework-rules/1"

    [[fields]]
    name = "license_id"
    required = true
    [[fields.rules]]
    pattern = '\bApache License, Version 2\.0\b'
    value = "Apache-2.0"
    [[fields.rules]]
    pattern = 'Redistribution and use in source and binary forms'
    also = ['Neither the name']
    value = "BSD-3-Clause"
    [[fields.rules]]
    pattern = '^License-Expression: (?P<id>[A-Za-z0-9.-]{1,40})$'
    group = "id"

    [[fields]]
    name = "family"
    from = "license_id"
    table = { "Apache-2.0" = "permissive", "BSD-3-Clause" = "permissive" }

    [[fields]]
    name = "evidence"
    evidence_of = "license_id"

Rules are tried in order and the first that is found decides. ``also`` and ``unless`` must and must
not be found anywhere in the document. A table turns one field's value into another's, and
``evidence_of`` gives the sentence around another field's match, byte for byte. What is not found is
null where the schema allows it, left out where it demands no such field, and else the call fails as
``no_evidence``. Patterns are bounded; see :func:`.bounded_pattern.compile_bounded`.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Final, Self

from casework.config.providers import ProviderConfig
from casework.gateway.clock import Deadline
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, Finish, ProviderCall, ProviderReply
from casework.gateway.providers.adapter_file import adapter_path
from casework.gateway.providers.rule_file import Rule, RuleField, RuleFile
from casework.json_pointer import value_at
from casework.strict_json import JSON, JSONObject

SENTENCE_CHARACTERS_MAX: Final = 600
"""Longest passage that is given as evidence; a longer sentence is cut between two words."""

_REFERENCES_MAX: Final = 16
_SENTENCE_END: Final = re.compile(
    r"[.!?][\"')\]]?(?=\s)|\n[ \t]*(?=\n)|\n(?=[A-Z][A-Za-z-]{0,40}: )"
)


@dataclass(frozen=True, slots=True)
class _Finding:
    """A value and the place that grounds it."""

    value: JSON
    start: int
    end: int


class RulesProvider:
    """Answers from rules alone.

    Args:
        rules: What to look for.
        document_bytes_max: Longest document, in UTF-8, that is searched.
    """

    def __init__(self, rules: RuleFile, *, document_bytes_max: int) -> None:
        self._rules = rules
        self._document_bytes_max = document_bytes_max

    @classmethod
    def from_config(cls, config: ProviderConfig) -> Self:
        """Read the rule file that a provider's entry names.

        Raises:
            ConfigurationError: It names none, or the file cannot be used.
        """
        rules = RuleFile.load(adapter_path(config))
        return cls(rules, document_bytes_max=config.request_bytes_max)

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Search the request's document and fill the schema's fields.

        Raises:
            ProviderFailure: ``no_evidence``, ``request_too_large`` or, between two rules,
                ``timeout``.
        """
        del credential
        document = _document_of(call)
        if len(document.encode("utf-8", "surrogatepass")) > self._document_bytes_max:
            raise ProviderFailure(FailureKind.REQUEST_TOO_LARGE, sent=False)
        findings: dict[str, _Finding] = {}
        for field in self._rules.fields:
            await asyncio.sleep(0)
            if deadline.passed:
                raise ProviderFailure(FailureKind.TIMEOUT)
            finding = _find(field, document, findings)
            if finding is not None:
                findings[field.name] = finding
            elif field.required:
                raise ProviderFailure(FailureKind.NO_EVIDENCE)
        output = _fill(call.output_schema, {name: f.value for name, f in findings.items()})
        return ProviderReply(text=json.dumps(output, ensure_ascii=False), finish=Finish.STOP)

    async def aclose(self) -> None:
        """Let go of nothing; there is nothing to hold."""


def sentence_around(text: str, start: int, end: int) -> str:
    """Return the sentence, word for word, that holds ``text[start:end]``.

    A sentence ends at a full stop, exclamation or question mark before white space, at an empty
    line, and before a line that begins like a header (``Name: ``). One that is too long is cut
    around the match, between two words.
    """
    room = max((SENTENCE_CHARACTERS_MAX - (end - start)) // 2, 0)
    first, last = max(start - room, 0), min(end + room, len(text))
    for stop in _SENTENCE_END.finditer(text, first, start):
        first = stop.end()
    stop_after = _SENTENCE_END.search(text, max(end - 1, start), last)
    if stop_after is not None:
        last = stop_after.end()
    while first < start and first > 0 and not text[first - 1].isspace():
        first += 1
    while end < last < len(text) and stop_after is None and not text[last].isspace():
        last -= 1
    return text[first:last].strip()


def _document_of(call: ProviderCall) -> str:
    if call.data is None:
        raise ProviderFailure(FailureKind.NO_EVIDENCE)
    return call.messages[call.data.message].content[call.data.start : call.data.end]


def _find(field: RuleField, document: str, findings: dict[str, _Finding]) -> _Finding | None:
    if field.evidence_of is not None:
        source = findings.get(field.evidence_of)
        if source is None:
            return None
        sentence = sentence_around(document, source.start, source.end)
        return _Finding(sentence, source.start, source.end)
    if field.from_field is not None:
        source = findings.get(field.from_field)
        if source is None or _as_key(source.value) not in field.table:
            return None
        return _Finding(field.table[_as_key(source.value)], source.start, source.end)
    for rule in field.rules:
        finding = _match(rule, document)
        if finding is not None:
            return finding
    return None


def _as_key(value: JSON) -> str:
    """Write a value as the rule file writes the keys of its tables."""
    return value if isinstance(value, str) else json.dumps(value)


def _match(rule: Rule, document: str) -> _Finding | None:
    found = rule.pattern.search(document)
    if found is None:
        return None
    if not all(pattern.search(document) for pattern in rule.also):
        return None
    if any(pattern.search(document) for pattern in rule.unless):
        return None
    if rule.value is not None:
        return _Finding(rule.value, found.start(), found.end())
    text = found.group(rule.group or 0)
    return _Finding(text, found.start(), found.end()) if text else None


def _fill(schema: JSONObject, values: dict[str, JSON]) -> JSONObject:
    """Make the answer: what was found, null or nothing for the rest."""
    properties = schema.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    required = schema.get("required")
    demanded = required if isinstance(required, list) else []
    output: JSONObject = {}
    for name in names:
        if name in values:
            output[name] = values[name]
        elif isinstance(properties, dict) and _allows_null(schema, properties[name]):
            output[name] = None
        elif name in demanded:
            raise ProviderFailure(FailureKind.NO_EVIDENCE)
    if not any(value is not None for value in output.values()):
        raise ProviderFailure(FailureKind.NO_EVIDENCE)
    return output


def _allows_null(root: JSONObject, schema: JSON, references: int = 0) -> bool:
    """Tell whether a subschema says outright that null is allowed."""
    if not isinstance(schema, dict):
        return False
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/") and references < _REFERENCES_MAX:
        return _allows_null(root, value_at(root, reference[1:]), references + 1)
    kinds, words = schema.get("type"), schema.get("enum")
    if isinstance(words, list) and None not in words:
        return False
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    if kinds is None and isinstance(words, list):
        return True
    choices = schema.get("anyOf", schema.get("oneOf"))
    return isinstance(choices, list) and any(_allows_null(root, c, references) for c in choices)
