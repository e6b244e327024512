"""The acceptance list of the durable part, point by point."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from casework.checkpoints.change import Change
from casework.checkpoints.records import CommitKind, PackageStatus
from casework.config.gateway_config import GatewayConfig
from casework.errors import FormatError, LockBusy, NotDue, OperationConflict, StaleGeneration
from casework.gateway.clock import MANUAL_START
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import Finish, Usage
from casework.gateway.providers.scripted import Computed, Fail, Held, Reply, Step
from casework.runner.case_runner import CaseLLMRunner
from casework.runner.operation import ResultStatus
from casework.runner.outcome_files import read_outcome
from tests.support.scripted_line import DOWN, GOOD, SCHEMA, Line, objects, request


async def test_ten_rounds_of_two_dead_providers_block_with_the_exact_routing(
    tmp_path: Path,
) -> None:
    """1: 20 calls, ten generations, and a package that waits for a person."""
    line = Line(tmp_path, {"a": [DOWN], "b": [DOWN]})
    head = line.add()
    for number in range(10):
        result = await line.run(head)
        assert number + 1 == result.rounds_completed
        line.clock.advance(60)
    assert ResultStatus.BLOCKED is result.status
    assert [10, 10] == line.calls()
    assert head.generation + 10 == result.generation
    last_round = MANUAL_START + timedelta(seconds=9 * 60)
    after = line.store.open(head.case_id, head.package_id)
    assert PackageStatus.BLOCKED is after.status
    assert {
        "reason": "LLM_UNAVAILABLE",
        "destination": "inbox",
        "retry_at": (last_round + timedelta(hours=1)).isoformat().replace("+00:00", "Z"),
        "automatic_retry": False,
    } == line.commits()[-1]["routing"]
    assert head.package_id == after.package_id
    assert 1 == after.analysis_revision
    line.assert_verifies()


async def test_a_dispatch_just_before_the_due_time_changes_no_byte(tmp_path: Path) -> None:
    """2: at 59.9 s the operation is deferred and the package is what it was."""
    line = Line(tmp_path, {"a": [DOWN]})
    head = line.add()
    pending = await line.run(head)
    before = line.files()
    line.clock.advance(59.9)
    result = await line.run(head)
    assert ResultStatus.DEFERRED is result.status
    assert pending.due_at == result.due_at
    assert before == line.files()
    assert [1] == line.calls()


async def test_a_busy_first_provider_stands_in_the_success_of_the_second(tmp_path: Path) -> None:
    """3: 429, then an answer: one attempt with its status, and no invented cost."""
    line = Line(tmp_path, {"a": [Fail(FailureKind.HTTP_429, http_status=429)], "b": [GOOD]})
    result = await line.run(line.add())
    assert ResultStatus.SUCCESS is result.status
    outcome = line.outcomes()[0]
    assert [("a", "http_429", 429)] == [
        (a["provider"], a["code"], a["http_status"]) for a in objects(outcome["attempts"])
    ]
    assert ("b", None) == (outcome["provider"], outcome["cost"])
    assert {"prompt_tokens": 120, "completion_tokens": 31, "total_tokens": 151} == outcome["usage"]
    line.assert_verifies()


async def test_a_refused_key_is_an_error_and_not_an_outage(tmp_path: Path) -> None:
    """4: 401 ends the operation, the second provider is spared, the log tells them apart."""
    line = Line(tmp_path, {"a": [Fail(FailureKind.AUTH_ERROR, http_status=401)], "b": [GOOD]})
    result = await line.run(line.add())
    assert ResultStatus.ERROR is result.status
    assert [1, 0] == line.calls()
    assert [("operation_error", "auth_error")] == [
        (entry["event"], entry["code"]) for entry in line.log_lines()
    ]
    line.assert_verifies()


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Reply('{"answer": "yes"}', Finish.LENGTH), "truncated"),
        (Reply("I cannot help.", Finish.REFUSED), "refusal"),
        (Reply('{"answer": '), "invalid_json"),
        (Reply('{"reply": "yes"}'), "schema_violation"),
        (Reply('{"answer": "yes", "at": "2013-350T01:01:01"}'), "schema_violation"),
    ],
)
async def test_each_unusable_answer_has_its_own_code_and_costs_one_call(
    tmp_path: Path, step: Step, code: str
) -> None:
    """5: cut off, refused, broken, off the schema, with a false date."""
    line = Line(tmp_path, {"a": [step], "b": [GOOD]})
    result = await line.run(line.add())
    assert result.error is not None
    assert (ResultStatus.ERROR, code) == (result.status, result.error.code)
    assert [1, 0] == line.calls()
    assert [None] == [outcome["output"] for outcome in line.outcomes()]
    line.assert_verifies()


@pytest.mark.parametrize("step", [GOOD, Reply("nonsense")])
async def test_a_finished_operation_is_reused_after_a_restart(tmp_path: Path, step: Step) -> None:
    """6: a new process returns the stored result and calls nobody."""
    first = Line(tmp_path, {"a": [step]})
    head = first.add()
    before = await first.run(head)
    files = first.files()
    again = Line(tmp_path, {"a": [GOOD]}, clock=first.clock)
    after = await again.run(head)
    assert (before.status, before.output, before.error) == (after.status, after.output, after.error)
    assert after.reused
    assert [0] == again.calls()
    assert files == again.files()


async def test_a_case_in_work_is_busy_for_another_and_free_for_other_cases(tmp_path: Path) -> None:
    """8: the second dispatcher is refused at once while another case goes on."""
    release = asyncio.Event()
    line = Line(tmp_path, {"a": [Held(release, GOOD), GOOD, GOOD]})
    one, two = line.add("one"), line.add("two")
    held = asyncio.create_task(line.run(one))
    await line.called("a")
    with pytest.raises(LockBusy):
        await line.run(one)
    assert ResultStatus.SUCCESS is (await line.run(two)).status
    release.set()
    assert ResultStatus.SUCCESS is (await held).status
    line.assert_verifies("one")


async def test_a_commit_made_meanwhile_voids_the_result(tmp_path: Path) -> None:
    """9: another component publishes during the call; nothing is overwritten, and it is logged."""
    line = Line(tmp_path, {"a": [GOOD]})
    head = line.add()

    def publish(_call: object) -> str:
        line.store.commit(
            Change(
                case_id=head.case_id,
                package_id=head.package_id,
                expected_generation=head.generation,
                kind=CommitKind.PHASE_CHANGED,
                at=line.clock.now(),
                operations={},
                files=(),
                phase="REVIEW",
            )
        )
        return '{"answer": "late"}'

    line.providers["a"]._steps = (Computed(publish),)
    with pytest.raises(StaleGeneration):
        await line.run(head)
    assert [2] == [line.store.open(head.case_id).generation]
    assert ["result_discarded"] == [entry["event"] for entry in line.log_lines()]
    line.assert_verifies()


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"messages": request("Another text.").messages}, "messages"),
        ({"output_schema": {**SCHEMA, "title": "other"}}, "output_schema"),
        ({"parameters": {"temperature": 0.5}}, "parameters"),
        ({"parameters": {"max_tokens": 100}}, "parameters"),
        ({"prompt_sha256": "1" * 64}, "prompt_sha256"),
        ({"prompt_version": "test_v2"}, "prompt_version"),
    ],
)
async def test_a_changed_request_is_refused_under_the_old_id(
    tmp_path: Path, changes: dict[str, Any], part: str
) -> None:
    """10: the difference is named; nobody is called and nothing is written."""
    line = Line(tmp_path, {"a": [DOWN]})
    head = line.add()
    await line.run(head)
    line.clock.advance(60)
    before = line.files()
    with pytest.raises(OperationConflict, match=part):
        await line.run(head, asked=request(**changes))
    assert before == line.files()
    assert [1] == line.calls()


@pytest.mark.parametrize(
    ("settings", "entry", "part"),
    [
        ("[retry]\nmax_attempts = 5", "", "configuration.max_attempts"),
        ("[retry]\nretry_delay_seconds = 1.0", "", "configuration.retry_delay_seconds"),
        ("", "timeout_seconds = 5.0\n", r"configuration.providers\[a\].timeout_seconds"),
        ("", 'response_format = "none"\n', r"configuration.providers\[a\].response_format"),
    ],
)
async def test_a_changed_configuration_is_refused_under_the_old_id(
    tmp_path: Path, settings: str, entry: str, part: str
) -> None:
    """10: the same for the settings that may change the answer."""
    first = Line(tmp_path, {"a": [GOOD]})
    head = first.add()
    await first.run(head)
    again = Line(tmp_path, {"a": [GOOD]}, settings=settings, entry=entry, clock=first.clock)
    with pytest.raises(OperationConflict, match=part):
        await again.run(head)
    assert [0] == again.calls()


async def test_rotating_a_key_is_no_change(tmp_path: Path) -> None:
    """10: keys are not part of the configuration's fingerprint."""
    text = (
        'privacy_profile = "cloud_allowed"\n[[providers]]\nid = "a"\nadapter = "double"\n'
        'model = "m"\napi_key_env = "{}"\n'
    )
    line = Line(tmp_path, {"a": [GOOD]})
    head = line.add()
    reused = []
    for name, value in (("KEY_OLD", "old"), ("KEY_NEW", "new")):
        gateway = LLMGateway(
            GatewayConfig.parse(text.format(name)),
            adapters={"double": lambda _: line.providers["a"]},
            clock=line.clock,
            environ={name: value},
        )
        result = await CaseLLMRunner(line.store, gateway).run(
            head.case_id, head.package_id, operation_id="extract", request=request()
        )
        reused.append(result.reused)
    assert [False, True] == reused


