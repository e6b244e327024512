"""The request log never holds a request up, and survives any disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.privacy_profile import ProviderClass
from casework.facade.request_line import FailedAttempt, RequestLine
from casework.gateway.clock import MANUAL_START, ManualClock
from casework.gateway.messages import Cost
from casework.runner.failure_log_reader import FailureLogReader
from casework.runner.rotated_file import RotatedFile
from casework.runtime.http import request_log
from casework.runtime.http.request_log import (
    BACKUPS,
    BATCH_LINES,
    LINES_MAX,
    RequestLog,
    open_request_log,
)
from casework.strict_json import JSONObject

PATIENCE_SECONDS = 60.0
LINE = RequestLine(
    request_id="0", at=MANUAL_START, client="web", route="chat", status=200, elapsed_ms=1.0
)


def line(number: int) -> RequestLine:
    """Return a line that can be told from others."""
    return msgspec.structs.replace(LINE, request_id=str(number))


def rotated(path: Path, bytes_max: int = 1 << 30) -> RotatedFile:
    """Return a log file."""
    return RotatedFile(path=path, bytes_max=bytes_max, backups=BACKUPS, exclusive=nullcontext)


def log_at(path: Path) -> RequestLog:
    """Return a log whose thread is not begun, so that the test writes."""
    return RequestLog(rotated(path), now=ManualClock().now)


def read(path: Path) -> list[JSONObject]:
    """Return all lines of a log, of which none may be damaged."""
    reader = FailureLogReader(path)
    lines = [found.fields for found in reader.lines()]
    assert 0 == reader.skipped
    return lines


def ids(path: Path) -> list[int]:
    """Return the numbers of the requests in a log, in order."""
    return [int(str(found["request_id"])) for found in read(path) if found["event"] == "request"]


def lost(path: Path) -> list[object]:
    """Return the numbers of lost lines that a log tells of."""
    return [found["lines"] for found in read(path) if found["event"] == "lines_lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyFile(RotatedFile):
    """A file that first does something else, like raising."""

    before: Callable[[], None]

    def append(self, lines: bytes) -> int:
        """Append, after the fault."""
        self.before()
        return super(FaultyFile, self).append(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class FillingFile(RotatedFile):
    """A file on a disk that takes so many bytes of each write."""

    takes: list[int] = field(default_factory=list)

    def append(self, lines: bytes) -> int:
        """Append what fits."""
        fits = self.takes.pop(0) if self.takes else len(lines)
        if not fits:
            raise OSError(28, "No space left on device")
        return super(FillingFile, self).append(lines[:fits])


def faulty(path: Path, before: Callable[[], None]) -> RequestLog:
    """Return a log over a file that has a fault."""
    file = FaultyFile(
        path=path, bytes_max=1 << 30, backups=BACKUPS, exclusive=nullcontext, before=before
    )
    return RequestLog(file, now=ManualClock().now)


def test_a_line_tells_everything_that_is_known(tmp_path: Path) -> None:
    """In the members' own names; money as it stands in packages."""
    log = log_at(tmp_path / "requests.jsonl")
    log.take(
        RequestLine(
            request_id="req_1",
            at=MANUAL_START,
            client="web",
            route="chat_completions",
            status=200,
            elapsed_ms=12.345,
            asked_model="gpt",
            provider="cloud",
            provider_class=ProviderClass.CLOUD,
            model="big",
            policy="interactive_auto",
            attempts=2,
            failures=(FailedAttempt("local", "http_5xx", 503),),
            upstream_ms=10.06,
            stream=True,
            prompt_tokens=5,
            completion_tokens=0,
            total_tokens=5,
            cost=Cost(Decimal("0.0000001"), "EUR"),
        )
    )
    log.write()
    (found,) = read(tmp_path / "requests.jsonl")
    assert {
        "ts": "2026-01-01T10:00:00Z",
        "event": "request",
        "request_id": "req_1",
        "client": "web",
        "route": "chat_completions",
        "status": 200,
        "elapsed_ms": 12.3,
        "asked_model": "gpt",
        "provider": "cloud",
        "provider_class": "cloud",
        "model": "big",
        "policy": "interactive_auto",
        "code": None,
        "attempts": 2,
        "failures": [{"provider": "local", "code": "http_5xx", "http_status": 503}],
        "upstream_ms": 10.1,
        "stream": True,
        "prompt_tokens": 5,
        "completion_tokens": 0,
        "total_tokens": 5,
        "cost": {"amount": "0.0000001", "currency": "EUR"},
        "client_left": False,
    } == found


