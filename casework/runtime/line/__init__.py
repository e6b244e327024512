"""The line: what may be begun now, and what holds it back."""

from __future__ import annotations
