"""The process that serves clients: its socket, its log, its keys."""

from __future__ import annotations
