"""The top floor: processes, people and wiring; nothing below imports it."""

from __future__ import annotations
