"""Fragments of tool calls find their call, whatever numbers a server gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.chat.json_members import Raw, raw, written
from casework.gateway.chat.tool_call_indexes import (
    CALLS_MAX,
    NUMBERS_MAX,
    ToolCallIndexes,
    renumbered,
)
from casework.gateway.errors import ProviderFailure

Fragment = dict[str, Any]


def told(*chunks: list[Fragment]) -> list[Fragment]:
    """Return what a client makes of chunks, joining whatever it is told twice, as SDKs do."""
    calls = ToolCallIndexes()
    joined: list[Fragment] = []
    for position, chunk in enumerate(chunks):
        for fragment in json.loads(written(renumbered(raw(chunk), calls, str(position)))):
            index = fragment["index"]
            assert index <= len(joined)
            if index == len(joined):
                joined.append({"id": "", "type": "", "name": "", "arguments": ""})
            call = joined[index]
            function = fragment.get("function") or {}
            call["id"] += fragment.get("id", "")
            call["type"] += fragment.get("type", "")
            call["name"] += function.get("name", "")
            call["arguments"] += function.get("arguments", "")
    return joined


def fragment(**members: Any) -> Fragment:
    """Write a fragment; ``name`` and ``arguments`` are the function's."""
    function = {n: members.pop(n) for n in ("name", "arguments") if n in members}
    return {**members, **({"function": function} if function else {})}


def calls_told(*chunks: list[Fragment]) -> list[tuple[str, str]]:
    """Return names and arguments of the calls that a client makes of chunks."""
    joined = told(*chunks)
    assert {"function"} >= {call["type"] for call in joined}
    assert len(joined) == len({call["id"] for call in joined})
    return [(call["name"], call["arguments"]) for call in joined]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                [fragment(index=0, id="a", name="f", arguments="")],
                [fragment(index=1, id="b", name="g", arguments="")],
                [fragment(index=0, arguments="1")],
                [fragment(index=1, arguments="2")],
                [fragment(index=0, arguments="1")],
                [fragment(index=1, arguments="2")],
            ],
            id="interleaved",
        ),
        pytest.param(
            [
                [fragment(index=0, id="a", name="f", arguments="1")],
                [fragment(index=0, arguments="1")],
                [fragment(index=0, id="b", name="g", arguments="2")],
                [fragment(index=0, arguments="2")],
            ],
            id="all are 0",
        ),
        pytest.param(
            [
                [fragment(index=1, id="a", name="f", arguments="1")],
                [fragment(index=2, id="b", name="g", arguments="2")],
                [fragment(index=1, arguments="1")],
                [fragment(index=2, arguments="2")],
            ],
            id="from 1",
        ),
        pytest.param(
            [
                [fragment(index=0, id="a", name="f", arguments="1")],
                [fragment(index=7, id="b", name="g", arguments="2")],
                [fragment(index=3, id="a", name="f", arguments="1")],
                [fragment(index=0, id="b", name="g", arguments="2")],
            ],
            id="renumbered, named again",
        ),
        pytest.param(
            [
                [fragment(id="a", name="f", arguments="1")],
                [fragment(arguments="1")],
                [fragment(id="b", name="g", arguments="2")],
                [fragment(arguments="2")],
            ],
            id="without numbers",
        ),
        pytest.param(
            [[fragment(name="f", arguments="11"), fragment(name="g", arguments="22")]],
            id="whole, without numbers and ids",
        ),
        pytest.param(
            [
                [fragment(index=0, name="f", arguments="11")],
                [fragment(index=0, name="g", arguments="22")],
            ],
            id="whole, all 0, without ids",
        ),
        pytest.param(
            [
                [fragment(index=0, id="x1", name="f", arguments="1")],
                [fragment(index=0, id="x2", name=None, arguments="1")],
                [fragment(index=1, id="x3", name="g", arguments="2")],
                [fragment(index=1, id="x4", arguments="2")],
            ],
            id="another id each time",
        ),
        pytest.param(
            [
                [fragment(index=None, id="", type=None, name="f", arguments={"k": 1})],
                [fragment(index="1", id=None, name="g", arguments=None), fragment(id=3)],
            ],
            id="odd values",
        ),
    ],
)
def test_two_calls_stay_two(chunks: list[list[Fragment]]) -> None:
    """However they are numbered, the client gets the first call as 0 and the second as 1."""
    joined = told(*chunks)
    assert ["f", "g"] == [call["name"] for call in joined]
    assert ["function", "function"] == [call["type"] for call in joined]
    assert 2 == len({call["id"] for call in joined})
    odd = [('{"k":1}'), ""]
    assert [call["arguments"] for call in joined] in (["11", "22"], odd)


def test_two_calls_of_one_function_in_one_chunk_stay_two() -> None:
    """A name that comes again in the same chunk under the same number begins another call."""
    chunk = [fragment(index=0, name="f", arguments=a) for a in ("1", "2")]
    assert [("f", "1"), ("f", "2")] == calls_told(chunk)


def test_a_free_text_tool_is_passed_on() -> None:
    """A custom tool has an input and no function."""
    calls = ToolCallIndexes()
    first = {"index": 4, "id": "a", "type": "custom", "custom": {"name": "f", "input": "1"}}
    then = {"index": 4, "custom": {"input": "2"}}
    assert [[{**first, "index": 0}], [{**then, "index": 0}]] == [
        json.loads(written(renumbered(raw([one]), calls, ""))) for one in (first, then)
    ]


