"""What arrives is judged, then taken in unchanged, archived or set aside with the reason."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from casework.checkpoints.change import Change
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.records import (
    OperationError,
    OperationStatus,
    PackageStatus,
    Routing,
    operation_hash,
)
from casework.checkpoints.verify import verify
from casework.checkpoints.zip_storage import ZipLimits
from casework.errors import IllegalTransition, LockBusy
from casework.runner.inbox import ARRIVING_SECONDS, FILES_MAX, Arrival, InboxEvent, InboxProcessor
from casework.runner.inbox_folder import InboxFolder
from casework.strict_json import JSONObject, parse
from tests.support.packages import CASE, START, Workshop, files_below

OP = operation_hash(1, "op")


class Post:
    """Two workshops, and the inbox of one of them.

    Args:
        folder: Where both lie.
        limits: What the inbox takes.
    """

    def __init__(self, folder: Path, limits: ZipLimits | None = None) -> None:
        self.sender = Workshop(folder / "there", rounds_max=1)
        self.here = Workshop(folder / "here", rounds_max=1)
        self.root = folder / "here"
        self.inbox = self.root / "inbox"
        self.folder = InboxFolder(self.root, now=lambda: self.here.at)
        self.processor = InboxProcessor(
            self.here.store,
            self.folder,
            now=lambda: self.here.at,
            limits=limits,
        )
        self.inbox.mkdir(parents=True)

    def send(self, name: str = "case.zip") -> Path:
        """Seal the sender's case into the inbox."""
        self.sender.store.export(CASE, self.inbox / name)
        return self.inbox / name

    def step(self) -> list[InboxEvent]:
        """Process the inbox once."""
        return list(self.processor.process_once().events)

    def arrivals(self) -> list[Arrival]:
        """Process the inbox once and return what became of everything."""
        return [event.arrival for event in self.step()]

    def note(self, folder: str) -> JSONObject:
        """Return the only note in a folder, beside which the file lies."""
        (note,) = (self.root / folder).glob("*.json")
        assert note.with_suffix(".zip").exists() or note.with_suffix(".zip").is_symlink()
        body = parse(note.read_bytes())
        assert isinstance(body, dict)
        return body

    def left(self) -> list[str]:
        """Return what lies in the inbox."""
        return sorted(path.name for path in self.inbox.iterdir())


@pytest.fixture(name="post")
def post_between_two(tmp_path: Path) -> Post:
    """Return a sender with a case that was begun, and a receiver without one."""
    post = Post(tmp_path)
    post.sender.run(post.sender.create(), "op")
    return post


def old(path: Path, at: datetime) -> Path:
    """Make a file one that stopped arriving long ago."""
    long_ago = at.timestamp() - 2 * ARRIVING_SECONDS
    os.utime(path, (long_ago, long_ago), follow_symlinks=False)
    return path


def test_an_unknown_package_moves_in_unchanged(post: Post) -> None:
    """Same identity, same generation, same bytes; the file is gone from the inbox."""
    post.send()
    assert [Arrival.IMPORTED] == post.arrivals()
    assert [] == post.left()
    folders = [w.store.package_folder(CASE) for w in (post.sender, post.here)]
    assert files_below(folders[0]) == files_below(folders[1])
    assert [] == post.arrivals()


def test_a_longer_history_is_taken_over(post: Post) -> None:
    """A higher generation whose chain fits extends what is here."""
    post.send()
    post.step()
    post.sender.run(post.sender.store.open(CASE), "next")
    post.send()
    assert [Arrival.EXTENDED] == post.arrivals()
    assert post.sender.store.open(CASE) == replace(
        post.here.store.open(CASE), changed=post.sender.store.open(CASE).changed
    )


def test_what_is_known_is_archived_with_a_note(post: Post) -> None:
    """The same generation, and a lower one of the same history."""
    older = post.send("1-older.zip").read_bytes()
    post.sender.run(post.sender.store.open(CASE), "next")
    post.send("2-newer.zip")
    assert [Arrival.IMPORTED, Arrival.EXTENDED] == post.arrivals()
    assert [] == post.left()
    (post.inbox / "again.zip").write_bytes(older)
    head = post.here.store.open(CASE)
    assert [Arrival.DUPLICATE] == post.arrivals()
    note = post.note("archive")
    assert ("duplicate", CASE, "again.zip") == (note["code"], note["case_id"], note["file"])
    assert head == post.here.store.open(CASE)


