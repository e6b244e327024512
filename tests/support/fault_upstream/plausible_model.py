"""What the double says: an echo that obeys the request as a sound server's model would."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tests.support.fault_upstream.json_samples import sample

Request: TypeAlias = Mapping[str, Any]

_EXACTLY: Final = re.compile(r"reply exactly (\S+)", re.IGNORECASE)
_OBJECT: Final = re.compile(r"\{[^{}]*\}")
_ORDER: Final = re.compile(r"\[\[(say|refuse|reason|call)(?::((?:[^\]]|\](?!\]))*))?\]\]")
_DIRECTIVE: Final = re.compile(r"\[\[fault:[^\]]*\]\]\s*")
_TOKEN: Final = re.compile(r"\s*\S+|\s+$")

REFUSAL: Final = "I cannot help with that."
THOUGHT: Final = "Let me think about it."


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model wants made."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Said:
    """One choice of an answer."""

    text: str = ""
    refusal: str | None = None
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"

    @property
    def tokens(self) -> tuple[str, ...]:
        """Return the text in the pieces that a stream shows."""
        return tokens_of(self.text)


def tokens_of(text: str) -> tuple[str, ...]:
    """Return a text in pieces that join to it again."""
    return tuple(_TOKEN.findall(text))


def text_of(content: object) -> str:
    """Return the text of a message's content, whatever form it has."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (p if isinstance(p, str) else p.get("text") or "" for p in content)
        return "".join(parts)
    return ""


def prompt_tokens(request: Request) -> int:
    """Return how many tokens a request's texts have."""
    messages = request.get("messages", [])
    texts = sum(len(tokens_of(text_of(m.get("content")))) for m in messages)
    return texts + 3 * len(messages) + 3 * len(request.get("tools") or [])


def answers_to(request: Request) -> list[Said]:
    """Return the choices of an answer, as many as were asked for."""
    first = _answer(request)
    many = int(request.get("n") or 1)
    others = [_cut(request, f"{first.text} ({number})", first) for number in range(2, many + 1)]
    return [first, *others]


def _answer(request: Request) -> Said:
    messages = request.get("messages", [])
    asked = text_of(next((m["content"] for m in reversed(messages) if m.get("role") == "user"), ""))
    orders = dict(_ORDER.findall(asked))
    reasoning = orders.get("reason", "")
    if not reasoning and _wants_reasoning(request):
        reasoning = THOUGHT
    if "refuse" in orders:
        return Said(refusal=orders["refuse"] or REFUSAL, reasoning=reasoning)
    calls = _calls(request, asked, orders.get("call"))
    if calls:
        forced = isinstance(request.get("tool_choice"), Mapping)
        return Said(calls=calls, reasoning=reasoning, finish="stop" if forced else "tool_calls")
    text = orders["say"] if "say" in orders else _text(request, asked)
    return _cut(request, text, Said(reasoning=reasoning))


def _wants_reasoning(request: Request) -> bool:
    return request.get("reasoning_effort") not in {None, "none"} or bool(request.get("reasoning"))


def _text(request: Request, asked: str) -> str:
    match request.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return json.dumps(sample(schema), ensure_ascii=False)
        case {"type": "json_object"}:
            found = _OBJECT.search(asked)
            return found[0] if found else json.dumps({"answer": asked}, ensure_ascii=False)
    if exactly := _EXACTLY.search(asked):
        return exactly[1]
    last = request.get("messages", [{}])[-1]
    if last.get("role") == "tool":
        return f"The tool said: {text_of(last.get('content'))}"
    return f"You said: {_DIRECTIVE.sub('', asked)}".rstrip()


def _cut(request: Request, text: str, like: Said) -> Said:
    stops = request.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        text = text.split(stop, 1)[0]
    finish = like.finish
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    if limit and len(tokens_of(text)) > limit:
        text, finish = "".join(tokens_of(text)[:limit]), "length"
    return Said(text, like.refusal, like.reasoning, like.calls, finish)


def _calls(request: Request, asked: str, ordered: str | None) -> tuple[ToolCall, ...]:
    tools = {
        tool["function"]["name"]: tool["function"].get("parameters", {})
        for tool in request.get("tools") or []
        if tool.get("type") == "function"
    }
    after_results = (request.get("messages") or [{}])[-1].get("role") == "tool"
    named = [name for name in tools if name in asked and not after_results]
    if ordered and not after_results:
        named = ordered.split(",")
    match request.get("tool_choice"):
        case "none":
            named = []
        case {"function": {"name": name}}:
            named = [name]
        case "required" if not named:
            named = list(tools)[-1:] if after_results else list(tools)[:1]
    if request.get("parallel_tool_calls") is False:
        named = named[:1]
    return tuple(
        ToolCall(f"call_{number}", name, json.dumps(sample(tools[name]), ensure_ascii=False))
        for number, name in enumerate(named, start=1)
        if name in tools
    )
