"""Rules fill a schema from what stands in the document, or say that nothing does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import DataSpan, Finish, Message, ProviderCall, ProviderReply
from casework.gateway.providers.rules import (
    SENTENCE_CHARACTERS_MAX,
    RulesProvider,
    sentence_around,
)
from casework.strict_json import JSON, JSONObject

RULES = r"""
format = "casework-rules/1"

[[fields]]
name = "license_id"
required = true
[[fields.rules]]
pattern = '\bApache License, Version 2\.0\b'
value = "Apache-2.0"
[[fields.rules]]
pattern = 'Redistribution and use in source and binary forms'
also = ['Neither the name']
value = "BSD-3-Clause"
[[fields.rules]]
pattern = 'Redistribution and use in source and binary forms'
unless = ['Neither the name']
value = "BSD-2-Clause"
[[fields.rules]]
pattern = '^License-Expression: (?P<id>[A-Za-z0-9.+-]{1,40})$'
group = "id"

[[fields]]
name = "obligations"
from = "license_id"
table = { "Apache-2.0" = true, "BSD-3-Clause" = true, "BSD-2-Clause" = true, "0BSD" = false }

[[fields]]
name = "weight"
from = "obligations"
table = { true = 1.5, false = 0 }

[[fields]]
name = "evidence"
evidence_of = "license_id"

