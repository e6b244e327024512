"""Keys come from the environment alone, and only their labels are ever shown."""

from __future__ import annotations

import pytest

from casework.config import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.credentials import credentials_for

CANARY = "sk-canary-7f3a"  # a mark to look for


def provider(*names: str) -> ProviderConfig:
    """Return a provider that names these variables."""
    return ProviderConfig(
        id="p",
        adapter="openai_compatible",
        base_url="https://api.example/v1",
        model="m",
        api_key_env=names,
    )


def test_keys_keep_their_order_and_get_labels() -> None:
    """A label is the variable's name and its place."""
    found = credentials_for(provider("B", "A"), {"A": "one", "B": " two\n"})
    assert [("B#1", "two"), ("A#2", "one")] == [(c.label, c.secret) for c in found]


def test_no_names_no_keys() -> None:
    """A provider without a key is called without one."""
    assert () == credentials_for(provider(), {"OPENAI_API_KEY": CANARY})


@pytest.mark.parametrize("environment", [{}, {"KEY": ""}, {"KEY": "  \t\n"}])
def test_a_missing_key_names_its_variable(environment: dict[str, str]) -> None:
    """Empty is unset, and the remedy names what to set."""
    with pytest.raises(ConfigurationError) as caught:
        credentials_for(provider("KEY"), environment)
    assert "missing_credential" == caught.value.code
    assert "KEY" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_of_several_keys_missing_is_missing() -> None:
    """A list is not a choice: every variable must be set."""
    with pytest.raises(ConfigurationError, match="SECOND"):
        credentials_for(provider("FIRST", "SECOND"), {"FIRST": CANARY})


@pytest.mark.parametrize(
    "secret",
    [
        f"Bearer {CANARY}",
        f"{CANARY}\r\nX-Evil: 1",
        f"{CANARY}\x00",
        f"{CANARY}\u2019",
        CANARY * 1000,
    ],
)
def test_what_no_header_can_carry_is_refused_and_never_shown(secret: str) -> None:
    """A key that would break the header is refused without a word of it."""
    with pytest.raises(ConfigurationError) as caught:
        credentials_for(provider("KEY"), {"KEY": secret})
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(caught.value)


def test_a_credential_prints_its_label_only() -> None:
    """Printing a credential shows no secret."""
    (found,) = credentials_for(provider("KEY"), {"KEY": CANARY})
    assert "canary" not in repr(found)
    assert "KEY#1" in repr(found)
