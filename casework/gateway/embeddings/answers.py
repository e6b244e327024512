"""What a server answers with vectors: judged whole, and written as the client wants it."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

from casework.gateway.chat.calls import EmbeddingReply
from casework.gateway.chat.completion import usage_of
from casework.gateway.chat.json_members import (
    NOT_JSON,
    is_null,
    written,
)
from casework.gateway.chat.told_errors import failure_told
from casework.gateway.embeddings.request import Encoding
from casework.gateway.embeddings.vectors import Vector, read_list, read_vector
from casework.gateway.errors import FailureKind
from casework.gateway.messages import Usage
from casework.gateway.plan import Accepted, Rejected, Verdict
from casework.strict_json import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingAnswer:
    """One vector for each input, in the order of the inputs."""

    vectors: tuple[Vector, ...] = field(repr=False)
    usage: Usage | None
    """As the server says; for one of several callers of a call, its share."""
    dropped: tuple[str, ...] = ()
    """Members of the request that the server was not sent, or only in other terms."""

    def body(self, model: str, encoding: Encoding) -> bytes:
        """Write the answer as OpenAI does.

        Its schema knows no null, so an unknown usage is left out; nothing is put in its place.

        Args:
            model: Name to echo.
            encoding: How the vectors are written.
        """
        pieces = [b'{"object":"list","data":[']
        for index, vector in enumerate(self.vectors):
            comma = b"," if index else b""
            pieces.append(b'%b{"object":"embedding","index":%d,"embedding":' % (comma, index))
            pieces.append(vector.as_base64() if encoding == "base64" else vector.as_list())
            pieces.append(b"}")
        tail: JSONObject = {"model": model, **_usage_told(self.usage)}
        pieces += (b"],", written(tail)[1:])
        return b"".join(pieces)


def judge_embeddings(reply: EmbeddingReply, inputs_count: int) -> Verdict[EmbeddingAnswer]:
    """Decide whether a reply is an answer to so many inputs; pure, and nothing is repaired.

    An item belongs to the input that its index names, wherever it stands. The index of one item
    may be left out, as servers do that write no zeros: it is 0. A reply that lacks an index, or
    names one twice or one that was not asked for, is none, for whose vector is whose would be a
    guess.
    """
    try:
        return _judged(reply, inputs_count)
    except NOT_JSON:
        return Rejected(FailureKind.MALFORMED_RESPONSE)


def _judged(reply: EmbeddingReply, inputs_count: int) -> Verdict[EmbeddingAnswer]:
    shape = read_list(reply.body.removeprefix(codecs.BOM_UTF8))
    if not is_null(shape.error):
        return Rejected(failure_told(shape.error).kind)
    _, usage = usage_of(shape.usage)
    by_index = {item.index or 0: item.embedding for item in shape.data or ()}
    if len(shape.data or ()) != inputs_count or by_index.keys() != set(range(inputs_count)):
        return Rejected(FailureKind.MALFORMED_RESPONSE, usage)
    try:
        vectors = tuple(read_vector(bytes(by_index[index])) for index in range(inputs_count))
    except ValueError:
        return Rejected(FailureKind.MALFORMED_RESPONSE, usage)
    return Accepted(EmbeddingAnswer(vectors=vectors, usage=usage, dropped=reply.dropped), usage)


def _usage_told(usage: Usage | None) -> JSONObject:
    """Return the usage as a member; an embedding writes no tokens, so both counts are one."""
    if usage is None:
        return {}
    counts = [n for n in (usage.prompt_tokens, usage.total_tokens) if n is not None]
    if not counts:
        return {}
    return {"usage": {"prompt_tokens": counts[0], "total_tokens": counts[-1]}}
