"""Chunks of a stream: checked as they come, and written for the client."""

from __future__ import annotations

from typing import Final

from casework.gateway.chat.completion import (
    finish_of,
    logprobs_of,
    malformed,
    object_in,
    put_function_right,
    put_head_right,
    put_text_right,
    usage_of,
)
from casework.gateway.chat.json_members import (
    EMPTY_TEXT,
    MISFIT,
    NOT_JSON,
    NULL,
    Members,
    Raw,
    digest_of,
    integer_or_none,
    is_list,
    is_null,
    is_text,
    items_of,
    members_of,
    raw,
    says_something,
    text_or_none,
    without_lone_surrogates,
    written,
)
from casework.gateway.chat.request import CHOICES_MAX
from casework.gateway.chat.told_errors import error_in
from casework.gateway.chat.tool_call_indexes import ToolCallIndexes, renumbered
from casework.gateway.chat.wire_shapes import UNSET, ChunkChoice, ChunkShape, Delta, read_chunk
from casework.gateway.messages import Usage

DONE: Final = b"[DONE]"
DONE_EVENT: Final = b"data: [DONE]\n\n"

EARLY_MAX: Final = 16
"""Most chunks that may come before the one that names the stream."""

_KIND: Final = raw("chat.completion.chunk")
_NULL_USAGE: Final = b',"usage":null'
_NO_MODEL: Final = b"\n"
"""Stands in no chunk, since the line feeds of each are replaced."""
_ROLES: Final = frozenset({"developer", "system", "user", "assistant", "tool"})


