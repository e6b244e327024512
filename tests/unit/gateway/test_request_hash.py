"""A recording is found by what shapes the answer, whoever is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from casework.gateway.messages import DataSpan, Message, ProviderCall
from casework.gateway.request_hash import request_hash

CALL = ProviderCall(
    model="m",
    messages=(Message("system", "s"), Message("user", "u")),
    output_schema={"type": "object", "properties": {"a": {}, "b": {}}},
    schema_name="answer",
    parameters={"temperature": 0, "seed": 1},
    data=None,
)


@pytest.mark.parametrize(
    "changed",
    [
        replace(CALL, model="other"),
        replace(CALL, data=DataSpan(1, 0, 1)),
        replace(CALL, parameters={"seed": 1, "temperature": 0}),
        replace(CALL, output_schema={"properties": {"b": {}, "a": {}}, "type": "object"}),
    ],
)
def test_model_and_order_of_names_play_no_part(changed: ProviderCall) -> None:
    """The same question to another target has the same hash."""
    assert request_hash(CALL) == request_hash(changed)


@pytest.mark.parametrize(
    "changed",
    [
        replace(CALL, messages=(Message("system", "s"), Message("user", "u "))),
        replace(CALL, messages=(Message("user", "s"), Message("user", "u"))),
        replace(CALL, messages=tuple(reversed(CALL.messages))),
        replace(CALL, output_schema={"type": "object"}),
        replace(CALL, parameters={"temperature": 1, "seed": 1}),
        replace(CALL, parameters={}),
    ],
)
def test_whatever_shapes_the_answer_changes_the_hash(changed: ProviderCall) -> None:
    """Text, role, order, schema and parameters are all part of the question."""
    assert request_hash(CALL) != request_hash(changed)


def test_the_hash_is_the_same_in_every_version() -> None:
    """Recordings outlive releases, so the recipe is pinned."""
    assert "67dede3989d579f61ed922b3ca104eb8ce867c285745087d0b84c9f39c2958bd" == request_hash(CALL)
