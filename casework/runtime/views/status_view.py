"""The status of a project on one screen: the same for a live run and for a look back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from casework.checkpoints.inflight import Intent
from casework.runtime.run.session_record import ProviderRecord, SessionRecord, UsageRecord
from casework.runtime.run.state_counts import StateCounts
from casework.runtime.views import phrases
from casework.runtime.views.line_standing import LineStanding, standing_lines, standing_to_json
from casework.strict_json import JSON, JSONObject

BAR_CELLS: Final = 25
REASONS_SHOWN: Final = 5
INTERRUPTED_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """Everything that the screen shows."""

    project: str
    profile: str | None
    """None where there are no settings to be read."""
    travel: str
    """Where documents may go."""
    pipeline: str | None
    counts: StateCounts
    usage: UsageRecord
    """What all runs together used."""
    reasons: Mapping[str, int]
    """Why operations ended in ERROR or BLOCKED."""
    next_due_at: datetime | None = None
    session: SessionRecord | None = None
    """The newest run that is at work, or else the newest."""
    session_alive: bool = False
    at_work: tuple[SessionRecord, ...] = ()
    """Every run and worker that is alive, as told by its sign of life."""
    sessions: int = 0
    usage_exact: bool = True
    passed_over: tuple[tuple[str, str], ...] = ()
    """Providers that are not asked, and why."""
    interrupted: tuple[Intent, ...] = ()
    line: LineStanding = field(default_factory=LineStanding)
    """What holds the line back, or may do so soon."""
    inbox: int = 0
    """Items that a person should see: blocked ones and some kinds of errors."""


def status_lines(view: StatusView) -> Iterator[str]:
    """Yield the lines of the screen."""
    profile = f"profile {view.profile}  ({view.travel})" if view.profile else "no settings yet"
    pipeline = f"  pipeline {view.pipeline}" if view.pipeline else ""
    yield f"project {view.project}  {profile}{pipeline}"
    yield counts_line(view.counts, view.next_due_at)
    yield _pace_line(view)
    if len(view.at_work) > 1:
        yield "at work  " + "   ".join(map(_at_work, view.at_work))
    if view.session is not None and (view.session.providers or view.passed_over):
        yield _providers_line(view.session.providers, view.passed_over)
    yield usage_line(view.usage, exact=view.usage_exact)
    yield from standing_lines(view.line)
    if view.reasons:
        top = Counter(dict(view.reasons)).most_common(REASONS_SHOWN)
        yield "top reasons  " + "   ".join(f"{code} {phrases.count(n)}" for code, n in top)
    yield from _interrupted_lines(view.interrupted)
    if view.inbox:
        yield f"for a person  {phrases.plural(view.inbox, 'item')}: casework inbox list"


def way_on_from(view: StatusView) -> str | None:
    """Return the command that moves the project on, None where a person has nothing to begin."""
    if view.session_alive or view.line.paused is not None:
        return None
    if not view.counts.cases:
        return "casework import PATH"
    begun_next = view.counts.waiting + view.counts.retry - view.line.cancelled
    return "casework run" if begun_next > 0 else None


def counts_line(counts: StateCounts, next_due_at: datetime | None = None) -> str:
    """Return the states on one line; they add up to the operations of all cases."""
    share = f" ({100 * counts.success // counts.total}%)" if counts.total else ""
    due = ""
    if counts.retry and next_due_at is not None:
        due = f" (next {phrases.local_time(next_due_at)})"
    operations = ""
    if counts.total != counts.cases:
        operations = f"operations {phrases.count(counts.total)}  "
    return (
        f"cases {phrases.count(counts.cases)}  {operations}"
        f"done {phrases.count(counts.success)}{share}  error {phrases.count(counts.error)}  "
        f"inbox {phrases.count(counts.blocked)}  retry {phrases.count(counts.retry)}{due}  "
        f"running {phrases.count(counts.running)}  waiting {phrases.count(counts.waiting)}"
        f"{_for_others(counts)}"
    )


def _for_others(counts: StateCounts) -> str:
    """Return what waits for other operations or was ruled out, where anything is."""
    held = f"  held {phrases.count(counts.held)}" if counts.held else ""
    return f"{held}  skipped {phrases.count(counts.skipped)}" if counts.skipped else held


def trouble_line(providers: Mapping[str, ProviderRecord]) -> str:
    """Return which providers failed at their last call, and how; nothing if none did."""
    failing = [f"{name}: {p.last_code}" for name, p in providers.items() if p.last_code is not None]
    return "  ".join(("failing", *failing)) if failing else ""


def usage_line(usage: UsageRecord, *, exact: bool = True) -> str:
    """Return tokens and money of all sessions; what is unknown is called so."""
    at_least = "" if exact else "at least "
    missing = usage.calls_without_tokens
    tokens_in = phrases.tokens(usage.prompt_tokens, missing)
    tokens_out = phrases.tokens(usage.completion_tokens, missing)
    money = phrases.money(usage.cost, usage.calls_without_price)
    known = usage.prompt_tokens or usage.completion_tokens
    partly = f" ({phrases.count(missing)} calls unknown)" if missing and known else ""
    cut_off = ""
    if usage.cut_off:
        rounds = phrases.plural(usage.cut_off, "round")
        cut_off = f"  (and {rounds} cut off, perhaps paid in vain: casework audit --all)"
    return (
        f"calls {at_least}{phrases.count(usage.calls)}{cut_off}  "
        f"tokens in {tokens_in} out {tokens_out}{partly}  cost {money}"
    )


def _pace_line(view: StatusView) -> str:
    counts, session = view.counts, view.session
    filled = BAR_CELLS * counts.settled // counts.total if counts.total else 0
    bar = f"[{'#' * filled}{'-' * (BAR_CELLS - filled)}]"
    if session is None:
        return f"{bar}  not run yet"
    again = f"  runs {phrases.count(view.sessions)}" if view.sessions > 1 else ""
    reused = f"  reused {phrases.plural(session.reused, 'result')}"
    if not view.session_alive:
        ended = session.ended_at
        when = f"ended {phrases.local_time(ended)}" if ended else "the last run died"
        return f"{bar}  no run at work  {when}{again}{reused}"
    rate = session.rate_per_minute
    pace = "rate unknown" if rate is None else f"{rate:.1f}/min (5 min)"
    return (
        f"{bar}  {pace}  ETA {phrases.duration(session.eta_seconds)}  "
        f"started {phrases.local_time(session.started_at)}{again}{reused}"
    )


def _at_work(session: SessionRecord) -> str:
    rate = session.rate_per_minute
    pace = "rate unknown" if rate is None else f"{rate:.1f}/min"
    pid = "" if session.pid is None else f" {session.pid}"
    return f"{session.kind.value}{pid}: {phrases.count(session.running)} running, {pace}"


def _providers_line(
    providers: Mapping[str, ProviderRecord], passed_over: tuple[tuple[str, str], ...]
) -> str:
    parts = []
    for name, provider in providers.items():
        health = "up" if provider.last_code is None else provider.last_code
        errors = 100 * provider.failures / provider.calls if provider.calls else 0.0
        median = provider.median_ms
        speed = "" if median is None else f"  p50 {median / 1000:.1f} s"
        calls = phrases.plural(provider.calls, "call")
        parts.append(f"{name} ({provider.model})  {health}  {calls}{speed}  err {errors:.1f}%")
    parts += [f"{name}  not eligible: {reason}" for name, reason in passed_over]
    return "providers  " + "      ".join(parts)


def _interrupted_lines(interrupted: tuple[Intent, ...]) -> Iterator[str]:
    for intent in interrupted[:INTERRUPTED_SHOWN]:
        asked = ", ".join(
            f"{target.provider} ({target.model}, at most {target.cost_max or 'unknown cost'})"
            for target in intent.targets
        )
        yield (
            f"interrupted  case {intent.case_id}  {intent.operation_id} round {intent.round}: "
            f"may have been paid twice; asked {asked}"
        )
    more = len(interrupted) - INTERRUPTED_SHOWN
    if more > 0:
        yield f"interrupted  {phrases.count(more)} more: casework audit --all"


def view_to_json(view: StatusView) -> JSONObject:
    """Return the screen as one JSON document; times in UTC, unknown as null."""
    usage = view.usage
    interrupted: list[JSON] = [intent_to_json(intent) for intent in view.interrupted]
    return {
        "project": view.project,
        "privacy_profile": view.profile,
        "travel": view.travel,
        "pipeline": view.pipeline,
        "counts": view.counts.to_json(),
        "next_due_at": phrases.utc_time(view.next_due_at),
        "sessions": view.sessions,
        "session": _session_to_json(view.session, alive=view.session_alive),
        "at_work": [_session_to_json(session, alive=True) for session in view.at_work],
        "usage": usage_to_json(usage, exact=view.usage_exact),
        "reasons": dict(view.reasons),
        "not_eligible": [{"id": name, "reason": reason} for name, reason in view.passed_over],
        "interrupted": interrupted,
        "inbox": view.inbox,
        "line": standing_to_json(view.line),
    }


def usage_to_json(usage: UsageRecord, *, exact: bool = True) -> JSONObject:
    """Return tokens and money as JSON carries them: null where no call told them."""
    unknown = usage.calls_without_tokens > 0
    return {
        "calls": usage.calls,
        "rounds_cut_off": usage.cut_off,
        "exact": exact,
        "prompt_tokens": usage.prompt_tokens or (None if unknown else 0),
        "completion_tokens": usage.completion_tokens or (None if unknown else 0),
        "calls_without_tokens": usage.calls_without_tokens,
        "cost": {currency: format(amount, "f") for currency, amount in usage.cost.items()},
        "calls_without_price": usage.calls_without_price,
    }


def intent_to_json(intent: Intent) -> JSONObject:
    """Return an interrupted round as JSON carries it."""
    targets: list[JSON] = [target.to_json() for target in intent.targets]
    return {
        "case_id": intent.case_id,
        "operation_id": intent.operation_id,
        "round": intent.round,
        "started_at": intent.started_at,
        "targets": targets,
        "note": "may have been seen and paid twice",
    }


def _session_to_json(session: SessionRecord | None, *, alive: bool) -> JSON:
    if session is None:
        return None
    told: JSONObject = session.model_dump(mode="json")
    return {**told, "alive": alive}


def with_running(counts: StateCounts, running: int) -> StateCounts:
    """Return counts in which so many of the unfinished operations are being worked on."""
    waiting = min(running, counts.waiting)
    retry = min(running - waiting, counts.retry)
    return replace(
        counts,
        waiting=counts.waiting - waiting,
        retry=counts.retry - retry,
        running=counts.running + waiting + retry,
    )
