"""One round for all callers of a batch, through the gateway, with every call counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from casework.config.gateway_config import GatewayConfig
from casework.errors import CaseworkError
from casework.gateway.chat.calls import EmbeddingCall, EmbeddingReply
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.embeddings.answers import EmbeddingAnswer
from casework.gateway.embeddings.request import read_embedding_request
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import Credential, ProviderCall, ProviderReply
from casework.gateway.outcomes import Answered, RoundErred, Walked
from casework.gateway.scope import UNBOUNDED
from tests.unit.gateway.embeddings.batch_bench import settle

Step = Sequence[int] | ProviderFailure | None


class Embedder:
    """Answers each call with the vector ``[length of the text]``, under the indexes of its step.

    Args:
        steps: For each call the indexes in the order of the items, a failure, or None to hang.
    """

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.calls: list[EmbeddingCall] = []
        self.cancelled = 0

    async def embed(
        self, call: EmbeddingCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EmbeddingReply:
        """Play the next step."""
        self.calls.append(call)
        step = self.steps.pop(0)
        if isinstance(step, ProviderFailure):
            raise step
        if step is None:
            await self._hang()
        lengths = [len(json.loads(text)) for text in call.inputs]
        items = [{"index": index, "embedding": [lengths[index]]} for index in step or ()]
        usage = {"prompt_tokens": 10, "total_tokens": 10}
        return EmbeddingReply(body=json.dumps({"data": items, "usage": usage}).encode())

    async def _hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Never called here."""
        raise ProviderFailure(FailureKind.UNKNOWN)

    async def aclose(self) -> None:
        """Let go of nothing."""


def gateway_over(*embedders: Embedder) -> LLMGateway:
    """Return a gateway that sends three texts at once, to these providers in order."""
    entries = "".join(
        f'[[providers]]\nid = "p{n}"\nadapter = "double"\nclass = "cloud"\nmodel = "m"\n'
        for n in range(len(embedders))
    )
    limits = 'privacy_profile = "cloud_allowed"\n[embeddings]\nmax_items = 3\n'
    return LLMGateway(
        GatewayConfig.parse(limits + entries),
        adapters={"double": lambda config: embedders[int(config.id[1:])]},
        clock=ManualClock(),
        environ={},
    )


async def come(gateway: LLMGateway, *texts: str) -> asyncio.Task[Walked[EmbeddingAnswer]]:
    """Let a caller ask for the vectors of texts, and return its task once it waits."""
    request = read_embedding_request(json.dumps({"model": "auto", "input": texts}).encode())
    task = asyncio.create_task(gateway.embed(request, UNBOUNDED))
    await settle()
    return task


def told(walked: Walked[EmbeddingAnswer]) -> tuple[list[object], int]:
    """Return the vectors of an answer as numbers, and its tokens."""
    assert isinstance(walked, Answered)
    body = json.loads(walked.answer.body("auto", "float"))
    assert list(range(len(body["data"]))) == [item["index"] for item in body["data"]]
    return [item["embedding"] for item in body["data"]], body["usage"]["prompt_tokens"]


async def test_a_batch_that_moves_on_stays_in_order() -> None:
    """All indexes 0 are believed of nobody; the next one is asked for all, and sorted by index."""
    first, second = Embedder([0, 0, 0]), Embedder([2, 0, 1])
    gateway = gateway_over(first, second)
    callers = [await come(gateway, "a", "bb"), await come(gateway, "ccc")]
    outcomes = [told(await caller) for caller in callers]
    assert [[[1], [2]], [[3]]] == [vectors for vectors, _ in outcomes]
    assert 10 == sum(tokens for _, tokens in outcomes)
    assert [1, 1] == [len(first.calls), len(second.calls)]
    walked = callers[0].result()
    assert [FailureKind.MALFORMED_RESPONSE] == [attempt.kind for attempt in walked.attempts]


async def test_a_refusal_ends_the_round_of_every_caller() -> None:
    """A request at fault is asked of nobody else, and each caller is told so."""
    refusal = ProviderFailure(FailureKind.HTTP_ERROR, http_status=400)
    first, second = Embedder(refusal), Embedder([0, 1, 2])
    gateway = gateway_over(first, second)
    for caller in [await come(gateway, "a", "b"), await come(gateway, "c")]:
        outcome = await caller
        assert isinstance(outcome, RoundErred)
        assert 400 == outcome.final.http_status
    assert [1, 0] == [len(first.calls), len(second.calls)]


async def test_the_call_is_closed_when_the_last_caller_has_left() -> None:
    """One that leaves changes nothing; the last one closes the call, and the next is free."""
    embedder = Embedder(None, [0, 1, 2])
    gateway = gateway_over(embedder)
    first, second = await come(gateway, "a", "b"), await come(gateway, "c")
    first.cancel()
    await settle()
    assert 0 == embedder.cancelled
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert 1 == embedder.cancelled
    assert 1 == len(asyncio.all_tasks())
    third = await come(gateway, "a", "bb", "ccc")
    assert ([[1], [2], [3]], 10) == told(await third)


async def test_a_model_that_nobody_has_waits_for_no_batch() -> None:
    """It is refused before anything is gathered."""
    embedder = Embedder()
    request = read_embedding_request(b'{"model":"p9/none","input":"a"}')
    with pytest.raises(CaseworkError):
        await gateway_over(embedder).embed(request, UNBOUNDED)
    assert [] == embedder.calls
