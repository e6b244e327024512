"""What a guarded process can be told to do; imported only once the guard stands."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, assert_never

from casework.config import GatewayConfig, PrivacyProfile
from casework.errors import CaseworkError
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import DataSpan
from casework.gateway.outcomes import RoundErred, RoundOutcome, RoundSucceeded, RoundUnavailable
from casework.gateway.validation import ENGINES, compile_schema
from casework.runtime.cli.command_line import run
from tests.support.scripted_line import request

Work: TypeAlias = Callable[[Sequence[str]], int]


def rounds(arguments: Sequence[str]) -> int:
    """Run rounds over ``CONFIG COUNT [PROFILE]`` and print who was asked, with what result."""
    config_file, count, *profile = arguments
    asked = request(
        privacy_profile=PrivacyProfile(profile[0]) if profile else None,
        data=DataSpan(message=1, start=0, end=len("The pump failed")),
    )

    async def walk() -> list[list[list[str]]]:
        async with LLMGateway(GatewayConfig.load(config_file)) as gateway:
            return [_told(await gateway.complete_round(asked)) for _ in range(int(count))]

    try:
        _say(asyncio.run(walk()))
    except CaseworkError as error:
        _say(error.code)
    return 0


def _told(outcome: RoundOutcome) -> list[list[str]]:
    calls = [[attempt.served.provider, attempt.kind.value] for attempt in outcome.attempts]
    match outcome:
        case RoundSucceeded(served=served):
            return [*calls, [served.provider, "accepted"]]
        case RoundErred(final=final):
            return [*calls, [final.served.provider, final.kind.value]]
        case RoundUnavailable():
            return calls
        case _:
            assert_never(outcome)


def schemas(arguments: Sequence[str]) -> int:
    """Compile each schema of a JSON file with each engine and print the codes of the refusals."""
    codes = []
    for schema in json.loads(Path(arguments[0]).read_text(encoding="utf-8")):
        for engine in ENGINES:
            try:
                compile_schema(schema, engine=engine)
            except CaseworkError as error:
                codes.append(error.code)
            else:
                codes.append("accepted")
    _say(codes)
    return 0


def trespass(arguments: Sequence[str]) -> int:
    """Try every way out, after a visit to ``PORT`` here, and print how many could be taken."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ways: list[Callable[[], object]] = [
        lambda: socket.create_connection(("203.0.113.1", 80), timeout=1),
        lambda: socket.create_connection(("2001:db8::1", 80), timeout=1),
        lambda: socket.create_connection(("name.example", 80), timeout=1),
        lambda: datagrams.sendto(b"x", ("203.0.113.2", 53)),
        lambda: datagrams.sendmsg([b"x"], [], 0, ("203.0.113.3", 53)),
        lambda: datagrams.bind(("0.0.0.0", 0)),
        lambda: socket.getaddrinfo("localhost", 80),
        lambda: socket.gethostbyname("name.example"),
        lambda: socket.gethostbyname_ex("name.example"),
        lambda: socket.gethostbyaddr("127.0.0.1"),
        lambda: socket.getnameinfo(("127.0.0.1", 80), 0),
        lambda: urllib.request.urlopen("http://203.0.113.4/"),
        lambda: subprocess.run(["curl", "http://203.0.113.5/"], check=False),
        lambda: os.system("true"),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: os.execv("/bin/true", ["true"]),
        os.fork,
    ]
    with suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(arguments[0])), timeout=1)
    taken = 0
    for way in ways:
        with suppress(OSError):
            way()
            taken += 1
    datagrams.close()
    _say(taken)
    return 0


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


def command_line(arguments: Sequence[str]) -> int:
    """Run the command line of Casework."""
    try:
        return run(arguments)
    finally:
        sys.stdout.flush()


def serve_on_asyncio(arguments: Sequence[str]) -> int:
    """Run the command line where uvloop is not installed."""
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    return command_line(arguments)


def serve_on_uvloop(arguments: Sequence[str]) -> int:
    """Run the command line on a uvloop that tells what it opens."""
    from tests.contract.privacy.watched_loop import watch_uvloop  # noqa: PLC0415 - not on Windows

    watch_uvloop()
    return command_line(arguments)


WORKS: Final[dict[str, Work]] = {
    "casework": command_line,
    "serve on asyncio": serve_on_asyncio,
    "serve on uvloop": serve_on_uvloop,
    "rounds": rounds,
    "schemas": schemas,
    "trespass": trespass,
}
