from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from casework.config.gateway_config import GatewayConfig, example_toml
from casework.config.toml_document import TomlDocument
from casework.runtime.views.settings_view import NOT_SHOWN, Setting, settings_of

PROVIDERS = """
[[providers]]
id = "desk"
adapter = "openai_compatible"
base_url = "https://desk.example:8443/tenants/t-81/v1"
model = "m"
api_key_env = ["DESK_KEY", "SPARE_KEY"]

[retry]
max_attempts = 3
"""


class Colour(StrEnum):
    RED = "red"


class Inner(BaseModel):
    port: int = 1


class House(BaseModel):
    name: str = Field("plain", alias="called")
    colour: Colour = Colour.RED
    price: Decimal = Decimal("0.10")
    place: Path = Path("a/b")
    hidden: str = Field("s3cret-words", repr=False)
    password: SecretStr = SecretStr("s3cret-words")
    dsn: str = "postgresql://user:s3cret-words@db.example:5432/cases?sslpassword=s3cret-words"
    peers: tuple[str, ...] = ("redis://:s3cret-words@[::1]:6379/0", "plain")
    token_env: str | None = "HOUSE_TOKEN"
    rooms: Mapping[str, Inner] = {"hall": Inner()}
    doors: tuple[Inner, ...] = (Inner(port=2), Inner())
    derived: str = Field("s3cret-words", exclude=True)


def settings(
    model: BaseModel, text: str = "", environ: Mapping[str, str] | None = None
) -> dict[str, Setting]:
    document = TomlDocument.parse(text, name="llm.toml")
    return {found.name: found for found in settings_of(model, document, environ or {})}


def configured(text: str, environ: Mapping[str, str] | None = None) -> dict[str, Setting]:
    return settings(GatewayConfig.parse(text), text, environ)


def test_every_setting_of_the_configuration_is_shown() -> None:
    """Whatever sections the models gain; a table that is absent is shown as none."""
    schema = GatewayConfig.settings_schema()
    found = configured(PROVIDERS)
    for section in schema["properties"]:
        assert any(name.split(".")[0].split("[")[0] == section for name in found)
    provider = schema["$defs"]["ProviderConfig"]["properties"]
    assert [] == [key for key in provider if f"providers[0].{key}" not in found]


def test_a_value_tells_its_line_or_that_it_is_the_default() -> None:
    """Keys that nobody wrote have no line, also in a table that somebody did."""
    found = configured(PROVIDERS)
    assert ("llm.toml:10", 3) == (
        found["retry.max_attempts"].origin,
        found["retry.max_attempts"].value,
    )
    assert "llm.toml:3" == found["providers[0].id"].origin
    assert {"default"} == {
        found[name].origin
        for name in ("retry.retry_delay_seconds", "privacy_profile", "providers[0].class")
    }


def test_of_an_address_scheme_host_and_port_are_shown() -> None:
    """A path may hold a tenant, and a tenant may be a secret."""
    assert "https://desk.example:8443" == configured(PROVIDERS)["providers[0].base_url"].value


def test_of_keys_the_variables_are_named_and_whether_they_are_set() -> None:
    """An empty variable counts as not set, and no value is shown."""
    environ = {"DESK_KEY": "s3cret-words", "SPARE_KEY": ""}
    found = configured(PROVIDERS, environ)["providers[0].api_key_env"]
    assert "DESK_KEY (set), SPARE_KEY (not set)" == found.shown()
    assert {"DESK_KEY": True, "SPARE_KEY": False} == found.to_json()["variables"]
    assert "s3cret" not in json.dumps(found.to_json())


def test_no_secret_of_any_form_is_shown() -> None:
    """Fields that the model does not print, secret types, and addresses with passwords."""
    found = settings(House())
    whole = json.dumps([setting.to_json() for setting in found.values()])
    assert "s3cret" not in whole + "".join(setting.shown() for setting in found.values())
    assert (NOT_SHOWN, NOT_SHOWN) == (found["hidden"].value, found["password"].value)
    assert "postgresql://db.example:5432" == found["dsn"].value
    assert ["redis://[::1]:6379", "plain"] == found["peers"].value
    assert "derived" not in found


def test_values_are_shown_in_their_own_form() -> None:
    """Numbers as numbers, words as words, money exactly, nested tables by their path."""
    found = settings(House())
    assert ["plain", "red", "0.10", "a/b", 1, 2, 1] == [
        found[name].value
        for name in (
            "called",
            "colour",
            "price",
            "place",
            "rooms.hall.port",
            "doors[0].port",
            "doors[1].port",
        )
    ]
    assert "HOUSE_TOKEN (not set)" == found["token_env"].shown()
    assert "none" == settings(House(token_env=None))["token_env"].shown()


@pytest.mark.parametrize(
    "address",
    [
        "postgres://user:pa/s3cret@host/db@x",
        "https://host/?key=s3cret@y@z",
        "amqp://s3cret words",
        "see https://host/s3cret",
        "x://user:s3cret",
        "sk-abcdefghijklmnop1s3cret",
    ],
)
def test_where_it_is_open_which_part_is_which_nothing_is_shown(address: str) -> None:
    """Better no host than a piece of a password."""
    assert NOT_SHOWN == settings(House(dsn=address))["dsn"].value


@given(st.text("ab/:@?#[]. -", max_size=12), st.text("ab/:@?#", max_size=6))
def test_no_user_name_or_password_comes_through(user: str, path: str) -> None:
    """Whatever letters it holds: the mark stands in the user's part and in the path."""
    for address in (f"s://{user}S3CRET@host/{path}", f"s://host/{path}S3CRET{user}"):
        assert "S3CRET" not in str(settings(House(dsn=address))["dsn"].value)


def test_the_example_is_shown_whole() -> None:
    """Each provider of it by its number."""
    text = example_toml()
    found = configured(text)
    count = len(GatewayConfig.parse(text).providers)
    assert f"providers[{count - 1}].id" in found
    assert f"providers[{count}].id" not in found
