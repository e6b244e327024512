"""No secret and no text is told by exceptions and log records, whatever fails: the library."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from casework import CaseLLMRunner, CheckpointStore, GatewayConfig, LLMGateway, PromptBuilder
from casework.checkpoints.change import Change
from casework.checkpoints.disk import ObservedDisk
from casework.checkpoints.records import CommitKind
from casework.errors import (
    CaseworkError,
    FormatError,
    IllegalTransition,
    IntegrityError,
    InvalidRequest,
    LockBusy,
    NotDue,
    OperationConflict,
    PackageNotFound,
    StaleGeneration,
    StorageError,
)
from casework.gateway.clock import Deadline, SystemClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, LLMRequest, Message, ProviderCall, ProviderReply
from casework.gateway.outcomes import RoundErred, RoundOutcome, RoundSucceeded, RoundUnavailable
from casework.gateway.providers.scripted import Computed, ScriptedProvider
from casework.gateway.transport import HTTPRequest, HTTPTransport
from casework.strict_json import JSONObject
from tests.contract.privacy.faulty_upstream import ANSWER, FAULTS, document, faulty_server, stall
from tests.contract.privacy.marked_project import entry
from tests.contract.privacy.marks import Mark, everything_told, found_in
from tests.support.raw_server import RawServer, certificate
from tests.support.scripted_line import Line, request

ENVIRON: Final = {"FAULTY_KEY": f"sk-{Mark.KEY}"}
SCHEMA: Final[JSONObject] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def asked(fault: str = "accepted") -> LLMRequest:
    """Return a request whose every text is a mark, and that wishes for a fault."""
    messages = (Message("system", Mark.TASK), Message("user", document(fault)))
    return request(messages=messages, output_schema=SCHEMA)


class Listener(logging.Handler):
    """Hears every record of every logger, and keeps all that it can be made to say."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record with its arguments, its extra fields and its traceback."""
        told = logging.Formatter().format(record)
        self.heard.append(f"{record.name}: {told} {record.__dict__!r}")

    def told(self) -> bytes:
        """Return everything that was heard."""
        return "\n".join(self.heard).encode("utf-8", "backslashreplace")


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    """Listen to all loggers at the finest level, with the event loop in its debug mode."""
    made, root = Listener(), logging.getLogger()
    level, loop = root.level, asyncio.get_running_loop()
    root.addHandler(made)
    root.setLevel(logging.DEBUG)
    loop.set_debug(True)
    yield made
    loop.set_debug(False)
    root.setLevel(level)
    root.removeHandler(made)


async def round_at(origin: str, fault: str = "accepted", *more: str) -> RoundOutcome:
    """Ask a server once, through the gateway."""
    config = GatewayConfig.parse(entry("faulty", origin, *more))
    async with LLMGateway(config, environ=ENVIRON) as gateway:
        plan = gateway.plan(asked(fault))
        assert frozenset() == found_in(json.dumps(plan.configuration).encode())
        return await gateway.complete_round(asked(fault), plan=plan)


def kind_of(outcome: RoundOutcome) -> FailureKind | None:
    """Return how the one call of a round failed, None if it did not."""
    match outcome:
        case RoundSucceeded():
            return None
        case RoundErred(final=final):
            return final.kind
        case RoundUnavailable(attempts=attempts):
            return attempts[0].kind


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_record_tells_what_upstream_said(listener: Listener, fault: str) -> None:
    """Whatever a server says, no logger at any level repeats it, nor the key, nor the document."""
    seconds = 0.3 if fault == "stalled" else 20.0
    async with faulty_server() as server:
        origin = f"http://127.0.0.1:{server.port}"
        outcome = await round_at(origin, fault, f"timeout_seconds = {seconds}")
        assert 1 == len(server.heard)
    assert FAULTS[fault].kind == kind_of(outcome)
    assert frozenset() == found_in(listener.told())
    allowed = {Mark.ANSWER} if fault == "accepted" else set()
    assert allowed == found_in(repr(outcome).encode())
    assert any(line.startswith("asyncio: ") for line in listener.heard)


