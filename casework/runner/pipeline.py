"""A pipeline: the operations that are run over each case, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from pydantic import ValidationError

from casework.config.privacy_profile import PrivacyProfile
from casework.config.settings_problems import first_problem
from casework.config.toml_document import TomlDocument
from casework.config.toml_places import Path as KeyPath
from casework.errors import ConfigurationError
from casework.gateway.messages import OnInvalidOutput
from casework.runner.graph import in_order
from casework.runner.operation_assembly import Assembly, Source
from casework.runner.operation_spec import OperationSpec
from casework.runner.pipeline_settings import PipelineSettings

ENGINE: Final = "jsonschema-rs"


class OperationOptions(TypedDict, total=False):
    """What an operation may say, under the names of the pipeline file."""

    uses: str
    needs: Sequence[str]
    when: Mapping[str, object] | Sequence[Mapping[str, object]]
    task: str
    task_file: str
    output_schema: Mapping[str, object] | str
    schema_name: str
    template: str
    data: str | Sequence[str | Mapping[str, str]]
    privacy_profile: PrivacyProfile | str
    parameters: Mapping[str, object]
    max_input_bytes: int
    min_pages_with_text: float
    max_attempts: int
    retry_delay_seconds: float
    timeout_seconds: float
    on_invalid_output: OnInvalidOutput | str
    chunk: Mapping[str, int]
    merge_task: str


class Operation:
    """One operation written in code, under the names that a pipeline file uses.

    Nothing is checked before it becomes part of a :class:`Pipeline`.

    Args:
        id: The operation's id in every case.
        options: What the ``[[operations]]`` table would say.
    """

    def __init__(self, id: str, **options: Unpack[OperationOptions]) -> None:  # noqa: A002
        self.table: Mapping[str, object] = {"id": id, **options}


@dataclass(frozen=True, slots=True, init=False)
class Pipeline:
    """Operations in the order in which they are run for each case.

    Each stands behind those that it needs; otherwise the order is that in which they were given.

    Args:
        name: What people call the pipeline.
        operations: What to run over each case.
        folder: Where relative names of files lead from.
        engine: Which engine must accept the output schemas.

    Raises:
        ConfigurationError: An operation cannot be used, or they need each other in a circle. One
            line: which setting of which operation, what is wrong and the way out.
    """

    name: str
    operations: tuple[OperationSpec, ...]

    def __init__(
        self,
        name: str,
        operations: Sequence[Operation],
        *,
        folder: Path | None = None,
        engine: str = ENGINE,
    ) -> None:
        source = _Code("pipeline")
        values = {"name": name, "operations": [_plain(one.table) for one in operations]}
        settings = source.as_model(values)
        _fill(self, settings.name, _assemble(settings, source, folder or Path(), engine=engine))

    @classmethod
    def load(cls, path: str | Path, *, engine: str = ENGINE) -> Pipeline:
        """Read a pipeline file and every file that it names, relative to its own folder.

        Args:
            path: The TOML file.
            engine: Which engine must accept the output schemas.

        Raises:
            ConfigurationError: Something in it cannot be used. One line: file, line, column, what
                is wrong and the way out.
        """
        return cls._of(TomlDocument.read(Path(path)), Path(path).parent, engine)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        folder: Path,
        source: str = "pipeline",
        engine: str = ENGINE,
    ) -> Pipeline:
        """Read a pipeline from a text; ``source`` names it in errors.

        Raises:
            ConfigurationError: As :meth:`load` does.
        """
        return cls._of(TomlDocument.parse(text, name=source), folder, engine)

    def operation(self, operation_id: str) -> OperationSpec:
        """Return the operation of an id.

        Raises:
            ConfigurationError: There is none; code ``operation_unknown``.
        """
        for operation in self.operations:
            if operation.id == operation_id:
                return operation
        raise ConfigurationError(
            "the pipeline has no operation of that id",
            code="operation_unknown",
            remedy=f"its operations are {', '.join(spec.id for spec in self.operations)}",
        )

    @classmethod
    def _of(cls, document: TomlDocument, folder: Path, engine: str) -> Pipeline:
        settings = document.as_model(PipelineSettings)
        made = cls.__new__(cls)
        _fill(made, settings.name, _assemble(settings, document, folder, engine=engine))
        return made


def _fill(pipeline: Pipeline, name: str, operations: tuple[OperationSpec, ...]) -> None:
    object.__setattr__(pipeline, "name", name)
    object.__setattr__(pipeline, "operations", operations)


def _assemble(
    settings: PipelineSettings, source: Source, folder: Path, *, engine: str
) -> tuple[OperationSpec, ...]:
    assemblies = {
        operation.id: Assembly(source, folder, ("operations", index))
        for index, operation in enumerate(settings.operations)
    }
    specs = {
        operation.id: assemblies[operation.id].operation(operation, engine)
        for operation in settings.operations
    }
    for operation_id, spec in specs.items():
        assemblies[operation_id].refuse_places_without_answers(spec, specs)
    order = in_order({operation_id: spec.needs for operation_id, spec in specs.items()})
    return tuple(specs[operation_id] for operation_id in order)


@dataclass(frozen=True, slots=True)
class _Code:
    """Settings that were written in code; places are named as the code writes them."""

    name: str

    def problem(self, path: KeyPath, message: str, remedy: str | None = None) -> ConfigurationError:
        steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        return ConfigurationError(message, where=f"{self.name}{''.join(steps)}", remedy=remedy)

    def as_model(self, values: Mapping[str, object]) -> PipelineSettings:
        try:
            return PipelineSettings.model_validate(values, by_alias=True, by_name=False)
        except ValidationError as error:
            path, message, remedy = first_problem(error, PipelineSettings, _order)
        raise self.problem(path, message, remedy)


def _order(path: KeyPath) -> int:
    return next((part for part in path if isinstance(part, int)), -1)


def _plain(value: Any) -> Any:
    """Copy mappings and sequences into the kinds that a TOML reader makes."""
    match value:
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value
