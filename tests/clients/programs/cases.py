"""Runs the cases of a client program, and tells what came of each as JSON."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import traceback
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

BASE_URL = os.environ["BASE_URL"]
KEY = os.environ["CLIENT_KEY"]
DOUBLE_URL = os.environ["DOUBLE_URL"]


def asked_upstream(**wanted: int) -> Any:
    """Return what the upstream was asked so far, once so many of each are counted."""
    query = "&".join(f"{name}={count}" for name, count in wanted.items())
    side = DOUBLE_URL.removesuffix("/v1")
    with urllib.request.urlopen(f"{side}/_double/state?{query}", timeout=30) as reply:
        return json.load(reply)


def last_request() -> Any:
    """Return the body that the upstream received last."""
    return json.loads(asked_upstream()["asked"][-1]["body"])


def raised(asking: Callable[[], Any]) -> Exception:
    """Return the error that a call raises."""
    try:
        asking()
    except Exception as error:  # noqa: BLE001 - whichever it is, the case looks at it
        return error
    raise AssertionError("there was an answer")


def run_cases(names: Mapping[str, Any]) -> None:
    """Run every ``case_...`` of a module; write one JSON document: name to error or null."""
    cases = {name: case for name, case in names.items() if name.startswith("case_")}
    json.dump({name: _run(case) for name, case in cases.items()}, sys.stdout)


def _run(case: Callable[[], Any]) -> str | None:
    try:
        made = case()
        if inspect.isawaitable(made):
            asyncio.run(_finished(made))
    except Exception:  # noqa: BLE001 - told to whoever runs the program
        return traceback.format_exc()
    return None


async def _finished(made: Any) -> None:
    await made
