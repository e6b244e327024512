"""A request that rests on other answers is void once its case has moved on."""

from __future__ import annotations

from pathlib import Path

import pytest

from casework.errors import StaleGeneration
from casework.gateway.errors import FailureKind
from tests.support.scripted_line import GOOD, Line, request


async def test_a_request_of_an_older_generation_asks_nobody(tmp_path: Path) -> None:
    """Neither is it asked nor rejected; nothing is written or announced."""
    line = Line(tmp_path, {"p": [GOOD]})
    head = line.add()
    await line.run(head, "first")
    before = line.files()
    names = (head.case_id, head.package_id)
    with pytest.raises(StaleGeneration) as refused:
        await line.runner.run(
            *names, operation_id="second", request=request(), generation=head.generation
        )
    with pytest.raises(StaleGeneration):
        await line.runner.reject(
            *names,
            operation_id="second",
            request=request(),
            kind=FailureKind.DATA_MISSING,
            generation=head.generation,
        )
    assert "outdated_request" == refused.value.code
    assert (before, [1], ()) == (line.files(), line.calls(), tuple(line.store.inflight.list()))


async def test_a_request_of_the_newest_generation_is_asked(tmp_path: Path) -> None:
    """The check lets it through."""
    line = Line(tmp_path, {"p": [GOOD]})
    head = line.add()
    result = await line.runner.run(
        head.case_id,
        head.package_id,
        operation_id="first",
        request=request(),
        generation=head.generation,
    )
    assert (1, "SUCCESS") == (result.rounds_completed, result.status)
