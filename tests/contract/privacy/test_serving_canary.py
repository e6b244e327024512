"""No secret and no text is told or written where it does not belong, whatever clients meet."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest

from casework.gateway.errors import FailureKind
from tests.contract.privacy.faulty_service import STREAM_FAULTS, faulty_service
from tests.contract.privacy.faulty_upstream import FAULTS, stall
from tests.contract.privacy.guarded import Ended, guarded
from tests.contract.privacy.guarded_service import guarded_service
from tests.contract.privacy.marked_mistakes import every_mistake, every_view
from tests.contract.privacy.marked_project import KEY_LOG
from tests.contract.privacy.marked_service import (
    ENVIRON,
    KINDS,
    PASSED_ON,
    Aftermath,
    Clients,
    every_fault,
    kept_again,
    marked_settings,
    write_marked_service,
)
from tests.contract.privacy.marked_troubles import (
    clients_leave,
    disk_refuses,
    keys_are_damaged,
)
from tests.contract.privacy.marks import Mark, files_in, found_in, leaks
from tests.contract.privacy.socket_guard import Sign, refused
from tests.contract.privacy.test_socket_guard import closed_port
from tests.support.raw_server import Heard, RawServer, certificate

SERVED: Final = (("asyncio", "--debug"), ("uvloop", "-v"))
"""The event loop, and how much is to be told: with ``--debug`` all libraries are listened to."""

SHOWN: Final[dict[str, frozenset[Mark]]] = {
    "logs --requests -v": frozenset({Mark.MODEL}),
    "logs --requests --json": frozenset({Mark.MODEL, Mark.REQUEST}),
    "logs -v": frozenset({Mark.CALL}),
    "logs --json": frozenset({Mark.CALL}),
    "status --json": frozenset(),
    "audit --all -v": frozenset({Mark.CALL, Mark.MODEL}),
    "audit --all --json": frozenset({Mark.CALL, Mark.MODEL}),
    "verify --all --json": frozenset({Mark.CALL}),
    f'inspect "case {Mark.CALL} 1" --json': frozenset({Mark.CALL}),
    f'inspect "case {Mark.CALL} 1" --timeline': frozenset({Mark.CALL}),
    "export": frozenset(),
    "keys list": frozenset(),
    "keys list --json": frozenset(),
    "explain --json": frozenset(),
    "doctor -v": frozenset(),
}
"""What is typed afterwards, and the names that clients gave which it exists to show."""


async def play(folder: Path, loop: str, flag: str) -> Aftermath:
    """Let every fault, mistake and trouble happen to clients of one service, then look at it."""
    project = folder / "project"
    context, _ = certificate(folder)
    with closed_port() as port:
        async with (
            faulty_service() as faulty,
            RawServer([stall]) as stalled,
            RawServer([stall], tls=context) as unproven,
        ):
            settings = marked_settings(
                faulty=faulty.port, stalled=stalled.port, refused=port, unproven=unproven.port
            )
            write_marked_service(project, settings)
            async with (
                guarded_service(project, flag, loop=loop, environ=ENVIRON) as service,
                service.client() as client,
            ):
                await service.until_discovered(client)
                clients = Clients(client)
                faults = tuple(every_fault())
                for asked in (*faults, *kept_again(faults), *every_mistake(), *every_view()):
                    await clients.send(asked)
                await clients_leave(service.port, stalled)
                await disk_refuses(clients, project / "runtime")
                await keys_are_damaged(clients, project / "runtime")
                command_line = _command_line(service.process.pid)
            assert [] == unproven.heard
            heard = (*faulty.heard, *stalled.heard)
    assert service.ended is not None
    said = await asyncio.gather(*(_typed(project, line) for line in SHOWN))
    return Aftermath(
        clients.replies,
        service.ended,
        dict(zip(SHOWN, said, strict=True)),
        files_in(project, without=("config", "data")),
        {f"{number} {one.line}": _bytes_of(one) for number, one in enumerate(heard)},
        command_line,
    )


async def _typed(project: Path, line: str) -> Ended:
    return await guarded(project, "casework", *shlex.split(line), environ=ENVIRON)


def _bytes_of(heard: Heard) -> bytes:
    fields = "".join(f"{name}: {value}\n" for name, value in heard.headers.items())
    return f"{heard.line}\n{fields}\n".encode() + heard.body


def _command_line(process: int) -> bytes:
    """Return the words of a process, which everybody on the machine can read."""
    return Path(f"/proc/{process}/cmdline").read_bytes()


@pytest.fixture(scope="module", params=SERVED, ids=" ".join)
def aftermath(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Aftermath:
    """Let everything happen once."""
    return asyncio.run(play(tmp_path_factory.mktemp("served"), *request.param))


CODES: Final = {
    FailureKind.CONTEXT_TOO_LONG: "context_length_exceeded",
    FailureKind.REFUSAL: "content_filter",
    FailureKind.HTTP_429: "rate_limit_exceeded",
}
"""Codes that clients are told in OpenAI's words."""