async def test_resuming_needs_patience_and_a_new_id(tmp_path: Path) -> None:
    """11: too early, the same id and a used id are refused; a new one is linked both ways."""
    line = Line(tmp_path, {"a": [DOWN, GOOD]}, settings="[retry]\nmax_attempts = 1")
    head = line.add()
    blocked = await line.run(head)
    assert ResultStatus.BLOCKED is blocked.status

    def resume(new_id: str) -> None:
        line.store.resume(head.case_id, head.package_id, "extract", new_operation_id=new_id)

    line.clock.advance(3599)
    with pytest.raises(NotDue):
        resume("extract@2")
    line.clock.advance(1)
    with pytest.raises(OperationConflict):
        resume("extract")
    resume("extract@2")
    result = await line.run(head, "extract@2")
    assert ResultStatus.SUCCESS is result.status
    after = line.store.open(head.case_id)
    links = {s.operation_id: (s.resumed_from, s.resumed_as) for s in after.operations.values()}
    assert {"extract": (None, "extract@2"), "extract@2": ("extract", None)} == links
    assert ResultStatus.BLOCKED is (await line.run(head)).status
    line.assert_verifies()


async def test_a_clock_set_back_a_little_neither_loses_a_round_nor_breaks_the_history(
    tmp_path: Path,
) -> None:
    """The delay has passed on the monotonic clock; the outcome says why it began early."""
    line = Line(tmp_path, {"a": [DOWN, GOOD]})
    head = line.add()
    await line.run(head)
    line.clock.advance(60)
    line.clock.set_back(30)
    assert ResultStatus.SUCCESS is (await line.run(head)).status
    assert [False, True] == [outcome["clock_set_back"] for outcome in line.outcomes()]
    line.assert_verifies()


