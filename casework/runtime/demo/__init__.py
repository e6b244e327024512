"""The demonstration: a licence review of the Python environment that it runs in."""

from __future__ import annotations

from casework.runtime.demo.demo_project import DemoProject, prepare
from casework.runtime.demo.licence_cases import LicenceCase, collect_cases
from casework.runtime.demo.scoring import Score, ScoredCase, Verdict, score

__all__ = [
    "DemoProject",
    "LicenceCase",
    "Score",
    "ScoredCase",
    "Verdict",
    "collect_cases",
    "prepare",
    "score",
]
