"""``casework serve`` beside a bare pass-through, the upstream itself, and any peer at hand.

    python -m bench.gateway [--quick] [--only c16,dead] [--rounds 5] [--litellm PATH]

Casework runs as its users run it, with a client key, a privacy profile, breakers, cooldowns, usage
and the request log. All gateways ask the same mock upstream and get the same load. With two cores
or more, a gateway has one to itself, and the load and the upstream share another. All are up at
once; in each round each measurement is taken of one after the other while the rest stands still,
and medians of the rounds are printed. ``direct`` is the upstream without a gateway, on the core of
the gateways; what is added is the difference to it in the same round. Ratios are what to quote.

* ``c1``, ``c16``, ``c64``: so many connections, whole answers of about 1 kB to requests of 2 kB;
* ``burst``: 16 streams at a time, of 64 chunks without gaps;
* ``paced``: 50 streams at a time, a chunk every 20 ms, their beginnings spread evenly;
* ``dead``: 16 connections that ask for a model of three providers, at the first of which nobody
  listens, once its breaker is open; right before it the same with a model that has nobody dead.

``--quick`` takes a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import os
import signal
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.gateway_load import Ask, Heard, chat_body, http, load, share_of
from bench.gateway_processes import (
    Cores,
    Gateway,
    Ports,
    bare,
    casework,
    direct,
    litellm,
    processor_seconds,
    resident_mib,
    upstream,
)

WARM_SECONDS = 0.4
BURST_CHUNKS = 64
PACED_CHUNKS, GAP_SECONDS = 50, 0.02
CONNECTIONS = {"c1": 1, "c16": 16, "c64": 64, "burst": 16, "paced": 50, "healthy": 16, "dead": 16}
MEASUREMENTS = ("c1", "c16", "c64", "burst", "paced", "dead")
ANSWER_TOKENS = 180
OURS, FLOOR, PEER = "casework", "Starlette + aiohttp", "LiteLLM proxy"
NAN = float("nan")

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Bar:
    """What is demanded of a figure."""

    name: str
    measured: float
    must: float
    goal: float
    at_least: bool = True

    def reached(self, limit: float) -> bool:
        """Tell whether the figure is on the right side of a limit."""
        return self.measured >= limit if self.at_least else self.measured <= limit

    def verdict(self) -> str:
        """Say how the figure stands."""
        if math.isnan(self.measured):
            return "not measured"
        if self.reached(self.goal):
            return "pass, goal reached"
        return "pass" if self.reached(self.must) else "FALLS SHORT"


def ask_of(gateway: Gateway, measurement: str) -> Ask:
    """Return what a gateway is asked in a measurement."""
    headers, port = gateway.headers, gateway.port
    if measurement == "paced":
        port = gateway.paced_port or port
        body = chat_body("paced", tokens=PACED_CHUNKS, stream=True)
        return Ask(port, http(port, gateway.paced_path, body, headers), PACED_CHUNKS)
    if measurement == "burst":
        body = chat_body("bench", tokens=BURST_CHUNKS, stream=True)
        return Ask(port, http(port, gateway.fast_path, body, headers), BURST_CHUNKS)
    model = "dead" if measurement == "dead" else "bench"
    return Ask(port, http(port, gateway.fast_path, chat_body(model, tokens=ANSWER_TOKENS), headers))


async def measured(gateway: Gateway, measurement: str, seconds: float) -> Figures:
    """Take one measurement of one gateway."""
    ask, pid = ask_of(gateway, measurement), gateway.process.pid
    connections = CONNECTIONS[measurement]
    paced = measurement == "paced"
    spread = PACED_CHUNKS * GAP_SECONDS if paced else 0.0
    if not paced:
        await load(ask, connections=connections, seconds=WARM_SECONDS)
    gc.collect()
    gc.disable()
    before = processor_seconds(pid)
    heard = await load(
        ask,
        connections=connections,
        seconds=max(seconds, 3 * spread),
        spread_seconds=spread,
        timed=paced,
    )
    used = processor_seconds(pid) - before
    gc.enable()
    return figures_of(heard, used, chunks=ask.chunks or 0)


def figures_of(heard: Heard, used_seconds: float, *, chunks: int) -> Figures:
    """Return what a measurement says."""
    answers = max(heard.answers, 1)
    return {
        "rate": heard.answers / heard.elapsed_seconds,
        "chunks": heard.answers * chunks / heard.elapsed_seconds,
        "cpu_us": used_seconds * 1e6 / answers,
        "p50_ms": share_of(heard.whole_seconds, 0.5) * 1000,
        "p99_ms": share_of(heard.whole_seconds, 0.99) * 1000,
        "first_p50_ms": share_of(heard.first_seconds, 0.5) * 1000,
        "first_p99_ms": share_of(heard.first_seconds, 0.99) * 1000,
        "delay_p99_ms": share_of(heard.delay_seconds, 0.99) * 1000,
        "failed": float(heard.failed.total()),
    }


class Results:
    """The figures of all rounds, by gateway and measurement."""

    def __init__(self) -> None:
        self._rounds: dict[tuple[str, str], list[Figures]] = defaultdict(list)

    def add(self, gateway: str, measurement: str, figures: Figures) -> None:
        """Take note of one round."""
        self._rounds[gateway, measurement].append(figures)

    def of(self, gateway: str, measurement: str, figure: str) -> float:
        """Return the median of a figure; not a number where it was not measured."""
        rounds = self._rounds.get((gateway, measurement))
        return statistics.median(one[figure] for one in rounds) if rounds else NAN

    def ratio(self, gateway: str, measurement: str, over: str) -> float:
        """Return the median of the rate of one measurement over that of another, by round."""
        pairs = zip(
            self._rounds.get((gateway, measurement), []),
            self._rounds.get((gateway, over), []),
            strict=False,
        )
        ratios = [one["rate"] / its["rate"] for one, its in pairs]
        return statistics.median(ratios) if ratios else NAN

    def added(self, gateway: str, measurement: str, figure: str) -> float:
        """Return the median of what a gateway adds to the upstream's own figure."""
        ours = self._rounds.get((gateway, measurement), [])
        base = self._rounds.get(("direct", measurement), [])
        added = [one[figure] - its[figure] for one, its in zip(ours, base, strict=False)]
        return statistics.median(added) if added else NAN

    def failed(self, gateway: str) -> int:
        """Return how many answers of a gateway were none, in all rounds."""
        return int(
            sum(
                figures["failed"]
                for (name, _), rounds in self._rounds.items()
                for figures in rounds
                if name == gateway
            )
        )


