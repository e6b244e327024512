"""The command line as a real process: locales, pipes, signals, small machines."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from casework.checkpoints.verify import verify
from casework.runtime.cli import main
from casework.strict_json import JSONObject
from tests.support.command_line import (
    COMMAND,
    YES,
    child,
    child_environment,
    make_project,
    write_script,
)

ASCII_ONLY = {
    "LANG": "C",
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "",
}

SLOW: JSONObject = {"do": "reply", "text": '{"answer": "yes"}', "delay_seconds": 0.05}
STUCK: JSONObject = {"do": "hang"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a finished project whose texts and names are not ASCII; its readers change nothing."""
    folder = make_project(
        tmp_path_factory.mktemp("worked"),
        texts={"Grüße.txt": "Žluťoučký kůň 🐎", "b.txt": "Two."},
    )
    assert 0 == child("import", "inputs", cwd=folder).returncode
    assert 0 == child("run", cwd=folder).returncode
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("status",),
        ("audit", "--all"),
        ("inspect", "Grüße.txt"),
        ("inbox", "show", "Grüße.txt"),
        ("export",),
        ("export", "--format", "csv"),
        ("inspect", "Grüße.txt", "--request", "--raw"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_an_ascii_locale_ends_no_command(project: Path, words: tuple[str, ...]) -> None:
    """Texts beyond ASCII are written as UTF-8 to a pipe, whatever the locale says."""
    done = child(*words, cwd=project, env=ASCII_ONLY)
    assert (0, b"") == (done.returncode, b"Traceback" if b"Traceback" in done.stderr else b"")
    done.stdout.decode("utf-8")


def test_a_case_has_one_id_in_every_locale(tmp_path: Path) -> None:
    """A timer without a locale imports the same ids as a person's shell."""
    make_project(tmp_path, texts={"Grüße.txt": "Hello."})
    assert 0 == child("import", "inputs", cwd=tmp_path, env=ASCII_ONLY).returncode
    again = json.loads(child("import", "inputs/Grüße.txt", "--json", cwd=tmp_path).stdout)
    assert (1, 0) == (again["known"], again["created"])


def test_json_is_the_same_in_every_locale(project: Path) -> None:
    """The locale changes no byte of JSON output."""
    plain = child("export", cwd=project).stdout
    assert plain == child("export", cwd=project, env=ASCII_ONLY).stdout
    assert {"b.txt", "Grüße.txt"} == {json.loads(line)["case_id"] for line in plain.splitlines()}


def test_a_reader_that_leaves_early_is_no_error(project: Path) -> None:
    """``| head -1`` ends the writer quietly, with the code of its work."""
    process = subprocess.Popen(
        [*COMMAND, "audit", "--all", "--format", "csv"],
        cwd=project,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=30)
    assert (0, b"") == (process.returncode, errors)


def test_a_full_disk_behind_standard_output_is_told(project: Path) -> None:
    """Data that could not be written is an error, on one line."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("the machine has no device that is always full")
    with full.open("wb") as sink:
        done = subprocess.run(
            [*COMMAND, "status"],
            cwd=project,
            env=child_environment(),
            stdout=sink,
            stderr=subprocess.PIPE,
            check=False,
            timeout=30,
        )
    assert 1 == done.returncode
    assert done.stderr.endswith(b"[output_refused]\n")


def test_help_that_cannot_be_written_is_told_alike(project: Path) -> None:
    """What the parser writes itself fails as everything else does."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("the machine has no device that is always full")
    for words in (("--help",), ("--version",), ("status", "--help")):
        with full.open("wb") as sink:
            done = subprocess.run(
                [*COMMAND, *words],
                cwd=project,
                env=child_environment(),
                stdout=sink,
                stderr=subprocess.PIPE,
                check=False,
                timeout=30,
            )
        assert (1, True) == (done.returncode, done.stderr.endswith(b"[output_refused]\n"))


@pytest.mark.skipif(os.name == "nt", reason="the shell closes them")
@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_end_no_command(project: Path, closed: str) -> None:
    """A service may begin a command without streams; it does its work and writes into no file."""
    before = sorted(path.name for path in project.rglob("*"))
    for words in ("status", "inbox list --json", "export", "status --bad-option"):
        line = f"{shlex.join(COMMAND)} {words} {closed}"
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=project,
            env=child_environment(),
            capture_output=True,
            check=False,
            timeout=30,
        )
        assert (2 if "bad" in words else 0) == done.returncode
        assert b"defect" not in done.stderr
    assert before == sorted(path.name for path in project.rglob("*"))


def test_progress_goes_to_standard_error_without_carriage_returns(project: Path) -> None:
    """Off a terminal there are plain lines, and standard output has data only."""
    done = child("run", "--json", cwd=project)
    assert isinstance(json.loads(done.stdout), dict)
    assert b"\r" not in done.stderr
    assert b"no document may leave this machine" in done.stderr
    assert b"" == child("run", "--json", "--quiet", cwd=project).stderr


