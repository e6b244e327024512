from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runner import run_diff
from casework.runner.run_diff import (
    ABSENT,
    Answer,
    AnswerSpool,
    Change,
    Comparison,
    changes,
    compare,
)
from casework.strict_json import JSON

VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text("ab/", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~"), inner, max_size=3),
    max_leaves=6,
)


def spool(answers: Iterable[Answer]) -> AnswerSpool:
    found = AnswerSpool()
    for answer in answers:
        found.add(answer)
    return found


def run(**outputs: JSON) -> AnswerSpool:
    return spool(
        Answer(case_id=case_id, outcome="SUCCESS", answered=True, output=output)
        for case_id, output in outputs.items()
    )


def found(before: AnswerSpool, after: AnswerSpool, *fields: str, sample: int = 5) -> Comparison:
    with before, after:
        return compare(before, after, fields=fields or None, sample=sample)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 1.0),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}),
        (0.0, -0.0),
        (10**20, 1e20),
        ([], []),
        (None, None),
    ],
)
def test_equal_values_are_no_change(before: JSON, after: JSON) -> None:
    """Numbers are compared by value, and the order of members means nothing."""
    assert [] == list(changes(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, True),
        (0, False),
        (2**53, 2**53 + 1),
        (2**53 + 1, float(2**53)),
        ("1", 1),
        (None, False),
        ({}, []),
        ({}, None),
        ("\u00e9", "e\u0301"),
    ],
)
def test_different_values_are_one_change(before: JSON, after: JSON) -> None:
    """Truth is no number, and long integers are compared exactly."""
    assert [Change("", before, after)] == list(changes(before, after))


def test_arrays_are_compared_by_position_and_objects_by_member() -> None:
    """What only one side has is absent on the other, which is not null."""
    before: JSON = {"a": [1, 2, 3], "b": {"x/y": None}, "only": 1}
    after: JSON = {"a": [1, 3], "b": {}, "new": [{}]}
    assert [
        Change("/a/1", 2, 3),
        Change("/a/2", 3, ABSENT),
        Change("/b/x~1y", None, ABSENT),
        Change("/only", 1, ABSENT),
        Change("/new", ABSENT, [{}]),
    ] == list(changes(before, after))


@given(VALUES, VALUES)
def test_changes_mirror_each_other(before: JSON, after: JSON) -> None:
    """The way back has the same places, values exchanged, and a value equals itself."""
    there = {(c.pointer, repr(c.before), repr(c.after)) for c in changes(before, after)}
    back = {(c.pointer, repr(c.after), repr(c.before)) for c in changes(after, before)}
    assert there == back
    assert [] == list(changes(before, before))


def test_cases_are_matched_by_id() -> None:
    """The order in which a run was read means nothing."""
    result = found(run(a=1, b=2, c=3), run(d=4, c=3, b=5))
    assert ((3, 3), 1, 1, (1, 1)) == (result.cases, result.same, result.changed, result.only)
    assert [("b", (Change("", 2, 5),))] == [(d.case_id, d.changes) for d in result.sample]


def test_fields_are_counted_with_their_most_frequent_changes() -> None:
    """The field that changed most comes first, and so does its commonest change."""
    olds: dict[str, JSON] = {f"c{n}": {"severity": "low", "n": n} for n in range(5)}
    news: dict[str, JSON] = {
        f"c{n}": {"severity": "high" if n < 3 else "none", "n": max(n, 1)} for n in range(5)
    }
    before, after = run(**olds), run(**news)
    severity, number = found(before, after).fields
    assert ("/severity", 5, "/n", 1) == (
        severity.pointer,
        severity.count,
        number.pointer,
        number.count,
    )
    assert [("high", 3), ("none", 2)] == [(c.after, count) for c, count in severity.frequent]


def test_long_values_are_counted_and_not_listed() -> None:
    """A summary that reads otherwise in each case has no commonest change."""
    (field,) = found(run(a="x" * 200, b="u"), run(a="y" * 200, b="v")).fields
    assert (2, ["u"]) == (field.count, [c.before for c, _ in field.frequent])


def test_chosen_fields_alone_are_compared() -> None:
    """What stands at and below them; a case that differs elsewhere is the same."""
    results = [
        found(
            run(a={"s": {"x": 1}, "t": 1}, b={"s": {"x": 1}, "t": 1}),
            run(a={"s": {"x": 2}, "t": 2}, b={"s": {"x": 1}, "t": 2}),
            pointer,
        )
        for pointer in ("/s", "/absent")
    ]
    assert [(1, 1), (2, 0)] == [(result.same, result.changed) for result in results]
    assert ["/s/x"] == [field.pointer for field in results[0].fields]


def test_a_run_without_an_answer_differs_by_its_outcome() -> None:
    """An error is no answer of null; two errors of one kind are the same."""
    before = spool(
        [
            Answer(case_id="a", outcome="ERROR refusal", answered=False),
            Answer(case_id="b", outcome="ERROR refusal", answered=False),
            Answer(case_id="c", outcome="SUCCESS", answered=True, output=None),
        ]
    )
    after = spool(
        [
            Answer(case_id="a", outcome="ERROR refusal", answered=False),
            Answer(case_id="b", outcome="SUCCESS", answered=True, output=None),
            Answer(case_id="c", outcome="SUCCESS", answered=True, output=None),
        ]
    )
    result = found(before, after)
    assert (2, 1, ()) == (result.same, result.changed, result.fields)
    assert ((("ERROR refusal", "SUCCESS"), 1),) == result.outcomes


def test_the_sample_depends_on_the_ids_alone() -> None:
    """Adding cases that did not change, or reading in another order, shows the same ones."""
    ids = [f"case {n}" for n in range(50)]
    first = found(run(**dict.fromkeys(ids, 1)), run(**dict.fromkeys(ids, 2)), sample=7)
    again = found(
        run(**dict.fromkeys(reversed(ids), 1), x=0), run(x=0, **dict.fromkeys(ids, 2)), sample=7
    )
    assert 7 == len(first.sample)
    assert first.sample == again.sample
    assert () == found(run(a=1), run(a=2), sample=0).sample


def test_fields_and_changes_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it they are counted together."""
    monkeypatch.setattr(run_diff, "FIELDS_MAX", 2)
    monkeypatch.setattr(run_diff, "CHANGES_MAX", 1)
    before = run(a={"x": 1, "y": 1, "z": 1}, b={"x": 1})
    after = run(a={"x": 2, "y": 2, "z": 2}, b={"x": 3})
    result = found(before, after)
    assert (1, ["/x", "/y"]) == (result.uncounted, [f.pointer for f in result.fields])
    assert (2, 1) == (result.fields[0].count, len(result.fields[0].frequent))


def test_the_last_answer_of_a_case_is_kept() -> None:
    """A later campaign outdates an earlier one."""
    twice = spool(
        Answer(case_id="a", outcome="SUCCESS", answered=True, output=n) for n in (1, 2, 3)
    )
    with twice:
        assert (frozenset({"a"}), 3) == (twice.case_ids, twice.answer("a").output)
