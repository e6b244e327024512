from __future__ import annotations

import pytest

from casework.runner.run_diff import (
    ABSENT,
    CaseDifference,
    Change,
    Comparison,
    FieldChanges,
    Value,
)
from casework.runtime.views.diff_view import (
    SHOWN_CHARACTERS_MAX,
    comparison_lines,
    comparison_page,
    comparison_to_json,
    field_rows,
    sample_lines,
)
from tests.support.page_reader import PageReader
from tests.unit.runtime.views.test_inert_html import HOSTILE


def comparison(text: str = "x", before: Value = "low", after: Value = "high") -> Comparison:
    change = Change(f"/{text}", before, after)
    return Comparison(
        cases=(1200, 3),
        same=2,
        changed=3,
        only=(1195, 0),
        outcomes=(((f"ERROR {text}", "SUCCESS"), 1),),
        fields=(FieldChanges(f"/{text}", 4, ((change, 3),)),),
        uncounted=2,
        sample=(CaseDifference(text, (text, "SUCCESS"), (change,)),),
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_no_element_or_attribute_of_a_page_comes_from_a_run(text: str) -> None:
    """Ids, pointers, names of runs and values of any wording leave the markup as it is."""
    hostile = "".join(comparison_page((text, text), comparison(text, text, text)))
    harmless = "".join(comparison_page(("x", "x"), comparison()))
    found, expected = (PageReader(page.encode()) for page in (hostile, harmless))
    assert (expected.elements, expected.declarations) == (found.elements, found.declarations)
    assert [] == found.open


def test_people_read_counts_fields_and_a_sample() -> None:
    """Each with both values."""
    found = comparison()
    assert [
        "A  old  1,200 cases",
        "B  new  3 cases",
        "same 2, changed 3, only in A 1,195, only in B 0",
        "outcome ERROR x -> SUCCESS: 1",
        "changes of further fields: 2",
    ] == list(comparison_lines(("old", "new"), found))
    assert [("/x", "4", '"low" -> "high" (3), others (1)')] == field_rows(found)[1]
    assert ["case x  x -> SUCCESS", '  /x: "low" -> "high"'] == list(sample_lines(found))


def test_long_values_are_cut_for_people_only() -> None:
    """The length is told, and the page holds the value whole."""
    long = "y" * 1000
    found = comparison(before=long)
    line = list(sample_lines(found))[1]
    assert "... (1,002 characters)" in line
    assert 2 * SHOWN_CHARACTERS_MAX > len(line)
    assert long in "".join(comparison_page(("a", "b"), found))


def test_in_json_what_is_absent_is_left_out_and_null_is_null() -> None:
    """A program can tell a member that is missing from one that is null."""
    document = comparison_to_json(("old", "new"), comparison(before=ABSENT, after=None))
    sample = document["sample"]
    assert isinstance(sample, list)
    assert isinstance(sample[0], dict)
    assert [{"field": "/x", "b": None}] == sample[0]["changes"]
    assert {"same": 2, "changed": 3, "only_a": 1195, "only_b": 0} == document["counts"]
