"""What a model is shown counts, whatever member of the request it stands in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.errors import InvalidRequest
from casework.gateway.chat.prompt_tokens import (
    ANSWER_TOKENS,
    MESSAGE_TOKENS,
    chat_tokens,
    input_tokens,
)
from casework.gateway.token_estimate import estimate_tokens

TEXT = "How severe is the leak of the second pump?"
IN_TEXT = estimate_tokens(TEXT)


def tokens(*messages: object, **members: object) -> int:
    """Return the estimate of a request, beyond what the template adds to it."""
    request = {"messages": list(messages), **members}
    encoded = {name: json.dumps(value).encode() for name, value in request.items()}
    return chat_tokens(encoded) - ANSWER_TOKENS - MESSAGE_TOKENS * len(messages)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": TEXT},
        {"role": "user", "content": [TEXT]},
        {"role": "user", "content": [{"type": "text", "text": TEXT}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": TEXT}]},
        {"role": "user", "name": TEXT},
        {"role": "user", "content": None, "name": TEXT},
    ],
)
def test_a_text_counts_wherever_it_stands(message: object) -> None:
    """In a string, in parts, in a name."""
    assert IN_TEXT == tokens(message)
    assert 2 * IN_TEXT == tokens(message, message)


def test_calls_and_tools_count_as_json() -> None:
    """Their names and arguments are part of the prompt."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": TEXT}}
    tool = {"type": "function", "function": {"name": "f", "description": TEXT}}
    assert IN_TEXT < tokens({"role": "assistant", "content": None, "tool_calls": [call]})
    assert IN_TEXT < tokens(tools=[tool])
    assert IN_TEXT < tokens(functions=[tool["function"]])
    assert 0 == tokens(tools=[], functions=None)


def test_images_and_sound_do_not_count() -> None:
    """Nobody knows here what they cost."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000}}
    assert 0 == tokens({"role": "user", "content": [image, 7, None]})


def test_half_a_character_pair_counts_as_one_character() -> None:
    """What no UTF-8 can hold is no reason to refuse."""
    assert estimate_tokens("\N{REPLACEMENT CHARACTER}") == input_tokens(b'"\\ud83d"')


def test_what_nests_too_deep_is_refused() -> None:
    """The stack is not used up by it."""
    deep = b"[" * 100_000 + b"]" * 100_000
    for count in (input_tokens, lambda value: chat_tokens({"messages": value})):
        with pytest.raises(InvalidRequest) as caught:
            count(deep)
        assert "invalid_type" == caught.value.code


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(messages=JSON_VALUES, tools=JSON_VALUES)
def test_every_request_is_counted_or_refused(messages: object, tools: object) -> None:
    """No value makes the estimate fail, or negative."""
    members = {"messages": messages, "tools": tools}
    try:
        count = chat_tokens({name: json.dumps(v).encode() for name, v in members.items()})
    except InvalidRequest:
        return
    assert count >= ANSWER_TOKENS


@given(value=JSON_VALUES)
def test_every_input_is_counted_or_refused(value: object) -> None:
    """Only texts, and lists of texts and token numbers, are counted."""
    try:
        count = input_tokens(json.dumps(value).encode())
    except InvalidRequest:
        return
    assert isinstance(value, str | list)
    assert count >= 0
