"""What befalls a service beside its upstream: clients leave, disks refuse, keys are damaged."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from casework.facade.key_file import FILE_NAME
from tests.contract.privacy.bare_client import BareClient, Bytes, written
from tests.contract.privacy.faulty_upstream import document
from tests.contract.privacy.guarded import SECONDS_MAX
from tests.contract.privacy.marked_service import (
    KINDS,
    OWN,
    PROXY_KEY,
    Asked,
    Clients,
    body_of,
    headers_of,
    target_of,
)
from tests.contract.privacy.marks import Mark
from tests.support.raw_server import RawServer

LEFT, REFUSED, MENDED, DAMAGED, BESIDE = (1000, 2000, 3000, 4000, 5000)
"""Where the numbers of requests begin, so that none of them is another one's."""


def _request(kind: str, number: int, fault: str, provider: str) -> bytes:
    body = body_of(kind, document(fault), f"{provider}/{Mark.MODEL}-{number}")
    headers = headers_of(kind, number)
    return written("POST", target_of(kind), headers=headers, body=body)


async def clients_leave(port: int, stalled: RawServer) -> None:
    """Let a client of each kind leave while its provider is silent."""
    for number, kind in enumerate(KINDS, LEFT):
        stalled.asked.clear()
        stalled.gone.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(kind, number, "stalled", "stalled"))
        async with asyncio.timeout(SECONDS_MAX):
            await stalled.asked.wait()
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()
            await stalled.gone.wait()


async def disk_refuses(clients: Clients, runtime: Path) -> None:
    """Let each kind be asked while neither announcements nor lines of the log can be written."""
    log, inflight = runtime / "logs" / "requests.jsonl", runtime / "inflight"
    _take_away(log, inflight)
    for number, kind in enumerate(KINDS, REFUSED):
        allowed = OWN if kind == "kept" else OWN | _ANSWERS
        request = _request(kind, number, "accepted", "faulty")
        await clients.send(Asked(f"{kind} while the disk refuses", request, allowed))
    _put_back(log, inflight)
    for number, kind in enumerate(KINDS, MENDED):
        request = _request(kind, number, "accepted", "faulty")
        await clients.send(Asked(f"{kind} when the disk is back", request, OWN | _ANSWERS))


_ANSWERS: Final = frozenset({Mark.ANSWER, Mark.EXTRA, Mark.MODEL, Mark.MEMBER})


def _take_away(log: Path, inflight: Path) -> None:
    log.rename(log.with_suffix(".earlier"))
    log.mkdir()
    for left in inflight.iterdir():
        left.unlink()
    inflight.rmdir()
    inflight.write_bytes(b"")


def _put_back(log: Path, inflight: Path) -> None:
    log.rmdir()
    inflight.unlink()
    inflight.mkdir()


async def keys_are_damaged(clients: Clients, runtime: Path) -> None:
    """Let each kind be asked while the file of client keys holds something else."""
    path = runtime / FILE_NAME
    kept = path.read_bytes()
    path.write_bytes(f'{{"keys": "{Mark.WRONG} {Mark.CLIENT}"'.encode())
    async with asyncio.timeout(SECONDS_MAX):
        while (await _known(clients.client)).status == 200:
            pass  # the file is looked at once a second
    for number, kind in enumerate(KINDS, DAMAGED):
        request = _request(kind, number, "accepted", "faulty")
        await clients.send(Asked(f"{kind} while the keys are damaged", request, OWN))
    for number, kind in enumerate(KINDS, BESIDE):
        body = body_of(kind, document("accepted"), f"faulty/{Mark.MODEL}-{number}")
        headers = headers_of(kind, number, key=PROXY_KEY)
        request = written("POST", target_of(kind), headers=headers, body=body)
        await clients.send(Asked(f"{kind} by the key beside the file", request, OWN | _ANSWERS))
    path.write_bytes(kept)
    async with asyncio.timeout(SECONDS_MAX):
        while (await _known(clients.client)).status != 200:
            pass


async def _known(client: BareClient) -> Bytes:
    return await client.ask("GET", "/v1/models", headers=headers_of("whole"))
