"""The double and ``casework serve`` as real processes, for clients that are processes too."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 30.0
END_SECONDS: Final = 30.0

SERVE: Final = (sys.executable, "-c", "from casework.runtime.cli import main; main()", "serve")
DOUBLE: Final = (sys.executable, "-m", "tests.support.fault_upstream")


@dataclass(frozen=True, slots=True)
class Double:
    """The upstream, as another process sees it."""

    base_url: str

    def state(self, **wanted: int) -> Any:
        """Return what was asked so far, once so many of each are counted."""
        query = "&".join(f"{name}={count}" for name, count in wanted.items())
        return self._fetch(f"state?{query}")

    def forget(self) -> None:
        """Begin to count anew."""
        self._fetch("forget", [])

    def _fetch(self, path: str, body: object = None) -> Any:
        url = f"{self.base_url.removesuffix('/v1')}/_double/{path}"
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(url, data, timeout=START_SECONDS) as reply:
            return json.load(reply)


@dataclass(frozen=True, slots=True)
class Served:
    """A service that is up."""

    url: str
    project: Path

    @property
    def base_url(self) -> str:
        """Return what a client is given as its base URL."""
        return f"{self.url}/v1"


def first_written(process: subprocess.Popen[str], *, until: str = "\n") -> str:
    """Return what a process writes first, up to a line that ends so.

    Raises:
        AssertionError: It wrote no such line.
    """
    assert process.stdout is not None
    written = ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not written.endswith(until):
            ready = selector.select(START_SECONDS)
            piece = os.read(process.stdout.fileno(), 4096).decode() if ready else ""
            if not piece:
                process.kill()
                raise AssertionError("the process did not start")
            written += piece
    return written


@contextmanager
def double(models: Sequence[str], *, pause_seconds: float = 0.001) -> Iterator[Double]:
    """Run an upstream that lists these models."""
    named = [word for model in models for word in ("--model", model)]
    with subprocess.Popen(
        [*DOUBLE, "--pause", str(pause_seconds), *named],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Double(first_written(process).strip())
        finally:
            process.terminate()
        assert 0 == process.wait(END_SECONDS)


@contextmanager
def serving(folder: Path, settings: str, environ: Mapping[str, str]) -> Iterator[Served]:
    """Run ``casework serve`` on a project with these settings; it must end well."""
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "llm.local.toml").write_text(settings, encoding="utf-8")
    with (
        (folder / "stderr.txt").open("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            [*SERVE, "--project", str(folder), "--port", "0", "--json"],
            cwd=ROOT,
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            told = json.loads(first_written(process, until="}\n"))
            yield Served(told["url"], folder)
        finally:
            process.terminate()
            code = process.wait(END_SECONDS)
        errors.seek(0)
        written = errors.read()
        assert (0, False) == (code, "Traceback" in written), written
