"""The work that the crash suites interrupt: three operations of one case, through every state."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from casework.checkpoints.disk import Disk
from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.gateway.clock import MANUAL_START, Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import Credential, Finish, ProviderCall, ProviderReply
from casework.runner.case_runner import CaseLLMRunner
from casework.runner.operation import ResultStatus
from tests.support.scripted_line import request

CASE = "case-1"
OPERATIONS = {"answers": 1, "fails": 1, "recovers": 2}
"""Operation ids and how many calls each needs when nothing goes wrong."""

CALLS = sum(OPERATIONS.values())

SETTINGS = """
privacy_profile = "cloud_allowed"
[[providers]]
id = "remote"
adapter = "noted"
model = "m"
rates = { input_per_million = 1.0, output_per_million = 2.0 }
"""


class NotedProvider:
    """Answers by operation, and notes each call in a file that outlives the process.

    Args:
        notes: File with one line for each call that was begun.
        observe: Told ``("call", "before")`` and ``("call", "after")``.
    """

    def __init__(self, notes: Path, observe: Callable[[str, str], None]) -> None:
        self._notes = notes
        self._observe = observe

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Note the call, then answer as the operation's script says."""
        self._observe("call", "before")
        operation = call.messages[-1].content
        earlier = calls_noted(self._notes).count(operation)
        descriptor = os.open(self._notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, operation.encode() + b"\n")
        os.close(descriptor)
        self._observe("call", "after")
        if operation == "fails":
            raise ProviderFailure(FailureKind.AUTH_ERROR, http_status=401)
        if operation == "recovers" and earlier == 0:
            raise ProviderFailure(FailureKind.HTTP_5XX, http_status=503)
        return ProviderReply(text='{"answer": "yes"}', finish=Finish.STOP)

    async def aclose(self) -> None:
        """Nothing is held."""


def calls_noted(notes: Path) -> list[str]:
    """Return the operations asked for, in order."""
    return notes.read_text().splitlines() if notes.exists() else []


def open_store(root: Path, disk: Disk, clock: ManualClock) -> CheckpointStore:
    """Open the project's store on a given disk."""
    return CheckpointStore(root / "runtime", now=clock.now, disk=disk)


def play(
    root: Path,
    disk: Disk,
    observe: Callable[[str, str], None],
    *,
    hours_later: int = 0,
    case_id: str = CASE,
) -> dict[str, ResultStatus]:
    """Create the case if it is not there, and run every operation until it is settled."""
    clock = ManualClock(MANUAL_START + timedelta(hours=hours_later))
    provider = NotedProvider(root / "calls.txt", observe)
    gateway = LLMGateway(
        GatewayConfig.parse(SETTINGS), adapters={"noted": lambda _: provider}, clock=clock
    )
    store = open_store(root, disk, clock)
    store.prove()
    head = store.create(case_id, {"report.txt": b"The pump failed twice."})
    runner = CaseLLMRunner(store, gateway)

    async def settle() -> dict[str, ResultStatus]:
        statuses = {}
        for operation in OPERATIONS:
            while True:
                result = await runner.run(
                    case_id, head.package_id, operation_id=operation, request=request(operation)
                )
                statuses[operation] = result.status
                if result.due_at is None:
                    break
                clock.advance(60)
        return statuses

    return asyncio.run(settle())


EXPECTED = {
    "answers": ResultStatus.SUCCESS,
    "fails": ResultStatus.ERROR,
    "recovers": ResultStatus.SUCCESS,
}
