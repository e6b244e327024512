"""The governor in a line at work: outages, poisoned cases, limits, budget and orders."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from casework.checkpoints.records import OperationStatus
from casework.gateway.clock import steady_time
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Finish, ProviderCall, ProviderReply
from casework.runtime.line.budget import add_up
from casework.runtime.line.budget_keeper import MONEY
from casework.runtime.line.line_state import Ledger, SetAside
from casework.runtime.run.batch import BatchEnd, BatchOptions
from tests.simulation.virtual_loop import VirtualClock
from tests.support.governed_line import PROVIDER, GovernedLine, down, good

PRICED = (
    PROVIDER.format(id="desk")
    + "[providers.rates]\ninput_per_million = 100\noutput_per_million = 100\n"
)
EUROS = '[cost]\ncurrency = "EUR"\n'


def case_of(call: ProviderCall) -> int:
    """Return the number of the case whose text a call carries."""
    text = call.messages[-1].content
    return int(text.split("Text of ")[1][:3])


def spent_in_all(line: GovernedLine) -> Decimal:
    """Return what all processes noted as spent."""
    entries = line.state.in_ledger(lambda ledger: ledger.spent_after(0))
    return add_up(entry.amount for _, entry in entries)


def test_a_provider_that_dies_costs_the_others_no_rounds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After five of fifty, only the detection and the canaries use up rounds."""
    clock = VirtualClock()
    answers: list[float] = []
    failures: list[float] = []

    def behave(_provider: str, _call: ProviderCall) -> ProviderReply:
        now = clock.monotonic()
        if len(answers) >= 5 and now < 400:
            failures.append(now)
            return down()
        answers.append(now)
        return good()

    line = GovernedLine(tmp_path, behave, clock=clock)
    line.add(50)
    report = line.run()
    assert BatchEnd.SETTLED is report.end
    ended = Counter((o.status, o.rounds_completed) for o in line.operations())
    assert {OperationStatus.SUCCESS} == {status for status, _ in ended}
    said = [getattr(record, "action", None) for record in caplog.records]
    assert (1, 1) == (said.count("outage_declared"), said.count("outage_ended"))
    before = [at for at in failures if at < 10]
    canaries = [at for at in failures if at >= 10]
    assert 3 <= len(before) <= 3 + 3
    assert [16, 49, 115, 247] == pytest.approx(canaries, abs=6)
    assert len(failures) == sum((rounds - 1) * count for (_, rounds), count in ended.items())
    assert 45 - len(failures) <= ended[OperationStatus.SUCCESS, 1] - 5
    assert line.state.outage() is None


def test_the_literal_line_spends_every_round(tmp_path: Path) -> None:
    """Without the watch every operation uses up its rounds while nobody answers."""
    line = GovernedLine(
        tmp_path, down, settings="[outage]\nenabled = false\n[retry]\nmax_attempts = 2\n"
    )
    line.add(6)
    line.run()
    assert [(OperationStatus.BLOCKED, 2)] * 6 == [
        (operation.status, operation.rounds_completed) for operation in line.operations()
    ]


def test_poisoned_cases_end_where_they_belong(tmp_path: Path) -> None:
    """Ten of fifty break the server or the schema in their own ways; forty are done."""
    poison = {
        0: FailureKind.HTTP_5XX,
        5: FailureKind.REFUSAL,
        10: FailureKind.CONTEXT_TOO_LONG,
        15: FailureKind.EMPTY_RESPONSE,
        20: FailureKind.INVALID_JSON,
    }
    kinds = {**poison, **{number + 2: kind for number, kind in poison.items()}}

    def behave(_provider: str, call: ProviderCall) -> ProviderReply:
        match kinds.get(case_of(call)):
            case None:
                return good()
            case FailureKind.HTTP_5XX:
                return down()
            case FailureKind.CONTEXT_TOO_LONG:
                raise ProviderFailure(FailureKind.CONTEXT_TOO_LONG, http_status=400)
            case FailureKind.REFUSAL:
                return ProviderReply(text="no", finish=Finish.REFUSED)
            case FailureKind.EMPTY_RESPONSE:
                return ProviderReply(text="", finish=Finish.STOP)
            case _:
                return ProviderReply(text='{"answer": NaN}' + "[" * 9999, finish=Finish.STOP)

    line = GovernedLine(tmp_path, behave, settings="[retry]\nmax_attempts = 4\n")
    line.add(50)
    line.run()
    ended = Counter((operation.status, operation.error_code) for operation in line.operations())
    assert {
        (OperationStatus.SUCCESS, None): 40,
        (OperationStatus.BLOCKED, "LLM_UNAVAILABLE"): 2,
        (OperationStatus.ERROR, "refusal"): 2,
        (OperationStatus.ERROR, "context_too_long"): 2,
        (OperationStatus.ERROR, "empty_response"): 2,
        (OperationStatus.ERROR, "invalid_json"): 2,
    } == dict(ended)
    again = line.run()
    assert 0 == again.tally.calls


