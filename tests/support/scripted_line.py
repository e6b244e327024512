"""A store, a gateway over scripted providers and a runner, all on one manual clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify
from casework.config.gateway_config import GatewayConfig
from casework.gateway.clock import ManualClock
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import LLMRequest, Message, Usage
from casework.gateway.providers.scripted import Fail, Reply, ScriptedProvider, Step
from casework.runner.case_runner import CaseLLMRunner
from casework.runner.operation_result import OperationResult
from casework.strict_json import JSON, JSONObject

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "at": {"type": "string", "format": "date-time"}},
    "required": ["answer"],
}
GOOD = Reply('{"answer": "yes"}', usage=Usage(120, 31, 151))
DOWN = Fail(FailureKind.HTTP_5XX, http_status=503)


def request(text: str = "The pump failed twice.", **changes: object) -> LLMRequest:
    """Return a small request about a document."""
    fields: dict[str, object] = {
        "messages": (Message("system", "Answer in JSON."), Message("user", text)),
        "output_schema": SCHEMA,
        "prompt_version": "test_v1",
        "prompt_sha256": "0" * 64,
    }
    return LLMRequest(**{**fields, **changes})  # type: ignore[arg-type]


def objects(value: JSON) -> list[JSONObject]:
    """Return a JSON array of objects as one."""
    assert isinstance(value, list)
    return [item for item in value if isinstance(item, dict)]


class Line:
    """Everything one test needs to drive operations.

    Args:
        root: Folder of the project.
        scripts: Steps of each provider, in the order in which rounds ask them.
        settings: TOML put before the providers.
        entry: TOML put into each provider's entry.
        clock: Shared with another line, to play a second process.
    """

    def __init__(
        self,
        root: Path,
        scripts: Mapping[str, Sequence[Step]],
        *,
        settings: str = "",
        entry: str = "",
        clock: ManualClock | None = None,
    ) -> None:
        self.root = root
        self.clock = clock or ManualClock()
        self.providers = {
            name: ScriptedProvider(steps, clock=self.clock, repeat_last=True)
            for name, steps in scripts.items()
        }
        entries = "".join(
            f'[[providers]]\nid = "{name}"\nadapter = "double"\nclass = "cloud"\n'
            f'model = "m-{name}"\n{entry}'
            for name in scripts
        )
        self.config = GatewayConfig.parse(
            f'privacy_profile = "cloud_allowed"\n{settings}\n{entries}'
        )
        self.gateway = LLMGateway(
            self.config,
            adapters={"double": lambda config: self.providers[config.id]},
            clock=self.clock,
        )
        self.store = CheckpointStore(root / "runtime", now=self.clock.now)
        self.runner = CaseLLMRunner(self.store, self.gateway)

    def add(self, case_id: str = "case-1", text: str = "The pump failed twice.") -> PackageHead:
        """Create a case of one text."""
        return self.store.create(case_id, {"report.txt": text.encode()})

    async def run(
        self,
        head: PackageHead,
        operation_id: str = "extract",
        asked: LLMRequest | None = None,
    ) -> OperationResult:
        """Run an operation of a case."""
        return await self.runner.run(
            head.case_id,
            head.package_id,
            operation_id=operation_id,
            request=asked or request(),
        )

    async def called(self, name: str) -> None:
        """Wait until a provider has been asked."""
        while not self.providers[name].calls:  # noqa: ASYNC110 - the double has no event to wait for
            await asyncio.sleep(0)

    def calls(self) -> list[int]:
        """Return how often each provider was asked."""
        return [len(provider.calls) for provider in self.providers.values()]

    def folder(self, case_id: str = "case-1") -> Path:
        """Return the folder of a case's package."""
        return self.store.package_folder(case_id)

    def commits(self, case_id: str = "case-1") -> list[JSONObject]:
        """Return a package's commit records, oldest first."""
        folder = self.folder(case_id) / "commits"
        return [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]

    def outcomes(self, case_id: str = "case-1") -> list[JSONObject]:
        """Return every outcome file of a package."""
        paths = sorted(self.folder(case_id).glob("llm/operations/*/outcome-*.json"))
        return [json.loads(path.read_bytes()) for path in paths]

    def files(self, case_id: str = "case-1") -> dict[str, bytes]:
        """Return every file of a package with its bytes."""
        folder = self.folder(case_id)
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    def log_lines(self) -> list[JSONObject]:
        """Return the failure log's lines."""
        path = self.root / "runtime" / "logs" / "llm.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def assert_verifies(self, case_id: str = "case-1") -> None:
        """Demand that the oracle finds nothing wrong."""
        report = verify(self.folder(case_id))
        assert report.ok, report.findings
