"""The official Python SDK raises its own exception for each failure."""

from __future__ import annotations

from functools import partial
from typing import Any

import openai
from openai import OpenAI

from tests.clients.programs.cases import BASE_URL, KEY, asked_upstream, raised, run_cases

CLIENT = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)


def ask(text: str, *, model: str = "echo", client: OpenAI = CLIENT, **members: Any) -> Any:
    """Ask one question."""
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": text}], **members
    )


def refused(text: str, **members: Any) -> openai.APIError:
    """Return the SDK's error for a question."""
    error = raised(lambda: list(ask(text, **members)))
    assert isinstance(error, openai.APIError), error
    return error


def case_statuses_have_their_classes() -> None:
    """Each status that a client can meet raises its class, with a code and a request id."""
    wanted = {
        "400": openai.BadRequestError,
        "404": openai.NotFoundError,
        "409": openai.ConflictError,
        "422": openai.UnprocessableEntityError,
        "429": openai.RateLimitError,
        "401": openai.InternalServerError,  # our key there, not the client's
        "403": openai.InternalServerError,
        "500": openai.InternalServerError,
        "503": openai.InternalServerError,
        "529": openai.InternalServerError,
        "302 location=http://127.0.0.1:1/": openai.InternalServerError,
    }
    for fault, kind in wanted.items():
        for stream in (False, True):
            model = f"at-{fault[:3]}{'-stream' if stream else ''}"
            error = refused(f"[[fault:{fault}]]", model=model, stream=stream)
            assert type(error) is kind, (fault, stream, error)
            assert isinstance(error, openai.APIStatusError)
            assert error.request_id, fault
            assert error.code, fault
            assert error.type, fault
            assert "double" not in str(error), fault


def case_a_wrong_key() -> None:
    """A key that is not known is refused."""
    stranger = OpenAI(base_url=BASE_URL, api_key="sk-wrong", max_retries=0)
    error = refused("x", client=stranger)
    assert type(error) is openai.AuthenticationError
    assert error.code == "invalid_api_key"
    assert type(raised(stranger.models.list)) is openai.AuthenticationError


def case_beyond_the_profile() -> None:
    """A model that lies beyond the profile is forbidden."""
    error = refused("x", model="far/auto")
    assert type(error) is openai.PermissionDeniedError
    assert "privacy_profile" == error.code


def case_too_long() -> None:
    """A body beyond the limit is refused before it is read."""
    error = refused("x" * 2_000_000)
    assert isinstance(error, openai.APIStatusError)
    assert 413 == error.status_code


def case_wrong_requests() -> None:
    """Requests that cannot be asked say which member is wrong."""
    for members, param in (
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"n": "two"}, "n"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ):
        error = refused("x", extra_body=members)
        assert type(error) is openai.BadRequestError, members
        assert error.param == param


def case_a_repeated_key_with_another_body() -> None:
    """One idempotency key stands for one request, and the conflict is not tried again."""
    headers = {"Idempotency-Key": "case-errors-1"}
    first = ask("one", extra_headers=headers)
    assert first.choices == ask("one", extra_headers=headers).choices
    calls = asked_upstream()["calls"]
    patient = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=2)
    error = refused("two", client=patient, extra_headers=headers)
    assert type(error) is openai.ConflictError
    assert calls == asked_upstream()["calls"]


def case_a_stream_that_breaks() -> None:
    """After the first chunk a failure is an error in the stream, and no finish is invented."""
    for fault in ("error=4", "reset=4", "close=4", "malformed=4", "error-choices=4", "hang=4"):
        chunks: list[Any] = []
        stream = ask(f"[[fault:{fault}]] one two three four five", stream=True)
        error: Any = raised(partial(chunks.extend, stream))
        assert type(error) is openai.APIError, (fault, error)
        assert error.code, fault
        assert [None] * len(chunks) == [c.choices[0].finish_reason for c in chunks], fault
        assert chunks, fault


def case_the_sdk_tries_again() -> None:
    """An SDK that may try again does so after a failure that may pass."""
    patient = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=2)
    text = "[[fault:503 times=1]] [[say:ok]]"
    assert ask(text, client=patient).choices[0].message.content == "ok"


if __name__ == "__main__":
    run_cases(globals())
