"""A run drives every case to a visible state, whatever providers, disks and other workers do."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from casework.checkpoints.records import OperationStatus
from casework.config.gateway_config import GatewayConfig
from casework.errors import (
    ConfigurationError,
    IntegrityError,
    LockBusy,
    OperationConflict,
    StorageError,
)
from casework.gateway.clock import ManualClock
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import ProviderCall
from casework.gateway.providers.scripted import Computed, Fail, Reply, Step
from casework.runner.operation_result import OperationResult
from casework.runner.pipeline import Pipeline
from casework.runtime.line.governor import Hold
from casework.runtime.line.work import Work
from casework.runtime.run.batch import BatchEnd, BatchOptions, BatchReport
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.run.state_counts import StateCounts
from casework.runtime.workspace import Workspace
from tests.support.pipeline_workspace import PIPELINE, SECOND, Desk

YES = Reply('{"answer": "yes"}')
DOWN = Fail(FailureKind.HTTP_5XX, http_status=503)


async def drive(run: PipelineRun) -> BatchReport:
    return await run.run(Interruption())


def states(counts: StateCounts) -> tuple[int, int, int, int, int]:
    return counts.success, counts.error, counts.blocked, counts.retry, counts.waiting


async def test_every_case_is_answered_once() -> None:
    """Three cases cost three calls, and the counts add up."""
    desk = Desk([YES])
    run = desk.run()
    report = await drive(run)
    assert (BatchEnd.SETTLED, 3) == (report.end, report.tally.calls)
    assert (3, 0, 0, 0, 0) == states(run.counts())
    assert run.counts().reconciles


async def test_running_twice_asks_nobody_again() -> None:
    """The second run finds every result and makes no call."""
    desk = Desk([YES])
    await drive(desk.run())
    again = desk.run()
    report = await drive(again)
    assert (0, 3) == (report.tally.calls, again.counts().settled)
    assert 3 == len(desk.provider.calls)


async def test_an_outage_is_waited_out() -> None:
    """Operations whose provider is down wait for their round, and succeed when it is back."""
    desk = Desk([DOWN, DOWN, DOWN, YES])
    # One at a time: the clock jumps where the loop waits, past the deadline of a call in flight.
    report = await drive(desk.run(BatchOptions(concurrency=1)))
    assert (BatchEnd.SETTLED, 6, 3) == (report.end, report.tally.calls, report.tally.completions)
    assert 60.0 <= desk.clock.monotonic() < 130.0


async def test_rounds_run_out_into_the_inbox() -> None:
    """A provider that stays down blocks each case after its rounds, and the run ends."""
    desk = Desk([DOWN], rounds=2)
    run = desk.run()
    report = await drive(run)
    assert (6, (0, 0, 3, 0, 0)) == (report.tally.calls, states(run.counts()))
    assert {"LLM_UNAVAILABLE": 3} == dict(report.tally.reasons)


async def test_once_asks_each_at_most_once_and_waits_for_nobody() -> None:
    """With ``once`` a failed round is left pending and no time passes."""
    desk = Desk([DOWN])
    run = desk.run(BatchOptions(once=True))
    report = await drive(run)
    assert (BatchEnd.ONCE, 3) == (report.end, report.tally.calls)
    assert ((0, 0, 0, 3, 0), 0.0) == (states(run.counts()), desk.clock.monotonic())


async def test_a_limit_ends_the_run_early() -> None:
    """No more rounds are begun than allowed, and the rest is seen to wait."""
    run = Desk([YES]).run(BatchOptions(limit=2))
    report = await drive(run)
    assert (BatchEnd.LIMIT, 2) == (report.end, report.tally.calls)
    assert (2, 0, 0, 0, 1) == states(run.counts())


async def test_only_the_chosen_case_is_run() -> None:
    """Other cases stay as they are and do not count."""
    desk = Desk([YES])
    run = desk.run(cases=["b"])
    report = await drive(run)
    assert (1, (1, 0, 0, 0, 0)) == (report.tally.calls, states(run.counts()))
    assert OperationStatus.SUCCESS is desk.store.index.operations("b")[0].status
    assert desk.store.index.operations("a")[0].status is None


async def test_empty_and_overlong_inputs_end_without_a_call() -> None:
    """A case without text and one that is too long become visible errors, the other is asked."""
    pipeline = PIPELINE + "max_input_bytes = 20\n"
    texts = {"blank": " \n", "long": "word " * 10, "fine": "Short."}
    desk = Desk([YES], texts=texts, pipeline=pipeline)
    run = desk.run()
    report = await drive(run)
    assert (1, (1, 2, 0, 0, 0)) == (report.tally.calls, states(run.counts()))
    assert {"empty_input": 1, "context_too_long": 1} == dict(report.tally.reasons)


async def test_the_next_round_told_is_that_of_the_chosen_cases() -> None:
    """What other cases wait for is no answer to when these go on."""
    desk = Desk([DOWN], texts={"a": "One.", "b": "Two."})
    everything = desk.run(BatchOptions(once=True, concurrency=1))
    await drive(everything)
    first = everything.next_due_at()
    desk.store.create("later", {"text.txt": b"Three."})
    assert isinstance(desk.clock, ManualClock)
    desk.clock.advance(30)
    chosen = desk.run(BatchOptions(once=True), cases=["later"])
    await drive(chosen)
    second = chosen.next_due_at()
    assert first is not None
    assert second is not None
    assert 29 < (second - first).total_seconds() < 31
    assert first == everything.next_due_at()


async def test_operations_of_a_case_run_in_order_and_stand_alone() -> None:
    """The second operation runs after the first, also where the first failed for good."""
    asked: list[str] = []

    def answer(task: str) -> str:
        asked.append(task)
        return '{"answer": 1}' if "again" in task else "no JSON"

    steps: list[Step] = [Computed(lambda c: answer("".join(m.content for m in c.messages)))]
    desk = Desk(steps, texts={"a": "One."}, pipeline=PIPELINE + SECOND)
    run = desk.run()
    await drive(run)
    assert [False, True] == ["Answer again." in task for task in asked]
    assert (1, 1, 0, 0, 0) == states(run.counts())


async def test_results_in_any_order_stay_with_their_case() -> None:
    """Answers that come back swapped are stored with the case that was asked."""
    desk = Desk([Computed(lambda call: '{"answer": "%s"}' % ("Two." in call.messages[-1].content))])
    await drive(desk.run())
    answers = {}
    for case_id in ("a", "b", "c"):
        head = desk.store.open(case_id)
        (state,) = head.operations.values()
        content = desk.store.read_file(case_id, state.artifacts[-1].path)
        answers[case_id] = b'"answer":"True"' in content
    assert {"a": False, "b": True, "c": False} == answers


async def test_a_locked_case_is_come_back_to() -> None:
    """Work that another worker holds is put back a little longer each time, then done."""
    desk = Desk([YES], texts={"a": "One."})
    run = desk.run()
    tries: list[float] = []
    dispatch = run._dispatch

    async def busy(work: Work) -> OperationResult | Hold:
        tries.append(desk.clock.monotonic())
        if len(tries) < 4:
            raise LockBusy("held elsewhere")
        return await dispatch(work)

    run.batch._dispatch = busy
    report = await drive(run)
    waits = [round(later - earlier, 2) for earlier, later in pairwise(tries)]
    assert ([0.2, 0.4, 0.8], 1, 0) == (waits, report.tally.calls, run.batch.left_locked)


async def test_once_leaves_a_locked_case() -> None:
    """With ``once`` nobody waits for another worker."""
    desk = Desk([YES])
    run = desk.run(BatchOptions(once=True))
    with desk.store.lock("b"):
        report = await drive(run)
    assert (2, 1) == (report.tally.calls, run.batch.left_locked)


async def test_a_damaged_case_does_not_stop_the_others() -> None:
    """One case fails with its code, the other two are answered."""
    desk = Desk([YES])
    run = desk.run()
    dispatch = run._dispatch

    async def damaged(work: Work) -> OperationResult | Hold:
        if work.case_id == "b":
            raise IntegrityError("a byte is wrong")
        return await dispatch(work)

    run.batch._dispatch = damaged
    report = await drive(run)
    assert (2, ["b"]) == (report.tally.calls, [problem.case_id for problem in report.problems])
    assert {"integrity_error": 1} == dict(report.problem_codes)


async def test_a_full_disk_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the ground no longer bears, no further case is paid for."""
    desk = Desk([YES], texts={f"c{n}": f"Text {n}." for n in range(20)})
    run = desk.run(BatchOptions(concurrency=1))
    tried = []

    async def refused(work: Work) -> OperationResult:
        tried.append(work.case_id)
        raise StorageError("no space is left", code="disk_full")

    def gone() -> None:
        raise StorageError("no space is left", code="disk_full")

    run.batch._dispatch = refused
    monkeypatch.setattr(desk.store, "prove", gone)
    with pytest.raises(StorageError) as caught:
        await drive(run)
    assert ("disk_full", 1) == (caught.value.code, len(tried))


