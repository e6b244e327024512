"""Answers with vectors: whose vector is whose is never guessed, and OpenAI's shape is kept."""

from __future__ import annotations

import json
import struct
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.chat.calls import EmbeddingReply
from casework.gateway.embeddings.answers import EmbeddingAnswer, judge_embeddings
from casework.gateway.embeddings.vectors import read_vector
from casework.gateway.errors import FailureKind
from casework.gateway.messages import Usage
from casework.gateway.plan import Accepted, Rejected
from tests.support.openai_schemas import EMBEDDINGS, violations

USAGE = {"prompt_tokens": 7, "total_tokens": 7}


def item(index: object, embedding: object) -> dict[str, object]:
    """Return one item of a reply."""
    return {"object": "embedding", "index": index, "embedding": embedding}


def reply(*items: object, **members: object) -> EmbeddingReply:
    """Return a reply with these items."""
    body = {"object": "list", "data": items, "model": "upstream", "usage": USAGE, **members}
    return EmbeddingReply(body=json.dumps(body).encode(), dropped=("user",))


def accepted(given_reply: EmbeddingReply, inputs: int) -> EmbeddingAnswer:
    """Return the answer of a reply that is one."""
    verdict = judge_embeddings(given_reply, inputs)
    assert isinstance(verdict, Accepted)
    assert verdict.usage == verdict.answer.usage
    return verdict.answer


def lists(answer: EmbeddingAnswer) -> list[object]:
    """Return the vectors as numbers."""
    return [json.loads(vector.as_list()) for vector in answer.vectors]


@given(st.permutations(range(5)))
def test_vectors_stand_in_the_order_of_their_indexes(order: list[int]) -> None:
    """An item belongs to the input that its index names, wherever it stands."""
    answer = accepted(reply(*(item(index, [index, 0.5]) for index in order)), 5)
    assert [[index, 0.5] for index in range(5)] == lists(answer)
    assert Usage(7, None, 7) == answer.usage
    assert ("user",) == answer.dropped


def test_the_index_of_the_first_may_be_left_out() -> None:
    """Servers that write no zeros leave out just that one; null is the same."""
    left_out = {"object": "embedding", "embedding": [1]}
    assert [[1]] == lists(accepted(reply(left_out), 1))
    assert [[1], [2]] == lists(accepted(reply(item(1, [2]), left_out), 2))
    assert [[3]] == lists(accepted(reply(item(None, [3])), 1))


@pytest.mark.parametrize(
    "items",
    [
        (),
        (item(0, [1]),),
        (item(0, [1]), item(0, [2])),
        (item(0, [1]), item(2, [2])),
        (item(1, [1]), item(2, [2])),
        (item(0, [1]), item(-1, [2])),
        (item(0, [1]), item(1, [2]), item(1, [2])),
        (item(0, [1]), item(1, [2]), item(2, [3])),
        ({"embedding": [1]}, {"embedding": [2]}),
        (item(0, [1]), {"embedding": [2]}),
        (item("0", [1]), item(1, [2])),
        (item(0.5, [1]), item(1, [2])),
        (item(False, [1]), item(1, [2])),
        (item(0, [1]), item(1, None)),
        (item(0, [1]), item(1, [])),
        (item(0, [1]), item(1, [[2]])),
        (item(0, [1]), item(1, "???")),
        (item(0, [1]), {"index": 1}),
        (item(0, [1]), None),
    ],
)
def test_a_reply_that_is_not_one_vector_for_each_input_is_malformed(
    items: tuple[object, ...],
) -> None:
    """Too few, too many, twice the same, not asked for, or no vector at all."""
    verdict = judge_embeddings(reply(*items), 2)
    assert isinstance(verdict, Rejected)
    assert FailureKind.MALFORMED_RESPONSE == verdict.kind


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'{"data": null}',
        b'{"data": {"0": 1}}',
        b'{"error": {"message": "overloaded"}}',
        b'{"data": [{"index": 0, "embedding": ' + b"[" * 100_000,
        b'{"data": [{"index": 99999999999999999999999, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [NaN]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}], "error": {"message": "overloaded"}}',
        b'{"error": {"code": "\xff"}}',
        b'{"error": {"\xff": "x"}}',
        b'{"error": {"code": "\\ud800"}}',
        b'{"data": [{"index": 0, "embedding": [1]}], "usage": {"prompt_tokens": 1, "\xff": 2}}',
        b'{"data": [{"index": 0, "embedding": "\xff"}]}',
    ],
)
def test_what_is_no_list_of_vectors_is_malformed(body: bytes) -> None:
    """Broken or other JSON, and an error under a good status."""
    expected = Rejected(FailureKind.MALFORMED_RESPONSE)
    assert expected == judge_embeddings(EmbeddingReply(body=body), 1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "m", "code": "rate_limit_exceeded"}, FailureKind.HTTP_429),
        ({"message": "m", "code": 503}, FailureKind.HTTP_5XX),
        ({"message": "m", "type": "authentication_error"}, FailureKind.AUTH_ERROR),
        ({"message": "m"}, FailureKind.MALFORMED_RESPONSE),
        ("m", FailureKind.MALFORMED_RESPONSE),
    ],
)
def test_an_error_under_a_good_status_is_the_failure_it_names(
    error: object, kind: FailureKind
) -> None:
    """Its codes are read, whatever stands beside it."""
    assert Rejected(kind) == judge_embeddings(reply(item(0, [1]), error=error), 1)


