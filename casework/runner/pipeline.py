"""A pipeline: the operations that are run over each case, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from casework.config.privacy_profile import PrivacyProfile
from casework.config.toml_document import TomlDocument, one_line
from casework.config.toml_places import Path as KeyPath
from casework.errors import ConfigurationError, InvalidRequest
from casework.gateway.validation import compile_schema
from casework.runner.data_selection import DataSelector
from casework.runner.pipeline_settings import OperationSettings, PipelineSettings
from casework.strict_json import JSON, InvalidJSON, JSONObject, parse

FILE_BYTES_MAX: Final = 1024 * 1024
"""Largest task, template or schema file."""

_TEMPLATE_FILE_ENDING: Final = ".txt"


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """Which prompt template an operation uses; the prompts floor reads it."""

    name: str
    """Name of a built-in template, or the stem of a file."""
    content: bytes | None
    """The file's bytes; None for a built-in template."""
    where: str
    """The file, or the place in the pipeline that names the template, for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSpec:
    """One operation, complete: nothing is read from files any more."""

    id: str
    template: TemplateSource
    task: str
    output_schema: JSONObject = field(repr=False)
    schema_name: str
    data: DataSelector
    privacy_profile: PrivacyProfile | None
    parameters: Mapping[str, JSON]
    input_bytes_max: int
    """Longest data, in UTF-8, that is sent."""
    pages_with_text_min: float
    """Least share of pages with text."""
    where: str
    """The operation's place in its file."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Operations in the order in which they are run for each case."""

    name: str
    operations: tuple[OperationSpec, ...]

    @classmethod
    def load(cls, path: str | Path, *, engine: str = "jsonschema-rs") -> Pipeline:
        """Read a pipeline file and every file that it names, relative to its own folder.

        Args:
            path: The TOML file.
            engine: Which engine must accept the output schemas.

        Raises:
            ConfigurationError: Something in it cannot be used. One line: file, line, column, what
                is wrong and the way out.
        """
        return _assemble(TomlDocument.read(Path(path)), Path(path).parent, engine)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        folder: Path,
        source: str = "pipeline",
        engine: str = "jsonschema-rs",
    ) -> Pipeline:
        """Read a pipeline from a text; ``source`` names it in errors.

        Raises:
            ConfigurationError: As :meth:`load` does.
        """
        return _assemble(TomlDocument.parse(text, name=source), folder, engine)

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


def _assemble(document: TomlDocument, folder: Path, engine: str) -> Pipeline:
    settings = document.as_model(PipelineSettings)
    operations = tuple(
        _Assembly(document, folder, ("operations", index)).operation(operation, engine)
        for index, operation in enumerate(settings.operations)
    )
    return Pipeline(settings.name, operations)


@dataclass(frozen=True, slots=True)
class _Assembly:
    """Puts one operation together out of its table and the files that the table names."""

    document: TomlDocument
    folder: Path
    table: KeyPath

    def operation(self, settings: OperationSettings, engine: str) -> OperationSpec:
        return OperationSpec(
            id=settings.id,
            template=self._template(settings.template),
            task=self._task(settings),
            output_schema=self._schema(settings.output_schema, engine),
            schema_name=settings.schema_name,
            data=DataSelector(settings.data),
            privacy_profile=settings.privacy_profile,
            parameters=MappingProxyType(settings.parameters.given()),
            input_bytes_max=settings.input_bytes_max,
            pages_with_text_min=settings.pages_with_text_min,
            where=self._where(),
        )

    def _template(self, name: str) -> TemplateSource:
        if not name.endswith(_TEMPLATE_FILE_ENDING):
            return TemplateSource(name, None, self._where("template"))
        path, content = self._read(name, "template")
        return TemplateSource(path.stem, content, one_line(str(path)))

    def _task(self, settings: OperationSettings) -> str:
        if settings.task_file is None:
            assert settings.task is not None, "the model demands one of the two"
            return settings.task
        path, content = self._read(settings.task_file, "task_file")
        try:
            task = content.decode("utf-8-sig").strip("\r\n")
        except UnicodeDecodeError:
            raise self._in_file(path, "is not UTF-8", "save it as UTF-8") from None
        if not task.strip():
            raise self._in_file(path, "is blank", "say in it what is wanted")
        return task

    def _schema(self, named: JSON, engine: str) -> JSONObject:
        place, schema = self._where("output_schema"), named
        if isinstance(named, str):
            path, content = self._read(named, "output_schema")
            place = one_line(str(path))
            schema = self._parsed(path, content)
        if not isinstance(schema, dict):
            raise ConfigurationError(
                "a schema must be a JSON object", code="schema_not_allowed", where=place
            )
        try:
            compile_schema(schema, engine=engine)
        except InvalidRequest as error:
            inside = f"{error.where}: " if error.where else ""
            raise ConfigurationError(
                f"{inside}{error.message}", code=error.code, where=place, remedy=error.remedy
            ) from None
        return schema

    def _parsed(self, path: Path, content: bytes) -> JSON:
        try:
            return parse(content.removeprefix(b"\xef\xbb\xbf"))
        except InvalidJSON as error:
            place = one_line(str(path)) + (f":{error.line}:{error.column}" if error.line else "")
            raise ConfigurationError(
                f"is not strict JSON ({error.reason})",
                code="schema_not_allowed",
                where=place,
                remedy="correct the file",
            ) from None

    def _read(self, name: str, key: str) -> tuple[Path, bytes]:
        path = self.folder / name
        if path.exists() and not path.is_file():
            raise self._problem(key, f"{key} names no regular file", "name a file")
        try:
            with path.open("rb") as stream:
                content = stream.read(FILE_BYTES_MAX + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise self._problem(
                key,
                f"{key} names a file that cannot be read: {reason}",
                "a relative path is taken from the pipeline's own folder",
            ) from None
        if len(content) > FILE_BYTES_MAX:
            raise self._problem(
                key, f"{key} names a file of more than {FILE_BYTES_MAX} bytes", "shorten it"
            )
        return path, content

    def _where(self, key: str = "id") -> str:
        return self._problem(key, "", "").where or self.document.name

    def _problem(self, key: str, message: str, remedy: str) -> ConfigurationError:
        return self.document.problem((*self.table, key), message, remedy)

    def _in_file(self, path: Path, message: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(message, where=one_line(str(path)), remedy=remedy)
