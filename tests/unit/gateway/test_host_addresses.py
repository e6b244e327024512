"""A host is found at whichever of its addresses answers, and asked for seldom."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import pytest

from casework.gateway import host_addresses
from casework.gateway.host_addresses import LOCALHOST, HostAddresses, first_opened

FOUR, SIX = socket.AF_INET, socket.AF_INET6


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the system's look-up by a list; return the names that were asked for."""
    names: list[str] = []
    found = [(SIX, "::a"), (SIX, "::b"), (FOUR, "1.1.1.1"), (SIX, "::c")]

    async def look_up(_: object, host: str, *__: object, **___: object) -> list[Any]:
        names.append(host)
        return [
            (family, socket.SOCK_STREAM, 6, "", (address, 0, 0, 0)) for family, address in found
        ]

    monkeypatch.setattr(asyncio.SelectorEventLoop, "getaddrinfo", look_up)
    return names


async def test_both_families_take_turns(asked: list[str]) -> None:
    """A family that leads nowhere holds nobody up for long."""
    assert ("::a", "1.1.1.1", "::b", "::c") == await HostAddresses().of("h.example")
    assert ["h.example"] == asked


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("localhost", LOCALHOST),
        ("LOCALHOST", LOCALHOST),
        ("127.0.0.1", ("127.0.0.1",)),
        ("::1", ("::1",)),
    ],
)
async def test_nobody_is_asked_what_is_known(
    asked: list[str], host: str, addresses: tuple[str, ...]
) -> None:
    """This machine and numbers need no look-up."""
    assert addresses == await HostAddresses().of(host)
    assert [] == asked


async def test_what_was_found_is_believed_for_a_while(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is asked for once, then again when its time is over."""
    hosts = HostAddresses()
    for _ in range(3):
        await hosts.of("h.example")
    assert ["h.example"] == asked
    now = asyncio.get_running_loop().time()
    later = now + host_addresses.BELIEVED_SECONDS
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: later)
    await hosts.of("h.example")
    assert ["h.example"] * 2 == asked


async def test_only_so_many_names_are_remembered(asked: list[str]) -> None:
    """The memory is bounded, and begins anew when it is full."""
    hosts = HostAddresses()
    names = [f"h{number}.example" for number in range(host_addresses.HOSTS_MAX + 1)]
    for name in [*names, names[-1], names[0]]:
        await hosts.of(name)
    assert [*names, names[0]] == asked
    assert host_addresses.HOSTS_MAX >= len(hosts._known)


class Network:
    """Addresses that answer, refuse, or say nothing, each when a test lets it."""

    def __init__(self, **ends: Exception | None) -> None:
        self._ends = ends
        self.tried: list[str] = []
        self.dropped: list[str] = []
        self.cancelled: list[str] = []
        self.last_tried = asyncio.Event()

    async def connect(self, address: str) -> str:
        """Try one address."""
        self.tried.append(address)
        if len(self.tried) == len(self._ends):
            self.last_tried.set()
        end = self._ends[address]
        if isinstance(end, TimeoutError):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.append(address)
                raise
        if end is not None:
            raise end
        return address

    async def first(self) -> str:
        """Return the address that was first."""
        return await first_opened(tuple(self._ends), self.connect, drop=self.dropped.append)


SILENT = TimeoutError()


async def test_the_first_that_answers_is_taken() -> None:
    """No further address is tried."""
    network = Network(a=None, b=None)
    assert "a" == await network.first()
    assert (["a"], []) == (network.tried, network.dropped)


async def test_the_next_is_tried_at_once_where_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal needs no waiting."""
    monkeypatch.setattr(host_addresses, "HEAD_START_SECONDS", 1000)
    network = Network(a=OSError(), b=OSError(), c=None)
    assert "c" == await network.first()
    assert ["a", "b", "c"] == network.tried


async def test_the_next_is_tried_soon_where_one_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that leads nowhere costs a moment, and is given up when another answers."""
    monkeypatch.setattr(host_addresses, "HEAD_START_SECONDS", 0)
    network = Network(a=SILENT, b=SILENT, c=None)
    assert "c" == await network.first()
    await asyncio.sleep(0)
    assert ["a", "b"] == sorted(network.cancelled)


async def test_where_all_fail_the_first_is_told() -> None:
    """The error of the address that was preferred says most."""
    first, second = OSError("first"), OSError("second")
    with pytest.raises(OSError, match="first"):
        await Network(a=first, b=second).first()


async def test_who_could_not_prove_himself_is_told_before_who_is_not_there() -> None:
    """A wrong certificate is not taken for a server that is down."""
    with pytest.raises(ssl.SSLCertVerificationError):
        await Network(a=OSError(), b=ssl.SSLCertVerificationError()).first()


async def test_nobody_is_left_behind_when_the_wait_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every attempt ends with the one who waits for them."""
    monkeypatch.setattr(host_addresses, "HEAD_START_SECONDS", 0)
    network = Network(a=SILENT, b=SILENT)
    task = asyncio.ensure_future(network.first())
    await network.last_tried.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert ["a", "b"] == sorted(network.cancelled)


@pytest.mark.parametrize("late", [False, True])
async def test_of_two_that_answer_one_is_kept(
    monkeypatch: pytest.MonkeyPatch,
    late: bool,  # noqa: FBT001 - a parameter
) -> None:
    """The other one is dropped, whether it comes at the same time or too late."""
    monkeypatch.setattr(host_addresses, "HEAD_START_SECONDS", 0)
    both = asyncio.Event()
    tried: list[str] = []
    dropped: list[str] = []

    async def connect(address: str) -> str:
        tried.append(address)
        if len(tried) == 2:
            both.set()
        try:
            await both.wait()
            if late and address == "b":
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return address

    kept = await first_opened(("a", "b"), connect, drop=dropped.append)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ["a", "b"] == sorted([kept, *dropped])
