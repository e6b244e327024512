"""One operation's lifecycle, pipelines, and the documents and exports at their two ends."""

from __future__ import annotations
