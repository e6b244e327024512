"""The file of client keys: who may ask, how far and how often; the keys themselves not in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)

from casework.config.privacy_profile import PrivacyProfile
from casework.config.serving import ModelName
from casework.errors import FormatError, StorageError

FILE_NAME: Final = "client_keys.json"
"""Below the runtime folder."""

PROXY_KEY_LABEL: Final = "PROXY_API_KEY"
ANONYMOUS_LABEL: Final = "anonymous"

KEYS_MAX: Final = 5000
"""Most keys in one file, revoked ones too."""
PATTERNS_MAX: Final = 100
MINUTE_MAX: Final = 100_000
DAY_MAX: Final = 1_000_000_000
CONCURRENCY_MAX: Final = 100_000

_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@ -]{0,38}[A-Za-z0-9])?")
_LIKE_A_KEY: Final = re.compile(r"\A(?:cw|sk)-|[A-Za-z0-9]{24}")
"""Keys of ours and of many services begin so, or hold a long run without a gap."""
_RESERVED: Final = frozenset({PROXY_KEY_LABEL.casefold(), ANONYMOUS_LABEL})


def is_label(text: str) -> bool:
    """Tell whether a key may be called so: short, printable, and no key typed by mistake.

    Labels stand in logs and on screens, where no key may stand.
    """
    return (
        _LABEL.fullmatch(text) is not None
        and _LIKE_A_KEY.search(text) is None
        and text.casefold() not in _RESERVED
    )


def _label(text: str) -> str:
    if not is_label(text):
        raise ValueError("no label")
    return text


ModelPatterns: TypeAlias = Annotated[
    tuple[ModelName, ...], Field(min_length=1, max_length=PATTERNS_MAX)
]

_KEPT: Final = ConfigDict(
    frozen=True, extra="forbid", hide_input_in_errors=True, validate_by_name=True
)


class KeyEntry(BaseModel):
    """One key as it is kept: everything but the key.

    A key holds 256 random bits, so nobody can try likely ones against its plain SHA-256. A slow
    hash, which passwords need, would cost every request time and make nothing safer.
    """

    model_config = _KEPT

    label: Annotated[str, AfterValidator(_label)]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    created_at: AwareDatetime
    revoked_at: AwareDatetime | None = None
    privacy_profile: PrivacyProfile | None = None
    """Narrows what is configured; None narrows nothing."""
    models: ModelPatterns | None = None
    """Patterns of the names that may be asked for; None allows all."""
    requests_per_minute: Annotated[int, Field(ge=1, le=MINUTE_MAX)] | None = None
    requests_per_day: Annotated[int, Field(ge=1, le=DAY_MAX)] | None = None
    concurrency_max: Annotated[
        int | None, Field(alias="max_concurrency", ge=1, le=CONCURRENCY_MAX)
    ] = None


class KeyFile(BaseModel):
    """All keys that were ever created; none is taken out, so that no label means two of them."""

    model_config = _KEPT

    form: Annotated[Literal["client-keys/1"], Field(alias="schema")] = "client-keys/1"
    keys: Annotated[tuple[KeyEntry, ...], Field(max_length=KEYS_MAX)]

    @field_validator("keys")
    @classmethod
    def _distinct(cls, keys: tuple[KeyEntry, ...]) -> tuple[KeyEntry, ...]:
        if len({entry.label.casefold() for entry in keys}) != len(keys):
            raise ValueError("a label stands twice")
        return keys

    def named(self, label: str) -> KeyEntry | None:
        """Return the key of a label; capitals make no difference."""
        wanted = label.casefold()
        return next((entry for entry in self.keys if entry.label.casefold() == wanted), None)

    def content(self) -> bytes:
        """Return the file's bytes."""
        return self.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


def read_key_file(path: Path) -> KeyFile | None:
    """Read the file; None where there is none.

    Raises:
        StorageError: It is there and cannot be read.
        FormatError: It does not hold what was written; never taken for an empty one.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(
            f"the client keys cannot be read ({error.strerror or type(error).__name__})",
            code="client_keys_unreadable",
            where=str(path),
            remedy="check that it is a file and that you may read it",
        ) from None
    try:
        return KeyFile.model_validate_json(content, strict=True)
    except ValidationError:
        raise damaged_keys(path) from None


def damaged_keys(path: Path) -> FormatError:
    """Make the error for a file of keys that does not hold what was written."""
    return FormatError(
        "the client keys are damaged, so nobody is let in",
        code="client_keys_damaged",
        where=str(path),
        remedy="restore the file, or move it away and create new keys",
    )
