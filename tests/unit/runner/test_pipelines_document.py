from __future__ import annotations

from pathlib import Path

from casework.prompts import BUILT_IN, Slot
from casework.runner.documents import ProblemCode
from casework.runner.pipeline_settings import (
    INPUT_BYTES_MAX,
    OperationSettings,
    ParameterSettings,
    PipelineSettings,
)

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "pipelines.md").read_text(encoding="utf-8")


def test_every_key_of_a_pipeline_is_documented() -> None:
    """A key that the page does not name does not exist for its readers."""
    keys = [
        info.alias or name
        for model in (OperationSettings, ParameterSettings)
        for name, info in model.model_fields.items()
    ]
    assert [] == [key for key in keys if f"`{key}`" not in PAGE]
    assert ["name", "operations"] == list(PipelineSettings.model_fields)
    assert f"| {INPUT_BYTES_MAX} |" in PAGE


def test_every_remark_of_an_import_is_documented() -> None:
    """Codes are looked up by people who met one."""
    assert [] == [code.value for code in ProblemCode if f"`{code.value}`" not in PAGE]


def test_every_template_and_slot_is_documented() -> None:
    """Somebody who writes a template needs the names."""
    names = [*BUILT_IN, *(f"{{{{{slot}}}}}" for slot in Slot)]
    assert [] == [name for name in names if f"`{name}`" not in PAGE]
