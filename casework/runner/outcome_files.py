"""The immutable file that records one finished round: written once, read for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from casework.checkpoints.fields import STORED_DEPTH_MAX
from casework.checkpoints.names import request_path
from casework.checkpoints.records import (
    OUTCOME_SCHEMA,
    OperationError,
    OperationState,
    OperationStatus,
)
from casework.checkpoints.timestamps import read_time, write_time
from casework.errors import FormatError
from casework.gateway.outcomes import (
    Attempt,
    RequestRejected,
    RoundErred,
    RoundOutcome,
    RoundSucceeded,
    RoundUnavailable,
    Served,
)
from casework.runner.fingerprints import RequestRecord
from casework.runner.operation import RoundResult
from casework.strict_json import (
    JSON,
    InvalidJSON,
    JSONObject,
    canonical,
    digest,
    integer_or_none,
    parse,
    text_or_none,
)

_RESULTS: Final = {
    "success": OperationStatus.SUCCESS,
    "error": OperationStatus.ERROR,
    "temporary_failure": OperationStatus.RETRY_PENDING,
}


def write_outcome(
    outcome: RoundOutcome | RequestRejected,
    *,
    number: int,
    request: RequestRecord,
    unconfirmed: list[JSON],
    due_at: datetime | None = None,
) -> bytes:
    """Return the bytes of an outcome file.

    Args:
        outcome: What the round came to.
        number: The round's number, from 1.
        request: The request it answered.
        unconfirmed: Earlier starts of this round whose end nobody saw, each perhaps paid for.
        due_at: When the wall clock called the round due. One that began before was waited for by
            the monotonic clock while the wall clock was set back, and says so.
    """
    walked = None if isinstance(outcome, RequestRejected) else outcome
    body: JSONObject = {
        "schema": OUTCOME_SCHEMA,
        "round": number,
        "request_fingerprint": request.request_fingerprint,
        "config_fingerprint": request.config_fingerprint,
        "prompt_version": request.body["prompt_version"],
        "started_at": write_time(outcome.started_at),
        "elapsed_ms": walked.elapsed_ms if walked else 0,
        "attempts": [attempt_to_json(attempt) for attempt in walked.attempts] if walked else [],
        "unconfirmed": unconfirmed,
        "clock_set_back": due_at is not None and outcome.started_at < due_at,
        **_end(outcome),
    }
    return canonical(body)


def _end(outcome: RoundOutcome | RequestRejected) -> JSONObject:
    """Return the members that differ between the ends of a round."""
    match outcome:
        case RoundSucceeded():
            return {
                "result": "success",
                **_served(outcome.served),
                "call_started_at": write_time(outcome.served.started_at),
                "call_elapsed_ms": outcome.served.elapsed_ms,
                "output": outcome.output,
                "output_sha256": digest(outcome.output),
                "surrogates_replaced": outcome.surrogates_replaced,
                "validator": {
                    "engine": outcome.validator.engine,
                    "version": outcome.validator.version,
                },
                "error": None,
                "http_status": None,
                "schema_pointer": None,
            }
        case RoundErred(final=final):
            return {
                "result": "error",
                **_served(final.served),
                "call_started_at": write_time(final.served.started_at),
                "call_elapsed_ms": final.served.elapsed_ms,
                **_without_output(),
                "error": final.kind.value,
                "http_status": final.http_status,
                "schema_pointer": final.schema_pointer,
            }
        case RoundUnavailable():
            return {
                "result": "temporary_failure",
                **_nobody(),
                **_without_output(),
                "error": None,
                "http_status": None,
                "schema_pointer": None,
                "retry_after_seconds": outcome.retry_after_seconds,
            }
        case RequestRejected(kind=kind):
            return {
                "result": "error",
                **_nobody(),
                **_without_output(),
                "error": kind.value,
                "http_status": None,
                "schema_pointer": None,
            }
        case _:
            assert_never(outcome)


def _served(served: Served) -> JSONObject:
    return {
        "provider": served.provider,
        "model": served.model,
        "provider_class": served.provider_class.value,
        "key_label": served.key_label,
        "sent": served.sent,
        "request_bytes": served.request_bytes,
        "usage": served.usage.to_json() if served.usage else None,
        "cost": served.cost.to_json() if served.cost else None,
        **({"reask": True} if served.reask else {}),
    }


def _nobody() -> JSONObject:
    return {
        "provider": None,
        "model": None,
        "provider_class": None,
        "key_label": None,
        "sent": None,
        "request_bytes": None,
        "usage": None,
        "cost": None,
        "call_started_at": None,
        "call_elapsed_ms": None,
    }


def _without_output() -> JSONObject:
    return {
        "output": None,
        "output_sha256": None,
        "surrogates_replaced": None,
        "validator": None,
    }


def attempt_to_json(attempt: Attempt) -> JSONObject:
    """Return a failed call as outcomes record it."""
    return {
        **_served(attempt.served),
        "code": attempt.kind.value,
        "http_status": attempt.http_status,
        "schema_pointer": attempt.schema_pointer,
        "started_at": write_time(attempt.served.started_at),
        "elapsed_ms": attempt.served.elapsed_ms,
    }


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """An outcome file as read back."""

    body: JSONObject
    number: int
    result: RoundResult
    started_at: datetime
    ended_at: datetime
    request_fingerprint: str | None
    config_fingerprint: str | None

    @property
    def output(self) -> JSON:
        """Return the validated answer, None for a round without one."""
        return self.body.get("output")

    def answers(self, request: RequestRecord, number: int) -> bool:
        """Tell whether this is the outcome of that very round of that very request."""
        return (
            self.number == number
            and self.request_fingerprint == request.request_fingerprint
            and self.config_fingerprint == request.config_fingerprint
        )


def read_outcome(content: bytes) -> StoredOutcome:
    """Read an outcome file.

    Members that older writers did not know (``http_status`` among them) count as null.

    Raises:
        FormatError: The bytes are not an outcome this version reads.
    """
    try:
        body = parse(content, depth_max=STORED_DEPTH_MAX)
        if not isinstance(body, dict) or body.get("schema") != OUTCOME_SCHEMA:
            raise FormatError("not an outcome file", code="outcome_format")
        result = _RESULTS[_text(body, "result")]
        number, elapsed_ms = _integer(body, "round"), _integer(body, "elapsed_ms")
        started_at = read_time(_text(body, "started_at"))
    except (InvalidJSON, KeyError, ValueError) as error:
        raise FormatError("an outcome file cannot be read", code="outcome_format") from error
    return StoredOutcome(
        body=body,
        number=number,
        result=RoundResult(
            status=result,
            error=_error(body) if result is OperationStatus.ERROR else None,
            retry_after_seconds=_number_or_none(body.get("retry_after_seconds")),
        ),
        started_at=started_at,
        ended_at=started_at + timedelta(milliseconds=elapsed_ms),
        request_fingerprint=text_or_none(body.get("request_fingerprint")),
        config_fingerprint=text_or_none(body.get("config_fingerprint")),
    )


def outcomes_of(
    states: Iterable[OperationState], read: Callable[[str], bytes]
) -> Iterator[tuple[OperationState, StoredOutcome]]:
    """Yield every finished round of some operations, in the order of the rounds.

    Args:
        states: Operations of one package.
        read: Returns the bytes of one of its files.

    Raises:
        FormatError: A file is not an outcome this version reads.
    """
    for state in states:
        for artifact in state.artifacts:
            if artifact.path != request_path(state.ophash):
                yield state, read_outcome(read(artifact.path))


def calls_in(body: JSONObject) -> Iterator[JSONObject]:
    """Yield a round's calls in order, the one that ended it under the members of the others."""
    yield from _objects(body.get("attempts"))
    if body.get("provider") is not None:
        yield {
            **body,
            "code": body.get("error"),
            "started_at": body.get("call_started_at"),
            "elapsed_ms": body.get("call_elapsed_ms"),
        }


def starts_in(body: JSONObject) -> list[tuple[str, list[JSONObject]]]:
    """Return when a round was begun before and cut off, each time with its targets."""
    return [
        (str(start.get("started_at")), _objects(start.get("targets")))
        for start in _objects(body.get("unconfirmed"))
    ]


def _objects(value: JSON) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _error(body: JSONObject) -> OperationError:
    status = integer_or_none(body.get("http_status"))
    return OperationError(code=_text(body, "error"), http_status=status)


def _text(body: JSONObject, name: str) -> str:
    value = body[name]
    if isinstance(value, str):
        return value
    raise ValueError(name)


def _integer(body: JSONObject, name: str) -> int:
    value = body[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(name)


def _number_or_none(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) else None
