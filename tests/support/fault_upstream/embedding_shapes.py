"""Vectors for texts: always the same for the same text, in OpenAI's shape."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from tests.support.fault_upstream.faults import Faults
from tests.support.fault_upstream.plausible_model import Request, tokens_of

DIMENSIONS: Final = 8


def texts_of(given: Any) -> list[str | list[int]]:
    """Return the inputs of a request one by one: a text, texts, tokens or lists of tokens."""
    if isinstance(given, str):
        return [given]
    if given and isinstance(given[0], int):
        return [list(given)]
    return list(given)


def vector_of(text: str | Sequence[int], dimensions: int = DIMENSIONS) -> list[float]:
    """Return the vector of one text; each number is exact in 32 bits."""
    digest = sha256(repr(text).encode()).digest()
    return [(digest[at % len(digest)] - 128) / 128 for at in range(dimensions)]


def embeddings(request: Request, _number: int, faults: Faults) -> dict[str, Any]:
    """Return the body of an answer to an embeddings request."""
    texts = texts_of(request["input"])
    encoding = request.get("encoding_format") or "float"
    if faults.text("vectors") in {"float", "base64"}:
        encoding = faults.text("vectors")
    data: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        vector = vector_of(text, request.get("dimensions") or DIMENSIONS)
        packed = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        shown = packed if encoding == "base64" else vector
        data.append({"object": "embedding", "index": index, "embedding": shown})
    if "order" in faults:
        order = [int(each) for each in faults.text("order").split("-")]
        data = [data[at] for at in order if at < len(data)]
    for each in data:
        if faults.text("index") == "zero":
            each["index"] = 0
        elif faults.text("index") == "none":
            del each["index"]
    if faults.text("vectors") == "short":
        data.pop()
    body = {"object": "list", "data": data, "model": request["model"]}
    if "usage" not in faults:
        tokens = sum(len(tokens_of(t)) if isinstance(t, str) else len(t) for t in texts)
        body["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return body
