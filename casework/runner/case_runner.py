"""The runner: at most one due round of one operation, committed before it is reported."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar, assert_never

from casework.checkpoints.change import Change
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.inflight import IntentStart
from casework.checkpoints.names import check_id, outcome_path, request_path
from casework.checkpoints.package_files import refuse_forgotten
from casework.checkpoints.package_writer import ousted
from casework.checkpoints.records import (
    CommitKind,
    FileEntry,
    OperationError,
    OperationState,
    OperationStatus,
    operation_hash,
)
from casework.checkpoints.store import CheckpointStore
from casework.errors import (
    FormatError,
    LimitReached,
    StaleGeneration,
    StorageError,
)
from casework.gateway.clock import Clock
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import LLMRequest
from casework.gateway.outcomes import RequestRejected, RoundOutcome
from casework.gateway.plan import AnyOperationPlan
from casework.runner.conflicts import refuse_changes, refuse_outdated
from casework.runner.failure_lines import FailureLines
from casework.runner.fingerprints import (
    OperationIdentity,
    RequestRecord,
    record_request,
)
from casework.runner.operation import (
    Decision,
    Defer,
    Replay,
    ResultStatus,
    RunRound,
    Settings,
    advance,
    begin,
    decide,
)
from casework.runner.outcome_files import StoredOutcome, read_outcome, write_outcome
from casework.runner.unconfirmed import announce, unconfirmed_starts, withdraw
from casework.strict_json import JSON

_T = TypeVar("_T")

DUE_MEMORY_MAX: Final = 65_536
"""Most operations whose due time is also remembered on the monotonic clock."""

CLOCK_TOLERANCE_SECONDS: Final = 1.0
"""How far wall clock and monotonic clock may disagree before the wall clock is doubted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """What one call of ``run`` came to."""

    status: ResultStatus
    case_id: str
    package_id: str
    operation_id: str
    generation: int
    rounds_completed: int
    output: JSON = None
    """The validated answer, for SUCCESS."""
    error: OperationError | None = None
    """The stable code, for ERROR and BLOCKED."""
    due_at: datetime | None = None
    """For RETRY_PENDING and DEFERRED the next round, for BLOCKED the earliest resumption."""
    outcome: StoredOutcome | None = None
    """The last finished round, None where no round has finished."""
    reused: bool = False
    """Whether the result was already stored, so that nobody was asked."""
    adopted: bool = False
    """Whether a crash had left the round's outcome complete, so that nobody was asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """An operation as found under its lock."""

    head: PackageHead
    operation_id: str
    ophash: str
    state: OperationState | None
    request: RequestRecord
    plan: AnyOperationPlan
    decision: Decision
    adopted: bytes | None
    """A complete outcome of the round to run, left uncommitted by a crash."""
    identity: OperationIdentity
    earlier: tuple[IntentStart, ...]
    """Starts of this round whose end nobody saw."""


class CaseLLMRunner:
    """Drive operations: one call runs at most one due round and commits what it came to.

    Args:
        store: Where packages live.
        gateway: Whom to ask.
        executor: Threads for the blocking work on the disk; the event loop's own by default. See
            :meth:`CheckpointStore.disk_threads` for how many.
        opening: Threads for what comes before a call, where that is not to wait for commits.
    """

    def __init__(
        self,
        store: CheckpointStore,
        gateway: LLMGateway,
        *,
        executor: Executor | None = None,
        opening: Executor | None = None,
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._executor = executor
        self._opening = opening or executor
        self._clock: Clock = gateway.clock
        self._failures = FailureLines(store)
        self._due: OrderedDict[tuple[str, str], float] = OrderedDict()
        retry = gateway.config.retry
        self._settings = Settings(
            rounds_max=retry.rounds_max,
            retry_delay_seconds=float(retry.retry_delay_seconds),
            blocked_retry_seconds=float(retry.blocked_retry_seconds),
            retry_after_max_seconds=float(retry.retry_after_max_seconds)
            if retry.honour_retry_after
            else 0.0,
        )

    async def run(
        self,
        case_id: str,
        package_id: str,
        *,
        operation_id: str,
        request: LLMRequest,
        plan: AnyOperationPlan | None = None,
        generation: int | None = None,
    ) -> OperationResult:
        """Run the operation's next round if it is due, and return what the operation came to.

        Never sleeps: an operation that is not due returns DEFERRED, one whose targets are all
        unavailable returns RETRY_PENDING with the time of its next round. A finished operation
        returns its stored result and asks nobody. If the caller is cancelled during a call, the
        operation is left as after a crash: nothing is committed and the round runs again.

        Args:
            case_id: The case.
            package_id: Its package.
            operation_id: The operation, stable within an analysis revision.
            request: What to ask.
            plan: A plan that the gateway has already made for this very request.
            generation: The package's generation that the request was made for; at any other one
                it is void.

        Raises:
            ConfigurationError: No round can be planned; nothing was called or written.
            InvalidRequest: The request cannot be sent; nothing was called or written.
            LockBusy: Another runner works on this case.
            OperationConflict: The id stands for another request or configuration.
            LimitReached: Every provider is at a limit of calls; nothing was called or written.
            StaleGeneration: Somebody committed during the round; its result is discarded.
            CheckpointError: The package cannot be read or written.
        """
        whom = plan or self._gateway.plan(request)

        async def walk() -> RoundOutcome:
            return await self._gateway.complete_round(request, plan=whom)

        names = (case_id, package_id, operation_id)
        return await self._dispatch(names, request, plan=whom, walk=walk, generation=generation)

    async def reject(
        self,
        case_id: str,
        package_id: str,
        *,
        operation_id: str,
        request: LLMRequest,
        kind: FailureKind,
        generation: int | None = None,
    ) -> OperationResult:
        """Commit a controlled error for an input that rules an answer out; nobody is asked.

        Raises:
            CaseworkError: As :meth:`run` does.
        """
        plan = replace(self._gateway.plan(request), targets=())

        async def refuse() -> RequestRejected:
            return RequestRejected(started_at=self._clock.now(), kind=kind)

        names = (case_id, package_id, operation_id)
        return await self._dispatch(names, request, plan=plan, walk=refuse, generation=generation)

    def run_blocking(
        self, case_id: str, package_id: str, *, operation_id: str, request: LLMRequest
    ) -> OperationResult:
        """Do what :meth:`run` does, from code that does not await.

        Works inside a running event loop as well (a notebook), which stands still meanwhile.
        """

        async def run_and_let_go() -> OperationResult:
            try:
                return await self.run(
                    case_id, package_id, operation_id=operation_id, request=request
                )
            finally:
                await self._gateway.aclose()

        with ThreadPoolExecutor(max_workers=1) as threads:
            return threads.submit(lambda: asyncio.run(run_and_let_go())).result()

    async def _dispatch(
        self,
        names: tuple[str, str, str],
        request: LLMRequest,
        *,
        plan: AnyOperationPlan,
        walk: Callable[[], Awaitable[RoundOutcome | RequestRejected]],
        generation: int | None,
    ) -> OperationResult:
        """Take the case's lock, decide, walk at most one round, commit, let go."""
        with ExitStack() as held:
            opened = await self._unbroken(
                lambda: self._open(held, names, request=request, plan=plan, generation=generation),
                self._opening,
            )
            match opened.decision:
                case Replay(state):
                    return await self._unbroken(lambda: self._stored(opened, state))
                case Defer(due_at):
                    return self._deferred(opened, due_at)
                case RunRound(number):
                    content = opened.adopted
                    if content is None:
                        if self._store.locks.is_void(opened.head.case_id):
                            raise ousted()  # it stood still since it took the lock
                        content = write_outcome(
                            await self._walked(opened, walk),
                            number=number,
                            request=opened.request,
                            unconfirmed=[start.to_json() for start in opened.earlier],
                            due_at=opened.state.due_at if opened.state else None,
                        )
                    return await self._unbroken(lambda: self._commit(opened, number, content))
                case _:
                    assert_never(opened.decision)

    async def _walked(
        self, opened: _Opened, walk: Callable[[], Awaitable[RoundOutcome | RequestRejected]]
    ) -> RoundOutcome | RequestRejected:
        """Walk the round; where limits let nobody be asked, take its announcement back."""
        try:
            return await walk()
        except LimitReached:
            if self._store.locks.is_void(opened.head.case_id):
                raise ousted() from None  # what is announced now is another worker's
            await self._unbroken(lambda: withdraw(self._store, opened.identity, opened.earlier))
            raise

    async def _unbroken(self, work: Callable[[], _T], executor: Executor | None = None) -> _T:
        """Do blocking work in a thread, to its end even if the caller is cancelled meanwhile."""
        future = asyncio.get_running_loop().run_in_executor(executor or self._executor, work)
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            if not future.cancelled():
                future.exception()  # else the loop complains that nobody looked at it
            raise cancelled
        return future.result()

    def _open(
        self,
        held: ExitStack,
        names: tuple[str, str, str],
        *,
        request: LLMRequest,
        plan: AnyOperationPlan,
        generation: int | None,
    ) -> _Opened:
        """Lock the case, read the operation and decide; announce the round if one is to run."""
        case_id, package_id, operation_id = names
        check_id(operation_id, "operation id")
        held.enter_context(self._store.lock(case_id))
        head = self._store.open(case_id, package_id)
        refuse_forgotten(head)
        refuse_outdated(head, generation)
        ophash = operation_hash(head.analysis_revision, operation_id)
        state = head.operations.get(ophash)
        identity = OperationIdentity(
            case_id=case_id,
            package_id=head.package_id,
            operation_id=operation_id,
            analysis_revision=head.analysis_revision,
            phase=state.phase if state else head.phase,
        )
        record = record_request(
            request,
            identity,
            profile=self._gateway.effective_profile(request),
            configuration=plan.configuration,
        )
        if state is not None and state.request_fingerprint is not None:
            refuse_changes(self._store, case_id, state=state, request=record)
        decision = self._decide((case_id, ophash), state)
        adopted, earlier = None, tuple[IntentStart, ...]()
        if isinstance(decision, RunRound):
            adopted = self._left_complete(identity, record, number=decision.round)
            earlier = unconfirmed_starts(self._store, identity, decision.round)
            if adopted is None and plan.targets:
                now = self._clock.now()
                announce(
                    self._store, identity, plan, number=decision.round, earlier=earlier, at=now
                )
        return _Opened(
            head=head,
            operation_id=operation_id,
            ophash=ophash,
            state=state,
            request=record,
            plan=plan,
            decision=decision,
            adopted=adopted,
            identity=identity,
            earlier=earlier,
        )

    def _left_complete(
        self, identity: OperationIdentity, record: RequestRecord, *, number: int
    ) -> bytes | None:
        """Return the outcome of this very round if a crash came between its file and its commit."""
        content = self._store.uncommitted(identity.case_id, outcome_path(identity.ophash, number))
        if content is None:
            return None
        try:
            return content if read_outcome(content).answers(record, number) else None
        except FormatError:
            return None

    def _decide(self, key: tuple[str, str], state: OperationState | None) -> Decision:
        """Decide by the wall clock, unless this process knows that it was set meanwhile."""
        now, elapsed = self._clock.now(), self._clock.monotonic()
        decision = decide(state, now)
        known = self._due.get(key)
        match decision:
            case Replay():
                self._due.pop(key, None)
            case Defer(due_at):
                if known is None:
                    self._remember(key, elapsed + (due_at - now).total_seconds())
                elif known <= elapsed and state is not None:
                    return RunRound(state.rounds_completed + 1)
            case RunRound():
                if known is not None and known - elapsed > CLOCK_TOLERANCE_SECONDS:
                    return Defer(now + timedelta(seconds=known - elapsed))
            case _:
                assert_never(decision)
        return decision

    def _remember(self, key: tuple[str, str], due: float) -> None:
        self._due[key] = due
        if len(self._due) > DUE_MEMORY_MAX:
            self._due.popitem(last=False)

    def _commit(self, opened: _Opened, number: int, content: bytes) -> OperationResult:
        """Commit a finished round, then tell the index, the intents and the failure log."""
        outcome = read_outcome(content)
        before = self._before(opened)
        files: tuple[tuple[str, bytes], ...] = ((outcome_path(opened.ophash, number), content),)
        if before.rounds_completed == 0:
            files = ((request_path(opened.ophash), opened.request.to_bytes()), *files)
        ended_at = outcome.ended_at if opened.adopted else self._clock.now()
        after = advance(
            before,
            outcome.result,
            ended_at=ended_at,
            artifacts=tuple(FileEntry.of(path, data) for path, data in files),
            settings=self._settings,
        )
        change = Change(
            case_id=opened.head.case_id,
            package_id=opened.head.package_id,
            expected_generation=opened.head.generation,
            kind=CommitKind.LLM_ROUND,
            at=self._clock.now(),
            operations={opened.ophash: after},
            files=files,
        )
        try:
            head = self._store.commit(change)
        except StaleGeneration:
            self._failures.discarded(opened.head, after, outcome, at=self._clock.now())
            raise
        self._settle(head, opened.ophash, after)
        self._failures.tell(head, after, outcome, at=self._clock.now())
        adopted = opened.adopted is not None
        return replace(_result(head, after, outcome), adopted=adopted)

    def _before(self, opened: _Opened) -> OperationState:
        """Return the state that the round starts from, its fingerprints and budget frozen."""
        state = opened.state
        if state is not None and state.request_fingerprint is not None:
            return state
        plan = opened.plan
        fresh = begin(
            operation_id=opened.operation_id,
            analysis_revision=opened.head.analysis_revision,
            phase=state.phase if state else opened.head.phase,
            settings=replace(
                self._settings,
                rounds_max=plan.rounds_max,
                retry_delay_seconds=plan.retry_delay_seconds,
            ),
        )
        return replace(
            fresh,
            request_fingerprint=opened.request.request_fingerprint,
            config_fingerprint=opened.request.config_fingerprint,
            resumed_from=state.resumed_from if state else None,
        )

    def _stored(self, opened: _Opened, state: OperationState) -> OperationResult:
        """Return what a finished operation came to, from its last outcome file."""
        path = outcome_path(opened.ophash, state.rounds_completed)
        outcome = read_outcome(self._store.read_file(opened.head.case_id, path))
        return _result(opened.head, state, outcome, reused=True)

    def _deferred(self, opened: _Opened, due_at: datetime) -> OperationResult:
        state = opened.state
        return OperationResult(
            status=ResultStatus.DEFERRED,
            case_id=opened.head.case_id,
            package_id=opened.head.package_id,
            operation_id=opened.operation_id,
            generation=opened.head.generation,
            rounds_completed=state.rounds_completed if state else 0,
            due_at=due_at,
        )

    def _settle(self, head: PackageHead, ophash: str, after: OperationState) -> None:
        """Bring what is derived from the commit up to date."""
        key = (head.case_id, ophash)
        if after.status is OperationStatus.RETRY_PENDING and after.due_at is not None:
            wait = (after.due_at - self._clock.now()).total_seconds()
            self._remember(key, self._clock.monotonic() + wait)
        else:
            self._due.pop(key, None)
        # The round is committed whatever becomes of what is derived from it. The intent stays
        # where the index could not be told, and the next start makes up for it.
        with suppress(StorageError):
            self._store.index.put(head)
            self._store.inflight.end(head.case_id, ophash)


def _result(
    head: PackageHead, state: OperationState, outcome: StoredOutcome, *, reused: bool = False
) -> OperationResult:
    return OperationResult(
        status=ResultStatus(state.status.value),
        case_id=head.case_id,
        package_id=head.package_id,
        operation_id=state.operation_id,
        generation=head.generation,
        rounds_completed=state.rounds_completed,
        output=outcome.output,
        error=state.error,
        due_at=state.due_at,
        outcome=outcome,
        reused=reused,
    )