def pause(gateways: Sequence[Gateway], but: Gateway | None) -> None:
    """Let all gateways stand still but one."""
    for gateway in gateways:
        alone = gateway is not but and but is not None
        os.kill(gateway.process.pid, signal.SIGSTOP if alone else signal.SIGCONT)


def run_rounds(
    gateways: Sequence[Gateway], chosen: Sequence[str], *, rounds: int, seconds: float
) -> Results:
    """Measure everything in turns, each round in another order."""
    results = Results()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for number in range(rounds):
            turn = number % len(gateways)
            for measurement in chosen:
                for gateway in [*gateways[turn:], *gateways[:turn]]:
                    if measurement in {"healthy", "dead"} and not gateway.fails_over:
                        continue
                    pause(gateways, gateway)
                    figures = runner.run(measured(gateway, measurement, seconds))
                    results.add(gateway.name, measurement, figures)
    pause(gateways, None)
    return results


def print_rates(results: Results, gateways: Sequence[Gateway]) -> None:
    """Print what whole answers cost."""
    head = ("req/s c1", "c16", "c64", "of floor", "CPU us", "+p50 c1", "+p99 c16", "start", "MiB")
    print(f"{'whole answers':22}" + "".join(f"{one:>10}" for one in head) + "  failed")
    for gateway in gateways:
        name = gateway.name
        cells = [
            f"{results.of(name, 'c1', 'rate'):,.0f}",
            f"{results.of(name, 'c16', 'rate'):,.0f}",
            f"{results.of(name, 'c64', 'rate'):,.0f}",
            f"{results.of(name, 'c64', 'rate') / results.of(FLOOR, 'c64', 'rate'):.2f}",
            f"{results.of(name, 'c64', 'cpu_us'):.0f}",
            f"{results.added(name, 'c1', 'p50_ms'):.2f} ms",
            f"{results.added(name, 'c16', 'p99_ms'):.1f} ms",
            f"{statistics.median(gateway.start_seconds or [0.0]):.2f} s",
            f"{resident_mib(gateway.process.pid):.0f}",
        ]
        print(f"{name:22}" + "".join(f"{cell:>10}" for cell in cells), end="")
        print(f"  {results.failed(name)}")


