"""Error bodies as OpenAI's servers write them, one for each status."""

from __future__ import annotations

from typing import Any, Final

from tests.support.fault_upstream.faults import Faults

TYPES: Final = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    408: ("server_error", "timeout"),
    409: ("invalid_request_error", "conflict"),
    413: ("invalid_request_error", "request_too_large"),
    422: ("invalid_request_error", "unprocessable"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
}


def error_body(status: int, faults: Faults, *, message: str = "") -> dict[str, Any]:
    """Return the body that goes with a status."""
    kind, code = TYPES.get(status, ("server_error", None))
    options = faults.options
    return {
        "error": {
            "message": options.get("message") or message or f"The double was told to say {status}.",
            "type": options.get("type", kind),
            "param": None,
            "code": options.get("code", code),
        }
    }
