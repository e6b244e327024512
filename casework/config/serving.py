"""``[serve]``, ``[interactive]``, ``[breaker]``, ``[embeddings]`` and ``[models]``.

None of it changes the answer of an operation, so none of it belongs to the configuration that an
operation is frozen to.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import (
    BaseModel,
    Field,
    Strict,
    StrictBool,
    StrictStr,
    StringConstraints,
    field_validator,
)

from casework.config.settings_problems import FROZEN, settings_error

MEBIBYTE: Final = 1024 * 1024
ALIASES_MAX: Final = 1000

_Seconds: TypeAlias = Annotated[float, Strict(), Field(gt=0, le=86_400, allow_inf_nan=False)]
_Count: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]


class ServeConfig(BaseModel):
    """How ``casework serve`` meets its clients."""

    model_config = FROZEN

    host: StrictStr = "127.0.0.1"
    """Address to listen on; beyond loopback only with client keys."""
    port: Annotated[int, Strict(), Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one."""
    request_bytes_max: Annotated[
        int, Strict(), Field(alias="max_request_bytes", ge=1024, le=64 * MEBIBYTE)
    ] = MEBIBYTE
    """Longest body that is read from a client."""
    connections_max: Annotated[_Count, Field(alias="max_connections")] = 2000
    """Most requests at once; one more is told to come back."""
    disclose: StrictBool = True
    """Say in headers of a reply who answered, after how many attempts and in what time."""
    shutdown_seconds: _Seconds = 10.0
    """How long open requests may go on after the order to end."""
    request_log: StrictBool = True
    """Write a line without texts for each request to runtime/logs/requests.jsonl."""


class InteractiveConfig(BaseModel):
    """How a round is walked while a client waits."""

    model_config = FROZEN

    deadline_seconds: _Seconds = 30.0
    """Longest time to a whole answer, or to the first chunk of a stream."""
    retries_max: Annotated[int, Strict(), Field(alias="max_retries", ge=0, le=10)] = 2
    """Further calls with the same key while the server is at fault."""
    keys_max: Annotated[int, Strict(), Field(alias="max_keys", ge=1, le=100)] = 3
    """Keys of one provider that are tried for one request."""
    idle_seconds: _Seconds = 60.0
    """Longest silence of a server between two chunks of a stream."""
    keepalive_seconds: _Seconds = 4.0
    """Silence between two chunks after which the client is sent a comment."""
    first_keepalive_seconds: _Seconds = 15.0
    """Silence before the first chunk after which the reply is begun with a comment; a failure
    can then only be told inside the stream."""


class BreakerConfig(BaseModel):
    """When a provider is left alone."""

    model_config = FROZEN

    failures: Annotated[int, Strict(), Field(ge=1, le=1000)] = 5
    """Failures of the server in a row that open its breaker."""
    open_seconds: _Seconds = 60.0
    """How long nobody is let through, before one probe."""


class EmbeddingsConfig(BaseModel):
    """How texts to be embedded are gathered into one call."""

    model_config = FROZEN

    items_max: Annotated[int, Strict(), Field(alias="max_items", ge=1, le=2048)] = 64
    """Most texts that are gathered into one call; a longer request is sent alone."""
    window_seconds: Annotated[float, Strict(), Field(ge=0, le=10, allow_inf_nan=False)] = 0.1
    """How long the first text waits for others; 0 sends at once."""


ModelName: TypeAlias = Annotated[
    StrictStr, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")
]


class ModelsConfig(BaseModel):
    """Which names clients may ask for."""

    model_config = FROZEN

    aliases: Annotated[dict[ModelName, tuple[ModelName, ...]], Field(max_length=ALIASES_MAX)] = {}
    """A public name, and whom it stands for, in order: ``provider`` or ``provider/model``."""
    discover: StrictBool = True
    """Ask providers which models they have, at the start of ``casework serve``."""

    @field_validator("aliases", mode="before")
    @classmethod
    def _one_or_many(cls, aliases: object) -> object:
        if not isinstance(aliases, dict):
            return aliases
        return {name: (one,) if isinstance(one, str) else one for name, one in aliases.items()}

    @field_validator("aliases")
    @classmethod
    def _somebody(cls, aliases: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for name, targets in aliases.items():
            if not targets:
                raise settings_error("stands for nobody", "name a provider", below=(name,))
            if name == "auto":
                raise settings_error(
                    'gives the name "auto", which stands for all providers', "choose another name"
                )
        return aliases
