"""Creating and revoking keys: nothing is lost, nothing is half done, nothing tells a key."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest

from casework.checkpoints.disk import DiskCall, ObservedDisk
from casework.checkpoints.locks import FileLocks
from casework.config.privacy_profile import PrivacyProfile
from casework.errors import ConfigurationError, FormatError, LockBusy, StorageError
from casework.facade.client_keys import Client, ClientKeys, RequestLimits
from casework.facade.key_file import FILE_NAME
from casework.gateway.clock import ManualClock
from casework.gateway.scope import Scope
from casework.runtime.http import key_register
from casework.runtime.http.key_register import LOCK_TRIES, KeyRegister

LOCK = "\0client keys"


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that stands still."""
    return ManualClock()


@pytest.fixture
def register(tmp_path: Path, clock: ManualClock) -> KeyRegister:
    """Give the register of an empty project."""
    return KeyRegister(tmp_path, now=clock.now)


def client_of(folder: Path, key: str, clock: ManualClock) -> Client | None:
    """Return whom a service that begins now takes the holder of a key for."""
    return ClientKeys(folder / FILE_NAME, {}, clock=clock).identify(b"Bearer " + key.encode())


def test_a_key_opens_the_service_until_it_is_revoked(
    register: KeyRegister, tmp_path: Path, clock: ManualClock
) -> None:
    """Only the key itself does, and revoking it twice is harmless."""
    limits = RequestLimits(requests_per_minute=5, requests_per_day=7, concurrency_max=2)
    _, key = register.create(
        "web", profile=PrivacyProfile.LOCAL_ONLY, models=("a/*",), limits=limits
    )
    scope = Scope(profile=PrivacyProfile.LOCAL_ONLY, models=("a/*",))
    assert Client(label="web", scope=scope, limits=limits) == client_of(tmp_path, key, clock)
    clock.advance(10)
    revoked, was_valid = register.revoke("WEB")
    assert (True, clock.now()) == (was_valid, revoked.revoked_at)
    assert client_of(tmp_path, key, clock) is None
    clock.advance(10)
    assert (revoked, False) == register.revoke("web")
    assert (revoked,) == register.keys()


def test_keys_are_long_random_and_kept_nowhere(register: KeyRegister, tmp_path: Path) -> None:
    """At rest there is a digest, and the file is its owner's."""
    made = [register.create(f"web {n}") for n in range(20)]
    assert 20 == len({key for _, key in made})
    content = (tmp_path / FILE_NAME).read_text(encoding="utf-8")
    for entry, key in made:
        assert (46, "cw-") == (len(key), key[:3])
        assert hashlib.sha256(key.encode()).hexdigest() == entry.sha256
        assert key not in content
        assert key[-8:] not in content
    assert 0o600 == stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode)


def test_a_label_is_given_once(register: KeyRegister) -> None:
    """Capitals make no difference, and those of revoked keys stay taken."""
    register.create("web")
    register.revoke("web")
    for label in ("web", "Web"):
        with pytest.raises(ConfigurationError) as caught:
            register.create(label)
        assert "label_taken" == caught.value.code
    assert 1 == len(register.keys())


@pytest.mark.parametrize("label", ["", "a\nb", "cw-" + "A" * 43, "sk-1", "anonymous"])
def test_a_label_that_may_not_be_is_not_repeated(register: KeyRegister, label: str) -> None:
    """It may be a key."""
    with pytest.raises(ConfigurationError) as caught:
        register.create(label)
    assert "label_invalid" == caught.value.code
    assert not label or label not in str(caught.value)
    assert () == register.keys()


@pytest.mark.parametrize(
    ("models", "limits", "named"),
    [
        (("",), {}, "models"),
        (("a\x1b[2J",), {}, "models"),
        (("x" * 257,), {}, "models"),
        (("x",) * 101, {}, "models"),
        (None, {"requests_per_minute": 100_001}, "requests_per_minute"),
        (None, {"requests_per_day": 0}, "requests_per_day"),
        (None, {"concurrency_max": 10**9}, "max_concurrency"),
    ],
)
def test_what_is_out_of_range_is_named(
    register: KeyRegister, models: tuple[str, ...] | None, limits: dict[str, int], named: str
) -> None:
    """By its option, without its value."""
    with pytest.raises(ConfigurationError) as caught:
        register.create("web", models=models, limits=RequestLimits(**limits))
    assert ("key_invalid", f"{named} is out of range") == (caught.value.code, caught.value.message)
    assert () == register.keys()


def test_what_was_never_created_cannot_be_revoked(register: KeyRegister) -> None:
    """Its name is not repeated; it may be a key."""
    with pytest.raises(ConfigurationError) as caught:
        register.revoke("cw-secret")
    assert "no_key" == caught.value.code
    assert "cw-secret" not in str(caught.value)


def test_a_damaged_file_is_not_written_over(register: KeyRegister, tmp_path: Path) -> None:
    """It is told, and stays as it is."""
    register.create("web")
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes()[:-9])
    before = path.read_bytes()
    for change in (register.keys, lambda: register.create("b"), lambda: register.revoke("web")):
        with pytest.raises(FormatError):
            change()
    assert before == path.read_bytes()


def test_there_is_a_most_of_keys(register: KeyRegister, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one more is refused."""
    monkeypatch.setattr(key_register, "KEYS_MAX", 2)
    register.create("a")
    register.create("b")
    with pytest.raises(ConfigurationError) as caught:
        register.create("c")
    assert "too_many_keys" == caught.value.code


@pytest.mark.parametrize("verb", ["begin", "write", "sync", "replace", "sync_folder"])
def test_a_disk_that_refuses_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, clock: ManualClock, verb: str
) -> None:
    """Never half of one, and no draft beside it."""
    KeyRegister(tmp_path, now=clock.now).create("web")
    path = tmp_path / FILE_NAME
    before = path.read_bytes()

    def refuse(call: DiskCall, when: str) -> None:
        if (call.verb, when) == (verb, "before"):
            raise OSError(28, "No space left on device")

    failing = KeyRegister(tmp_path, now=clock.now, disk=ObservedDisk(refuse))
    with pytest.raises(StorageError) as caught:
        failing.revoke("web")
    assert "client_keys_refused" == caught.value.code
    assert (before == path.read_bytes()) is (verb != "sync_folder")
    assert {FILE_NAME, "locks"} == {entry.name for entry in tmp_path.iterdir()}


def test_another_process_is_waited_for(tmp_path: Path, clock: ManualClock) -> None:
    """Then it is taken up what that one wrote."""
    held = FileLocks(tmp_path / "locks").hold(LOCK)
    held.__enter__()
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 3:
            held.__exit__(None, None, None)

    register = KeyRegister(tmp_path, now=clock.now, pause=pause)
    register.create("web")
    assert 3 == len(paused)


def test_who_never_gets_its_turn_is_told(tmp_path: Path, clock: ManualClock) -> None:
    """After a while, and nothing was changed."""
    paused: list[float] = []
    register = KeyRegister(tmp_path, now=clock.now, pause=paused.append)
    with FileLocks(tmp_path / "locks").hold(LOCK), pytest.raises(LockBusy):
        register.create("web")
    assert LOCK_TRIES - 1 == len(paused)
    assert () == register.keys()
