"""OpenAI's published schemas of answers, chunks, embeddings, models and errors, for tests.

Where they come from, and under which licence, stands in ``openai_schemas.json``.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema_rs

ANSWER = "CreateChatCompletionResponse"
CHUNK = "CreateChatCompletionStreamResponse"
EMBEDDINGS = "CreateEmbeddingResponse"
MODEL = "Model"
MODELS = "ListModelsResponse"
ERROR = "ErrorResponse"

_FILE = Path(__file__).with_suffix(".json")


def violations(value: object, schema: str) -> list[str]:
    """Return where a value breaks one of the schemas, and how; nothing where it is valid."""
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in _validator(schema).iter_errors(value)
    ]


@lru_cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    document = _with_nulls(json.loads(_FILE.read_bytes()))
    document["$ref"] = f"#/components/schemas/{name}"
    return jsonschema_rs.Draft202012Validator(document, offline=True)


def _with_nulls(value: Any) -> Any:
    """Turn ``nullable`` of OpenAPI 3.0 into what JSON Schema says for it."""
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    rules = {name: _with_nulls(item) for name, item in value.items() if name != "nullable"}
    return {"anyOf": [rules, {"type": "null"}]} if value.get("nullable") is True else rules
