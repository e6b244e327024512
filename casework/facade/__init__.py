"""The OpenAI-compatible surface: interactive clients get the same rounds."""

from __future__ import annotations