def test_what_a_fragment_holds_beside_is_kept() -> None:
    """Members that nobody here knows pass byte for byte."""
    value = b'[{"x":1.50,"index":0,"id":"a","type":"function","function":{"name":"f","y":[ ]}}]'
    assert (
        b'[{"x":1.50,"index":0,"id":"a","type":"function",'
        b'"function":{"name":"f","y":[ ],"arguments":""}}]'
    ) == written(renumbered(Raw(value), ToolCallIndexes(), ""))


def test_there_is_a_limit_of_calls() -> None:
    """A server that begins calls for ever is given up."""
    calls = ToolCallIndexes()
    begun = [fragment(index=i, id=str(i), name="f") for i in range(CALLS_MAX)]
    renumbered(raw(begun), calls, "")
    assert CALLS_MAX == len(calls)
    with pytest.raises(ProviderFailure):
        renumbered(raw([fragment(index=CALLS_MAX, id="more", name="f")]), calls, "")


def test_a_server_may_number_each_fragment_anew_for_ever() -> None:
    """A call with an id stays one, however many numbers it had before."""
    calls = ToolCallIndexes()
    renumbered(raw([fragment(index=0, id="a", name="f")]), calls, "")
    for number in range(1, 2 * NUMBERS_MAX):
        piece = renumbered(raw([fragment(index=number, id="a", arguments="x")]), calls, "")
        assert [{"index": 0, "function": {"arguments": raw("x")}}] == piece
    assert 1 == len(calls)


@pytest.mark.parametrize("value", [{}, "x", 1, [1], ["x"], [None], [[]]])
def test_what_is_no_list_of_fragments_is_malformed(value: Any) -> None:
    """Nothing is guessed at."""
    with pytest.raises(ProviderFailure):
        renumbered(raw(value), ToolCallIndexes(), "")


@dataclass(frozen=True)
class Call:
    """A call, as the model makes it."""

    id: str
    name: str
    pieces: list[str]


Style = Callable[[int, Call, int, str], Fragment]


def _proper(number: int, call: Call, nth: int, piece: str) -> Fragment:
    if nth:
        return fragment(index=number, arguments=piece)
    return fragment(index=number, id=call.id, type="function", name=call.name, arguments=piece)


def _from_one(number: int, call: Call, nth: int, piece: str) -> Fragment:
    return _proper(number + 1, call, nth, piece)


def _named_each_time(number: int, call: Call, nth: int, piece: str) -> Fragment:
    return fragment(index=number, id=call.id, type="function", name=call.name, arguments=piece)


def _all_zero_with_ids(number: int, call: Call, nth: int, piece: str) -> Fragment:
    return fragment(index=0, id=call.id, name=call.name, arguments=piece)


def _without_numbers(number: int, call: Call, nth: int, piece: str) -> Fragment:
    return fragment(id=call.id, arguments=piece, **({} if nth else {"name": call.name}))


def _renumbered(number: int, call: Call, nth: int, piece: str) -> Fragment:
    return fragment(index=(number * 7 + nth * 3) % 5, id=call.id, name=call.name, arguments=piece)


def _fresh_ids(number: int, call: Call, nth: int, piece: str) -> Fragment:
    named = {} if nth else {"name": call.name}
    return fragment(index=number, id=f"{call.id}-{nth}", arguments=piece, **named)


INTERLEAVED = (
    _proper, _from_one, _named_each_time, _all_zero_with_ids, _without_numbers, _renumbered,
    _fresh_ids,
)  # fmt: skip


@st.composite
def calls(draw: st.DrawFn) -> list[Call]:
    """Draw calls with ids of their own, some of one name."""
    names = draw(st.lists(st.sampled_from(["f", "g", "h"]), min_size=1, max_size=4))
    pieces = st.lists(st.text(max_size=3), min_size=1, max_size=4)
    return [Call(f"id{i}", name, draw(pieces)) for i, name in enumerate(names)]


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[Call], list[int], list[int]]:
    """Draw calls, an order of their fragments, and how many come in each chunk."""
    made = draw(calls())
    turns = [i for i, call in enumerate(made) for _ in call.pieces]
    order = draw(st.permutations(turns))
    return made, list(order), draw(st.lists(st.integers(1, 3), min_size=len(order)))


def in_chunks(fragments: Iterable[Fragment], sizes: list[int]) -> list[list[Fragment]]:
    """Put fragments into chunks of these sizes."""
    rest, chunks = list(fragments), []
    for size in sizes:
        if rest:
            chunks.append(rest[:size])
            rest = rest[size:]
    return chunks


@given(st.sampled_from(INTERLEAVED), orders())
def test_any_order_and_split_of_fragments_gives_the_calls_in_order_of_their_begin(
    style: Style, drawn: tuple[list[Call], list[int], list[int]]
) -> None:
    """Whatever the style of numbering that tells calls apart at all."""
    made, order, sizes = drawn
    begun = list(dict.fromkeys(order))
    said: dict[int, int] = {}
    fragments = []
    for which in order:
        nth = said.get(which, 0)
        said[which] = nth + 1
        fragments.append(style(begun.index(which), made[which], nth, made[which].pieces[nth]))
    assert [(made[i].name, "".join(made[i].pieces)) for i in begun] == calls_told(
        *in_chunks(fragments, sizes)
    )


@given(made=calls(), zeros=st.booleans())
def test_calls_one_after_another_need_no_numbers(made: list[Call], *, zeros: bool) -> None:
    """Where calls are not interleaved, the first fragment of each tells that it begins."""
    number = {"index": 0} if zeros else {}
    chunks = [
        [fragment(**number, arguments=p, **({} if n else {"id": call.id, "name": call.name}))]
        for call in made
        for n, p in enumerate(call.pieces)
    ]
    assert [(call.name, "".join(call.pieces)) for call in made] == calls_told(*chunks)