async def test_a_clock_set_forward_burns_no_round(tmp_path: Path) -> None:
    """A year that passed on the wall clock alone makes nothing due in this process."""
    line = Line(tmp_path, {"a": [DOWN, GOOD]})
    head = line.add()
    await line.run(head)
    line.clock.set_back(-31_536_000)
    assert ResultStatus.DEFERRED is (await line.run(head)).status
    line.clock.advance(60)
    assert ResultStatus.SUCCESS is (await line.run(head)).status
    line.assert_verifies()


@pytest.mark.parametrize("depth", [128, 129])
async def test_the_deepest_accepted_answer_can_be_read_back(tmp_path: Path, depth: int) -> None:
    """What was paid for and accepted is never too deep for its own record."""
    text = '{"answer": "yes", "x": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"
    line = Line(tmp_path, {"a": [Reply(text)]})
    head = line.add()
    first = await line.run(head)
    assert (first.status, first.output) == ((await line.run(head)).status, first.output)
    line.assert_verifies()


async def test_a_resumed_operation_takes_the_settings_of_today(tmp_path: Path) -> None:
    """A budget that was changed while the case waited counts from the first new round."""
    line = Line(tmp_path, {"a": [DOWN]}, settings="[retry]\nmax_attempts = 1")
    head = line.add()
    await line.run(head)
    line.clock.advance(3600)
    line.store.resume(head.case_id, head.package_id, "extract", new_operation_id="extract@2")
    changed = "[retry]\nmax_attempts = 3\nretry_delay_seconds = 5.0"
    later = Line(tmp_path, {"a": [DOWN, GOOD]}, settings=changed, clock=line.clock)
    pending = await later.run(head, "extract@2")
    assert ResultStatus.RETRY_PENDING is pending.status
    later.clock.advance(5)
    assert ResultStatus.SUCCESS is (await later.run(head, "extract@2")).status
    states = later.store.open(head.case_id).operations.values()
    assert {"extract": 1, "extract@2": 3} == {s.operation_id: s.rounds_max for s in states}
    later.assert_verifies()