async def test_storage_failures_in_a_row_stop_the_run_even_if_a_probe_passes() -> None:
    """A disk that refuses three commits in a row is not tried a fourth time."""
    desk = Desk([YES], texts={f"c{n}": f"Text {n}." for n in range(20)})
    run = desk.run(BatchOptions(concurrency=1))
    tried = []

    async def refused(work: Work) -> OperationResult:
        tried.append(work.case_id)
        raise StorageError("the disk refused")

    run.batch._dispatch = refused
    with pytest.raises(StorageError):
        await drive(run)
    assert 3 == len(tried)


async def test_a_defect_ends_the_run_with_its_own_error() -> None:
    """What nobody expected is raised again, after running work was let end."""
    run = Desk([YES]).run()

    async def broken(work: Work) -> OperationResult:
        raise ZeroDivisionError(work.case_id)

    run.batch._dispatch = broken
    with pytest.raises(ZeroDivisionError):
        await drive(run)


async def test_the_first_signal_lets_running_rounds_end() -> None:
    """After one signal no work is begun, and what runs is committed."""
    desk = Desk([YES], texts={f"c{n}": f"Text {n}." for n in range(10)})
    run = desk.run(BatchOptions(concurrency=1))
    interruption = Interruption()

    def pressed(_call: ProviderCall) -> str:
        interruption.press()
        return '{"answer": 1}'

    desk.provider._steps = (Computed(pressed),)
    report = await run.run(interruption)
    assert (BatchEnd.INTERRUPTED, 1, 1) == (report.end, report.tally.calls, run.counts().success)


