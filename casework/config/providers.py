"""One entry of ``[[providers]]``: a target with its model, address and limits."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    Strict,
    StrictBool,
    StrictStr,
    StringConstraints,
    ValidationInfo,
    field_validator,
)

from casework.config.addresses import AddressError, checked_base_url, host_of, is_loopback
from casework.config.limits import ProviderLimits
from casework.config.privacy_profile import ProviderClass
from casework.config.settings_problems import FROZEN, settings_error

IN_PROCESS_ADAPTERS: Final = frozenset({"rules", "replay", "scripted", "llamacpp"})
"""Adapters that answer inside this very process and take no address."""

DEFAULT_MODELS: Final = {
    "rules": "no model",
    "replay": "recorded",
    "scripted": "scripted",
    "llamacpp": "SmolLM2-135M-Instruct",
}

MEBIBYTE: Final = 1024 * 1024
BODY_BYTES_MAX: Final = 64 * MEBIBYTE
KEYS_MAX: Final = 100
MODEL_CHARACTERS_MAX: Final = 256

ResponseFormat: TypeAlias = Literal["json_schema", "json_object", "none"]
TokenParameter: TypeAlias = Literal["max_completion_tokens", "max_tokens"]

RESERVED_VARIABLES: Final = frozenset({"PROXY_API_KEY", "ADMIN_API_KEY"})
"""Variables whose keys let clients in here; no provider is ever sent one."""

_KEY_PREFIX: Final = re.compile(
    r"(?:sk|pk|rk|gsk|xai|hf|ghp|gho|github_pat|glpat|xoxb|nvapi|pplx|r8|fw|AIza|AKIA|eyJ)"
    r"[-_]?[A-Za-z0-9_.-]{14,}"
)
_RUN_OF_KEY: Final = re.compile(r"[A-Za-z0-9]{24,}")
_RATE_MAX: Final = Decimal(1_000_000)


def looks_like_secret(text: str) -> bool:
    """Tell whether a text begins like the API keys of the known houses and is as long."""
    return bool(_KEY_PREFIX.fullmatch(text)) and any(c.isdigit() for c in text)


def _names_variable(text: str) -> bool:
    if looks_like_secret(text) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", text):
        return False
    mixed = any(c.isdigit() for c in text) and any(c.islower() for c in text)
    return not (mixed and _RUN_OF_KEY.fullmatch(text))


def _printable(text: str) -> str:
    if not text.isprintable():
        raise settings_error(
            "holds a control character",
            "if this is a Windows path, write it in single quotes, like 'C:\\Users\\me'",
        )
    return text


def _exact(value: object) -> object:
    """Read a binary float as the decimal that its shortest form shows."""
    if isinstance(value, float):
        return Decimal(repr(value))
    return value


Seconds: TypeAlias = Annotated[float, Strict(), Field(gt=0, le=86_400, allow_inf_nan=False)]
Bytes: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=BODY_BYTES_MAX)]
Rate: TypeAlias = Annotated[
    Decimal, BeforeValidator(_exact), Field(ge=0, le=_RATE_MAX, decimal_places=12)
]
Currency: TypeAlias = Annotated[StrictStr, StringConstraints(pattern=r"^[A-Z]{3}$")]


def nearest_class(data: dict[str, Any]) -> ProviderClass:
    """Return the nearest class that adapter and address permit."""
    return ProviderClass.LOCAL if _loopback_or_in_process(data) else ProviderClass.CLOUD


def default_model(data: dict[str, Any]) -> str:
    """Return the model's name where the adapter alone tells it."""
    return DEFAULT_MODELS.get(data.get("adapter", ""), "")


def _loopback_or_in_process(data: dict[str, Any]) -> bool:
    base_url = data.get("base_url")
    if base_url is None:
        return data.get("adapter") in IN_PROCESS_ADAPTERS
    return is_loopback(host_of(base_url))


class Rates(BaseModel):
    """What a provider charges, per million tokens."""

    model_config = FROZEN

    input_per_million: Rate
    """Price of one million prompt tokens."""
    output_per_million: Rate
    """Price of one million completion tokens."""
    currency: Currency | None = None
    """Three capital letters; None takes the one of ``[cost]``."""


