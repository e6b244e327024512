"""No secret and no text is told by what stops a command: outages, locks, deaths, disks, errors."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from casework.checkpoints.store import CheckpointStore
from casework.config import GatewayConfig
from casework.errors import ConfigurationError
from casework.gateway.llm_gateway import LLMGateway
from casework.runtime.cli.exit_codes import ExitCode
from tests.contract.privacy.faulty_upstream import faulty_server
from tests.contract.privacy.guarded import SECONDS_MAX, start_guarded
from tests.contract.privacy.marked_project import (
    SECRETS,
    MarkedProject,
    entry,
    every_mark,
    leaked,
)
from tests.contract.privacy.marks import Mark, everything_told, found_in, misplaced
from tests.support.scripted_line import request

OUTAGE: Final = """
privacy_profile = "local_only"
[outage]
enabled = false
[retry]
max_attempts = 2
retry_delay_seconds = 0.0
blocked_retry_seconds = 3600.0
"""


@dataclass(slots=True)
class Story:
    """What was typed when, what was then on the disk, and with which code each line ended."""

    project: MarkedProject
    expected: dict[str, tuple[ExitCode, str]] = field(default_factory=dict)
    """The exit code, and a word that must be said."""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)

    async def type(self, line: str, code: ExitCode, word: str = "", *, when: str = "") -> None:
        """Type a line and note what is expected of it."""
        name = f"{line}  ({when})" if when else line
        await self.project.type(line, told_as=name)
        self.expected[name] = (code, word)

    def photograph(self, moment: str) -> None:
        """Keep everything that Casework has written so far."""
        self.files[moment] = self.project.files()


async def tell(folder: Path) -> Story:
    """Lead one project through everything that stops a run."""
    story = Story(MarkedProject(folder / "project"))
    story.project.ask()
    story.project.add("http-503")
    async with faulty_server() as server:
        here = entry("faulty", f"http://127.0.0.1:{server.port}")
        story.project.configure(OUTAGE + here)
        await _outage(story)
        await _kill(story, server.asked)
        await _lock(story)
        await _conflict(story)
        await _disk(story)
        await _damage(story)
    return story


async def _outage(story: Story) -> None:
    """Every provider is unavailable, until the operation is blocked."""
    await story.type("import cases", ExitCode.SUCCESS)
    await story.type("run --once -v", ExitCode.UNFINISHED, "retry 1")
    await story.type("status --json", ExitCode.SUCCESS, "retry_pending", when="pending")
    await story.type("run --json -v", ExitCode.SOME_WAITING, "LLM_UNAVAILABLE")
    await story.type("inbox list -v", ExitCode.SUCCESS, "LLM_UNAVAILABLE")
    await story.type("inbox release --all -v", ExitCode.UNFINISHED, "not due")
    await story.type("inspect http-503.txt --outcome --round 1", ExitCode.SUCCESS, "http_5xx")
    story.photograph("blocked")


async def _kill(story: Story, asked: asyncio.Event) -> None:
    """A run dies in the middle of a call; the next ones tell of it."""
    story.project.add("stalled")
    await story.type("import cases -v", ExitCode.SUCCESS, when="again")
    asked.clear()
    run, _ = await start_guarded(
        story.project.folder, "casework", "run", "--once", "-v", environ=SECRETS
    )
    async with asyncio.timeout(SECONDS_MAX):
        await asked.wait()
    run.kill()
    stdout, stderr = await run.communicate()
    assert b"" == stdout
    assert [] == [mark for mark in Mark if mark.encode() in stderr]
    story.photograph("killed")
    await story.type("status -v", ExitCode.SUCCESS, "interrupted", when="killed")
    await story.type("status --json", ExitCode.SUCCESS, "may have been seen", when="killed")
    await story.type("doctor -v", ExitCode.SUCCESS, "interrupted", when="killed")
    await story.type("audit --all -v", ExitCode.SUCCESS, "unconfirmed", when="killed")


async def _lock(story: Story) -> None:
    """Another process holds every case."""
    store = CheckpointStore(story.project.folder / "runtime")
    with ExitStack() as held:
        for case_id in ("http-503.txt", "stalled.txt"):
            held.enter_context(store.lock(case_id))
        await story.type("run --once -v", ExitCode.LOCKED, when="locked")
        await story.type("inbox show stalled.txt", ExitCode.SUCCESS, "stalled.txt", when="locked")
        story.project.add("accepted")
        await story.type("import cases -v", ExitCode.SUCCESS, when="locked")


async def _conflict(story: Story) -> None:
    """The question changes under an id that has results."""
    story.project.add("wrong-name")
    await story.type("import cases -v", ExitCode.SUCCESS, when="before the conflict")
    await story.type("run --case accepted.txt -v", ExitCode.SUCCESS, when="before the conflict")
    story.project.ask(f"{Mark.TASK}, more precisely")
    for line in ("run --once -v", "run --once --json --debug"):
        await story.type(line, ExitCode.USAGE, "operation_conflict", when="conflict")
    story.project.ask()


async def _disk(story: Story) -> None:
    """The disk refuses to take the announcement of a round, then everything."""
    runtime = story.project.folder / "runtime"
    inflight = [*(runtime / "inflight").iterdir()]
    for path in inflight:
        path.unlink()
    (runtime / "inflight").rmdir()
    (runtime / "inflight").write_bytes(b"")
    await story.type("run --case wrong-name.txt -v", ExitCode.INTERNAL, "storage", when="disk")
    await story.type("run --case wrong-name.txt --debug", ExitCode.INTERNAL, "", when="disk")
    (runtime / "inflight").unlink()
    story.photograph("refused")


async def _damage(story: Story) -> None:
    """Bytes of an input and of an answer are not what was committed."""
    runtime = story.project.folder / "runtime"
    for part in ("original", "llm"):
        for path in sorted(runtime.glob(f"cases/*/accepted.txt/{part}/**/*")):
            if path.is_file() and path.name != "request.json":
                path.write_bytes(path.read_bytes().replace(b"canary", b"CANARY"))
    await story.type("verify --all -v", ExitCode.INTEGRITY, "accepted.txt", when="damaged")
    await story.type("verify --all --json", ExitCode.INTEGRITY, "findings", when="damaged")
    await story.type("inbox show accepted.txt", ExitCode.INTEGRITY, "integrity", when="damaged")
    await story.type("export -v", ExitCode.INTEGRITY, "integrity", when="damaged")
    await story.type("audit --all --json", ExitCode.INTEGRITY, "accepted.txt", when="damaged")
    await story.type("export --format zip -o z", ExitCode.INTEGRITY, "integrity", when="damaged")
    story.photograph("damaged")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Let everything happen once."""
    return asyncio.run(tell(tmp_path_factory.mktemp("stops")))


