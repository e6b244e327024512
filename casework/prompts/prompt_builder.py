"""From task, data and schema to one request, the same bytes wherever it is built."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypedDict, Unpack

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest
from casework.gateway.messages import PARAMETERS, DataSpan, LLMRequest, Message
from casework.prompts.json_copy import json_copy
from casework.prompts.template import PromptTemplate, Section, Slot
from casework.strict_json import JSON, JSONObject, canonical, is_unicode

Data: TypeAlias = "str | Mapping[str, object]"
"""A text, taken letter by letter, or a mapping that JSON can express."""

_MARK_DERIVATIONS_MAX: Final = 64
_SCHEMA_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class BuildOptions(TypedDict, total=False):
    """What :meth:`PromptBuilder.build` may be told beyond task, data and schema."""

    template: str | Path | PromptTemplate
    """Name of a built-in template, a file, or one already read; ``structured_json_v1``."""
    parameters: Mapping[str, JSON] | None
    """Sampling parameters; their names stand in ``gateway.messages.PARAMETERS``."""
    privacy_profile: PrivacyProfile | None
    """Narrows the builder's profile; a wider one changes nothing."""
    allow_empty: bool
    """Build the request although the data holds no real character; it is to be rejected, with the
    request on record, and not to be sent."""
    schema_name: str
    """Up to 64 ASCII letters, digits, ``_`` and ``-``; ``answer``."""


class PromptBuilder:
    """Build requests that mark the data as untrusted.

    Args:
        privacy_profile: Given to every request; None leaves the configured profile.
    """

    def __init__(self, privacy_profile: PrivacyProfile | None = None) -> None:
        self._privacy_profile = privacy_profile

    def build(
        self,
        task: str,
        data: Data,
        output_schema: Mapping[str, object],
        **options: Unpack[BuildOptions],
    ) -> LLMRequest:
        """Build the request; equal arguments give equal bytes in every process.

        The data stands in the prompt letter by letter, between two lines whose mark no document
        can know beforehand. Whether the schema itself is acceptable is judged by the gateway.

        Raises:
            InvalidRequest: With one of the codes ``task_invalid``, ``data_invalid``,
                ``empty_input``, ``schema_not_allowed``, ``parameter_invalid``,
                ``template_unknown``, ``template_unreadable`` and ``template_invalid``.
        """
        template = _template(options.get("template", "structured_json_v1"))
        schema = _schema(output_schema)
        data_text = _data_text(data, allow_empty=options.get("allow_empty", False))
        texts = {
            Slot.TASK: _task(task),
            Slot.SCHEMA: canonical(schema).decode("utf-8"),
            Slot.DATA: data_text,
        }
        messages, span = _fill(template.sections, texts, boundary(data_text))
        return LLMRequest(
            messages=messages,
            output_schema=schema,
            schema_name=_schema_name(options.get("schema_name", "answer")),
            prompt_version=template.version,
            prompt_sha256=template.sha256,
            parameters=_parameters(options.get("parameters") or {}),
            privacy_profile=self._narrowed(options.get("privacy_profile")),
            data=span,
        )

    def _narrowed(self, asked: PrivacyProfile | None) -> PrivacyProfile | None:
        if self._privacy_profile is None:
            return asked
        return self._privacy_profile.narrowed_by(asked)


def boundary(data: str, derive: Callable[[bytes, int], str] | None = None) -> str:
    """Return 32 hex digits that depend on the data alone and do not occur in it.

    A document would have to contain its own digest to close the block that it stands in.

    Args:
        data: The text to be enclosed.
        derive: Makes the mark from the text's UTF-8 and a counter; for tests.
    """
    make_mark = derive or _derive_mark
    content = data.encode("utf-8")
    for counter in range(_MARK_DERIVATIONS_MAX):
        mark = make_mark(content, counter)
        if mark not in data:
            return mark
    raise InvalidRequest("no mark was found that the data does not contain", code="data_invalid")


def _derive_mark(content: bytes, counter: int) -> str:
    digest = hashlib.sha256(b"casework-data-mark/1\0%d\0" % counter)
    digest.update(content)
    return digest.hexdigest()[:32]


