"""The official Python SDK at once: many answers and streams, and streams that are left."""

from __future__ import annotations

import asyncio
from typing import Any

from openai import AsyncOpenAI, DefaultAioHttpClient

from tests.clients.programs.cases import BASE_URL, KEY, asked_upstream, run_cases

MANY = 40


def client(**options: Any) -> AsyncOpenAI:
    """Return a client."""
    return AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, **options)


async def told(asking: AsyncOpenAI, text: str) -> str:
    """Return the joined text of a stream."""
    stream = await asking.chat.completions.create(
        model="echo", messages=[{"role": "user", "content": text}], stream=True
    )
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def case_many_streams_at_once() -> None:
    """Each gets its own text."""
    async with client() as asking:
        texts = [f"number {at}" for at in range(MANY)]
        answers = await asyncio.gather(*(told(asking, text) for text in texts))
    assert [f"You said: {text}" for text in texts] == answers


async def case_another_http_client() -> None:
    """The SDK over aiohttp gets the same."""
    async with client(http_client=DefaultAioHttpClient()) as asking:
        assert "You said: hello" == await told(asking, "hello")
        vectors = await asking.embeddings.create(model="text-embedding-3-small", input=["a", "b"])
    assert [0, 1] == [each.index for each in vectors.data]


async def case_many_embeddings_at_once() -> None:
    """Each gets its own vectors, and shares of usage that add up."""
    async with client() as asking:
        made = await asyncio.gather(
            *(
                asking.embeddings.create(model="text-embedding-3-small", input=[f"text {at}", "x"])
                for at in range(MANY)
            )
        )
        alone = await asking.embeddings.create(model="text-embedding-3-small", input=["text 7"])
    assert alone.data[0].embedding == made[7].data[0].embedding
    assert MANY * 3 == sum(each.usage.prompt_tokens for each in made)


async def case_a_stream_that_is_left_ends_upstream() -> None:
    """Whoever leaves in the middle is noticed upstream."""
    before = len(asked_upstream()["departures"])
    async with client() as asking:
        stream = await asking.chat.completions.create(
            model="echo",
            messages=[{"role": "user", "content": "[[fault:hang=3]] one two three"}],
            stream=True,
        )
        async for _ in stream:
            break
        await stream.close()
    await asyncio.to_thread(asked_upstream, departures=before + 1)


async def case_an_answer_that_is_left_ends_upstream() -> None:
    """Whoever leaves before a whole answer is noticed upstream, too."""
    state = asked_upstream()
    calls, departures = state["calls"], len(state["departures"])
    async with client() as asking:
        waiting = asyncio.create_task(
            asking.chat.completions.create(
                model="echo", messages=[{"role": "user", "content": "[[fault:hang]]"}]
            )
        )
        await asyncio.to_thread(asked_upstream, calls=calls + 1)
        waiting.cancel()
        await asyncio.wait({waiting})
    await asyncio.to_thread(asked_upstream, departures=departures + 1)


if __name__ == "__main__":
    run_cases(globals())
