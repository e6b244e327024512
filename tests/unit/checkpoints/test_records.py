"""Stored shapes come back as they were, and nothing else is read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.checkpoints.records import (
    NO_ROUTING,
    CommitKind,
    CommitRecord,
    FileEntry,
    OperationError,
    OperationState,
    OperationStatus,
    PackageIdentity,
    PackageStatus,
    Routing,
    operation_hash,
    package_identifier,
)
from casework.checkpoints.timestamps import read_time, write_time
from casework.errors import CheckpointError, FormatError, IntegrityError
from casework.strict_json import JSONObject, canonical, digest, parse, sha256_hex

moments = st.timedeltas(timedelta(0), timedelta(days=80_000)).map(
    lambda since: datetime(1970, 1, 1, tzinfo=UTC) + since
)
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
digests = st.binary(max_size=4).map(sha256_hex)
entries = st.builds(
    FileEntry,
    path=st.sampled_from(["original/a.txt", "llm/x/outcome-0001.json", "package.json"]),
    sha256=digests,
    size=st.integers(0, 2**40),
    name=st.none() | words,
)
routings = st.just(NO_ROUTING) | st.builds(
    Routing, words, words, st.none() | moments, st.none() | st.booleans()
)
states = st.builds(
    OperationState,
    operation_id=words,
    analysis_revision=st.integers(1, 9),
    status=st.sampled_from(OperationStatus),
    phase=words,
    request_fingerprint=st.none() | digests,
    config_fingerprint=st.none() | digests,
    rounds_completed=st.integers(0, 20),
    rounds_max=st.integers(1, 20),
    retry_delay_seconds=st.floats(0, 1e6),
    blocked_retry_seconds=st.integers(0, 10**6).map(float),
    due_at=st.none() | moments,
    last_round_at=st.none() | moments,
    artifacts=st.lists(entries, max_size=2).map(tuple),
    error=st.none() | st.builds(OperationError, words, st.none() | st.integers(100, 599)),
    routing=routings,
    resumed_as=st.none() | words,
    resumed_from=st.none() | words,
)
records = st.builds(
    CommitRecord,
    generation=st.integers(1, 10**9),
    previous_sha256=st.none() | digests,
    committed_at=moments,
    actor=words,
    kind=st.sampled_from(CommitKind),
    analysis_revision=st.integers(1, 9),
    phase=words,
    status=st.sampled_from(PackageStatus),
    routing=routings,
    operations=st.lists(states, max_size=2).map(lambda found: {s.ophash: s for s in found}),
    files=st.lists(entries, max_size=2).map(tuple),
)

RECORD = CommitRecord(
    generation=2,
    previous_sha256="0" * 64,
    committed_at=datetime(2026, 1, 1, tzinfo=UTC),
    actor="casework",
    kind=CommitKind.REVIEWED,
    analysis_revision=1,
    phase="BUILDING_CASE",
    status=PackageStatus.ACTIVE,
    routing=NO_ROUTING,
    operations={},
    files=(FileEntry("review/note.txt", "1" * 64, 3),),
)


@given(records)
def test_a_record_comes_back_as_it_was(record: CommitRecord) -> None:
    """Encoding and decoding lose nothing, and the bytes are canonical."""
    content = record.encode()
    assert record == CommitRecord.decode(content, "commits/1")
    assert content == canonical(parse(content))


@given(records, st.integers(0, 10**6), st.integers(1, 255))
def test_no_flipped_byte_of_a_record_is_read(record: CommitRecord, place: int, bits: int) -> None:
    """Whatever byte changes, the record is refused."""
    content = bytearray(record.encode())
    content[place % len(content)] ^= bits
    with pytest.raises(CheckpointError):
        CommitRecord.decode(bytes(content), "commits/1")


def edited(edit: JSONObject) -> bytes:
    """Return a record with members changed and its own digest made anew."""
    members = parse(RECORD.encode())
    assert isinstance(members, dict)
    del members["self_sha256"]
    members.update(edit)
    return canonical({**members, "self_sha256": digest(members)})


@pytest.mark.parametrize(
    "edit",
    [
        {"extra": 1},
        {"generation": 0},
        {"generation": True},
        {"generation": 1.0},
        {"generation": "1"},
        {"kind": "KIND"},
        {"status": "DONE"},
        {"previous_sha256": "0" * 63},
        {"previous_sha256": "A" * 64},
        {"committed_at": "2026-01-01T00:00:00+00:00"},
        {"committed_at": "2026-13-01T00:00:00Z"},
        {"committed_at": None},
        {"files": {}},
        {"files": [{"path": "../out", "sha256": "0" * 64, "size": 1}]},
        {"files": [{"path": "a", "sha256": "0" * 64, "size": -1}]},
        {"files": [{"path": "a", "sha256": "0" * 64, "size": 1, "mode": 7}]},
        {"operations": []},
        {"operations": {"0" * 64: None}},
        {"routing": {"reason": None}},
        {"schema": "casework-commit/2"},
    ],
)
def test_ill_formed_members_are_refused(edit: JSONObject) -> None:
    """An unknown, missing or ill-typed member makes a FormatError that names the file."""
    with pytest.raises(FormatError) as refusal:
        CommitRecord.decode(edited(edit), "commits/0000000002.json")
    assert "commits/0000000002.json" == refusal.value.where


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"schema":1,"schema":1}',
        b'{"generation":NaN}',
        b"\xff",
        RECORD.encode() + b" ",
        b" " + RECORD.encode(),
    ],
)
def test_bytes_that_are_no_record_are_refused(content: bytes) -> None:
    """Duplicate keys, NaN, foreign encodings and stray blanks are never read."""
    with pytest.raises((FormatError, IntegrityError)):
        CommitRecord.decode(content, "commits/1")


def test_an_operation_under_a_foreign_digest_is_refused() -> None:
    """The key of a state is the digest of its own id."""
    state = OperationState(
        operation_id="a",
        analysis_revision=1,
        status=OperationStatus.SUCCESS,
        phase="p",
        rounds_completed=1,
        rounds_max=1,
        retry_delay_seconds=1.0,
        blocked_retry_seconds=1.0,
    )
    record = replace(RECORD, operations={operation_hash(1, "b"): state})
    with pytest.raises(FormatError) as refusal:
        CommitRecord.decode(record.encode(), "commits/2")
    assert "ophash_mismatch" == refusal.value.code


def test_errors_of_old_records_have_no_http_status() -> None:
    """A member that older writers did not know counts as null."""
    assert OperationError("auth_error", None) == OperationError.from_json(
        {"code": "auth_error"}, ""
    )


def test_an_operation_hash_is_the_digest_of_its_names() -> None:
    """The recipe is part of the format, so it is pinned."""
    expected = sha256_hex(b'["llm-operation/1",1,"extract:v1"]')
    assert expected == operation_hash(1, "extract:v1")


def test_a_package_id_depends_on_case_names_and_bytes() -> None:
    """Another case, another file name or other bytes make another package."""
    ids = {
        package_identifier("a", {"original/x": "1", "original/y": "2"}),
        package_identifier("b", {"original/x": "1", "original/y": "2"}),
        package_identifier("a", {"original/x": "2", "original/y": "1"}),
        package_identifier("a", {"original/x": "1"}),
    }
    assert 4 == len(ids)
    same = package_identifier("a", {"original/y": "2", "original/x": "1"})
    assert same in ids


def test_an_identity_comes_back_and_nothing_else_does() -> None:
    """``package.json`` is read strictly and in canonical form only."""
    identity = PackageIdentity(
        case_id="Fall ü", package_id="0" * 64, created_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    content = identity.encode()
    assert identity == PackageIdentity.decode(content, "package.json")
    for wrong in (
        content.replace(b"package/1", b"package/2"),
        content.replace(b":", b": ", 1),
        content[:-1] + b',"x":1}',
    ):
        with pytest.raises(FormatError):
            PackageIdentity.decode(wrong, "package.json")


@given(moments)
def test_moments_come_back_as_they_were(moment: datetime) -> None:
    """A moment is written in UTC with Z and read back to the microsecond."""
    text = write_time(moment)
    assert (moment, "Z") == (read_time(text), text[-1])


def test_moments_are_written_in_one_form() -> None:
    """Other zones become UTC, whole seconds have no fraction, and naive moments are refused."""
    summer = timezone(timedelta(hours=2))
    assert "2026-01-01T10:00:00Z" == write_time(datetime(2026, 1, 1, 12, tzinfo=summer))
    with pytest.raises(ValueError, match="time zone"):
        write_time(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