async def test_the_second_signal_leaves_running_calls() -> None:
    """After two signals the call is cancelled and its round stays unconfirmed."""
    never = asyncio.Event()
    desk = Desk([YES])
    run = desk.run()
    interruption = Interruption()
    begun = asyncio.Event()

    async def stuck(work: Work) -> OperationResult:
        begun.set()
        await never.wait()
        raise AssertionError(work)

    run.batch._dispatch = stuck
    running = asyncio.create_task(run.run(interruption))
    await begun.wait()
    interruption.press()
    interruption.press()
    report = await running
    assert (BatchEnd.INTERRUPTED, 0) == (report.end, report.tally.rounds)


async def test_a_changed_prompt_is_not_answered_with_old_results() -> None:
    """A run under the same id with another task is refused, with the difference named."""
    desk = Desk([YES])
    await drive(desk.run())
    desk.pipeline = Pipeline.parse(PIPELINE.replace("Answer.", "Answer well."), folder=Path())
    with pytest.raises(OperationConflict) as caught:
        await drive(desk.run())
    assert "messages" in caught.value.message
    assert 3 == len(desk.provider.calls)


async def test_a_changed_model_does_not_mix_with_old_results() -> None:
    """New cases under an old id and another model are refused before any call."""
    desk = Desk([YES])
    await drive(desk.run())
    desk.store.create("d", {"text.txt": b"Four."})
    (provider,) = desk.workspace.config.providers
    config = desk.workspace.config.model_copy(
        update={"providers": (provider.model_copy(update={"model": "m-2"}),)}
    )
    desk.workspace = _with_config(desk, config)
    with pytest.raises(OperationConflict) as caught:
        await drive(desk.run())
    assert "configuration.providers[desk].model" in caught.value.message
    assert 3 == len(desk.provider.calls)


def _with_config(desk: Desk, config: GatewayConfig) -> Workspace:
    old = desk.workspace
    gateway = LLMGateway(config, adapters={"desk": lambda _c: desk.provider}, clock=desk.clock)
    return Workspace(old.project, config, old.clock, old.store, gateway)


async def test_a_campaign_under_a_changed_prompt_is_run() -> None:
    """What was resumed under a new id may be asked with a corrected prompt."""
    desk = Desk([Reply("no JSON"), YES], texts={"a": "One."})
    await drive(desk.run())
    head = desk.store.open("a")
    desk.store.resume("a", head.package_id, "first", new_operation_id="first@2")
    desk.pipeline = Pipeline.parse(PIPELINE.replace("Answer.", "Answer in JSON."), folder=Path())
    run = desk.run()
    await drive(run)
    assert (1, 0, 0, 0, 0) == states(run.counts())
    await drive(desk.run())
    assert 2 == len(desk.provider.calls)


def test_no_eligible_provider_is_found_before_anything_runs() -> None:
    """A pipeline that narrows to nobody cannot be prepared."""
    desk = Desk([YES])
    (provider,) = desk.workspace.config.providers
    config = desk.workspace.config.model_copy(
        update={"providers": (provider.model_copy(update={"enabled": False}),)}
    )
    desk.workspace = _with_config(desk, config)
    with pytest.raises(ConfigurationError) as caught:
        desk.run()
    assert "no_eligible_provider" == caught.value.code


async def test_an_index_that_lags_behind_is_corrected() -> None:
    """A result that the index missed is found in the package and not asked for again."""
    desk = Desk([YES], texts={"a": "One."})
    await drive(desk.run())
    desk.store.index.discard()
    desk.store.index.rescan()
    run = desk.run()
    report = await drive(run)
    assert (0, (1, 0, 0, 0, 0)) == (report.tally.calls, states(run.counts()))


async def test_two_pipelines_share_a_store_and_count_for_themselves() -> None:
    """A run of one pipeline neither sees nor counts what the other has to do."""
    desk = Desk([YES])
    await drive(desk.run())
    desk.pipeline = Pipeline.parse(
        PIPELINE.replace('"first"', '"other"'), folder=Path(), source="other"
    )
    run = desk.run()
    assert (0, 0, 0, 0, 3) == states(run.counts())
    report = await drive(run)
    assert (3, (3, 0, 0, 0, 0)) == (report.tally.calls, states(run.counts()))
