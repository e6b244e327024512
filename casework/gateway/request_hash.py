"""The name under which an answer to a call is recorded and found again."""

from __future__ import annotations

from casework.gateway.messages import ProviderCall
from casework.strict_json import JSON, JSONObject, digest


def request_hash(call: ProviderCall) -> str:
    """Return the SHA-256 of everything that shapes an answer except who is asked.

    Covers messages, schema and parameters; the model is left out, so that a recording answers for
    whichever target stands in its place.
    """
    messages: list[JSON] = [message.to_json() for message in call.messages]
    content: JSONObject = {
        "format": "llm-call/1",
        "messages": messages,
        "output_schema": call.output_schema,
        "parameters": dict(call.parameters),
    }
    return digest(content)
