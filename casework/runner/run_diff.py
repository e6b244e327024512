"""Two runs of the same cases, compared by case and by field; cases are matched by id alone."""

from __future__ import annotations

import heapq
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Final, Self, TypeAlias

from casework.json_pointer import lookup, pointer_to
from casework.strict_json import JSON, canonical, parse, sha256_hex

FIELDS_MAX: Final = 10_000
"""Fields whose changes are counted one by one."""

CHANGES_MAX: Final = 1000
"""Different changes of one field that are told apart."""

VALUE_CHARACTERS_MAX: Final = 100
"""Longer values are counted as changed, and not among the frequent changes."""

FREQUENT: Final = 5
_SPOOL_BYTES: Final = 8 * 1024 * 1024
_STORED_DEPTH_MAX: Final = 256


class Absent(Enum):
    """Stands where there is no value, not even null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
Value: TypeAlias = "JSON | Absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one run says of one case."""

    case_id: str
    outcome: str
    """The state, with the code of the error if there is one."""
    answered: bool
    """There is an answer, be it null."""
    output: JSON = None


@dataclass(frozen=True, slots=True)
class Change:
    """One place with two values; both are never absent."""

    pointer: str
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """How often a field changed, and which changes were the most frequent."""

    pointer: str
    count: int
    frequent: tuple[tuple[Change, int], ...]


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """One case that changed; no changes where a run has no answer, then the outcomes differ."""

    case_id: str
    outcomes: tuple[str, str]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs side by side."""

    cases: tuple[int, int]
    same: int
    changed: int
    only: tuple[int, int]
    """Cases that only the one and only the other run has."""
    outcomes: tuple[tuple[tuple[str, str], int], ...]
    """Changed outcomes, the most frequent first."""
    fields: tuple[FieldChanges, ...]
    """The field that changed most comes first."""
    uncounted: int
    """Changes of fields beyond those that are counted one by one."""
    sample: tuple[CaseDifference, ...]


class AnswerSpool:
    """The answers of one run, in a temporary file where they are too many for a little memory.

    Use it as a context. Of each case the answer added last is kept.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 - closed at exit
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0

    def __enter__(self) -> Self:
        """Begin to collect."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the temporary file go."""
        self._file.close()

    def add(self, answer: Answer) -> None:
        """Keep the answer of one case."""
        content = canonical([answer.outcome, answer.answered, answer.output])
        self._file.seek(self._end)
        self._file.write(content)
        self._places[answer.case_id] = (self._end, len(content))
        self._end += len(content)

    @property
    def case_ids(self) -> frozenset[str]:
        """Return which cases there are."""
        return frozenset(self._places)

    def answer(self, case_id: str) -> Answer:
        """Return the answer of a case that is there."""
        place, size = self._places[case_id]
        self._file.seek(place)
        content = parse(self._file.read(size), depth_max=_STORED_DEPTH_MAX)
        assert isinstance(content, list), "written above"
        outcome, answered, output = content
        return Answer(case_id=case_id, outcome=str(outcome), answered=bool(answered), output=output)


def compare(
    before: AnswerSpool,
    after: AnswerSpool,
    *,
    fields: Iterable[str] | None = None,
    sample: int = FREQUENT,
) -> Comparison:
    """Compare two runs, one case at a time.

    Args:
        before: The one run.
        after: The other.
        fields: JSON Pointers; only what stands at and below them is compared. None compares all.
        sample: How many changed cases to show. Which ones depends on their ids alone.
    """
    chosen = None if fields is None else tuple(fields)
    one, other = before.case_ids, after.case_ids
    tally = _Tally(sample)
    same = 0
    for case_id in sorted(one & other):
        difference = _difference(before.answer(case_id), after.answer(case_id), chosen)
        if difference is None:
            same += 1
        else:
            tally.add(difference)
    return Comparison(
        cases=(len(one), len(other)),
        same=same,
        changed=tally.changed,
        only=(len(one - other), len(other - one)),
        outcomes=tuple(sorted(tally.outcomes.items(), key=lambda item: (-item[1], item[0]))),
        fields=tally.field_changes(),
        uncounted=tally.uncounted,
        sample=tally.sample(),
    )


