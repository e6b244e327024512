"""The settings in effect, as a person asks for them."""

from __future__ import annotations

import pytest

from casework.strict_json import JSONObject
from tests.support.command_line import CommandLine


def found(cli: CommandLine) -> dict[str, JSONObject]:
    """Return the settings of a project by their names."""
    settings = cli("config", "show", "--json").document()["settings"]
    assert isinstance(settings, list)
    return {str(s["setting"]): s for s in settings if isinstance(s, dict)}


def test_every_setting_is_shown_with_its_value(cli: CommandLine) -> None:
    """Those of the file and those that nobody wrote."""
    settings = found(cli)
    assert (2, "local_only") == (
        settings["retry.max_attempts"]["value"],
        settings["privacy_profile"]["value"],
    )
    assert settings["privacy_profile"]["line"] is None
    lines = (cli.project / "config" / "llm.local.toml").read_text().splitlines()
    number = settings["retry.max_attempts"]["line"]
    assert isinstance(number, int)
    assert lines[number - 1].startswith("max_attempts")


def test_the_origin_is_told_on_demand(cli: CommandLine) -> None:
    """File and line, or that it is the default."""
    plain, told = cli("config", "show").out, cli("config", "show", "--origin").out
    assert "ORIGIN" not in plain
    row = next(line for line in told.splitlines() if line.startswith("providers[1].base_url"))
    assert ["providers[1].base_url", "https://api.cloud.example"] == row.split()[:2]
    assert row.split()[2].endswith("llm.local.toml:11")
    assert "privacy_profile" in told
    assert " default\n" in told


def test_no_key_is_shown(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of its variable is, and whether it is set."""
    monkeypatch.setenv("CLOUD_KEY", "s3cret-words")
    settings = cli.project / "config" / "llm.local.toml"
    text = settings.read_text()
    settings.write_text(text.replace('model = "big"', 'model = "big"\napi_key_env = "CLOUD_KEY"'))
    shown = cli("config", "show", "--origin").out + cli("config", "show", "--json").out
    assert "CLOUD_KEY (set)" in shown
    assert "s3cret" not in shown
    assert {"CLOUD_KEY": True} == found(cli)["providers[1].api_key_env"]["variables"]


def test_settings_that_cannot_be_used_are_refused(cli: CommandLine) -> None:
    """With the place in the file, as by every verb."""
    settings = cli.project / "config" / "llm.local.toml"
    settings.write_text(settings.read_text() + "\nnonsense = 1\n")
    ran = cli("config", "show")
    assert (2, "") == (ran.code, ran.out)
    assert "llm.local.toml:" in ran.err
