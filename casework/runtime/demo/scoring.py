"""How far the answers agree with what the metadata declared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from casework.runtime.demo.declared_licence import DeclaredLicence
from casework.runtime.demo.licence_terms import (
    CLASSIFIERS,
    FAMILIES,
    NAMES,
    Family,
    plain_name,
)
from casework.strict_json import JSON

_TOKEN: Final = re.compile(r"[()]|[A-Za-z0-9.:+-]+")
_TOKENS_MAX: Final = 200


class Verdict(StrEnum):
    """What one answer is worth against the declaration."""

    AGREES = "agrees"
    PARTLY = "partly"
    """Right about one of several licences that hold at once."""
    DISAGREES = "disagrees"
    NO_ANSWER = "no_answer"
    """There is a declaration, but no answer or none with a value."""
    UNDECLARED = "undeclared"
    """Nothing that could be understood was declared; the answer cannot be judged."""


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """One case in the comparison."""

    case_id: str
    declared: str | None
    """The declaration in a few words."""
    answered: str | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Score:
    """The comparison of a whole run."""

    cases: tuple[ScoredCase, ...]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """Return how many cases got each verdict; every verdict is named."""
        verdicts = [case.verdict for case in self.cases]
        return {verdict: verdicts.count(verdict) for verdict in Verdict}

    @property
    def judged(self) -> int:
        """Return how many answers could be compared with a declaration."""
        counts = self.counts
        return counts[Verdict.AGREES] + counts[Verdict.PARTLY] + counts[Verdict.DISAGREES]

    @property
    def commonest(self) -> int:
        """Return how many declarations are the commonest one: what a constant answer would get."""
        declared = [case.declared for case in self.cases if case.verdict is not Verdict.UNDECLARED]
        return max(Counter(declared).values(), default=0)


def score(
    answers: Mapping[str, JSON], declared: Mapping[str, DeclaredLicence], *, field: str
) -> Score:
    """Compare answers with declarations, case by case.

    Args:
        answers: The validated outputs by case id; cases without one may be missing or None.
        declared: The answer key by case id; it says which cases there are.
        field: ``license_id`` or ``family``.
    """
    judge = _judge_family if field == "family" else _judge_licence
    return Score(tuple(judge(c, declared[c], _answer(answers, c, field)) for c in sorted(declared)))


@dataclass(frozen=True, slots=True)
class Leaf:
    """One licence, by every id that would name it rightly."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Both:
    """All of these hold at once."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Any one of these may be chosen."""

    parts: tuple[Term, ...]


Term: TypeAlias = Leaf | Both | Either


def declared_term(declared: DeclaredLicence) -> Term | None:
    """Return what a declaration means: the expression, else the classifiers, else the free text."""
    if declared.expression is not None:
        return parse_expression(declared.expression)
    known = [
        Leaf(CLASSIFIERS[c]) for c in map(_last_part, declared.classifiers) if c in CLASSIFIERS
    ]
    if known:
        return Either(tuple(known)) if len(known) > 1 else known[0]
    if declared.licence is None:
        return None
    ids = NAMES.get(plain_name(declared.licence))
    return Leaf(ids) if ids else parse_expression(declared.licence, known_only=True)


def parse_expression(text: str, *, known_only: bool = False) -> Term | None:
    """Read an SPDX expression; None if it is none.

    Args:
        text: The expression.
        known_only: Refuse ids that the demonstration does not know, as free text may be anything.
    """
    tokens = _TOKEN.findall(text)
    if not tokens or len(tokens) > _TOKENS_MAX or "".join(tokens) != "".join(text.split()):
        return None
    parser = _Parser(tokens)
    try:
        term = parser.either()
    except (IndexError, ValueError):
        return None
    if parser.left or (known_only and any(i not in _KNOWN for t in _leaves(term) for i in t.ids)):
        return None
    return term


def normal_id(licence_id: str) -> str:
    """Return an id without case and without the words that only say which later versions count."""
    plain = licence_id.strip().lower().removesuffix("+")
    return plain.removesuffix("-only").removesuffix("-or-later")


