"""The ``llm`` command line: prompts, streams, conversations, tools, schemas and embeddings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.clients.programs.cases import BASE_URL, KEY, last_request, run_cases

HOME = Path(tempfile.mkdtemp())
LLM = Path(sys.executable).parent / "llm"

(HOME / "extra-openai-models.yaml").write_text(
    f"""
- model_id: casework
  model_name: echo
  api_base: {BASE_URL}
  api_key_name: casework
  supports_tools: true
  supports_schema: true
""",
    encoding="utf-8",
)
(HOME / "keys.json").write_text(json.dumps({"casework": KEY}), encoding="utf-8")


def llm(*words: str) -> str:
    """Run one command and return what it wrote."""
    done = subprocess.run(
        [LLM, *words],
        env={**os.environ, "LLM_USER_PATH": str(HOME)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def case_streamed() -> None:
    """A prompt is answered in a stream, as by default."""
    assert llm("-m", "casework", "hello there") == "You said: hello there"
    assert last_request()["stream"] is True


def case_whole() -> None:
    """A prompt is answered at once."""
    assert llm("-m", "casework", "--no-stream", "-s", "Be brief.", "hello") == "You said: hello"


def case_continued() -> None:
    """A conversation goes on."""
    llm("-m", "casework", "one")
    assert llm("-c", "two") == "You said: two"
    assert [m["role"] for m in last_request()["messages"]] == ["user", "assistant", "user"]


def case_schema() -> None:
    """An answer follows a schema."""
    told = llm("-m", "casework", "--no-stream", "--schema", "name, age int", "a dog")
    assert json.loads(told) == {"name": "text", "age": 1}


def case_tools() -> None:
    """A tool is called, and its result is answered."""
    told = llm("-m", "casework", "-T", "llm_version", "say llm_version")
    assert "The tool said: " in told


if __name__ == "__main__":
    run_cases(globals())
