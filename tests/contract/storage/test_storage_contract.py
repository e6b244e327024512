"""Every storage keeps the same promises; what differs is only where the bytes lie."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from casework.checkpoints.disk import Disk
from casework.checkpoints.folder_storage import FolderStorage
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.storage import AlreadyExists, NotFound, Storage
from casework.errors import CheckpointError, StorageError

KINDS: dict[str, Callable[[Path], Storage]] = {
    "folder": lambda path: FolderStorage(path / "deep" / "root"),
    "folder with named drafts": lambda path: FolderStorage(
        path / "root", disk=Disk(anonymous_drafts=False)
    ),
    "memory": lambda _: MemoryStorage(),
}


@pytest.fixture(params=KINDS, name="storage")
def any_storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Return an empty storage of each kind."""
    return KINDS[str(request.param)](tmp_path)


def test_what_was_created_is_read_back(storage: Storage) -> None:
    """Bytes come back as they went in, whatever they are and however many files there were."""
    files = [("a/b/c.json", bytes(range(256))), ("a/empty", b""), ("top", b"x" * 3_000_000)]
    storage.create(files)
    assert [content for _, content in files] == [storage.read(path) for path, _ in files]


def test_the_last_file_of_a_creation_must_be_new(storage: Storage) -> None:
    """A name that is taken stays as it is, even if the same bytes come again."""
    storage.create([("commits/1", b"first")])
    for content in (b"first", b"second"):
        with pytest.raises(AlreadyExists) as clash:
            storage.create([("commits/1", content)])
        assert "commits/1" == clash.value.path
    assert b"first" == storage.read("commits/1")


def test_a_leftover_of_the_same_bytes_counts_as_created(storage: Storage) -> None:
    """A crash may have left a file of the creation; the same bytes are no clash."""
    storage.create([("llm/outcome", b"answer")])
    storage.create([("llm/outcome", b"answer"), ("commits/2", b"record")])
    assert b"record" == storage.read("commits/2")


def test_a_leftover_of_other_bytes_stops_the_creation(storage: Storage) -> None:
    """The last file does not appear if an earlier one could not be created."""
    storage.create([("llm/outcome", b"other")])
    with pytest.raises(AlreadyExists) as clash:
        storage.create([("llm/outcome", b"answer"), ("commits/2", b"record")])
    assert "llm/outcome" == clash.value.path
    with pytest.raises(NotFound):
        storage.read("commits/2")
    assert b"other" == storage.read("llm/outcome")


def test_only_one_of_many_creators_wins(storage: Storage) -> None:
    """Of sixteen racers for one name exactly one succeeds, and its bytes stand."""

    def race(number: int) -> bytes | None:
        content = b"%d" % number
        try:
            storage.create([(f"llm/{number}", content), ("commits/7", content)])
        except AlreadyExists:
            return None
        return content

    with ThreadPoolExecutor(16) as threads:
        winners = [content for content in threads.map(race, range(16)) if content is not None]
    assert [storage.read("commits/7")] == winners


def test_many_files_are_created_together(storage: Storage) -> None:
    """A creation larger than what is held open at once is still one creation."""
    files = [(f"original/{number:04d}", b"%d" % number) for number in range(150)]
    storage.create([*files, ("commits/1", b"record")])
    assert [name for name, _ in files] == [f"original/{n}" for n in storage.list("original")]
    assert b"149" == storage.read("original/0149")


def test_a_folder_lists_its_own_names_only(storage: Storage) -> None:
    """Names are sorted, folders are marked, and what lies deeper is not told."""
    storage.create([("b/x/deep", b"1"), ("b/a", b"2"), ("a", b"3")])
    assert ["a", "b/"] == storage.list("")
    assert ["a", "x/"] == storage.list("b")
    assert [] == storage.list("nothing/here")


def test_a_deleted_file_is_gone_and_its_name_free(storage: Storage) -> None:
    """After a deletion nothing is read or listed, and the name can be taken again."""
    storage.create([("a/b", b"1")])
    storage.delete("a/b")
    with pytest.raises(NotFound):
        storage.read("a/b")
    with pytest.raises(NotFound):
        storage.delete("a/b")
    assert [] == storage.list("a")
    storage.create([("a/b", b"2")])
    assert b"2" == storage.read("a/b")


@pytest.mark.parametrize("path", ["nothing", "a", "a/b/c", "a/b/c/d"])
def test_what_is_not_there_is_not_found(storage: Storage, path: str) -> None:
    """A missing file, a folder and a path through a file all read as not found."""
    storage.create([("a/b", b"1")])
    with pytest.raises(NotFound):
        storage.read(path)


@pytest.mark.parametrize(
    "path",
    [
        "/abs",
        "../out",
        "a/../b",
        "a//b",
        "a/",
        "",
        ".hidden",
        "a/.tmp-1",
        "a\\b",
        "c:/x",
        "a\0b",
        "a/ü",
        "dot.",
        "a b",
        "x" * 200,
        "/".join(["d" * 50] * 12),
    ],
)
def test_no_path_leads_out(storage: Storage, path: str) -> None:
    """A path that is not plain and relative is refused before anything is touched."""
    for attempt in (storage.read, storage.delete, lambda p: storage.create([(p, b"")])):
        with pytest.raises(StorageError):
            attempt(path)
    assert [] == storage.list("")


def test_a_file_cannot_also_be_a_folder(storage: Storage) -> None:
    """A name is a file or a folder, never both."""
    storage.create([("a/b", b"1")])
    for path in ("a/b/c", "a"):
        with pytest.raises(CheckpointError):
            storage.create([(path, b"2")])
    assert b"1" == storage.read("a/b")
