from __future__ import annotations

from pathlib import Path

import pytest

from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.store import CheckpointStore
from casework.config.privacy_profile import PrivacyProfile
from casework.errors import ConfigurationError, InvalidRequest
from casework.gateway.errors import FailureKind
from casework.gateway.messages import LLMRequest
from casework.runner.documents import Document, read_documents
from casework.runner.pipeline import Pipeline
from casework.runtime.run.case_requests import CaseRequests
from casework.runtime.run.requests import NamedText, PreparedRequest, RequestBuilder

HEAD = 'name = "n"\n[[operations]]\nid = "a"\ntask = "Judge."\noutput_schema = {}\n'


def builder(extra: str = "", *, profile: PrivacyProfile | None = None) -> RequestBuilder:
    return RequestBuilder(Pipeline.parse(HEAD + extra, folder=Path()), profile)


def prepared(built: RequestBuilder, store: CheckpointStore, case_id: str) -> PreparedRequest:
    found = CaseRequests(built, store).prepare(case_id, "a")
    assert isinstance(found, PreparedRequest)
    return found


def spanned(request: LLMRequest) -> str:
    assert request.data is not None
    span = request.data
    return request.messages[span.message].content[span.start : span.end]


def stored(folder: Path) -> tuple[CheckpointStore, list[str]]:
    store = CheckpointStore(MemoryStorage())
    ids = []
    for item in read_documents([folder]):
        assert isinstance(item, Document)
        store.create(item.case_id, item.originals, derived=item.derived)
        ids.append(item.case_id)
    return store, ids


def test_the_text_of_a_package_reaches_the_prompt(tmp_path: Path) -> None:
    """Decoded and extracted texts stand for their originals; a single one stands alone."""
    (tmp_path / "A.HTML").write_bytes(b"<p>caf\xe9 {x!r} ${HOME}")
    (tmp_path / "b.txt").write_bytes("plain \u2028 %s".encode())
    store, ids = stored(tmp_path)
    built = builder()
    found = [spanned(prepared(built, store, case_id).request) for case_id in ids]
    assert ["caf\u00e9 {x!r} ${HOME}\n", "plain \u2028 %s"] == found


def test_several_files_stand_under_headings() -> None:
    """The selected files of a case become one text."""
    store = CheckpointStore(MemoryStorage())
    store.create("c", {"LICENSE": b"free", "b.md": b"B", "z.bin": b"\xff"})
    built = builder('data = ["LICENSE", "*.md"]')
    request = prepared(built, store, "c").request
    assert '1 of 2, 4 characters: "LICENSE" ---\n\nfree' in spanned(request)


def test_a_file_that_is_no_text_is_refused() -> None:
    """Bytes are not shown to a model as if they were words."""
    store = CheckpointStore(MemoryStorage())
    store.create("c", {"z.bin": b"\xff"})
    built = builder()
    with pytest.raises(InvalidRequest) as caught:
        prepared(built, store, "c")
    assert ("data_invalid", "original/z.bin") == (caught.value.code, caught.value.where)


@pytest.mark.parametrize(
    ("texts", "rejection"),
    [
        ([], FailureKind.EMPTY_INPUT),
        ([""], FailureKind.EMPTY_INPUT),
        ([" \f \f"], FailureKind.EMPTY_INPUT),
        (["one\f\f\ffour\f\f"], FailureKind.EMPTY_INPUT),
        (["one\ftwo\f"], None),
        (["words", "", "", ""], None),
        (["x" * 20], None),
        (["x" * 21], FailureKind.CONTEXT_TOO_LONG),
        (["\u00e9" * 11], FailureKind.CONTEXT_TOO_LONG),
    ],
)
def test_an_input_that_rules_an_answer_out_is_known_before_any_call(
    texts: list[str], rejection: FailureKind | None
) -> None:
    """The request is on record all the same."""
    built = builder("max_input_bytes = 20" if len(texts) < 2 else "")
    prepared = built.build(built.pipeline.operations[0], [NamedText("f", t) for t in texts])
    assert rejection is prepared.rejection
    if len(texts) == 1:
        assert texts[0] == spanned(prepared.request)


def test_the_page_rule_can_be_switched_off() -> None:
    """Somebody who knows the empty pages may ask about the others."""
    built = builder("min_pages_with_text = 0")
    prepared = built.build(built.pipeline.operations[0], [NamedText("f", "one\f\f\f\f")])
    assert prepared.rejection is None
    assert (3, 4, 1) == (
        prepared.coverage.characters,
        prepared.coverage.pages,
        prepared.coverage.pages_with_text,
    )


def test_what_the_pipeline_says_stands_in_the_request() -> None:
    """Parameters, schema name and the narrower profile."""
    built = builder(
        'schema_name = "s"\nprivacy_profile = "cloud_allowed"\nparameters = { seed = 7 }',
        profile=PrivacyProfile.SELF_HOSTED,
    )
    request = built.build(built.pipeline.operations[0], [NamedText("f", "t")]).request
    assert ("s", {"seed": 7}) == (request.schema_name, request.parameters)
    assert PrivacyProfile.SELF_HOSTED is request.privacy_profile


def test_an_unknown_template_is_found_before_the_first_case() -> None:
    """With its place in the pipeline."""
    with pytest.raises(ConfigurationError) as caught:
        builder('template = "structured_json_v9"')
    assert ("template_unknown", "pipeline:6:1") == (caught.value.code, caught.value.where)


def test_an_unsound_template_file_is_found_before_the_first_case(tmp_path: Path) -> None:
    """With its place in the template."""
    (tmp_path / "own.txt").write_text("--- user ---\n{{task}}", encoding="utf-8")
    pipeline = Pipeline.parse(HEAD + 'template = "own.txt"', folder=tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        RequestBuilder(pipeline)
    assert ("template_invalid", str(tmp_path / "own.txt")) == (
        caught.value.code,
        caught.value.where,
    )


def test_a_template_of_the_users_own_is_named_by_its_file(tmp_path: Path) -> None:
    """Version and digest stand in the request."""
    (tmp_path / "own_v3.txt").write_text("{{task}}\n{{data}}", encoding="utf-8")
    pipeline = Pipeline.parse(HEAD + 'template = "own_v3.txt"', folder=tmp_path)
    request = RequestBuilder(pipeline).build(pipeline.operations[0], [NamedText("f", "t")]).request
    assert "own_v3" == request.prompt_version
    assert 1 == len(request.messages)


def test_one_long_document_of_twenty_is_rejected_alone(tmp_path: Path) -> None:
    """The other nineteen are asked about."""
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text(f"report {number}", encoding="utf-8")
    (tmp_path / "07.txt").write_bytes(b"word " * 600_000)
    store, ids = stored(tmp_path)
    built = builder()
    rejected = [case_id for case_id in ids if prepared(built, store, case_id).rejection is not None]
    assert ["07.txt"] == rejected
