"""The gateways beside each other, each as a process of its own on one core."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[1]
CASEWORK = str(Path(sys.executable).with_name("casework"))
CLIENT_KEY_LABEL = "bench"
START_SECONDS = 90.0
LOOK_SECONDS = 0.005
TICK = os.sysconf("SC_CLK_TCK")
PROVIDER = """
[[providers]]
id = "{name}"
adapter = "openai_compatible"
class = "local"
base_url = "http://127.0.0.1:{port}/v1"
model = "m"
api_key_env = "BENCH_UPSTREAM_KEY"
"""
SETTINGS = """
privacy_profile = "local_only"

[serve]
request_log = true

[models.aliases]
"""
LITELLM = """
general_settings:
  master_key: sk-bench
model_list:
"""
LITELLM_MODEL = """
  - model_name: {alias}
    litellm_params:
      model: openai/m
      api_base: http://127.0.0.1:{port}/v1
      api_key: sk-upstream
"""


@dataclass(frozen=True, slots=True)
class Cores:
    """Where the gateway runs, and where all else does; the same where there is but one."""

    gateway: int
    others: int

    @classmethod
    def found(cls) -> Cores:
        """Take the first two."""
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores[0], cores[1 % len(cores)])


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the upstream listens, and where nobody does."""

    fast: int
    second: int
    paced: int
    closed: int

    @classmethod
    def free(cls) -> Ports:
        """Take free ones."""
        return cls(*free_ports(4))


@dataclass(frozen=True, slots=True)
class Gateway:
    """One way to the upstream."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    fast_path: str = "/v1/chat/completions"
    paced_path: str = "/v1/chat/completions"
    paced_port: int | None = None
    """Where paced streams are asked for, if not at the same port."""
    headers: Mapping[str, str] = field(default_factory=dict)
    start_seconds: Sequence[float] = ()
    fails_over: bool = False
    """Whether it is measured with a dead provider, or beside one that is."""


def free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def running(
    command: Sequence[str], core: int | None, *, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until the block ends, on one core if one is named."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ours if core is None else {core})
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL
        )
    finally:
        os.sched_setaffinity(0, ours)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str) -> float:
    """Return after how many seconds a path is first answered with 200.

    Raises:
        RuntimeError: The process ended, or it took too long.
    """
    begun = time.perf_counter()
    while process.poll() is None and time.perf_counter() - begun < START_SECONDS:
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return time.perf_counter() - begun
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"no answer at {path}")


async def is_ready(port: int) -> bool:
    """Tell whether a service is ready, as it says itself."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(b"GET /readyz HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
    reply = await reader.read()
    writer.close()
    return reply.startswith(b"HTTP/1.1 200")


def upstream_command(*ports: str) -> list[str]:
    """Return what starts a mock provider on some ports."""
    return [sys.executable, "-m", "bench.gateway_upstream", *ports]


