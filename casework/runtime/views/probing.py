"""Trying whether eligible providers can be reached: a connection and nothing said over it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from casework.config.providers import ProviderConfig
from casework.gateway.clock import Clock
from casework.gateway.privacy import Eligibility
from casework.runtime.views.doctor import Check, CheckState

PROBE_SECONDS: Final = 5.0
LOCALHOST: Final = "127.0.0.1"
"""What ``localhost`` means here; no name server is asked about this machine."""


def probe_all(verdicts: Iterable[Eligibility], clock: Clock) -> list[Check]:
    """Connect once to each eligible provider; no request is sent, so nothing can be charged."""

    async def probe() -> list[Check]:
        eligible = [verdict.provider for verdict in verdicts if verdict.eligible]
        return list(await asyncio.gather(*(_probe(provider, clock) for provider in eligible)))

    return asyncio.run(probe())


async def _probe(provider: ProviderConfig, clock: Clock) -> Check:
    if provider.base_url is None:
        return Check("probe", CheckState.OK, f"{provider.id}: answers in this process")
    address = urlsplit(provider.base_url)
    secure = address.scheme == "https"
    host = address.hostname or ""
    begun = clock.monotonic()
    try:
        context = _tls_context(provider) if secure else None
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(
                LOCALHOST if host == "localhost" else host,
                address.port or (443 if secure else 80),
                ssl=context,
                server_hostname=host if secure else None,
            )
    except (OSError, TimeoutError) as error:
        failure = type(error).__name__
        return Check("probe", CheckState.PROBLEM, f"{provider.id}: no connection ({failure})")
    elapsed = clock.monotonic() - begun
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    how = "over verified TLS" if secure else "without encryption"
    return Check(
        "probe", CheckState.OK, f"{provider.id}: connected {how} in {1000 * elapsed:.0f} ms"
    )


def _tls_context(provider: ProviderConfig) -> ssl.SSLContext:
    """Make a context that verifies as a call does; no key log is written, whatever is set."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_default_certs()
    if provider.ca_file is not None:
        context.load_verify_locations(provider.ca_file)
    return context
