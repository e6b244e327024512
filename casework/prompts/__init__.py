"""Prompts from versioned templates, with the data marked as untrusted."""

from __future__ import annotations

from casework.prompts.prompt_builder import BuildOptions, Data, PromptBuilder
from casework.prompts.template import BUILT_IN, PromptTemplate, Section, Slot

__all__ = [
    "BUILT_IN",
    "BuildOptions",
    "Data",
    "PromptBuilder",
    "PromptTemplate",
    "Section",
    "Slot",
]