def begin_run(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a run and return once its first result is committed or its first call is out."""
    process = subprocess.Popen(
        [*COMMAND, "run", "--concurrency", "2", *words],
        cwd=folder,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    while b"first: profile" not in process.stderr.readline():
        assert process.poll() is None
    return process


def wait_for(folder: Path, pattern: str) -> None:
    """Wait until a file of this kind is there."""
    while not any((folder / "runtime").rglob(pattern)):
        os.sched_yield()


def states(folder: Path) -> dict[str, int]:
    """Return the counts of the project."""
    counts = json.loads(child("status", "--json", cwd=folder).stdout)["counts"]
    assert isinstance(counts, dict)
    return counts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_lets_running_calls_end(tmp_path: Path, number: int) -> None:
    """What was finished is kept, exit 130, and the next run completes the rest."""
    texts = {f"t{n:03}.txt": f"Text {n}." for n in range(60)}
    make_project(tmp_path, [SLOW], texts=texts)
    child("import", "inputs", cwd=tmp_path)
    process = begin_run(tmp_path)
    wait_for(tmp_path, "outcome-0001.json")
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    kept = states(tmp_path)
    assert 130 == process.returncode
    assert b"Traceback" not in errors
    assert 0 < kept["success"] < 60
    assert (0, 60) == (kept["running"], kept["operations"])
    assert not any((tmp_path / "runtime" / "inflight").glob("*.json"))
    write_script(tmp_path, [YES])
    assert b"reused" in child("run", cwd=tmp_path).stdout
    assert 60 == states(tmp_path)["success"]


def test_two_signals_leave_at_once_and_no_half_file(tmp_path: Path) -> None:
    """A call that never ends is left; its case is told as perhaps paid for, and runs again."""
    make_project(tmp_path, [YES, STUCK], texts={"a.txt": "One.", "b.txt": "Two."})
    child("import", "inputs", cwd=tmp_path)
    process = begin_run(tmp_path)
    wait_for(tmp_path, "outcome-0001.json")
    wait_for(tmp_path, "inflight/*.json")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while b"press again" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert 130 == process.returncode
    packages = [path.parent for path in (tmp_path / "runtime").rglob("package.json")]
    assert [True, True] == [verify(path).ok for path in packages]
    status = json.loads(child("status", "--json", cwd=tmp_path).stdout)
    assert 1 == len(status["interrupted"])
    write_script(tmp_path, [YES])
    assert 0 == child("run", cwd=tmp_path).returncode
    rows = [
        json.loads(line)
        for line in child("audit", "--all", "--json", cwd=tmp_path).stdout.splitlines()
    ]
    assert [False] == [row["confirmed"] for row in rows if row["result"] == "unconfirmed"]


def test_a_killed_run_is_told_and_taken_up(tmp_path: Path) -> None:
    """After SIGKILL the status names the interrupted round, and totals count every call."""
    make_project(tmp_path, [YES, STUCK], texts={"a.txt": "One.", "b.txt": "Two."})
    child("import", "inputs", cwd=tmp_path)
    process = begin_run(tmp_path)
    wait_for(tmp_path, "outcome-0001.json")
    process.kill()
    process.communicate(timeout=30)
    status = child("status", cwd=tmp_path).stdout
    assert b"may have been paid twice" in status
    write_script(tmp_path, [YES])
    ran = json.loads(child("run", "--json", cwd=tmp_path).stdout)
    assert (1, 2) == (ran["calls"], ran["usage"]["calls"])
    assert 1 == ran["reused"] + ran["adopted"]


def limit_files() -> None:
    """Allow this process few open files, as small machines do."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_many_cases_need_few_descriptors_and_little_memory(tmp_path: Path) -> None:
    """A thousand cases run within 256 descriptors and without growing by the case."""
    make_project(tmp_path, [YES])
    lines = (json.dumps({"id": f"c{n:05}", "text": f"Text {n}."}) for n in range(1000))
    (tmp_path / "cases.jsonl").write_text("\n".join(lines), encoding="utf-8")
    words = ("import", "cases.jsonl", "--id-field", "id", "--text-field", "text")
    code = (
        "import re, sys; from casework.runtime.cli.command_line import run\n"
        "codes = [run(words.split()) for words in sys.argv[1:]]\n"
        "peak = re.search('VmHWM: *(.*) kB', open('/proc/self/status').read().expandtabs(1))\n"
        "print(codes, peak[1], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, " ".join(words), "run --concurrency 64 --quiet"],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        check=False,
        timeout=120,
        preexec_fn=limit_files,
    )
    *_, last = done.stderr.decode().splitlines()
    codes, _, resident = last.rpartition(" ")
    assert "[<ExitCode.SUCCESS: 0>, <ExitCode.SUCCESS: 0>]" == codes
    assert 200_000 > int(resident)
    assert 1000 == states(tmp_path)["success"]


def test_two_workers_share_a_project(tmp_path: Path) -> None:
    """Two runs at once lose no case and ask none twice."""
    texts = {f"t{n:03}.txt": f"Text {n}." for n in range(60)}
    make_project(tmp_path, [{**SLOW, "delay_seconds": 0.01}], texts=texts)
    child("import", "inputs", cwd=tmp_path)
    runs = [
        subprocess.Popen(
            [*COMMAND, "run", "--json", "--quiet"],
            cwd=tmp_path,
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    ended = [process.communicate(timeout=60) for process in runs]
    assert [0, 0] == [process.returncode for process in runs], ended
    assert 60 == sum(json.loads(out)["calls"] for out, _ in ended)
    assert 60 == states(tmp_path)["success"]


def test_a_signal_while_the_program_is_loaded_is_an_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C before there is a verb to interrupt ends as in a verb, without a traceback."""

    class Loading(ModuleType):
        def __getattr__(self, _name: str) -> None:
            raise KeyboardInterrupt

    name = "casework.runtime.cli.command_line"
    monkeypatch.setitem(sys.modules, name, Loading(name))
    with pytest.raises(SystemExit) as ended:
        main()
    assert (130, "", "") == (ended.value.code, *capsys.readouterr())
