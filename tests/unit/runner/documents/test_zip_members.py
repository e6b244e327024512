from __future__ import annotations

import io
import os
import stat
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from casework.checkpoints.zip_storage import MIB, ZipLimits
from casework.runner.documents import (
    Document,
    ImportItem,
    ImportOptions,
    ProblemCode,
    RecordFields,
    Refusal,
    Skipped,
    SkipReason,
    WalkLimits,
    read_documents,
)

Member = tuple[str | zipfile.ZipInfo, bytes]


def archive(path: Path, members: Iterable[Member]) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        warnings.simplefilter("ignore", UserWarning)
        for name, content in members:
            packed.writestr(name, content)
    return path


def ids(items: Iterable[ImportItem]) -> list[str]:
    return [item.case_id for item in items if isinstance(item, Document)]


def problems(items: Iterable[ImportItem]) -> list[tuple[str, ProblemCode]]:
    return [
        (item.problem.where.rpartition(".zip/")[2], item.problem.code)
        for item in items
        if isinstance(item, Refusal)
    ]


def test_members_are_read_like_the_files_of_a_folder(tmp_path: Path) -> None:
    """The same tree in an archive and in a folder gives the same cases, in the same order."""
    files = {
        "b/z.txt": b"z",
        "b.txt": b"t",
        "a.html": b"<p>x",
        "r.jsonl": b'{"a":1}\n\n{"a":2}\n',
        "t.csv": b'n,text\n1,"a\nb"\n',
        ".hidden": b"h",
        "b/.h/x.txt": b"h",
        "skip/x.txt": b"s",
        ".caseworkignore": b"skip/\n",
        "caf\u00e9.txt": b"\xe9",
    }
    folder = tmp_path / "folder"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    packed = archive(tmp_path / "a.zip", [("b/", b""), *files.items()])
    of_folder = [i for i in read_documents([folder]) if isinstance(i, Document)]
    items = list(read_documents([packed]))
    of_archive = [i for i in items if isinstance(i, Document)]
    assert [(d.case_id, d.originals, d.derived) for d in of_folder] == [
        (d.case_id, d.originals, d.derived) for d in of_archive
    ]
    assert {SkipReason.HIDDEN, SkipReason.IGNORED} == {
        item.reason for item in items if isinstance(item, Skipped)
    }
    assert f"{packed}/r.jsonl:3" in [d.source for d in of_archive]


def test_an_archive_in_a_folder_is_a_folder_of_its_name(tmp_path: Path) -> None:
    """Two archives with equal members do not meet; given by themselves they do."""
    for name in ("one.zip", "TWO.ZIP"):
        archive(tmp_path / name, [("a.txt", name.encode())])
    assert ["TWO.ZIP/a.txt", "one.zip/a.txt"] == ids(read_documents([tmp_path]))
    assert ["a.txt"] == ids(read_documents([tmp_path / "one.zip", tmp_path / "TWO.ZIP"]))


def link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("link.txt")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def test_unsafe_members_are_refused_by_name_and_the_others_imported(tmp_path: Path) -> None:
    """Nothing leads out, and nothing is lost in silence."""
    device = zipfile.ZipInfo("device")
    device.external_attr = (stat.S_IFCHR | 0o600) << 16
    packed = archive(
        tmp_path / "a.zip",
        [
            ("../x", b"1"),
            ("/abs", b"2"),
            ("a\\..\\b", b"3"),
            ("c:x.txt", b"4"),
            ("d//e", b"5"),
            ("./f", b"6"),
            ("same.txt", b"7"),
            ("same.txt", b"8"),
            ("SAME.txt", b"9"),
            ("e\u0301.txt", b"10"),
            ("\u00e9.txt", b"11"),
            (link(), b"/etc/passwd"),
            (device, b""),
            ("inner.zip", b"PK\x03\x04"),
            ("ok.txt", b"12"),
        ],
    )
    items = list(read_documents([packed]))
    assert ["SAME.txt", "e\u0301.txt", "ok.txt"] == ids(items)
    assert {
        ("../x", ProblemCode.MEMBER_UNSAFE),
        ("/abs", ProblemCode.MEMBER_UNSAFE),
        ("a\\..\\b", ProblemCode.MEMBER_UNSAFE),
        ("c:x.txt", ProblemCode.MEMBER_UNSAFE),
        ("d//e", ProblemCode.MEMBER_UNSAFE),
        ("./f", ProblemCode.MEMBER_UNSAFE),
        ("same.txt", ProblemCode.MEMBER_DUPLICATE),
        ("\u00e9.txt", ProblemCode.MEMBER_DUPLICATE),
        ("link.txt", ProblemCode.LINK_NOT_FOLLOWED),
        ("device", ProblemCode.NOT_A_FILE),
        ("inner.zip", ProblemCode.FORMAT_UNSUPPORTED),
    } == set(problems(items))
    assert 15 == len(items)


