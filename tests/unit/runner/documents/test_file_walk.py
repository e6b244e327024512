from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from casework.runner.documents.document import (
    Problem,
    ProblemCode,
    Refusal,
    Skipped,
    SkipReason,
)
from casework.runner.documents.file_walk import (
    FoundFile,
    WalkLimits,
    fit,
    open_file,
    read_bounded,
    walk,
)

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX names and links")


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")


def names(root: Path, limits: WalkLimits | None = None) -> list[str]:
    return [item.name for item in walk(root, limits) if isinstance(item, FoundFile)]


def refusals(root: Path, limits: WalkLimits | None = None) -> list[tuple[ProblemCode, str]]:
    return [
        (item.problem.code, item.problem.where.removeprefix(f"{root}/"))
        for item in walk(root, limits)
        if isinstance(item, Refusal)
    ]


def test_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    """Ids and order do not depend on the disk."""
    write(tmp_path, "b.txt", "a/z.txt", "a/b/c.txt", "a.txt", "B.txt")
    assert ["B.txt", "a/b/c.txt", "a/z.txt", "a.txt", "b.txt"] == names(tmp_path)


def test_hidden_and_ignored_names_are_passed_over_and_counted(tmp_path: Path) -> None:
    """What is left out on purpose is said, once for a folder."""
    write(tmp_path, ".hidden", ".git/config", "keep.txt", "skip.tmp", "out/a.txt", "out/b.txt")
    (tmp_path / ".caseworkignore").write_text("*.tmp\nout/\n", encoding="utf-8")
    skipped = [item for item in walk(tmp_path) if isinstance(item, Skipped)]
    assert ["keep.txt"] == names(tmp_path)
    assert [
        (".caseworkignore", SkipReason.HIDDEN),
        (".git", SkipReason.HIDDEN),
        (".hidden", SkipReason.HIDDEN),
        ("out", SkipReason.IGNORED),
        ("skip.tmp", SkipReason.IGNORED),
    ] == [(item.where.removeprefix(f"{tmp_path}/"), item.reason) for item in skipped]


def test_hidden_names_can_be_taken_in(tmp_path: Path) -> None:
    """The ignore file itself is never a case."""
    write(tmp_path, ".hidden", ".caseworkignore")
    assert [".hidden"] == names(tmp_path, WalkLimits(hidden=True))


@pytest.mark.parametrize("content", [b"[z-a]\n", b"\xff\xfe", b"x" * 70_000])
def test_an_unusable_ignore_file_stops_the_import(tmp_path: Path, content: bytes) -> None:
    """What a person wanted to leave out is not imported by mistake."""
    write(tmp_path, "a.txt")
    (tmp_path / ".caseworkignore").write_bytes(content)
    (only,) = walk(tmp_path)
    assert isinstance(only, Refusal)


@posix_only
def test_links_do_not_lead_out_of_the_tree_or_in_circles(tmp_path: Path) -> None:
    """A link to a file inside is a file; links to folders, outside and nowhere are refused."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(root, "a.txt", "sub/b.txt")
    write(outside, "secret.txt")
    (root / "circle").symlink_to(root)
    (root / "sub" / "up").symlink_to("..")
    (root / "inside.txt").symlink_to("sub/b.txt")
    (root / "leak.txt").symlink_to(outside / "secret.txt")
    (root / "nowhere.txt").symlink_to("absent.txt")
    (root / "self").symlink_to("self")
    found = [item for item in walk(root) if isinstance(item, FoundFile)]
    assert ["a.txt", "inside.txt", "nowhere.txt", "self", "sub/b.txt"] == [f.name for f in found]
    assert str(root / "sub" / "b.txt") == found[1].path
    assert [
        (ProblemCode.LINK_NOT_FOLLOWED, "circle"),
        (ProblemCode.LINK_NOT_FOLLOWED, "leak.txt"),
        (ProblemCode.LINK_NOT_FOLLOWED, "sub/up"),
    ] == refusals(root)
    for item in (found[2], found[3]):
        assert isinstance(read_bounded(item.path, item.where, bytes_max=9), Problem)


@posix_only
def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    """The user named the folder; how it is reached is the user's business."""
    write(tmp_path / "real", "a.txt")
    (tmp_path / "link").symlink_to("real")
    assert ["a.txt"] == names(tmp_path / "link")


