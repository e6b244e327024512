"""The whole line against a real server on loopback, in real time: it dies, or cases break it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from casework.checkpoints.records import OperationStatus
from casework.checkpoints.verify import verify
from casework.runtime.project import Project
from casework.runtime.run.batch import BatchEnd, BatchOptions, BatchReport
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.workspace import Workspace
from tests.support.governed_line import PIPELINE
from tests.support.raw_server import Connection, RawServer, answer, chat

SETTINGS = """
[[providers]]
id = "server"
adapter = "openai_compatible"
base_url = "{address}"
model = "m"
[retry]
max_attempts = 3
retry_delay_seconds = 0.05
[outage]
canary_seconds = 0.05
canary_seconds_max = 0.2
"""
GOOD = chat('{"answer": "yes"}')
BROKEN = answer(500, b"no model")
REFUSED = answer(
    body={"choices": [{"index": 0, "finish_reason": "stop", "message": {"refusal": "I will not."}}]}
)
TOO_LONG = answer(400, {"error": {"code": "context_length_exceeded", "message": "too long"}})
HOSTILE = chat('{"answer": NaN, "answer": ' + "[" * 5000)


def project(folder: Path, server: RawServer) -> Workspace:
    """Return a project whose only provider is the server, with fifty cases."""
    (folder / "config").mkdir()
    (folder / "config" / "llm.local.toml").write_text(SETTINGS.format(address=server.base_url))
    (folder / "pipeline.toml").write_text(PIPELINE)
    workspace = Workspace.open(Project(folder))
    for number in range(50):
        text = f"Text of {number:03}."
        workspace.store.create(f"{number:03}", {"text.txt": text.encode()})
    return workspace


async def run(workspace: Workspace) -> BatchReport:
    """Run the project's pipeline to its end."""
    options = BatchOptions(concurrency=4)
    governor = workspace.governor("worker", concurrency=options.concurrency)
    planned = PipelineRun(workspace, workspace.pipeline(), options=options, governor=governor)
    planned.prepare()
    with governor.at_work():
        return await planned.run(Interruption())


async def test_a_server_that_dies_costs_the_other_cases_no_rounds(tmp_path: Path) -> None:
    """It dies after five of fifty; the line waits, goes on alone, and nothing stays running."""
    async with RawServer([GOOD] * 5 + [BROKEN] * 12 + [GOOD]) as server:
        workspace = project(tmp_path, server)
        report = await run(workspace)
        assert (BatchEnd.SETTLED, 62, 62) == (report.end, report.tally.calls, len(server.heard))
    operations = [o for i in workspace.store.list() for o in workspace.store.index.operations(i)]
    assert {OperationStatus.SUCCESS} == {operation.status for operation in operations}
    assert 62 == sum(operation.rounds_completed for operation in operations)
    assert 50 - 12 <= sum(operation.rounds_completed == 1 for operation in operations)
    assert () == workspace.store.inflight.list()
    assert workspace.line.outage() is None
    assert all(verify(workspace.store.package_folder(o.case_id)).ok for o in operations)


async def test_poisoned_cases_take_no_other_with_them(tmp_path: Path) -> None:
    """Ten of fifty break the server or the schema, each in its way; forty are done."""
    poison = {0: BROKEN, 5: REFUSED, 10: TOO_LONG, 15: chat(""), 20: HOSTILE}
    poison |= {number + 3: reply for number, reply in poison.items()}

    async def by_case(connection: Connection) -> None:
        found = re.search(rb"Text of (\d{3})", server.heard[-1].body)
        assert found is not None
        await connection.say(poison.get(int(found[1]), GOOD))

    async with RawServer([by_case]) as server:
        workspace = project(tmp_path, server)
        await run(workspace)
        asked = len(server.heard)
        assert 0 == (await run(workspace)).tally.calls
        assert asked == len(server.heard) == 48 + 2 * 3
    ended = Counter(
        (operation.status, operation.error_code)
        for case_id in workspace.store.list()
        for operation in workspace.store.index.operations(case_id)
    )
    assert {
        (OperationStatus.SUCCESS, None): 40,
        (OperationStatus.BLOCKED, "LLM_UNAVAILABLE"): 2,
        (OperationStatus.ERROR, "refusal"): 2,
        (OperationStatus.ERROR, "context_too_long"): 2,
        (OperationStatus.ERROR, "empty_response"): 2,
        (OperationStatus.ERROR, "invalid_json"): 2,
    } == dict(ended)
