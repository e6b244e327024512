"""An adapter that answers from recordings, for continuous integration and documents.

Recordings are a JSONL file, or a folder of ``<request hash>.json`` files, of objects like::

    {"request_hash": "9f86d0...", "text": "{...}", "finish": "stop", "usage": {"prompt_tokens": 7}}

``finish`` and ``usage`` may be left out. A request that was not recorded fails as ``replay_miss``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, Self

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, Finish, ProviderCall, ProviderReply, Usage
from casework.gateway.providers.adapter_file import adapter_path, read_adapter_file
from casework.gateway.request_hash import request_hash
from casework.strict_json import JSON, InvalidJSON, JSONObject, canonical, is_sha256_hex, parse

RECORDINGS_BYTES_MAX: Final = 64 * 1024 * 1024
RECORDING_BYTES_MAX: Final = 64 * 1024 * 1024

_MEMBERS: Final = frozenset({"request_hash", "text", "finish", "usage"})


class _Recordings(Protocol):
    def find(self, name: str) -> ProviderReply | None:
        """Return what was recorded under a request hash."""


class ReplayProvider:
    """Answers what was recorded, by request hash; the model's name plays no part."""

    def __init__(self, recordings: Mapping[str, ProviderReply] | Path) -> None:
        self._recordings: _Recordings = (
            _Folder(recordings) if isinstance(recordings, Path) else _Held(recordings)
        )

    @classmethod
    def from_config(cls, config: ProviderConfig) -> Self:
        """Read the recordings that a provider's entry names.

        Raises:
            ConfigurationError: They are missing or not what this module describes.
        """
        path = adapter_path(config)
        if path.is_dir():
            return cls(path)
        path, content = read_adapter_file(config, bytes_max=RECORDINGS_BYTES_MAX)
        return cls(_read_lines(content, path.name))

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Return the recorded reply.

        Raises:
            ProviderFailure: Nothing was recorded for this request (``replay_miss``), or the file
                that stands for it is damaged (``malformed_response``).
        """
        del credential
        if deadline.passed:
            raise ProviderFailure(FailureKind.TIMEOUT, sent=False)
        reply = self._recordings.find(request_hash(call))
        if reply is None:
            raise ProviderFailure(FailureKind.REPLAY_MISS)
        return reply

    async def aclose(self) -> None:
        """Let go of nothing; there is nothing to hold."""


def recording(call: ProviderCall, reply: ProviderReply) -> bytes:
    """Write what :class:`ReplayProvider` reads: one line, with its line end.

    Append it to a JSONL file, or store it as the file :func:`recording_name` of a folder.
    """
    content: JSONObject = {
        "request_hash": request_hash(call),
        "text": reply.text,
        "finish": reply.finish.value,
    }
    if reply.usage is not None:
        content["usage"] = reply.usage.to_json()
    return canonical(content) + b"\n"


def recording_name(call: ProviderCall) -> str:
    """Return the name under which a call's recording stands in a folder."""
    return f"{request_hash(call)}.json"


class _Held:
    def __init__(self, replies: Mapping[str, ProviderReply]) -> None:
        self._replies = dict(replies)

    def find(self, name: str) -> ProviderReply | None:
        return self._replies.get(name)


class _Folder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str) -> ProviderReply | None:
        path = self._folder / f"{name}.json"
        try:
            with path.open("rb") as stream:
                content = stream.read(RECORDING_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        try:
            recorded, reply = _read_one(content, path.name)
        except ConfigurationError:
            recorded = ""
        if recorded != name:
            raise ProviderFailure(FailureKind.MALFORMED_RESPONSE)
        return reply


def _read_lines(content: bytes, name: str) -> dict[str, ProviderReply]:
    """Read JSONL; lines end at line feeds alone, whatever else a text may hold."""
    replies: dict[str, ProviderReply] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            recorded, reply = _read_one(line, f"{name}:{number}")
            if replies.setdefault(recorded, reply) != reply:
                raise _damaged(f"{name}:{number}", "answers a request that an earlier line answers")
    return replies


def _read_one(content: bytes, where: str) -> tuple[str, ProviderReply]:
    try:
        value = parse(content)
    except InvalidJSON as error:
        problem = f"is {error}"
    else:
        found = _reply(value)
        if found is not None:
            return found
        problem = "is no recording"
    raise _damaged(where, problem)


def _reply(value: JSON) -> tuple[str, ProviderReply] | None:
    if not isinstance(value, dict) or not value.keys() <= _MEMBERS:
        return None
    name, text = value.get("request_hash"), value.get("text")
    finish, usage = value.get("finish", "stop"), value.get("usage")
    if not is_sha256_hex(name) or not isinstance(text, str):
        return None
    if finish not in {known.value for known in Finish}:
        return None
    counts = _usage(usage)
    if usage is not None and counts is None:
        return None
    return name, ProviderReply(text=text, finish=Finish(str(finish)), usage=counts)


def _usage(value: JSON) -> Usage | None:
    if not isinstance(value, dict) or not value.keys() <= Usage().to_json().keys():
        return None
    counts: dict[str, int | None] = {}
    for name, count in value.items():
        if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
            return None
        counts[name] = count
    return Usage(**counts)


def _damaged(where: str, problem: str) -> ConfigurationError:
    return ConfigurationError(problem, where=where, remedy="record it anew")


__all__ = ["ReplayProvider", "recording", "recording_name"]
