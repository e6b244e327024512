"""A process that is killed between two parts of a document repeats the missing part alone."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from casework.checkpoints.verify import verify
from tests.support.command_line import COMMAND, CommandLine, child_environment, make_project
from tests.support.raw_server import Connection, RawServer, chat

PIPELINE = """
name = "long"
[[operations]]
id = "extract"
task = "List."
merge_task = "Join."
chunk = { max_bytes = 64 }
output_schema = { type = "object", required = ["answer"] }
"""

SETTINGS = """
[[providers]]
id = "desk"
adapter = "openai_compatible"
model = "m-1"
base_url = "BASE_URL"
"""

TEXT = "".join(f"This is the line that holds number {number}.\n\n" for number in range(1, 4))
YES = chat('{"answer": "yes"}')

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


async def begin(project: Path) -> asyncio.subprocess.Process:
    """Begin a run of the project in a child."""
    words = (*COMMAND, "run", "--json", "--concurrency", "1", "--project", str(project))
    return await asyncio.create_subprocess_exec(
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(),
    )


async def test_only_the_missing_parts_are_asked_after_a_kill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first part keeps its outcome byte for byte; the second says that it was cut off."""
    second = asyncio.Event()

    async def hold(connection: Connection) -> None:
        second.set()
        await connection.wait_until_gone()

    project = make_project(tmp_path / "project", texts={"long.txt": TEXT})
    (project / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    async with RawServer([YES, hold, YES]) as server:
        settings = SETTINGS.replace("BASE_URL", server.base_url)
        (project / "config" / "llm.local.toml").write_text(settings, encoding="utf-8")
        CommandLine(project, capsys).imported()
        killed = await begin(project)
        try:
            await asyncio.wait_for(second.wait(), 60)
        finally:
            killed.kill()
            await killed.communicate()
        (package,) = project.glob("runtime/cases/*/*")
        kept = {path: path.read_bytes() for path in package.glob("llm/operations/*/outcome-*")}
        assert 1 == len(kept)
        ran = json.loads((await (await begin(project)).communicate())[0])
        assert (0, 3, 5) == (ran["exit_code"], ran["calls"], len(server.heard))
    assert (4, True) == (ran["counts"]["success"], ran["counts"]["reconciles"])
    assert kept == {path: path.read_bytes() for path in kept}
    assert verify(package).ok
    cut_off = [
        len(json.loads(path.read_bytes())["unconfirmed"])
        for path in package.glob("llm/operations/*/outcome-*.json")
    ]
    assert [0, 0, 0, 1] == sorted(cut_off)
