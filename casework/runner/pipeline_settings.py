"""The shape of a pipeline file, as pydantic reads it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    Field,
    StrictBool,
    StrictStr,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.types import Strict

from casework.checkpoints.call_names import is_call
from casework.config.privacy_profile import PrivacyProfile
from casework.config.settings_problems import FROZEN, settings_error
from casework.gateway.messages import OnInvalidOutput, RequestLimits
from casework.runner.bundled_steps import STEPS
from casework.runner.chunk_ids import chunk_id
from casework.runner.chunking import CHUNK_BYTES_MIN
from casework.runner.conditions import Condition, ConditionKind
from casework.runner.data_selection import ALL_TEXT, OutputSelector, check_pattern
from casework.runner.documents.coverage import PAGES_WITH_TEXT_MIN
from casework.runner.graph import circle_in
from casework.strict_json import JSON

OPERATIONS_MAX: Final = 100
INPUT_BYTES_MAX: Final = 512 * 1024
"""Longest data, in UTF-8, that an operation sends unless the pipeline says otherwise."""

_INPUT_BYTES_CEILING: Final = 64 * 1024 * 1024
_PATTERNS_MAX: Final = 100
_STOPS_MAX: Final = 16
_CONDITIONS_MAX: Final = 100
_BAD_ESCAPE: Final = re.compile("~(?![01])")
_DEPTH_MAX: Final = 64

Penalty = Annotated[float, Strict(), Field(ge=-2, le=2, allow_inf_nan=False)]
Path = Annotated[StrictStr, StringConstraints(min_length=1, max_length=4096)]
OperationId = Annotated[StrictStr, StringConstraints(min_length=1, max_length=200)]
Pointer = Annotated[StrictStr, StringConstraints(max_length=1000)]
Seconds = Annotated[float, Strict(), Field(allow_inf_nan=False, le=604_800)]


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


class ConditionSettings(BaseModel):
    """One condition of ``when``: a place in an earlier answer, and exactly one test of it."""

    model_config = FROZEN

    operation: OperationId
    """The operation whose answer is looked at; it must be needed."""
    pointer: Pointer
    """JSON Pointer into the answer."""
    equals: Any = None
    not_equals: Any = None
    among: Annotated[Any, Field(alias="in")] = None
    """A list of values, one of which it must equal."""
    exists: StrictBool | None = None
    at_least: Annotated[float | None, Strict(), Field(allow_inf_nan=False)] = None
    at_most: Annotated[float | None, Strict(), Field(allow_inf_nan=False)] = None

    @field_validator("pointer")
    @classmethod
    def _is_pointer(cls, pointer: str) -> str:
        return _pointer(pointer)

    @field_validator("equals", "not_equals")
    @classmethod
    def _as_json(cls, value: Any) -> JSON:
        return _json_value(value)

    @field_validator("among")
    @classmethod
    def _a_list(cls, values: Any) -> JSON:
        if values is not None and not (isinstance(values, list) and values):
            raise settings_error("is no list of values", 'write one like ["high", "critical"]')
        return _json_value(values)

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if len(self._tests()) != 1:
            words = ", ".join(kind.value for kind in ConditionKind)
            raise settings_error("needs exactly one test", f"write one of {words}")
        return self

    def condition(self) -> Condition:
        """Return the condition."""
        (test,) = self._tests()
        value: JSON = getattr(self, test)
        return Condition(
            self.operation, self.pointer, _KINDS.get(test) or ConditionKind(test), value
        )

    def _tests(self) -> list[str]:
        return sorted(self.model_fields_set - {"operation", "pointer"})


_KINDS: Final = {"among": ConditionKind.IN}


class ChunkSettings(BaseModel):
    """How a document that is too long for one request is split."""

    model_config = FROZEN

    bytes_max: Annotated[
        int, Strict(), Field(alias="max_bytes", ge=CHUNK_BYTES_MIN, le=_INPUT_BYTES_CEILING)
    ]
    """Most bytes of a part, in UTF-8; longer data is split."""
    overlap_bytes: Annotated[int, Strict(), Field(ge=0, le=_INPUT_BYTES_CEILING)] = 0
    """Most bytes that a part repeats from the end of the one before."""

    @model_validator(mode="after")
    def _moves_on(self) -> Self:
        if self.overlap_bytes * 2 > self.bytes_max:
            raise settings_error(
                "repeats more than half of a part",
                f"it must be at most {self.bytes_max // 2}",
                below=("overlap_bytes",),
            )
        return self


class OperationSettings(BaseModel):
    """One ``[[operations]]`` table."""

    model_config = FROZEN

    id: OperationId
    """The operation's id in every case; keep it as long as the results may be compared."""
    uses: StrictStr | None = None
    """An operation that comes with Casework; what is written here goes before what it brings."""
    needs: Annotated[tuple[OperationId, ...], Field(max_length=OPERATIONS_MAX)] = ()
    """Operations of the same case that must have an answer first."""
    when: Annotated[tuple[ConditionSettings, ...], Field(max_length=_CONDITIONS_MAX)] = ()
    """What must hold of their answers; otherwise the operation is skipped."""
    template: Path = "structured_json_v1"
    """Name of a built-in prompt template, or a file that ends in .txt."""
    task: StrictStr | None = None
    """What is wanted, in words."""
    task_file: Path | None = None
    """A text file with the task, in place of ``task``."""
    output_schema: Any = None
    """JSON Schema of the answer: a table, or the name of a JSON file."""
    schema_name: Annotated[StrictStr, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = (
        "answer"
    )
    """Name under which servers get the schema."""
    data: Any = ALL_TEXT
    """"text" for the text of every original, or a list of patterns and parts of answers."""
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
    rounds_max: Annotated[int | None, Strict(), Field(alias="max_attempts", ge=1, le=10_000)] = None
    """Rounds before the operation is blocked; the configured number by default."""
    retry_delay_seconds: Annotated[Seconds | None, Field(ge=0)] = None
    """Least wait between two rounds; the configured one by default."""
    timeout_seconds: Annotated[Seconds | None, Field(gt=0, le=86_400)] = None
    """Longest time for one call; the provider's own by default."""
    on_invalid_output: OnInvalidOutput = OnInvalidOutput.ERROR
    """What follows an answer that cannot be used."""
    chunk: ChunkSettings | None = None
    """Splits data that is longer; the parts are asked one by one, and their answers merged."""
    merge_task: StrictStr | None = None
    """What is wanted of the answers of the parts, in words."""

    @field_validator("id")
    @classmethod
    def _printable(cls, operation_id: str) -> str:
        if not operation_id.isprintable() or operation_id != operation_id.strip():
            raise settings_error("holds a control character, or a space at an end")
        if chunk_id(operation_id) is not None:
            raise settings_error("has the form of an id that parts of a document get")
        if is_call(operation_id):
            raise settings_error("has the form of an id that calls of clients get")
        return operation_id

    @field_validator("uses")
    @classmethod
    def _bundled(cls, uses: str | None) -> str | None:
        if uses is not None and uses not in STEPS:
            raise settings_error(
                "names nothing that comes with Casework", f"use {', '.join(STEPS)}"
            )
        return uses

    @field_validator("when", mode="before")
    @classmethod
    def _one_or_more(cls, when: Any) -> Any:
        if isinstance(when, str):
            raise settings_error(
                "is no condition",
                'write { operation = "triage", pointer = "/severity", equals = "high" }',
            )
        return (when,) if isinstance(when, dict) else when

    @field_validator("output_schema")
    @classmethod
    def _schema_or_file(cls, schema: Any) -> Any:
        if schema is None or (isinstance(schema, str) and schema):
            return schema
        if not isinstance(schema, dict):
            raise settings_error(
                "is neither a table nor the name of a file",
                'write the schema as a table, or a file like "schemas/answer.json"',
            )
        return _json_value(schema)

    @field_validator("data")
    @classmethod
    def _entries(cls, data: Any) -> tuple[str | OutputSelector, ...]:
        if data == ALL_TEXT:
            return ()
        if not isinstance(data, list) or not 0 < len(data) <= _PATTERNS_MAX:
            raise settings_error(
                "selects nothing", f'write "{ALL_TEXT}", or a list like ["*.md", "case/facts.json"]'
            )
        return tuple(_data_entry(entry, index) for index, entry in enumerate(data))

    @model_validator(mode="after")
    def _one_task(self) -> Self:
        neither = self.task is None and self.task_file is None
        if (neither and self.uses is None) or None not in (self.task, self.task_file):
            raise settings_error("needs a task: either task or task_file, and not both")
        if self.task is not None and not self.task.strip():
            raise settings_error("is blank", "say what is wanted", below=("task",))
        if self.output_schema is None and self.uses is None:
            raise settings_error("is missing", "add it", below=("output_schema",))
        return self

    @model_validator(mode="after")
    def _parts_are_merged(self) -> Self:
        if (self.chunk is None) != (self.merge_task is None):
            raise settings_error(
                "needs both chunk and merge_task, or neither",
                "the answers of the parts become one answer under a task of its own",
                below=("merge_task" if self.chunk is None else "chunk",),
            )
        if self.merge_task is not None and not self.merge_task.strip():
            raise settings_error("is blank", "say what is wanted", below=("merge_task",))
        if self.chunk is not None and self.chunk.bytes_max > self.input_bytes_max:
            raise settings_error(
                "makes parts longer than max_input_bytes", below=("chunk", "max_bytes")
            )
        return self

    @model_validator(mode="after")
    def _reads_what_it_needs(self) -> Self:
        needs_it = "add it to needs of this operation"
        for index, need in enumerate(self.needs):
            if need == self.id:
                raise settings_error(
                    "names the operation itself", "take it out", below=("needs", index)
                )
            if need in self.needs[:index]:
                raise settings_error("names an operation twice", below=("needs", index))
        for index, condition in enumerate(self.when):
            if condition.operation not in self.needs:
                raise settings_error(
                    "looks at an operation that is not needed", needs_it, below=("when", index)
                )
        for index, entry in enumerate(self.data):
            if isinstance(entry, OutputSelector) and entry.operation not in self.needs:
                raise settings_error(
                    "reads an operation that is not needed", needs_it, below=("data", index)
                )
        return self

    def limits(self) -> RequestLimits:
        """Return how often and how long the operation is tried."""
        return RequestLimits(
            rounds_max=self.rounds_max,
            retry_delay_seconds=self.retry_delay_seconds,
            timeout_seconds=self.timeout_seconds,
            on_invalid_output=self.on_invalid_output,
        )


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

    @field_validator("operations")
    @classmethod
    def _needs_lead_somewhere(
        cls, operations: tuple[OperationSettings, ...]
    ) -> tuple[OperationSettings, ...]:
        needs = {operation.id: operation.needs for operation in operations}
        for index, operation in enumerate(operations):
            for position, need in enumerate(operation.needs):
                if need not in needs:
                    raise settings_error(
                        "names no operation of this pipeline",
                        f"its operations are {', '.join(needs)}",
                        below=(index, "needs", position),
                    )
        circle = circle_in(needs)
        if circle is not None:
            raise settings_error(
                f"go in a circle: {' -> '.join(circle)}",
                "let one of them begin without the other",
                below=([operation.id for operation in operations].index(circle[0]), "needs"),
            )
        return operations


def _data_entry(entry: Any, index: int) -> str | OutputSelector:
    """Read one entry of ``data``."""
    if isinstance(entry, str):
        problem = check_pattern(entry)
        if problem:
            raise settings_error(problem, below=(index,))
        return entry
    if not isinstance(entry, dict):
        raise settings_error("is no text", below=(index,))
    operation, pointer = entry.get("operation"), entry.get("pointer", "")
    if not isinstance(operation, str) or not isinstance(pointer, str):
        raise settings_error(
            "names no part of an answer",
            'write { operation = "triage", pointer = "/facts" }',
            below=(index,),
        )
    unknown: Iterable[str] = set(entry) - {"operation", "pointer"}
    if any(unknown):
        raise settings_error("has an unknown key", "known here: operation, pointer", below=(index,))
    return OutputSelector(operation, _pointer(pointer, below=(index,)))


def _pointer(pointer: str, *, below: tuple[str | int, ...] = ()) -> str:
    sound = not pointer or pointer.startswith("/")
    if not sound or _BAD_ESCAPE.search(pointer) or not pointer.isprintable():
        raise settings_error(
            "is no JSON Pointer", 'write "/facts", or "" for the whole answer', below=below
        )
    return pointer


def _json_value(value: Any, depth: int = 0) -> JSON:
    """Turn a TOML value into the JSON that it stands for."""
    if depth > _DEPTH_MAX:
        raise settings_error("is nested too deeply")
    match value:
        case None | str() | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case Decimal() if value.is_finite():
            return float(value)
        case list() | tuple():
            return [_json_value(item, depth + 1) for item in value]
        case dict():
            return {name: _json_value(item, depth + 1) for name, item in value.items()}
        case _:
            raise settings_error(
                "holds a value that JSON does not know", "write dates in quotes, and no inf or nan"
            )
