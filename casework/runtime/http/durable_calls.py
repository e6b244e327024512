"""Clients' calls kept in packages: asked once under a key, and given again as often as wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final, Protocol, Self, TypeVar, assert_never

from casework.checkpoints.call_names import CALL_PREFIX, CALLS_PHASE, call_id, is_call
from casework.checkpoints.package_files import refuse_forgotten
from casework.checkpoints.records import OperationStatus, operation_hash
from casework.checkpoints.store import CheckpointStore
from casework.errors import (
    CheckpointError,
    InvalidRequest,
    LockBusy,
    OperationConflict,
    PackageNotFound,
    StaleGeneration,
)
from casework.facade.durable_calls import (
    CASE_HEADER,
    DurableKey,
    KeptAnswer,
    KeptRefusal,
    KeptReply,
)
from casework.facade.errors import (
    BUSY,
    ErrorReply,
    reply_to_failed_round,
    reply_to_failure,
)
from casework.gateway.chat.answers import ChatAnswer
from casework.gateway.chat.request import ChatRequest
from casework.gateway.clock import Clock, Deadline
from casework.gateway.errors import FailureKind
from casework.gateway.outcomes import Answered, RoundErred, RoundOutcome, RoundUnavailable, Walked
from casework.gateway.scope import Scope
from casework.runner.case_runner import CaseLLMRunner, NobodyReached, RecordMaker
from casework.runner.chat_operations import (
    ChatPlan,
    chat_recorder,
    operation_plan,
    reached_nobody,
    recorded_reply,
    round_outcome,
)
from casework.runner.fingerprints import OperationIdentity
from casework.runner.operation import ResultStatus
from casework.runner.operation_result import OperationResult, stored_result
from casework.runtime.run.disk_threads import DiskThreads
from casework.runtime.workspace import Workspace

_T = TypeVar("_T")

THREADS: Final = 4
"""How many threads wait for the disk."""

CALLS_MAX: Final = 500
"""Most calls that are being kept at once, those whose client has left included."""

LATE_SECONDS: Final = 0.1
"""How long after the deadline of a call its record may still be written before its client is told
that nobody knows yet."""

ENDING_SECONDS: Final = 5.0
"""How long the end of the service waits for records that are being written."""

_CONFLICT: Final = ErrorReply(
    409,
    "the Idempotency-Key or operation was used for another request; use a new one",
    "idempotency_conflict",
)
_FORGOTTEN: Final = ErrorReply(
    409, "the case of this call was forgotten; use a new key or case", "case_forgotten"
)
_BUSY: Final = ErrorReply(
    409,
    "a call of this key or case is being made; ask again for what it comes to",
    "idempotency_busy",
    retry_after_seconds=1.0,
)
_EXHAUSTED: Final = ErrorReply(
    503,
    "nobody could answer in any of the tries under this key; use a new key",
    "idempotency_exhausted",
)
_TOO_LATE: Final = ErrorReply(
    504,
    "nothing could be kept in time; ask again under the same key for what it came to",
    FailureKind.TIMEOUT.value,
    retry_after_seconds=1.0,
)


class ChatRounds(Protocol):
    """Who walks the rounds."""

    def chat_plan(self, request: ChatRequest, scope: Scope) -> ChatPlan:
        """Plan a round; contacts nobody."""

    async def walk(self, plan: ChatPlan) -> Walked[ChatAnswer]:
        """Walk a planned round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One call, and where it is kept."""

    request: ChatRequest = field(repr=False)
    scope: Scope
    case_id: str
    operation_id: str
    record: RecordMaker = field(repr=False)
    deadline: Deadline


class PackagedCalls:
    """Keeps each call as an operation of a case; see :class:`DurableCalls` of the facade.

    Args:
        store: Where the packages lie.
        runner: Commits what rounds come to, on the threads.
        rounds: Walks them.
        threads: For the disk.
        clock: The time.
        deadline_seconds: Longest time to a reply.
    """

    def __init__(
        self,
        store: CheckpointStore,
        runner: CaseLLMRunner,
        rounds: ChatRounds,
        *,
        threads: DiskThreads,
        clock: Clock,
        deadline_seconds: float,
    ) -> None:
        self._store = store
        self._runner = runner
        self._rounds = rounds
        self._threads = threads
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._running: set[asyncio.Task[KeptReply]] = set()
        self._guard = Lock()
        self._proved = False

    @classmethod
    def open(cls, workspace: Workspace) -> Self:
        """Return what keeps calls in a project; nothing is read or written yet."""
        threads = DiskThreads(THREADS)
        return cls(
            workspace.store,
            workspace.runner(threads.ending, threads.beginning),
            workspace.gateway.interactive,
            threads=threads,
            clock=workspace.clock,
            deadline_seconds=workspace.config.interactive.deadline_seconds,
        )

    async def answer(self, request: ChatRequest, *, scope: Scope, key: DurableKey) -> KeptReply:
        """Return what is recorded under the key, or make the call and record what it came to.

        Work on the disk that has begun is ended even where nobody waits for it any more.

        Raises:
            CaseworkError: The request cannot be asked as it stands; nothing was called or written.
        """
        seconds = min(self._deadline_seconds, scope.deadline_seconds or self._deadline_seconds)
        call = _Call(
            request=request,
            scope=scope,
            case_id=_case_of(key),
            operation_id=call_id(key.client, key.operation or key.idempotency_key),
            record=chat_recorder(request, client=key.client, idempotency_key=key.idempotency_key),
            deadline=Deadline.after(seconds, self._clock),
        )
        if len(self._running) >= CALLS_MAX:
            return KeptRefusal(reply=BUSY)
        task = asyncio.ensure_future(self._kept(call))
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=call.deadline.remaining() + LATE_SECONDS)
        finally:
            in_time = task.done()
            task.cancel()
        return task.result() if in_time else KeptRefusal(reply=_TOO_LATE)

    async def aclose(self) -> None:
        """Wait a moment for records that are being written, and let the threads go."""
        if self._running:
            await asyncio.wait(self._running, timeout=ENDING_SECONDS)
        self._threads.shutdown(wait=not self._running)

    def _ended(self, task: asyncio.Task[KeptReply]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # else the loop complains that nobody looked at it

    async def _kept(self, call: _Call) -> KeptReply:
        """Turn what the store says into a reply; errors of the request itself pass."""
        try:
            return await self._answered(call)
        except OperationConflict:
            return KeptRefusal(reply=_CONFLICT)
        except (LockBusy, StaleGeneration):
            return KeptRefusal(reply=_BUSY)
        except CheckpointError as error:
            if error.code == _FORGOTTEN.code:
                return KeptRefusal(reply=_FORGOTTEN)
            return KeptRefusal(reply=ErrorReply(503, "the call cannot be kept now", error.code))

    async def _answered(self, call: _Call) -> KeptReply:
        package_id, known = await self._in_thread(lambda: self._look(call))
        if known is not None:
            return _reply(known, None)
        plan = self._rounds.chat_plan(call.request, call.scope)
        plan = replace(
            plan,
            targets=tuple(replace(t, call=replace(t.call, alone=True)) for t in plan.targets),
            deadline=call.deadline,
        )
        if package_id is None or not self._proved:
            package_id = await self._in_thread(lambda: self._begin(call.case_id))
        round_ = _Round(self._rounds, plan, call.request)
        try:
            result = await self._run(call, package_id, round_)
            if result.adopted and result.status is ResultStatus.RETRY_PENDING:
                result = await self._run(call, package_id, round_)
        except NobodyReached:
            return _unanswered(round_.walked)
        return _reply(result, round_.walked)

    async def _run(self, call: _Call, package_id: str, round_: _Round) -> OperationResult:
        return await self._runner.run_planned(
            call.case_id,
            package_id,
            operation_id=call.operation_id,
            record=call.record,
            plan=round_.plan,
            walk=round_.walk,
        )

    def _look(self, call: _Call) -> tuple[str | None, OperationResult | None]:
        """Return the package of a call's case, and what the call came to, if it is finished.

        Takes no lock, and asks for no settings: what is recorded stands, also where the case has
        been revised since.

        Raises:
            OperationConflict: It was another request.
            CheckpointError: The package cannot be read.
        """
        try:
            head = self._store.open(call.case_id)
        except PackageNotFound:
            return None, None
        refuse_forgotten(head)
        for revision in range(head.analysis_revision, 0, -1):
            state = head.operations.get(operation_hash(revision, call.operation_id))
            if state is None or state.status is OperationStatus.RETRY_PENDING:
                continue
            identity = OperationIdentity(
                case_id=call.case_id,
                package_id=head.package_id,
                operation_id=call.operation_id,
                analysis_revision=revision,
                phase=state.phase,
            )
            if call.record(identity).request_fingerprint != state.request_fingerprint:
                raise OperationConflict("the call was another request", where=call.case_id)
            return head.package_id, stored_result(self._store, head, state)
        return head.package_id, None

    def _begin(self, case_id: str) -> str:
        """Return the package of a case, new if it is the first call of it.

        Raises:
            StorageError: The disk does not keep what packages rest on.
            CheckpointError: The package cannot be read or made.
        """
        with self._guard:
            if not self._proved:
                self._store.prove()
                self._proved = True
        try:
            return self._store.open(case_id).package_id
        except PackageNotFound:
            return self._store.create(case_id, {}, phase=CALLS_PHASE).package_id

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads.beginning, work)


class _Round:
    """A round of a call, and what it came to once it was walked."""

    def __init__(self, rounds: ChatRounds, plan: ChatPlan, request: ChatRequest) -> None:
        self._rounds = rounds
        self._walked_as = plan
        self._request = request
        self.plan = operation_plan(plan, request)
        self.walked: Walked[ChatAnswer] | None = None

    async def walk(self) -> RoundOutcome:
        """Walk it and return what is to be recorded.

        Raises:
            NobodyReached: There is nothing to be recorded.
        """
        self.walked = await self._rounds.walk(self._walked_as)
        if reached_nobody(self.walked):
            raise NobodyReached
        return round_outcome(self.walked, self._request, self.plan.validator)


def _case_of(key: DurableKey) -> str:
    """Return the case of a call: the one named, or one of its own.

    Raises:
        InvalidRequest: The case of another call is named.
    """
    if key.case_id is None:
        return call_id(key.client, key.idempotency_key)
    if is_call(key.case_id):
        raise InvalidRequest(
            f"names that begin with {CALL_PREFIX} are those of single calls",
            code="invalid_header",
            where=CASE_HEADER.decode(),
            remedy="leave the header out, or name another case",
        )
    return key.case_id


def _reply(result: OperationResult, walked: Walked[ChatAnswer] | None) -> KeptReply:
    """Turn what is recorded into a reply; the same record gives the same one."""
    match result.status:
        case ResultStatus.SUCCESS:
            return _answer(result, walked)
        case ResultStatus.ERROR:
            assert result.error is not None, "an operation in ERROR has one"
            reply = reply_to_failure(FailureKind(result.error.code), result.error.http_status)
            return KeptRefusal(reply=reply, walked=_failed(walked))
        case ResultStatus.BLOCKED:
            return KeptRefusal(reply=_EXHAUSTED, walked=_failed(walked))
        case ResultStatus.RETRY_PENDING | ResultStatus.DEFERRED:
            return _unanswered(walked)
        case _:
            assert_never(result.status)


def _answer(result: OperationResult, walked: Walked[ChatAnswer] | None) -> KeptAnswer:
    body, dropped = recorded_reply(result.output)
    known = result.outcome.body if result.outcome else {}
    return KeptAnswer(
        body=body,
        provider=str(known.get("provider")),
        model=str(known.get("model")),
        dropped=dropped,
        walked=walked if isinstance(walked, Answered) else None,
    )


def _unanswered(walked: Walked[ChatAnswer] | None) -> KeptRefusal:
    """Return what a client is told of a round after which it may try again."""
    failed = _failed(walked)
    return KeptRefusal(reply=reply_to_failed_round(failed) if failed else _BUSY, walked=failed)


def _failed(walked: Walked[ChatAnswer] | None) -> RoundErred | RoundUnavailable | None:
    return None if isinstance(walked, Answered) else walked
