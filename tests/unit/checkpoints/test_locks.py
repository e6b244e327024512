"""A lock keeps everybody out while it is held, and nobody out afterwards."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from casework.checkpoints import locks as locks_module
from casework.checkpoints.locks import CaseLocks, FileLocks, ProcessLocks, prove_exclusion
from casework.errors import LockBusy, StorageError

HOLDER = """
import sys
from pathlib import Path
from casework.checkpoints.locks import FileLocks
with FileLocks(Path(sys.argv[1])).hold(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_holding(
    folder: Path, *words: str, script: str = HOLDER
) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold a lock while the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "held\n" == process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=["files", "process"], name="locks")
def any_locks(request: pytest.FixtureRequest, tmp_path: Path) -> CaseLocks:
    """Return locks of each kind."""
    return FileLocks(tmp_path / "locks") if request.param == "files" else ProcessLocks()


def test_a_held_lock_is_busy_and_a_free_one_is_not(locks: CaseLocks) -> None:
    """The second holder is refused at once, the same instance and thread notwithstanding."""
    with locks.hold("a"):
        assert locks.is_held("a")
        with pytest.raises(LockBusy), locks.hold("a"):
            pass
        with locks.hold("b"):
            pass
    assert not locks.is_held("a")
    with locks.hold("a"):
        pass


def test_a_lock_is_free_after_an_error(locks: CaseLocks) -> None:
    """Whatever ends the work, the lock does not outlive it."""
    with pytest.raises(RuntimeError), locks.hold("a"):
        raise RuntimeError
    with locks.hold("a"):
        pass


def test_of_many_threads_one_gets_in(locks: CaseLocks) -> None:
    """Sixteen threads at one lock: exactly one works, the others are told at once."""
    ready, done = Barrier(16), Barrier(16)

    def race(_number: int) -> bool:
        ready.wait()
        try:
            with locks.hold("a"):
                done.wait()
                return True
        except LockBusy:
            done.wait()
            return False

    with ThreadPoolExecutor(16) as threads:
        assert 1 == sum(threads.map(race, range(16)))


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    """A lock of another process is busy at once; other cases are free."""
    locks = FileLocks(tmp_path)
    with another_process_holding(tmp_path, "a"):
        with pytest.raises(LockBusy), locks.hold("a"):
            pass
        assert not locks.is_held("a")
        with locks.hold("b"):
            pass


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    """The system frees the lock of a process that dies, whatever files it leaves."""
    locks = FileLocks(tmp_path)
    with another_process_holding(tmp_path, "a") as process:
        process.kill()
        process.wait()
        assert locks.path("a").exists()
        with locks.hold("a"):
            pass


@pytest.mark.parametrize("note", ["1 2025-12-01T00:00:00Z", str(os.getpid()), "", "\0"])
def test_a_stale_file_blocks_nobody(tmp_path: Path, note: str) -> None:
    """A lock file that names process 1, or even this process, is only a file."""
    locks = FileLocks(tmp_path)
    locks.path("a").write_text(note)
    with locks.hold("a"):
        assert locks.is_held("a")


def test_lock_files_are_as_many_as_cases(tmp_path: Path) -> None:
    """However often a case is worked on or the ground proven, files do not pile up."""
    locks = FileLocks(tmp_path / "locks")
    for number in range(40):
        with locks.hold(f"case-{number % 4}"):
            prove_exclusion(locks.folder)
    assert 5 == len(list(locks.folder.iterdir()))


def test_racing_processes_never_meet_inside(tmp_path: Path) -> None:
    """Three processes that take the lock again and again lose none of their counts."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from casework.checkpoints.locks import FileLocks\nfrom casework.errors import LockBusy\n"
        "folder, counter = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "locks, done = FileLocks(folder), 0\n"
        "while done < 150:\n"
        "    try:\n"
        "        with locks.hold('a'):\n"
        "            counter.write_text(str(int(counter.read_text()) + 1))\n"
        "            done += 1\n"
        "    except LockBusy:\n"
        "        pass\n"
    )
    counter = tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", code, str(tmp_path / "locks"), str(counter)]
    racers = [subprocess.Popen(command) for _ in range(3)]
    assert [0, 0, 0] == [racer.wait() for racer in racers]
    assert "450" == counter.read_text()


def test_a_forked_child_inherits_no_lock(tmp_path: Path) -> None:
    """The child is kept out of what its parent holds, and leaves the parent's lock alone."""
    locks = FileLocks(tmp_path)
    with locks.hold("a"):
        pid = os.fork()
        if pid == 0:
            code = 9
            try:
                inherits = locks.is_held("a")
                try:
                    with locks.hold("a"):
                        code = 1
                except LockBusy:
                    code = 2 if inherits else 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert 0 == os.waitstatus_to_exitcode(status)
        with pytest.raises(LockBusy), FileLocks(tmp_path).hold("a"):
            pass
    with locks.hold("a"):
        pass