[[fields]]
name = "holder"
[[fields.rules]]
pattern = 'Copyright \(c\) [0-9]{4} (?P<who>[^\n.]{1,80})'
group = "who"
"""
PROPERTIES: dict[str, JSON] = {
    "license_id": {"enum": ["Apache-2.0", "BSD-3-Clause", "BSD-2-Clause", "0BSD"]},
    "obligations": {"type": ["boolean", "null"]},
    "weight": {"type": ["number", "null"]},
    "evidence": {"type": "string"},
    "holder": {"anyOf": [{"type": "string"}, {"type": "null"}]},
}
SCHEMA: JSONObject = {
    "type": "object",
    "properties": PROPERTIES,
    "required": list(PROPERTIES),
    "additionalProperties": False,
}
BSD = (
    "Copyright (c) 2026 The Pump People.\n\nRedistribution  and use in source and\n"
    "binary forms, with or without changes, are permitted. Other words.\n"
)


@pytest.fixture
def config(tmp_path: Path) -> ProviderConfig:
    """Return an entry whose rule file exists."""
    path = tmp_path / "rules.toml"
    path.write_text(RULES, encoding="utf-8")
    return ProviderConfig(id="r", adapter="rules", file=path)


def call(document: str, schema: JSONObject | None = None, *, spanned: bool = True) -> ProviderCall:
    """Return a call with the document between other words."""
    before, after = "Apache License, Version 2.0 is a task word.\n<data>", "</data>\nmore"
    return ProviderCall(
        model="no model",
        messages=(Message("system", "s"), Message("user", before + document + after)),
        output_schema=schema or SCHEMA,
        schema_name="answer",
        parameters={},
        data=DataSpan(1, len(before), len(before) + len(document)) if spanned else None,
    )


async def answer(config: ProviderConfig, asked: ProviderCall) -> ProviderReply:
    """Ask the rules once."""
    deadline = Deadline.after(30, ManualClock())
    provider = RulesProvider.from_config(config)
    return await provider.complete(asked, credential=None, deadline=deadline)


async def failure(config: ProviderConfig, asked: ProviderCall) -> ProviderFailure:
    """Ask the rules once and return how they failed."""
    with pytest.raises(ProviderFailure) as caught:
        await answer(config, asked)
    return caught.value


async def test_fields_are_filled_from_the_document_alone(config: ProviderConfig) -> None:
    """Values, tables and evidence come from the span; the words around it play no part."""
    reply = await answer(config, call(BSD))
    assert {
        "license_id": "BSD-2-Clause",
        "obligations": True,
        "weight": 1.5,
        "evidence": "Redistribution  and use in source and\n"
        "binary forms, with or without changes, are permitted.",
        "holder": "The Pump People",
    } == json.loads(reply.text)
    assert (Finish.STOP, None) == (reply.finish, reply.usage)


async def test_the_first_rule_that_is_found_decides(config: ProviderConfig) -> None:
    """Order, conditions and exclusions rank the rules."""
    three = BSD + "Neither the name of the author may be used. Apache License,\nVersion 2.0."
    assert "Apache-2.0" == json.loads((await answer(config, call(three))).text)["license_id"]
    two = three.replace("Apache", "Other")
    assert "BSD-3-Clause" == json.loads((await answer(config, call(two))).text)["license_id"]


async def test_a_group_gives_the_words_of_the_document(config: ProviderConfig) -> None:
    """Without a constant the matched text is the value, and a table may know it."""
    reply = await answer(config, call("License-Expression: 0BSD\n"))
    found = json.loads(reply.text)
    assert ("0BSD", False, 0) == (found["license_id"], found["obligations"], found["weight"])


async def test_what_is_not_found_is_null_where_that_is_allowed(config: ProviderConfig) -> None:
    """A field that may be null is null rather than invented."""
    found = json.loads((await answer(config, call("License-Expression: GPL-3.0\n"))).text)
    assert (None, None) == (found["obligations"], found["holder"])


async def test_what_is_not_demanded_is_left_out(config: ProviderConfig) -> None:
    """A field that may be neither null nor must be there is absent."""
    schema: JSONObject = {
        "properties": {**PROPERTIES, "holder": {"type": "string"}, "unknown": {"type": "string"}},
        "required": ["license_id"],
    }
    found = json.loads((await answer(config, call("License-Expression: 0BSD", schema))).text)
    assert {"license_id", "obligations", "weight", "evidence"} == set(found)


async def test_what_cannot_be_null_is_no_evidence(config: ProviderConfig) -> None:
    """A demanded field without ground fails the call."""
    schema: JSONObject = {**SCHEMA, "properties": {**PROPERTIES, "holder": {"type": "string"}}}
    found = await failure(config, call("License-Expression: 0BSD", schema))
    assert (FailureKind.NO_EVIDENCE, True) == (found.kind, found.sent)


@pytest.mark.parametrize("document", ["", "nothing here", "apache license, version 2.0"])
async def test_a_required_field_not_found_is_no_evidence(
    config: ProviderConfig, document: str
) -> None:
    """The rule file itself may demand a field."""
    assert FailureKind.NO_EVIDENCE is (await failure(config, call(document))).kind


async def test_an_answer_of_nulls_is_no_evidence(config: ProviderConfig, tmp_path: Path) -> None:
    """Nothing found at all is not an answer."""
    path = tmp_path / "loose.toml"
    path.write_text(RULES.replace("required = true", ""), encoding="utf-8")
    schema: JSONObject = {"properties": {"holder": {"type": ["string", "null"]}}}
    loose = config.model_copy(update={"file": path})
    assert FailureKind.NO_EVIDENCE is (await failure(loose, call("nothing", schema))).kind


async def test_without_a_span_nothing_is_read(config: ProviderConfig) -> None:
    """A request that does not say where its document is has none."""
    assert FailureKind.NO_EVIDENCE is (await failure(config, call(BSD, spanned=False))).kind


async def test_a_document_beyond_the_limit_is_not_searched(config: ProviderConfig) -> None:
    """The limit of the entry counts bytes, and one over it is refused."""
    small = config.model_copy(update={"request_bytes_max": len(BSD.encode())})
    assert (await answer(small, call(BSD))).text
    found = await failure(small, call(BSD + "\n"))
    assert (FailureKind.REQUEST_TOO_LARGE, False) == (found.kind, found.sent)


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "null"},
        {"type": ["string", "null"]},
        {"enum": ["a", None]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"$ref": "#/$defs/n"}, {"type": "string"}]},
        {"$ref": "#/$defs/n"},
    ],
)
async def test_every_way_to_allow_null_is_understood(config: ProviderConfig, rule: JSON) -> None:
    """Types, words, choices and references can allow null."""
    schema: JSONObject = {
        "properties": {"license_id": {}, "x": rule},
        "required": ["x"],
        "$defs": {"n": {"type": ["null"]}},
    }
    found = json.loads((await answer(config, call("License-Expression: 0BSD", schema))).text)
    assert found == {"license_id": "0BSD", "x": None}


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "string"},
        {"type": ["string", "null"], "enum": ["a"]},
        {"$ref": "#/$defs/loop"},
        True,
        {},
    ],
)
async def test_null_is_not_guessed(config: ProviderConfig, rule: JSON) -> None:
    """A rule that does not speak of null is not taken to allow it."""
    schema: JSONObject = {
        "properties": {"license_id": {}, "x": rule},
        "required": ["x"],
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
    }
    found = await failure(config, call("License-Expression: 0BSD", schema))
    assert FailureKind.NO_EVIDENCE is found.kind


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"casework-rules/1"', '"rules/2"', "rules.toml:2:1: format"),
        ("required = true", "requird = true", 'did you mean "required"?'),
        ("pattern = '\\bApache", "pattern = '(a+)+\\bApache", "too many wide repeats"),
        ("pattern = '\\bApache", "pattern = '(\\bApache", "no regular expression"),
        ("also = ['Neither the name']", "also = 'x'", "is no list"),
        ("also = ['Neither the name']", "also = [1]", "is no text"),
        ('group = "id"', 'group = "nobody"', "does not have"),
        ('from = "license_id"', 'from = "later"', "no earlier field"),
        ('evidence_of = "license_id"', 'evidence_of = "evidence"', "no earlier field"),
        ('name = "holder"', 'name = "evidence"', "filled twice"),
        ('name = "holder"', 'name = "holder"\nevidence_of = "license_id"', "more than one"),
        ('evidence_of = "license_id"', "", "in no way"),
        ('table = { "Apache-2.0" = true', 'tabel = { "Apache-2.0" = true', "tabel"),
        ('value = "Apache-2.0"', "value = 2026-01-01", "no text, number"),
        ('value = "Apache-2.0"', "value = { a = 1 }", "no text, number"),
        ("format", "x = '", "not TOML"),
    ],
)
def test_a_faulty_rule_file_is_told_with_its_place(
    config: ProviderConfig, old: str, new: str, words: str
) -> None:
    """Rules load whole or not at all, with one line that says where."""
    assert config.file is not None
    assert old in RULES
    config.file.write_text(RULES.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        RulesProvider.from_config(config)
    assert words in str(caught.value)
    assert "rules.toml:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_rule_file_is_told(config: ProviderConfig, tmp_path: Path) -> None:
    """No file named and no file there are two errors."""
    with pytest.raises(ConfigurationError, match="needs a file"):
        RulesProvider.from_config(config.model_copy(update={"file": None}))
    with pytest.raises(ConfigurationError, match="no such file"):
        RulesProvider.from_config(config.model_copy(update={"file": tmp_path / "none"}))


@pytest.mark.parametrize(
    ("text", "word", "sentence"),
    [
        ("One. Two MIT here. Three.", "MIT", "Two MIT here."),
        ("MIT.", "MIT", "MIT."),
        ("First\n\nSecond MIT\nline\n\nThird", "MIT", "Second MIT\nline"),
        ("Name: x\nLicense: MIT\nAuthor: y\n", "MIT", "License: MIT"),
        ("Version 2.0 of MIT applies! Yes?", "MIT", "Version 2.0 of MIT applies!"),
        ('He said "MIT." Then left.', "MIT", 'He said "MIT."'),
        ("  MIT  ", "MIT", "MIT"),
    ],
)
def test_a_sentence_is_cut_at_its_ends(text: str, word: str, sentence: str) -> None:
    """Full stops before white space, empty lines and header lines end a sentence."""
    start = text.index(word)
    assert sentence == sentence_around(text, start, start + len(word))


def test_an_endless_sentence_is_cut_between_words() -> None:
    """Evidence stays short and is made of whole words."""
    text = "word " * 500 + "MIT " + "word " * 500
    start = text.index("MIT")
    found = sentence_around(text, start, start + 3)
    assert SENTENCE_CHARACTERS_MAX >= len(found)
    assert {"word", "MIT"} == set(found.split())


@given(st.text("aM. \n:!", max_size=80), st.integers(0, 80), st.integers(1, 10))
def test_a_sentence_is_always_a_part_of_the_text_that_holds_the_match(
    text: str, start: int, length: int
) -> None:
    """Evidence is quoted, never composed."""
    start = min(start, len(text))
    end = min(start + length, len(text))
    found = sentence_around(text, start, end)
    assert found in text
    assert text[start:end].strip() in found


async def test_the_same_document_gives_the_same_bytes(config: ProviderConfig) -> None:
    """Rules are deterministic."""
    replies: list[Any] = [(await answer(config, call(BSD))).text for _ in range(3)]
    assert 1 == len(set(replies))
