"""A person's decision about what an operation came to: an immutable file beside the outcomes.

The outcome is never changed. A review names by digest what it decides about, and holds what stands
after it; the next review builds on that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from casework.checkpoints.fields import Fields, parse_object
from casework.checkpoints.timestamps import write_time
from casework.errors import FormatError
from casework.json_pointer import with_value
from casework.strict_json import JSON, JSONObject, canonical, digest

REVIEW_SCHEMA: Final = "casework-review/1"


class ReviewVerdict(StrEnum):
    """What a person decided."""

    APPROVED = "approved"
    """The answer stands as it is."""
    CORRECTED = "corrected"
    """The answer stands with other values, or is the person's own."""
    REJECTED = "rejected"
    """No answer stands; the item is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewMark:
    """What an operation's state says of its newest review."""

    verdict: ReviewVerdict
    number: int
    """Reviews of an operation count from 1."""
    sha256: str
    """Digest of the review's file."""
    size: int
    output_sha256: str | None
    """Digest of the answer that the review leaves, also of a rejected one; None without any."""

    def to_json(self) -> JSONObject:
        """Return the mark as it is stored."""
        return {
            "verdict": self.verdict.value,
            "number": self.number,
            "sha256": self.sha256,
            "size": self.size,
            "output_sha256": self.output_sha256,
        }

    @classmethod
    def from_json(cls, value: JSON, where: str) -> ReviewMark:
        """Read a stored mark.

        Raises:
            FormatError: It is not one.
        """
        fields = Fields(value, where)
        mark = cls(
            verdict=_verdict(fields),
            number=fields.integer("number", 1),
            sha256=fields.sha256("sha256"),
            size=fields.integer("size", 0),
            output_sha256=fields.optional_sha256("output_sha256"),
        )
        fields.done()
        return mark


@dataclass(frozen=True, slots=True)
class Correction:
    """One value that takes the place of another, or is added."""

    pointer: str
    """JSON Pointer into the answer; the empty one stands for the whole."""
    value: JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One review as its file holds it."""

    operation_id: str
    analysis_revision: int
    number: int
    verdict: ReviewVerdict
    actor: str
    decided_at: datetime
    reason: str | None
    corrects_sha256: str | None
    """Digest of the answer that the person saw; None where there was none."""
    corrections: tuple[Correction, ...]
    """Applied in this order."""
    output: JSON
    """The answer after the review; that of a rejected one is kept as it was."""
    output_sha256: str | None
    validator: JSONObject | None
    """Engine and version that accepted a corrected answer."""

    @property
    def stands(self) -> bool:
        """Tell whether an answer stands after this review."""
        return self.verdict is not ReviewVerdict.REJECTED

    def encode(self) -> bytes:
        """Return the bytes of the review's file."""
        return canonical(
            {
                "schema": REVIEW_SCHEMA,
                "operation_id": self.operation_id,
                "analysis_revision": self.analysis_revision,
                "number": self.number,
                "verdict": self.verdict.value,
                "actor": self.actor,
                "decided_at": write_time(self.decided_at),
                "reason": self.reason,
                "corrects_sha256": self.corrects_sha256,
                "corrections": [{"pointer": c.pointer, "value": c.value} for c in self.corrections],
                "output": self.output,
                "output_sha256": self.output_sha256,
                "validator": self.validator,
            }
        )

    @classmethod
    def decode(cls, content: bytes, where: str) -> Review:
        """Read a review's file.

        Raises:
            FormatError: The bytes are not a review that this version reads.
        """
        fields = Fields(parse_object(content, where), where)
        fields.constant("schema", REVIEW_SCHEMA)
        validator = fields.value("validator")
        if validator is not None and not isinstance(validator, dict):
            raise fields.refuse("validator", "an object or null")
        review = cls(
            operation_id=fields.text("operation_id"),
            analysis_revision=fields.integer("analysis_revision", 1),
            number=fields.integer("number", 1),
            verdict=_verdict(fields),
            actor=fields.text("actor"),
            decided_at=fields.time("decided_at"),
            reason=fields.optional_text("reason"),
            corrects_sha256=fields.optional_sha256("corrects_sha256"),
            corrections=tuple(_correction(c, where) for c in fields.items("corrections")),
            output=fields.value("output"),
            output_sha256=fields.optional_sha256("output_sha256"),
            validator=validator,
        )
        fields.done()
        if review.encode() != content:
            raise FormatError("the bytes are not canonical JSON", where=where)
        return review


def corrected(output: JSON, corrections: Iterable[Correction]) -> JSON:
    """Return an answer with corrections applied, one after the other.

    Raises:
        LookupError: A pointer leads nowhere in the answer.
    """
    for correction in corrections:
        output = with_value(output, correction.pointer, correction.value)
    return output


def follows_from(review: Review, output: JSON, output_sha256: str | None) -> bool:
    """Tell whether a review's answer is what its verdict makes of the answer before it.

    Args:
        review: The review.
        output: The answer before it.
        output_sha256: Its digest; None where there was no answer.
    """
    if review.corrects_sha256 != output_sha256:
        return False
    own = None if review.output_sha256 is None else digest(review.output)
    if own != review.output_sha256 or (own is None and review.output is not None):
        return False
    if review.verdict is not ReviewVerdict.CORRECTED:
        return not review.corrections and review.output_sha256 == output_sha256
    try:
        made = corrected(output, review.corrections)
    except LookupError:
        return False
    return bool(review.corrections) and digest(made) == review.output_sha256


def _verdict(fields: Fields) -> ReviewVerdict:
    text = fields.text("verdict")
    if text not in _VERDICTS:
        raise fields.refuse("verdict", "a verdict")
    return ReviewVerdict(text)


_VERDICTS: Final = frozenset(verdict.value for verdict in ReviewVerdict)


def _correction(value: JSON, where: str) -> Correction:
    fields = Fields(value, where)
    correction = Correction(fields.text("pointer"), fields.value("value"))
    fields.done()
    return correction
