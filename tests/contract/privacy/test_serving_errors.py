"""No error, record or reply tells a secret or a text where a client errs or our own code breaks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from casework.errors import CaseworkError
from casework.facade.client_keys import ANONYMOUS
from casework.facade.durable_calls import DurableKey, durable_key
from casework.facade.request_scope import scope_of
from casework.gateway.chat.calls import ChatCall, ChatReply, EmbeddingCall, EmbeddingReply
from casework.gateway.chat.request import ChatRequest, read_chat_request
from casework.gateway.clock import Deadline
from casework.gateway.embeddings.request import read_embedding_request
from casework.gateway.messages import Credential, ProviderCall, ProviderReply
from casework.gateway.scope import Scope
from tests.contract.privacy.marked_mistakes import BODIES, HEADERS, INPUTS, SCHEMAS
from tests.contract.privacy.marks import Mark, everything_told, found_in
from tests.contract.privacy.test_canary_api import Listener, listener
from tests.facade.serving import Facade, Told, facade

__all__ = ["listener"]


def _refusals() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield everything that reads what a client sent, beside what it cannot read."""
    bodies = {**BODIES, **INPUTS}
    for name, schema in SCHEMAS.items():
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        message = {"role": "user", "content": Mark.DOCUMENT}
        bodies[f"schema {name}"] = {"model": "m", "messages": [message], "response_format": form}
    for name, value in bodies.items():
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        for engine in ("jsonschema-rs", "jsonschema"):
            yield f"{engine} {name}", partial(read_chat_request, body, engine=engine)
        yield f"vectors {name}", partial(read_embedding_request, body)
    for name, fields in HEADERS.items():
        headers = {field.lower().encode(): value.encode() for field, value in fields}
        yield f"name {name}", partial(durable_key, headers, client="a", stream=False)
        yield f"scope {name}", partial(scope_of, _visit(headers), None)
    latin = {b"idempotency-key": Mark.CALL.encode() + b"\xe9"}
    yield "latin", partial(durable_key, latin, client="a", stream=False)


def _visit(headers: dict[bytes, bytes]) -> Any:
    return SimpleNamespace(exchange=SimpleNamespace(headers=headers), client=ANONYMOUS)


def test_no_refusal_holds_what_was_sent() -> None:
    """Neither an error, nor those behind it, nor their fields hold a value; names of places do."""
    told: dict[str, CaseworkError] = {}
    for name, read in _refusals():
        try:
            read()
        except CaseworkError as error:
            told[name] = error
    for name, refusal in told.items():
        allowed = {Mark.MEMBER} if "schema " in name else set()
        assert found_in(everything_told(refusal)) <= allowed, name
    assert {
        *("invalid_json", "invalid_type", "invalid_value", "missing_required_parameter"),
        *("empty_string", "schema_not_allowed", "invalid_header", "duplicate_member"),
    } <= {refusal.code for refusal in told.values()}


SETTINGS: Final = """
privacy_profile = "cloud_allowed"
[embeddings]
window_seconds = 0
[[providers]]
id = "broken"
adapter = "broken"
model = "m"
api_key_env = "BROKEN_KEY"
"""


class _BrokenStream:
    """Says one thing, then breaks."""

    dropped = ()

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def events(self) -> AsyncIterator[list[bytes]]:
        """Yield a chunk, then fail with all that is known."""
        delta = {"content": Mark.ANSWER}
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield [json.dumps({"id": "a", "created": 1, "model": "m", "choices": [choice]}).encode()]
        raise RuntimeError(self._secret, Mark.BODY)

    def close(self) -> None:
        """Nothing is held."""


class Broken:
    """An adapter that breaks in the worst of ways: with everything that it knows in its error."""

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        """Fail."""
        _fail(call, credential)

    async def open_stream(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> _BrokenStream:
        """Fail at once, or in the middle where that is asked for."""
        if b"later" not in call.members["messages"]:
            _fail(call, credential)
        assert credential is not None
        return _BrokenStream(credential.secret)

    async def embed(
        self, call: EmbeddingCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EmbeddingReply:
        """Fail."""
        _fail(call, credential)

    async def models(self, *, credential: Credential | None, deadline: Deadline) -> tuple[str, ...]:
        """Fail."""
        _fail(None, credential)

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Fail."""
        _fail(call, credential)

    async def aclose(self) -> None:
        """Nothing is held."""


def _fail(call: object, credential: Credential | None) -> NoReturn:
    raise RuntimeError(call, credential and credential.secret, vars_of(call), Mark.ADDRESS)


def vars_of(call: object) -> object:
    """Return the texts of a call, which its own printing leaves out."""
    return getattr(call, "members", None), getattr(call, "inputs", None)


class BrokenKeeper:
    """Keeps calls, and breaks with all that it was given."""

    async def answer(self, request: ChatRequest, *, scope: Scope, key: DurableKey) -> NoReturn:
        """Fail."""
        raise RuntimeError(request.members, key, Mark.ADDRESS)


async def _everything_breaks(served: Facade) -> dict[str, Told]:
    message = {"role": "user", "content": Mark.DOCUMENT}
    later = {"role": "user", "content": f"{Mark.DOCUMENT} later"}
    await served.gateway.maintain()
    return {
        "whole": await served.chat(messages=[message]),
        "stream": await served.chat(messages=[message], stream=True),
        "later": await served.chat(messages=[later], stream=True),
        "kept": await served.chat({"Idempotency-Key": Mark.CALL}, messages=[message]),
        "vectors": await served.post("/v1/embeddings", {"model": "m", "input": Mark.DOCUMENT}),
    }


async def test_a_defect_is_told_by_its_type(listener: Listener, tmp_path: Path) -> None:
    """Clients hear of an internal error, and the log of a type, whatever stands in the message."""
    environ = {"BROKEN_KEY": f"sk-{Mark.KEY}"}
    async with facade(
        SETTINGS,
        tmp_path,
        environ=environ,
        durable=BrokenKeeper(),
        adapters={"broken": lambda _: Broken()},
    ) as served:
        replies = await _everything_breaks(served)
        lines = list(served.lines)
    for name, reply in replies.items():
        told = f"{reply.status} {reply.headers}".encode() + reply.body
        assert found_in(told) <= ({Mark.ANSWER} if name == "later" else set()), name
        assert b'"error":' in reply.body
    assert b"RuntimeError" in listener.told()
    assert frozenset() == found_in(listener.told())
    assert frozenset() == found_in(repr(lines).encode())
