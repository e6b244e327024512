"""A process that holds one case: it says ``called`` in its provider and answers when told to."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import ProviderCall
from casework.gateway.providers.scripted import Computed, ScriptedProvider
from casework.runner.case_runner import CaseLLMRunner
from tests.crash.scenario import SETTINGS
from tests.support.scripted_line import request


def wait_for_word(_call: ProviderCall) -> str:
    """Say that the call was made, then stand still until the parent sends a line."""
    print("called", flush=True)
    sys.stdin.readline()
    return '{"answer": "from the child"}'


def main() -> None:
    """Run one operation of the case named on the command line, and print its status."""
    root, case_id = Path(sys.argv[1]), sys.argv[2]
    provider = ScriptedProvider([Computed(wait_for_word)])
    gateway = LLMGateway(GatewayConfig.parse(SETTINGS), adapters={"noted": lambda _: provider})
    store = CheckpointStore(root / "runtime")
    head = store.open(case_id)
    runner = CaseLLMRunner(store, gateway)
    result = asyncio.run(
        runner.run(case_id, head.package_id, operation_id="extract", request=request())
    )
    print(result.status.value, flush=True)


if __name__ == "__main__":
    main()
