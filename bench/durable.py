"""What durability costs: rounds beside the disk's own floor, and CPU beside an instant call.

Prints, measured in one run on one disk:

* CPU per round of runner, gateway and store together, with a provider that answers at once;
* rounds per second with one and with 32 cases in flight, and the floor of the same minute: "write
  file, fsync, link, fsync folder" from as many threads, with the bytes of a commit;
* how both grow from one to 32, which shows whether the disk's group commit is used; once on this
  disk, where the processor is the limit, and once as if every sync took 5 ms, where waiting is.

``--quick`` takes under a minute. Ratios are what to quote; absolute numbers move with the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from casework.checkpoints.disk import Disk, Draft
from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import LLMRequest, Usage
from casework.gateway.providers.scripted import Reply, ScriptedProvider
from casework.prompts.prompt_builder import PromptBuilder
from casework.runner.case_runner import CaseLLMRunner

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
SETTINGS = '[[providers]]\nid = "instant"\nadapter = "double"\nmodel = "m"\nclass = "cloud"\n'
IN_FLIGHT = 32
SLOW_SYNC_SECONDS = 0.005


class SlowDisk(Disk):
    """This disk, with syncs that take as long as on a plain SSD or a network volume."""

    def sync(self, draft: Draft) -> None:
        """Wait, then sync a draft."""
        time.sleep(SLOW_SYNC_SECONDS)
        super().sync(draft)

    def sync_folder(self, path: str) -> None:
        """Wait, then sync a folder."""
        time.sleep(SLOW_SYNC_SECONDS)
        super().sync_folder(path)


def request() -> LLMRequest:
    """Return a request about a document of about 2 kB."""
    return PromptBuilder().build("Answer.", "The pump failed twice. " * 90, SCHEMA)


def floor(folder: Path, *, threads: int, commits: int, content: bytes) -> float:
    """Return commits per second of the bare protocol from some threads."""

    def commit(number: int) -> None:
        place = folder / f"{number % threads}"
        place.mkdir(exist_ok=True)
        temporary, final = place / f".t{number}", place / f"f{number}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)
        os.link(temporary, final)
        above = os.open(place, os.O_RDONLY)
        os.fsync(above)
        os.close(above)
        temporary.unlink()

    with ThreadPoolExecutor(threads) as pool:
        begun = time.perf_counter()
        list(pool.map(commit, range(commits)))
        return commits / (time.perf_counter() - begun)


async def rounds(
    root: Path, *, cases: int, in_flight: int, disk: Disk | None = None
) -> tuple[float, float]:
    """Return rounds per second and CPU milliseconds per round."""
    provider = ScriptedProvider(
        [Reply('{"answer": "yes"}', usage=Usage(500, 10, 510))], repeat_last=True
    )
    config = GatewayConfig.parse(f'privacy_profile = "cloud_allowed"\n{SETTINGS}')
    gateway = LLMGateway(config, adapters={"double": lambda _: provider})
    store = CheckpointStore(root)
    heads = [store.create(f"case-{n}", {"a.txt": b"The pump failed."}) for n in range(cases)]
    asked = request()
    store = CheckpointStore(root, disk=disk)
    with ThreadPoolExecutor(store.disk_threads(in_flight)) as threads:
        runner = CaseLLMRunner(store, gateway, executor=threads)
        waiting = iter(heads)

        async def worker() -> None:
            for head in waiting:
                await runner.run(head.case_id, head.package_id, operation_id="a", request=asked)

        begun, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(worker() for _ in range(in_flight)))
        elapsed, used = time.perf_counter() - begun, time.process_time() - cpu
    return cases / elapsed, used * 1000 / cases


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer rounds")
    options.add_argument("--folder", type=Path, default=None, help="disk to measure")
    chosen = options.parse_args()
    cases, repeats = (300, 3) if chosen.quick else (2000, 5)
    content = b"x" * 4500
    results: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        base = Path(name)
        for repeat in range(repeats):
            for threads in (1, IN_FLIGHT):
                place = base / f"floor-{repeat}-{threads}"
                place.mkdir()
                bare = floor(place, threads=threads, commits=cases, content=content)
                results.setdefault(f"floor {threads}", []).append(bare)
                root = base / f"rounds-{repeat}-{threads}"
                per_second, cpu = asyncio.run(rounds(root, cases=cases, in_flight=threads))
                results.setdefault(f"rounds {threads}", []).append(per_second)
                results.setdefault(f"cpu {threads}", []).append(cpu)
    medians = {name: statistics.median(values) for name, values in results.items()}
    for threads in (1, IN_FLIGHT):
        bare, mine = medians[f"floor {threads}"], medians[f"rounds {threads}"]
        print(f"in flight {threads:2}: {mine:7.0f} rounds/s, bare commits {bare:7.0f}/s, ", end="")
        print(f"ratio {mine / bare:4.2f}, CPU {medians[f'cpu {threads}']:5.2f} ms/round")
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        slow = {
            threads: asyncio.run(
                rounds(Path(name, str(threads)), cases=cases, in_flight=threads, disk=SlowDisk())
            )[0]
            for threads, cases in ((1, 30), (IN_FLIGHT, 300))
        }
    growth = medians[f"rounds {IN_FLIGHT}"] / medians["rounds 1"]
    bare_growth = medians[f"floor {IN_FLIGHT}"] / medians["floor 1"]
    print(f"growth 1 -> {IN_FLIGHT}: rounds x{growth:.1f}, bare commits x{bare_growth:.1f}")
    print(f"growth 1 -> {IN_FLIGHT} with syncs of 5 ms: rounds x{slow[IN_FLIGHT] / slow[1]:.1f}")


if __name__ == "__main__":
    main()
