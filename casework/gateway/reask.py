"""Asking a target once more: the same messages, and which rule its answer had broken.

The words depend only on the failure's code, the pointer to the rule and the schema, all of which
the outcome and the request record, so that what was sent can be told afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from casework.gateway.errors import FailureKind
from casework.gateway.messages import Message
from casework.json_pointer import lookup
from casework.strict_json import JSONObject, canonical

REASK_BYTES_MAX: Final = 2048
"""Longest text that is added to the messages, in UTF-8."""

_RULE_BYTES_MAX: Final = 1024
_POINTER_LENGTH_MAX: Final = 200

_FAULTS: Final[Mapping[FailureKind, str]] = MappingProxyType(
    {
        FailureKind.INVALID_JSON: "it was not one strict JSON value (no duplicate names, no text "
        "around it)",
        FailureKind.TRUNCATED: "it was cut off at the limit of tokens; be briefer",
        FailureKind.EMPTY_RESPONSE: "it was empty",
    }
)


def asked_again(
    messages: tuple[Message, ...],
    kind: FailureKind,
    *,
    schema_pointer: str | None,
    schema: JSONObject,
) -> tuple[Message, ...]:
    """Return the messages of a re-ask: the last one gets one more paragraph.

    Nothing of the refused answer is repeated.

    Args:
        messages: What was sent before.
        kind: Why the answer cannot be used.
        schema_pointer: Where the broken rule stands in the schema.
        schema: The schema of the answer.
    """
    fault = _FAULTS.get(kind) or _broken_rule(schema_pointer or "", schema)
    last = messages[-1]
    note = (
        f"\n\nAn earlier answer to this was refused: {fault}. "
        "Answer anew, with the whole JSON value and nothing else."
    )
    return (*messages[:-1], replace(last, content=last.content + note))


def _broken_rule(pointer: str, schema: JSONObject) -> str:
    """Name the rule by its place in the schema, with its words where they are few."""
    if not 0 < len(pointer) <= _POINTER_LENGTH_MAX:
        return "it broke a rule of the schema"
    found, rule = lookup(schema, pointer)
    content = canonical(rule) if found else b""
    words = f", {content.decode('utf-8')}" if 0 < len(content) <= _RULE_BYTES_MAX else ""
    return f"it broke the rule at {pointer} of the schema{words}"
