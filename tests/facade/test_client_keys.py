"""Who is let in: nobody without a key once there is one, whatever happens to the file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import FormatError, StorageError
from casework.facade.client_keys import ANONYMOUS, LOOK_SECONDS, Client, ClientKeys, RequestLimits
from casework.facade.key_file import KeyEntry, KeyFile, is_label, read_key_file
from casework.gateway.clock import MANUAL_START, ManualClock
from casework.gateway.scope import Scope

KEY = "cw-" + "A" * 43
OTHER = "cw-" + "B" * 43
REVOKED = "cw-" + "C" * 43


def entry(label: str, key: str, **further: object) -> KeyEntry:
    """Return what is kept of a key."""
    return KeyEntry.model_validate(
        {
            "label": label,
            "sha256": hashlib.sha256(key.encode()).hexdigest(),
            "created_at": MANUAL_START,
            **further,
        }
    )


def write(path: Path, *entries: KeyEntry) -> None:
    """Put a file in the place of the one that is there."""
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(KeyFile(keys=entries).content())
    fresh.replace(path)


def bearer(key: str) -> bytes:
    """Return the header that presents a key."""
    return f"Bearer {key}".encode()


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that stands still."""
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the file of a project with a valid and a revoked key."""
    path = tmp_path / "client_keys.json"
    write(path, entry("web", KEY), entry("old", REVOKED, revoked_at=MANUAL_START))
    return path


@pytest.fixture
def keys(path: Path, clock: ManualClock) -> ClientKeys:
    """Give the keys of that file."""
    return ClientKeys(path, {}, clock=clock)


def test_without_any_key_everybody_is_anonymous(tmp_path: Path, clock: ManualClock) -> None:
    """Whatever they send, since every OpenAI client sends something."""
    keys = ClientKeys(tmp_path / "none.json", {"PROXY_API_KEY": " "}, clock=clock)
    assert (True, ANONYMOUS, ANONYMOUS) == (
        keys.is_open,
        keys.identify(None),
        keys.identify(b"Bearer sk-any"),
    )


def test_a_key_tells_who_asks_and_what_is_allowed(path: Path, clock: ManualClock) -> None:
    """Profile, models and limits come with the label."""
    write(
        path,
        entry(
            "web",
            KEY,
            privacy_profile="self_hosted",
            models=("local/*",),
            requests_per_minute=3,
            requests_per_day=9,
            max_concurrency=2,
        ),
        entry("free", OTHER),
    )
    keys = ClientKeys(path, {}, clock=clock)
    limits = RequestLimits(requests_per_minute=3, requests_per_day=9, concurrency_max=2)
    scope = Scope(profile=PrivacyProfile.SELF_HOSTED, models=("local/*",))
    assert Client(label="web", scope=scope, limits=limits) == keys.identify(bearer(KEY))
    assert Client(label="free") == keys.identify(bearer(OTHER))
    assert not keys.is_open


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        KEY.encode(),
        b"Basic " + KEY.encode(),
        b"Bearer " + OTHER.encode(),
        b"Bearer " + KEY.lower().encode(),
        b"Bearer " + KEY[:-1].encode(),
        b"Bearer " + KEY.encode() + b"A",
        b"Bearer " + REVOKED.encode(),
        b"Bearer " + hashlib.sha256(KEY.encode()).hexdigest().encode(),
        b"Bearer \x00\xff",
    ],
)
def test_whoever_presents_no_valid_key_is_nobody(keys: ClientKeys, header: bytes | None) -> None:
    """Also with a revoked key, a part of one, its digest, or another scheme."""
    assert keys.identify(header) is None


@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER   "])
def test_the_name_of_the_scheme_has_no_case(keys: ClientKeys, scheme: bytes) -> None:
    """RFC 9110 says so, and clients differ."""
    assert Client(label="web") == keys.identify(scheme + KEY.encode())


@given(st.binary(max_size=200))
def test_no_header_breaks_the_door(header: bytes) -> None:
    """Any bytes are somebody known or nobody."""
    keys = ClientKeys(Path("/nonexistent"), {"PROXY_API_KEY": KEY}, clock=ManualClock())
    assert keys.identify(header) is None
    assert keys.identify(b"Bearer " + header) is None


def test_the_variable_holds_one_more_key(path: Path, clock: ManualClock) -> None:
    """Without limits, called by the variable's name; alone it closes the door too."""
    environ = {"PROXY_API_KEY": f" {OTHER}é\n"}
    for at in (path, path.with_name("none.json")):
        keys = ClientKeys(at, environ, clock=clock)
        assert Client(label="PROXY_API_KEY") == keys.identify(bearer(f"{OTHER}é"))
        assert (False, None) == (keys.is_open, keys.identify(None))


