"""The estimate of tokens: near the truth for what people write, and never out of bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.token_estimate import estimate_tokens


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        (
            "The pump failed twice during the night shift, and the operator noticed burnt oil.",
            17,
        ),
        ('{"case_id": "c-17", "status": "SUCCESS", "cost": 0.15}', 22),
        ("水泵在夜班期间两次发生故障操作员注意到阀门附近有强烈的焦油气味", 26),
    ],
)
def test_the_estimate_is_near_the_truth(text: str, truth: int) -> None:
    """Within a third of what a tokenizer counts."""
    assert truth * 2 / 3 <= estimate_tokens(text) <= truth * 4 / 3


@given(st.text(max_size=300), st.text(max_size=300))
def test_more_text_is_never_fewer_tokens(text: str, more: str) -> None:
    """The estimate of two texts apart is at least that of each, and a token has some byte."""
    both = estimate_tokens(f"{text} {more}")
    assert max(estimate_tokens(text), estimate_tokens(more)) <= both
    assert both <= len(f"{text} {more}".encode())
