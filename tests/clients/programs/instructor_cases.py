"""instructor: classes come back filled, by tools and by schema, whole and in parts."""

from __future__ import annotations

import asyncio
from enum import StrEnum

import instructor
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel, Field

from tests.clients.programs.cases import BASE_URL, KEY, run_cases


class Level(StrEnum):
    """How severe a report is."""

    LOW = "low"
    HIGH = "high"


class Place(BaseModel):
    """Where it happened."""

    name: str
    floor: int = Field(ge=1, le=9)


class Report(BaseModel):
    """What is read out of a text."""

    level: Level
    places: list[Place]
    note: str | None = None


MODES = (instructor.Mode.TOOLS, instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA)


def case_each_mode() -> None:
    """By a tool, by JSON and by schema."""
    for mode in MODES:
        client = instructor.from_openai(
            OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0), mode=mode
        )
        text = "read"
        if mode is instructor.Mode.JSON:
            text = '[[say:{"level": "low", "places": [{"name": "text", "floor": 1}]}]]'
        made = client.chat.completions.create(
            model="echo",
            response_model=Report,
            max_retries=0,
            messages=[{"role": "user", "content": text}],
        )
        assert made.level is Level.LOW, mode
        assert made.places == [Place(name="text", floor=1)], mode


def case_in_parts() -> None:
    """A class grows while its answer is streamed."""
    client = instructor.from_openai(OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0))
    parts = list(
        client.chat.completions.create_partial(
            model="echo",
            response_model=Place,
            messages=[{"role": "user", "content": "read"}],
        )
    )
    assert len(parts) > 1
    assert parts[-1].name == "text"


def case_async() -> None:
    """The asynchronous client gets the same."""

    async def ask() -> Report:
        client = instructor.from_openai(AsyncOpenAI(base_url=BASE_URL, api_key=KEY))
        made: Report = await client.chat.completions.create(
            model="echo",
            response_model=Report,
            messages=[{"role": "user", "content": "read"}],
        )
        return made

    assert asyncio.run(ask()).places[0].name == "text"


if __name__ == "__main__":
    run_cases(globals())
