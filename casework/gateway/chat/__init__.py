"""OpenAI's chat protocol: requests as clients send them, answers and chunks as they expect them."""

from __future__ import annotations
