"""Reading people's files into cases."""

from __future__ import annotations