def test_tokens_of_a_malformed_reply_are_known() -> None:
    """They were paid for, whatever they brought."""
    expected = Rejected(FailureKind.MALFORMED_RESPONSE, Usage(7, None, 7))
    assert expected == judge_embeddings(reply(item(4, [1])), 1)


def test_a_mark_at_the_start_and_an_empty_error_do_no_harm() -> None:
    """Byte order mark and ``error: null`` are passed over."""
    body = b'\xef\xbb\xbf{"data":[{"index":0,"embedding":[1]}],"error":null}'
    assert [[1]] == lists(accepted(EmbeddingReply(body=body), 1))


@pytest.mark.parametrize("usage", [None, {}, [], "7", {"prompt_tokens": "7"}, {"total_tokens": -1}])
def test_an_odd_usage_is_unknown_and_left_out(usage: object) -> None:
    """Nothing is put in its place, least of all zero."""
    answer = accepted(reply(item(0, [1]), usage=usage), 1)
    assert answer.usage is None
    assert "usage" not in json.loads(answer.body("m", "float"))


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 0, "total_tokens": 0}, (0, 0)),
        ({"prompt_tokens": 7, "total_tokens": 9}, (7, 9)),
        ({"prompt_tokens": 7}, (7, 7)),
        ({"total_tokens": 7}, (7, 7)),
    ],
)
def test_usage_is_told_as_the_server_tells_it(usage: dict[str, int], told: tuple[int, int]) -> None:
    """A count of 0 is one; where one of two is missing, the other is it."""
    answer = accepted(reply(item(0, [1]), usage=usage), 1)
    expected = dict(zip(("prompt_tokens", "total_tokens"), told, strict=True))
    body = json.loads(answer.body("m", "float"))
    assert expected == body["usage"]
    assert [] == violations(body, EMBEDDINGS)


def test_the_body_is_the_one_that_official_clients_expect() -> None:
    """Items in order with their own indexes, and the client's name of the model."""
    answer = accepted(reply(item(1, [0.25]), item(0, [-1])), 2)
    expected = {
        "object": "list",
        "data": [item(0, [-1]), item(1, [0.25])],
        "model": 'a/b:"c"',
        "usage": USAGE,
    }
    body = answer.body('a/b:"c"', "float")
    assert expected == json.loads(body)
    assert [] == violations(json.loads(body), EMBEDDINGS)


@pytest.mark.parametrize("written", ["[0.5,-2.0]", '"AAAAPwAAAMA="'])
def test_the_client_gets_the_encoding_it_asked_for(written: str) -> None:
    """Whichever way the server writes, both ways can be told."""
    answer = EmbeddingAnswer(vectors=(read_vector(written.encode()),), usage=None)
    assert [0.5, -2.0] == json.loads(answer.body("m", "float"))["data"][0]["embedding"]
    packed = json.loads(answer.body("m", "base64"))["data"][0]["embedding"]
    assert (0.5, -2.0) == struct.unpack("<2f", b64decode(packed))
