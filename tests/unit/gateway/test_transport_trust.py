"""Whom the transport believes: no ambient setting, no cookie, and no server without proof."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from casework.errors import ConfigurationError
from casework.gateway.errors import FailureKind
from casework.gateway.transport import HTTPTransport
from tests.support.http_calls import CANARY, failure, request, within
from tests.support.raw_server import RawServer, answer, certificate


@pytest.fixture
async def transport() -> AsyncIterator[HTTPTransport]:
    """Return a transport that is let go at the end."""
    made = HTTPTransport()
    yield made
    await made.aclose()


async def test_ambient_proxies_and_netrc_are_ignored(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No environment sends a document elsewhere or adds a credential."""
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login x password {CANARY}\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with RawServer([answer(body=b"p")]) as proxy, RawServer([answer(body=b"a")]) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert b"a" == await transport.post_json(request(server.base_url), deadline=within(20))
        assert 0 == proxy.connections
        assert "authorization" not in server.heard[0].headers


async def test_cookies_are_not_kept(transport: HTTPTransport) -> None:
    """What one call was told does not follow into the next."""
    async with RawServer([answer(headers={"Set-Cookie": f"a={CANARY}; Path=/"})]) as server:
        for _ in range(2):
            await transport.post_json(request(server.base_url), deadline=within(20))
        assert all("cookie" not in heard.headers for heard in server.heard)


async def test_a_certificate_that_nobody_vouches_for_is_final(
    transport: HTTPTransport, tmp_path: Path
) -> None:
    """Nothing is sent to a server that cannot prove who it is."""
    context, _ = certificate(tmp_path)
    async with RawServer([answer()], tls=context) as server:
        found = await failure(transport, server.base_url)
        assert [] == server.heard
    assert (FailureKind.TLS_ERROR, False) == (found.kind, found.sent)


async def test_a_trusted_certificate_of_another_name_is_final(tmp_path: Path) -> None:
    """The name is checked as well as the chain."""
    context, trusted = certificate(tmp_path, name="other.example")
    transport = HTTPTransport(ca_file=trusted)
    async with RawServer([answer()], tls=context) as server:
        found = await failure(transport, server.base_url)
    await transport.aclose()
    assert (FailureKind.TLS_ERROR, False) == (found.kind, found.sent)


async def test_a_private_authority_can_be_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its certificate named, a house server is reached; no key log is written."""
    log = tmp_path / "keys"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    context, trusted = certificate(tmp_path)
    transport = HTTPTransport(ca_file=trusted)
    async with RawServer([answer(body=b"safe")], tls=context) as server:
        assert b"safe" == await transport.post_json(request(server.base_url), deadline=within(20))
    await transport.aclose()
    assert not log.exists()


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_certificates_that_cannot_be_read_are_told(tmp_path: Path, content: bytes | None) -> None:
    """A missing or empty certificate file is a configuration error."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="the certificates cannot be read"):
        HTTPTransport(ca_file=path)


async def test_a_reset_handshake_is_a_connect_error(transport: HTTPTransport) -> None:
    """A handshake that breaks may work the next time."""

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(400))
        await reader.read()
        writer.close()

    for behaviour in (hang_up, speak_plainly):
        listener = await asyncio.start_server(behaviour, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        found = await failure(transport, f"https://127.0.0.1:{port}/v1")
        listener.close()
        await listener.wait_closed()
        assert (FailureKind.CONNECT_ERROR, False) == (found.kind, found.sent)
