from __future__ import annotations

from pathlib import Path

import pytest

from casework.errors import InvalidRequest
from casework.prompts import PromptTemplate, Section, Slot
from casework.prompts.template import TEMPLATE_BYTES_MAX
from casework.strict_json import sha256_hex


def parsed(text: str) -> PromptTemplate:
    return PromptTemplate.parse(text.encode(), version="t", where="t.txt")


def complaint(content: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        PromptTemplate.parse(content, version="t", where="t.txt")
    assert "template_invalid" == caught.value.code
    return str(caught.value)


def test_role_lines_part_the_messages() -> None:
    """Examples for small models are written as turns of a conversation."""
    text = (
        "--- system ---\nS\n--- user ---\nexample\n--- assistant ---\n{}\n"
        "--- user ---\n{{task}}\n{{data}}\n"
    )
    expected = (
        Section("system", ("S",)),
        Section("user", ("example",)),
        Section("assistant", ("{}",)),
        Section("user", (Slot.TASK, "\n", Slot.DATA)),
    )
    assert expected == parsed(text).sections


def test_braces_that_name_no_slot_are_text() -> None:
    """A JSON example needs no escaping."""
    text = 'Like {"a": {"b": {}}} or {{7*7}} or {{ task }}: {{task}}\n{{data}}'
    pieces = parsed(text).sections[0].pieces
    assert 'Like {"a": {"b": {}}} or {{7*7}} or {{ task }}: ' == pieces[0]


def test_line_ends_and_a_byte_order_mark_change_the_digest_only() -> None:
    """The same words give the same messages, whichever editor wrote them."""
    plain = b"--- user ---\n{{task}}\n{{data}}\n"
    windows = b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")
    one = PromptTemplate.parse(plain, version="t")
    other = PromptTemplate.parse(windows, version="t")
    assert one.sections == other.sections
    assert (sha256_hex(plain), sha256_hex(windows)) == (one.sha256, other.sha256)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{{task}}", "{{data}} must stand exactly once"),
        ("{{data}}", "{{task}} must stand exactly once"),
        ("{{task}}\n{{data}}\n{{data}}", "{{data}} must stand exactly once"),
        ("{{task}} {{task}}\n{{data}}", "{{task}} must stand exactly once"),
        ("{{task}}{{schema}}{{schema}}\n{{data}}", "only once"),
        ("{{task}} {{data}}", "on a line of its own"),
        ("{{task}}\n{{data}} tail", "on a line of its own"),
        ("{{task}}\n{{schema}}{{data}}", "on a line of its own"),
        ("--- system ---\n{{task}}\n{{data}}\n--- user ---\ngo", "in a user message"),
        ("--- user ---\n{{task}}\n{{data}}\n--- assistant ---\nok", "last message"),
        ("{{task}}\n{{schemata}}\n{{data}}", "unknown slot"),
        ("hello\n--- user ---\n{{task}}\n{{data}}", "before the first role line"),
        ("--- tool ---\n{{task}}\n{{data}}", "names one of"),
        ("--- system ---\n\n--- user ---\n{{task}}\n{{data}}", "no text"),
        ("", "no text"),
    ],
)
def test_an_unsound_template_is_refused(text: str, what: str) -> None:
    """Each rule of the format says which one was broken."""
    assert what in complaint(text.encode())


def test_the_line_of_a_broken_message_is_named() -> None:
    """The place is one that an editor can jump to."""
    text = b"--- system ---\nS\n\n--- user ---\n{{task}} {{nope}}\n{{data}}"
    assert complaint(text).startswith("t.txt:4: ")


@pytest.mark.parametrize("content", [b"\xff\xfe{", b"x" * (TEMPLATE_BYTES_MAX + 1)])
def test_bytes_that_are_no_template_are_refused(content: bytes) -> None:
    """Other encodings and giant files are no templates."""
    assert complaint(content).endswith("[template_invalid]")


def test_a_missing_file_is_reported_with_its_path(tmp_path: Path) -> None:
    """The path is the user's own and helps."""
    with pytest.raises(InvalidRequest) as caught:
        PromptTemplate.read(tmp_path / "absent.txt")
    assert "template_unreadable" == caught.value.code
    assert str(tmp_path / "absent.txt") == caught.value.where
