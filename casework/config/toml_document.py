"""Read a TOML settings file and say on one line, with its place, what is wrong in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any, Final, Self, TypeVar

import tomli
from pydantic import BaseModel, ValidationError

from casework.config.settings_problems import first_problem
from casework.config.toml_places import Path, TomlPlaces
from casework.errors import ConfigurationError

SETTINGS_BYTES_MAX: Final = 1024 * 1024

_QUOTE_REMEDY: Final = (
    "a backslash in double quotes begins an escape; write Windows paths in single quotes, "
    "like 'C:\\Users\\me'"
)
_SAFE_MESSAGE: Final = re.compile(r"[A-Za-z0-9 ,.'\"\\=\[\]{}()-]{1,80}")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class TomlDocument:
    """One accepted TOML text with its values and the places of its keys."""

    name: str
    values: Mapping[str, Any]
    text: str = field(repr=False)

    @classmethod
    def read(cls, path: FilePath, *, missing: str = "make one with: casework init") -> Self:
        """Read a file; ``missing`` is the remedy where there is none.

        Raises:
            ConfigurationError: It is missing, too big, not UTF-8 or not TOML.
        """
        name = one_line(str(path))
        if path.exists() and not path.is_file():
            raise ConfigurationError("is no regular file", where=name, remedy="name a file")
        try:
            with path.open("rb") as stream:
                content = stream.read(SETTINGS_BYTES_MAX + 1)
        except FileNotFoundError:
            raise ConfigurationError("no such file", where=name, remedy=missing) from None
        except OSError as error:
            raise ConfigurationError(
                f"cannot be read ({type(error).__name__})",
                where=name,
                remedy="check that it is a file and that you may read it",
            ) from None
        return cls.parse(_decoded(content, name), name=name)

    @classmethod
    def parse(cls, text: str, *, name: str) -> Self:
        """Read a text; ``name`` stands for the file in errors.

        Raises:
            ConfigurationError: It is too big or not TOML.
        """
        name = one_line(name)
        if len(text) > SETTINGS_BYTES_MAX:
            raise ConfigurationError(
                f"is larger than {SETTINGS_BYTES_MAX} bytes", where=name, remedy="shorten it"
            )
        if text.startswith("\ufeff"):
            raise _byte_order_mark(name)
        try:
            values = tomli.loads(text, parse_float=Decimal)
        except tomli.TOMLDecodeError as error:
            problem = _syntax_problem(error, text, name)
        except (RecursionError, ValueError):
            problem = ConfigurationError(
                "holds a value that is nested too deeply or too long", where=name
            )
        else:
            return cls(name, values, text.replace("\r\n", "\n"))
        raise problem

    def problem(self, path: Path, message: str, remedy: str | None = None) -> ConfigurationError:
        """Make the error for one key."""
        line, column = TomlPlaces(self.text).line_and_column(path)
        return ConfigurationError(
            message, where=f"{self.name}:{line}:{column}", remedy=remedy or None
        )

    def as_model(self, model: type[Model]) -> Model:
        """Read the values into a settings model.

        Raises:
            ConfigurationError: They do not fit; names the problem that stands first in the file.
        """
        try:
            return model.model_validate(self.values, by_alias=True, by_name=False)
        except ValidationError as error:
            places = TomlPlaces(self.text)
            path, message, remedy = first_problem(error, model, places.offset)
        raise self.problem(path, message, remedy)


def one_line(text: str) -> str:
    """Return a name in a form that cannot break or hide a line."""
    return text if text.isprintable() else ascii(text)


def _decoded(content: bytes, name: str) -> str:
    if len(content) > SETTINGS_BYTES_MAX:
        raise ConfigurationError(
            f"is larger than {SETTINGS_BYTES_MAX} bytes", where=name, remedy="shorten it"
        )
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigurationError(
            "is written in UTF-16", where=f"{name}:1:1", remedy="save it as UTF-8"
        )
    if content.startswith(b"\xef\xbb\xbf"):
        raise _byte_order_mark(name)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
    line = before.count(b"\n") + 1
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8")) + 1
    raise ConfigurationError(
        "holds a byte that is not UTF-8", where=f"{name}:{line}:{column}", remedy="save it as UTF-8"
    )


def _byte_order_mark(name: str) -> ConfigurationError:
    return ConfigurationError(
        "begins with a byte order mark",
        where=f"{name}:1:1",
        remedy='save it as "UTF-8 without BOM"',
    )


def _syntax_problem(error: tomli.TOMLDecodeError, text: str, name: str) -> ConfigurationError:
    where = f"{name}:{error.lineno}:{error.colno}"
    lines = text.split("\n")
    line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
    message = re.sub(r"\('.*'\)", "this table", error.msg)
    message = message[:1].lower() + message[1:]
    if "\\" in line and re.search("hex|escape|unicode", error.msg, re.IGNORECASE):
        column = line.rfind("\\", 0, error.colno) + 1
        where = f"{name}:{error.lineno}:{column}"
        return ConfigurationError("a bad escape in a string", where=where, remedy=_QUOTE_REMEDY)
    if "twice" in error.msg or "overwrite" in error.msg or "redefin" in error.msg.lower():
        return ConfigurationError(
            "a key or table is written twice", where=where, remedy="keep one of the two"
        )
    if not _SAFE_MESSAGE.fullmatch(message):
        message = "this is not TOML"
    return ConfigurationError(f"not TOML: {message}", where=where, remedy="see https://toml.io")
