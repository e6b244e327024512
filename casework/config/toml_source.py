"""Read a TOML settings file and say on one line, with its place, what is wrong in it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any, Final, Self, get_args

import tomli
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from casework.config.toml_places import Path, TomlPlaces
from casework.errors import ConfigurationError

SETTINGS_BYTES_MAX: Final = 1024 * 1024

_QUOTE_REMEDY: Final = (
    "a backslash in double quotes begins an escape; write Windows paths in single quotes, "
    "like 'C:\\Users\\me'"
)
_KEY_WORDS: Final = re.compile(
    r"key|token|secret|passw|authori[sz]ation|bearer|credential", re.IGNORECASE
)
_SHOWABLE: Final = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_ENV_REMEDY: Final = (
    "keys are never written here: set an environment variable and name it in api_key_env"
)


@dataclass(frozen=True, slots=True)
class TomlSource:
    """One accepted TOML text with its values and the places of its keys."""

    name: str
    values: Mapping[str, Any]
    text: str = field(repr=False)

    @classmethod
    def read(cls, path: FilePath) -> Self:
        """Read a file.

        Raises:
            ConfigurationError: It is missing, too big, not UTF-8 or not TOML.
        """
        name = one_line(str(path))
        try:
            with path.open("rb") as stream:
                content = stream.read(SETTINGS_BYTES_MAX + 1)
        except FileNotFoundError:
            raise ConfigurationError(
                "no such file", where=name, remedy="make one with: casework init"
            ) from None
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

    def unknown_key(self, path: Path, model: type[BaseModel]) -> ConfigurationError:
        """Make the error for a key that no model knows, with the nearest one that is known."""
        key = str(path[-1])
        known = sorted(_toml_names(_model_at(model, path[:-1])))
        if _KEY_WORDS.search(key):
            nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.9)
            remedy = f'did you mean "{nearest[0]}"?' if nearest else _ENV_REMEDY
        else:
            nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
            choice = nearest[0] if nearest else ", ".join(known)
            remedy = f'did you mean "{choice}"?' if nearest else f"known here: {choice}"
        return self.problem(path, f"unknown key{_shown(key)}", remedy)

    def first_problem(self, error: ValidationError, model: type[BaseModel]) -> ConfigurationError:
        """Make one error of the problem that stands first in the file."""
        places = TomlPlaces(self.text)
        details = [
            detail
            for detail in error.errors(include_url=False, include_input=False)
            if detail["type"] != "default_factory_not_called"
        ]
        first = min(details, key=lambda detail: places.offset(_path(detail)))
        path = _path(first)
        if first["type"] == "extra_forbidden":
            return self.unknown_key(path, model)
        subject = _subject(path)
        message, remedy = _explanation(first)
        return self.problem(path, f"{subject} {message}", remedy)


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
        return ConfigurationError("a bad escape in a string", where=where, remedy=_QUOTE_REMEDY)
    if "twice" in error.msg or "overwrite" in error.msg or "redefin" in error.msg.lower():
        return ConfigurationError(
            "a key or table is written twice", where=where, remedy="keep one of the two"
        )
    if not _SAFE_MESSAGE.fullmatch(message):
        message = "this is not TOML"
    return ConfigurationError(f"not TOML: {message}", where=where, remedy="see https://toml.io")


_SAFE_MESSAGE: Final = re.compile(r"[A-Za-z0-9 ,.'\"\\=\[\]{}()-]{1,80}")


def _path(detail: ErrorDetails) -> Path:
    return (*detail["loc"], *detail.get("ctx", {}).get("below", ()))


def _subject(path: Path) -> str:
    names = [part for part in path if isinstance(part, str)]
    return names[-1] if names else "the file"


def _shown(key: str) -> str:
    return f' "{key}"' if _SHOWABLE.fullmatch(key) else ""


def _explanation(detail: ErrorDetails) -> tuple[str, str | None]:
    """Say what is wrong with a value, without repeating it."""
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "casework":
        return str(context["problem"]), str(context["remedy"])
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in {"enum", "literal_error"}:
        return "is none of the words allowed", f"write {context['expected']}"
    if kind == "string_pattern_mismatch":
        return "has a form that is not allowed", f"it must match {context['pattern']}"
    bounds = [word for word in _BOUNDS if word in context]
    if bounds:
        return "is out of range", f"{_BOUNDS[bounds[0]]} {context[bounds[0]]}"
    return f"is not usable ({kind})", None


_PLAIN: Final = {
    "missing": ("is missing", "add it"),
    "string_type": ("is no text", "write it in quotes"),
    "bool_type": ("is neither true nor false", "write true or false, without quotes"),
    "int_type": ("is no whole number", "write it without quotes or fraction"),
    "float_type": ("is no number", "write a plain number"),
    "decimal_type": ("is no number", "write a plain number"),
    "decimal_parsing": ("is no number", "write a plain number"),
    "finite_number": ("is no finite number", "write a plain number"),
    "model_type": ("is no table", "write it as a [table]"),
    "dict_type": ("is no table", "write it as a [table]"),
    "path_type": ("is no path", "write it in quotes"),
    "tuple_type": ("is no list", "write it as a list, or as [[providers]] tables"),
}
_BOUNDS: Final = {
    "gt": "it must be more than",
    "ge": "it must be at least",
    "lt": "it must be less than",
    "le": "it must be at most",
}


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel]:
    """Return the model that reads the table at a path."""
    for part in path:
        if isinstance(part, int):
            continue
        for name, info in model.model_fields.items():
            if part == (info.alias or name):
                model = next(_models_in(info.annotation), model)
    return model


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _toml_names(model: type[BaseModel]) -> set[str]:
    return {info.alias or name for name, info in model.model_fields.items() if not info.exclude}