def test_encrypted_and_foreign_members_are_refused(tmp_path: Path) -> None:
    """Each with what to do about it."""
    packed = archive(tmp_path / "a.zip", [("locked.txt", b"x" * 50), ("ok.txt", b"y")])
    content = bytearray(packed.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    packed.write_bytes(content)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_LZMA) as more:
        more.writestr("strange.txt", b"z")
    items = list(read_documents([packed]))
    assert ["ok.txt"] == ids(items)
    assert [
        ("locked.txt", ProblemCode.MEMBER_ENCRYPTED),
        ("strange.txt", ProblemCode.FORMAT_UNSUPPORTED),
    ] == problems(items)


def test_a_bomb_is_contained(tmp_path: Path) -> None:
    """What expands too much is refused unread, also if it announces less than it holds."""
    packed = archive(tmp_path / "a.zip", [("bomb.txt", bytes(64 * MIB)), ("ok.txt", b"y")])
    tracemalloc.start()
    items = list(read_documents([packed]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ["ok.txt"] == ids(items)
    assert [("bomb.txt", ProblemCode.TOO_LARGE)] == problems(items)
    assert 8 * MIB > peak
    content = bytearray(packed.read_bytes())
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = content.index(mark) + place
        content[at : at + 4] = struct.pack("<L", 1000)
    packed.write_bytes(content)
    items = list(read_documents([packed]))
    assert ["ok.txt"] == ids(items)
    assert [("bomb.txt", ProblemCode.ARCHIVE_DAMAGED)] == problems(items)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (ZipLimits(member_bytes=5), [("b.txt", ProblemCode.TOO_LARGE)]),
        (ZipLimits(expanded_bytes=10), [("b.txt", ProblemCode.TOO_LARGE)]),
        (ZipLimits(expanded_bytes=9), [(n, ProblemCode.TOO_LARGE) for n in ("b.txt", "c.txt")]),
    ],
)
def test_the_limits_of_an_archive_are_reached_and_named(
    tmp_path: Path, limits: ZipLimits, expected: list[tuple[str, ProblemCode]]
) -> None:
    """Bytes are counted member by member, and what still fits is read."""
    packed = archive(tmp_path / "a.zip", [("a.txt", b"12345"), ("b.txt", b"x" * 6)])
    with zipfile.ZipFile(packed, "a") as more:
        more.writestr("c.txt", b"12345")
    items = list(read_documents([packed], ImportOptions(archive=limits)))
    assert expected == problems(items)
    assert 3 == len(items)


def test_an_archive_with_too_many_members_is_refused_whole(tmp_path: Path) -> None:
    """Before its directory fills the memory."""
    packed = archive(tmp_path / "a.zip", [(f"{n}.txt", b"") for n in range(30)])
    (item,) = read_documents([packed], ImportOptions(archive=ZipLimits(members=29)))
    assert isinstance(item, Refusal)
    assert ProblemCode.TOO_MANY is item.problem.code
    (item,) = read_documents([packed], ImportOptions(archive=ZipLimits(members=1)))
    assert isinstance(item, Refusal)
    assert ProblemCode.TOO_MANY is item.problem.code


def test_a_member_that_lies_nowhere_is_named(tmp_path: Path) -> None:
    """An archive may point outside of itself; the members that are there are read."""
    packed = archive(tmp_path / "a.zip", [("a.txt", b"x"), ("b.txt", b"y")])
    content = bytearray(packed.read_bytes())
    at = content.index(b"PK\x01\x02") + 42
    content[at : at + 4] = b"\xff\xff\xff\x7f"
    end = content.index(b"PK\x05\x06") + 16
    (start,) = struct.unpack_from("<L", content, end)
    struct.pack_into("<L", content, end, start + 1000)
    packed.write_bytes(content)
    items = list(read_documents([packed]))
    assert 2 == len(items)
    assert {"a.txt", "b.txt"} == {name for name, _ in problems(items)}


def test_no_flipped_byte_stops_an_import(tmp_path: Path) -> None:
    """Whatever one byte of an archive becomes, what is met is a case or a refusal with a code."""
    odd = zipfile.ZipInfo("n")
    odd.filename = "\0n"
    members: list[Member] = [("a.txt", b"hello"), ("d/b.jsonl", b'{"a":1}\n'), (odd, b"x")]
    path = archive(tmp_path / "a.zip", members)
    content = path.read_bytes()
    assert ("\\x00n", ProblemCode.MEMBER_UNSAFE) in problems(read_documents([path]))
    for place in range(len(content)):
        for value in (content[place] ^ 1, content[place] ^ 0x80, 0, 0xFF):
            path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
            items = list(read_documents([path]))
            assert all(isinstance(item, Document | Refusal | Skipped) for item in items)


