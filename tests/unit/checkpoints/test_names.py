"""No two texts share a name, on any disk, and no text leads anywhere."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.checkpoints.names import (
    PLAIN_LENGTH_MAX,
    case_folder,
    check_id,
    original_path,
    safe_name,
    safe_relative_path,
)
from casework.checkpoints.storage import is_safe_path
from casework.errors import FormatError

HOSTILE = [
    "../../x",
    "..",
    ".",
    "CON",
    "con",
    "nul.txt",
    "COM1.json",
    "lpt9",
    "é" * 300,
    "x" * 65,
    "trailing.",
    "trailing ",
    "a:b",
    "extract:v1",
    "a\\b",
    "a/b",
    "/abs",
    "C:\\x",
    "nul\0byte",
    "\u202egnp.exe",
    "~",
    "a~b",
    "-rf",
    ".hidden",
    "tab\there",
    "new\nline",
    "😀",
]

texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(min_size=1, max_size=80),
    st.text("aAbB.-_~/éE\u0301 ", min_size=1, max_size=8),
)


def as_a_careless_disk_sees(name: str) -> str:
    """Fold a name as a disk does that ignores case and normal form."""
    return unicodedata.normalize("NFC", name).casefold()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_become_plain_names(text: str) -> None:
    """Whatever an id holds, its folder is one plain name below its spread."""
    name = safe_name(text)
    assert is_safe_path(name)
    assert "/" not in name
    assert name.split(".")[0].upper() not in {"CON", "NUL", "COM1", "LPT9", "PRN", "AUX"}
    assert 3 == len(case_folder(text).split("/"))


@pytest.mark.parametrize(
    "text", ["report.txt", "case-1", "a", "x" * PLAIN_LENGTH_MAX, "2026_01.v2"]
)
def test_plain_names_stay_as_they_are(text: str) -> None:
    """A lower-case name that is safe everywhere can be read in the file manager."""
    assert text == safe_name(text)


@given(texts, texts)
def test_different_texts_get_different_names_on_every_disk(one: str, other: str) -> None:
    """Names stay apart even where case and normal form are ignored."""
    folded = as_a_careless_disk_sees(safe_name(one)) == as_a_careless_disk_sees(safe_name(other))
    assert folded is (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Case", "case"), ("e\u0301", "\u00e9"), ("STRASSE", "straße"), ("a.", "a"), ("a ", "a")],
)
def test_texts_that_look_alike_stay_apart(one: str, other: str) -> None:
    """Ids that differ only in case, normal form or a trailing mark get folders of their own."""
    assert as_a_careless_disk_sees(case_folder(one)) != as_a_careless_disk_sees(case_folder(other))


@given(texts, texts)
def test_relative_paths_stay_apart_and_inside(one: str, other: str) -> None:
    """Input files keep their folders, and no two names meet, however long they are."""
    paths = [as_a_careless_disk_sees(safe_relative_path(text * 3)) for text in (one, other)]
    assert (paths[0] == paths[1]) is (one * 3 == other * 3)
    assert all(is_safe_path(original_path(text * 3)) for text in (one, other))


def test_the_structure_of_inputs_is_kept() -> None:
    """Folders stay folders and endings stay endings, so a person finds a file again."""
    assert "mails/2026/report.txt" == safe_relative_path("mails/2026/report.txt")
    folder, name = safe_relative_path("Mails/Report.PDF").split("/")
    assert (True, True, True) == (
        folder.startswith("mails~"),
        name.startswith("report~"),
        name.endswith(".pdf"),
    )


@pytest.mark.parametrize("text", ["", "half \ud800 pair", "\udfff"])
def test_ids_that_cannot_be_stored_are_refused(text: str) -> None:
    """An empty id or half a surrogate pair is refused with a clear error."""
    with pytest.raises(FormatError) as refusal:
        check_id(text, "case id")
    assert "bad_id" == refusal.value.code