def test_everything_went_wrong_as_planned(story: Story) -> None:
    """Each line ended with the code and the word that its mishap calls for."""
    wrong = [
        (line, ended.code, ended.stderr.decode())
        for line, ended in story.project.said.items()
        for code, word in [story.expected[line]]
        if ended.code != code or word.encode() not in ended.stdout + ended.stderr
    ]
    assert [] == wrong


def test_no_mishap_tells_a_secret_or_a_text(story: Story) -> None:
    """Neither stream holds a mark, except the document where a line asks to be shown it."""
    told = {
        line: leaked(ended, [Mark.DOCUMENT] if line.startswith("inbox show") else [])
        for line, ended in story.project.said.items()
    }
    assert {} == {line: leaks for line, leaks in told.items() if leaks}
    assert {Mark.DOCUMENT} == set(
        every_mark(story.project.said["inbox show stalled.txt  (locked)"])
    )


def test_no_mishap_leaves_a_mark_where_it_does_not_belong(story: Story) -> None:
    """Index, intents, logs and packages hold no secret at any of the moments looked at."""
    assert {} == {
        moment: found for moment, files in story.files.items() if (found := misplaced(files))
    }
    intents = [name for name in story.files["killed"] if name.startswith("runtime/inflight/")]
    assert 1 == len(intents)
    assert b"model-of-faulty" in story.files["killed"][intents[0]]
    assert b"LLM_UNAVAILABLE" in story.files["blocked"]["runtime/logs/llm.jsonl"]
    assert b"LLM_UNAVAILABLE" in story.files["blocked"]["runtime/index.sqlite3!/dump"]


ODD_FILES: Final = {
    "broken.jsonl": f'{{"id": "1", "text": "{Mark.DOCUMENT}"\n{{"id": 2}}\n"{Mark.DOCUMENT}"\n',
    "twice.jsonl": f'{{"id": "1", "text": "a", "text": "{Mark.DOCUMENT}"}}\n' * 2,
    "wordless.jsonl": f'{{"id": "3", "body": "{Mark.DOCUMENT}"}}\n',
    "zeros.txt": f"{Mark.DOCUMENT}\0\0{Mark.DOCUMENT}",
    "latin.txt": f"{Mark.DOCUMENT} caf\u00e9",
    "charset.html": f'<meta charset="{Mark.DOCUMENT}"><p>{Mark.DOCUMENT}</p>',
    "scan.txt": f"{Mark.DOCUMENT}" + "\f" * 20,
}


async def test_odd_documents_are_reported_without_their_text(tmp_path: Path) -> None:
    """What an import has to say about broken files names places and codes, not contents."""
    project = MarkedProject(tmp_path / "project")
    (project.folder / "odd").mkdir()
    for name, text in ODD_FILES.items():
        encoding = "latin-1" if name == "latin.txt" else "utf-8"
        (project.folder / "odd" / name).write_text(text, encoding=encoding)
    for line in ("import odd --dry-run --json", "import odd -v", "import odd --format jsonl -v"):
        ended = await project.type(line)
        assert ExitCode.SOME_ERROR == ended.code
        assert b"broken.jsonl" in ended.stdout + ended.stderr
        assert [] == leaked(ended)