def torn(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    at = content.index(b"hello")
    return content[:at] + b"jello" + content[at + 5 :]


@pytest.mark.parametrize(
    ("damage", "cases"), [(torn, 0), (flipped, 1), (lambda _: b"", 0), (lambda _: b"x", 0)]
)
def test_damage_is_named(tmp_path: Path, damage: Callable[[bytes], bytes], cases: int) -> None:
    """A member whose bytes are not those announced makes no case."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a.txt", b"hello")
        packed.writestr("b.txt", b"other")
    path.write_bytes(damage(path.read_bytes()))
    items = list(read_documents([path]))
    assert [ProblemCode.ARCHIVE_DAMAGED] == [code for _, code in problems(items)]
    assert cases == len(ids(items))


def test_dates_before_1980_are_harmless(tmp_path: Path) -> None:
    """No date of a file or a member is looked at."""
    old = zipfile.ZipInfo("old.txt", (1980, 0, 0, 0, 0, 0))
    archive(tmp_path / "a.zip", [(old, b"x")])
    (tmp_path / "file.txt").write_bytes(b"y")
    os.utime(tmp_path / "file.txt", (0, 0))
    os.utime(tmp_path / "a.zip", (-1, -1))
    assert ["a.zip/old.txt", "file.txt"] == ids(read_documents([tmp_path]))


def test_names_of_old_programs_are_written_out(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are not guessed at; UTF-8 without its mark is read as such."""
    content = archive(tmp_path / "a.zip", [("cafX.txt", b"x"), ("euroXX.txt", b"y")]).read_bytes()
    content = content.replace(b"cafX", b"caf\x82").replace(b"euroXX", b"euro\xc3\xa9")
    (tmp_path / "a.zip").write_bytes(content)
    items = list(read_documents([tmp_path / "a.zip"]))
    assert ["caf\\x82.txt", "euro\u00e9.txt"] == sorted(ids(items))
    assert [[ProblemCode.NAME_ESCAPED], []] == [
        [p.code for p in i.problems] for i in items if isinstance(i, Document)
    ]


def test_formats_and_fields_reach_the_members(tmp_path: Path) -> None:
    """What is said of the files of a folder is said of those of an archive."""
    packed = archive(tmp_path / "a.zip", [("t.txt", b'{"id": "k", "text": "x"}\n')])
    options = ImportOptions(format="jsonl", fields=RecordFields("id", "text"))
    assert ["k"] == ids(read_documents([packed], options))
    other = packed.rename(tmp_path / "a.dat")
    assert ["t.txt"] == ids(read_documents([other], ImportOptions(format="zip")))
    hidden = archive(tmp_path / "h.zip", [(".h/x.txt", b"x"), ("d/e/f.txt", b"y")])
    walk = WalkLimits(hidden=True, depth_max=2)
    items = list(read_documents([hidden], replace(ImportOptions(), walk=walk)))
    assert [".h/x.txt"] == ids(items)
    assert [("d/e/f.txt", ProblemCode.TOO_DEEP)] == problems(items)


def test_a_broken_ignore_file_stops_its_archive(tmp_path: Path) -> None:
    """Nobody knows then what was meant to be left out."""
    packed = archive(tmp_path / "a.zip", [(".caseworkignore", b"\xff"), ("a.txt", b"x")])
    items = list(read_documents([packed]))
    assert [(".caseworkignore", ProblemCode.UNREADABLE)] == problems(items)
    assert 1 == len(items)


def test_a_large_member_is_unpacked_to_disk_and_streamed(tmp_path: Path) -> None:
    """A long JSON Lines file in an archive is not held in memory."""
    line = b'{"t": "' + os.urandom(5000).hex().encode() + b'"}\n'
    packed = archive(tmp_path / "a.zip", [("big.jsonl", line * 2_000)])
    tracemalloc.start()
    count = sum(1 for _ in read_documents([packed], ImportOptions(archive=ZipLimits(ratio=10**6))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 2_000 == count
    assert 12 * MIB > peak


def test_a_stream_is_no_place_for_an_archive() -> None:
    """An archive has to be wound back, so it is a file."""
    from casework.runner.documents.document_reader import read_stream  # noqa: PLC0415

    (item,) = read_stream(io.BytesIO(b"PK\x03\x04"), "a.zip", ImportOptions(format="files"))
    assert isinstance(item, Refusal)
    assert ProblemCode.BINARY is item.problem.code
