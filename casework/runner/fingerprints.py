"""What makes two requests, or two configurations, the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from casework.checkpoints.records import REQUEST_SCHEMA, operation_hash
from casework.config.privacy_profile import PrivacyProfile
from casework.gateway.messages import LLMRequest
from casework.strict_json import JSON, JSONObject, canonical, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationIdentity:
    """Which operation of which package a request belongs to."""

    case_id: str
    package_id: str
    operation_id: str
    analysis_revision: int
    phase: str

    @property
    def ophash(self) -> str:
        """Return the name of the operation's folder."""
        return operation_hash(self.analysis_revision, self.operation_id)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The exact, credential-free request as it is stored, with the two digests that guard it."""

    body: JSONObject
    request_fingerprint: str
    config_fingerprint: str

    def to_bytes(self) -> bytes:
        """Return the bytes of ``request.json``."""
        return canonical(self.body)


def record_request(
    request: LLMRequest,
    identity: OperationIdentity,
    *,
    profile: PrivacyProfile,
    configuration: JSONObject,
) -> RequestRecord:
    """Describe a request exactly and take its fingerprints.

    The request fingerprint covers everything that is sent and to which operation it belongs; the
    configuration fingerprint covers the eligible providers, their order and the round budget, but
    no key, so that rotating a key changes nothing.
    """
    messages: list[JSON] = [message.to_json() for message in request.messages]
    body: JSONObject = {
        "schema": REQUEST_SCHEMA,
        "operation_id": identity.operation_id,
        "analysis_revision": identity.analysis_revision,
        "case_id": identity.case_id,
        "package_id": identity.package_id,
        "prompt_version": request.prompt_version,
        "prompt_sha256": request.prompt_sha256,
        "messages": messages,
        "output_schema": request.output_schema,
        "schema_name": request.schema_name,
        "data": request.data.to_json() if request.data else None,
        "privacy_profile": profile.value,
        "parameters": dict(request.parameters),
        "phase": identity.phase,
    }
    request_fingerprint, config_fingerprint = digest(body), digest(configuration)
    body["request_fingerprint"] = request_fingerprint
    body["config_fingerprint"] = config_fingerprint
    body["configuration"] = configuration
    return RequestRecord(body, request_fingerprint, config_fingerprint)


def differing_parts(stored: JSONObject, new: JSONObject) -> tuple[str, ...]:
    """Name the parts in which two request records differ, never their contents."""
    names = sorted({*stored, *new} - {"request_fingerprint", "config_fingerprint", "configuration"})
    parts = [name for name in names if stored.get(name) != new.get(name)]
    if "messages" in parts:
        # Where the document stands moves with any other text, and its words are in the messages.
        frames = _frame(stored), _frame(new)
        same_frame = None not in frames and frames[0] == frames[1]
        parts = sorted({*parts, "data"} - {"messages"} if same_frame else {*parts} - {"data"})
    return (*parts, *_differing_settings(stored.get("configuration"), new.get("configuration")))


def _frame(body: JSONObject) -> list[JSON] | None:
    """Return the messages without the document and its marks; None where none is marked."""
    messages, data = body.get("messages"), body.get("data")
    if not isinstance(messages, list) or not isinstance(data, dict):
        return None
    at, start, end = (data.get(name) for name in ("message", "start", "end"))
    if not (isinstance(at, int) and isinstance(start, int) and isinstance(end, int)):
        return None
    message = messages[at] if 0 <= at < len(messages) else None
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        return None
    content = str(message["content"])
    around: list[JSON] = [
        _BEGIN_MARK.sub("", content[:start]),
        _END_MARK.sub("", content[end:]),
        message.get("role"),
    ]
    return [*messages[:at], around, *messages[at + 1 :]]


_BEGIN_MARK: Final = re.compile(r"[0-9a-f]{32}\n\Z")
_END_MARK: Final = re.compile(r"(?<=\A\nEND DATA )[0-9a-f]{32}")


def _differing_settings(stored: JSON, new: JSON) -> tuple[str, ...]:
    if not isinstance(stored, dict) or not isinstance(new, dict):
        return () if stored == new else ("configuration",)
    parts: list[str] = []
    for name in sorted({*stored, *new}):
        if stored.get(name) == new.get(name):
            continue
        if name == "providers":
            parts.extend(_differing_providers(stored.get(name), new.get(name)))
        else:
            parts.append(f"configuration.{name}")
    return tuple(parts)


def _differing_providers(stored: JSON, new: JSON) -> tuple[str, ...]:
    before, after = _by_id(stored), _by_id(new)
    if list(before) != list(after):
        return ("configuration.providers",)
    return tuple(
        f"configuration.providers[{provider}].{_SETTINGS.get(name, name)}"
        for provider in before
        for name in sorted({*before[provider], *after[provider]})
        if before[provider].get(name) != after[provider].get(name)
    )


_SETTINGS: Final = {"url_sha256": "base_url", "file_sha256": "file"}
"""What a person calls a setting that enters only as a digest."""


def _by_id(providers: JSON) -> dict[str, JSONObject]:
    entries = providers if isinstance(providers, list) else []
    return {str(entry.get("id")): entry for entry in entries if isinstance(entry, dict)}