def test_a_tail_of_broken_cases_is_blocked_at_the_usual_pace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What failed beside answers does not stop the line by failing again and again."""

    def behave(_provider: str, call: ProviderCall) -> ProviderReply:
        return down() if case_of(call) % 4 == 0 else good()

    line = GovernedLine(tmp_path, behave, settings="[retry]\nmax_attempts = 10\n")
    line.add(24)
    line.run()
    blocked = [o for o in line.operations() if o.status is OperationStatus.BLOCKED]
    assert [10] * 6 == [operation.rounds_completed for operation in blocked]
    said = [getattr(record, "action", None) for record in caplog.records]
    assert "outage_declared" not in said


def test_a_canary_spares_the_last_round(tmp_path: Path) -> None:
    """While another operation has rounds left, none is blocked by trying for the others."""
    clock = VirtualClock()

    def behave(_provider: str, _call: ProviderCall) -> ProviderReply:
        return down() if clock.monotonic() < 3600 else good()

    line = GovernedLine(tmp_path, behave, settings="[retry]\nmax_attempts = 3\n", clock=clock)
    line.add(12)
    line.run()
    assert {OperationStatus.SUCCESS} == {operation.status for operation in line.operations()}


def test_a_second_process_learns_of_the_outage(tmp_path: Path) -> None:
    """It begins nothing, and goes on when the first one sees an answer."""
    clock = VirtualClock()
    line, other = (GovernedLine(tmp_path, good, clock=clock) for _ in range(2))
    steady = steady_time(clock)
    line.state.declare_outage(now=clock.now(), next_canary_at=steady + timedelta(seconds=50))
    governor = other.governor()
    hold = governor.room(0)
    assert not isinstance(hold, int)
    assert "outage" == hold.reason
    line.state.end_outage()
    clock.advance(2)
    assert 1 == governor.room(0)


def test_a_clock_set_back_does_not_prolong_an_outage(tmp_path: Path) -> None:
    """The next canary goes by the time that passes, whatever the wall clock says."""
    clock = VirtualClock()
    line = GovernedLine(tmp_path, good, clock=clock)
    later = steady_time(clock) + timedelta(seconds=50)
    line.state.declare_outage(now=clock.now(), next_canary_at=later)
    clock.set_back(86_400)
    assert not line.state.claim_canary(now=steady_time(clock), until=later)
    clock.advance(50)
    assert line.state.claim_canary(now=steady_time(clock), until=later)


def test_a_new_run_tries_at_once(tmp_path: Path) -> None:
    """Whoever mends a server and starts a run does not wait for the next canary."""
    line = GovernedLine(tmp_path, good)
    line.add(3)
    later = steady_time(line.clock) + timedelta(seconds=600)
    line.state.declare_outage(now=line.clock.now(), next_canary_at=later)
    assert 3 == line.run().tally.calls
    assert line.clock.monotonic() < 15


def test_the_limit_of_a_minute_is_kept_and_uses_up_no_rounds(tmp_path: Path) -> None:
    """Twenty calls at five a minute take three resets, and each case one round."""
    clock = VirtualClock()
    made: list[float] = []

    def behave(provider: str, call: ProviderCall) -> ProviderReply:
        made.append(clock.monotonic())
        return good(provider, call)

    limits = "[providers.limits]\nrequests_per_minute = 5\n"
    line = GovernedLine(
        tmp_path, behave, providers=PROVIDER.format(id="desk") + limits, clock=clock
    )
    line.add(20)
    line.run()
    assert [(OperationStatus.SUCCESS, 1)] * 20 == [
        (operation.status, operation.rounds_completed) for operation in line.operations()
    ]
    assert all(late - early >= 60 for early, late in zip(made, made[5:], strict=False))
    assert made[-1] < 200


def test_two_processes_share_a_daily_limit(tmp_path: Path) -> None:
    """What one used up is gone for the other, and after midnight both may go on."""
    clock = VirtualClock()
    limits = "[providers.limits]\nrequests_per_day = 3\n"
    entry = PROVIDER.format(id="desk") + limits
    line, other = (GovernedLine(tmp_path, good, providers=entry, clock=clock) for _ in range(2))
    line.add(5)
    once = BatchOptions(concurrency=1, once=True)
    line.run(once)
    assert 3 == sum(o.status is OperationStatus.SUCCESS for o in line.operations())
    assert 0 == (other.run(once, owner="two")).tally.calls
    clock.advance(14 * 3600)
    assert 2 == (other.run(once, owner="two")).tally.calls


def test_a_daily_count_that_is_lost_is_made_up_from_the_packages(tmp_path: Path) -> None:
    """Deleting the shared file gives no second quota."""
    clock = VirtualClock()
    entry = PROVIDER.format(id="desk") + "[providers.limits]\nrequests_per_day = 3\n"
    line = GovernedLine(tmp_path, good, providers=entry, clock=clock)
    line.add(5)
    once = BatchOptions(concurrency=1, once=True)
    line.run(once)
    line.state.close()
    (tmp_path / "runtime" / "line.sqlite3").unlink()
    assert 0 == (line.run(once)).tally.calls


def test_a_daily_count_that_is_lost_under_a_run_is_made_up_at_the_next_round(
    tmp_path: Path,
) -> None:
    """Only the call that was in flight when the shared file went is missing from the count."""
    shared, calls = tmp_path / "runtime" / "line.sqlite3", []

    def behave(_provider: str, _call: ProviderCall) -> ProviderReply:
        calls.append(shared.exists())
        if len(calls) == 2:
            shared.unlink()
        return good()

    entry = PROVIDER.format(id="desk") + "[providers.limits]\nrequests_per_day = 3\n"
    line = GovernedLine(tmp_path, behave, providers=entry)
    line.add(9)
    line.run(BatchOptions(concurrency=1, once=True))
    assert [True, True, True] == calls


def test_a_full_provider_is_not_asked_by_more_rounds(tmp_path: Path) -> None:
    """Calls in flight stay within the provider's own bound."""
    entry = PROVIDER.format(id="desk") + "[providers.limits]\nmax_concurrency = 2\n"
    line = GovernedLine(tmp_path, good, providers=entry)
    governor = line.governor(concurrency=8)
    assert [2, 1] == [governor.room(0), governor.room(1)]
    hold = governor.room(2)
    assert not isinstance(hold, int)
    assert "limit" == hold.reason


