"""From a pipeline and the texts of a case to the request of one operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from casework.checkpoints.store import CheckpointStore
from casework.config.privacy_profile import PrivacyProfile
from casework.errors import ConfigurationError, InvalidRequest
from casework.gateway.errors import FailureKind
from casework.gateway.messages import LLMRequest
from casework.prompts import PromptBuilder, PromptTemplate
from casework.runner.data_selection import TextPart, join_texts
from casework.runner.documents.coverage import Coverage, measure
from casework.runner.operation_spec import OperationSpec, TemplateSource
from casework.runner.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """The request of one operation for one case, and whether anybody may be asked."""

    request: LLMRequest
    rejection: FailureKind | None
    """Why the input itself rules an answer out: ``empty_input``, ``context_too_long`` or
    ``data_missing``."""
    coverage: Coverage
    """Real characters and pages of the data."""
    generation: int | None = None
    """Of the package, where the request rests on what other operations had come to by then."""


@dataclass(frozen=True, slots=True)
class NamedText:
    """One text of a case under the user's name for it."""

    name: str
    text: str


class RequestBuilder:
    """Builds the requests of one pipeline.

    Args:
        pipeline: Its templates are read now, so that a mistake shows before the first case.
        privacy_profile: The configured profile; operations may only narrow it.

    Raises:
        ConfigurationError: A template does not exist or is not sound.
    """

    def __init__(self, pipeline: Pipeline, privacy_profile: PrivacyProfile | None = None) -> None:
        self.pipeline = pipeline
        self._builder = PromptBuilder(privacy_profile)
        self._templates = {spec.id: _template(spec.template) for spec in pipeline.operations}

    def refused(self, spec: OperationSpec, kind: FailureKind) -> PreparedRequest:
        """Return a request without data that is to be rejected, with the request on record."""
        prepared = self.build(spec, [])
        return replace(prepared, rejection=kind)

    def build(
        self, spec: OperationSpec, texts: Sequence[NamedText], *, is_part: bool = False
    ) -> PreparedRequest:
        """Build the operation's request from texts already at hand.

        Args:
            spec: The operation.
            texts: Its data.
            is_part: Whether this is a part of a document that was judged as a whole.

        Raises:
            InvalidRequest: Task, schema or parameters cannot be sent.
        """
        data = join_texts([(part.name, part.text) for part in texts])
        coverage = _coverage(texts)
        request = self._builder.build(
            spec.task,
            data,
            spec.output_schema,
            template=self._templates[spec.id],
            parameters=spec.parameters,
            privacy_profile=spec.privacy_profile,
            schema_name=spec.schema_name,
            allow_empty=True,
        )
        request = replace(request, limits=spec.limits)
        rejection = None if is_part else _rejection(spec, data, coverage)
        return PreparedRequest(request, rejection, coverage)


def _template(source: TemplateSource) -> PromptTemplate:
    try:
        if source.content is None:
            return PromptTemplate.built_in(source.name)
        return PromptTemplate.parse(source.content, version=source.name, where=source.where)
    except InvalidRequest as error:
        where = source.where if source.content is None else error.where
        raise ConfigurationError(
            error.message, code=error.code, where=where, remedy=error.remedy
        ) from None


def read_text(store: CheckpointStore, case_id: str, part: TextPart) -> NamedText:
    """Read one text of a case.

    Raises:
        InvalidRequest: It is no UTF-8 text; code ``data_invalid``.
        CheckpointError: The package cannot be read.
    """
    content = store.read_file(case_id, part.path)
    try:
        return NamedText(part.name, content.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidRequest(
            "a selected file is no UTF-8 text",
            code="data_invalid",
            where=part.path,
            remedy="import it again, or select other data in the pipeline",
        ) from None


def _coverage(texts: Sequence[NamedText]) -> Coverage:
    """Add up the pages of a case; a file without any text takes nothing from the others."""
    measured = [measure(part.text) for part in texts]
    parts = [part for part in measured if part.characters or part.pages > 1]
    return Coverage(
        sum(part.characters for part in parts),
        sum(part.pages for part in parts),
        sum(part.pages_with_text for part in parts),
    )


def _rejection(spec: OperationSpec, data: str, coverage: Coverage) -> FailureKind | None:
    if coverage.is_empty(spec.pages_with_text_min):
        return FailureKind.EMPTY_INPUT
    if len(data.encode("utf-8")) > spec.input_bytes_max:
        return FailureKind.CONTEXT_TOO_LONG
    return None
