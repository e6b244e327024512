"""Start guarded processes from a test, in surroundings that would lead them astray."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer.main

from casework.runtime.cli.command_line import app
from tests.contract.privacy.socket_guard import Sighting, read_sightings

ROOT: Final = Path(__file__).resolve().parents[3]

PROXY: Final = "http://203.0.113.99:3128"
"""Where the environment says that everything is to go."""

ASTRAY: Final = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "WS_PROXY"), PROXY),
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), PROXY),
    "OPENAI_BASE_URL": "https://203.0.113.98/v1",
    "OPENAI_API_BASE": "https://203.0.113.98/v1",
    "OLLAMA_HOST": "203.0.113.97:11434",
    "FASTAPI_OTEL_AUTO_CONFIGURE": "true",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://203.0.113.96:4318",
    "FORWARDED_ALLOW_IPS": "*",
}

SECONDS_MAX: Final = 180.0
"""When a child counts as hanging; a busy machine may take its time."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a guarded process ended, and what its guard saw."""

    arguments: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: bytes
    sightings: tuple[Sighting, ...]


async def guarded(
    folder: Path, work: str, *arguments: str, environ: Mapping[str, str] | None = None
) -> Ended:
    """Run one piece of work in a folder, under guard, to its end.

    Args:
        folder: The working directory; the guard's book is kept beside it.
        work: A name in ``guarded_work.WORKS``.
        *arguments: For the work.
        environ: Further variables.
    """
    process, book = await start_guarded(folder, work, *arguments, environ=environ)
    async with asyncio.timeout(SECONDS_MAX):
        stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Ended(arguments, process.returncode, stdout, stderr, read_sightings(book))


async def start_guarded(
    folder: Path, work: str, *arguments: str, environ: Mapping[str, str] | None = None
) -> tuple[asyncio.subprocess.Process, Path]:
    """Start one piece of work under guard; return the process and the guard's book."""
    book = folder.parent / f"sightings-{next(_numbers):04}.jsonl"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.contract.privacy.socket_guard",
        str(book),
        work,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**_surroundings(folder), **(environ or {})},
    )
    return process, book


def _surroundings(folder: Path) -> dict[str, str]:
    return {
        **ASTRAY,
        "PATH": os.defpath,
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "LC_ALL": "C.UTF-8",
    }


def every_verb() -> list[str]:
    """Return the path of every verb that the command line has, hidden ones too."""
    return sorted(_verbs(typer.main.get_command(app), ""))


def _verbs(command: object, trail: str) -> Iterator[str]:
    for name, child in getattr(command, "commands", {}).items():
        path = f"{trail} {name}".strip()
        if hasattr(child, "commands"):
            yield from _verbs(child, path)
        else:
            yield path
