"""Operations that come with Casework, by name: template, task and schema in one word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Final

from casework.strict_json import JSONObject, parse


@dataclass(frozen=True, slots=True)
class BundledStep:
    """What an operation says that only says ``uses``; what it says itself goes before."""

    name: str
    """Name of the step, of its template and of its schema; a changed text gets a new name."""
    task: str
    schema_name: str

    def output_schema(self) -> JSONObject:
        """Return the schema of the answer."""
        files = resources.files("casework.runner").joinpath("schemas", f"{self.name}.json")
        schema = parse(files.read_bytes())
        assert isinstance(schema, dict), "a schema of ours is an object"
        return schema


STEPS: Final[Mapping[str, BundledStep]] = MappingProxyType(
    {
        step.name: step
        for step in (
            BundledStep(
                "case_interpretation_v1",
                "Say what the case is about, who is involved, what is stated and by whom, what "
                "follows from it, which statements conflict, and what stays open.",
                "case_interpretation",
            ),
        )
    }
)
