"""What people are shown of a project, a package and a run."""

from __future__ import annotations
