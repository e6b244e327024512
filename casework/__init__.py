"""Casework: LLM operations over cases, durable, checkpointed and under a privacy ceiling.

The names below are the public face. They load on first use, so that ``import casework`` costs
nothing and starts nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from casework.checkpoints.store import CheckpointStore
    from casework.checkpoints.verify import verify
    from casework.config.gateway_config import GatewayConfig
    from casework.errors import (
        CaseworkError,
        CheckpointError,
        ConfigurationError,
        GatewayError,
        LockBusy,
        OperationConflict,
        RunnerError,
        StaleGeneration,
    )
    from casework.gateway.llm_gateway import LLMGateway
    from casework.prompts.prompt_builder import PromptBuilder
    from casework.runner.case_builder import CaseBuilder
    from casework.runner.case_runner import CaseLLMRunner
    from casework.runner.operation import ResultStatus
    from casework.runner.operation_result import OperationResult
    from casework.runner.pipeline import Operation, Pipeline

_HOMES: Final = {
    "CaseBuilder": "casework.runner.case_builder",
    "CaseLLMRunner": "casework.runner.case_runner",
    "CaseworkError": "casework.errors",
    "CheckpointError": "casework.errors",
    "CheckpointStore": "casework.checkpoints.store",
    "ConfigurationError": "casework.errors",
    "GatewayConfig": "casework.config.gateway_config",
    "GatewayError": "casework.errors",
    "LLMGateway": "casework.gateway.llm_gateway",
    "LockBusy": "casework.errors",
    "Operation": "casework.runner.pipeline",
    "OperationConflict": "casework.errors",
    "OperationResult": "casework.runner.operation_result",
    "Pipeline": "casework.runner.pipeline",
    "PromptBuilder": "casework.prompts.prompt_builder",
    "ResultStatus": "casework.runner.operation",
    "RunnerError": "casework.errors",
    "StaleGeneration": "casework.errors",
    "verify": "casework.checkpoints.verify",
}

__all__ = [
    "CaseBuilder",
    "CaseLLMRunner",
    "CaseworkError",
    "CheckpointError",
    "CheckpointStore",
    "ConfigurationError",
    "GatewayConfig",
    "GatewayError",
    "LLMGateway",
    "LockBusy",
    "Operation",
    "OperationConflict",
    "OperationResult",
    "Pipeline",
    "PromptBuilder",
    "ResultStatus",
    "RunnerError",
    "StaleGeneration",
    "verify",
]


def __getattr__(name: str) -> object:
    """Load a name of the public face on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'casework' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public face."""
    return sorted({*globals(), *__all__})
