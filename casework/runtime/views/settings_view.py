"""Every setting in effect with its value and its origin, and no secret.

Derived from the settings models and the places of the file alone, so that a new setting is shown
without a word here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from casework.config.providers import looks_like_secret
from casework.config.toml_document import TomlDocument
from casework.config.toml_places import Path, TomlPlaces
from casework.strict_json import JSON, JSONObject

NOT_SHOWN: Final = "(not shown)"
DEFAULT: Final = "default"

_VARIABLE_ENDING: Final = "_env"
"""How the name of a setting ends that names variables of the environment."""
_ADDRESS: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in effect."""

    name: str
    """As in the file: ``providers[0].timeout_seconds``."""
    value: JSON
    file: str | None
    """Where it is written; None where nobody wrote it and the default holds."""
    line: int | None
    variables: Mapping[str, bool] | None
    """Variables of the environment that it names, and whether they are set."""

    @property
    def origin(self) -> str:
        """Return where the value comes from."""
        return DEFAULT if self.file is None else f"{self.file}:{self.line}"

    def to_json(self) -> JSONObject:
        """Return the setting as JSON output carries it."""
        shown: JSONObject = {
            "setting": self.name,
            "value": self.value,
            "file": self.file,
            "line": self.line,
        }
        return shown if self.variables is None else {**shown, "variables": {**self.variables}}

    def shown(self) -> str:
        """Return the value for people."""
        if self.variables:
            return ", ".join(
                f"{name} ({'set' if is_set else 'not set'})"
                for name, is_set in self.variables.items()
            )
        match self.value:
            case None | []:
                return "none"
            case str(text):
                return text
            case value:
                return json.dumps(value, ensure_ascii=False)


def settings_of(
    model: BaseModel, document: TomlDocument, environ: Mapping[str, str]
) -> Iterator[Setting]:
    """Yield every setting of a model in the order of its fields.

    Args:
        model: What is in effect.
        document: The file that it was read from.
        environ: The environment, of which only is told which variables are set.
    """
    walk = _Walk(document, TomlPlaces(document.text), environ)
    yield from walk.model(model, ())


@dataclass(frozen=True, slots=True)
class _Walk:
    """Goes through a model and knows where in the file it is."""

    document: TomlDocument
    places: TomlPlaces
    environ: Mapping[str, str]

    def model(self, model: BaseModel, path: Path) -> Iterator[Setting]:
        for name, info in type(model).model_fields.items():
            if not info.exclude:
                yield from self._value(getattr(model, name), (*path, info.alias or name), info)

    def _value(self, value: object, path: Path, info: FieldInfo) -> Iterator[Setting]:
        if isinstance(value, BaseModel):
            yield from self.model(value, path)
        elif isinstance(value, Mapping) and value:
            for name, item in value.items():
                yield from self._value(item, (*path, str(name)), info)
        elif isinstance(value, tuple | list) and any(isinstance(i, BaseModel) for i in value):
            for index, item in enumerate(value):
                yield from self._value(item, (*path, index), info)
        else:
            yield self._setting(value, path, info)

    def _setting(self, value: object, path: Path, info: FieldInfo) -> Setting:
        written = _is_written(self.document.values, path)
        shown = _shown(value, private=not info.repr)
        return Setting(
            name=_name(path),
            value=shown,
            file=self.document.name if written else None,
            line=self.places.line_and_column(path)[0] if written else None,
            variables=self._variables(shown, path),
        )

    def _variables(self, shown: JSON, path: Path) -> Mapping[str, bool] | None:
        if not str(path[-1]).endswith(_VARIABLE_ENDING):
            return None
        names = shown if isinstance(shown, list) else [shown]
        return {
            name: bool(self.environ.get(name))
            for name in names
            if isinstance(name, str) and name != NOT_SHOWN
        }


def _is_written(values: Mapping[str, Any], path: Path) -> bool:
    here: Any = values
    for part in path:
        keys = range(len(here)) if isinstance(here, list) else here
        if not isinstance(keys, Mapping | range) or part not in keys:
            return False
        here = here[part]
    return True


def _name(path: Path) -> str:
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return name.removeprefix(".")


def _shown(value: object, *, private: bool) -> JSON:
    """Return a value as it may be shown.

    Args:
        value: What is in effect.
        private: The model does not print it, so only what is known to be harmless is shown.
    """
    shown: JSON = NOT_SHOWN
    match value:
        case SecretStr() | SecretBytes() | bytes():
            pass
        case Enum():
            shown = _shown(value.value, private=private)
        case None | bool() | int() | float():
            shown = value
        case Decimal():
            shown = format(value, "f")
        case FilePath():
            shown = _text(str(value), private=False)
        case tuple() | list() | frozenset() | set():
            items = sorted(value, key=str) if isinstance(value, frozenset | set) else value
            shown = [_shown(item, private=private) for item in items]
        case Mapping():
            shown = {str(name): _shown(item, private=private) for name, item in value.items()}
        case _:
            shown = _text(str(value), private=private)
    return shown


def _text(text: str, *, private: bool) -> str:
    address = _ADDRESS.fullmatch(text)
    if address is not None:
        return _without_path(address["scheme"], address["rest"])
    return NOT_SHOWN if private or "://" in text or looks_like_secret(text) else text


def _without_path(scheme: str, rest: str) -> str:
    """Return scheme, host and port of an address; nothing where it is open which part is which."""
    authority, *path = re.split(r"(?=[/?#])", rest, maxsplit=1)
    user, _, host = authority.rpartition("@")
    plain = "@" not in user + "".join(path) and _HOST.fullmatch(host) is not None
    return f"{scheme}://{host}" if plain else NOT_SHOWN
