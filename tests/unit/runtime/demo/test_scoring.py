from __future__ import annotations

import pytest

from casework.runtime.demo.declared_licence import DeclaredLicence
from casework.runtime.demo.scoring import Verdict, parse_expression, score
from casework.strict_json import JSON


def verdict(declared: DeclaredLicence, answer: JSON, field: str = "license_id") -> Verdict:
    (case,) = score({"c": answer}, {"c": declared}, field=field).cases
    return case.verdict


def expression(text: str) -> DeclaredLicence:
    return DeclaredLicence(expression=text)


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("MIT", "MIT", Verdict.AGREES),
        ("MIT", "mit", Verdict.AGREES),
        ("MIT", "ISC", Verdict.DISAGREES),
        ("GPL-2.0-only", "GPL-2.0-or-later", Verdict.AGREES),
        ("GPL-3.0+", "GPL-3.0-only", Verdict.AGREES),
        ("Apache-2.0 OR BSD-2-Clause", "BSD-2-Clause", Verdict.AGREES),
        ("Apache-2.0 AND MIT", "MIT", Verdict.PARTLY),
        ("Apache-2.0 AND MIT", "ISC", Verdict.DISAGREES),
        ("(MIT OR ISC) AND MIT", "MIT", Verdict.AGREES),
        ("(MIT OR ISC) AND MIT", "ISC", Verdict.PARTLY),
        ("MIT or ISC and Zlib", "MIT", Verdict.AGREES),
        ("MIT or ISC and Zlib", "ISC", Verdict.PARTLY),
        ("Apache-2.0 WITH LLVM-exception", "Apache-2.0", Verdict.AGREES),
        ("LicenseRef-Own", "MIT", Verdict.DISAGREES),
        ("MIT AND", "MIT", Verdict.UNDECLARED),
        ("((MIT)", "MIT", Verdict.UNDECLARED),
        (")", "MIT", Verdict.UNDECLARED),
        ("AND", "MIT", Verdict.UNDECLARED),
        ("MIT ISC", "MIT", Verdict.UNDECLARED),
        ("MIT WITH", "MIT", Verdict.UNDECLARED),
        ("see the file", "MIT", Verdict.UNDECLARED),
        ("", "MIT", Verdict.UNDECLARED),
        ("(" * 300, "MIT", Verdict.UNDECLARED),
    ],
)
def test_an_expression_says_which_answers_are_right(
    text: str, answer: str, expected: Verdict
) -> None:
    """Choices, combinations and exceptions mean what SPDX says they mean."""
    assert expected is verdict(expression(text), {"license_id": answer})


@pytest.mark.parametrize(
    ("classifiers", "answer", "expected"),
    [
        (["License :: OSI Approved :: MIT License"], "MIT", Verdict.AGREES),
        (["License :: OSI Approved :: BSD License"], "BSD-2-Clause", Verdict.AGREES),
        (["License :: OSI Approved :: BSD License"], "MIT", Verdict.DISAGREES),
        (
            ["License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)"],
            "MPL-2.0",
            Verdict.AGREES,
        ),
        (
            [
                "License :: OSI Approved :: MIT License",
                "License :: OSI Approved :: Apache Software License",
            ],
            "Apache-2.0",
            Verdict.AGREES,
        ),
        (["License :: OSI Approved"], "MIT", Verdict.UNDECLARED),
        (["License :: Other/Proprietary License"], "MIT", Verdict.UNDECLARED),
    ],
)
def test_a_classifier_says_it_less_exactly(
    classifiers: list[str], answer: str, expected: Verdict
) -> None:
    """A classifier may stand for several ids; several are a choice."""
    declared = DeclaredLicence(classifiers=tuple(classifiers))
    assert expected is verdict(declared, {"license_id": answer})


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("MIT", "MIT", Verdict.AGREES),
        ("The MIT License", "MIT", Verdict.AGREES),
        ("Apache License, Version 2.0", "Apache-2.0", Verdict.AGREES),
        ("BSD-3-Clause", "BSD-3-Clause", Verdict.AGREES),
        ("MIT OR Apache-2.0", "Apache-2.0", Verdict.AGREES),
        ("PSF", "PSF-2.0", Verdict.AGREES),
        ("free as in beer", "MIT", Verdict.UNDECLARED),
        ("own", "MIT", Verdict.UNDECLARED),
    ],
)
def test_free_text_counts_where_it_is_known(text: str, answer: str, expected: Verdict) -> None:
    """What is not a known name or expression judges nobody."""
    assert expected is verdict(DeclaredLicence(licence=text), {"license_id": answer})


def test_the_expression_goes_before_classifiers_and_text() -> None:
    """The most exact declaration decides."""
    declared = DeclaredLicence("ISC", "MIT", ("License :: OSI Approved :: MIT License",))
    assert Verdict.AGREES is verdict(declared, {"license_id": "ISC"})


@pytest.mark.parametrize("answer", [None, {}, {"license_id": None}, {"license_id": ""}, "MIT", []])
def test_no_answer_is_no_disagreement(answer: JSON) -> None:
    """An error or a null is counted as what it is."""
    assert Verdict.NO_ANSWER is verdict(expression("MIT"), answer)


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("MIT", "permissive", Verdict.AGREES),
        ("MPL-2.0", "strong_copyleft", Verdict.DISAGREES),
        ("GPL-2.0-only", "strong_copyleft", Verdict.AGREES),
        ("MIT OR GPL-2.0-only", "permissive", Verdict.PARTLY),
        ("MIT", "unknown", Verdict.NO_ANSWER),
        ("LicenseRef-Own", "permissive", Verdict.UNDECLARED),
    ],
)
def test_families_can_be_compared_alone(text: str, answer: str, expected: Verdict) -> None:
    """For models that are asked for nothing else."""
    assert expected is verdict(expression(text), {"family": answer}, "family")


def test_the_sums_are_those_of_the_cases() -> None:
    """Every case of the key has one verdict, also one that was never run."""
    key = {"a": expression("MIT"), "b": expression("MIT"), "c": expression("ISC")}
    result = score(
        {"a": {"license_id": "MIT"}, "b": {"license_id": "ISC"}}, key, field="license_id"
    )
    assert {
        Verdict.AGREES: 1,
        Verdict.PARTLY: 0,
        Verdict.DISAGREES: 1,
        Verdict.NO_ANSWER: 1,
        Verdict.UNDECLARED: 0,
    } == result.counts
    assert (2, 2, 3) == (result.judged, result.commonest, sum(result.counts.values()))


def test_a_score_of_nothing_is_nothing() -> None:
    """An empty environment is no error."""
    result = score({}, {}, field="license_id")
    assert (0, 0, ()) == (result.judged, result.commonest, result.cases)


def test_unknown_ids_in_free_text_are_no_expression() -> None:
    """A single word may be anything."""
    assert parse_expression("whatever", known_only=True) is None
    assert parse_expression("whatever") is not None