FROZEN = """
import sys
from pathlib import Path
from casework.checkpoints.locks import FileLocks
locks = FileLocks(Path(sys.argv[1]))
locks.sign(sys.argv[3])
with locks.hold(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.readline()
    print("void" if locks.is_void(sys.argv[2]) else "sound", flush=True)
    sys.stdin.read()
"""


def a_signer(
    folder: Path, case_id: str, name: str
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Let another process hold a lock that it has signed while the context lasts."""
    return another_process_holding(folder, case_id, name, script=FROZEN)


def sound_or_void(process: subprocess.Popen[str]) -> str:
    """Ask a signer whether its lock is still its own."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_a_worker_that_signed_can_be_ousted_and_finds_out(tmp_path: Path) -> None:
    """Whoever ousts it by name gets in, and the ousted one sees that its lock is void."""
    locks = FileLocks(tmp_path)
    with a_signer(tmp_path, "a", "worker-1") as process:
        assert locks.oust("a", "worker-1")
        with locks.hold("a"):
            assert not locks.is_void("a")
            assert locks.is_ousted_at_work("a")
        assert "void" == sound_or_void(process)
    assert not locks.is_ousted_at_work("a")
    assert [locks.path("a")] == list(tmp_path.iterdir())


def test_nobody_else_is_ousted(tmp_path: Path) -> None:
    """Neither another worker than the one named nor a holder without a signature is broken into."""
    locks = FileLocks(tmp_path)
    with a_signer(tmp_path, "a", "worker-1") as process:
        assert not locks.oust("a", "worker-2")
        assert "sound" == sound_or_void(process)
    with another_process_holding(tmp_path, "b"):
        assert not locks.oust("b", "worker-1")
        with pytest.raises(LockBusy), locks.hold("b"):
            pass
    assert not locks.oust("never locked", "worker-1")


def test_what_a_dead_worker_signed_counts_for_nothing(tmp_path: Path) -> None:
    """The next holder without a name takes the signature off, so that it cannot be ousted."""
    locks = FileLocks(tmp_path)
    with a_signer(tmp_path, "a", "worker-1") as process:
        process.kill()
        process.wait()
    assert b"worker-1" == locks.path("a").read_bytes()
    with locks.hold("a"):
        assert not FileLocks(tmp_path).oust("a", "worker-1")


def test_a_signature_is_gone_with_its_lock(tmp_path: Path) -> None:
    """A worker that has let go cannot be mistaken for whoever comes next."""
    locks = FileLocks(tmp_path)
    locks.sign("worker-1")
    with locks.hold("a"):
        assert b"worker-1" == locks.path("a").read_bytes()
    assert b"" == locks.path("a").read_bytes()
    assert not locks.oust("a", "worker-1")


def test_a_lock_ends_with_its_process_though_a_forked_child_lives_on(tmp_path: Path) -> None:
    """A child that was forked while a lock was held does not keep it from others."""
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from casework.checkpoints.locks import FileLocks\n"
        "with FileLocks(Path(sys.argv[1])).hold('a'):\n"
        "    ready, done = os.pipe()\n"
        "    if os.fork() == 0:\n"
        "        os.write(done, b'.')\n"
        "        sys.stdin.read()\n"
        "        os._exit(0)\n"
        "    os.read(ready, 1)\n"
        "    print('held', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "held\n" == process.stdout.readline()
    process.wait()
    with FileLocks(tmp_path).hold("a"):
        assert process.stdin is not None
        process.stdin.close()
    process.stdout.close()


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    """A planted link is refused, and what it points to stays as it is."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    locks = FileLocks(tmp_path / "locks")
    locks.folder.mkdir()
    locks.path("a").symlink_to(victim)
    with pytest.raises(StorageError) as refusal, locks.hold("a"):
        pass
    assert ("link_in_path", "precious") == (refusal.value.code, victim.read_text())


def test_a_full_disk_makes_no_half_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the lock file cannot be made, a clear error says so, and nothing is held."""
    locks = FileLocks(tmp_path / "locks")

    def full(_path: Path, _signature: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(locks_module, "_acquired", full)
        with pytest.raises(StorageError) as refusal, locks.hold("a"):
            pass
    assert "disk_full" == refusal.value.code
    assert not locks.is_held("a")
    with locks.hold("a"):
        pass


def test_ground_that_excludes_is_accepted_and_other_ground_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second holder has to be kept out by the system itself, not by this process."""
    prove_exclusion(tmp_path / "locks")

    class Nothing:
        def is_at_its_path(self) -> bool:
            return True

        def let_go(self) -> None:
            pass

    monkeypatch.setattr(locks_module, "_acquired", lambda _path, _signature: Nothing())
    with pytest.raises(StorageError) as refusal:
        prove_exclusion(tmp_path / "locks")
    assert "locks_do_not_exclude" == refusal.value.code
