"""A small model in this very process, behind llama.cpp's own server on a loopback port.

Needs the extra ``local-model`` and the weights of ``casework model install`` (or another GGUF file
named in the provider's ``file``). The server starts with the first call and ends with ``aclose``;
it takes a key that only this process knows.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import secrets
import threading
from pathlib import Path
from typing import Any, Final, Self

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.chat.calls import ChatCall, ChatReply, EventStream
from casework.gateway.clock import Deadline
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, ProviderCall, ProviderReply
from casework.gateway.providers.local_weights import weights_path
from casework.gateway.providers.openai_compatible import OpenAICompatibleProvider
from casework.gateway.transport import HTTPTransport

_logger = logging.getLogger(__name__)

THREADS_MAX: Final = 8
CONTEXT_TOKENS_MAX: Final = 8192
SILENT: Final = 0

_MAGIC: Final = b"GGUF"


class LlamaCppProvider:
    """Asks a model that runs inside this process.

    Args:
        config: Formats and limits of the target.
        weights: GGUF file.
    """

    def __init__(self, config: ProviderConfig, *, weights: Path) -> None:
        self._config = config
        self._weights = weights
        self._lock = threading.Lock()
        self._server: Any = None
        self._client: OpenAICompatibleProvider | None = None
        self._key = Credential("in-process", secrets.token_hex(16))

    @classmethod
    def from_config(cls, config: ProviderConfig) -> Self:
        """Make the adapter for a provider's entry; loads nothing yet.

        Raises:
            ConfigurationError: The runtime or the weights are missing.
        """
        where = f'provider "{config.id}"'
        if importlib.util.find_spec("xllamacpp") is None:
            raise ConfigurationError(
                "the runtime of the local model is not installed",
                where=where,
                remedy="pip install 'casework[local-model]'",
            )
        weights = config.file or weights_path(os.environ)
        try:
            with weights.open("rb") as stream:
                begins = stream.read(len(_MAGIC))
        except OSError:
            begins = b""
        if begins != _MAGIC:
            raise ConfigurationError(
                "the weights of the local model are missing or no GGUF file",
                where=where,
                remedy="run: casework model install",
            )
        return cls(config, weights=weights)

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Ask the model, exactly once; the first call loads it, within its own deadline.

        Raises:
            ProviderFailure: The call failed, or the weights could not be loaded.
        """
        del credential
        client = await self._ready(deadline)
        return await client.complete(call, credential=self._key, deadline=deadline)

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        """Ask for a whole answer; see :meth:`complete`.

        Raises:
            ProviderFailure: See :meth:`complete`.
        """
        del credential
        client = await self._ready(deadline)
        return await client.chat(call, credential=self._key, deadline=deadline)

    async def open_stream(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EventStream:
        """Ask for a stream; see :meth:`complete`.

        Raises:
            ProviderFailure: See :meth:`complete`.
        """
        del credential
        client = await self._ready(deadline)
        return await client.open_stream(call, credential=self._key, deadline=deadline)

    async def aclose(self) -> None:
        """Stop the server and free the model; a further call loads it again."""
        with self._lock:
            client, self._client = self._client, None
            server, self._server = self._server, None
        if client is not None:
            await client.aclose()
        stopped = [server]
        del server
        await asyncio.to_thread(stopped.clear)

    async def _ready(self, deadline: Deadline) -> OpenAICompatibleProvider:
        """Return a client of the running server, which is started where it is not."""
        if self._client is not None:
            return self._client
        failure = FailureKind.CONNECT_ERROR
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await asyncio.to_thread(self._started)
        except TimeoutError:
            failure = FailureKind.TIMEOUT
        except RuntimeError:
            _logger.error(  # noqa: TRY400 - the runtime's own words hold paths
                "local model failed to load",
                extra={"action": "model_load_failed", "provider": self._config.id},
            )
        raise ProviderFailure(failure, sent=False)

    def _started(self) -> OpenAICompatibleProvider:
        """Return a client of the running server; runs on a worker thread, since it loads."""
        with self._lock:
            if self._client is None:
                self._server = _start_server(self._weights, self._key.secret)
                self._client = OpenAICompatibleProvider(
                    self._config,
                    base_url=f"{self._server.listening_address}/v1",
                    transport=HTTPTransport(),
                )
            return self._client


def _start_server(weights: Path, key: str) -> Any:
    """Load the weights and listen on a free loopback port.

    Threads that wait busily make the model twenty times slower on a busy machine; both settings
    against that are made here.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp  # noqa: PLC0415 - an extra, and heavy

    threads = min(os.cpu_count() or 1, THREADS_MAX)
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = threads
        cpu.poll = 0
    params.n_ctx = CONTEXT_TOKENS_MAX
    params.n_parallel = 1
    params.cache_ram_mib = 0
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = False
    params.offline = True
    params.endpoint_slots = False
    params.verbosity = SILENT
    return xllamacpp.Server(params)
