"""Fingerprints are the same wherever they are taken, and differ wherever an answer could."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from casework.config.privacy_profile import PrivacyProfile
from casework.runner.fingerprints import OperationIdentity, differing_parts, record_request
from casework.strict_json import JSONObject
from tests.support.scripted_line import request

ROOT = Path(__file__).resolve().parents[3]
IDENTITY = OperationIdentity(
    case_id="case-1",
    package_id="0" * 64,
    operation_id="extract",
    analysis_revision=1,
    phase="BUILDING_CASE",
)
PROVIDER: JSONObject = {"id": "a", "model": "m", "timeout_seconds": 30.0}
CONFIGURATION: JSONObject = {"providers": [PROVIDER], "max_attempts": 10}

PRINTER = """
from casework.prompts.prompt_builder import PromptBuilder
from casework.config.privacy_profile import PrivacyProfile
from casework.runner.fingerprints import record_request
from tests.unit.runner.test_fingerprints import CONFIGURATION, IDENTITY
names = {"alpha", "beta", "gamma", "delta", "epsilon"}
schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
built = PromptBuilder().build(
    "Task", {name: name for name in names}, schema, parameters={"top_p": 1.0, "temperature": 0.0}
)
record = record_request(
    built, IDENTITY, profile=PrivacyProfile.LOCAL_ONLY, configuration=CONFIGURATION
)
print(record.request_fingerprint, record.config_fingerprint)
"""


def test_two_processes_with_other_hash_seeds_take_the_same_fingerprints() -> None:
    """Sets and dictionaries built in another order make no other request."""
    taken = {
        subprocess.run(
            [sys.executable, "-c", PRINTER],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert 1 == len(taken)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("case_id", "case-2"),
        ("package_id", "1" * 64),
        ("operation_id", "other"),
        ("analysis_revision", 2),
        ("phase", "REVIEW"),
    ],
)
def test_every_part_of_the_identity_counts(field: str, value: object) -> None:
    """The same text asked for another operation is another request."""
    changed = replace(IDENTITY, **{field: value})  # type: ignore[arg-type]
    records = [
        record_request(
            request(), identity, profile=PrivacyProfile.LOCAL_ONLY, configuration=CONFIGURATION
        )
        for identity in (IDENTITY, changed)
    ]
    assert records[0].request_fingerprint != records[1].request_fingerprint
    assert (field,) == differing_parts(records[0].body, records[1].body)


def test_differences_of_settings_name_the_provider_and_the_setting() -> None:
    """A person reads which entry to restore; no value is shown."""
    before: JSONObject = {"configuration": CONFIGURATION}
    slower: JSONObject = {**PROVIDER, "timeout_seconds": 5.0}
    assert ("configuration.providers[a].timeout_seconds",) == differing_parts(
        before, {"configuration": {**CONFIGURATION, "providers": [slower]}}
    )
    assert ("configuration.providers",) == differing_parts(
        before, {"configuration": {**CONFIGURATION, "providers": [PROVIDER, slower | {"id": "b"}]}}
    )
    assert ("configuration.max_attempts",) == differing_parts(
        before, {"configuration": {**CONFIGURATION, "max_attempts": 3}}
    )