@contextmanager
def upstream(ports: Ports, core: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a mock provider."""
    command = upstream_command(str(ports.fast), str(ports.second), f"{ports.paced}:gap_ms=20")
    with running(command, core) as process:
        wait_until_ready(process, ports.paced, "/v1/models")
        yield process


@contextmanager
def direct(cores: Cores) -> Iterator[Gateway]:
    """Run the upstream where the gateways run, so that all have the same way between the cores."""
    ports = Ports.free()
    with upstream(ports, cores.gateway) as process:
        yield Gateway("direct", ports.fast, process, paced_port=ports.paced, fails_over=True)


@contextmanager
def bare(ports: Ports, cores: Cores, *, starts: int) -> Iterator[Gateway]:
    """Run the pass-through."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "bench.gateway_bare", str(port)]
    with started(command, cores, port=port, path="/readyz", starts=starts) as (process, seconds):
        yield Gateway(
            "Starlette + aiohttp",
            port,
            process,
            fast_path=f"/{ports.fast}/v1/chat/completions",
            paced_path=f"/{ports.paced}/v1/chat/completions",
            start_seconds=seconds,
        )


@contextmanager
def casework(ports: Ports, cores: Cores, folder: Path, *, starts: int) -> Iterator[Gateway]:
    """Run ``casework serve`` with a client key, a profile, breakers and the request log."""
    project, (port,) = folder / "project", free_ports(1)
    names = {"fast": ports.fast, "second": ports.second, "paced": ports.paced, "gone": ports.closed}
    aliases = {
        "bench": ["fast"],
        "paced": ["paced"],
        "dead": ["gone", "fast", "second"],
    }
    key = make_project(project, names, aliases)
    command = [CASEWORK, "serve", "--quiet", "--project", str(project), "--port", str(port)]
    env = {"BENCH_UPSTREAM_KEY": "sk-upstream"}
    with started(command, cores, port=port, path="/readyz", starts=starts, env=env) as ready:
        yield Gateway(
            "casework",
            port,
            ready[0],
            headers={"authorization": f"Bearer {key}"},
            start_seconds=ready[1],
            fails_over=True,
        )


def make_project(
    project: Path, providers: Mapping[str, int], aliases: Mapping[str, Sequence[str]]
) -> str:
    """Make a project with providers on ports of this machine; return a key for its clients."""
    (project / "config").mkdir(parents=True)
    named = "".join(f'"{name}" = {json.dumps(list(of))}\n' for name, of in aliases.items())
    listed = "".join(PROVIDER.format(name=name, port=port) for name, port in providers.items())
    (project / "config" / "llm.local.toml").write_text(SETTINGS + named + listed)
    limits = ["--profile", "local_only", "--max-concurrency", "1000"]
    made = subprocess.run(
        [CASEWORK, "keys", "create", CLIENT_KEY_LABEL, *limits, "--json"],
        cwd=project,
        check=True,
        capture_output=True,
    )
    return str(json.loads(made.stdout)["key"])


@contextmanager
def litellm(program: Path, ports: Ports, cores: Cores, folder: Path) -> Iterator[Gateway]:
    """Run the LiteLLM proxy with its master key."""
    (port,) = free_ports(1)
    path = folder / "litellm.yaml"
    models = {"bench": ports.fast, "paced": ports.paced}
    listed = [LITELLM_MODEL.format(alias=alias, port=its) for alias, its in models.items()]
    path.write_text(LITELLM + "".join(listed))
    command = [str(program), "--config", str(path), "--host", HOST, "--port", str(port)]
    env = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    at = "/health/readiness"
    with started(command, cores, port=port, path=at, starts=1, env=env) as (process, seconds):
        headers = {"authorization": "Bearer sk-bench"}
        yield Gateway("LiteLLM proxy", port, process, headers=headers, start_seconds=seconds)


@contextmanager
def started(
    command: Sequence[str],
    cores: Cores,
    *,
    port: int,
    path: str,
    starts: int,
    env: Mapping[str, str] | None = None,
) -> Iterator[tuple[subprocess.Popen[bytes], list[float]]]:
    """Start a gateway several times, and keep the last; tell how long each start took."""
    seconds = []
    for _ in range(starts - 1):
        with running(command, cores.gateway, env=env) as process:
            seconds.append(wait_until_ready(process, port, path))
    with running(command, cores.gateway, env=env) as process:
        seconds.append(wait_until_ready(process, port, path))
        yield process, seconds


def tree(pid: int) -> Iterator[int]:
    """Yield a process and all that it started."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            yield from tree(int(child))


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process and its children have used."""
    ticks = 0
    for one in tree(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICK


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process and its children."""
    kib = 0
    for one in tree(pid):
        lines = Path(f"/proc/{one}/status").read_text().splitlines()
        kib += int(next(line for line in lines if line.startswith("VmRSS")).split()[1])
    return kib / 1024
