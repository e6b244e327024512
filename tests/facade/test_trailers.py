"""Fields that come behind a body say nothing of the request."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import urlsplit

from tests.facade.serving import HELLO, facade, provider
from tests.support.fault_upstream.server import FaultUpstream


async def test_a_trailer_is_no_header(tmp_path: Path) -> None:
    """A deadline that cannot be read is refused in the head, and passed over behind the body."""
    body = json.dumps(HELLO).encode()
    request = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n%x\r\n%b\r\n0\r\nX-Casework-Deadline-Seconds: soon\r\n\r\n"
    ) % (len(body), body)
    async with (
        FaultUpstream() as upstream,
        facade(provider("near", upstream.base_url), tmp_path) as served,
    ):
        address = urlsplit(served.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(request)
        reply = await reader.read()
        writer.close()
        await writer.wait_closed()
        headed = await served.chat({"X-Casework-Deadline-Seconds": "soon"})
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert 400 == headed.status
