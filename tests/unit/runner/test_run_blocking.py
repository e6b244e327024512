"""``run_blocking`` does what ``run`` does, from code that does not await."""

from __future__ import annotations

from pathlib import Path

import pytest

from casework.errors import OperationConflict
from casework.runner.operation import ResultStatus
from tests.support.scripted_line import GOOD, Line, request


def ask(line: Line, text: str = "The pump failed twice.") -> tuple[ResultStatus, bool]:
    """Run an operation and return what it came to, and whether that was stored already."""
    result = line.runner.run_blocking(
        "case-1",
        line.store.open("case-1").package_id,
        operation_id="extract",
        request=request(text),
    )
    return result.status, result.reused


def test_it_runs_once_and_lets_go_of_the_providers(tmp_path: Path) -> None:
    """The second time the stored answer comes back, and nobody is asked."""
    line = Line(tmp_path, {"a": [GOOD]})
    line.add()
    assert [(ResultStatus.SUCCESS, False), (ResultStatus.SUCCESS, True)] == [ask(line), ask(line)]
    assert [1] == line.calls()
    assert line.providers["a"].closed
    line.assert_verifies()


async def test_it_works_inside_a_running_loop(tmp_path: Path) -> None:
    """As in a notebook, whose loop stands still meanwhile."""
    line = Line(tmp_path, {"a": [GOOD]})
    line.add()
    assert (ResultStatus.SUCCESS, False) == ask(line)


def test_what_run_refuses_it_refuses(tmp_path: Path) -> None:
    """The exception is the same one."""
    line = Line(tmp_path, {"a": [GOOD]})
    line.add()
    ask(line)
    with pytest.raises(OperationConflict):
        ask(line, "Another text.")