def test_what_another_process_changes_is_seen_within_a_second(
    path: Path, keys: ClientKeys, clock: ManualClock
) -> None:
    """A new key is let in, a revoked one is not, and nothing is restarted."""
    write(path, entry("web", KEY, revoked_at=MANUAL_START), entry("new", OTHER))
    clock.advance(LOOK_SECONDS)
    assert (None, Client(label="new")) == (
        keys.identify(bearer(KEY)),
        keys.identify(bearer(OTHER)),
    )


def test_the_first_key_closes_an_open_door(tmp_path: Path, clock: ManualClock) -> None:
    """Within a second, too; and nothing opens it again."""
    path = tmp_path / "client_keys.json"
    keys = ClientKeys(path, {}, clock=clock)
    assert ANONYMOUS == keys.identify(None)
    write(path, entry("web", KEY))
    clock.advance(LOOK_SECONDS)
    assert (None, False) == (keys.identify(None), keys.is_open)
    path.unlink()
    clock.advance(LOOK_SECONDS)
    assert (None, False) == (keys.identify(None), keys.is_open)


def test_revoking_the_last_key_opens_nothing(path: Path, clock: ManualClock) -> None:
    """A project that once had keys lets nobody in without one."""
    write(path, entry("web", KEY, revoked_at=MANUAL_START))
    keys = ClientKeys(path, {}, clock=clock)
    assert (False, None, None) == (
        keys.is_open,
        keys.identify(None),
        keys.identify(bearer(KEY)),
    )


def test_an_outage_of_the_disk_changes_nothing(
    path: Path, keys: ClientKeys, clock: ManualClock
) -> None:
    """Who was let in still is, who was not is not; afterwards changes are seen again."""
    aside = path.with_suffix(".aside")
    path.replace(aside)
    for _ in range(3):
        clock.advance(LOOK_SECONDS)
        assert Client(label="web") == keys.identify(bearer(KEY))
        assert keys.identify(bearer(REVOKED)) is None
    path.mkdir()  # it is there now, and cannot be read
    clock.advance(LOOK_SECONDS)
    assert Client(label="web") == keys.identify(bearer(KEY))
    path.rmdir()
    write(path, entry("new", OTHER))
    clock.advance(LOOK_SECONDS)
    assert keys.identify(bearer(KEY)) is None
    assert Client(label="new") == keys.identify(bearer(OTHER))


