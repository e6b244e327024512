"""Everything that talks to a model; knows nothing of cases."""

from __future__ import annotations