def test_a_history_that_parted_is_rejected(post: Post) -> None:
    """Neither side's generations are mixed into the other's."""
    post.send()
    post.step()
    post.here.run(post.here.store.open(CASE), "mine")
    post.sender.run(post.sender.store.open(CASE), "theirs")
    post.send()
    head = post.here.store.open(CASE)
    assert [Arrival.REJECTED] == post.arrivals()
    note = post.note("rejected")
    assert ("diverged", CASE) == (note["code"], note["case_id"])
    assert head == post.here.store.open(CASE)


def test_a_damaged_package_leaves_no_trace_but_its_note(post: Post) -> None:
    """The oracle judges before anything is written."""
    path = post.send()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["original/report.txt"] = b"another text"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert [Arrival.REJECTED] == post.arrivals()
    assert "file_damaged" == post.note("rejected")["code"]
    assert not (post.root / "cases").exists()


@pytest.mark.parametrize(
    "name", ["../outside", "/absolute", "C:\\drive", "a\\b", "llm/../../x", "CON/../x"]
)
def test_a_hostile_name_writes_nowhere(post: Post, name: str) -> None:
    """A member that leads out of its package rejects the whole file."""
    with zipfile.ZipFile(post.send(), "a") as archive:
        archive.writestr(name, b"x")
    assert [Arrival.REJECTED] == post.arrivals()
    assert not (post.root / "cases").exists()


def test_a_package_over_the_limits_is_rejected(tmp_path: Path) -> None:
    """Sizes are counted while they are read, never believed."""
    post = Post(tmp_path, ZipLimits(expanded_bytes=100))
    post.sender.run(post.sender.create(), "op")
    post.send()
    assert [Arrival.REJECTED] == post.arrivals()
    assert "too_large" == post.note("rejected")["code"]


