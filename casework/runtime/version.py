"""Which Casework this is."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def version_line() -> str:
    """Return version, commit where it runs from a checkout, and interpreter, on one line."""
    try:
        release = version("casework")
    except PackageNotFoundError:
        release = "unknown"
    commit = _commit(Path(__file__).resolve().parents[2])
    source = f", commit {commit[:12]}" if commit else ""
    return f"casework {release} (Python {platform.python_version()}{source})"


def _commit(checkout: Path) -> str | None:
    """Return the commit that a source checkout stands on, read from its files alone."""
    if not (checkout / "pyproject.toml").is_file():
        return None
    try:
        head = (checkout / ".git" / "HEAD").read_text(encoding="ascii").strip()
        if not head.startswith("ref: "):
            return head
        reference = head.removeprefix("ref: ")
        loose = checkout / ".git" / reference
        if loose.is_file():
            return loose.read_text(encoding="ascii").strip()
        packed = (checkout / ".git" / "packed-refs").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    for line in packed.splitlines():
        digits, _, name = line.partition(" ")
        if name == reference:
            return digits
    return None
