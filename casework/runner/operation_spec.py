"""One operation of a pipeline, complete and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from casework.config.privacy_profile import PrivacyProfile
from casework.gateway.messages import RequestLimits
from casework.runner.conditions import Condition
from casework.runner.data_selection import DataSelector
from casework.strict_json import JSON, JSONObject


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
class Chunking:
    """How a document that is too long for one request is split, and what joins the answers."""

    bytes_max: int
    """Most bytes of a part, in UTF-8; longer data is split."""
    overlap_bytes: int
    """Most bytes that a part repeats from the end of the one before."""
    merge_task: str
    """The task of the operation itself, over the answers of its parts."""


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
    needs: tuple[str, ...] = ()
    """Operations of the same case that must have an answer first."""
    when: tuple[Condition, ...] = ()
    """What must hold of their answers; otherwise nobody is asked."""
    limits: RequestLimits = field(default_factory=RequestLimits)
    chunking: Chunking | None = None