BROKEN: Final = {
    "inline": f'api_key = "sk-{Mark.KEY}"',
    "on the left": f'"sk-{Mark.KEY}" = true',
    "as a table": f"[providers.sk-{Mark.KEY}]\na = 1",
    "as a name": f'api_key_env = "sk-{Mark.KEY}"',
    "in a list": f'api_key_env = ["A", "sk-{Mark.KEY}"]',
    "user": f'base_url = "https://me:{Mark.KEY}@host.example/v1"',
    "query": f'base_url = "https://host.example/v1?key={Mark.KEY}"',
    "fragment": f'base_url = "https://host.example/v1#{Mark.KEY}"',
    "path": f'base_url = "https://host.example/sk-{Mark.KEY}/v1"',
    "scheme": f'base_url = "{Mark.ADDRESS}://host.example/v1"',
    "host": f'base_url = "https://{Mark.HOST}_:x/v1"',
    "no end": f'base_url = "https://host.example/v1/{Mark.ADDRESS}"',
    "plain": f'base_url = "http://{Mark.HOST}.example/{Mark.ADDRESS}/v1"',
    "local": f'base_url = "https://{Mark.HOST}.example/{Mark.ADDRESS}/v1"\nclass = "local"',
    "unterminated": f'api_key_env = "{Mark.KEY}',
    "bare": f"api_key_env = sk-{Mark.KEY}",
    "escape": f'file = "C:\\Users\\{Mark.KEY}"',
    "no number": f'timeout_seconds = "{Mark.KEY}"',
    "no flag": f'enabled = "{Mark.KEY}"',
    "no class": f'class = "{Mark.KEY}"',
    "no format": f'response_format = "{Mark.KEY}"',
    "no rate": f'rates = {{ input_per_million = "{Mark.KEY}", output_per_million = 1 }}',
    "control": f'model = "{Mark.KEY}\\u0007"',
    "long": f'model = "{Mark.KEY * 20}"',
}
"""Mistakes in a provider's entry that put a secret into the settings."""

SAID_OF_SETTINGS: Final = {
    "run -v": "on the left",
    "explain --debug": "user",
    "doctor --json": "unterminated",
    "doctor --probe --debug": "inline",
}
"""Lines, and the mistake with which each is typed."""


def settings_with(mistake: str) -> str:
    """Return settings whose one provider has a mistake in its entry."""
    members = {"base_url": '"https://host.example/v1"', "model": '"m"'}
    lines = [f"{name} = {value}" for name, value in members.items() if f"{name} =" not in mistake]
    return "\n".join(
        ('[[providers]]\nid = "p"\nadapter = "openai_compatible"', *lines, mistake, "")
    )


@pytest.mark.parametrize("mistake", BROKEN)
def test_an_error_in_the_settings_repeats_no_value(mistake: str) -> None:
    """A settings error names the place and the way out, and nothing that stands there."""
    with pytest.raises(ConfigurationError) as caught:
        GatewayConfig.parse(settings_with(BROKEN[mistake]))
    assert frozenset() == found_in(everything_told(caught.value))
    assert str(caught.value).startswith("configuration:")


async def test_no_verb_repeats_what_is_wrong_in_the_settings(tmp_path: Path) -> None:
    """The command line keeps the same silence, also with a traceback."""
    project = MarkedProject(tmp_path / "project")
    project.ask()
    project.add("accepted")
    for line, mistake in SAID_OF_SETTINGS.items():
        project.configure(settings_with(BROKEN[mistake]))
        ended = await project.type(line)
        assert ExitCode.USAGE == ended.code
        assert b"llm.local.toml:" in ended.stdout + ended.stderr
        assert [] == leaked(ended)
    assert [] == misplaced(project.files())


@pytest.mark.parametrize(
    "value", [f"Bearer {Mark.KEY}", f"{Mark.KEY}\u00e9", f"{Mark.KEY}\tx", Mark.KEY * 500, " "]
)
async def test_an_unusable_key_is_named_by_its_variable(tmp_path: Path, value: str) -> None:
    """A key that no header can hold is refused before any call, by every verb that needs it."""
    project = MarkedProject(tmp_path / "project")
    project.ask()
    project.add("accepted")
    project.configure(entry("p", "http://127.0.0.1:9"))
    with pytest.raises(ConfigurationError) as caught:
        LLMGateway(
            GatewayConfig.load(project.folder / "config" / "llm.local.toml"),
            environ={"FAULTY_KEY": value},
        ).plan(request())
    assert frozenset() == found_in(everything_told(caught.value))
    assert "FAULTY_KEY" in str(caught.value)
    if value.startswith("Bearer"):
        for line in ("import cases", "doctor -v", "run --debug"):
            ended = await project.type(line, environ={"FAULTY_KEY": value})
            assert [] == leaked(ended)
        assert ExitCode.USAGE == ended.code
        assert b"FAULTY_KEY" in ended.stderr