def test_what_is_no_zip_may_still_be_arriving(post: Post) -> None:
    """A young torso stays; once it stopped growing it is rejected; when it is whole it comes in."""
    whole = post.send().read_bytes()
    torso = post.inbox / "case.zip"
    torso.write_bytes(whole[: len(whole) // 2])
    os.utime(torso, (post.here.at.timestamp(), post.here.at.timestamp()))
    assert [Arrival.LEFT] == post.arrivals()
    torso.write_bytes(whole)
    (post.inbox / "notes.txt").write_text("hello", encoding="utf-8")
    old(post.inbox / "notes.txt", post.here.at)
    assert [Arrival.IMPORTED, Arrival.REJECTED] == post.arrivals()
    assert ("bad_zip", "notes.txt") == tuple(post.note("rejected")[n] for n in ("code", "file"))


def test_links_are_set_aside_unread(post: Post, tmp_path: Path) -> None:
    """What a link leads to is nobody's business; hidden files and folders are passed over."""
    post.send().rename(tmp_path / "elsewhere.zip")
    (post.inbox / "link.zip").symlink_to(tmp_path / "elsewhere.zip")
    (post.inbox / ".arriving").write_bytes(b"x")
    (post.inbox / "folder").mkdir()
    assert [Arrival.REJECTED] == post.arrivals()
    assert "special_file" == post.note("rejected")["code"]
    assert [".arriving", "folder"] == post.left()
    assert (tmp_path / "elsewhere.zip").exists()


def test_a_case_at_work_is_left_for_later(post: Post) -> None:
    """Nobody waits for a lock; the file is there the next time."""
    post.send()
    with post.here.store.lock(CASE):
        assert [Arrival.LEFT] == post.arrivals()
    assert [Arrival.IMPORTED] == post.arrivals()


def test_one_process_empties_the_inbox_at_a_time(post: Post) -> None:
    """The second one is told so at once."""
    with post.here.store.lock("\0inbox"), pytest.raises(LockBusy):
        post.step()
    assert [] == post.arrivals()


def test_a_step_takes_up_a_bounded_number_of_files(post: Post) -> None:
    """The rest waits for the next step, and the report says that there is more."""
    whole = post.send().read_bytes()
    for number in range(FILES_MAX):
        (post.inbox / f"copy-{number}.zip").write_bytes(whole)
    first = post.processor.process_once()
    assert (FILES_MAX, True) == (len(first.events), first.more)
    second = post.processor.process_once()
    assert (1, False) == (len(second.events), second.more)


def test_an_outage_waits_for_a_person_wherever_it_was_sent(post: Post) -> None:
    """``automatic_retry: false`` is honoured after its time too, and named in the report."""
    post.sender.exhaust(post.sender.store.open(CASE), "down")
    post.send()
    (event,) = post.step()
    assert ("down",) == event.waiting
    post.here.pass_time(1e6)
    assert [] == post.step()
    head = post.here.store.open(CASE)
    assert head.generation == event.generation
    assert PackageStatus.BLOCKED is head.status


def blocked(workshop: Workshop, head: PackageHead, routing: Routing) -> Change:
    """Return a round after which an operation is blocked for another reason than an outage."""
    workshop.rounds_max = 5
    change = workshop.change(head, "op", "temporary_failure")
    ((ophash, state),) = change.operations.items()
    code = routing.reason or "none"
    state = replace(
        state,
        status=OperationStatus.BLOCKED,
        due_at=routing.retry_at,
        error=OperationError(code),
        routing=routing,
    )
    return replace(change, operations={ophash: state})


@pytest.mark.parametrize(
    "routing",
    [
        Routing("QUOTA", "inbox", START + timedelta(hours=1), automatic_retry=True),
        Routing("QUOTA", "inbox", START + timedelta(hours=1), automatic_retry=None),
    ],
)
def test_other_kinds_go_on_by_themselves_when_their_time_has_come(
    tmp_path: Path, routing: Routing
) -> None:
    """One generation more, a new id that is due at once, once only."""
    post = Post(tmp_path)
    post.sender.store.commit(blocked(post.sender, post.sender.create(), routing))
    post.send()
    assert [Arrival.IMPORTED] == post.arrivals()
    generation = post.here.store.open(CASE).generation
    post.here.pass_time(3600)
    (event,) = post.step()
    assert (Arrival.RESUMED, "op@2") == (event.arrival, event.new_operation_id)
    head = post.here.store.open(CASE)
    assert (generation + 1, PackageStatus.RETRY_PENDING) == (head.generation, head.status)
    due: list[IndexedOperation] = post.here.store.index.due(post.here.at, 9)
    assert ["op@2"] == [operation.operation_id for operation in due]
    assert [] == post.step()
    assert verify(post.here.store.package_folder(CASE)).ok


@pytest.mark.parametrize(
    "routing",
    [
        Routing("LLM_UNAVAILABLE", "inbox", None, automatic_retry=True),
        Routing("LLM_UNAVAILABLE", "inbox", None, automatic_retry=False),
        Routing(None, "inbox", None, automatic_retry=True),
        Routing("QUOTA", None, None, automatic_retry=True),
    ],
)
def test_no_package_claims_to_be_blocked_without_reason(tmp_path: Path, routing: Routing) -> None:
    """An outage blocks after the last round only and is not retried; others say why and where."""
    workshop = Workshop(tmp_path)
    head = workshop.create()
    change = blocked(workshop, head, replace(routing, retry_at=workshop.at))
    with pytest.raises(IllegalTransition):
        workshop.store.commit(change)
    assert head == workshop.store.open(CASE)


def test_a_waiting_operation_keeps_its_due_time(tmp_path: Path) -> None:
    """RETRY_PENDING is indexed as it came; nothing is committed."""
    post = Post(tmp_path)
    post.sender.rounds_max = 3
    head = post.sender.run(post.sender.create(), "op", "temporary_failure")
    post.send()
    post.step()
    here = post.here.store.open(CASE)
    assert head.generation == here.generation
    assert here.operations[OP].due_at == post.here.store.index.next_due_at()


def test_a_forgotten_case_does_not_come_back(post: Post) -> None:
    """A copy that arrives later is rejected, and goes when the case is forgotten again."""
    post.send()
    post.step()
    post.here.store.forget(CASE)
    post.send()
    assert [Arrival.REJECTED] == post.arrivals()
    assert "case_forgotten" == post.note("rejected")["code"]
    assert 1 == post.folder.forget(CASE)
    assert [] == list((post.root / "rejected").iterdir())


def test_a_file_given_by_name_is_copied_first(post: Post, tmp_path: Path) -> None:
    """The sender's file stays; twice the same is one copy."""
    mine = post.send().rename(tmp_path / "Mine & yours.zip")
    assert post.folder.put(mine) == post.folder.put(mine)
    assert 1 == len(post.left())
    assert [Arrival.IMPORTED] == post.arrivals()
    assert mine.exists()