def test_the_budget_stops_the_line_before_it_is_crossed(tmp_path: Path) -> None:
    """Each round costs 0.012; the dearest course of the next one must fit too."""
    line = GovernedLine(
        tmp_path, good, settings=EUROS + '[budget]\ntotal = "0.15"', providers=PRICED
    )
    line.add(20)
    report = line.run()
    assert BatchEnd.BUDGET is report.end
    spent = spent_in_all(line)
    assert [] == line.state.in_ledger(Ledger.set_aside)
    assert Decimal("0.012") * report.tally.calls == spent
    assert spent <= Decimal("0.15")
    assert "the budget of the project is 0.15 EUR" in report.held_by
    again = line.run(owner="two")
    assert (BatchEnd.BUDGET, 0) == (again.end, again.tally.calls)


def test_a_budget_that_only_running_rounds_fill_is_waited_for(tmp_path: Path) -> None:
    """Money set aside comes back, so that the run goes on with what was not used."""
    line = GovernedLine(
        tmp_path, good, settings=EUROS + '[budget]\ntotal = "0.5"', providers=PRICED
    )
    line.add(20)
    report = line.run(BatchOptions(concurrency=16))
    assert (BatchEnd.SETTLED, 20) == (report.end, report.tally.calls)


def test_the_day_of_a_budget_ends(tmp_path: Path) -> None:
    """What was spent yesterday does not count today."""
    clock = VirtualClock()
    line = GovernedLine(
        tmp_path, good, clock=clock, settings=EUROS + '[budget]\nper_day = "0.2"', providers=PRICED
    )
    line.add(20)
    first = line.run()
    assert BatchEnd.BUDGET is first.end
    assert 0 < first.tally.calls < 20
    clock.advance(86_400)
    second = line.run(owner="two")
    assert second.tally.calls == first.tally.calls