def test_what_nobody_knows_is_null(tmp_path: Path) -> None:
    """And stays in the line."""
    log = log_at(tmp_path / "requests.jsonl")
    log.take(LINE)
    log.write()
    (found,) = read(tmp_path / "requests.jsonl")
    names = ("asked_model", "provider", "upstream_ms", "prompt_tokens", "total_tokens", "cost")
    assert [None] * 6 == [found[name] for name in names]


@given(asked=st.text(st.characters(), max_size=300), model=st.text(st.characters(), max_size=300))
def test_any_name_of_a_model_can_be_written(
    tmp_path_factory: pytest.TempPathFactory, asked: str, model: str
) -> None:
    """Also half a character, a line end, or a very long one."""
    path = tmp_path_factory.mktemp("log") / "requests.jsonl"
    log = log_at(path)
    log.take(msgspec.structs.replace(LINE, asked_model=asked, model=model))
    log.write()
    (found,) = read(path)
    assert asked[:256].encode("utf-8", "replace").decode() == found["asked_model"]


def test_lines_are_written_in_order(tmp_path: Path) -> None:
    """Whole batches first, and the rest with the next ones or at the end."""
    path = tmp_path / "logs" / "requests.jsonl"
    log = log_at(path)
    for number in range(5 * BATCH_LINES // 2):
        log.take(line(number))
    assert log.write()
    assert (list(range(2 * BATCH_LINES)), BATCH_LINES // 2) == (ids(path), log.waiting)
    assert log.write()
    assert list(range(5 * BATCH_LINES // 2)) == ids(path)
    assert (0, 0) == (log.waiting, log.lost)


def test_closing_writes_what_waits(tmp_path: Path) -> None:
    """The thread does its work to the end, and what comes later is lost."""
    log = open_request_log(tmp_path, ManualClock())
    for number in range(5000):
        log.take(line(number))
    log.close()
    log.take(line(5000))
    path = tmp_path / "logs" / "requests.jsonl"
    assert list(range(5000)) == ids(path)
    assert (1, 0) == (log.lost, log.waiting)
    assert 0o600 == path.stat().st_mode & 0o777


@pytest.mark.parametrize("outage", ["a file for the folder", "a folder for the file", "full"])
def test_an_outage_of_the_disk_costs_what_does_not_fit(tmp_path: Path, outage: str) -> None:
    """As many lines wait as may, however long it lasts; then all is written and the loss told."""
    folder = tmp_path / "logs"
    path = folder / "requests.jsonl"
    mend: Callable[[], None]
    if outage == "a file for the folder":
        folder.touch()
        mend = folder.unlink
    elif outage == "a folder for the file":
        path.mkdir(parents=True)
        mend = path.rmdir
    else:
        folder.mkdir()
        path.symlink_to("/dev/full")
        mend = path.unlink
    log = log_at(path)
    for number in range(3 * LINES_MAX):
        log.take(line(number))
        if number % BATCH_LINES == 0:
            assert not log.write()
    assert log.waiting <= LINES_MAX + BATCH_LINES
    assert 3 * LINES_MAX == log.waiting + log.lost
    mend()
    assert log.write()
    log.take(line(3 * LINES_MAX))
    assert log.write()
    assert [log.lost] == lost(path)
    assert [*range(3 * LINES_MAX - log.lost), 3 * LINES_MAX] == ids(path)


def test_a_folder_that_is_removed_is_made_again(tmp_path: Path) -> None:
    """Nothing that comes afterwards is lost."""
    path = tmp_path / "logs" / "requests.jsonl"
    log = log_at(path)
    log.take(line(1))
    log.write()
    path.unlink()
    path.parent.rmdir()
    log.take(line(2))
    assert log.write()
    assert [2] == ids(path)


@given(st.lists(st.integers(0, 600), max_size=12))
def test_a_disk_that_fills_up_tears_a_line_and_loses_none(
    tmp_path_factory: pytest.TempPathFactory, takes: list[int]
) -> None:
    """What it took of a line is left torn, and the line is written again."""
    path = tmp_path_factory.mktemp("log") / "requests.jsonl"
    file = FillingFile(
        path=path, bytes_max=1 << 30, backups=BACKUPS, exclusive=nullcontext, takes=takes
    )
    log = RequestLog(file, now=ManualClock().now)
    for number in range(5):
        log.take(line(number))
    while not log.write():
        pass
    reader = FailureLogReader(path)
    assert [0, 1, 2, 3, 4] == [int(str(found.fields["request_id"])) for found in reader.lines()]
    assert reader.skipped <= 12


def test_the_thread_outlives_the_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tries again by itself, and what waited is written."""
    monkeypatch.setattr(request_log, "BATCH_SECONDS", 0.001)
    tried, back = threading.Semaphore(0), threading.Event()

    def before() -> None:
        tried.release()
        if not back.is_set():
            raise OSError(5, "Input/output error")

    path = tmp_path / "requests.jsonl"
    log = faulty(path, before)
    log.start()
    log.take(line(0))
    assert all(tried.acquire(timeout=PATIENCE_SECONDS) for _ in range(3))
    log.take(line(1))
    back.set()
    log.close()
    assert [0, 1] == ids(path)


def test_many_lines_are_written_before_the_half_second_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole batch wakes the thread."""
    monkeypatch.setattr(request_log, "BATCH_SECONDS", PATIENCE_SECONDS)
    written = threading.Event()
    log = faulty(tmp_path / "requests.jsonl", written.set)
    log.start()
    for number in range(BATCH_LINES):
        log.take(line(number))
    assert written.wait(PATIENCE_SECONDS)
    log.close()


def test_a_disk_that_hangs_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing gives up after its time; taking never waits at all."""
    monkeypatch.setattr(request_log, "CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(request_log, "BATCH_SECONDS", 0.001)
    hanging, released = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        released.wait(PATIENCE_SECONDS)

    log = faulty(tmp_path / "requests.jsonl", hang)
    log.start()
    log.take(line(0))
    assert hanging.wait(PATIENCE_SECONDS)
    for number in range(2 * LINES_MAX):
        log.take(line(number))
    log.close()
    assert LINES_MAX == log.lost
    released.set()
    log._thread.join(PATIENCE_SECONDS)
    assert not log._thread.is_alive()


def test_a_disk_that_never_comes_back_loses_everything_and_nothing_else(tmp_path: Path) -> None:
    """The end of the process counts what was not written."""

    def refuse() -> None:
        raise OSError(30, "Read-only file system")

    log = faulty(tmp_path / "requests.jsonl", refuse)
    log.start()
    for number in range(100):
        log.take(line(number))
    log.close()
    assert (100, 0) == (log.lost, log.waiting)
    assert [] == list(tmp_path.iterdir())


def test_the_files_stay_small_and_few(tmp_path: Path) -> None:
    """The oldest lines go first."""
    path = tmp_path / "requests.jsonl"
    log = RequestLog(rotated(path, 10_000), now=ManualClock().now)
    for number in range(300):
        log.take(line(number))
        log.write()
    files = list(tmp_path.iterdir())
    assert 1 + BACKUPS == len(files)
    assert all(file.stat().st_size <= 10_000 for file in files)
    found = ids(path)
    assert list(range(300))[-len(found) :] == found
