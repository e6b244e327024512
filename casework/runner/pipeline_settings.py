"""The shape of a pipeline file, as pydantic reads it."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    Field,
    StrictStr,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.types import Strict

from casework.config.privacy_profile import PrivacyProfile
from casework.config.settings_problems import FROZEN, settings_error
from casework.runner.data_selection import ALL_TEXT, check_pattern
from casework.runner.documents.coverage import PAGES_WITH_TEXT_MIN
from casework.strict_json import JSON

OPERATIONS_MAX: Final = 100
INPUT_BYTES_MAX: Final = 512 * 1024
"""Longest data, in UTF-8, that an operation sends unless the pipeline says otherwise."""

_INPUT_BYTES_CEILING: Final = 64 * 1024 * 1024
_PATTERNS_MAX: Final = 100
_STOPS_MAX: Final = 16
_DEPTH_MAX: Final = 64

Penalty = Annotated[float, Strict(), Field(ge=-2, le=2, allow_inf_nan=False)]
Path = Annotated[StrictStr, StringConstraints(min_length=1, max_length=4096)]


class ParameterSettings(BaseModel):
    """Sampling parameters of one operation; what is left out is left to the server."""

    model_config = FROZEN

    temperature: Annotated[float | None, Field(ge=0, le=10, allow_inf_nan=False)] = None
    top_p: Annotated[float | None, Field(ge=0, le=1, allow_inf_nan=False)] = None
    max_tokens: Annotated[int | None, Strict(), Field(ge=1, le=10_000_000)] = None
    seed: Annotated[int | None, Strict(), Field(ge=-(2**63), le=2**63 - 1)] = None
    stop: Annotated[tuple[StrictStr, ...] | None, Field(max_length=_STOPS_MAX)] = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    reasoning_effort: Annotated[StrictStr | None, StringConstraints(min_length=1)] = None

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_more(cls, stop: Any) -> Any:
        return (stop,) if isinstance(stop, str) else stop

    def given(self) -> dict[str, JSON]:
        """Return the parameters that were written down."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self
            if value is not None
        }


class OperationSettings(BaseModel):
    """One ``[[operations]]`` table."""

    model_config = FROZEN

    id: Annotated[StrictStr, StringConstraints(min_length=1, max_length=200)]
    """The operation's id in every case; keep it as long as the results may be compared."""
    template: Path = "structured_json_v1"
    """Name of a built-in prompt template, or a file that ends in .txt."""
    task: StrictStr | None = None
    """What is wanted, in words."""
    task_file: Path | None = None
    """A text file with the task, in place of ``task``."""
    output_schema: Any
    """JSON Schema of the answer: a table, or the name of a JSON file."""
    schema_name: Annotated[StrictStr, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = (
        "answer"
    )
    """Name under which servers get the schema."""
    data: Any = ALL_TEXT
    """"text" for the text of every original, or patterns over names."""
    privacy_profile: PrivacyProfile | None = None
    """Narrows the configured profile for this operation."""
    parameters: ParameterSettings = ParameterSettings()
    """Sampling parameters."""
    input_bytes_max: Annotated[
        int, Strict(), Field(alias="max_input_bytes", ge=1, le=_INPUT_BYTES_CEILING)
    ] = INPUT_BYTES_MAX
    """Longest data that is sent; a longer one is an error of that case, before any call."""
    pages_with_text_min: Annotated[
        float, Field(alias="min_pages_with_text", ge=0, le=1, allow_inf_nan=False)
    ] = PAGES_WITH_TEXT_MIN
    """Least share of pages with text; a case below it counts as empty, before any call."""

    @field_validator("id")
    @classmethod
    def _printable(cls, operation_id: str) -> str:
        if not operation_id.isprintable() or operation_id != operation_id.strip():
            raise settings_error("holds a control character, or a space at an end")
        return operation_id

    @field_validator("output_schema")
    @classmethod
    def _schema_or_file(cls, schema: Any) -> Any:
        if isinstance(schema, str) and schema:
            return schema
        if not isinstance(schema, dict):
            raise settings_error(
                "is neither a table nor the name of a file",
                'write the schema as a table, or a file like "schemas/answer.json"',
            )
        return _json_value(schema)

    @field_validator("data")
    @classmethod
    def _patterns(cls, data: Any) -> tuple[str, ...]:
        if data == ALL_TEXT:
            return ()
        if not isinstance(data, list) or not 0 < len(data) <= _PATTERNS_MAX:
            raise settings_error(
                "selects nothing", f'write "{ALL_TEXT}", or a list like ["*.md", "case/facts.json"]'
            )
        for index, pattern in enumerate(data):
            problem = check_pattern(pattern) if isinstance(pattern, str) else "is no text"
            if problem:
                raise settings_error(problem, below=(index,))
        return tuple(data)

    @model_validator(mode="after")
    def _one_task(self) -> Self:
        if (self.task is None) == (self.task_file is None):
            raise settings_error("needs a task: either task or task_file, and not both")
        if self.task is not None and not self.task.strip():
            raise settings_error("is blank", "say what is wanted", below=("task",))
        return self


class PipelineSettings(BaseModel):
    """A whole pipeline file."""

    model_config = FROZEN

    name: Annotated[StrictStr, StringConstraints(min_length=1, max_length=200)]
    """What people call the pipeline."""
    operations: Annotated[tuple[OperationSettings, ...], Field(max_length=OPERATIONS_MAX)]
    """The operations, in the order in which they are run for each case."""

    @field_validator("operations")
    @classmethod
    def _some_and_distinct(
        cls, operations: tuple[OperationSettings, ...]
    ) -> tuple[OperationSettings, ...]:
        if not operations:
            raise settings_error("lists nothing", "add an [[operations]] table")
        seen: set[str] = set()
        for index, operation in enumerate(operations):
            if operation.id in seen:
                raise settings_error(
                    "is taken by an earlier operation",
                    "give every operation an id of its own",
                    below=(index, "id"),
                )
            seen.add(operation.id)
        return operations


def _json_value(value: Any, depth: int = 0) -> JSON:
    """Turn a TOML value into the JSON that it stands for."""
    if depth > _DEPTH_MAX:
        raise settings_error("is nested too deeply")
    match value:
        case str() | bool() | int():
            return value
        case Decimal() if value.is_finite():
            return float(value)
        case list():
            return [_json_value(item, depth + 1) for item in value]
        case dict():
            return {name: _json_value(item, depth + 1) for name, item in value.items()}
        case _:
            raise settings_error(
                "holds a value that JSON does not know", "write dates in quotes, and no inf or nan"
            )