WHOLE = KeyFile(keys=(entry("web", KEY), entry("app", OTHER))).content()
DAMAGED = {
    "empty": b"",
    "zeros": bytes(100),
    "no object": b"[]",
    "no members": b"{}",
    "no keys": b'{"schema": "client-keys/1"}',
    "another form": WHOLE.replace(b"client-keys/1", b"client-keys/2"),
    "keys no list": b'{"schema": "client-keys/1", "keys": {}}',
    "cut": WHOLE[:-20],
    "one label twice": WHOLE.replace(b'"app"', b'"WEB"'),
    "no label": WHOLE.replace(b'"app"', b'"sk-app"'),
    "a short digest": WHOLE.replace(hashlib.sha256(KEY.encode()).hexdigest().encode(), b"ab"),
    "no time": WHOLE.replace(b"2026-01-01T", b"2026-01-01"),
    "no patterns": WHOLE.replace(b'"models": null', b'"models": []'),
    "a text for a number": WHOLE.replace(b'_day": null', b'_day": "5"'),
    "a limit of zero": WHOLE.replace(b'_day": null', b'_day": 0'),
    "an unknown member": WHOLE.replace(b'"label"', b'"more": 1, "label"'),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_never_an_empty_one(
    path: Path, clock: ManualClock, content: bytes
) -> None:
    """No service begins with it, and the line that says so shows nothing of it."""
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        ClientKeys(path, {"PROXY_API_KEY": OTHER}, clock=clock)
    assert ("client_keys_damaged", str(path)) == (caught.value.code, caught.value.where)
    assert "web" not in str(caught.value)


def test_a_file_that_is_damaged_meanwhile_closes_the_door(path: Path, clock: ManualClock) -> None:
    """To all its keys, not to the one beside it, until it is whole again."""
    keys = ClientKeys(path, {"PROXY_API_KEY": OTHER}, clock=clock)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    clock.advance(LOOK_SECONDS)
    for _ in range(2):
        with pytest.raises(FormatError):
            keys.identify(bearer(KEY))
    assert keys.identify(None) is None
    assert Client(label="PROXY_API_KEY") == keys.identify(bearer(OTHER))
    path.write_bytes(whole)
    clock.advance(LOOK_SECONDS)
    assert Client(label="web") == keys.identify(bearer(KEY))


def test_damage_closes_an_open_door(tmp_path: Path, clock: ManualClock) -> None:
    """Somebody meant to close it."""
    path = tmp_path / "client_keys.json"
    keys = ClientKeys(path, {}, clock=clock)
    path.write_bytes(b"{")
    clock.advance(LOOK_SECONDS)
    assert keys.identify(None) is None
    assert not keys.is_open


def test_a_file_that_cannot_be_read_lets_nothing_begin(tmp_path: Path, clock: ManualClock) -> None:
    """A folder in its place, say."""
    with pytest.raises(StorageError) as caught:
        ClientKeys(tmp_path, {}, clock=clock)
    assert "client_keys_unreadable" == caught.value.code


def test_the_file_is_looked_at_once_a_second(
    path: Path, keys: ClientKeys, clock: ManualClock
) -> None:
    """Until the second is over, requests cost no look at the disk."""
    write(path, entry("new", OTHER))
    clock.advance(LOOK_SECONDS - 0.001)
    assert Client(label="web") == keys.identify(bearer(KEY))


def test_what_was_written_is_read(path: Path) -> None:
    """Every member comes back as it was."""
    limits = {"requests_per_minute": 1, "requests_per_day": 2, "max_concurrency": 3}
    entries = (
        entry("a", KEY, privacy_profile="local_only", models=("x", "y/*"), **limits),
        entry("b c", OTHER, revoked_at=MANUAL_START),
    )
    write(path, *entries)
    assert KeyFile(keys=entries) == read_key_file(path)
    assert json.loads(path.read_bytes())["keys"][0].items() >= limits.items()


@pytest.mark.parametrize("label", ["a", "web", "Team A", "mina@claims.example", "in-take_2", "7"])
def test_labels_are_plain_words(label: str) -> None:
    """What people call things."""
    assert is_label(label)


@pytest.mark.parametrize(
    "label",
    [
        "",
        " web",
        "web ",
        "we\nb",
        "we\x1bb",
        "wéb",
        "a/b",
        "=1+1",
        "a" * 41,
        KEY,
        "cw-1",
        "sk-proj",
        "0123456789abcdef01234567",
        "anonymous",
        "PROXY_API_KEY",
        "proxy_api_key",
    ],
)
def test_a_label_is_no_key_and_moves_no_cursor(label: str) -> None:
    """Nor is it one of those that stand for something else."""
    assert not is_label(label)