def print_streams(results: Results, gateways: Sequence[Gateway]) -> None:
    """Print what streams cost."""
    head = ("burst chunks/s", "CPU us/chunk", "+first p50", "+first p99", "+delay p99")
    print(f"\n{'streams':22}" + "".join(f"{one:>16}" for one in head))
    for gateway in gateways:
        name = gateway.name
        cells = [
            f"{results.of(name, 'burst', 'chunks'):,.0f}",
            f"{results.of(name, 'burst', 'cpu_us') / BURST_CHUNKS:.1f}",
            f"{results.added(name, 'paced', 'first_p50_ms'):.2f} ms",
            f"{results.added(name, 'paced', 'first_p99_ms'):.2f} ms",
            f"{results.added(name, 'paced', 'delay_p99_ms'):.2f} ms",
        ]
        print(f"{name:22}" + "".join(f"{cell:>16}" for cell in cells))


def bars(results: Results, ours: Gateway) -> Iterator[Bar]:
    """Yield what is demanded of Casework."""
    rate = results.of(OURS, "c64", "rate")
    floor = rate / results.of(FLOOR, "c64", "rate")
    dead = results.ratio(OURS, "dead", "healthy")
    yield Bar("req/s c64 over the floor's", floor, 0.5, 1.0)
    yield Bar("req/s c64 over LiteLLM's", rate / results.of(PEER, "c64", "rate"), 30, 30)
    added = results.added
    below = [
        ("added p50 c1, ms", added(OURS, "c1", "p50_ms"), 0.5, 0.25),
        ("added p99 c16, ms", added(OURS, "c16", "p99_ms"), 10, 4),
        ("CPU per request c64, us", results.of(OURS, "c64", "cpu_us"), 260, 120),
        ("added first chunk p99, 50 streams, ms", added(OURS, "paced", "first_p99_ms"), 5, 2),
        ("added delay of a chunk p99, ms", added(OURS, "paced", "delay_p99_ms"), 1, 1),
        ("first of three dead: added p99, ms", added(OURS, "dead", "p99_ms"), 5, 5),
        ("start to ready, s", statistics.median(ours.start_seconds), 1, 0.4),
        ("resident after load, MiB", resident_mib(ours.process.pid), 120, 80),
    ]
    yield from (Bar(name, its, must, goal, at_least=False) for name, its, must, goal in below)
    yield Bar("burst, chunks/s", results.of(OURS, "burst", "chunks"), 60_000, 120_000)
    yield Bar("first of three dead: rate over healthy", dead, 0.9, 0.9)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--quick", action="store_true", help="short windows")
    options.add_argument("--only", default=",".join(MEASUREMENTS), help="measurements, by comma")
    options.add_argument("--rounds", type=int, default=None, help="5, or 3 with --quick")
    options.add_argument(
        "--litellm", type=Path, default=None, help="the program of LiteLLM's proxy"
    )
    chosen = options.parse_args()
    rounds, seconds = chosen.rounds or (3 if chosen.quick else 5), 1.0 if chosen.quick else 4.0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    cores, ports, starts = Cores.found(), Ports.free(), 3 if chosen.quick else 5
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(upstream(ports, cores.others))
        os.sched_setaffinity(0, {cores.others})
        ours = stack.enter_context(casework(ports, cores, folder, starts=starts))
        gateways = [
            stack.enter_context(direct(cores)),
            stack.enter_context(bare(ports, cores, starts=starts)),
            ours,
        ]
        if chosen.litellm is not None:
            gateways.append(stack.enter_context(litellm(chosen.litellm, ports, cores, folder)))
        measurements = chosen.only.replace("dead", "healthy,dead").split(",")
        results = run_rounds(gateways, measurements, rounds=rounds, seconds=seconds)
        print_rates(results, gateways)
        print_streams(results, gateways)
        print()
        for bar in bars(results, ours):
            sign = ">=" if bar.at_least else "<="
            must = f"{sign} {bar.must:g}, goal {bar.goal:g}"
            print(f"{bar.name:40} {bar.measured:12,.2f}   {must:28} {bar.verdict()}")
        shared = " (one core for all)" if cores.gateway == cores.others else ""
        print(f"load average at the end {os.getloadavg()[0]:.1f}{shared}")


if __name__ == "__main__":
    main()
