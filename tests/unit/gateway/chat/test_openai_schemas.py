"""The schemas that answers are held against do refuse what they should."""

from __future__ import annotations

import pytest

from tests.support.openai_schemas import ANSWER, CHUNK, ERROR, violations

CHOICE = {
    "index": 0,
    "finish_reason": "stop",
    "logprobs": None,
    "message": {"role": "assistant", "content": "a", "refusal": None},
}
WHOLE = {"id": "i", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}


def test_a_whole_answer_is_valid() -> None:
    """What OpenAI itself would send passes."""
    assert [] == violations(WHOLE, ANSWER)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_member_that_must_be_there_is_missed(name: str) -> None:
    """Each member that the schema requires is required."""
    assert violations({n: v for n, v in WHOLE.items() if n != name}, ANSWER)


def test_null_is_valid_where_the_schema_says_so_and_nowhere_else() -> None:
    """A usage may be null in a chunk, and not in a whole answer."""
    chunk = {**WHOLE, "object": "chat.completion.chunk", "choices": [], "usage": None}
    assert [] == violations(chunk, CHUNK)
    assert violations({**WHOLE, "usage": None}, ANSWER)


def test_an_error_has_its_four_members() -> None:
    """An error without a param is none."""
    error = {"type": "t", "message": "m", "param": None, "code": None}
    assert [] == violations({"error": error}, ERROR)
    assert violations({"error": {"type": "t", "message": "m", "code": None}}, ERROR)