async def test_no_record_tells_whom_a_certificate_names(listener: Listener, tmp_path: Path) -> None:
    """A server without proof is refused without a word about it."""
    context, _ = certificate(tmp_path)
    async with RawServer([stall], tls=context) as server:
        outcome = await round_at(f"https://127.0.0.1:{server.port}")
        assert [] == server.heard
    assert FailureKind.TLS_ERROR is kind_of(outcome)
    assert frozenset() == found_in(listener.told())


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "stalled"])
async def test_no_failure_of_a_call_tells_anything(listener: Listener, fault: str) -> None:
    """What the transport raises holds a kind and a number, in whichever way it is printed."""
    failure: ProviderFailure | None = None
    async with faulty_server() as server:
        url = f"http://127.0.0.1:{server.port}/{Mark.ADDRESS}/v1/chat/completions"
        sent = HTTPRequest(
            url, document(fault).encode(), Credential("label", f"sk-{Mark.KEY}"), 8192
        )
        transport = HTTPTransport()
        try:
            await transport.post_json(sent, deadline=Deadline.after(20, SystemClock()))
        except ProviderFailure as error:
            failure = error
        await transport.aclose()
    assert frozenset() == found_in(repr(sent).encode())
    assert frozenset() == found_in(listener.told())
    if failure is not None:
        assert frozenset() == found_in(everything_told(failure))
        assert failure.__context__ is None
        assert failure.__cause__ is None


async def test_a_call_that_is_cancelled_tells_nothing(listener: Listener) -> None:
    """Ending a call in its middle leaves no record behind that says what was in the air."""
    async with RawServer([stall]) as server:
        task = asyncio.create_task(round_at(f"http://127.0.0.1:{server.port}"))
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        await server.gone.wait()
    assert frozenset() == found_in(everything_told(caught.value))
    assert frozenset() == found_in(listener.told())


