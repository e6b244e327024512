"""What a run would ask, how many tokens that is about, and what it may cost; nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Final

from casework.checkpoints.index_rows import Planned
from casework.checkpoints.records import OperationStatus
from casework.config.privacy_profile import PrivacyProfile
from casework.errors import CheckpointError, InvalidRequest
from casework.gateway.cost_bounds import cost_bound
from casework.gateway.messages import LLMRequest, OnInvalidOutput, Usage, bytes_of
from casework.gateway.prices import cost_of
from casework.gateway.privacy import Eligibility
from casework.gateway.reask import REASK_BYTES_MAX
from casework.gateway.token_estimate import estimate_tokens
from casework.runner.chunk_ids import chunk_id
from casework.runner.data_selection import OutputSelector, join_texts, select
from casework.runner.operation_ids import first_campaign, pipeline_id
from casework.runner.operation_spec import OperationSpec
from casework.runner.pipeline import Pipeline
from casework.runtime.run.case_requests import PARTS_MAX, CaseRequests, NotReady, parts_of
from casework.runtime.run.requests import NamedText, RequestBuilder, read_text
from casework.runtime.workspace import Workspace
from casework.strict_json import canonical

SAMPLE_MAX: Final = 500
"""Most cases that are read; beyond that, every so many-th is, and the sums are scaled up."""


@dataclass(slots=True)
class Amounts:
    """Sums over the calls of an operation."""

    operations: int = 0
    """Not begun yet, or waiting for their next round."""
    done: int = 0
    skipped: int = 0
    calls: int = 0
    rejected: int = 0
    """Answered without a call, because the input rules an answer out."""
    unread: int = 0
    """Operations whose case cannot be read."""
    input_tokens: int = 0
    low: dict[str, Decimal] = field(default_factory=dict)
    """By currency: the first provider is asked once, and its answer costs nothing."""
    high: dict[str, Decimal] = field(default_factory=dict)
    """By currency: every provider is asked, each call at its most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEstimate:
    """What one operation of the pipeline comes to, for one round each."""

    operation_id: str
    profile: PrivacyProfile
    verdicts: tuple[Eligibility, ...]
    amounts: Amounts
    at_most: bool
    """Whether conditions, earlier answers or finished parts may rule calls out."""
    reads_answers: bool
    """Whether its input holds answers that are not there yet, which nobody can measure."""

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Return the providers that may be asked and have no rates."""
        eligible = (v.provider for v in self.verdicts if v.eligible)
        return tuple(provider.id for provider in eligible if provider.rates is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """What a run comes to."""

    cases: int
    sampled: int
    operations: tuple[OperationEstimate, ...]


def estimate_run(
    workspace: Workspace, pipeline: Pipeline, *, cases: Sequence[str], sample_max: int = SAMPLE_MAX
) -> RunEstimate:
    """Estimate a run over some cases; reads packages, writes nothing, contacts nobody.

    Args:
        workspace: Where.
        pipeline: What.
        cases: Of which cases.
        sample_max: Most cases that are read.
    """
    step = max(-(-len(cases) // sample_max), 1)
    sample = cases[::step]
    scale = Fraction(len(cases), len(sample)) if sample else Fraction(1)
    estimator = _Estimator(workspace, pipeline)
    found = []
    for spec in pipeline.operations:
        amounts = Amounts()
        for case_id in sample:
            estimator.add(amounts, spec, case_id)
        found.append(
            OperationEstimate(
                operation_id=spec.id,
                profile=workspace.config.privacy_profile.narrowed_by(spec.privacy_profile),
                verdicts=workspace.gateway.explain(spec.privacy_profile),
                amounts=_scaled(amounts, scale),
                at_most=bool(spec.needs or spec.when or spec.chunking),
                reads_answers=any(isinstance(e, OutputSelector) for e in spec.data.entries),
            )
        )
    return RunEstimate(cases=len(cases), sampled=len(sample), operations=tuple(found))


class _Estimator:
    def __init__(self, workspace: Workspace, pipeline: Pipeline) -> None:
        self._workspace = workspace
        self._store = workspace.store
        self._specs = {spec.id: spec for spec in pipeline.operations}
        self._builder = RequestBuilder(pipeline, workspace.config.privacy_profile)
        self._requests = CaseRequests(self._builder, self._store)

    def add(self, amounts: Amounts, spec: OperationSpec, case_id: str) -> None:
        """Add what an operation of a case comes to."""
        try:
            left = self._left(spec, case_id, amounts)
            for operation_id in left:
                amounts.operations += 1
                for request in self._calls(
                    spec, case_id, operation_id=operation_id, amounts=amounts
                ):
                    self._add_call(amounts, spec, request)
        except (CheckpointError, InvalidRequest):
            amounts.unread += 1

    def _left(self, spec: OperationSpec, case_id: str, amounts: Amounts) -> list[str]:
        """Return which of the operation's ids in a case are still to be run."""
        ours = [
            operation
            for operation in self._store.index.operations(case_id)
            if pipeline_id(operation.operation_id, self._specs) == spec.id
            and not self._is_part(operation.operation_id)
        ]
        if not ours:
            return [spec.id]
        left = []
        for operation in ours:
            if operation.planned is Planned.SKIPPED:
                amounts.skipped += 1
            elif operation.status in (None, OperationStatus.RETRY_PENDING):
                left.append(operation.operation_id)
            else:
                amounts.done += 1
        return left

    def _is_part(self, operation_id: str) -> bool:
        first = first_campaign(operation_id, self._specs)
        return first not in self._specs and chunk_id(first) is not None

    def _calls(
        self, spec: OperationSpec, case_id: str, *, operation_id: str, amounts: Amounts
    ) -> Iterator[LLMRequest]:
        """Yield the requests of an operation, as far as they can be known now."""
        prepared = self._requests.prepare(case_id, operation_id)
        if not isinstance(prepared, NotReady):
            if prepared.rejection is None:
                yield prepared.request
            else:
                amounts.rejected += 1
            return
        if prepared.planned is Planned.SKIPPED:
            amounts.operations -= 1
            amounts.skipped += 1
            return
        texts = [
            read_text(self._store, case_id, entry)
            for entry in select(spec.data, self._store.files(case_id))
            if not isinstance(entry, OutputSelector)
        ]
        whole = join_texts([(text.name, text.text) for text in texts])
        if spec.chunking is not None and len(whole.encode("utf-8")) > spec.chunking.bytes_max:
            for part in parts_of(whole, spec.chunking)[:PARTS_MAX]:
                yield self._builder.build(spec, [NamedText("part", part)], is_part=True).request
            texts = []
        yield self._builder.build(spec, texts, is_part=True).request

    def _add_call(self, amounts: Amounts, spec: OperationSpec, request: LLMRequest) -> None:
        amounts.calls += 1
        tokens = sum(estimate_tokens(message.content) for message in request.messages)
        tokens += estimate_tokens(canonical(request.output_schema).decode())
        amounts.input_tokens += tokens
        verdicts = self._workspace.gateway.explain(spec.privacy_profile)
        providers = [verdict.provider for verdict in verdicts if verdict.eligible]
        currency = self._workspace.config.cost.currency
        if providers:
            first = cost_of(Usage(tokens, 0), providers[0].rates, currency=currency)
            if first is not None:
                _add(amounts.low, first.currency, first.amount)
        sent = bytes_of(request.messages) + len(canonical(request.output_schema))
        limit = request.parameters.get("max_tokens")
        extra: tuple[int, ...] = (0,)
        if request.limits.on_invalid_output is OnInvalidOutput.REASK:
            extra = (0, REASK_BYTES_MAX)
        for provider in providers:
            for more in extra:
                most = cost_bound(
                    provider,
                    sent_bytes=sent + more,
                    max_tokens=limit if isinstance(limit, int) else None,
                    currency=currency,
                )
                if most is not None:
                    _add(amounts.high, most.currency, most.amount)


def _add(sums: dict[str, Decimal], currency: str, amount: Decimal) -> None:
    sums[currency] = sums.get(currency, Decimal(0)) + amount


def _scaled(amounts: Amounts, scale: Fraction) -> Amounts:
    """Scale what a sample comes to up to all cases."""
    if scale == 1:
        return amounts
    factor = Decimal(scale.numerator) / Decimal(scale.denominator)

    def whole(number: int) -> int:
        return round(number * scale)

    return Amounts(
        operations=whole(amounts.operations),
        done=whole(amounts.done),
        skipped=whole(amounts.skipped),
        calls=whole(amounts.calls),
        rejected=whole(amounts.rejected),
        unread=whole(amounts.unread),
        input_tokens=whole(amounts.input_tokens),
        low={currency: amount * factor for currency, amount in amounts.low.items()},
        high={currency: amount * factor for currency, amount in amounts.high.items()},
    )
