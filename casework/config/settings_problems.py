"""Say in a few words what a model found wrong in the settings, without repeating any value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from casework.config.toml_places import Path

FROZEN: Final = ConfigDict(
    frozen=True,
    extra="forbid",
    hide_input_in_errors=True,
    validate_by_name=True,
    validate_by_alias=True,
    validate_default=True,
)
"""How every settings model behaves; no value of a user is repeated in an error."""

Explanation: TypeAlias = tuple[str, str | None]
"""What is wrong, and the way out."""

_KEY_WORDS: Final = re.compile(
    r"key|token|secret|passw|authori[sz]ation|bearer|credential", re.IGNORECASE
)
_SHOWABLE: Final = re.compile(r"[A-Za-z_-]{1,40}")
"""Names that are shown. No setting's name holds a digit, and a key on the wrong side of = does."""
_ENV_REMEDY: Final = (
    "keys are never written here: set an environment variable and name it in api_key_env"
)


def settings_error(
    problem: str, remedy: str = "", *, below: tuple[str | int, ...] = ()
) -> PydanticCustomError:
    """Make the error that a validator raises; the loader turns it into one line.

    Args:
        problem: What is wrong, as the rest of a sentence that begins with the setting's name.
        remedy: The way out.
        below: Path from the value judged to the part of it that is at fault.
    """
    context = {"problem": problem, "remedy": remedy, "below": below}
    return PydanticCustomError("casework", "{problem}", context)


def first_problem(
    error: ValidationError, model: type[BaseModel], order: Callable[[Path], int]
) -> tuple[Path, str, str | None]:
    """Return path, problem and remedy of what stands first in the file.

    Args:
        error: Everything that the model found.
        model: The model, for the names it knows.
        order: Gives the place of a path in the file.
    """
    details = [
        detail
        for detail in error.errors(include_url=False, include_input=False)
        if detail["type"] != "default_factory_not_called"
    ]
    first = min(details, key=lambda detail: order(_path(detail)))
    path = _path(first)
    if first["type"] == "extra_forbidden":
        return (path, *_unknown_key(path, model))
    if first["type"] == "tuple_type":
        return (path, *_no_list(path, model))
    message, remedy = _explanation(first)
    return path, f"{_subject(path)} {message}", remedy


def _unknown_key(path: Path, model: type[BaseModel]) -> Explanation:
    key = str(path[-1])
    known = sorted(_toml_names(_model_at(model, path[:-1])))
    shown = f' "{key}"' if _SHOWABLE.fullmatch(key) else ""
    looks_like_key = bool(_KEY_WORDS.search(key)) and "api_key_env" in known
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.9 if looks_like_key else 0.6)
    elsewhere = _homes(_model_at(model, path[:-1]), key)
    if elsewhere:
        remedy = f"it belongs below {' or '.join(elsewhere)}"
    elif nearest:
        remedy = f'did you mean "{nearest[0]}"?'
    elif looks_like_key:
        remedy = _ENV_REMEDY
    else:
        remedy = f"known here: {', '.join(known)}"
    return f"unknown key{shown}", remedy


def _no_list(path: Path, model: type[BaseModel]) -> Explanation:
    name = _subject(path)
    fields = _model_at(model, path[:-1]).model_fields.items()
    annotations = [info.annotation for known, info in fields if name == (info.alias or known)]
    tables = any(True for annotation in annotations for _ in _models_in(annotation))
    remedy = (
        f"write its tables as [[{name}]]" if tables else "write it in brackets, also a single one"
    )
    return f"{name} is no list", remedy


def _homes(model: type[BaseModel], key: str) -> list[str]:
    """Return the tables of a model that know a key which the model itself does not."""
    return sorted(
        info.alias or name
        for name, info in model.model_fields.items()
        if any(key in _toml_names(below) for below in _models_in(info.annotation))
    )


def _path(detail: ErrorDetails) -> Path:
    return (*detail["loc"], *detail.get("ctx", {}).get("below", ()))


def _subject(path: Path) -> str:
    names = [part for part in path if isinstance(part, str)]
    return names[-1] if names else "the file"


def _explanation(detail: ErrorDetails) -> Explanation:
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
    "int_parsing": ("is no whole number", "write it without quotes or fraction"),
    "int_from_float": ("is no whole number", "write it without quotes or fraction"),
    "float_type": ("is no number", "write a plain number"),
    "float_parsing": ("is no number", "write a plain number"),
    "decimal_type": ("is no number", "write a plain number"),
    "decimal_parsing": ("is no number", "write a plain number"),
    "finite_number": ("is no finite number", "write a plain number"),
    "model_type": ("is no table", "write it as a [table]"),
    "dict_type": ("is no table", "write it as a [table]"),
    "path_type": ("is no path", "write it in quotes"),
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
