"""The file from which the rules adapter works: which patterns fill which field."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    StrictBool,
    StrictStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from casework.config.settings_problems import FROZEN, settings_error
from casework.config.toml_document import TomlDocument
from casework.gateway.providers.bounded_pattern import UnboundedPatternError, compile_bounded
from casework.strict_json import JSON

FIELDS_MAX: Final = 200
RULES_MAX: Final = 500


def as_json(value: object) -> JSON:
    """Return a constant of the rule file as JSON holds it."""
    match value:
        case None | bool() | int() | str():
            return value
        case Decimal() | float() if math.isfinite(value):
            return float(value)
        case list():
            return [as_json(item) for item in value]
        case _:
            raise settings_error("is no text, number, true, false or list", "write one of these")


def _compiled(pattern: object) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise settings_error("is no text", "write the pattern in single quotes")
    try:
        return compile_bounded(pattern)
    except UnboundedPatternError as error:
        raise settings_error(str(error), "correct the pattern") from None


class Rule(BaseModel):
    """One pattern and the value that it stands for."""

    model_config = {**FROZEN, "arbitrary_types_allowed": True}

    pattern: re.Pattern[str]
    """Where the field is grounded: the first place that matches."""
    value: Any = None
    """The field's value; without it the text of ``group`` is."""
    group: StrictStr | None = None
    """Name of the group whose text is the value; without it the whole match."""
    also: Annotated[tuple[re.Pattern[str], ...], Field(max_length=20)] = ()
    """Further patterns that must be found, anywhere in the document."""
    unless: Annotated[tuple[re.Pattern[str], ...], Field(max_length=20)] = ()
    """Patterns of which none may be found, anywhere in the document."""

    @field_validator("value")
    @classmethod
    def _constant(cls, value: object) -> JSON:
        return as_json(value)

    @field_validator("pattern", mode="before")
    @classmethod
    def _bounded(cls, pattern: object) -> re.Pattern[str]:
        return _compiled(pattern)

    @field_validator("also", "unless", mode="before")
    @classmethod
    def _all_bounded(cls, patterns: object) -> tuple[re.Pattern[str], ...]:
        if not isinstance(patterns, list | tuple):
            raise settings_error("is no list", "write a list of patterns")
        return tuple(_compiled(pattern) for pattern in patterns)

    @model_validator(mode="after")
    def _group_exists(self) -> Self:
        if self.group is not None and self.group not in self.pattern.groupindex:
            raise settings_error(
                "names a group that the pattern does not have",
                "name a part of the pattern as (?P<NAME>...)",
                below=("group",),
            )
        return self


class RuleField(BaseModel):
    """How one field of the answer is filled; exactly one of the three ways."""

    model_config = FROZEN

    name: Annotated[StrictStr, StringConstraints(min_length=1, max_length=256)]
    """The field's name in the output schema."""
    required: StrictBool = False
    """Report ``no_evidence`` when it is not found, even where the schema allows null."""
    rules: Annotated[tuple[Rule, ...], Field(max_length=RULES_MAX)] = ()
    """Tried in order; the first that is found decides."""
    from_field: Annotated[StrictStr | None, Field(alias="from")] = None
    """Another field whose value is looked up in ``table``."""
    table: dict[str, Any] = {}
    """Values of this field by the other field's value, written as text."""
    evidence_of: StrictStr | None = None
    """Another field whose sentence, word for word, is this field's value."""

    @field_validator("table")
    @classmethod
    def _constants(cls, table: dict[str, object]) -> dict[str, JSON]:
        return {key: as_json(value) for key, value in table.items()}

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [bool(self.rules), self.from_field is not None, self.evidence_of is not None]
        if sum(ways) != 1:
            raise settings_error(
                "is filled in no way or in more than one",
                "give it rules, or from and table, or evidence_of",
            )
        if (self.from_field is not None) != bool(self.table):
            raise settings_error("needs from and table together", "add the other one")
        return self


class RuleFile(BaseModel):
    """Everything in one rule file."""

    model_config = FROZEN

    format: Literal["casework-rules/1"]
    fields: Annotated[tuple[RuleField, ...], Field(min_length=1, max_length=FIELDS_MAX)]

    @field_validator("fields")
    @classmethod
    def _known_and_distinct(cls, fields: tuple[RuleField, ...]) -> tuple[RuleField, ...]:
        found: dict[str, RuleField] = {}
        for index, field in enumerate(fields):
            if field.name in found:
                raise settings_error("is filled twice", "keep one", below=(index, "name"))
            other = field.from_field or field.evidence_of
            if other is not None and (other not in found or found[other].evidence_of):
                raise settings_error(
                    "names no earlier field that rules fill",
                    "put that field before this one",
                    below=(index, "from" if field.from_field else "evidence_of"),
                )
            found[field.name] = field
        return fields

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a rule file.

        Raises:
            ConfigurationError: One line with place and way out.
        """
        return TomlDocument.read(path, missing="name the rule file in file = 'NAME'").as_model(cls)
