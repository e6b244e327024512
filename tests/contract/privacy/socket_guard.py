"""A guard at the socket: it writes down whom a process turns to, and lets nothing beyond loopback.

Runs one piece of work in a process of its own, since an audit hook can never be taken off again::

    python -m tests.contract.privacy.socket_guard SIGHTINGS WORK [ARGUMENT]...

The hook stands before the first line of Casework is imported. What leads beyond loopback, asks a
resolver for a name or starts a process is refused after it was written down, so that a test that
fails sends nothing either. Not seen are sockets that a library opens in its own machine code;
tests that care about one of those listen on the port that it would turn to.
"""

from __future__ import annotations

import errno
import importlib
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final


class Sign(StrEnum):
    """What was seen."""

    OPENED = "opened"
    """A socket that could reach other machines was made."""
    LOOPBACK = "loopback"
    """It was pointed at this machine."""
    BEYOND = "beyond"
    """It was pointed anywhere else."""
    LOOK_UP = "look_up"
    """A resolver was asked for a name or an address."""
    PROCESS = "process"
    """Another process was started, whose sockets nobody here sees."""


REFUSED: Final = frozenset({Sign.BEYOND, Sign.LOOK_UP, Sign.PROCESS})
"""What a process that keeps to this machine never does."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing that a process did or tried to do."""

    sign: Sign
    event: str
    """Name of the audit event."""
    target: str
    """Address, name or program."""


def sighting_of(event: str, arguments: tuple[Any, ...]) -> Sighting | None:
    """Return what an audit event means for the guard, None for what does not concern it."""
    kind = _EVENTS.get(event)
    return None if kind is None else kind(event, arguments)


def read_sightings(path: Path) -> tuple[Sighting, ...]:
    """Return what a guarded process wrote down, in order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(
        Sighting(Sign(sign), event, target) for sign, event, target in map(json.loads, lines)
    )


def refused(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Return what led beyond this machine."""
    return [seen for seen in sightings if seen.sign in REFUSED]


def stand_guard(path: Path) -> None:
    """Watch this process from now on, to its end."""
    book = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        seen = sighting_of(event, arguments)
        if seen is None:
            return
        os.write(book, json.dumps([seen.sign, seen.event, seen.target]).encode() + b"\n")
        match seen.sign:
            case Sign.BEYOND:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "refused by the guard")
            case Sign.LOOK_UP:
                raise socket.gaierror(socket.EAI_NONAME, "refused by the guard")
            case Sign.PROCESS:
                raise PermissionError(errno.EPERM, "refused by the guard")
            case Sign.OPENED | Sign.LOOPBACK:
                return

    sys.addaudithook(watch)


def _made(event: str, arguments: tuple[Any, ...]) -> Sighting | None:
    family = arguments[1]
    if family in {socket.AF_UNIX, -1}:
        return None
    return Sighting(Sign.OPENED, event, str(int(family)))


def _pointed(event: str, arguments: tuple[Any, ...]) -> Sighting | None:
    """Judge the address of a connect, sendto, sendmsg or bind; text and bytes are AF_UNIX."""
    address = arguments[1]
    if address is None or isinstance(address, str | bytes):
        return None
    host = address[0] if isinstance(address, tuple) and address else ""
    sign = Sign.LOOPBACK if _is_loopback(host) else Sign.BEYOND
    return Sighting(sign, event, f"{host}:{address[1] if len(address) > 1 else ''}")


def _asked(event: str, arguments: tuple[Any, ...]) -> Sighting | None:
    """Judge a look-up; turning a literal into an address asks nobody."""
    host = arguments[0]
    if isinstance(host, bytes):
        host = host.decode("latin-1")
    if event != "socket.gethostbyaddr" and (not host or _is_literal(host)):
        return None
    return Sighting(Sign.LOOK_UP, event, str(host))


def _looked_back(event: str, arguments: tuple[Any, ...]) -> Sighting | None:
    return Sighting(Sign.LOOK_UP, event, str(arguments[0][0]))


def _started(event: str, arguments: tuple[Any, ...]) -> Sighting | None:
    words = arguments[1] if event == "subprocess.Popen" else arguments[:1]
    told = words if isinstance(words, str) else " ".join(map(str, words))
    return Sighting(Sign.PROCESS, event, told)


def _forked(event: str, _arguments: tuple[Any, ...]) -> Sighting | None:
    return Sighting(Sign.PROCESS, event, "")


_EVENTS: Final[dict[str, Callable[[str, tuple[Any, ...]], Sighting | None]]] = {
    "socket.__new__": _made,
    "socket.connect": _pointed,
    "socket.sendto": _pointed,
    "socket.sendmsg": _pointed,
    "socket.bind": _pointed,
    "socket.getaddrinfo": _asked,
    "socket.gethostbyname": _asked,
    "socket.gethostbyaddr": _asked,
    "socket.getnameinfo": _looked_back,
    "subprocess.Popen": _started,
    "os.system": _started,
    "os.exec": _started,
    "os.fork": _forked,
    "os.forkpty": _forked,
    "os.posix_spawn": _started,
    "os.spawn": _started,
    "os.startfile": _started,
}


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: object) -> bool:
    return isinstance(host, str) and _is_literal(host) and ipaddress.ip_address(host).is_loopback


def main() -> None:
    """Stand guard, then do the work that the command line names."""
    stand_guard(Path(sys.argv[1]))
    work = importlib.import_module("tests.contract.privacy.guarded_work")
    sys.exit(work.WORKS[sys.argv[2]](sys.argv[3:]))


if __name__ == "__main__":
    main()
