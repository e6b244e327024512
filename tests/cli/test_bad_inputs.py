"""Whatever is wrong, a person gets one line with a way out, and never a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from casework.checkpoints.store import CheckpointStore
from tests.support.command_line import CommandLine

ONE_LINE = re.compile(r"casework: [^\n]+ \[[a-z0-9_]+\]\n")

BAD = [
    ("nonsense",),
    ("status", "--nonsense"),
    ("run", "--limit", "0"),
    ("run", "--limit", "many"),
    ("run", "--case", "nobody"),
    ("run", "--pipeline", "nowhere.toml"),
    ("import",),
    ("import", "inputs", "--encoding", "klingon"),
    ("import", "inputs", "--format", "pdf"),
    ("import", "-"),
    ("import", "-", "--format", "zip"),
    ("import", "inputs", "-", "--format", "files"),
    ("import", "inputs", "--name", "x"),
    ("inspect", "nobody"),
    ("inspect", "\x1b[31mred"),
    ("inspect", "a.txt", "--outcome"),
    ("inspect", "a.txt", "--outcome", "--round", "7"),
    ("inbox", "show", "nobody"),
    ("inbox", "release"),
    ("retry",),
    ("audit",),
    ("audit", "nobody"),
    ("verify", "nobody"),
    ("verify", "pipeline.toml"),
    ("export", "--format", "zip"),
    ("export", "--format", "csv", "--field", "severity"),
    ("export", "--format", "parquet", "--field", "severity"),
    ("export", "--format", "parquet", "--pipeline", "nowhere.toml"),
    ("export", "-o", "no/such/folder/out.jsonl"),
    ("explain", "--op", "nobody"),
    ("completion", "tcsh"),
]


@pytest.fixture
def project(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Give a project with cases and no results, from inside its folder."""
    monkeypatch.chdir(cli.project)
    return cli.imported()


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_a_mistake_is_one_line(project: CommandLine, words: tuple[str, ...]) -> None:
    """One line on standard error, nothing on standard output, and a code for mistakes."""
    ran = project(*words)
    assert ran.code in {1, 2}
    assert "" == ran.out
    assert ONE_LINE.fullmatch(ran.err)


def test_a_misused_verb_is_sent_to_its_own_help(project: CommandLine) -> None:
    """The words of the parser's machinery stay away."""
    refused = project("export", "--format", "xlsx")
    assert "Value error" not in refused.err
    assert "see `casework export --help` [usage]" in refused.err


@pytest.mark.parametrize("words", [("inbox", "show"), ("inbox", "approve"), ("inspect",)])
def test_an_operation_that_never_ran_is_told_with_its_case(
    project: CommandLine, words: tuple[str, ...]
) -> None:
    """And with the verb that lists those which have."""
    refused = project(*words, "a.txt", "first")
    assert refused.err.startswith("casework: a.txt: the case has no such operation; ")
    assert "`casework inspect CASE`" in refused.err


def test_no_project_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside any project each verb says what is missing, and writes nothing."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    cli = CommandLine(empty, capsys)
    for words in (
        ("run",),
        ("status",),
        ("explain",),
        ("verify",),
        ("export",),
        ("retry", "--failed"),
    ):
        ran = cli(*words, project=False)
        assert 2 == ran.code, words
        assert ONE_LINE.fullmatch(ran.err), words
    assert 2 == cli("doctor", project=False).code
    assert [] == list(empty.iterdir())


def test_a_missing_project_folder_is_one_line(cli: CommandLine) -> None:
    """A folder that is not there is named."""
    ran = cli("status", "--project", "/nowhere/at/all", project=False)
    assert (2, True) == (ran.code, bool(ONE_LINE.fullmatch(ran.err)))


@pytest.mark.parametrize(
    "settings",
    [
        'file = "C:\\Users\\me"',
        "\ufeffprivacy_profile = 'local_only'",
        "privacy_profile = 'local_only'\nprivacy_profile = 'local_only'",
        "[[providers]]\nid = 'x'\napi_key = 'sk-1234567890abcdef1234'",
        "\x00",
        "",
    ],
    ids=["windows path", "byte order mark", "twice", "inline key", "control", "empty"],
)
def test_bad_settings_are_one_line_with_their_place(project: CommandLine, settings: str) -> None:
    """File and line are named, and no value of the file is repeated."""
    file = project.project / "config" / "llm.local.toml"
    file.write_text(settings, encoding="utf-8")
    ran = project("run")
    assert 2 == ran.code
    assert ONE_LINE.fullmatch(ran.err)
    assert "llm.local.toml:" in ran.err
    assert "sk-123" not in ran.err


def test_a_defect_shows_its_type_only(
    project: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of an unexpected error may be a document's, so it is not shown."""

    def broken(_store: CheckpointStore) -> None:
        raise ZeroDivisionError("the secret of the document")

    monkeypatch.setattr(CheckpointStore, "prove", broken)
    ran = project("run")
    last = ran.err.splitlines()[-1]
    assert 1 == ran.code
    assert "ZeroDivisionError" in last
    assert last.endswith("[internal_error]")
    assert "secret" not in ran.err


def test_a_traceback_is_shown_on_demand_with_a_warning(
    project: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--debug`` shows it and says what it may hold."""

    def broken(_store: CheckpointStore) -> None:
        raise ZeroDivisionError("details")

    monkeypatch.setattr(CheckpointStore, "prove", broken)
    ran = project("run", "--debug")
    assert "Traceback" in ran.err
    assert "may show the text of documents" in ran.err


def test_no_option_takes_a_secret(cli: CommandLine) -> None:
    """No verb has an option for a key, token or password."""
    texts = [
        cli(*words, "--help", project=False).out for words in (("run",), ("doctor",), ("init",))
    ]
    assert not re.search(r"--[a-z-]*(key|token|password|secret)", "".join(texts))


def test_nothing_there_to_import_is_a_mistake(project: CommandLine) -> None:
    """An empty folder and a missing file end with 2."""
    (project.project / "void").mkdir()
    assert 2 == project("import", "void").code
    assert 2 == project("import", "nowhere.txt").code


def test_a_case_with_other_content_is_refused_and_counted(project: CommandLine) -> None:
    """Changed bytes under an old id are told, and the case stays as it was."""
    (project.project / "inputs" / "a.txt").write_text("Changed.", encoding="utf-8")
    ran = project("import", "inputs", "--json")
    document = ran.document()
    assert (3, 3, 2, 1) == (ran.code, document["found"], document["known"], document["refused"])


def test_control_characters_of_an_answer_cannot_move_the_cursor(cli: CommandLine) -> None:
    """What a document or model wrote is shown escaped."""
    (cli.project / "inputs" / "a.txt").write_text("Evil \x1b[2J text", encoding="utf-8")
    shown = cli.imported()("inbox", "show", "a.txt").out
    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown
