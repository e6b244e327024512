"""A worker whose claims last as long as the test wants: PROJECT SECONDS RENEW CONCURRENCY.

Each call of its scripted provider leaves a line in the project's ``calls.txt``.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from casework.gateway.clock import Deadline
from casework.gateway.messages import Credential, ProviderCall, ProviderReply
from casework.gateway.providers.scripted import ScriptedProvider
from casework.runtime.cli.run_session import RunSession, leave
from casework.runtime.cli.terminal import Terminal
from casework.runtime.line.claimant import ClaimTimes, new_worker
from casework.runtime.project import Project
from casework.runtime.run.batch import BatchOptions
from casework.runtime.run.interruption import interrupt_on_terminate
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.run.session_record import SessionKind
from casework.runtime.workspace import Workspace
from tests.support.workers import CALLS_FILE


class NotedProvider(ScriptedProvider):
    """Plays its script, and notes each call in a file that outlives the process."""

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Note the call, then play the next step."""
        descriptor = os.open(CALLS_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        os.close(descriptor)
        return await super().complete(call, credential=credential, deadline=deadline)


def main() -> None:
    """Work until a signal comes."""
    interrupt_on_terminate()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    project, seconds, renew, concurrency = sys.argv[1:]
    adapters = {"scripted": NotedProvider.from_config}
    workspace = Workspace.open(Project(Path(project)), adapters=adapters)
    os.chdir(project)
    options = BatchOptions(
        concurrency=int(concurrency),
        stay=True,
        worker=new_worker(),
        claims=ClaimTimes(float(seconds), float(renew)),
    )
    run = PipelineRun(workspace, workspace.pipeline(), options=options)
    session = RunSession(run, Terminal(), stays=True, kind=SessionKind.WORKER)
    result = session.execute()
    print("calls", result.report.tally.calls, flush=True)
    if result.left_at_once:
        leave(result.exit_code())


if __name__ == "__main__":
    main()
