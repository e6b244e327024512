"""The official Python SDK's own tests of chat, embeddings and models, pointed at the service."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.serving import ROOT, Double, Served, serving

FILES = (
    "tests/api_resources/chat/test_completions.py",
    "tests/api_resources/test_embeddings.py",
    "tests/api_resources/test_models.py",
)

SETTINGS = """
[[providers]]
id = "double"
adapter = "openai_compatible"
base_url = "{url}"
model = "gpt-6-astra"

[models.aliases]
"text-embedding-3-small" = "double/text-embedding-3-small"
"""

VARIANTS = ("loose", "strict")
ASYNC_VARIANTS = (*VARIANTS, "aiohttp")

NOT_FOUND = "openai.NotFoundError"
NOT_ALLOWED = "openai.APIStatusError"

NOT_SERVED = {
    "tests.api_resources.chat.test_completions.{}Completions": {
        "test_method_retrieve": NOT_FOUND,
        "test_raw_response_retrieve": NOT_FOUND,
        "test_streaming_response_retrieve": NOT_FOUND,
        "test_method_update": NOT_FOUND,
        "test_raw_response_update": NOT_FOUND,
        "test_streaming_response_update": NOT_FOUND,
        "test_method_list": NOT_ALLOWED,
        "test_method_list_with_all_params": NOT_ALLOWED,
        "test_raw_response_list": NOT_ALLOWED,
        "test_streaming_response_list": NOT_ALLOWED,
        "test_method_delete": NOT_FOUND,
        "test_raw_response_delete": NOT_FOUND,
        "test_streaming_response_delete": NOT_FOUND,
    },
    "tests.api_resources.test_models.{}Models": {
        "test_method_delete": NOT_ALLOWED,
        "test_raw_response_delete": NOT_ALLOWED,
        "test_streaming_response_delete": NOT_ALLOWED,
    },
}
"""Answers that a server keeps for its clients, and the deletion of models: not served here."""

NOT_BASE64 = (
    "test_method_create",
    "test_raw_response_create",
    "test_streaming_response_create",
)
"""The SDK asks for base64 by itself, and its strict mode then refuses base64."""


def expected_failures() -> dict[str, str]:
    """Return the tests that cannot pass, with the SDK's error in each."""
    failures = {
        f"{where.format(kind)}.{test}[{variant}]": error
        for where, tests in NOT_SERVED.items()
        for kind, variants in (("Test", VARIANTS), ("TestAsync", ASYNC_VARIANTS))
        for test, error in tests.items()
        for variant in variants
    }
    return failures | {
        f"tests.api_resources.test_embeddings.{kind}Embeddings.{test}[{variant}]": (
            "openai.APIResponseValidationError"
        )
        for kind, variants in (("Test", VARIANTS[1:]), ("TestAsync", ASYNC_VARIANTS[1:]))
        for test in NOT_BASE64
        for variant in variants
    }


@pytest.fixture(scope="module")
def open_service(upstream: Double, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a service without client keys, since the tests bring one of their own."""
    folder = tmp_path_factory.mktemp("sdk-tests") / "project"
    with serving(folder, SETTINGS.replace("{url}", upstream.base_url), {}) as running:
        yield running


def test_the_sdks_own_tests_pass(open_service: Served, installed: Path, tmp_path: Path) -> None:
    """All of them pass but those that ``docs/clients.md`` accounts for."""
    report = tmp_path / "report.xml"
    command = [f"{installed}/sdk/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    options = ["--tb=line", "-c", f"{ROOT}/tests/clients/sdk_tests.ini", f"--junitxml={report}"]
    source = installed / "sdk-source"
    done = subprocess.run(
        [*command, *options, f"--rootdir={source}", *FILES],
        cwd=source,
        env={**os.environ, "TEST_API_BASE_URL": open_service.base_url},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    cases = list(ET.parse(report).getroot().iter("testcase"))
    failed = {
        f"{case.get('classname')}.{case.get('name')}": (failure.get("message") or "").split(":")[0]
        for case in cases
        if (failure := case.find("failure")) is not None
    }
    assert expected_failures() == failed
    assert (195, []) == (len(cases), [c for c in cases if c.find("skipped") is not None])
