"""What is kept of a request: nothing that its client wrote where a model's name should stand."""

from __future__ import annotations

import pytest

from casework.facade.told import Told
from casework.gateway.clock import MANUAL_START
from casework.gateway.outcomes import RoundUnavailable


def asked_model(told: Told, code: str | None) -> str | None:
    """Return what the request's line says of the model that was asked for."""
    line = told.line(
        request_id="r", at=MANUAL_START, route="/", status=400, code=code, elapsed_ms=1.0
    )
    return line.asked_model


@pytest.mark.parametrize("code", [None, "privacy_profile", "model_not_allowed"])
def test_a_model_that_was_understood_is_named(code: str | None) -> None:
    """An answer has one, and a refusal that is about one."""
    assert "near/echo" == asked_model(Told(model="near/echo"), code)


@pytest.mark.parametrize("code", ["model_not_found", "invalid_header", "overloaded", "unknown"])
def test_what_may_be_any_text_is_not_kept(code: str) -> None:
    """Somebody may have put a prompt or a key in the model's place."""
    assert None is asked_model(Told(model="my secret"), code)


def test_a_round_that_was_walked_had_a_model() -> None:
    """However it ended."""
    told = Told(model="near/echo")
    told.take(
        RoundUnavailable(
            started_at=MANUAL_START, elapsed_ms=1, attempts=(), retry_after_seconds=None
        )
    )
    assert "near/echo" == asked_model(told, "unavailable")
