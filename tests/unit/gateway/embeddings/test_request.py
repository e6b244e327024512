"""Requests for vectors: what is read, what is kept, and what is refused without its value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest
from casework.gateway.embeddings.request import (
    INPUTS_MAX,
    EmbeddingRequest,
    read_embedding_request,
)


def read(**members: object) -> EmbeddingRequest:
    """Read a request of these members, with a model."""
    return read_embedding_request(json.dumps({"model": "m", **members}).encode())


def refusal(body: bytes) -> tuple[str, str | None]:
    """Return the code of a refusal, and where it is."""
    with pytest.raises(InvalidRequest) as caught:
        read_embedding_request(body)
    assert "secret" not in str(caught.value)
    return caught.value.code, caught.value.where


@pytest.mark.parametrize(
    ("written", "inputs"),
    [
        (b'"hello"', (b'"hello"',)),
        (b'["hello"]', (b'"hello"',)),
        (b'[ "a" , "b","\\u00e9" ]', (b'"a"', b'"b"', b'"\\u00e9"')),
        (b"[1, 2,3]", (b"[1, 2,3]",)),
        (b"[[1, 2], [3]]", (b"[1, 2]", b"[3]")),
        (b'["a", "a"]', (b'"a"', b'"a"')),
        (b'" "', (b'" "',)),
    ],
)
def test_each_input_arrives_whole_and_in_order(written: bytes, inputs: tuple[bytes, ...]) -> None:
    """One text, several, one list of tokens, several: each is its own bytes."""
    body = b'{"model": "m", "input": ' + written + b"}"
    assert inputs == read_embedding_request(body).inputs


@given(st.lists(st.text(min_size=1).filter(str.isprintable), min_size=1, max_size=20))
def test_any_texts_arrive_whole(texts: list[str]) -> None:
    """No character of any text is lost."""
    assert texts == [json.loads(text) for text in read(input=texts).inputs]


def test_what_is_unknown_is_kept_as_it_came() -> None:
    """Members that nobody here knows are kept byte for byte, in their own spelling."""
    body = b'{"input":"a","model":"m","dimensions": 2.50,"user":"\\u0061","odd":{"b" : [ 1 ]}}'
    expected = {"dimensions": b"2.50", "user": b'"\\u0061"', "odd": b'{"b" : [ 1 ]}'}
    request = read_embedding_request(body)
    assert expected == request.members
    assert len(body) == request.body_bytes


def test_what_is_never_passed_on_is_named() -> None:
    """Addresses, keys and what is ours alone are kept from every server, and named."""
    request = read(
        input="a", api_key="k", BASE_URL="u", privacy_profile="local_only", user="u", stream=True
    )
    assert {"user": b'"u"'} == request.members
    assert ("api_key", "BASE_URL", "privacy_profile", "stream") == request.withheld
    assert PrivacyProfile.LOCAL_ONLY == request.privacy_profile


@pytest.mark.parametrize(
    ("members", "encoding"),
    [
        ({}, "float"),
        ({"encoding_format": None}, "float"),
        ({"encoding_format": "float"}, "float"),
        ({"encoding_format": "base64"}, "base64"),
    ],
)
def test_vectors_are_lists_unless_base64_is_wanted(
    members: dict[str, object], encoding: str
) -> None:
    """Absent and null mean a list of numbers; the member is not passed on."""
    request = read(input="a", **members)
    assert encoding == request.encoding
    assert {} == request.members


@pytest.mark.parametrize(
    ("body", "code", "where"),
    [
        (b"", "invalid_json", None),
        (b"secret", "invalid_json", None),
        (b'{"model":"m","input":"secret', "invalid_json", None),
        (b'{"model":"m","input":"\xff"}', "invalid_json", None),
        (b'{"model":"m","input":"\\ud800"}', "invalid_json", None),
        (b'{"model":"m","input":' + b"[" * 100_000, "invalid_json", None),
        (b'["secret"]', "invalid_type", None),
        (b'{"input":"a"}', "missing_required_parameter", "model"),
        (b'{"model":null,"input":"a"}', "invalid_type", "model"),
        (b'{"model":"","input":"a"}', "invalid_value", "model"),
        (b'{"model":1e999,"input":"a"}', "invalid_type", "model"),
        (b'{"model":"m"}', "missing_required_parameter", "input"),
        (b'{"model":"m","input":"a","privacy_profile":7}', "invalid_type", "privacy_profile"),
        (
            b'{"model":"m","input":"a","privacy_profile":"cloud_allowed","input":"b"}',
            "duplicate_member",
            "privacy_profile",
        ),
        (b'{"model":"m","input":null}', "invalid_type", "input"),
        (b'{"model":"m","input":7}', "invalid_type", "input"),
        (b'{"model":"m","input":{"secret":1}}', "invalid_type", "input"),
        (b'{"model":"m","input":""}', "empty_string", "input"),
        (b'{"model":"m","input":[]}', "empty_array", "input"),
        (b'{"model":"m","input":["secret",""]}', "empty_string", "input[1]"),
        (b'{"model":"m","input":["secret",null]}', "invalid_type", "input[1]"),
        (b'{"model":"m","input":["secret",[1]]}', "invalid_type", "input[1]"),
        (b'{"model":"m","input":[[1],"secret"]}', "invalid_type", "input[1]"),
        (b'{"model":"m","input":[[1],[]]}', "empty_array", "input[1]"),
        (b'{"model":"m","input":[[1],[-1]]}', "invalid_type", "input[1]"),
        (b'{"model":"m","input":[1,"secret"]}', "invalid_type", "input"),
        (b'{"model":"m","input":[1,2.5]}', "invalid_type", "input"),
        (b'{"model":"m","input":[1e999]}', "invalid_type", "input"),
        (b'{"model":"m","input":[true]}', "invalid_type", "input"),
        (b'{"model":"m","input":[null]}', "invalid_type", "input"),
        (b'{"model":"m","input":[{}]}', "invalid_type", "input"),
        (
            b'{"model":"m","input":"a","encoding_format":"secret"}',
            "invalid_value",
            "encoding_format",
        ),
        (b'{"model":"m","input":"a","encoding_format":1}', "invalid_type", "encoding_format"),
        (
            b'{"model":"m","input":"a","privacy_profile":"secret"}',
            "invalid_value",
            "privacy_profile",
        ),
    ],
)
def test_what_is_no_request_is_refused_by_its_place(
    body: bytes, code: str, where: str | None
) -> None:
    """The refusal names a code and the member, and never a value."""
    assert (code, where) == refusal(body)


def test_the_most_texts_are_read_and_one_more_is_refused() -> None:
    """The limit is that of OpenAI; tokens of one text are not counted by it."""
    assert INPUTS_MAX == len(read(input=["a"] * INPUTS_MAX).inputs)
    over = json.dumps({"model": "m", "input": ["a"] * (INPUTS_MAX + 1)}).encode()
    assert ("array_above_max_length", "input") == refusal(over)
    assert 1 == len(read(input=[1] * (INPUTS_MAX + 1)).inputs)


def test_the_last_of_a_member_that_stands_twice_counts() -> None:
    """It alone is passed on."""
    request = read_embedding_request(b'{"model":"m","input":"a","user":"u","user":"v","input":"b"}')
    assert (b'"b"',) == request.inputs
    assert {"user": b'"v"'} == request.members


def test_a_request_shows_nothing_of_its_texts() -> None:
    """Its description may stand in a log."""
    assert "secret" not in repr(read(input="secret", user="secret"))
