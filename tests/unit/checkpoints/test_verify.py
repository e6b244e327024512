"""The oracle accepts every sound history and names the file of every wrong byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from casework.checkpoints.findings import Severity
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.names import case_folder
from casework.checkpoints.records import FileEntry, OperationStatus
from casework.checkpoints.snapshots import INTERVAL
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import never_begun, verify, verify_storage
from casework.errors import PackageNotFound
from casework.strict_json import DEPTH_MAX, JSON, InvalidJSON, JSONObject, canonical, digest, parse
from tests.support.packages import CASE, Workshop, files_below

SEALED = "self_sha256"


@pytest.fixture(name="package")
def sound_package(tmp_path: Path) -> Path:
    """Return the folder of a package whose operations went through every state."""
    workshop = Workshop(tmp_path / "runtime")
    workshop.full_history()
    return workshop.store.package_folder(CASE)


def test_a_sound_history_is_accepted(package: Path) -> None:
    """Every state, link and round of an honest history passes without a finding."""
    report = verify(package)
    assert () == report.findings
    assert (CASE, 10) == (report.case_id, report.generation)


def test_every_flipped_byte_is_found_in_its_file() -> None:
    """Each byte of each file of a package is covered: some error names that file."""
    storage = MemoryStorage()
    workshop = Workshop(storage)
    workshop.run(workshop.run(workshop.create(), "a", "temporary_failure"), "b", "error")
    folder = case_folder(CASE)
    files = _stored(storage, folder)
    assert 9 == len(files)
    missed = []
    for path, content in files.items():
        for place in range(len(content)):
            flipped = bytearray(content)
            flipped[place] ^= 1
            broken = MemoryStorage()
            for other, whole in files.items():
                broken.create([(other, bytes(flipped) if other == path else whole)])
            named = {finding.path for finding in verify_storage(broken).errors}
            if path not in named:
                missed.append((path, place, content[place : place + 20]))
    assert [] == missed


def _stored(storage: MemoryStorage, folder: str) -> dict[str, bytes]:
    """Return every file below a folder, by its path in the package."""
    found: dict[str, bytes] = {}
    for name in storage.list(folder):
        path = f"{folder}/{name.rstrip('/')}"
        if name.endswith("/"):
            inner = _stored(storage, path)
            found.update({f"{name}{deeper}": content for deeper, content in inner.items()})
        else:
            found[name] = storage.read(path)
    return found


def test_a_removed_file_is_found(package: Path) -> None:
    """Whichever committed file disappears, an error names it or the generation that is gone."""
    files = files_below(package)
    last = max(name for name in files if name.startswith("commits/"))
    for name, content in files.items():
        if name == last:
            continue
        (package / name).unlink()
        assert name in {finding.path for finding in verify(package).errors}, name
        (package / name).write_bytes(content)
    assert verify(package).ok


def test_a_removed_last_commit_leaves_a_sound_older_history(package: Path) -> None:
    """What the newest commit added is then a leftover, as after a crash; the index knows better."""
    commits = sorted((package / "commits").iterdir())
    commits[-1].unlink()
    report = verify(package)
    assert (True, len(commits) - 1) == (report.ok, report.generation)


def test_a_renumbered_commit_is_found(package: Path) -> None:
    """A record under another number is named, also when two have changed places."""
    third, fourth = (package / f"commits/000000000{n}.json" for n in (3, 4))
    contents = third.read_bytes(), fourth.read_bytes()
    third.write_bytes(contents[1])
    fourth.write_bytes(contents[0])
    found = {(finding.code, finding.path) for finding in verify(package).errors}
    assert found >= {
        ("commit_renumbered", "commits/0000000003.json"),
        ("commit_renumbered", "commits/0000000004.json"),
    }


def test_a_commit_far_ahead_is_one_finding(package: Path) -> None:
    """A file name may claim any generation; what lies between is not counted one by one."""
    (package / "commits/0000000009.json").rename(package / "commits/9999999999.json")
    found = verify(package).errors
    assert {"commit_missing", "commit_renumbered"} <= {finding.code for finding in found}
    assert len(found) < 9


def resealed(path: Path, edit: Callable[[JSONObject], None]) -> None:
    """Edit a record as somebody would who knows how its own digest is made."""
    members = parse(path.read_bytes())
    assert isinstance(members, dict)
    del members[SEALED]
    edit(members)
    path.write_bytes(canonical({**members, SEALED: digest(members)}))


def test_an_edited_commit_is_found_even_if_its_own_digest_was_made_anew(package: Path) -> None:
    """The next record vouches for the bytes, so the edited generation is named."""
    place = package / "commits/0000000004.json"
    resealed(place, lambda record: record.update(actor="somebody else"))
    assert [("chain_broken", "commits/0000000004.json")] == [
        (finding.code, finding.path) for finding in verify(package).errors
    ]


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda record: record.update(status="SUCCESS"), "status_mismatch"),
        (lambda record: record.update(kind="reviewed"), "impossible_commit"),
        (lambda record: record.update(phase="ANOTHER"), "impossible_commit"),
        (lambda record: record.update(analysis_revision=2), "impossible_commit"),
        (lambda record: record.update(generation=11), "commit_renumbered"),
        (lambda record: record.update(extra=1), "commit_damaged"),
        (lambda record: record.update(previous_sha256="0" * 64), "chain_broken"),
    ],
)
def test_an_impossible_last_commit_is_found(
    package: Path, edit: Callable[[JSONObject], None], code: str
) -> None:
    """Nobody vouches for the newest record, so the operation table has to judge it."""
    resealed(package / "commits/0000000010.json", edit)
    assert code in {finding.code for finding in verify(package).errors}


def test_a_round_after_the_end_is_found(tmp_path: Path) -> None:
    """A history that goes on after SUCCESS is impossible, however well it is chained."""
    workshop = Workshop(tmp_path / "runtime")
    head = workshop.run(workshop.create(), "a", "temporary_failure")
    workshop.pass_time(60)
    workshop.run(head, "a")
    package = workshop.store.package_folder(CASE)
    ophash = next(iter(head.operations))

    def succeed(record: JSONObject) -> None:
        operations = record["operations"]
        assert isinstance(operations, dict)
        state = operations[ophash]
        assert isinstance(state, dict)
        state.update(status=OperationStatus.SUCCESS.value, due_at=None)
        record.update(status="SUCCESS")

    second, third = (package / f"commits/000000000{n}.json" for n in (2, 3))
    resealed(second, succeed)
    link = digest(parse(second.read_bytes()))
    resealed(third, lambda record: record.update(previous_sha256=link))
    assert ("impossible_commit", "nothing runs after SUCCESS") in {
        (finding.code, finding.detail) for finding in verify(package).errors
    }


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("round", 7),
        ("result", "error"),
        ("output_sha256", "0" * 64),
        ("output", {"answer": "no"}),
        ("request_fingerprint", "0" * 64),
        ("config_fingerprint", "0" * 64),
        ("started_at", "2026-01-01T09:00:00"),
        ("error", "auth_error"),
        ("schema", "llm-outcome/9"),
    ],
)
def test_an_outcome_that_contradicts_its_commit_is_found(member: str, value: object) -> None:
    """The contents of an outcome have to lead to the state that was committed with it."""
    storage = MemoryStorage()
    workshop = Workshop(storage)
    change = workshop.change(workshop.create(), "a")
    assert () == _verdict(storage, workshop, change.files)
    path, content = change.files[-1]
    outcome = parse(content)
    assert isinstance(outcome, dict)
    wrong = canonical({**outcome, member: value})
    found = _verdict(MemoryStorage(), None, (change.files[0], (path, wrong)))
    assert "outcome_mismatch" in found


def _verdict(
    storage: MemoryStorage, workshop: Workshop | None, files: tuple[tuple[str, bytes], ...]
) -> tuple[str, ...]:
    """Commit a first round with these files and return what the oracle says."""
    workshop = workshop or Workshop(storage)
    change = workshop.change(workshop.create(), "a")
    ((ophash, state),) = change.operations.items()
    entries = tuple(FileEntry.of(path, content) for path, content in files)
    state = replace(state, artifacts=entries)
    workshop.store.commit(replace(change, files=files, operations={ophash: state}))
    report = verify_storage(storage, case_folder(CASE))
    return tuple(finding.code for finding in report.errors)


def test_the_deepest_answer_that_is_read_can_be_stored_and_judged() -> None:
    """An outcome is deeper than the answer in it, and is read all the same."""
    deepest: JSON = []
    for depth in range(2, DEPTH_MAX * 2):
        try:
            deepest = parse(b"[" * depth + b"]" * depth)
        except InvalidJSON:
            break
    storage = MemoryStorage()
    draft = Workshop(MemoryStorage())
    path, content = draft.change(draft.create(), "a").files[-1]
    outcome = parse(content)
    assert isinstance(outcome, dict)
    outcome.update(output=deepest, output_sha256=digest(deepest))
    request = draft.change(draft.store.open(CASE), "a").files[0]
    assert () == _verdict(storage, None, (request, (path, canonical(outcome))))


def test_an_early_round_is_found_unless_the_clock_was_set_back(tmp_path: Path) -> None:
    """A round may begin before it is due only on a clock that stands before the last round."""
    for seconds, expected in ((59.0, False), (60.0, True), (-1.0, True)):
        workshop = Workshop(tmp_path / str(seconds))
        head = workshop.run(workshop.create(), "a", "temporary_failure")
        workshop.pass_time(seconds)
        workshop.run(head, "a")
        assert expected is verify(workshop.store.package_folder(CASE)).ok


def test_what_a_crash_leaves_is_noted_and_harmless(package: Path) -> None:
    """Uncommitted outcomes and drafts are notes, and say which file they are."""
    outcome = next(package.glob("llm/operations/*/outcome-0001.json")).parent / "outcome-0009.json"
    outcome.write_bytes(b"{}")
    (package / "commits" / ".tmp-1234").write_bytes(b"half")
    report = verify(package)
    assert report.ok
    assert {
        ("leftover", outcome.relative_to(package).as_posix(), Severity.NOTE),
        ("leftover_draft", "commits/.tmp-1234", Severity.NOTE),
    } == {(finding.code, finding.path, finding.severity) for finding in report.findings}


def test_links_in_a_package_are_errors(package: Path) -> None:
    """A link could show other bytes to every reader, wherever it leads."""
    target = next(package.glob("original/*"))
    copy = package.parent / "copy"
    shutil.move(target, copy)
    target.symlink_to(copy)
    (package / "out").symlink_to(package.parent)
    paths = {f.path for f in verify(package).errors if f.code == "special_file"}
    assert {"original/report.txt", "out"} == paths


def test_an_identity_of_another_case_is_found(package: Path) -> None:
    """The id is derived from case and inputs; another identity contradicts them."""
    place = package / "package.json"
    place.write_bytes(place.read_bytes().replace(b'"case-1"', b'"case-2"'))
    assert {"package_id", "file_damaged"} <= {finding.code for finding in verify(package).errors}


def test_damaged_and_foreign_snapshots_are_named(tmp_path: Path) -> None:
    """A snapshot that does not tell what the commits tell is named, and may be deleted."""
    workshop = Workshop(tmp_path / "runtime")
    head = workshop.create()
    for number in range(INTERVAL):
        head = workshop.run(head, f"op-{number}")
    package = workshop.store.package_folder(CASE)
    place = package / "snapshots/0000000064.json"
    whole = place.read_bytes()
    assert () == verify(package).findings
    for step in range(0, len(whole), 2003):
        place.write_bytes(whole[:step] + bytes([whole[step] ^ 1]) + whole[step + 1 :])
        assert [("snapshot_damaged", "snapshots/0000000064.json")] == [
            (finding.code, finding.path) for finding in verify(package).errors
        ]
    place.rename(package / "snapshots/0000000128.json")
    place.write_bytes(whole)
    assert ["commit_missing"] == [finding.code for finding in verify(package).errors]


def test_an_empty_folder_is_no_package_and_nothing_is_nothing(tmp_path: Path) -> None:
    """The oracle tells a folder without commits from a path that does not exist."""
    assert {"identity_missing", "no_commits"} == {f.code for f in verify(tmp_path).errors}
    with pytest.raises(PackageNotFound):
        verify(tmp_path / "missing")


def test_only_what_precedes_a_first_commit_was_never_begun(package: Path) -> None:
    """Anything that only a commit can bring, or a link, keeps its judgement."""
    assert None is never_begun(package)
    for record in (package / "commits").iterdir():
        record.unlink()
    assert None is never_begun(package)
    for name in ("llm", "snapshots", "reviews"):
        shutil.rmtree(package / name, ignore_errors=True)
    report = never_begun(package)
    assert report is not None
    assert (True, ["leftover"]) == (report.ok, [f.code for f in report.findings])
    (package / "original").rename(package / "other")
    assert None is never_begun(package)
    (package / "other").rename(package.parent / "other")
    (package / "original").symlink_to(package.parent / "other")
    assert None is never_begun(package)


def test_a_commit_that_cannot_be_read_does_not_end_the_judgement(tmp_path: Path) -> None:
    """A folder in a record's place is a finding among the others."""
    store = CheckpointStore(tmp_path)
    store.create("case", {"report.txt": b"text"})
    package = store.package_folder("case")
    (package / "commits" / "0000000002.json").mkdir()
    (package / "original" / "report.txt").write_bytes(b"tixt")
    report = verify(package)
    assert not report.ok
    assert "original/report.txt" in {finding.path for finding in report.errors}
