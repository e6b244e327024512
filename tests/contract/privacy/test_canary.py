"""No secret and no text is found where it does not belong, whatever fails: the command line."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from casework.gateway.errors import POLICY, FailureKind
from tests.contract.privacy.faulty_upstream import FAULTS, document, faulty_server, stall
from tests.contract.privacy.marked_project import KEY_LOG, MarkedProject, entry, every_mark, leaked
from tests.contract.privacy.marks import Mark, files_in, found_in, misplaced
from tests.contract.privacy.test_socket_guard import closed_port
from tests.support.raw_server import RawServer, certificate

BEFORE: Final = (
    ("refused", FailureKind.CONNECT_ERROR),
    ("unnamed", FailureKind.DNS_ERROR),
    ("stalled", FailureKind.TIMEOUT),
)
"""Who is asked before the faulty server, and how each of them fails."""

AFTER: Final = ("unproven", FailureKind.TLS_ERROR)
"""Who is asked after it, if it failed in a way that may pass."""

IN_PROCESS: Final = {
    FailureKind.DATA_MISSING,
    FailureKind.LIMIT_REACHED,
    FailureKind.NO_EVIDENCE,
    FailureKind.REPLAY_MISS,
    FailureKind.UNKNOWN,
}
"""Failures that no server can cause; they have a test of their own."""

WISHES: Final = tuple(name for name in FAULTS if name != "stalled")
"""Faults of the faulty server; that it never answers is shown by the one before it."""

SHOWN: Final[dict[str, tuple[Mark, ...]]] = {
    "init -v": (),
    "doctor -v": (),
    "doctor --json --probe": (),
    "explain -v": (),
    "explain --json --op ask": (),
    "import cases -v": (),
    "run --once -v --concurrency 16": (),
    "run --once --json --debug": (),
    "status -v": (),
    "status --json": (),
    "status --by reason -v": (),
    "status --by provider --json": (),
    "inbox list -v": (),
    "inbox list --json": (),
    "inbox show accepted.txt": (Mark.DOCUMENT, Mark.ANSWER),
    "inbox show wrong-name.txt --json": (Mark.DOCUMENT,),
    "inspect accepted.txt -v": (),
    "inspect wrong-name.txt --json": (),
    "inspect http-503.txt --timeline": (),
    "inspect accepted.txt --request": (Mark.DOCUMENT, Mark.TASK),
    "inspect accepted.txt --outcome": (Mark.ANSWER,),
    "inspect wrong-value.txt --outcome --raw": (),
    "inspect http-429.txt --outcome": (),
    "audit --all -v": (),
    "audit --all --format csv": (),
    "audit --all --json": (),
    "verify --all -v": (),
    "verify --all --json": (),
    "export": (Mark.ANSWER,),
    "export --format csv -o results.csv": (),
    "export -o results.jsonl --json": (),
    "export --format zip -o sealed -v": (),
    "verify sealed/accepted.txt.zip -v": (),
    "inspect sealed/accepted.txt.zip --json": (),
    "retry --failed -v": (),
    "run --once --debug --concurrency 16": (),
    "completion zsh": (),
}
"""What is typed in the project of all faults, in order, and the marks that it exists to show."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What is left when every fault has happened."""

    project: MarkedProject
    files: dict[str, bytes]
    keys_heard: frozenset[str]
    lines_heard: frozenset[str]

    def calls(self, case: str) -> list[tuple[str | None, str | None]]:
        """Return who was asked about a case in its first round, and with what result."""
        body = json.loads(self.one("runtime/cases/", f"/{case}.txt/", "outcome-0001.json"))
        calls = [(attempt["provider"], attempt["code"]) for attempt in body["attempts"]]
        return [*calls, (body["provider"], body["error"])]

    def one(self, *parts: str) -> bytes:
        """Return the only file whose name holds all of these parts, but for a second campaign."""
        named = [name for name in self.files if all(part in name for part in parts)]
        return self.files[named[0]]

    def marks_of(self, *parts: str) -> frozenset[Mark]:
        """Return the marks of that file."""
        return found_in(self.one(*parts))


async def play(folder: Path) -> Aftermath:
    """Let every fault happen to a case of its own, and look at it with every verb."""
    project = MarkedProject(folder / "project")
    context, _ = certificate(folder)
    with closed_port() as port:
        async with (
            faulty_server() as faulty,
            RawServer([stall]) as stalled,
            RawServer([stall], tls=context) as unproven,
        ):
            project.configure(
                'privacy_profile = "cloud_allowed"\n'
                + entry("refused", f"http://127.0.0.1:{port}")
                + entry("unnamed", f"https://{Mark.HOST}.example")
                + entry("stalled", f"http://127.0.0.1:{stalled.port}", "timeout_seconds = 0.2")
                + entry("faulty", f"http://localhost:{faulty.port}")
                + entry("unproven", f"https://127.0.0.1:{unproven.port}")
            )
            project.ask()
            project.add(*WISHES, bulky=document("accepted") * 300, empty=" \n\n")
            for line in SHOWN:
                await project.type(line)
            assert [] == unproven.heard
            heard = (*faulty.heard, *stalled.heard)
    return Aftermath(
        project,
        project.files(),
        frozenset(one.headers["authorization"] for one in heard),
        frozenset(one.line for one in heard),
    )


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    """Let everything happen once."""
    return asyncio.run(play(tmp_path_factory.mktemp("canary")))