async def test_a_waiting_operation_can_begin_anew_under_corrected_settings(tmp_path: Path) -> None:
    """A wrong address is no dead end: the old id is left, the new one starts at once."""
    line = Line(tmp_path, {"a": [DOWN]})
    head = line.add()
    await line.run(head)
    corrected = Line(tmp_path, {"a": [GOOD]}, entry="timeout_seconds = 9.0\n", clock=line.clock)
    with pytest.raises(OperationConflict, match="timeout_seconds"):
        await corrected.run(head)
    corrected.store.resume(head.case_id, head.package_id, "extract", new_operation_id="extract@2")
    assert ResultStatus.SUCCESS is (await corrected.run(head, "extract@2")).status
    line.clock.advance(60)
    left = await line.run(head)
    assert (ResultStatus.RETRY_PENDING, True) == (left.status, left.reused)
    assert [1] == line.calls()
    corrected.assert_verifies()


async def test_a_blocked_package_is_not_retried_in_another_workspace(tmp_path: Path) -> None:
    """12: the flag travels inside the package."""
    line = Line(tmp_path / "here", {"a": [DOWN]}, settings="[retry]\nmax_attempts = 1")
    head = line.add()
    await line.run(head)
    sealed = tmp_path / "case.zip"
    line.store.export(head.case_id, sealed)
    there = Line(tmp_path / "there", {"a": [GOOD]}, clock=line.clock)
    there.store.receive(sealed)
    there.clock.advance(7200)
    assert [] == there.store.index.due(there.clock.now(), limit=10)
    received = there.store.open(head.case_id)
    assert (False, "inbox") == (received.routing.automatic_retry, received.routing.destination)
    there.assert_verifies()


def test_an_outcome_of_the_first_version_loads() -> None:
    """16: a record without ``http_status`` counts as null."""
    old = {
        "schema": "llm-outcome/1",
        "round": 1,
        "result": "error",
        "started_at": "2026-01-01T10:00:00Z",
        "elapsed_ms": 5,
        "error": "auth_error",
        "attempts": [],
    }
    outcome = read_outcome(json.dumps(old).encode())
    assert outcome.result.error is not None
    assert (None, "auth_error") == (outcome.result.error.http_status, outcome.result.error.code)


async def test_costs_are_exact_where_prices_are_known(tmp_path: Path) -> None:
    """Rates and usage give a decimal amount; a failed call of the round keeps its own."""
    rates = "rates = { input_per_million = 0.15, output_per_million = 0.6 }\n"
    cut = Reply("", usage=Usage(100, 0, 100))
    line = Line(tmp_path, {"a": [GOOD, cut]}, entry=rates)
    await line.run(line.add("one"))
    await line.run(line.add("two"))
    assert {"amount": "0.0000366", "currency": "USD"} == line.outcomes("one")[0]["cost"]
    assert {"amount": "0.000015", "currency": "USD"} == line.outcomes("two")[0]["cost"]


@pytest.mark.parametrize("operation_id", ["", "\ud83d", 5])
async def test_an_operation_id_that_cannot_be_stored_is_refused_before_any_call(
    tmp_path: Path, operation_id: Any
) -> None:
    """Nobody is asked, and no announcement is left behind."""
    line = Line(tmp_path, {"a": [GOOD]})
    head = line.add()
    with pytest.raises(FormatError):
        await line.run(head, operation_id)
    assert [0] == line.calls()
    assert () == line.store.inflight.list()
