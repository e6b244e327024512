"""The keys of clients as a person makes them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND, CommandLine, child_environment

KEY = re.compile(r"cw-[A-Za-z0-9_-]{43}")


def test_a_key_is_shown_once_and_alone(cli: CommandLine) -> None:
    """On standard output, for scripts; nowhere else, and never again."""
    created = cli("keys", "create", "web")
    assert (0, True) == (created.code, KEY.fullmatch(created.out.strip()) is not None)
    assert not KEY.search(created.err)
    others = [cli("keys", "list"), cli("keys", "list", "--json"), cli("doctor"), cli("logs")]
    others += [cli("keys", "revoke", "web", "--json"), cli("keys", "create", "web", "--debug")]
    assert not any(KEY.search(ran.out + ran.err) for ran in others)
    kept = b"".join(p.read_bytes() for p in cli.project.rglob("*") if p.is_file())
    assert created.out.strip().encode() not in kept


def test_what_a_key_may_do_is_listed(cli: CommandLine) -> None:
    """As it was asked for."""
    options = ("--profile", "self_hosted", "--model", "local/*", "--model", "b")
    limits = ("--requests-per-minute", "6", "--requests-per-day", "70", "--max-concurrency", "2")
    created = cli("keys", "create", "web", *options, *limits, "--json").document()
    (listed,) = cli("keys", "list", "--json").lines()
    assert listed == {name: value for name, value in created.items() if name != "key"}
    assert {
        "label": "web",
        "revoked_at": None,
        "privacy_profile": "self_hosted",
        "models": ["local/*", "b"],
        "requests_per_minute": 6,
        "requests_per_day": 70,
        "max_concurrency": 2,
    }.items() <= listed.items()
    text = cli("keys", "list").out
    assert "self_hosted  local/*, b  6         70     2" in text


def test_a_key_without_options_is_not_limited(cli: CommandLine) -> None:
    """What is not said is null."""
    cli("keys", "create", "web")
    (listed,) = cli("keys", "list", "--json").lines()
    assert {"label", "created_at"} == {name for name, value in listed.items() if value is not None}


def test_revoking_twice_is_harmless(cli: CommandLine) -> None:
    """The first time stays."""
    cli("keys", "create", "web")
    first = cli("keys", "revoke", "web", "--json").document()
    again = cli("keys", "revoke", "WEB", "--json").document()
    assert (True, {**first, "was_valid": False}) == (first["was_valid"], again)
    assert "revoked already" in cli("keys", "revoke", "web").out
    assert cli("keys", "list", "--json").lines()[0]["revoked_at"] == first["revoked_at"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("create", "Web"), "label_taken"),
        (("create", "cw-" + "A" * 43), "label_invalid"),
        (("create", "b", "--model", ""), "key_invalid"),
        (("create", "b", "--requests-per-minute", "1000000"), "key_invalid"),
        (("create", "b", "--requests-per-day", "0"), "usage"),
        (("create", "b", "--max-concurrency", "-1"), "usage"),
        (("create", "b", "--profile", "everything"), "usage"),
        (("create",), "usage"),
        (("revoke", "cw-" + "A" * 43), "no_key"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(
    cli: CommandLine, words: tuple[str, ...], code: str
) -> None:
    """With a code, and without what may be a key."""
    cli("keys", "create", "web")
    before = cli("keys", "list").out
    ran = cli("keys", *words)
    assert (2, "") == (ran.code, ran.out)
    assert ran.err.endswith(f"[{code}]\n")
    assert not KEY.search(ran.err)
    assert before == cli("keys", "list").out


def test_a_damaged_file_is_an_integrity_error(cli: CommandLine) -> None:
    """For every verb of the group."""
    cli("keys", "create", "web")
    path = cli.project / "runtime" / "client_keys.json"
    path.write_bytes(path.read_bytes()[:-9])
    for words in (("list",), ("create", "b"), ("revoke", "web")):
        ran = cli("keys", *words)
        assert (6, True) == (ran.code, "[client_keys_damaged]" in ran.err)


def test_keys_belong_to_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written where there is none."""
    ran = CommandLine(tmp_path, capsys)("keys", "create", "web")
    assert (2, True) == (ran.code, "[no_project]" in ran.err)
    assert [] == list(tmp_path.iterdir())


def test_keys_created_at_once_are_all_there(cli: CommandLine) -> None:
    """Four processes, four keys."""
    words = ("--project", str(cli.project), "--quiet")
    children = [
        subprocess.Popen(
            [*COMMAND, "keys", "create", f"web {n}", *words],
            env=child_environment(),
            stdout=subprocess.PIPE,
        )
        for n in range(4)
    ]
    shown = {one.communicate(timeout=60)[0] for one in children}
    assert [0] * 4 == [one.returncode for one in children]
    assert 4 == len(shown)
    labels = {line["label"] for line in cli("keys", "list", "--json").lines()}
    assert {f"web {n}" for n in range(4)} == labels