@posix_only
def test_names_that_are_no_unicode_get_an_id_all_the_same(tmp_path: Path) -> None:
    """Bytes that are not UTF-8, controls and line separators are written out."""
    for name in (b"caf\xe9.txt", b"line\nend.txt", "sep\u2028.txt".encode(), b"back\\slash.txt"):
        (tmp_path / os.fsdecode(name)).write_bytes(b"x")
    found = [item for item in walk(tmp_path) if isinstance(item, FoundFile)]
    expected = {
        "caf\\xe9.txt": True,
        "line\\x0aend.txt": True,
        "sep\\u2028.txt": True,
        "back\\slash.txt": False,
    }
    assert expected == {item.name: item.escaped for item in found}
    assert all(item.where.isprintable() for item in found)
    assert all(b"x" == read_bounded(item.path, item.where, bytes_max=9) for item in found)


@contextmanager
def no_privileges() -> Iterator[None]:
    """Be nobody for a while where the tests run as root, who may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@posix_only
def test_what_may_not_be_read_is_named_and_the_rest_goes_on() -> None:
    """One locked folder does not end an import."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        write(folder, "a.txt", "locked/b.txt", "z.txt")
        (folder / "locked").chmod(0)
        try:
            with no_privileges():
                assert ["a.txt", "z.txt"] == names(folder)
                assert [(ProblemCode.UNREADABLE, "locked")] == refusals(folder)
        finally:
            (folder / "locked").chmod(0o700)


@posix_only
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Devices, pipes and folders are no files."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        problem = open_file(str(path), "p")
        assert isinstance(problem, Problem)
        assert ProblemCode.NOT_A_FILE is problem.code


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    """The limit itself still fits."""
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert b"12345" == read_bounded(str(path), "a", bytes_max=5)
    problem = read_bounded(str(path), "a", bytes_max=4)
    assert isinstance(problem, Problem)
    assert ProblemCode.TOO_LARGE is problem.code


@pytest.mark.parametrize("path", ["absent", "a\0b", "x" * 5000])
def test_a_file_that_cannot_be_opened_is_a_problem(path: str) -> None:
    """No name, however odd, raises."""
    assert isinstance(open_file(path, "p"), Problem)


def test_depth_is_bounded(tmp_path: Path) -> None:
    """A folder deeper than the limit is named and not entered."""
    write(tmp_path, "a/b/c/d.txt", "a/b/x.txt", "a/y.txt")
    limits = WalkLimits(depth_max=2)
    assert ["a/b/x.txt", "a/y.txt"] == names(tmp_path, limits)
    assert [(ProblemCode.TOO_DEEP, "a/b/c")] == refusals(tmp_path, limits)


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    """A walk ends at its limit and says so."""
    write(tmp_path, "a", "b", "c", "d")
    limits = WalkLimits(files_max=2)
    assert ["a", "b"] == names(tmp_path, limits)
    assert [ProblemCode.TOO_MANY] == [code for code, _ in refusals(tmp_path, limits)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain \u00e9 \uac00 \U0001f468\u200d\U0001f469", None),
        ("\x00\x1b\x85", "\\x00\\x1b\\x85"),
        ("\udc80\udcff\ud83d", "\\x80\\xff\\ud83d"),
    ],
)
def test_names_are_made_fit(name: str, expected: str | None) -> None:
    """Letters of every script stay; what cannot be an id is written out."""
    assert (expected or name) == fit(name)