def test_every_kind_of_failure_happened(aftermath: Aftermath) -> None:
    """Each fault is recorded as what it is, and together they are all that a server can cause."""
    seen: set[FailureKind] = set()
    for wish in WISHES:
        kind = FAULTS[wish].kind
        expected = [*BEFORE, ("faulty", kind)]
        if kind is not None and POLICY[kind].temporary:
            expected.append(AFTER)
        assert [(name, kind and kind.value) for name, kind in expected] == aftermath.calls(wish)
        seen |= {kind for _, kind in expected if kind is not None}
    assert [("refused", "request_too_large")] == aftermath.calls("bulky")
    assert [(None, "empty_input")] == aftermath.calls("empty")
    seen |= {FailureKind.REQUEST_TOO_LARGE, FailureKind.EMPTY_INPUT}
    assert IN_PROCESS == set(FailureKind) - seen


def test_the_marks_did_travel(aftermath: Aftermath) -> None:
    """Key, address, document, task and answer were where they belong, so a leak had a chance."""
    assert {f"Bearer sk-{Mark.KEY}"} == aftermath.keys_heard
    assert {f"POST /{Mark.ADDRESS}/v1/chat/completions HTTP/1.1"} == aftermath.lines_heard
    files = aftermath.files
    held = {name.rpartition("/")[2]: found_in(content) for name, content in files.items()}
    assert {Mark.DOCUMENT} == held["http-500.txt"]
    assert {Mark.DOCUMENT, Mark.TASK} == held["request.json"]
    assert {Mark.ANSWER} == aftermath.marks_of("runtime/cases/", "/accepted.txt/", "outcome-0001")
    assert {Mark.ANSWER} == aftermath.marks_of("sealed/accepted.txt.zip!/", "outcome-0001.json")
    assert {Mark.ANSWER} == found_in(files["results.jsonl"]) == found_in(files["results.csv"])
    assert b"tls_error" in files["runtime/logs/llm.jsonl"]
    assert b"wrong-value.txt" in files["runtime/index.sqlite3!/dump"]


@pytest.mark.parametrize("line", SHOWN)
def test_no_verb_says_what_it_should_not(aftermath: Aftermath, line: str) -> None:
    """Neither stream holds a secret, nor a text unless the verb exists to show it."""
    ended = aftermath.project.said[line]
    assert ended.code in {0, 2, 3, 5}, ended.stderr.decode()
    assert b"[usage]" not in ended.stderr
    assert [] == leaked(ended, SHOWN[line])
    assert set(SHOWN[line]) == set(every_mark(ended))


def test_no_file_holds_what_it_should_not(aftermath: Aftermath) -> None:
    """Documents stand among the inputs and requests, answers in outcomes, secrets in no file."""
    assert [] == misplaced(aftermath.files)


def test_no_tls_key_is_written_down(aftermath: Aftermath) -> None:
    """A key log that the environment asks for stays empty, after calls as after a probe."""
    lines = aftermath.files.get(KEY_LOG, b"").splitlines()
    assert [] == [line for line in lines if not line.startswith(b"#")]
    assert b"unproven: no connection" in aftermath.project.said["doctor --json --probe"].stdout


def test_the_search_finds_marks_in_every_wrapping(tmp_path: Path) -> None:
    """Case, hexadecimal, base64 at any place, compression and a database hide no mark."""
    for mark in Mark:
        text = mark.encode()
        for before in range(4):
            assert {mark} == found_in(base64.b64encode(b"x" * before + text + b"yy"))
        for form in (text, text.upper(), b"-" + text.hex().encode(), text.hex().upper().encode()):
            assert {mark} == found_in(b"some " + form + b" thing")
    assert frozenset() == found_in(b"canary-key-5e1f9 canary")
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.json", Mark.KEY * 10)
    with closing(sqlite3.connect(tmp_path / "b.sqlite3")) as database:
        database.execute("CREATE TABLE t (c TEXT)")
        database.execute("INSERT INTO t VALUES (?)", ("x" * 20_000 + Mark.DOCUMENT,))
        database.commit()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "c.jsonl").write_text(Mark.REJECTED, encoding="utf-8")
    found = misplaced(files_in(tmp_path))
    assert "a.zip!/inner.json: KEY" in found
    assert "b.sqlite3!/dump: DOCUMENT" in found
    assert "logs/c.jsonl: REJECTED" in found
