"""Everything that can be imported, by the command that people type."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from casework.errors import ConfigurationError
from casework.runtime.importing import standard_input
from tests.support.command_line import CommandLine, child, make_project
from tests.support.pdf_files import make_pdf


def test_standard_input_needs_a_format_and_takes_a_name(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no ending is not guessed at; ids are made of the name."""
    content = b'{"a": 1}\n\n{"a": 2}\n'

    def typed(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        ran = cli("import", *words)
        return ran.code, ran.err

    code, message = typed("-")
    assert (2, True) == (code, "[stdin_format]" in message)
    assert 2 == typed("-", "--format", "zip")[0]
    assert 2 == typed("-", "inputs", "--format", "jsonl")[0]
    assert 2 == typed("inputs", "--name", "x")[0]
    assert 0 == typed("-", "--format", "jsonl")[0]
    assert 0 == typed("-", "--format", "jsonl", "--name", "night")[0]
    assert 0 == typed("-", "--format", "files", "--name", "all.txt")[0]
    ids = ["stdin#1", "stdin#3", "night#1", "night#3", "all.txt"]
    assert [0] * 5 == [cli("verify", case_id).code for case_id in ids]


def test_standard_input_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever pipes without end is told where to put it."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * 11)))
    with pytest.raises(ConfigurationError) as caught:
        standard_input(10)
    assert "stdin_too_large" == caught.value.code
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * 10)))
    with standard_input(10) as stream:
        assert b"x" * 10 == stream.read()


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX arguments")
def test_undecodable_bytes_of_a_name_are_written_out(tmp_path: Path) -> None:
    """An argument that is not UTF-8 becomes an id that can be stored, and is remarked on."""
    make_project(tmp_path)
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"x")
    done = child("import", os.fsdecode(b"caf\xe9.txt"), "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert (0, 1, {"name_escaped": 1}) == (
        done.returncode,
        report["created"],
        report["problem_counts"],
    )
    assert 0 == child("verify", "caf\\xe9.txt", cwd=tmp_path).returncode


def test_a_folder_of_many_formats_is_imported_and_counted(cli: CommandLine) -> None:
    """Found is imported plus refused, and each problem names its line."""
    folder = cli.project / "mixed"
    folder.mkdir()
    (folder / "rows.csv").write_text("id,text\n1,a\n2,b,c\n3,c\n", encoding="utf-8")
    (folder / "array.json").write_text('[{"n": 1},\n 2,\n{"n": 3}]', encoding="utf-8")
    (folder / "box.mbox").write_bytes(b"From x\nSubject: 1\n\n\nFrom y\n\n\xe9")
    (folder / "one.eml").write_bytes(b"Subject: s\nContent-Type: text/plain; charset=\n\nx")
    with zipfile.ZipFile(folder / "more.zip", "w") as packed:
        packed.writestr("../out.txt", "x")
        packed.writestr("in.jsonl", '{"n": 1}\n{"n": 1\n')
    ran = cli("import", str(folder), "--json")
    report = ran.document()
    assert (3, 12, 8, 4) == (ran.code, report["found"], report["created"], report["refused"])
    places = [
        (problem["where"].removeprefix(f"{folder}/"), problem["code"])
        for problem in json.loads(ran.out)["problems"]
        if problem["refused"]
    ]
    assert [
        ("array.json:2", "record_invalid"),
        ("more.zip/../out.txt", "member_unsafe"),
        ("more.zip/in.jsonl:2", "record_invalid"),
        ("rows.csv:3", "record_invalid"),
    ] == places
    assert not (cli.project / "out.txt").exists()
    assert 0 == cli("verify", "--all").code


@pytest.mark.parametrize(
    "case_id", ["../../x", "CON", "a:b", "\u00e9" * 300, "trailing.", "x" * 260]
)
def test_ids_that_are_no_file_names_are_imported(cli: CommandLine, case_id: str) -> None:
    """Paths in the store are safe on every system; the id is kept word for word."""
    (cli.project / "t.csv").write_text(f'id,text\n"{case_id}",x\n', encoding="utf-8")
    words = ("--id-field", "id", "--text-field", "text")
    assert 0 == cli("import", str(cli.project / "t.csv"), *words).code
    assert 0 == cli("verify", case_id).code
    paths = [
        path.relative_to(cli.project / "runtime").as_posix()
        for path in (cli.project / "runtime").rglob("*")
    ]
    assert all(path.isascii() and ":" not in path and ".." not in path for path in paths)
    names = {part for path in paths for part in path.split("/")}
    assert not any(name.lower() == "con" or name.endswith(".") for name in names)
    assert 140 >= max(map(len, names))


def test_nobody_is_asked_about_a_pdf_without_text(cli: CommandLine) -> None:
    """A scan is not answered from its file name; it ends in a state that says why."""
    (cli.project / "MX5280-manual.pdf").write_bytes(make_pdf(["", "", ""]))
    ran = cli("import", str(cli.project / "MX5280-manual.pdf"), "--json")
    assert (0, {"empty_input": 1}) == (ran.code, ran.document()["problem_counts"])
    cli("run", "--quiet")
    (row,) = cli("export", "--format", "jsonl").lines()
    assert ("MX5280-manual.pdf", None) == (row["case_id"], row["output"])
    assert "empty_input" in json.dumps(row)
    audit = cli("audit", "MX5280-manual.pdf", "--json")
    assert "m-1" not in audit.out


def test_a_file_dated_before_1980_is_imported_and_exported(cli: CommandLine) -> None:
    """ZIP knows no earlier date, and none of a file's is used."""
    path = cli.project / "inputs" / "a.txt"
    os.utime(path, (0, 0))
    cli.imported()
    target = cli.project / "sealed"
    assert 0 == cli("export", "--format", "zip", "--case", "a.txt", "-o", str(target)).code
    (sealed,) = target.iterdir()
    assert 0 == cli("verify", str(sealed)).code