def test_an_unknown_price_stops_before_the_first_call(tmp_path: Path) -> None:
    """A budget over a provider without rates says what to do."""
    line = GovernedLine(tmp_path, good, settings='[budget]\ntotal = "5"\n')
    line.add(2)
    report = line.run()
    assert (BatchEnd.BUDGET, 0) == (report.end, report.tally.calls)
    assert "has no rates" in report.held_by


def test_an_unknown_price_may_count_a_ceiling(tmp_path: Path) -> None:
    """Then each call counts that much."""
    settings = '[budget]\ntotal = "0.05"\nunknown_price_per_call = "0.02"\n'
    line = GovernedLine(tmp_path, good, settings=settings)
    line.add(5)
    report = line.run()
    assert (BatchEnd.BUDGET, 2) == (report.end, report.tally.calls)


def test_what_was_spent_before_there_was_a_budget_counts(tmp_path: Path) -> None:
    """The packages tell what earlier runs cost."""
    line = GovernedLine(tmp_path, good, settings=EUROS + "", providers=PRICED)
    line.add(3)
    line.run()
    assert MONEY not in line.state.counted()
    later = GovernedLine(
        tmp_path, good, clock=line.clock, settings=EUROS + '[budget]\ntotal = "9"', providers=PRICED
    )
    with later.governor().at_work():
        assert Decimal("0.036") == spent_in_all(later)


def test_money_of_a_dead_process_is_given_back(tmp_path: Path) -> None:
    """What it had committed is noted, what it had set aside is free again."""
    line = GovernedLine(tmp_path, good, settings=EUROS + '[budget]\ntotal = "9"', providers=PRICED)
    line.add(2)
    with line.governor(owner="alive").at_work():
        for owner in ("alive", "dead"):
            entry = SetAside(owner, "000", "first", Decimal(1))
            line.state.in_ledger(partial(Ledger.put_aside, entry=entry))
        with line.governor().at_work():
            left = line.state.in_ledger(lambda ledger: ledger.set_aside())
    assert ["alive"] == [entry.owner for entry in left]


def test_a_paused_line_begins_nothing(tmp_path: Path) -> None:
    """It goes on when the order is lifted, whatever the run had seen before."""
    line = GovernedLine(tmp_path, good)
    line.add(3)
    line.orders.pause(at=line.clock.now(), reason="the server is moved")
    report = line.run(BatchOptions(once=True))
    assert (BatchEnd.ONCE, 0) == (report.end, report.tally.calls)
    assert line.orders.resume()
    assert 3 == line.run().tally.calls


def test_what_is_cancelled_is_not_begun(tmp_path: Path) -> None:
    """Until the cancellation is lifted, by whichever process."""
    line = GovernedLine(tmp_path, good)
    line.add(3)
    line.orders.cancel([("001", "first")], at=line.clock.now())
    assert 2 == line.run().tally.calls
    assert 0 == line.run().tally.calls
    assert 1 == line.orders.lift()
    assert 1 == line.run().tally.calls


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"at": 5}'])
def test_a_pause_that_cannot_be_read_is_a_pause(tmp_path: Path, content: bytes) -> None:
    """In doubt nothing is begun."""
    line = GovernedLine(tmp_path, good)
    line.orders.pause(at=line.clock.now(), reason="")
    (tmp_path / "runtime" / "line" / "paused.json").write_bytes(content)
    assert line.orders.paused() is not None
