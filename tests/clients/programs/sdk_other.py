"""The official Python SDK asks for embeddings and models."""

from __future__ import annotations

from typing import Any

import openai
from openai import OpenAI

from tests.clients.programs.cases import BASE_URL, KEY, last_request, raised, run_cases

CLIENT = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)
MODEL = "text-embedding-3-small"


def embed(given: Any, **members: Any) -> Any:
    """Return the answer to an embeddings request."""
    return CLIENT.embeddings.create(model=MODEL, input=given, **members)


def case_numbers_and_base64_are_the_same() -> None:
    """The SDK asks for base64 by itself; numbers are the same vector."""
    packed, plain = embed("hello"), embed("hello", encoding_format="float")
    assert packed.data[0].embedding == plain.data[0].embedding
    assert 8 == len(plain.data[0].embedding)
    assert MODEL == plain.model


def case_whatever_the_upstream_answers() -> None:
    """Numbers where base64 was asked for, and base64 where numbers were, are put right."""
    for fault in ("float", "base64"):
        for asked in ("float", "base64"):
            made = embed(f"[[fault:vectors={fault}]]", encoding_format=asked)
            assert isinstance(made.data[0].embedding, str if asked == "base64" else list)


def case_order_is_by_index() -> None:
    """An upstream that shuffles changes nothing."""
    texts = ["[[fault:order=2-0-1]] a", "b", "c"]
    made = embed(texts, encoding_format="float")
    assert [0, 1, 2] == [each.index for each in made.data]
    alone = [embed([text]).data[0].embedding for text in texts[1:]]
    assert alone == [each.embedding for each in made.data[1:]]


def case_tokens() -> None:
    """Token arrays pass, one and many."""
    assert 1 == len(embed([1, 2, 3]).data)
    made = embed([[1, 2, 3], [4]], dimensions=4, user="u1")
    assert [4, 4] == [len(each.embedding) for each in made.data]
    sent = last_request()
    assert ([[1, 2, 3], [4]], 4, "u1") == (sent["input"], sent["dimensions"], sent["user"])


def case_usage_is_the_upstreams() -> None:
    """Tokens are counted as the upstream counts them."""
    assert 3 == embed(["one two", "three"]).usage.prompt_tokens


def case_models_are_listed() -> None:
    """Aliases and discovered models are in one list."""
    listed = {model.id for model in CLIENT.models.list()}
    assert {"echo", "gpt-6-astra", MODEL} <= listed


def case_models_with_difficult_ids() -> None:
    """Slashes, colons and spaces are part of an id."""
    for name in ("org/name", "org/name:tag", "a model", "ft:gpt:x::id"):
        assert name == CLIENT.models.retrieve(name).id
        answer = CLIENT.chat.completions.create(
            model=name, messages=[{"role": "user", "content": "x"}]
        )
        assert name == answer.model


def case_no_such_model() -> None:
    """An unknown id is told as such."""
    question: Any = [{"role": "user", "content": "x"}]
    for ask in (
        lambda: CLIENT.models.retrieve("nobody/has:this"),
        lambda: CLIENT.chat.completions.create(model="unheard-of", messages=question),
    ):
        error: Any = raised(ask)
        assert type(error) is openai.NotFoundError
        assert error.code == "model_not_found"


if __name__ == "__main__":
    run_cases(globals())
