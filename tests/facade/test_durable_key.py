"""The headers by which a client has its call kept."""

from __future__ import annotations

import pytest

from casework.errors import InvalidRequest
from casework.facade.durable_calls import CHARACTERS_MAX, DurableKey, durable_key

KEY = b"idempotency-key"
CASE = b"x-casework-case"
OPERATION = b"x-casework-operation"


def test_the_headers_name_key_case_and_operation() -> None:
    """Names are UTF-8, without the spaces around them; case and operation may be left out."""
    headers = {KEY: b" k-1 ", CASE: "Fälle 7".encode(), OPERATION: b"summary"}
    assert DurableKey(
        client="alice", idempotency_key="k-1", case_id="Fälle 7", operation="summary"
    ) == durable_key(headers, client="alice", stream=False)
    assert DurableKey(client="alice", idempotency_key="k" * CHARACTERS_MAX) == durable_key(
        {KEY: b"k" * CHARACTERS_MAX}, client="alice", stream=False
    )


def test_a_call_without_the_header_is_not_kept() -> None:
    """Streams and plain calls alike."""
    assert [None, None] == [durable_key({}, client="a", stream=stream) for stream in (True, False)]


@pytest.mark.parametrize(
    ("headers", "where"),
    [
        ({KEY: b""}, KEY),
        ({KEY: b"  "}, KEY),
        ({KEY: b"k" * (CHARACTERS_MAX + 1)}, KEY),
        ({KEY: b"a\x00b"}, KEY),
        ({KEY: b"a\tb"}, KEY),
        ({KEY: b"\xff"}, KEY),
        ({KEY: "a\u202eb".encode()}, KEY),
        ({KEY: b"k", CASE: b""}, CASE),
        ({KEY: b"k", OPERATION: b"\x7f"}, OPERATION),
        ({CASE: b"c"}, CASE),
        ({OPERATION: b"o"}, OPERATION),
    ],
)
def test_what_names_nothing_is_refused_by_the_name_of_the_header(
    headers: dict[bytes, bytes], where: bytes
) -> None:
    """Nothing is guessed and nothing is cut; the value is not repeated."""
    with pytest.raises(InvalidRequest) as caught:
        durable_key(headers, client="alice", stream=False)
    assert ("invalid_header", where.decode()) == (caught.value.code, caught.value.where)


def test_a_stream_cannot_be_kept_and_the_way_out_is_told() -> None:
    """The refusal says what to send in its place."""
    with pytest.raises(InvalidRequest, match='send "stream": false with the key') as caught:
        durable_key({KEY: b"k"}, client="alice", stream=True)
    assert "idempotency_stream" == caught.value.code
