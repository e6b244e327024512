"""The runner: at most one due round of one operation, committed before it is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias, TypeVar, assert_never

from casework.checkpoints.change import Change
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.inflight import IntentStart
from casework.checkpoints.names import check_id, outcome_path, request_path
from casework.checkpoints.package_files import refuse_forgotten
from casework.checkpoints.package_writer import ousted
from casework.checkpoints.records import (
    CommitKind,
    FileEntry,
    OperationState,
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
from casework.runner.due_memory import DueMemory
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
)
from casework.runner.operation_result import OperationResult, stored_result
from casework.runner.outcome_files import read_outcome, write_outcome
from casework.runner.unconfirmed import announce, unconfirmed_starts, withdraw

_T = TypeVar("_T")

RecordMaker: TypeAlias = Callable[[OperationIdentity], RequestRecord]
"""Describes a request, once it is known to which operation of which package it belongs."""

Walk: TypeAlias = Callable[[], Awaitable[RoundOutcome | RequestRejected]]
"""Walks one round."""


class NobodyReached(Exception):
    """Raised by a walk in which nothing was sent to anybody, so that there is nothing to keep."""


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
        self._due = DueMemory(self._clock)
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

        return await self.run_planned(
            case_id,
            package_id,
            operation_id=operation_id,
            record=self._recorder(request, whom),
            plan=whom,
            walk=walk,
            generation=generation,
        )

    async def run_planned(
        self,
        case_id: str,
        package_id: str,
        *,
        operation_id: str,
        record: RecordMaker,
        plan: AnyOperationPlan,
        walk: Walk,
        generation: int | None = None,
    ) -> OperationResult:
        """Do what :meth:`run` does for a round of any kind.

        Args:
            case_id: The case.
            package_id: Its package.
            operation_id: The operation, stable within an analysis revision.
            record: Describes what is asked.
            plan: Whom the walk may ask, and what the operation is frozen to.
            walk: Walks the round.
            generation: The package's generation that the request was made for, if any.

        Raises:
            CaseworkError: As :meth:`run` does.
            NobodyReached: The walk says so; nothing was written.
        """
        names = (case_id, package_id, operation_id)
        return await self._dispatch(names, record, plan=plan, walk=walk, generation=generation)

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

        return await self.run_planned(
            case_id,
            package_id,
            operation_id=operation_id,
            record=self._recorder(request, plan),
            plan=plan,
            walk=refuse,
            generation=generation,
        )

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

    def _recorder(self, request: LLMRequest, plan: AnyOperationPlan) -> RecordMaker:
        return partial(
            record_request,
            request,
            profile=self._gateway.effective_profile(request),
            configuration=plan.configuration,
        )

    async def _dispatch(
        self,
        names: tuple[str, str, str],
        record: RecordMaker,
        *,
        plan: AnyOperationPlan,
        walk: Walk,
        generation: int | None,
    ) -> OperationResult:
        """Take the case's lock, decide, walk at most one round, commit, let go."""
        with ExitStack() as held:
            opened = await self._unbroken(
                lambda: self._open(held, names, record=record, plan=plan, generation=generation),
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

    async def _walked(self, opened: _Opened, walk: Walk) -> RoundOutcome | RequestRejected:
        """Walk the round; where nobody was asked, take its announcement back."""
        try:
            return await walk()
        except (LimitReached, NobodyReached):
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
        record: RecordMaker,
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
        request = record(identity)
        if state is not None and state.request_fingerprint is not None:
            refuse_changes(self._store, case_id, state=state, request=request)
        decision = self._due.decide((case_id, ophash), state)
        adopted, earlier = None, tuple[IntentStart, ...]()
        if isinstance(decision, RunRound):
            adopted = self._left_complete(identity, request, number=decision.round)
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
            request=request,
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
        return replace(OperationResult.of(head, after, outcome), adopted=adopted)

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
        return stored_result(self._store, opened.head, state)

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
        self._due.take((head.case_id, ophash), after)
        # The round is committed whatever becomes of what is derived from it. The intent stays
        # where the index could not be told, and the next start makes up for it.
        with suppress(StorageError):
            self._store.index.put(head)
            self._store.inflight.end(head.case_id, ophash)
