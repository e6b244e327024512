"""Chat calls of clients as operations: what is recorded of the request and of the reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Final, TypeAlias, assert_never

from casework.checkpoints.records import REQUEST_SCHEMA
from casework.errors import FormatError, InvalidRequest
from casework.gateway.chat.answers import ChatAnswer
from casework.gateway.chat.calls import ChatCall, ChatReply
from casework.gateway.chat.request import ChatRequest
from casework.gateway.outcomes import (
    Answered,
    RoundErred,
    RoundOutcome,
    RoundSucceeded,
    RoundUnavailable,
    Validator,
    Walked,
)
from casework.gateway.plan import OperationPlan, Plan
from casework.runner.fingerprints import OperationIdentity, RequestRecord
from casework.strict_json import JSON, InvalidJSON, JSONObject, digest, parse

ChatPlan: TypeAlias = Plan[ChatCall, ChatReply, ChatAnswer]

PROTOCOL: Final = "openai_chat"

ROUNDS_MAX: Final = 100
"""Rounds in which somebody was asked, before a call that nobody could answer is given up."""

_SHAPE: Final = Validator(PROTOCOL, "1")
"""What accepts an answer that no schema was given for."""

_CONFIGURATION: Final[JSONObject] = {"protocol": PROTOCOL}
"""A call is bound to its request alone. Its client cannot know of the service's settings, and a
change of them must turn neither what is recorded nor a further try into a conflict."""


def chat_recorder(
    request: ChatRequest, *, client: str, idempotency_key: str
) -> Callable[[OperationIdentity], RequestRecord]:
    """Return what describes a chat request, once it is known where it belongs.

    Values are kept, the order of members and the spelling of numbers are not: two bodies that say
    the same are the same request. Members that are never passed on are not in it.

    Args:
        request: What is asked.
        client: Whose it is.
        idempotency_key: The key that came with it.

    Raises:
        InvalidRequest: A member cannot be recorded.
    """
    members = {name: _value(name, content) for name, content in request.members.items()}
    profile = request.privacy_profile
    described: JSONObject = {
        "protocol": PROTOCOL,
        "client": client,
        "idempotency_key": idempotency_key,
        "model": request.model,
        "messages": members.pop("messages", None),
        "parameters": members,
        "privacy_profile": None if profile is None else profile.value,
        "prompt_version": None,
        "prompt_sha256": None,
        "output_schema": None,
        "schema_name": None,
        "data": None,
    }

    def record(identity: OperationIdentity) -> RequestRecord:
        body: JSONObject = {
            **described,
            "schema": REQUEST_SCHEMA,
            "operation_id": identity.operation_id,
            "analysis_revision": identity.analysis_revision,
            "case_id": identity.case_id,
            "package_id": identity.package_id,
            "phase": identity.phase,
        }
        request_fingerprint, config_fingerprint = digest(body), digest(_CONFIGURATION)
        body["request_fingerprint"] = request_fingerprint
        body["config_fingerprint"] = config_fingerprint
        body["configuration"] = _CONFIGURATION
        return RequestRecord(body, request_fingerprint, config_fingerprint)

    return record


def _value(name: str, content: bytes) -> JSON:
    try:
        return parse(content)
    except InvalidJSON as error:
        reason = error.reason
    raise InvalidRequest(
        f"the member is no strict JSON ({reason}), so the call cannot be kept",
        code="not_strict_json",
        where=name,
        remedy="write each name once, numbers in range and whole characters",
    )


def operation_plan(
    plan: ChatPlan, request: ChatRequest
) -> OperationPlan[ChatCall, ChatReply, ChatAnswer]:
    """Return the plan of a call's next round, as the runner announces it: each target once.

    There is no delay between rounds, since each of them is a try of the client's own.
    """
    named = {(target.provider.id, target.model): target for target in plan.targets}
    own = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return OperationPlan(
        **{**own, "targets": tuple(named.values())},
        validator=request.schema.validator if request.schema else _SHAPE,
        configuration=_CONFIGURATION,
        rounds_max=ROUNDS_MAX,
        retry_delay_seconds=0.0,
    )


def reached_nobody(walked: Walked[ChatAnswer]) -> bool:
    """Tell whether a round sent nothing to anybody, so that nothing of it has to be kept."""
    return isinstance(walked, RoundUnavailable) and not any(
        attempt.served.sent for attempt in walked.attempts
    )


def round_outcome(
    walked: Walked[ChatAnswer], request: ChatRequest, validator: Validator
) -> RoundOutcome:
    """Return what is recorded of a round: the reply as text, so that it can be given again.

    How long targets rest is known to this process only and passes with it, so it is left out: the
    next try asks anew.
    """
    match walked:
        case RoundErred():
            return walked
        case RoundUnavailable():
            return replace(walked, retry_after_seconds=None)
        case Answered(answer=answer):
            dropped: list[JSON] = list(answer.dropped)
            return RoundSucceeded(
                started_at=walked.started_at,
                elapsed_ms=walked.elapsed_ms,
                attempts=walked.attempts,
                served=walked.served,
                output={"body": answer.body(request.model).decode(), "dropped": dropped},
                surrogates_replaced=0,
                validator=validator,
            )
        case _:
            assert_never(walked)


def recorded_reply(output: JSON) -> tuple[bytes, tuple[str, ...]]:
    """Return the reply of a call and the members that were dropped, from its recorded answer.

    Raises:
        FormatError: The answer is not one of a call.
    """
    if isinstance(output, dict):
        body, dropped = output.get("body"), output.get("dropped")
        if isinstance(body, str) and isinstance(dropped, list):
            return body.encode(), tuple(map(str, dropped))
    raise FormatError("a recorded answer is not one of a call", code="outcome_format")
