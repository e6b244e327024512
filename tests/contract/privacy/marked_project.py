"""A project in which every secret and every text is a mark, and commands typed in it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.contract.privacy.faulty_upstream import BODY_BYTES_MAX, REQUEST_BYTES_MAX, document
from tests.contract.privacy.guarded import Ended, guarded
from tests.contract.privacy.marks import Mark, files_in, leaks

INPUTS: Final = ("config", "cases", "pipeline.toml", "data")
"""What the test itself writes into the project."""

KEY_LOG: Final = "tls-keys.log"
"""Where the environment asks for the keys of every TLS connection to be written."""

SECRETS: Final = {
    "FAULTY_KEY": f"sk-{Mark.KEY}",
    "OPENAI_API_KEY": f"sk-{Mark.NEIGHBOUR}",
    "AWS_SECRET_ACCESS_KEY": Mark.NEIGHBOUR,
    **dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"),
        f"http://somebody:{Mark.NEIGHBOUR}@203.0.113.99:3128",
    ),
    "SSLKEYLOGFILE": KEY_LOG,
    "OPENAI_BASE_URL": f"https://203.0.113.98/{Mark.NEIGHBOUR}/v1",
}

SCHEMA: Final = (
    '{ type = "object", required = ["answer"], additionalProperties = false, '
    'properties = { answer = { type = "string" } } }'
)


def entry(name: str, origin: str, *more: str) -> str:
    """Return a provider's entry whose address and key are marks."""
    return "\n".join(
        (
            "[[providers]]",
            f'id = "{name}"',
            'adapter = "openai_compatible"',
            f'base_url = "{origin}/{Mark.ADDRESS}/v1"',
            'api_key_env = "FAULTY_KEY"',
            f'model = "model-of-{name}"',
            f"max_request_bytes = {REQUEST_BYTES_MAX}",
            f"max_response_bytes = {BODY_BYTES_MAX}",
            *more,
            "",
        )
    )


@dataclass(slots=True)
class MarkedProject:
    """A folder with settings, a pipeline and cases, and what was said about it."""

    folder: Path
    said: dict[str, Ended] = field(default_factory=dict)
    """How each line that was typed ended."""

    def __post_init__(self) -> None:
        """Make the folder."""
        self.folder.mkdir(parents=True)

    def configure(self, settings: str) -> None:
        """Write the settings."""
        (self.folder / "config").mkdir(exist_ok=True)
        (self.folder / "config" / "llm.local.toml").write_text(settings, encoding="utf-8")

    def ask(self, task: str = Mark.TASK) -> None:
        """Write a pipeline of one operation."""
        (self.folder / "pipeline.toml").write_text(
            f'name = "marked"\n[[operations]]\nid = "ask"\ntask = "{task}"\n'
            f"output_schema = {SCHEMA}\n",
            encoding="utf-8",
        )

    def add(self, *faults: str, **texts: str) -> None:
        """Write documents that wish for faults, and others by name."""
        (self.folder / "cases").mkdir(exist_ok=True)
        for name, text in ({fault: document(fault) for fault in faults} | texts).items():
            (self.folder / "cases" / f"{name}.txt").write_text(text, encoding="utf-8")

    async def type(
        self, line: str, *, environ: Mapping[str, str] = SECRETS, told_as: str | None = None
    ) -> Ended:
        """Type a line in the project's folder and keep what it said."""
        ended = await guarded(self.folder, "casework", *shlex.split(line), environ=environ)
        self.said[told_as or line] = ended
        return ended

    def files(self) -> dict[str, bytes]:
        """Return everything that Casework wrote into the project."""
        return files_in(self.folder, without=INPUTS)


def streams(ended: Ended) -> dict[str, bytes]:
    """Return what a command said on each stream."""
    return {"stdout": ended.stdout, "stderr": ended.stderr}


def leaked(ended: Ended, allowed: Sequence[Mark] = ()) -> list[str]:
    """Return the marks that a command said and should not have."""
    return leaks(streams(ended), frozenset(allowed))


def every_mark(ended: Ended) -> Iterator[Mark]:
    """Yield the marks that a command said at all."""
    everything = (ended.stdout + ended.stderr).lower()
    yield from (mark for mark in Mark if mark.encode() in everything)