def _fill(
    sections: tuple[Section, ...], texts: Mapping[Slot, str], mark: str
) -> tuple[tuple[Message, ...], DataSpan]:
    """Put each text into its slot; what was put in is never looked at again."""
    messages: list[Message] = []
    span: DataSpan | None = None
    for section in sections:
        content = ""
        for piece in section.pieces:
            if not isinstance(piece, Slot):
                content += piece
            elif piece is Slot.DATA:
                content += f"BEGIN DATA {mark}\n"
                start = len(content)
                content += texts[piece]
                span = DataSpan(len(messages), start, len(content))
                content += f"\nEND DATA {mark}"
            else:
                content += texts[piece]
        messages.append(Message(section.role, content))
    assert span is not None, "a sound template has exactly one data slot"
    return tuple(messages), span


def _template(source: str | Path | PromptTemplate) -> PromptTemplate:
    if isinstance(source, PromptTemplate):
        return source
    return PromptTemplate.read(source) if isinstance(source, Path) else _built_in(source)


@functools.cache
def _built_in(name: str) -> PromptTemplate:
    return PromptTemplate.built_in(name)


def _task(task: object) -> str:
    if not isinstance(task, str) or not task.strip():
        raise InvalidRequest("the task must be a text that is not blank", code="task_invalid")
    if not is_unicode(task):
        raise InvalidRequest("the task holds a lone surrogate", code="task_invalid")
    return task


def _data_text(data: object, *, allow_empty: bool) -> str:
    if isinstance(data, str):
        text = data
    elif isinstance(data, Mapping):
        plain = json_copy(data, where="data", code="data_invalid")
        text = json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False) if plain else ""
    else:
        raise InvalidRequest("the data must be a text or a mapping", code="data_invalid")
    has_letters = any(letter.isprintable() and not letter.isspace() for letter in text)
    if not has_letters and not allow_empty:
        raise InvalidRequest("the data is empty", code="empty_input")
    if not is_unicode(text):
        raise InvalidRequest("the data holds a lone surrogate", code="data_invalid")
    return text


def _schema(output_schema: object) -> JSONObject:
    """Copy the schema, members in the order given, so that nobody can change it afterwards."""
    plain = json_copy(output_schema, where="output_schema", code="schema_not_allowed")
    if not isinstance(plain, dict):
        raise InvalidRequest("the schema must be an object", code="schema_not_allowed")
    return plain


def _schema_name(name: str) -> str:
    if not _SCHEMA_NAME.fullmatch(name):
        raise InvalidRequest(
            "the schema's name has 1 to 64 ASCII letters, digits, _ and -",
            code="schema_not_allowed",
        )
    return name


def _parameters(parameters: Mapping[str, object]) -> dict[str, JSON]:
    checked: dict[str, JSON] = {}
    for name in sorted(parameters):
        if name not in PARAMETERS:
            near = difflib.get_close_matches(name, sorted(PARAMETERS), n=1)
            way_out = f"did you mean {near[0]}?" if near else f"use {', '.join(sorted(PARAMETERS))}"
            raise InvalidRequest(
                "an unknown sampling parameter", code="parameter_invalid", remedy=way_out
            )
        value = json_copy(parameters[name], where=f"parameters.{name}", code="parameter_invalid")
        if not _PARAMETER_IS_SOUND.get(name, _is_number)(value):
            raise InvalidRequest(
                "a sampling parameter of the wrong kind",
                code="parameter_invalid",
                where=f"parameters.{name}",
            )
        checked[name] = value
    return checked


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: JSON) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_word(value: JSON) -> bool:
    return isinstance(value, str) and bool(value)


_PARAMETER_IS_SOUND: Final[Mapping[str, Callable[[JSON], bool]]] = {
    "max_tokens": lambda value: isinstance(value, int) and _is_integer(value) and value > 0,
    "seed": _is_integer,
    "stop": lambda value: all(map(_is_word, value if isinstance(value, list) else [value])),
    "reasoning_effort": _is_word,
}
