"""pydantic-ai: agents that answer, call tools, fill classes and stream."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.programs.cases import BASE_URL, KEY, raised, run_cases

PROVIDER = OpenAIProvider(base_url=BASE_URL, api_key=KEY)
MODEL = OpenAIChatModel("echo", provider=PROVIDER)


class Answer(BaseModel):
    """What an agent returns."""

    city: str
    degrees: int


def case_text() -> None:
    """An agent answers in text, with usage."""
    run = Agent(MODEL, instructions="Be brief.").run_sync("hello")
    assert run.output == "You said: hello"
    assert run.usage.output_tokens > 0


def case_tools_then_a_class() -> None:
    """An agent calls a tool first, and fills its class then."""
    called: list[str] = []

    def weather(city: str) -> int:
        """Tell the degrees of a city."""
        called.append(city)
        return 21

    agent = Agent(MODEL, output_type=Answer, tools=[weather])
    run = agent.run_sync("use weather")
    assert called == ["text"]
    assert run.output == Answer(city="text", degrees=1)


def case_streamed() -> None:
    """An agent's text arrives in pieces."""

    async def read() -> list[str]:
        async with Agent(MODEL).run_stream("one two three") as run:
            return [text async for text in run.stream_text(delta=True, debounce_by=None)]

    pieces = asyncio.run(read())
    assert "".join(pieces) == "You said: one two three"
    assert len(pieces) > 1


def case_history() -> None:
    """A second question carries the first."""
    agent = Agent(MODEL)
    first = agent.run_sync("one")
    second = agent.run_sync("two", message_history=first.all_messages())
    assert second.output == "You said: two"
    assert len(second.all_messages()) == 4


def case_failed() -> None:
    """A failure comes out with its status."""
    model = OpenAIChatModel("unheard-of", provider=PROVIDER)
    error = raised(lambda: Agent(model).run_sync("hello"))
    assert isinstance(error, ModelHTTPError)
    assert error.status_code == 404


if __name__ == "__main__":
    run_cases(globals())
