"""Each exit code means one thing, and every command that may end with it does."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from casework.checkpoints.store import CheckpointStore
from casework.runtime.cli.exit_codes import MEANINGS, ExitCode
from tests.support.command_line import DOWN, YES, CommandLine, make_project, write_script


def test_all_succeeded_is_0_and_a_second_run_asks_nobody(cli: CommandLine) -> None:
    """The counts reconcile, and running twice is harmless."""
    cli.imported()
    first, second = cli("run"), cli("run")
    assert (0, 0) == (first.code, second.code)
    assert "3 calls, 0 results reused" in first.out
    assert "0 calls, 3 results reused" in second.out
    assert "done 3 (100%)" in second.out


def test_some_error_is_3(cli: CommandLine) -> None:
    """A controlled failure of one case is told by the code, not hidden in the counts."""
    write_script(cli.project, [{"do": "reply", "text": "no JSON"}, YES])
    ran = cli.imported()("run", "--json")
    assert (3, 1) == (ran.code, ran.document()["counts"]["error"])  # type: ignore[index,call-overload]


def test_some_waiting_in_the_inbox_is_4(cli: CommandLine) -> None:
    """Operations whose rounds are used up wait in the inbox."""
    write_script(cli.project, [DOWN])
    assert 4 == cli.imported()("run").code
    assert 3 == len(cli("inbox", "list", "--json").lines())


def test_retries_pending_is_5_and_says_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A single pass over an outage ends unfinished and names the next time."""
    project = make_project(tmp_path, [DOWN], delay=60.0)
    ran = CommandLine(project, capsys).imported()("run", "--once")
    assert 5 == ran.code
    assert "3 operations to be asked again from 20" in ran.err


def test_a_limit_leaves_the_rest_unfinished(cli: CommandLine) -> None:
    """With work left over the code is 5 even if all that ran succeeded."""
    ran = cli.imported()("run", "--limit", "2", "--json")
    assert (5, "limit") == (ran.code, ran.document()["ended"])


def test_damage_is_6(cli: CommandLine) -> None:
    """One flipped byte is found, named, and told by the code."""
    cli.imported()("run")
    assert 0 == cli("verify").code
    victim = next((cli.project / "runtime" / "cases").rglob("outcome-0001.json"))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    ran = cli("verify", "--all", "--json")
    wrong = [line for line in ran.lines() if not line["ok"]]
    assert (6, 1) == (ran.code, len(wrong))
    assert "outcome-0001.json" in str(wrong[0]["findings"])


def test_an_import_that_was_cut_off_is_no_damage(cli: CommandLine) -> None:
    """What a kill leaves before a first commit is counted apart, and imported again."""
    cli.imported()
    (record,) = (cli.project / "runtime" / "cases").glob("*/b.txt/commits/*.json")
    record.unlink()
    ran = cli("verify", "--all")
    assert (0, True) == (ran.code, "2 packages sound, 0 not; 1 cut off" in ran.out)
    assert [True] * 3 == [line["ok"] for line in cli("verify", "--json").lines()]
    assert 6 == cli("verify", "b.txt").code
    assert 0 == cli.imported()("verify").code
    assert "3 packages sound, 0 not\n" == cli("verify").out


def test_a_held_lock_is_7(cli: CommandLine) -> None:
    """A case in another worker's hands is told at once."""
    cli.imported()
    store = CheckpointStore(cli.project / "runtime")
    with store.lock("a.txt"), store.lock("b.txt"), store.lock("c.txt"):
        ran = cli("run", "--once")
    assert 7 == ran.code
    write_script(cli.project, [{"do": "reply", "text": "no JSON"}])
    cli("run")
    with store.lock("a.txt"):
        assert 7 == cli("retry", "--case", "a.txt").code


def test_usage_and_configuration_are_2(cli: CommandLine) -> None:
    """A wrong option, a wrong setting and a missing case all end with 2."""
    settings = cli.project / "config" / "llm.local.toml"
    cli.imported()
    assert 2 == cli("run", "--concurrency", "65").code
    assert 2 == cli("inspect", "nobody").code
    settings.write_text("privacy_profil = 'local_only'\n", encoding="utf-8")
    assert 2 == cli("run").code
    assert 2 == cli("doctor").code


def test_every_code_is_in_the_help(cli: CommandLine) -> None:
    """``--help`` gives each code with its meaning."""
    text = cli("--help", project=False).out
    missing = [c for c, what in MEANINGS.items() if f"{c.value}  {what}" not in text]
    assert [] == missing
    assert set(ExitCode) == set(MEANINGS)


