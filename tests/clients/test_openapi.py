"""Requests made up from the service's own description get no answer that it does not describe."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.clients.conftest import CLIENT_KEY
from tests.clients.serving import ROOT, Served

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
"""Not among them: that what the description lacks is refused, since unknown headers never are."""


HOOKS = "tests.clients.programs.schemathesis_hooks"


def test_made_up_requests_are_answered_as_described(
    casework: Served, installed: Path, tmp_path: Path
) -> None:
    """A fixed seed makes the same requests each time: no 5xx, and nothing undescribed."""
    report = tmp_path / "report.json"
    command = [f"{installed}/libraries/bin/schemathesis", "run", f"{casework.url}/openapi.json"]
    options = ["--url", casework.url, "-H", f"Authorization: Bearer {CLIENT_KEY}"]
    options += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"]
    options += ["--max-examples", "25", "--seed", "1", "--continue-on-failure", "--no-color"]
    options += ["--request-timeout", "30", "--report-json-path", str(report)]
    done = subprocess.run(
        [*command, *options],
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stdout[-8000:]
    told = json.loads(report.read_text(encoding="utf-8"))
    answered = {
        operation: sum(phase["accepted"] for phase in rates.values())
        for operation, rates in told["valid_rates"].items()
    }
    assert 10 == len(answered)
    assert 0 not in answered.values(), answered
