"""A claim keeps other workers off a case until it is let go, runs out or is void; nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from casework.checkpoints.claims import Viewer, Wanted
from casework.checkpoints.index import PackageIndex
from casework.checkpoints.index_rows import to_ticks
from casework.checkpoints.store import CheckpointStore
from casework.gateway.clock import MANUAL_START


@pytest.fixture(name="index")
def an_index(tmp_path: Path) -> Iterator[PackageIndex]:
    """Return an index in which two cases have planned work."""
    store = CheckpointStore(tmp_path / "runtime")
    for case_id in ("a", "b"):
        store.create(case_id, {"text.txt": case_id.encode()})
    store.index.plan(["op"])
    yield store.index
    store.index.close()


def due(index: PackageIndex, worker: str, elapsed: float = 0.0) -> list[str]:
    """Return the cases in which a worker may begin work."""
    found = index.due_for(Viewer(worker, elapsed), MANUAL_START, limit=10)
    return [operation.case_id for operation in found]


def wanted(index: PackageIndex, *case_ids: str) -> list[Wanted]:
    """Return the work of some cases as a worker finds it."""
    found = index.due(MANUAL_START, 10)
    return [
        Wanted(operation.case_id, operation.ophash, to_ticks(operation.due_at) or 0)
        for operation in found
        if operation.case_id in case_ids
    ]


def take(
    index: PackageIndex, worker: str, *cases: str, elapsed: float = 0
) -> dict[str, str | None]:
    """Claim cases for ten seconds."""
    return index.claims.take(worker, wanted(index, *cases), elapsed=elapsed, until=elapsed + 10.0)


def test_a_claimed_case_is_offered_to_its_worker_only(index: PackageIndex) -> None:
    """Another worker sees the other case, and cannot claim what is claimed."""
    assert {"a": None} == take(index, "one", "a")
    assert ["a", "b"] == due(index, "one")
    assert ["b"] == due(index, "two")
    assert {"b": None} == take(index, "two", "a", "b")


def test_a_claim_that_ran_out_is_free_and_tells_whose_it_was(index: PackageIndex) -> None:
    """At its end, not before, a claim gives way, and the taker learns whom it takes over from."""
    take(index, "one", "a")
    assert ["b"] == due(index, "two", 9.9)
    assert {} == take(index, "two", "a", elapsed=9.9)
    assert ["a", "b"] == due(index, "two", 10.0)
    assert {"a": "one"} == take(index, "two", "a", elapsed=10.0)
    assert ["b"] == due(index, "one", 10.0)


def test_a_renewed_claim_lasts_and_a_lost_one_is_not_taken_back(index: PackageIndex) -> None:
    """Renewal moves the end, makes good what an index lost, and never touches another's claim."""
    take(index, "one", "a")
    index.claims.renew("one", ["a"], until=30.0)
    assert ["b"] == due(index, "two", 29.0)
    assert {"a": "one"} == take(index, "two", "a", elapsed=31.0)
    index.claims.renew("one", ["a", "b"], until=99.0)
    assert ["a"] == due(index, "two", 32.0)
    assert {("a", "two"), ("b", "one")} == {
        (claim.case_id, claim.worker) for claim in index.claims.of_others("three")
    }


def test_released_and_void_claims_are_free_at_once(index: PackageIndex) -> None:
    """Letting go frees one case, the death of a worker all of its own and nobody else's."""
    take(index, "one", "a", "b")
    index.claims.release("one", ["a"])
    assert ["a"] == due(index, "two")
    index.claims.release("two", ["b"])
    assert not index.claims.holds("two", "b")
    assert 1 == index.claims.void("one")
    assert 0 == index.claims.void("one")
    assert ["a", "b"] == due(index, "two")


def test_work_that_was_done_meanwhile_is_not_claimed(index: PackageIndex) -> None:
    """What is not due any more as it was when it was seen costs no claim."""
    stale = [Wanted(work.case_id, work.ophash, work.due_ticks + 1) for work in wanted(index, "a")]
    assert {} == index.claims.take("one", stale, elapsed=0.0, until=9.0)
    assert [] == index.claims.of_others("two")


def test_of_many_workers_one_gets_each_case(index: PackageIndex) -> None:
    """Sixteen workers that see the same work claim each case once."""
    seen = wanted(index, "a", "b")

    def race(number: int) -> list[str]:
        return list(index.claims.take(f"w{number}", seen, elapsed=0.0, until=9.0))

    with ThreadPoolExecutor(16) as threads:
        taken = [case_id for cases in threads.map(race, range(16)) for case_id in cases]
    assert ["a", "b"] == sorted(taken)


def test_claims_are_lost_with_their_index(index: PackageIndex) -> None:
    """An index built anew knows of no claim; the locks still keep workers apart."""
    take(index, "one", "a")
    index.discard()
    index.plan(["op"])
    assert ["a", "b"] == due(index, "two")