def test_a_changed_prompt_is_refused_with_the_difference(cli: CommandLine) -> None:
    """Under the old id an edited pipeline neither reuses nor mixes, and says what differs."""
    cli.imported()("run")
    pipeline = cli.project / "pipeline.toml"
    pipeline.write_text(pipeline.read_text().replace("Answer.", "Answer better."))
    ran = cli("run")
    assert 2 == ran.code
    assert "messages" in ran.err
    assert "[operation_conflict]" in ran.err


def test_a_changed_prompt_is_refused_also_after_failures_were_asked_again(
    cli: CommandLine,
) -> None:
    """A later campaign that holds only failures hides no older answers."""
    (cli.project / "inputs" / "blank.txt").write_text(" ", encoding="utf-8")
    assert 0 == cli("import", str(cli.project / "inputs")).code
    assert 3 == cli("run").code
    assert 0 == cli("retry", "--failed").code
    assert 3 == cli("run").code
    pipeline = cli.project / "pipeline.toml"
    pipeline.write_text(pipeline.read_text().replace("Answer.", "Answer better."))
    ran = cli("run")
    assert 2 == ran.code
    assert "[operation_conflict]" in ran.err


def test_corrected_settings_have_a_way_on_for_what_waits(cli: CommandLine) -> None:
    """One line names the setting and the verb; after it the waiting operations are asked."""
    write_script(cli.project, [DOWN])
    cli.imported()("run", "--once")
    settings = cli.project / "config" / "llm.local.toml"
    settings.write_text(settings.read_text().replace('model = "m-1"', 'model = "m-2"'))
    write_script(cli.project, [YES])
    refused = cli("run")
    assert 2 == refused.code
    assert 1 == refused.err.count("configuration.providers[desk].model")
    assert "casework retry --pending" in refused.err
    assert 0 == cli("retry", "--pending").code
    assert 0 == cli("run").code


def test_a_verbose_command_leaves_no_listener_behind(cli: CommandLine) -> None:
    """Whoever calls the command line from a program keeps the log handlers that were there."""
    ours = logging.getLogger("casework")
    before = list(ours.handlers), ours.level
    cli.imported()
    (cli.project / "runtime" / "index.sqlite3").unlink()
    assert "packages rescanned" in cli("status", "-v").err
    assert before == (list(ours.handlers), ours.level)


def test_retry_asks_failures_again_and_keeps_the_old_outcome(cli: CommandLine) -> None:
    """After a correction the failures succeed under a new id."""
    write_script(cli.project, [{"do": "reply", "text": "no JSON"}, YES])
    cli.imported()("run")
    again = cli("retry", "--failed", "--json").lines()
    assert ["first@2"] == [line["new_operation_id"] for line in again]
    write_script(cli.project, [YES])
    assert 0 == cli("run").code
    case = str(again[0]["case_id"])
    states = cli("inspect", case, "--json").document()["operations"]
    assert isinstance(states, list)
    assert {"first": "ERROR", "first@2": "SUCCESS"} == {
        s["operation_id"]: s["status"] for s in states if isinstance(s, dict)
    }


def test_blocked_work_is_released_after_its_time_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too early ends with 5 and the time; with the time passed the work goes on."""
    cli = CommandLine(make_project(tmp_path, [DOWN], blocked=3600.0), capsys).imported()
    cli("run")
    early = cli("inbox", "release", "--all", "--json")
    assert (5, {"not_due"}) == (early.code, {line["answer"] for line in early.lines()})
    other = CommandLine(make_project(tmp_path / "other", [DOWN], blocked=0.0), capsys).imported()
    other("run")
    assert 0 == other("inbox", "release", "--reason", "LLM_UNAVAILABLE").code
    write_script(other.project, [YES])
    assert 0 == other("run").code


def test_an_export_leaves_out_a_damaged_case_and_says_so(cli: CommandLine) -> None:
    """One bad package does not take the others with it, and the code tells of it."""
    cli.imported()("run")
    whole = len(cli("export").lines())
    outcome = next(cli.project.glob("runtime/cases/*/*/llm/operations/*/outcome-0001.json"))
    outcome.write_bytes(outcome.read_bytes().replace(b"yes", b"yeS"))
    ran = cli("export")
    assert (6, whole - 1) == (ran.code, len(ran.lines()))
    assert "is left out" in ran.err
