"""The shipped OpenAPI description, and what a reply has in it that it does not describe."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import jsonschema_rs

DESCRIPTION: Final[Mapping[str, Any]] = json.loads(
    files("casework.facade").joinpath("openapi.json").read_bytes()
)


def undescribed(
    method: str, path: str, *, status: int, headers: Mapping[str, str], body: bytes
) -> list[str]:
    """Return what the description does not know of a reply; nothing where it is as described.

    Args:
        method: Of the request.
        path: Of the request, without its query.
        status: Of the reply.
        headers: Of the reply, names in lower case.
        body: Of the reply.
    """
    operation = _operation(method.lower(), path)
    if operation is None:
        return [f"{method} {path}"]
    response = _resolved(operation["responses"].get(str(status)))
    if response is None:
        return [f"status {status}"]
    wrong = [
        f"header {name}"
        for name, header in response["headers"].items()
        if _resolved(header).get("required") and name not in headers
    ]
    content_type = headers.get("content-type", "").partition(";")[0]
    media = response["content"].get(content_type)
    if media is None:
        return [*wrong, f"content type {content_type}"]
    if content_type == "application/json":
        wrong += violations(json.loads(body), media["schema"])
    return wrong


def violations(value: object, schema: Mapping[str, Any]) -> list[str]:
    """Return where a value breaks a schema of the description, and how."""
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in _validator(json.dumps(schema)).iter_errors(value)
    ]


def described_operations() -> set[tuple[str, str]]:
    """Return every method and path that is described."""
    return {
        (method.upper(), path)
        for path, operations in DESCRIPTION["paths"].items()
        for method in operations
    }


def _operation(method: str, path: str) -> Any:
    exact = DESCRIPTION["paths"].get(path)
    if exact is None:
        exact = next(
            (
                operations
                for template, operations in DESCRIPTION["paths"].items()
                if re.fullmatch(re.sub(r"\{[^}]*\}", ".*", template), path) and "{" in template
            ),
            {},
        )
    return exact.get(method)


def _resolved(value: Any) -> Any:
    while isinstance(value, dict) and "$ref" in value:
        found: Any = DESCRIPTION
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        value = found
    return value


@lru_cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    document = {"components": DESCRIPTION["components"], **json.loads(schema)}
    return jsonschema_rs.Draft202012Validator(document, offline=True)