class _Parser:
    """Reads tokens by the precedence of SPDX: WITH, then AND, then OR."""

    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens[::-1]

    def either(self) -> Term:
        parts = [self._both()]
        while self._takes("or"):
            parts.append(self._both())
        return Either(tuple(parts)) if len(parts) > 1 else parts[0]

    def _both(self) -> Term:
        parts = [self._one()]
        while self._takes("and"):
            parts.append(self._one())
        return Both(tuple(parts)) if len(parts) > 1 else parts[0]

    def _one(self) -> Term:
        word = self.left.pop()
        if word == "(":
            inner = self.either()
            if not self._takes(")"):
                raise ValueError("a bracket is not closed")
            return inner
        if word == ")" or word.lower() in {"and", "or", "with"}:
            raise ValueError("an id is missing")
        if self._takes("with"):
            self.left.pop()
        return Leaf(frozenset({normal_id(word)}))

    def _takes(self, word: str) -> bool:
        if self.left and self.left[-1].lower() == word:
            self.left.pop()
            return True
        return False


_KNOWN: Final = frozenset(map(normal_id, FAMILIES))
_NORMAL_FAMILIES: Final = {normal_id(name): family for name, family in FAMILIES.items()}


def _judge_licence(case_id: str, declared: DeclaredLicence, answer: str | None) -> ScoredCase:
    term = declared_term(declared)
    shown = _shown(declared)
    if term is None:
        return ScoredCase(case_id, shown, answer, Verdict.UNDECLARED)
    if answer is None:
        return ScoredCase(case_id, shown, None, Verdict.NO_ANSWER)
    plain = normal_id(answer)
    if _satisfied(term, plain):
        verdict = Verdict.AGREES
    elif any(plain in leaf.ids for leaf in _leaves(term)):
        verdict = Verdict.PARTLY
    else:
        verdict = Verdict.DISAGREES
    return ScoredCase(case_id, shown, answer, verdict)


def _judge_family(case_id: str, declared: DeclaredLicence, answer: str | None) -> ScoredCase:
    term = declared_term(declared)
    families = {_NORMAL_FAMILIES.get(i) for leaf in _leaves(term) for i in leaf.ids}
    if term is None or None in families:
        return ScoredCase(case_id, _shown(declared), answer, Verdict.UNDECLARED)
    shown = " or ".join(sorted(family.value for family in families if family))
    if answer is None or answer == Family.UNKNOWN:
        return ScoredCase(case_id, shown, answer, Verdict.NO_ANSWER)
    if answer not in families:
        return ScoredCase(case_id, shown, answer, Verdict.DISAGREES)
    verdict = Verdict.AGREES if len(families) == 1 else Verdict.PARTLY
    return ScoredCase(case_id, shown, answer, verdict)


def _satisfied(term: Term, plain: str) -> bool:
    match term:
        case Leaf(ids):
            return plain in ids
        case Both(parts):
            return all(_satisfied(part, plain) for part in parts)
        case Either(parts):
            return any(_satisfied(part, plain) for part in parts)
        case _:
            assert_never(term)


def _leaves(term: Term | None) -> Iterator[Leaf]:
    match term:
        case None:
            return
        case Leaf():
            yield term
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _leaves(part)
        case _:
            assert_never(term)


def _answer(answers: Mapping[str, JSON], case_id: str, field: str) -> str | None:
    output = answers.get(case_id)
    value = output.get(field) if isinstance(output, dict) else None
    return value if isinstance(value, str) and value else None


def _last_part(classifier: str) -> str:
    return plain_name(classifier.rpartition("::")[2])


def _shown(declared: DeclaredLicence) -> str | None:
    if declared.expression is not None:
        return declared.expression
    if declared.classifiers:
        return "; ".join(c.rpartition("::")[2].strip() for c in declared.classifiers)
    if declared.licence is None:
        return None
    first = declared.licence.strip().splitlines()[0]
    return first if len(first) <= _SHOWN_MAX else f"{first[:_SHOWN_MAX]}..."


_SHOWN_MAX: Final = 60