class ChunkWriter:
    """Turns the events of one upstream stream into those that the client is sent.

    Usage is kept back and told once, after everything else, to a client that asked for it.

    Args:
        model: As the client wrote it.
        include_usage: Whether the client asked for the usage.
        created: Time of the answer (Unix), for a server that names none.
    """

    def __init__(self, model: str, *, include_usage: bool, created: int) -> None:
        self._model = raw(model)
        self._include_usage = include_usage
        self._created = created
        self._id: str | None = None
        self._theirs = _NO_MODEL
        """The member by which the server names its model, and which stands once in a chunk."""
        self._ours = b'"model":' + bytes(self._model)
        self._early: list[dict[str, object]] = []
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._cut_off = False
        self._calls: dict[int, ToolCallIndexes] = {}
        self._usage_chunk: dict[str, object] = {}
        self._visible_usage: Raw | None = None
        self.usage: Usage | None = None
        """The last that the server told."""
        self.sound = False
        """Whether anything was said that a client can see."""
        self.done = False
        """Whether the server said that the stream has ended."""
        self.chunks = 0
        """Events read."""

    @property
    def finished(self) -> int:
        """Return how many choices have ended; 0 while one that began has not."""
        return len(self._finished) if self._seen <= self._finished else 0

    @property
    def ended_early(self) -> bool:
        """Tell whether the model used up its tokens without a word that shows."""
        return self._cut_off and self.usage is not None and bool(self.usage.completion_tokens)

    def take(self, data: bytes) -> bytes:
        """Return the client's event for one of the server's; nothing where there is none.

        Raises:
            ProviderFailure: The server tells of an error, or the event is no chunk.
        """
        if data[:1] == b"[" and data.strip() == DONE:
            self.done = True
            return b""
        self.chunks += 1
        if b"\n" in data or b"\r" in data:
            data = data.replace(b"\n", b" ").replace(b"\r", b" ")
        try:
            if not data.isascii():
                data.decode("utf-8")
            chunk = read_chunk(data)
        except MISFIT:
            return self._mended(data)
        except NOT_JSON:
            return self._mended(without_lone_surrogates(data))
        slim = data if chunk.usage is UNSET else self._without_null_usage(data, chunk.usage)
        if slim.count(self._theirs) != 1 or not self._is_usual(chunk):
            return self._mended(data)
        self._note(chunk)
        return b"data: " + slim.replace(self._theirs, self._ours) + b"\n\n"

    def ending(self) -> bytes:
        """Return the last events of a stream that ended as it should."""
        if not self._include_usage or self._visible_usage is None:
            return DONE_EVENT
        chunk = {"choices": [], **self._usage_chunk, "usage": self._visible_usage}
        return self._event(chunk) + DONE_EVENT

    def _is_usual(self, chunk: ChunkShape) -> bool:
        """Tell whether nothing but the model has to be written anew."""
        if chunk.id != self._id or chunk.created != self._created:
            return False
        for choice in chunk.choices:
            delta = choice.delta
            if delta.function_call is not UNSET:
                return False
            if delta.tool_calls is not UNSET and delta.tool_calls:
                calls = self._calls.get(choice.index)
                if calls is None or not all(map(calls.goes_on_with, delta.tool_calls)):
                    return False
        return True

    def _without_null_usage(self, data: bytes, usage: Raw) -> bytes:
        """Return the chunk without a usage that is null; nothing where that takes more."""
        if bytes(usage) != b"null" or data.count(b'"usage"') != 1:
            return b""
        if self._include_usage:
            return data
        return data.replace(_NULL_USAGE, b"") if _NULL_USAGE in data else b""

    def _note(self, chunk: ChunkShape) -> None:
        """Take note of what a chunk says of its choices."""
        for choice in chunk.choices:
            if choice.finish_reason is not None:
                self._note_end(choice)
            if choice.index not in self._seen:
                if not 0 <= choice.index < CHOICES_MAX:
                    raise malformed()
                self._seen.add(choice.index)
            if not self.sound:
                self.sound = choice.finish_reason == "content_filter" or _is_visible(choice.delta)

    def _note_end(self, choice: ChunkChoice) -> None:
        self._finished.add(choice.index)
        self._cut_off = self._cut_off or choice.finish_reason == "length"

    def _mended(self, data: bytes) -> bytes:
        try:
            data.decode("utf-8")
            top = members_of(data)
            return self._completed(top, data)
        except NOT_JSON:
            raise malformed() from None

    def _completed(self, top: Members, data: bytes) -> bytes:
        failure = error_in(top, data)
        if failure is not None:
            raise failure
        told_usage = self._take_usage(top)
        choices = self._choices(top.get("choices"), data)
        self._learn_model(top.get("model"), data)
        put_head_right(top)
        chunk: dict[str, object] = {**top, "choices": choices}
        if told_usage and not choices:
            self._usage_chunk = chunk
            return b""
        if self._id is None and not choices and not text_or_none(top.get("id")):
            return self._kept_early(chunk)
        if self._id is None:
            self._identify(top, data)
        events = [self._event(early) for early in self._early]
        self._early.clear()
        event = self._event(chunk)
        self._note(read_chunk(event[len(b"data: ") :]))
        return b"".join([*events, event])

    def _kept_early(self, chunk: dict[str, object]) -> bytes:
        if len(self._early) >= EARLY_MAX:
            raise malformed()
        self._early.append(chunk)
        return b""

    def _identify(self, top: Members, data: bytes) -> None:
        """Take the stream's id and time from the first chunk that has them, or make them."""
        self._id = text_or_none(top.get("id")) or f"chatcmpl-{digest_of(data)}"
        self._created = integer_or_none(top.get("created")) or self._created

    def _learn_model(self, model: Raw | None, data: bytes) -> None:
        if model is None:
            return
        for colon in (b":", b": "):
            theirs = b'"model"' + colon + bytes(model)
            if data.count(theirs) == 1:
                self._theirs = theirs

    def _take_usage(self, top: Members) -> bool:
        """Take the usage out of a chunk; tell whether it held one."""
        value = top.pop("usage", None)
        if value is None or is_null(value):
            return False
        visible, record = usage_of(value)
        self._visible_usage = visible or self._visible_usage
        self.usage = record or self.usage
        return True

    def _choices(self, value: Raw | None, data: bytes) -> list[dict[str, object]]:
        if value is None or is_null(value):
            return []
        if not is_list(value):
            raise malformed()
        seed = digest_of(data)
        return [
            self._choice(object_in(item), position, seed)
            for position, item in enumerate(items_of(value))
        ]

    def _choice(self, choice: Members, position: int, seed: str) -> dict[str, object]:
        number = integer_or_none(choice.get("index"))
        index = position if number is None else number
        finish = choice.get("finish_reason")
        told: dict[str, object] = {
            **choice,
            "index": index,
            "delta": self._delta(choice.get("delta"), index, seed),
            "finish_reason": NULL,
        }
        if says_something(finish):
            otherwise = "tool_calls" if self._calls.get(index) else "stop"
            told["finish_reason"] = finish_of(finish, otherwise=otherwise)
        if "logprobs" in choice:
            told["logprobs"] = logprobs_of(choice["logprobs"])
        return told

    def _delta(self, value: Raw | None, index: int, seed: str) -> dict[str, object]:
        delta = {} if value is None or is_null(value) else object_in(value)
        if "role" in delta and text_or_none(delta["role"]) not in _ROLES:
            if says_something(delta["role"]):
                delta["role"] = raw("assistant")
            else:
                del delta["role"]
        put_text_right(delta)
        told: dict[str, object] = {**delta}
        if "tool_calls" in delta:
            calls = self._calls.setdefault(index, ToolCallIndexes())
            told["tool_calls"] = renumbered(delta["tool_calls"], calls, seed)
        if "function_call" in delta:
            function = object_in(delta["function_call"])
            if not is_text(function.get("name")):
                function.pop("name", None)
            put_function_right(function, missing_arguments=EMPTY_TEXT)
            told["function_call"] = function
        return told

    def _event(self, chunk: dict[str, object]) -> bytes:
        named = {"id": self._id, "object": _KIND, "created": self._created, "model": self._model}
        return b"data: " + written(chunk | named) + b"\n\n"


def _is_visible(delta: Delta) -> bool:
    """Tell whether a chunk adds anything that a client can see."""
    if delta.content or delta.refusal:
        return True
    if delta.tool_calls is not UNSET and delta.tool_calls:
        return True
    return any(
        part is not UNSET and says_something(part)
        for part in (
            delta.reasoning_content,
            delta.reasoning,
            delta.function_call,
            delta.audio,
        )
    )
