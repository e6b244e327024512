"""Running a pipeline: what is due, how much at once, and what came of it."""

from __future__ import annotations
