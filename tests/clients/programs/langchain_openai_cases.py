"""langchain-openai: chat, streams, tools, structured answers and embeddings."""

from __future__ import annotations

import asyncio

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, SecretStr

from tests.clients.programs.cases import BASE_URL, KEY, last_request, run_cases

CHAT = ChatOpenAI(
    model="echo", base_url=BASE_URL, api_key=SecretStr(KEY), max_retries=0, stream_usage=True
)


class Person(BaseModel):
    """What a structured answer holds."""

    name: str
    age: int


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"warm in {city}"


TOOL = tool(weather)


def case_whole() -> None:
    """A message comes back, with usage and the model's name."""
    answer = CHAT.invoke([SystemMessage("Be brief."), HumanMessage("hello")])
    assert answer.content == "You said: hello"
    assert answer.usage_metadata
    assert answer.usage_metadata["total_tokens"] > 0
    assert answer.response_metadata["model_name"] == "echo"


def case_streamed() -> None:
    """Chunks add up to a message, with usage at the end."""
    total = None
    for chunk in CHAT.stream("hello"):
        total = chunk if total is None else total + chunk
    assert total is not None
    assert total.content == "You said: hello"
    assert total.usage_metadata


def case_async_batch() -> None:
    """Several questions at once get their own answers."""
    answers = asyncio.run(CHAT.abatch([f"number {at}" for at in range(5)]))
    assert [a.content for a in answers] == [f"You said: number {at}" for at in range(5)]


def case_tools() -> None:
    """A tool is called, and its result is answered."""
    bound = CHAT.bind_tools([TOOL])
    asked = HumanMessage("the weather, please")
    first = bound.invoke([asked])
    assert [call["name"] for call in first.tool_calls] == ["weather"]
    results = [
        ToolMessage(TOOL.invoke(call["args"]), tool_call_id=call["id"]) for call in first.tool_calls
    ]
    assert bound.invoke([asked, first, *results]).content == "The tool said: warm in text"


def case_tools_streamed() -> None:
    """Fragments of a call add up to it."""
    total = None
    for chunk in CHAT.bind_tools([TOOL], tool_choice="any").stream("anything"):
        total = chunk if total is None else total + chunk
    assert total is not None
    assert [(c["name"], c["args"]) for c in total.tool_calls] == [("weather", {"city": "text"})]


def case_structured() -> None:
    """A class comes back filled, by schema and by tool."""
    for method in ("json_schema", "function_calling"):
        made = CHAT.with_structured_output(Person, method=method).invoke("who?")
        assert made == Person(name="text", age=1), method


def case_embeddings() -> None:
    """Documents and a query get their vectors."""
    made = OpenAIEmbeddings(
        model="text-embedding-3-small",
        base_url=BASE_URL,
        api_key=SecretStr(KEY),
        check_embedding_ctx_length=False,
        max_retries=0,
    )
    vectors = made.embed_documents(["one", "two"])
    assert made.embed_query("two") == vectors[1]
    assert last_request()["input"] == ["two"]


if __name__ == "__main__":
    run_cases(globals())