class ProviderConfig(BaseModel):
    """One target as configured. Printing it shows no address."""

    model_config = FROZEN

    id: Annotated[StrictStr, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """The name under which outcomes, logs and screens speak of this target."""
    adapter: Annotated[StrictStr, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """Which adapter makes the call; whether it exists is judged when the gateway is made."""
    base_url: Annotated[StrictStr | None, Field(repr=False)] = None
    """Address of the server, without a trailing slash; None for in-process adapters."""
    allow_insecure_http: StrictBool = False
    """Permit plain HTTP to an address beyond loopback."""
    provider_class: ProviderClass = Field(alias="class", default_factory=nearest_class)
    """How far the document travels; derived from the address, a mark may only tighten it."""
    model: StrictStr = Field(default_factory=default_model)
    """The model's name as the server knows it."""
    api_key_env: tuple[StrictStr, ...] = ()
    """Names of the environment variables that hold the keys; a single name is taken too."""
    enabled: StrictBool = True
    """False skips the entry."""
    timeout_seconds: Seconds = 30.0
    """Longest time for one call, from name look-up to last byte."""
    response_format: ResponseFormat = "json_schema"
    """What the server is asked to enforce; the answer is validated here all the same."""
    token_parameter: TokenParameter = "max_completion_tokens"  # noqa: S105 - a field's name
    """Under which name the token limit is sent."""
    rates: Rates | None = None
    """Prices, where they are known; without them costs are unknown, never zero."""
    limits: ProviderLimits | None = None
    """How often it may be called; None is as often as there is work."""
    request_bytes_max: Annotated[Bytes, Field(alias="max_request_bytes")] = MEBIBYTE
    """Largest request body that is sent."""
    response_bytes_max: Annotated[Bytes, Field(alias="max_response_bytes")] = MEBIBYTE
    """Largest response body that is read, before and after decompression."""
    file: Annotated[Path | None, Field(repr=False)] = None
    """Rules, recordings, script or weights of an in-process adapter."""
    ca_file: Annotated[Path | None, Field(repr=False)] = None
    """Certificates (PEM) to trust beside the system's own, for a private authority."""

    @field_validator("base_url")
    @classmethod
    def _address(cls, base_url: str | None, info: ValidationInfo) -> str | None:
        adapter = info.data.get("adapter")
        if base_url is None:
            if adapter == "openai_compatible":
                raise settings_error("is missing", "add base_url, like http://127.0.0.1:8080/v1")
            return None
        if adapter in IN_PROCESS_ADAPTERS:
            raise settings_error(
                "is not used by this adapter, which answers in this process", "remove it"
            )
        try:
            base_url = checked_base_url(base_url)
        except AddressError as error:
            raise settings_error(error.problem, error.remedy) from None
        if any(looks_like_secret(part) for part in base_url.split("/")[3:]):
            raise settings_error(
                "holds what looks like a key", "name the key's variable in api_key_env"
            )
        if adapter == "openai_compatible" and not base_url.endswith("/v1"):
            raise settings_error(
                "does not end in /v1", "end it in /v1; /chat/completions is appended to it"
            )
        return base_url

    @field_validator("allow_insecure_http")
    @classmethod
    def _plain_http(cls, allowed: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic calls it
        base_url = info.data.get("base_url")
        if base_url is None or base_url.startswith("https:") or is_loopback(host_of(base_url)):
            return allowed
        if not allowed:
            raise settings_error(
                "is needed for plain HTTP beyond loopback, which anybody on the way can read",
                "use https, or set allow_insecure_http = true",
            )
        return allowed

    @field_validator("provider_class")
    @classmethod
    def _only_tighter(cls, marked: ProviderClass, info: ValidationInfo) -> ProviderClass:
        if marked is not ProviderClass.LOCAL or _loopback_or_in_process(info.data):
            return marked
        raise settings_error(
            'says "local", but the address is not a loopback literal',
            'use localhost, 127.0.0.1 or [::1], or mark it "self_hosted" or "cloud"',
        )

    @field_validator("model")
    @classmethod
    def _model(cls, model: str) -> str:
        if not model:
            raise settings_error("is missing", "name the model as the server knows it")
        if len(model) > MODEL_CHARACTERS_MAX:
            raise settings_error(f"is longer than {MODEL_CHARACTERS_MAX} characters", "shorten it")
        return _printable(model)

    @field_validator("api_key_env", mode="before")
    @classmethod
    def _names(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names

    @field_validator("api_key_env")
    @classmethod
    def _variables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _names_variable(name):
                raise settings_error(
                    "holds something that is no name of an environment variable",
                    "put the key into a variable such as MY_API_KEY and write that name here",
                )
            if name.upper() in RESERVED_VARIABLES:  # on Windows, capitals make no difference
                raise settings_error(
                    "names a variable whose key lets clients in here, and would send it away",
                    "put the provider's own key into another variable and name that",
                )
        if len(set(names)) != len(names) or len(names) > KEYS_MAX:
            raise settings_error(
                f"names a variable twice or more than {KEYS_MAX} of them", "name each one once"
            )
        return names

    @field_validator("file", "ca_file", mode="before")
    @classmethod
    def _path(cls, path: Any) -> Any:
        if isinstance(path, str):
            if not path:
                raise settings_error("is empty", "name a file or remove the line")
            return Path(_printable(path)).expanduser()
        return path
