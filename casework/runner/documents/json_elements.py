"""The elements of a JSON array, each as its letters stand in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from casework.runner.documents.document import Problem, ProblemCode

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_ARRAY: Final = re.compile(r"[ \t\r\n]*\[")
_OBJECTS: Final = re.compile(r"[ \t\r\n]*\[[ \t\r\n]*\{")
_SCANNER: Final = json.JSONDecoder(parse_int=str, parse_float=str)
"""Finds the end of an element; whether it is strict JSON is asked later, of each by itself."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element of an array."""

    number: int
    line: int
    text: str


def is_array(text: str, *, of_objects: bool) -> bool:
    """Tell whether a text begins as an array, and as one whose first element is an object."""
    return (_OBJECTS if of_objects else _ARRAY).match(text) is not None


def read_elements(text: str, where: str) -> Iterator[Element | Problem]:
    """Yield the elements of an array; where it is broken, nothing after that place is read."""
    start = _ARRAY.match(text)
    at = _after_space(text, start.end() if start else 0)
    lines = _Lines(text)
    number = 0
    while number or not text.startswith("]", at):
        number += 1
        line = lines.number(at)
        try:
            _, end = _SCANNER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            yield _broken(f"{where}:{lines.number(max(at, error.pos))}", number)
            return
        except RecursionError:
            yield _broken(f"{where}:{line}", number)
            return
        yield Element(number, line, text[at:end])
        at = _after_space(text, end)
        if text.startswith("]", at):
            break
        if not text.startswith(",", at):
            yield _broken(f"{where}:{lines.number(at)}", number + 1)
            return
        at = _after_space(text, at + 1)
    rest = _after_space(text, at + 1)
    if rest < len(text):
        message = "there is more after the end of the array"
        yield Problem(ProblemCode.RECORD_INVALID, f"{where}:{lines.number(rest)}", message)


class _Lines:
    """Numbers of lines, asked for from the front to the back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._at = 0

    def number(self, at: int) -> int:
        self._line += self._text.count("\n", self._at, at)
        self._at = at
        return self._line


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _broken(place: str, number: int) -> Problem:
    message = f"the array is not JSON from element {number} on; nothing after that was read"
    return Problem(ProblemCode.RECORD_INVALID, place, message)
