"""A comparison of two runs as people and programs read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from casework.runner.run_diff import Absent, Change, Comparison, FieldChanges, Value
from casework.runtime.views import phrases
from casework.runtime.views.inert_html import inert, page_begin, page_end, table
from casework.strict_json import JSON, JSONObject

SHOWN_CHARACTERS_MAX: Final = 200
"""Longer values are cut where people read a line; JSON and HTML hold them whole."""

_FIELD_COLUMNS: Final = ("field", "changed", "most frequent")
_CHANGE_COLUMNS: Final = ("field", "A", "B")


def comparison_to_json(runs: tuple[str, str], found: Comparison) -> JSONObject:
    """Return a comparison as one document; a value that is absent is left out."""
    return {
        "a": {"run": runs[0], "cases": found.cases[0]},
        "b": {"run": runs[1], "cases": found.cases[1]},
        "counts": {
            "same": found.same,
            "changed": found.changed,
            "only_a": found.only[0],
            "only_b": found.only[1],
        },
        "outcomes": [
            {"a": before, "b": after, "count": count} for (before, after), count in found.outcomes
        ],
        "fields": [
            {
                "field": field.pointer,
                "changed": field.count,
                "frequent": [{**_values(c), "count": count} for c, count in field.frequent],
            }
            for field in found.fields
        ],
        "uncounted": found.uncounted,
        "sample": [
            {
                "case_id": difference.case_id,
                "outcome_a": difference.outcomes[0],
                "outcome_b": difference.outcomes[1],
                "changes": [
                    {"field": change.pointer, **_values(change)} for change in difference.changes
                ],
            }
            for difference in found.sample
        ],
    }


def comparison_lines(runs: tuple[str, str], found: Comparison) -> Iterator[str]:
    """Yield a comparison for people, but for the table of its fields."""
    for letter, run, cases in zip("AB", runs, found.cases, strict=True):
        yield f"{letter}  {run}  {phrases.plural(cases, 'case')}"
    yield _counts(found)
    for (before, after), count in found.outcomes:
        yield f"outcome {before} -> {after}: {phrases.count(count)}"
    if found.uncounted:
        yield f"changes of further fields: {phrases.count(found.uncounted)}"


def field_rows(found: Comparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows of the table of fields."""
    rows: list[tuple[str, ...]] = [
        (_name(field.pointer), phrases.count(field.count), _frequent(field))
        for field in found.fields
    ]
    return _FIELD_COLUMNS, rows


def sample_lines(found: Comparison) -> Iterator[str]:
    """Yield the sample for people, long values cut."""
    for difference in found.sample:
        before, after = difference.outcomes
        yield f"case {difference.case_id}" + ("" if before == after else f"  {before} -> {after}")
        for change in difference.changes:
            yield f"  {_name(change.pointer)}: {_cut(change.before)} -> {_cut(change.after)}"


def comparison_page(runs: tuple[str, str], found: Comparison) -> Iterator[str]:
    """Yield a comparison as an HTML page that loads and runs nothing."""
    yield page_begin(f"{runs[0]} and {runs[1]} compared")
    sizes = [
        (letter, run, phrases.count(cases))
        for letter, run, cases in zip("AB", runs, found.cases, strict=True)
    ]
    yield table("Runs", ("", "run", "cases"), sizes)
    yield f"<p>{inert(_counts(found))}</p>\n"
    if found.outcomes:
        rows = [(before, after, phrases.count(count)) for (before, after), count in found.outcomes]
        yield table("Changed outcomes", ("A", "B", "cases"), rows, headed=False)
    yield table("Fields", *field_rows(found))
    if found.uncounted:
        yield f"<p>Changes of further fields: {phrases.count(found.uncounted)}</p>\n"
    for difference in found.sample:
        before, after = difference.outcomes
        states = "" if before == after else f" {before} -> {after}"
        changed = [
            (_name(c.pointer), _shown(c.before), _shown(c.after)) for c in difference.changes
        ]
        yield (
            f"<details open>\n<summary><strong>{inert(difference.case_id)}</strong>"
            f"{inert(states)}</summary>\n{table('Changes', _CHANGE_COLUMNS, changed)}</details>\n"
        )
    yield page_end()


def _counts(found: Comparison) -> str:
    return (
        f"same {phrases.count(found.same)}, changed {phrases.count(found.changed)}, "
        f"only in A {phrases.count(found.only[0])}, only in B {phrases.count(found.only[1])}"
    )


def _frequent(field: FieldChanges) -> str:
    parts = [f"{_shown(c.before)} -> {_shown(c.after)} ({count:,})" for c, count in field.frequent]
    rest = field.count - sum(count for _, count in field.frequent)
    return ", ".join([*parts, f"others ({rest:,})"] if rest else parts)


def _values(change: Change) -> dict[str, JSON]:
    pairs = (("a", change.before), ("b", change.after))
    return {name: value for name, value in pairs if not isinstance(value, Absent)}


def _name(pointer: str) -> str:
    return pointer or "(answer)"


def _shown(value: Value) -> str:
    return "(absent)" if isinstance(value, Absent) else json.dumps(value, ensure_ascii=False)


def _cut(value: Value) -> str:
    text = _shown(value)
    if len(text) <= SHOWN_CHARACTERS_MAX:
        return text
    return f"{text[:SHOWN_CHARACTERS_MAX]}... ({phrases.count(len(text))} characters)"
