"""Texts turned into vectors: what a client asks, what a server answers, and several in one call."""

from __future__ import annotations
