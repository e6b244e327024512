"""Calls of clients kept in packages, over providers that speak chat and play a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from casework.checkpoints.disk import Disk
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify
from casework.config.gateway_config import GatewayConfig
from casework.facade.durable_calls import DurableKey, KeptAnswer, KeptRefusal, KeptReply
from casework.gateway.chat.calls import ChatCall, ChatReply, EventStream
from casework.gateway.chat.request import ChatRequest, read_chat_request
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import ProviderFailure
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import Credential, ProviderCall, ProviderReply
from casework.gateway.scope import UNBOUNDED, Scope
from casework.runner.case_runner import CaseLLMRunner
from casework.runtime.http.durable_calls import PackagedCalls
from casework.runtime.run.disk_threads import DiskThreads
from casework.strict_json import JSONObject

Step: TypeAlias = "ChatReply | ProviderFailure | asyncio.Event"
"""What a call comes to; an event is waited for, and the step after it decides."""

SETTINGS: Final = """
privacy_profile = "cloud_allowed"
[interactive]
max_retries = 0
[[providers]]
id = "remote"
adapter = "noted"
class = "cloud"
model = "m"
rates = { input_per_million = 1.0, output_per_million = 2.0 }
"""

COMPLETION: Final = (
    '{"id": "c-1", "object": "chat.completion", "created": 1700000000, "model": "m-2024",'
    ' "choices": [{"index": 0, "finish_reason": "stop", "logprobs": null,'
    ' "message": {"role": "assistant", "content": "Grüße", "refusal": null}}],'
    ' "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}, "x_vendor": 1.00}'
)


def completion(text: str = "yes") -> ChatReply:
    """Return a whole answer with this content."""
    body = json.loads(COMPLETION)
    body["choices"][0]["message"]["content"] = text
    return ChatReply(body=json.dumps(body).encode())


class NotedChat:
    """Speaks chat by a script, whose last step is repeated.

    Args:
        steps: What each call comes to.
        observe: Told ``("call", "before")`` and ``("call", "after")``.
    """

    def __init__(
        self, steps: Sequence[Step], observe: Callable[[str, str], None] = lambda *_: None
    ) -> None:
        self._steps = list(steps)
        self._observe = observe
        self.calls: list[ChatCall] = []
        self.asked = asyncio.Event()

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        """Note the call, then play the next step."""
        self._observe("call", "before")
        self.calls.append(call)
        self.asked.set()
        step = self._next()
        if isinstance(step, asyncio.Event):
            await step.wait()
            step = self._next()
        self._observe("call", "after")
        if isinstance(step, ChatReply):
            return step
        assert isinstance(step, ProviderFailure)
        raise step

    async def open_stream(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EventStream:
        """Never asked for."""
        raise AssertionError("streams are not kept")

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Never asked for."""
        raise AssertionError("this provider speaks chat")

    async def aclose(self) -> None:
        """Nothing is held."""

    def _next(self) -> Step:
        return self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]


class Kept:
    """Everything one test needs to make calls that are kept.

    Args:
        root: Folder of the project.
        steps: What each call to the one provider comes to.
        settings: TOML of the gateway.
        clock: The time.
        disk: The file system calls.
    """

    def __init__(
        self,
        root: Path,
        steps: Sequence[Step] = (),
        *,
        settings: str = SETTINGS,
        clock: ManualClock | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.root = root
        self.clock = clock or ManualClock()
        self.provider = NotedChat(steps or [completion()])
        self.config = GatewayConfig.parse(settings)
        self.gateway = LLMGateway(
            self.config,
            adapters={"noted": lambda _: self.provider},
            clock=self.clock,
            chance=lambda: 0.0,
        )
        self.store = CheckpointStore(root / "runtime", now=self.clock.now, disk=disk)
        threads = DiskThreads(2)
        self.calls = PackagedCalls(
            self.store,
            CaseLLMRunner(
                self.store, self.gateway, executor=threads.ending, opening=threads.beginning
            ),
            self.gateway.interactive,
            threads=threads,
            clock=self.clock,
            deadline_seconds=self.config.interactive.deadline_seconds,
        )

    async def answer(
        self,
        request: ChatRequest | None = None,
        key: str = "k-1",
        *,
        client: str = "alice",
        case: str | None = None,
        operation: str | None = None,
        scope: Scope = UNBOUNDED,
    ) -> KeptReply:
        """Make a call, or get what it came to."""
        named = DurableKey(client=client, idempotency_key=key, case_id=case, operation=operation)
        return await self.calls.answer(request or chat_request(), scope=scope, key=named)

    def outcomes(self, case_id: str = "call:alice:k-1") -> list[JSONObject]:
        """Return every outcome file of a package."""
        folder = self.store.package_folder(case_id)
        paths = sorted(folder.glob("llm/operations/*/outcome-*.json"))
        return [json.loads(path.read_bytes()) for path in paths]

    def request_file(self, case_id: str = "call:alice:k-1") -> JSONObject:
        """Return the one recorded request of a package."""
        folder = self.store.package_folder(case_id)
        (path,) = folder.glob("llm/operations/*/request.json")
        found: JSONObject = json.loads(path.read_bytes())
        return found

    def assert_verifies(self, case_id: str = "call:alice:k-1") -> None:
        """Demand that the oracle finds nothing wrong."""
        report = verify(self.store.package_folder(case_id))
        assert report.ok, report.findings


def chat_request(text: str = "hello", model: str = "auto", **members: object) -> ChatRequest:
    """Return a request as a client sends it."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], **members}
    return read_chat_request(json.dumps(body).encode(), engine="jsonschema-rs")


def answered(reply: KeptReply) -> KeptAnswer:
    """Demand an answer."""
    assert isinstance(reply, KeptAnswer), reply
    return reply


def refused(reply: KeptReply) -> KeptRefusal:
    """Demand a refusal."""
    assert isinstance(reply, KeptRefusal), reply
    return reply
