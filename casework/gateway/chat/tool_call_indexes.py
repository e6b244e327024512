"""Which tool call a fragment belongs to, whatever numbers a server gives it.

Servers number every call 0, begin at 1, leave the number out, name the call again in each fragment
or by another name each time. A fragment belongs to the call of its id; else, where it names no
tool, to the latest call of its number; else it begins a call. Calls are numbered from 0 in the
order in which they began, and only the fragment that begins one names it, since clients join what
they are told twice.
"""

from __future__ import annotations

from typing import Final

from casework.gateway.chat.completion import malformed, object_in, put_function_right
from casework.gateway.chat.json_members import (
    EMPTY_TEXT,
    Members,
    Raw,
    digest_of,
    integer_or_none,
    is_list,
    is_object,
    is_text,
    items_of,
    members_of,
    text_or_none,
)
from casework.gateway.chat.wire_shapes import UNSET, CallFragment

CALLS_MAX: Final = 1024
"""Most tool calls in one answer."""
NUMBERS_MAX: Final = 4 * CALLS_MAX
"""Most of a server's numbers that are remembered; some give each fragment another one."""


class ToolCallIndexes:
    """The tool calls of one answer, as far as its stream has come."""

    def __init__(self) -> None:
        self._names: list[int | None] = []
        """Hashes of names, as those of ids below: servers write long ones."""
        self._by_id: dict[int, int] = {}
        self._by_number: dict[int, int] = {}

    def __len__(self) -> int:
        """Return how many calls have begun."""
        return len(self._names)

    def goes_on_with(self, fragment: CallFragment) -> bool:
        """Tell whether a fragment adds to a call under the index that the call has already."""
        function = fragment.function
        return (
            fragment.id is UNSET
            and fragment.type is UNSET
            and function is not UNSET
            and function.name is UNSET
            and function.arguments is not UNSET
            and is_text(function.arguments)
            and self._by_number.get(fragment.index) == fragment.index
        )

    def place(
        self, *, call_id: str | None, number: int | None, name: str | None, met: set[int]
    ) -> tuple[int, bool]:
        """Return the index of the call that a fragment belongs to, and whether it begins it.

        Args:
            call_id: As the server gave it.
            number: The server's own index.
            name: The tool's name.
            met: Calls that earlier fragments of the same chunk belong to; grows.

        Raises:
            ProviderFailure: There are too many calls.
        """
        index = self._known(call_id, number, name=name, met=met)
        begins = index is None
        if index is None:
            index = len(self._names)
            if index >= CALLS_MAX:
                raise malformed()
            self._names.append(hash(name) if name else None)
            if number is not None:
                self._by_number[number] = index
        if number is not None and len(self._by_number) < NUMBERS_MAX:
            self._by_number.setdefault(number, index)
        if call_id and begins:
            self._by_id[hash(call_id)] = index
        met.add(index)
        return index, begins

    def _known(
        self, call_id: str | None, number: int | None, *, name: str | None, met: set[int]
    ) -> int | None:
        by_number = None if number is None else self._by_number.get(number)
        if call_id:
            by_id = self._by_id.get(hash(call_id))
            return by_id if by_id is not None or name else by_number
        if by_number is not None:
            another = name and (hash(name) != self._names[by_number] or by_number in met)
            return None if another else by_number
        return None if name or not self._names else len(self._names) - 1


def renumbered(value: Raw, calls: ToolCallIndexes, seed: str) -> list[dict[str, object]]:
    """Return a chunk's fragments of tool calls with the indexes that a client can rely on.

    Args:
        value: The fragments, as the server sent them.
        calls: What began before; grows.
        seed: What ids are made of that the server forgot to give; short, as there may be many.

    Raises:
        ProviderFailure: They are no fragments.
    """
    if not is_list(value):
        raise malformed()
    met: set[int] = set()
    return [_fragment(object_in(item), calls, seed=seed, met=met) for item in items_of(value)]


def _fragment(
    fragment: Members, calls: ToolCallIndexes, *, seed: str, met: set[int]
) -> dict[str, object]:
    custom = text_or_none(fragment.get("type")) == "custom" or "custom" in fragment
    spoken = fragment.pop("custom" if custom else "function", None)
    function = members_of(spoken) if spoken is not None and is_object(spoken) else {}
    call_id = text_or_none(fragment.get("id"))
    index, begins = calls.place(
        call_id=call_id,
        number=integer_or_none(fragment.get("index")),
        name=text_or_none(function.get("name")) or None,
        met=met,
    )
    if not begins:
        fragment.pop("id", None)
        fragment.pop("type", None)
        function.pop("name", None)
    told: dict[str, object] = {**fragment, "index": index}
    if begins and not call_id:
        told["id"] = f"call_{digest_of(f'{seed}{index}'.encode())}"
    if custom:
        told["custom"] = function
        return told
    if begins:
        told["type"] = "function"
    if begins and not is_text(function.get("name")):
        function["name"] = EMPTY_TEXT
    if begins or function:
        put_function_right(function, missing_arguments=EMPTY_TEXT)
        told["function"] = function
    return told
