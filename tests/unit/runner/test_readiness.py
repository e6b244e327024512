"""One rule says when an operation may run; it holds whatever order the answers come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.checkpoints.index_rows import Planned
from casework.runner.conditions import Condition, ConditionKind
from casework.runner.readiness import Standing, readiness
from casework.strict_json import JSON

HIGH = Condition("a", "/severity", ConditionKind.EQUALS, "high")


def judge(standing: dict[str, Standing], answer: JSON = None, *, when: bool = False) -> Planned:
    """Judge an operation that needs all of these."""
    return readiness(
        tuple(standing),
        (HIGH,) if when else (),
        standing=standing,
        answer=lambda _: answer,
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"severity": "high"}, Planned.READY),
        ({"severity": "low"}, Planned.SKIPPED),
        ({}, Planned.SKIPPED),
    ],
)
def test_a_condition_decides_between_ready_and_skipped(answer: JSON, expected: Planned) -> None:
    """Once the answer is there."""
    assert expected is judge({"a": Standing.ANSWERED}, answer, when=True)


def test_conditions_wait_for_all_answers() -> None:
    """No answer is looked at while another one is missing."""
    standing = {"a": Standing.ANSWERED, "b": Standing.OPEN}
    assert Planned.HELD is judge(standing, {"severity": "low"}, when=True)


@given(st.dictionaries(st.text(min_size=1), st.sampled_from(Standing), max_size=5))
def test_needs_decide_by_the_worst_of_them(standing: dict[str, Standing]) -> None:
    """Skipped before held, held before ready; without needs it is ready."""
    found = set(standing.values())
    if Standing.RULED_OUT in found:
        expected = Planned.SKIPPED
    elif Standing.OPEN in found:
        expected = Planned.HELD
    else:
        expected = Planned.READY
    assert expected is judge(standing)


@given(
    st.permutations(["a", "b", "c"]),
    st.lists(st.sampled_from([Standing.ANSWERED, Standing.RULED_OUT]), min_size=3, max_size=3),
)
def test_a_verdict_other_than_held_never_changes(order: list[str], ends: list[Standing]) -> None:
    """Answers that come later confirm what the earlier ones made of it."""
    goal = dict(zip("abc", ends, strict=True))
    standing = dict.fromkeys("abc", Standing.OPEN)
    seen = [judge(standing)]
    for name in order:
        standing[name] = goal[name]
        seen.append(judge(standing))
    settled = [verdict for verdict in seen if verdict is not Planned.HELD]
    assert len(set(settled)) == 1
    assert seen[-1] is not Planned.HELD
