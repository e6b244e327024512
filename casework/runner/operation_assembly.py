"""From the settings of an operation to the operation, complete and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from casework.config.toml_document import one_line
from casework.config.toml_places import Path as KeyPath
from casework.errors import ConfigurationError, InvalidRequest
from casework.gateway.validation import compile_schema
from casework.runner.bundled_steps import STEPS
from casework.runner.conditions import asks_for_what_cannot_be, leads_nowhere
from casework.runner.data_selection import DataSelector, OutputSelector
from casework.runner.operation_spec import Chunking, OperationSpec, TemplateSource
from casework.runner.pipeline_settings import OperationSettings
from casework.strict_json import JSON, InvalidJSON, JSONObject, parse

FILE_BYTES_MAX: Final = 1024 * 1024
"""Largest task, template or schema file."""

_TEMPLATE_FILE_ENDING: Final = ".txt"


class Source(Protocol):
    """Where settings were written down, for errors."""

    @property
    def name(self) -> str:
        """Return what the source is called."""

    def problem(self, path: KeyPath, message: str, remedy: str | None = None) -> ConfigurationError:
        """Make the error for one key."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Puts one operation together out of its table and the files that the table names."""

    source: Source
    folder: Path
    table: KeyPath

    def operation(self, settings: OperationSettings, engine: str) -> OperationSpec:
        """Return the operation, with everything read that it names.

        Raises:
            ConfigurationError: A file cannot be used, or the schema is refused.
        """
        settings = _completed(settings)
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
            needs=settings.needs,
            when=tuple(condition.condition() for condition in settings.when),
            limits=settings.limits(),
            chunking=_chunking(settings),
        )

    def refuse_places_without_answers(
        self, spec: OperationSpec, specs: Mapping[str, OperationSpec]
    ) -> None:
        """Refuse conditions and data that look where no answer of the needed operation can be.

        Raises:
            ConfigurationError: One does, as far as the schema tells.
        """
        looked_at = [
            *((("when", index), one.operation, one.pointer) for index, one in enumerate(spec.when)),
            *(
                (("data", index), entry.operation, entry.pointer)
                for index, entry in enumerate(spec.data.entries)
                if isinstance(entry, OutputSelector)
            ),
        ]
        for place, operation, pointer in looked_at:
            if leads_nowhere(specs[operation].output_schema, pointer):
                raise self.source.problem(
                    (*self.table, *place),
                    f"the schema of {operation!r} has nothing at {pointer}",
                    "correct the pointer, or list the member in that schema's properties",
                )
        for index, condition in enumerate(spec.when):
            if asks_for_what_cannot_be(specs[condition.operation].output_schema, condition):
                raise self.source.problem(
                    (*self.table, "when", index),
                    f"the schema of {condition.operation!r} has no such value at "
                    f"{condition.pointer}",
                    "correct the value, or list it in that schema",
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
        return self._problem(key, "", "").where or self.source.name

    def _problem(self, key: str, message: str, remedy: str) -> ConfigurationError:
        return self.source.problem((*self.table, key), message, remedy)

    def _in_file(self, path: Path, message: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(message, where=one_line(str(path)), remedy=remedy)


def _completed(settings: OperationSettings) -> OperationSettings:
    """Fill in what a bundled step brings and the pipeline does not say itself."""
    if settings.uses is None:
        return settings
    step, said = STEPS[settings.uses], settings.model_fields_set
    brought: dict[str, object] = {}
    if "template" not in said:
        brought["template"] = step.name
    if settings.task is None and settings.task_file is None:
        brought["task"] = step.task
    if settings.output_schema is None:
        brought["output_schema"] = step.output_schema()
        if "schema_name" not in said:
            brought["schema_name"] = step.schema_name
    return settings.model_copy(update=brought)


def _chunking(settings: OperationSettings) -> Chunking | None:
    chunk = settings.chunk
    if chunk is None or settings.merge_task is None:
        return None
    return Chunking(
        bytes_max=chunk.bytes_max,
        overlap_bytes=chunk.overlap_bytes,
        merge_task=settings.merge_task,
    )