def test_every_failure_happened_and_was_told_as_what_it_is(aftermath: Aftermath) -> None:
    """A request with a schema fails of each fault with its code; others end as they can."""
    for fault, expected in FAULTS.items():
        status, code = _told(aftermath, f"judged {fault}")
        if fault in PASSED_ON:
            assert (200, None) == (status, code)
        elif fault != "blank":
            assert expected.kind is not None
            assert CODES.get(expected.kind, expected.kind.value) == code, fault
    for kind in set(KINDS) - {"stream"}:
        assert (503, "unavailable") == _told(aftermath, f"{kind} everybody"), kind
    for name in (*STREAM_FAULTS, "everybody", "stalled"):
        _, reply = aftermath.replies[f"stream {name}"]
        assert b'"error":' in reply.body, name
    lines = _lines(aftermath)
    failed = {attempt["code"] for line in lines for attempt in line["failures"]}
    assert {"connect_error", "dns_error", "timeout", "http_5xx", "tls_error"} <= failed
    codes = {line["code"] for line in lines}
    kinds = {fault.kind.value for fault in FAULTS.values() if fault.kind is not None}
    assert kinds - set(CODES) <= codes | {"truncated", "empty_response"}
    assert {"client_left", "invalid_api_key", "model_not_found"} <= codes


def _lines(aftermath: Aftermath) -> list[Any]:
    """Return every line of the request log."""
    logs = [
        content
        for name, content in aftermath.files.items()
        if name.startswith("runtime/logs/requests.")
    ]
    return [json.loads(line) for line in b"".join(logs).splitlines()]


def _told(aftermath: Aftermath, name: str) -> tuple[int, Any]:
    _, reply = aftermath.replies[name]
    return reply.status, reply.json.get("error", {}).get("code")


def test_what_is_kept_is_told_again_and_nothing_else(aftermath: Aftermath) -> None:
    """A recorded answer comes again with its headers; another request under its key is refused."""
    for fault in ("accepted", "filtered", "no-json"):
        (_, first), (_, again) = (aftermath.replies[f"kept {fault}{n}"] for n in ("", " again"))
        assert (200, first.body, "true") == (
            again.status,
            again.body,
            again.headers["x-casework-reused"],
        )
    assert (409, "idempotency_conflict") == aftermath.replies["kept conflict"][1].error


def test_troubles_were_met(aftermath: Aftermath) -> None:
    """The disk did refuse, the keys were damaged, and who needs neither went on being served."""
    for kind in KINDS:
        refused = aftermath.replies[f"{kind} while the disk refuses"][1]
        assert (503 if kind == "kept" else 200) == refused.status, refused.content
        assert 200 == aftermath.replies[f"{kind} when the disk is back"][1].status
        assert (503, "client_keys_damaged") == _told(
            aftermath, f"{kind} while the keys are damaged"
        )
        assert 200 == aftermath.replies[f"{kind} by the key beside the file"][1].status


def test_the_marks_did_travel(aftermath: Aftermath) -> None:
    """Keys, texts, answers and names were where they belong, so a leak had a chance."""
    everything = b"".join(aftermath.heard.values())
    everything += b"".join(asked.request for asked, _ in aftermath.replies.values())
    everything += b"".join(reply.content for _, reply in aftermath.replies.values())
    assert set(Mark) - {Mark.NEIGHBOUR, Mark.HOST, Mark.HEADER, Mark.STATUS, Mark.BODY} == found_in(
        everything
    )


def test_no_reply_tells_more_than_its_answer(aftermath: Aftermath) -> None:
    """Status lines, headers and bodies hold what a client wrote itself, or an answer to it."""
    told = [
        leak
        for name, (asked, reply) in aftermath.replies.items()
        for leak in leaks({name: reply.content}, asked.allowed)
    ]
    assert [] == told


