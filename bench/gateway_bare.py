"""The floor: a pass-through of Starlette and aiohttp that does nothing but pass on.

    python -m bench.gateway_bare PORT

``POST /{port}/v1/chat/completions`` goes to that port of this machine. There is no key, limit or
record, and no failure is handled; it shows what the stack itself can do.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

HOST = "127.0.0.1"
FIELDS = ("authorization", "content-type")


class PassThrough:
    """Passes requests on over one session."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def chat(self, request: Request) -> Response:
        """Pass one request on, and its answer back as it comes."""
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        reply = await self._session.post(
            f"http://{HOST}:{request.path_params['port']}/v1/chat/completions",
            data=await request.body(),
            headers={name: request.headers[name] for name in FIELDS if name in request.headers},
        )
        kind = reply.headers.get("content-type", "")
        if kind.startswith("text/event-stream"):
            return StreamingResponse(pieces(reply), reply.status, media_type=kind)
        async with reply:
            return Response(await reply.read(), reply.status, media_type=kind)


async def pieces(reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield a body as it comes."""
    async with reply:
        async for piece in reply.content.iter_any():
            yield piece


async def ready(_: Request) -> Response:
    """Say that the process serves."""
    return Response(b"ready")


def main() -> None:
    """Serve until somebody ends the process."""
    chat = PassThrough().chat
    routes = [
        Route("/{port:int}/v1/chat/completions", chat, methods=["POST"]),
        Route("/readyz", ready),
    ]
    uvicorn.run(
        Starlette(routes=routes),
        host=HOST,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,
    )


if __name__ == "__main__":
    main()