class Defect:
    """An adapter that breaks in the worst of ways: with everything that it knows in its error."""

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Fail with the key, the document and the address in the message."""
        assert credential is not None
        raise RuntimeError(credential.secret, call.messages, Mark.ADDRESS, Mark.BODY)

    async def aclose(self) -> None:
        """Nothing is held."""


async def test_a_defect_of_an_adapter_is_told_by_its_type(listener: Listener) -> None:
    """An unexpected error becomes ``unknown``, and the record of it names its type alone."""
    config = GatewayConfig.parse(
        'privacy_profile = "cloud_allowed"\n[[providers]]\nid = "foreign"\n'
        'adapter = "foreign"\nmodel = "m"\napi_key_env = "FAULTY_KEY"\n'
    )
    gateway = LLMGateway(config, adapters={"foreign": lambda _: Defect()}, environ=ENVIRON)
    outcome = await gateway.complete_round(asked())
    assert FailureKind.UNKNOWN is kind_of(outcome)
    assert b"RuntimeError" in listener.told()
    assert frozenset() == found_in(listener.told())
    assert frozenset() == found_in(repr(outcome).encode())


RULES: Final = """
format = "casework-rules/1"
[[fields]]
name = "answer"
required = true
[[fields.rules]]
pattern = 'no such passage'
value = "x"
"""


@pytest.mark.parametrize(
    ("adapter", "content", "kind"),
    [
        ("rules", RULES, FailureKind.NO_EVIDENCE),
        ("replay", "", FailureKind.REPLAY_MISS),
        ("scripted", '{"steps": []}', FailureKind.UNKNOWN),
    ],
)
async def test_failures_of_this_process_tell_nothing(
    listener: Listener, tmp_path: Path, adapter: str, content: str, kind: FailureKind
) -> None:
    """The kinds that no server can cause are as silent as the others."""
    (tmp_path / "answers").write_text(content, encoding="utf-8")
    (tmp_path / "llm.toml").write_text(
        f'[[providers]]\nid = "a"\nadapter = "{adapter}"\nfile = "answers"\n', encoding="utf-8"
    )
    gateway = LLMGateway(GatewayConfig.load(tmp_path / "llm.toml"), environ=ENVIRON)
    outcome = await gateway.complete_round(asked())
    assert kind is kind_of(outcome)
    assert frozenset() == found_in(repr(outcome).encode() + listener.told())


def test_printing_settings_and_keys_shows_neither_address_nor_secret() -> None:
    """The repr of a configuration, a provider, a gateway or a credential holds no mark."""
    config = GatewayConfig.parse(entry("faulty", f"https://{Mark.HOST}.example"))
    gateway = LLMGateway(config, environ=ENVIRON)
    credential = Credential("FAULTY_KEY#1", f"sk-{Mark.KEY}")
    shown = (config, config.providers[0], gateway, vars(gateway)["config"], credential)
    for value in shown:
        assert frozenset() == found_in(f"{value!r} {value!s}".encode())


async def _lock_busy(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    with line.store.lock(head.case_id):
        await line.run(head, asked=asked())


async def _conflict(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    await line.run(head, asked=asked())
    await line.run(head, asked=asked("http-500"))


async def _stale(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    other = CheckpointStore(line.root / "runtime", now=line.clock.now)

    def commit_first(_call: ProviderCall) -> str:
        change = Change(
            case_id=head.case_id,
            package_id=head.package_id,
            expected_generation=head.generation,
            kind=CommitKind.PHASE_CHANGED,
            at=line.clock.now(),
            operations={},
            files=(),
            phase="REVIEW",
        )
        other.commit(change)
        return json.dumps(ANSWER)

    line.providers["a"] = ScriptedProvider([Computed(commit_first)], clock=line.clock)
    await line.run(head, asked=asked())


async def _damaged_input(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    path = line.folder() / "original" / "report.txt"
    path.write_bytes(path.read_bytes().upper())
    line.store.read_file(head.case_id, "original/report.txt")


async def _damaged_outcome(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    await line.run(head, asked=asked())
    for path in line.folder().glob("llm/operations/*/outcome-*.json"):
        path.write_bytes(path.read_bytes().upper())
    await line.run(head, asked=asked())


async def _other_inputs(line: Line) -> None:
    line.add(text=Mark.DOCUMENT)
    line.add(text=f"{Mark.DOCUMENT} again")


async def _no_package(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    await line.run(replace(head, package_id="0" * 64), asked=asked())


async def _not_due(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    await line.run(head, "down", asked("http-500"))
    line.store.resume(head.case_id, head.package_id, "down", new_operation_id="again")


async def _illegal(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    await line.run(head, asked=asked())
    line.store.resume(head.case_id, head.package_id, "extract", new_operation_id="again")


async def _full_disk(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)

    def full(_call: object, _moment: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = CheckpointStore(line.root / "runtime", now=line.clock.now, disk=ObservedDisk(full))
    await CaseLLMRunner(store, line.gateway).run(
        head.case_id, head.package_id, operation_id="extract", request=asked()
    )


async def _no_archive(line: Line) -> None:
    path = line.root / "sealed.zip"
    path.write_text(Mark.DOCUMENT, encoding="utf-8")
    line.store.receive(path)


async def _bad_schema(line: Line) -> None:
    head = line.add(text=Mark.DOCUMENT)
    schema: JSONObject = {"type": Mark.REJECTED, "description": Mark.TASK, "default": Mark.DOCUMENT}
    await line.run(head, asked=replace(asked(), output_schema=schema))


async def _bad_data(_line: Line) -> None:
    PromptBuilder().build(Mark.TASK, {Mark.DOCUMENT: float("nan"), "b": Mark.DOCUMENT}, SCHEMA)


STOPS: Final[dict[str, tuple[Callable[[Line], Any], type[CaseworkError]]]] = {
    "locked": (_lock_busy, LockBusy),
    "changed": (_conflict, OperationConflict),
    "overtaken": (_stale, StaleGeneration),
    "damaged input": (_damaged_input, IntegrityError),
    "damaged outcome": (_damaged_outcome, IntegrityError),
    "other inputs": (_other_inputs, FormatError),
    "no package": (_no_package, PackageNotFound),
    "not due": (_not_due, NotDue),
    "not stopped": (_illegal, IllegalTransition),
    "full disk": (_full_disk, StorageError),
    "no archive": (_no_archive, FormatError),
    "bad schema": (_bad_schema, InvalidRequest),
    "bad data": (_bad_data, InvalidRequest),
}
"""What stops work on a case, and the exception that tells of it."""


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """Return a runner over one provider that answers with marks, and fails where wished for."""

    def step(call: ProviderCall) -> str:
        if "http-500" in call.messages[-1].content:
            raise ProviderFailure(FailureKind.HTTP_5XX, http_status=500)
        return json.dumps(ANSWER)

    return Line(tmp_path, {"a": [Computed(step)]}, settings="[retry]\nmax_attempts = 1")


@pytest.mark.parametrize("stop", STOPS)
async def test_what_stops_work_tells_no_text(listener: Listener, line: Line, stop: str) -> None:
    """Neither the exception, nor those behind it, nor any record holds a text."""
    work, expected = STOPS[stop]
    with pytest.raises(expected) as caught:
        await work(line)
    assert frozenset() == found_in(everything_told(caught.value))
    assert caught.value.code in str(caught.value)
    assert frozenset() == found_in(listener.told())