def test_no_server_is_sent_more_than_its_request(aftermath: Aftermath) -> None:
    """Heads hold our own address and key, bodies what was asked; nothing else of a client."""
    for name, content in aftermath.heard.items():
        head, _, body = content.partition(b"\n\n")
        assert {Mark.ADDRESS, Mark.KEY} == found_in(head), name
        assert found_in(body) <= {Mark.DOCUMENT, Mark.TASK, Mark.MODEL, Mark.MEMBER}, name
        names = {line.partition(b":")[0] for line in head.splitlines()[1:]}
        assert names <= FIELDS, name


FIELDS: Final = {
    *(b"host", b"accept", b"accept-encoding", b"user-agent", b"authorization"),
    *(b"content-type", b"content-length", b"connection"),
}
"""All headers that a server is ever sent."""


def test_nobody_was_turned_to_but_who_is_configured(aftermath: Aftermath) -> None:
    """Redirects and other words of servers lead nowhere; one configured name is looked up."""
    out = {(seen.sign, seen.target) for seen in refused(aftermath.ended.sightings)}
    assert {(Sign.LOOK_UP, f"{Mark.HOST}.example")} == out


def test_the_process_says_nothing(aftermath: Aftermath) -> None:
    """Neither its streams, with all libraries listened to, nor its command line hold a mark."""
    said = {"stdout": aftermath.ended.stdout, "stderr": aftermath.ended.stderr}
    assert [] == leaks({**said, "command line": aftermath.command_line})
    assert b"Traceback" not in aftermath.ended.stderr
    assert 0 == aftermath.ended.code


def test_no_file_holds_what_it_should_not(aftermath: Aftermath) -> None:
    """Texts of kept calls lie in their packages, and names where names belong."""
    found = [
        leak
        for name, content in aftermath.files.items()
        for leak in leaks({name: content, f"name {name}": name.encode()}, _place(name))
    ]
    assert [] == found
    assert b"" == aftermath.files.get(KEY_LOG, b"")


def _place(name: str) -> frozenset[Mark]:
    """Return the marks that may stand in a file that the service writes, and in its name."""
    path = PurePosixPath(name.partition("!")[0])
    if path.name == "request.json":
        return _CALL | {Mark.DOCUMENT, Mark.TASK, Mark.MEMBER}
    if path.name.startswith("outcome-"):
        return _CALL | {Mark.ANSWER, Mark.EXTRA, Mark.REJECTED}
    if "cases" in path.parts or path.name.startswith("index.sqlite3") or path.name == "llm.jsonl":
        return frozenset({Mark.CALL})
    if path.name.startswith("requests."):
        return frozenset({Mark.MODEL, Mark.REQUEST})
    return frozenset()


_CALL: Final = frozenset({Mark.CALL, Mark.MODEL})
"""What a kept call was named, and whom it asked for."""


def test_the_request_log_holds_names_in_their_places(aftermath: Aftermath) -> None:
    """A client's id and the model it asked for, where there is one; every other field is ours."""
    told = _lines(aftermath)
    for one in {_without_times(one) for one in told}:
        places = {name for name, value in one if found_in(value.encode())}
        assert places <= {"request_id", "asked_model", "model"}, one
    assert {None} == {one["asked_model"] for one in told if one["code"] == "model_not_found"}
    asked = Counter(one["route"] for one in told)
    assert asked["/v1/chat/completions"] > (len(KINDS) - 1) * len(FAULTS)
    assert asked["/v1/embeddings"] > len(FAULTS)


def _without_times(told: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return the fields of a line that tell it from others of its kind."""
    times = {"ts", "elapsed_ms", "upstream_ms"}
    return frozenset((name, str(value)) for name, value in told.items() if name not in times)


@pytest.mark.parametrize("line", SHOWN)
def test_no_verb_says_what_it_should_not(aftermath: Aftermath, line: str) -> None:
    """Whoever looks at the project afterwards sees names, and neither texts nor secrets."""
    ended: Ended = aftermath.said[line]
    assert ended.code in {0, 2}, ended.stderr.decode()
    assert b"[usage]" not in ended.stderr
    assert SHOWN[line] == found_in(ended.stdout + ended.stderr)
