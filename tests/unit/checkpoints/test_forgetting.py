"""Forgetting removes every byte of a case but its records, and says so for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from casework.checkpoints.disk import DiskCall, ObservedDisk
from casework.checkpoints.inflight import Intent, IntentTarget
from casework.checkpoints.inspection import inspect_package
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.records import CommitKind, PackageStatus
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify, verify_storage
from casework.errors import (
    CheckpointError,
    FormatError,
    IllegalTransition,
    LockBusy,
    PackageNotFound,
    StorageError,
)
from casework.strict_json import JSONObject, canonical, digest, parse
from tests.support.packages import CASE, INPUTS, Workshop, files_below


@pytest.fixture(name="workshop")
def workshop_with_history(tmp_path: Path) -> Workshop:
    """Return a workshop with a package that went through every state."""
    workshop = Workshop(tmp_path / "runtime")
    workshop.full_history()
    return workshop


def left_in(folder: Path) -> list[str]:
    """Return the files of a package that are neither records nor its identity."""
    return [
        path
        for path in files_below(folder)
        if path.split("/")[0] not in {"commits", "package.json"}
    ]


def test_only_records_and_identity_stay(workshop: Workshop) -> None:
    """Inputs, requests, outcomes, leftovers and drafts are gone, and no record holds their text."""
    package = workshop.store.package_folder(CASE)
    named = left_in(package)
    (package / "llm" / "leftover.json").write_bytes(b"text")
    (package / "original" / ".tmp-0123").write_bytes(b"text")
    head = workshop.store.forget(CASE, reason="asked by the person", actor="ada")
    assert ([], PackageStatus.FORGOTTEN) == (left_in(package), head.status)
    assert named
    content = b"".join(files_below(package).values())
    assert [] == [text for text in INPUTS.values() if text in content]
    report = verify(package)
    assert ((), True) == (report.findings, report.forgotten)


def test_the_tombstone_names_what_was_removed(workshop: Workshop) -> None:
    """Who, why, and each file by path and digest; the timeline can still be read."""
    package = workshop.store.package_folder(CASE)
    before = {path: digest_of for path, digest_of in _digests(package) if path != "package.json"}
    head = workshop.store.forget(CASE, reason="asked by the person", actor="ada")
    record = parse((package / f"commits/{head.generation:010d}.json").read_bytes())
    assert isinstance(record, dict)
    assert ("forgotten", "ada") == (record["kind"], record["actor"])
    tombstone = record["forgotten"]
    assert isinstance(tombstone, dict)
    removed = tombstone["removed"]
    assert isinstance(removed, list)
    assert "asked by the person" == tombstone["reason"]
    assert before == {str(f["path"]): f["sha256"] for f in removed if isinstance(f, dict)}
    with inspect_package(package) as inspection:
        assert CommitKind.FORGOTTEN is list(inspection.timeline())[-1].kind
        with pytest.raises(PackageNotFound) as refusal:
            inspection.read("original/report.txt")
    assert "case_forgotten" == refusal.value.code


def _digests(package: Path) -> list[tuple[str, str]]:
    with inspect_package(package) as inspection:
        entries = [file for entry in inspection.timeline() for file in entry.files]
    return [(entry.path, entry.sha256) for entry in entries]


def test_nothing_follows(workshop: Workshop, tmp_path: Path) -> None:
    """Neither a round nor a resumption, an import, an export, nor a copy from elsewhere."""
    store = workshop.store
    store.export(CASE, tmp_path / "copy.zip")
    head = store.forget(CASE)
    with pytest.raises(IllegalTransition):
        store.commit(workshop.change(head, "late"))
    with pytest.raises(CheckpointError):
        store.export(CASE, tmp_path / "later.zip")
    for again in (lambda: store.create(CASE, INPUTS), lambda: store.receive(tmp_path / "copy.zip")):
        with pytest.raises(FormatError) as refusal:
            again()
        assert "case_forgotten" == refusal.value.code
    assert head == store.forget(CASE)


def test_the_index_leaves_a_forgotten_case_out(workshop: Workshop) -> None:
    """It is counted apart, nothing of it is due, and a rescan says the same."""
    workshop.store.create("other", INPUTS)
    workshop.store.forget(CASE)
    for store in (workshop.store, CheckpointStore(workshop.store.package_folder(CASE).parents[2])):
        store.index.plan(["planned"])
        counts = store.index.counts()
        assert (1, 1, {}) == (counts.cases, counts.forgotten, counts.operations)
        assert ["other"] == [package.case_id for package in store.index.packages()]
        assert ["other"] == [operation.case_id for operation in store.index.due(workshop.at, 9)]
        store.index.discard()


def test_announcements_of_a_forgotten_case_are_removed(workshop: Workshop) -> None:
    """Nobody is told about calls of a case that is not there."""
    head = workshop.store.open(CASE)
    ophash = next(iter(head.operations))
    for case_id in (CASE, "other"):
        workshop.store.inflight.begin(
            Intent(
                case_id=case_id,
                package_id=head.package_id,
                ophash=ophash,
                operation_id="answers",
                round=2,
                started_at="2026-01-01T10:00:00Z",
                targets=(IntentTarget("desk", "m"),),
            )
        )
    workshop.store.forget(CASE)
    assert ["other"] == [intent.case_id for intent in workshop.store.inflight.list()]


def test_a_case_at_work_is_not_forgotten(workshop: Workshop) -> None:
    """Whoever holds the lock keeps the content under it."""
    package = workshop.store.package_folder(CASE)
    before = files_below(package)
    with workshop.store.lock(CASE), pytest.raises(LockBusy):
        workshop.store.forget(CASE)
    assert before == files_below(package)


def test_a_file_of_other_hands_stops_before_the_first_removal(workshop: Workshop) -> None:
    """What cannot be removed is named first, so that nothing is half forgotten."""
    package = workshop.store.package_folder(CASE)
    (package / "original" / "Notes of mine.txt").write_bytes(b"text")
    before = files_below(package)
    with pytest.raises(FormatError) as refusal:
        workshop.store.forget(CASE)
    assert "foreign_file" == refusal.value.code
    assert before == files_below(package)


@pytest.mark.parametrize("recovery", ["forget", "recover", "rescan"])
def test_a_removal_that_was_cut_off_is_finished(tmp_path: Path, recovery: str) -> None:
    """The oracle names the files that are left until somebody finishes: each way in does."""
    seen: list[str] = []

    def refuse_the_third(call: DiskCall, moment: str) -> None:
        if call.verb == "unlink" and moment == "before" and "/cases/" in call.path:
            seen.append(call.path)
            if len(seen) == 3:
                raise OSError(5, "broken")

    broken = Workshop(tmp_path / "runtime", disk=ObservedDisk(refuse_the_third))
    broken.full_history()
    with pytest.raises(StorageError):
        broken.store.forget(CASE)
    package = broken.store.package_folder(CASE)
    assert {"not_forgotten"} == {finding.code for finding in verify(package).errors}
    store = CheckpointStore(tmp_path / "runtime")
    steps: dict[str, Callable[[], object]] = {
        "forget": lambda: store.forget(CASE),
        "recover": store.recover,
        "rescan": store.index.rescan,
    }
    steps[recovery]()
    assert [] == left_in(package)
    assert () == verify(package).findings


def test_a_tombstone_that_names_other_files_is_found() -> None:
    """What was removed is what was committed, word for word."""
    storage = MemoryStorage()
    workshop = Workshop(storage)
    head = workshop.run(workshop.create(), "op")
    head = workshop.store.forget(CASE)
    (spread,) = storage.list("cases")
    (name,) = storage.list(f"cases/{spread[:-1]}")
    folder = f"cases/{spread}{name[:-1]}"
    path = f"{folder}/commits/{head.generation:010d}.json"
    record = parse(storage.read(path))
    assert isinstance(record, dict)
    own: JSONObject = {name: value for name, value in record.items() if name != "self_sha256"}
    own["forgotten"] = {"reason": None, "removed": []}
    storage.delete(path)
    storage.create([(path, canonical({**own, "self_sha256": digest(own)}))])
    assert ["impossible_commit"] == [f.code for f in verify_storage(storage, folder).errors]


def test_missing_files_without_a_tombstone_stay_an_error(workshop: Workshop) -> None:
    """Only a tombstone excuses what is gone."""
    (workshop.store.package_folder(CASE) / "original/report.txt").unlink()
    report = verify(workshop.store.package_folder(CASE))
    assert (["file_missing"], False) == ([f.code for f in report.errors], report.forgotten)
