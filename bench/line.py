"""The whole line as processes: speed, lateness, memory and descriptors beside the disk's floor.

Everything is measured from outside, on real `casework` processes and on the packages they leave:

* rounds per second with a provider that answers at once, by one and by two processes, and the floor
  of the same minute: "write file, fsync, link, fsync folder" from as many threads;
* a project of many cases: next due operation, `status`, resident memory and open files of a run
  with 64 cases in flight, time to the first result under `ulimit -n 256`;
* how late due rounds begin on an idle machine;
* how long two processes take for rounds of half a second on a hundred slots, against the ideal;
* what it costs to wait for many operations that are not due.

``--quick`` takes about two minutes and fewer cases; the full run takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from bench.durable import floor
from casework.checkpoints.store import CheckpointStore

CASEWORK = str(Path(sys.executable).with_name("casework"))
GOOD = {"do": "reply", "text": '{"answer": "yes"}', "usage": {"prompt_tokens": 500}}
DOWN = {"do": "fail", "kind": "http_5xx", "http_status": 503}
SETTINGS = """
[[providers]]
id = "double"
adapter = "scripted"
class = "local"
model = "m"
file = "script.json"

[retry]
retry_delay_seconds = {delay}

[outage]
enabled = false
"""
PIPELINE = """
name = "bench"
[[operations]]
id = "extract"
task = "Answer."
output_schema = { type = "object", required = ["answer"] }
"""
TEXT = "The pump failed twice. " * 40
SLOTS, ROUND_SECONDS, SLOW_ROUNDS = 100, 0.5, 600
TICK = os.sysconf("SC_CLK_TCK")


def project(folder: Path, cases: int, steps: Sequence[object], *, delay: float = 60.0) -> Path:
    """Make a project with so many cases and a provider that plays the steps."""
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "llm.local.toml").write_text(SETTINGS.format(delay=delay))
    script = {"repeat_last": True, "steps": list(steps)}
    (folder / "config" / "script.json").write_text(json.dumps(script))
    (folder / "pipeline.toml").write_text(PIPELINE)
    with (folder / "cases.jsonl").open("w") as records:
        for number in range(cases):
            records.write(
                json.dumps({"id": f"case-{number:06}", "text": f"{number} {TEXT}"}) + "\n"
            )
    casework(folder, "import", "cases.jsonl", "--id-field", "id", "--text-field", "text")
    return folder


def casework(folder: Path, *words: str) -> float:
    """Run a verb to its end and return the seconds that it took."""
    begun = time.perf_counter()
    subprocess.run([CASEWORK, *words, "--quiet"], cwd=folder, check=False, capture_output=True)
    return time.perf_counter() - begun


def start(folder: Path, *words: str, files: int | None = None) -> subprocess.Popen[bytes]:
    """Start a verb, perhaps with a limit of open files."""
    command = [CASEWORK, *words]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$0" "$@"', *command]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet)


@dataclass(slots=True)
class Use:
    """The most that a process used while it was watched."""

    resident_mb: float = 0.0
    descriptors: int = 0
    processor_seconds: float = 0.0

    def look(self, pid: int) -> None:
        """Look at the process once; one that has just ended is left as it was."""
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
            self.resident_mb = int(peak.split()[1]) / 1024
            self.descriptors = max(self.descriptors, len(list(Path(f"/proc/{pid}/fd").iterdir())))
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            self.processor_seconds = (int(fields[11]) + int(fields[12])) / TICK
        except (OSError, StopIteration):
            return


def watch(process: subprocess.Popen[bytes], use: Use, *, seconds: float = 600.0) -> Use:
    """Watch a process until it ends or the time is over."""
    until = time.perf_counter() + seconds
    while process.poll() is None and time.perf_counter() < until:
        use.look(process.pid)
        time.sleep(0.02)
    return use


def outcomes(folder: Path) -> Iterator[dict[str, object]]:
    """Yield every outcome of a project."""
    for path in folder.glob("runtime/cases/*/*/llm/operations/*/outcome-*.json"):
        yield json.loads(path.read_bytes())


def span(found: Sequence[dict[str, object]]) -> float:
    """Return the seconds from the first call's start to the last call's end."""
    starts = [moment(outcome) for outcome in found]
    ends = [
        begun + timedelta(milliseconds=int(str(outcome["elapsed_ms"])))
        for begun, outcome in zip(starts, found, strict=True)
    ]
    return (max(ends) - min(starts)).total_seconds()


def moment(outcome: dict[str, object], name: str = "started_at") -> datetime:
    """Return a moment of an outcome or state."""
    return datetime.fromisoformat(str(outcome[name]))


def speed(base: Path, cases: int) -> None:
    """Print rounds per second by one and by two processes, beside the floor."""
    for processes in (1, 2):
        place = project(base / f"speed-{processes}", cases * processes, [GOOD])
        bare_folder = base / f"floor-{processes}"
        bare_folder.mkdir()
        bare = floor(bare_folder, threads=16, commits=cases, content=b"x" * 4500)
        begun = time.process_time(), os.times()
        running = [start(place, "run", "--concurrency", "16") for _ in range(processes)]
        for process in running:
            process.wait()
        after = os.times()
        used = (
            after.children_user
            + after.children_system
            - begun[1].children_user
            - begun[1].children_system
        )
        found = list(outcomes(place))
        rate = len(found) / span(found)
        print(
            f"instant provider, {processes} process(es): {rate:5.0f} rounds/s, "
            f"floor at 16 threads {bare:5.0f}/s, ratio {rate / bare:4.2f}, "
            f"CPU {used * 1000 / len(found):4.2f} ms/round, starting up included"
        )


def size(base: Path, cases: int) -> None:
    """Print what a large project costs."""
    place = project(base / "size", cases, [GOOD])
    process = start(place, "run", "--limit", "2000", "--concurrency", "64")
    use = watch(process, Use())
    index = CheckpointStore(place / "runtime").index
    index.counts()
    times = []
    for _ in range(200):
        begun = time.perf_counter()
        index.due(datetime.fromisoformat("2100-01-01T00:00:00+00:00"), 1)
        times.append(time.perf_counter() - begun)
    index.close()
    status = statistics.median(casework(place, "status") for _ in range(3))
    print(
        f"{cases:,} cases: next due {statistics.median(times) * 1000:.2f} ms, "
        f"status {status:.2f} s, run with 64 in flight {use.resident_mb:.0f} MB, "
        f"{use.descriptors} descriptors"
    )


def first_result(base: Path, cases: int) -> None:
    """Print how soon the first result is there with few open files allowed."""
    place = project(base / "first", cases, [GOOD])
    begun = datetime.now().astimezone()
    process = start(place, "run", "--concurrency", "8", files=256)
    folder = place / "runtime" / "cases"
    pattern = "*/*/llm/operations/*/outcome-0001.json"
    while process.poll() is None and next(iter(folder.glob(pattern)), None) is None:
        time.sleep(0.01)
    first = (datetime.now().astimezone() - begun).total_seconds()
    process.terminate()
    process.wait()
    print(f"{cases:,} cases under ulimit -n 256, 8 in flight: first result after {first:.2f} s")


def lateness(base: Path, cases: int) -> None:
    """Print how late second rounds begin that are due one after another."""
    down = {**DOWN, "delay_seconds": 0.03}
    place = project(base / "late", cases, [down], delay=cases * 0.05 + 2.0)
    casework(place, "run", "--once", "--concurrency", "1")
    script = {"repeat_last": True, "steps": [GOOD]}
    (place / "config" / "script.json").write_text(json.dumps(script))
    casework(place, "run")
    late = []
    for folder in place.glob("runtime/cases/*/*"):
        due_at = None
        for path in sorted(folder.glob("commits/*.json")):
            for state in json.loads(path.read_bytes())["operations"].values():
                due_at = due_at or (moment(state, "due_at") if state["due_at"] else None)
        second = next(folder.glob("llm/operations/*/outcome-0002.json"))
        begun = moment(json.loads(second.read_bytes()))
        assert due_at is not None
        late.append((begun - due_at).total_seconds() * 1000)
    late.sort()
    print(
        f"{cases} rounds due one after another: late by {statistics.median(late):.1f} ms, "
        f"p99 {late[int(len(late) * 0.99)]:.1f} ms, earliest {late[0]:.1f} ms"
    )


def makespan(base: Path) -> None:
    """Print how close two processes come to the ideal on a hundred slots."""
    place = project(base / "span", SLOW_ROUNDS, [{**GOOD, "delay_seconds": ROUND_SECONDS}])
    half = str(SLOTS // 2)
    running = [start(place, "run", "--concurrency", half) for _ in range(2)]
    for process in running:
        process.wait()
    found = list(outcomes(place))
    took, ideal = span(found), SLOW_ROUNDS * ROUND_SECONDS / SLOTS
    print(
        f"{len(found)} rounds of {ROUND_SECONDS} s on {SLOTS} slots in two processes: "
        f"{took:.2f} s, {took / ideal:.2f} x the ideal {ideal:.1f} s"
    )


def waiting(base: Path, cases: int, seconds: float) -> None:
    """Print what a worker costs that waits for operations which are not due."""
    place = project(base / "waiting", cases, [DOWN], delay=86_400.0)
    casework(place, "run", "--once", "--concurrency", "16")
    process = start(place, "worker")
    use = watch(process, Use(), seconds=5.0)
    before = use.processor_seconds
    watch(process, use, seconds=seconds)
    share = (use.processor_seconds - before) / seconds
    process.terminate()
    process.wait()
    print(
        f"{cases:,} operations waiting: worker {use.resident_mb:.0f} MB, "
        f"{100 * share:.2f}% of a processor"
    )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer cases")
    options.add_argument("--folder", type=Path, default=None, help="disk to measure")
    options.add_argument("--only", default="", help="names of measurements, by comma")
    chosen = options.parse_args()
    scale = 0.05 if chosen.quick else 1.0
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        base = Path(name)
        measurements = {
            "speed": lambda: speed(base, 600 if chosen.quick else 3000),
            "makespan": lambda: makespan(base),
            "lateness": lambda: lateness(base, 100 if chosen.quick else 400),
            "waiting": lambda: waiting(base, int(10_000 * scale), 10.0 if chosen.quick else 60.0),
            "first": lambda: first_result(base, int(20_000 * scale)),
            "size": lambda: size(base, int(100_000 * scale)),
        }
        for measurement in chosen.only.split(",") if chosen.only else measurements:
            measurements[measurement]()
            sys.stdout.flush()
            for place in base.iterdir():
                shutil.rmtree(place)


if __name__ == "__main__":
    main()
