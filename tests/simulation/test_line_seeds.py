"""The whole line under misfortune: every seed ends in possible histories and counts that add up.

A seed makes cases that arrive, providers that fail, two workers that are killed at any disk call or
moment, frozen and thawed, a wall clock that is set back a day or on by a year, and an index that is
deleted. ``CASEWORK_SEEDS`` plays another number of seeds, ``CASEWORK_FIRST_SEED`` begins elsewhere.
A seed that fails is played again with ``python -m tests.simulation.line_play SEED``.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation.line_play import play_seed
from tests.simulation.line_world import TARGETS_MAX

SEEDS = int(os.environ.get("CASEWORK_SEEDS", "1000"))
FIRST = int(os.environ.get("CASEWORK_FIRST_SEED", "0"))
SHARE = 50


def complaints(seeds: range) -> list[str]:
    """Play some seeds and tell what was wrong with them."""
    found = []
    for seed in seeds:
        try:
            complaint = complaint_about(seed)
        except BaseException:  # noqa: BLE001 - whatever it is, the seed is to be named
            complaint = traceback.format_exc(limit=-3)
        if complaint:
            found.append(f"python -m tests.simulation.line_play {seed}: {complaint}")
    return found


def complaint_about(seed: int) -> str:
    """Play a seed and tell what is wrong with its end, if anything."""
    end = play_seed(seed)
    counts = end.counts
    # What is held waits for something that failed or is blocked, or was held for that itself.
    left = counts.unsettled or (counts.held and not counts.error + counts.blocked)
    if not counts.reconciles or left:
        return f"the counts do not add up: {counts}"
    lost = end.calls - end.recorded
    # What a kill or a refused late result cost: at most what was in flight then.
    if not 0 <= lost <= end.interruptions * end.concurrency * TARGETS_MAX:
        return f"{end.calls} calls, {end.recorded} recorded, {end.interruptions} interruptions"
    return ""


def test_every_seed_ends_in_verified_packages_and_reconciled_counts() -> None:
    """Whatever befalls the line, nothing is lost, nothing runs twice, and every case settles."""
    shares = [
        range(first, min(first + SHARE, FIRST + SEEDS))
        for first in range(FIRST, FIRST + SEEDS, SHARE)
    ]
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawning) as processes:
        found = [line for share in processes.map(complaints, shares) for line in share]
    assert [] == found


@pytest.mark.parametrize("seed", [3, 14, 15])
def test_a_seed_always_tells_the_same_story(seed: int) -> None:
    """A failing seed can be looked at again: no thread, no chance and no clock of its own."""
    assert play_seed(seed).story == play_seed(seed).story