def changes(before: Value, after: Value, pointer: str = "") -> Iterator[Change]:
    """Yield the places in which two values differ.

    Objects are compared by member, arrays by position, numbers by value (1 and 1.0 are equal, 1 and
    true are not). A member that is missing differs from one that is null.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            inner = (before.get(name, ABSENT), after.get(name, ABSENT))
            yield from changes(*inner, pointer + pointer_to(name))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            left = before[index] if index < len(before) else ABSENT
            right = after[index] if index < len(after) else ABSENT
            yield from changes(left, right, pointer + pointer_to(index))
    elif isinstance(before, bool) is not isinstance(after, bool) or before != after:
        yield Change(pointer, before, after)


def _difference(
    before: Answer, after: Answer, fields: tuple[str, ...] | None
) -> CaseDifference | None:
    found: tuple[Change, ...] = ()
    if before.answered and after.answered:
        if fields is None:
            found = tuple(changes(before.output, after.output))
        else:
            found = tuple(
                change
                for pointer in fields
                for change in changes(
                    _at(before.output, pointer), _at(after.output, pointer), pointer
                )
            )
        if not found:
            return None
    elif before.outcome == after.outcome:
        return None
    return CaseDifference(before.case_id, (before.outcome, after.outcome), found)


def _at(output: JSON, pointer: str) -> Value:
    found, value = lookup(output, pointer)
    return value if found else ABSENT


@dataclass(slots=True)
class _FieldTally:
    """Changes of one field by their two values as JSON."""

    count: int = 0
    by_values: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], Change] = field(default_factory=dict)

    def add(self, change: Change) -> None:
        self.count += 1
        key = (_text(change.before), _text(change.after))
        known = key in self.examples
        if max(map(len, key)) > VALUE_CHARACTERS_MAX or (
            not known and len(self.examples) >= CHANGES_MAX
        ):
            return
        self.by_values[key] += 1
        self.examples.setdefault(key, change)

    def frequent(self) -> tuple[tuple[Change, int], ...]:
        ordered = sorted(self.by_values.items(), key=lambda item: (-item[1], item[0]))
        return tuple((self.examples[key], count) for key, count in ordered[:FREQUENT])


class _Tally:
    """Sums over the cases that changed."""

    def __init__(self, sample: int) -> None:
        self.changed = 0
        self.uncounted = 0
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self._fields: dict[str, _FieldTally] = {}
        self._wanted = sample
        self._sample: list[tuple[int, str, CaseDifference]] = []

    def add(self, difference: CaseDifference) -> None:
        self.changed += 1
        if difference.outcomes[0] != difference.outcomes[1]:
            self.outcomes[difference.outcomes] += 1
        for change in difference.changes:
            self._count(change)
        # The smallest digests are a choice that nobody's order of cases can lead.
        rank = -int(sha256_hex(difference.case_id.encode("utf-8", "surrogatepass")), 16)
        heapq.heappush(self._sample, (rank, difference.case_id, difference))
        if len(self._sample) > self._wanted:
            heapq.heappop(self._sample)

    def _count(self, change: Change) -> None:
        if change.pointer not in self._fields and len(self._fields) >= FIELDS_MAX:
            self.uncounted += 1
            return
        self._fields.setdefault(change.pointer, _FieldTally()).add(change)

    def field_changes(self) -> tuple[FieldChanges, ...]:
        ordered = sorted(self._fields.items(), key=lambda item: (-item[1].count, item[0]))
        return tuple(
            FieldChanges(pointer, tally.count, tally.frequent()) for pointer, tally in ordered
        )

    def sample(self) -> tuple[CaseDifference, ...]:
        return tuple(sorted((item[2] for item in self._sample), key=lambda d: d.case_id))


def _text(value: Value) -> str:
    return "" if isinstance(value, Absent) else canonical(value).decode()
