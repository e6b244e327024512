"""Durable case packages: every result committed, nothing overwritten, nothing trusted unseen."""

from __future__ import annotations
