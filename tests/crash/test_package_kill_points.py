"""A real child is killed at every step of the disk while it receives, decides or forgets."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from casework.checkpoints.disk import Disk
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify
from casework.runner.reviews import effective_output
from tests.crash.package_steps import LATER, SCENES
from tests.crash.zygote import Zygote
from tests.support.packages import CASE, Workshop, files_below

Player = Callable[..., tuple[int, int]]


@pytest.fixture(name="play", scope="module")
def player() -> Iterator[Player]:
    """Return a function that plays a scene in a child and returns its exit and its steps."""
    zygote = Zygote("tests.crash.package_steps")
    yield zygote.play
    zygote.close()


def package_in(root: Path) -> Path:
    """Return the folder of the case."""
    return CheckpointStore(root / "runtime").package_folder(CASE)


def everything(root: Path) -> dict[str, bytes]:
    """Return the bytes of the case's package, but for what a crash may leave."""
    return {p: c for p, c in files_below(package_in(root)).items() if "/.tmp-" not in f"/{p}"}


def check_every_kill(
    play: Player, scene: str, prepared: Path, *, between: Callable[[Path], None]
) -> tuple[Path, list[Path]]:
    """Kill a scene at every step and play it again; return the undisturbed root and the others."""
    roots = [prepared.parent / f"{scene}-0"]
    shutil.copytree(prepared, roots[0])
    exited, steps = play(scene, roots[0])
    assert (0, True) == (exited, steps > 10)
    for step in range(1, steps + 1):
        root = prepared.parent / f"{scene}-{step}"
        shutil.copytree(prepared, root)
        exited, _ = play(scene, root, kill_at=step)
        assert -signal.SIGKILL == exited
        between(root)
        exited, _ = play(scene, root)
        assert 0 == exited
        roots.append(root)
    return roots[0], roots[1:]


def check_sound(root: Path) -> None:
    """Demand that whatever is committed verifies, and that nothing is half imported."""
    if (package_in(root) / "commits/0000000001.json").exists():
        report = verify(package_in(root))
        assert report.ok, report.findings


def test_no_kill_loses_a_package_or_takes_it_in_twice(play: Player, tmp_path: Path) -> None:
    """A first history, a longer one, a duplicate and a damaged file, killed at every step."""
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    sender = Workshop(tmp_path / "sender")
    head = sender.run(sender.create(), "answers")
    sender.store.export(CASE, prepared / "1-first.zip")
    sender.run(head, "fails", "error")
    sender.store.export(CASE, prepared / "2-longer.zip")
    shutil.copy(prepared / "1-first.zip", prepared / "3-again.zip")
    content = (prepared / "1-first.zip").read_bytes()
    (prepared / "4-broken.zip").write_bytes(content.replace(b"pump", b"PUMP"))
    whole, disturbed = check_every_kill(play, "receive", prepared, between=check_sound)
    expected = everything(whole)
    assert files_below(sender.store.package_folder(CASE)) == expected
    for root in disturbed:
        assert expected == everything(root), root.name
        assert [] == list((root / "runtime/inbox").glob("*.zip")), root.name
        (rejected,) = (root / "runtime/rejected").glob("*.zip")
        assert rejected.read_bytes() == (prepared / "4-broken.zip").read_bytes()
        for aside in [*(root / "runtime").glob("archive/*.zip"), rejected]:
            assert aside.with_suffix(".json").exists(), root.name


def prepared_case(tmp_path: Path) -> Path:
    """Return a project with a case that went through every state."""
    Workshop(tmp_path / "prepared" / "runtime").full_history()
    return tmp_path / "prepared"


def test_a_decision_is_there_whole_or_not_at_all(play: Player, tmp_path: Path) -> None:
    """After every kill the package verifies; deciding again leaves one decision."""
    whole, disturbed = check_every_kill(
        play, "decide", prepared_case(tmp_path), between=check_sound
    )
    for root in [whole, *disturbed]:
        check_sound(root)
        store = CheckpointStore(root / "runtime")
        (state,) = [s for s in store.open(CASE).operations.values() if s.review is not None]
        assert state.review is not None
        output, _ = effective_output(store, CASE, state.ophash)
        assert (1, {"answer": "yes"}) == (state.review.number, output), root.name


def check_forgetting(root: Path) -> None:
    """Demand a sound package or an unfinished removal that the oracle names, and nothing else."""
    report = verify(package_in(root))
    codes = {finding.code for finding in report.errors}
    assert codes <= ({"not_forgotten", "leftover_draft"} if report.forgotten else set()), codes


def test_no_kill_leaves_a_forgotten_case_half_removed(play: Player, tmp_path: Path) -> None:
    """Before the tombstone all is there; after it, forgetting again removes the rest."""
    whole, disturbed = check_every_kill(
        play, "forget", prepared_case(tmp_path), between=check_forgetting
    )
    for root in [whole, *disturbed]:
        report = verify(package_in(root))
        assert ((), True) == (report.findings, report.forgotten), root.name
        left = {path.split("/")[0] for path in files_below(package_in(root))}
        assert {"commits", "package.json"} == left, root.name


def test_the_next_start_finishes_a_removal(play: Player, tmp_path: Path) -> None:
    """Whoever recovers the store need not know that a case was being forgotten."""
    prepared = prepared_case(tmp_path)
    whole = tmp_path / "whole"
    shutil.copytree(prepared, whole)
    _, steps = play("forget", whole)
    finished = 0
    for step in range(1, steps + 1, 3):
        root = tmp_path / f"step-{step}"
        shutil.copytree(prepared, root)
        play("forget", root, kill_at=step)
        CheckpointStore(root / "runtime", now=lambda: LATER, disk=Disk()).recover()
        report = verify(package_in(root))
        assert report.ok, (root.name, report.findings)
        finished += report.forgotten
    assert 0 < finished
    assert {"receive", "decide", "forget"} == set(SCENES)
