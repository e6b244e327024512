"""The house keeps its floors, its doors and its quiet front step."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import casework

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "casework"

GROUND = {"errors", "json_pointer", "strict_json"}

FLOORS: dict[str, set[str]] = {
    "errors": set(),
    "json_pointer": set(),
    "strict_json": set(),
    "config": set(),
    "checkpoints": set(),
    "gateway": {"config"},
    "prompts": {"gateway", "config"},
    "runner": {"gateway", "checkpoints", "config"},
    "facade": {"gateway", "config"},
    "runtime": {"facade", "runner", "prompts", "gateway", "checkpoints", "config"},
}
"""What each floor may import of ours, besides the ground."""

STOREYS = ("line", "run", "http", "views", "cli")
"""The rooms of the top floor from below: none imports one that comes after it."""

PROMPTS_MAY_USE = {"casework.gateway.messages", "casework.config.privacy_profile"}

DOORS: dict[str, set[str]] = {
    "apscheduler": {"runtime/line/clock_ticks.py"},
    "backports": {"gateway/content_encodings.py"},
    "brotli": {"gateway/content_encodings.py"},
    "compression": {"gateway/content_encodings.py"},
    "fastapi": {"facade/app.py"},
    "filelock": {"checkpoints/locks.py"},
    "httptools": {"gateway/http_connection.py"},
    "jsonschema": {"gateway/validation.py"},
    "jsonschema_rs": {"gateway/validation.py"},
    "msgspec": {
        "facade/request_line.py",
        "gateway/chat/json_members.py",
        "gateway/chat/wire_shapes.py",
        "gateway/embeddings/vectors.py",
        "runtime/http/request_log.py",
    },
    "pyarrow": {"runner/parquet_table.py"},
    "pypdf": {"runner/documents/pdf_text.py"},
    "referencing": {"gateway/validation.py"},
    "sqlite3": {"checkpoints/index.py", "runtime/line/line_state.py"},
    "starlette": {"facade/app.py"},
    "tomli": {"config/toml_document.py"},
    "uvicorn": {"runtime/http/client_connection.py", "runtime/http/server.py"},
    "uvloop": {"runtime/http/server.py"},
    "xllamacpp": {"gateway/providers/llamacpp.py"},
}
"""Files in which a library may be imported; everybody else asks there."""

TOP_ONLY = {"typer", "rich", "click", "fastapi", "uvicorn", "apscheduler", "signal"}
"""Libraries that only the top floor may import."""

HEAVY = {
    "aiohttp",
    "backports",
    "brotli",
    "fastapi",
    "filelock",
    "httptools",
    "jsonschema",
    "jsonschema_rs",
    "msgspec",
    "playwright",
    "pyarrow",
    "pydantic",
    "pypdf",
    "rich",
    "sqlite3",
    "typer",
    "xllamacpp",
}


def modules() -> dict[str, Path]:
    """Return every module of the package by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path) -> Iterator[str]:
    """Yield every dotted name that a file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def floor_of(module: str) -> str:
    """Return the floor on which a module of ours stands."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def room_of(module: str) -> str:
    """Return the room of the top floor in which a module of ours stands; empty below it."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["casework", "runtime"] and len(parts) > 2 else ""


def test_no_import_runs_up() -> None:
    """Each floor imports only the floors that the design puts below it."""
    broken = [
        f"{name} imports {imported}"
        for name, path in modules().items()
        for imported in imports_of(path)
        if imported.startswith("casework.")
        and floor_of(name)
        and floor_of(imported) not in FLOORS[floor_of(name)] | GROUND | {floor_of(name)}
    ]
    assert broken == []


def test_the_top_floor_has_an_order_too() -> None:
    """What begins rounds knows no run, a run no service, and neither knows who looks or types."""
    broken = [
        f"{name} imports {imported}"
        for name, path in modules().items()
        if (here := room_of(name)) in STOREYS
        for imported in imports_of(path)
        if room_of(imported) in STOREYS[STOREYS.index(here) + 1 :]
    ]
    assert broken == []


def test_prompts_know_only_the_request_types() -> None:
    """The prompts floor takes from the gateway its request types and nothing that acts."""
    taken = {
        imported
        for name, path in modules().items()
        if floor_of(name) == "prompts"
        for imported in imports_of(path)
        if imported.startswith(("casework.gateway", "casework.config"))
        and imported in modules()
        and modules()[imported].name != "__init__.py"
    }
    assert taken <= PROMPTS_MAY_USE


def test_there_is_no_circle() -> None:
    """No module reaches itself through its imports."""
    known = modules()
    edges = {
        name: {other for other in imports_of(path) if other in known and other != name}
        for name, path in known.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in sorted(edges[name]):
                visit(other, (*trail, name))
            done.add(name)

    for name in known:
        visit(name, ())
    assert set(known) == done


def test_each_library_has_one_door() -> None:
    """A library with a door is imported there and nowhere else."""
    strays = [
        f"{path.relative_to(PACKAGE)} imports {imported}"
        for path in modules().values()
        for imported in imports_of(path)
        for library in [imported.split(".")[0]]
        if library in DOORS and path.relative_to(PACKAGE).as_posix() not in DOORS[library]
    ]
    assert strays == []


def test_every_door_exists() -> None:
    """A door named here is a file that does import its library."""
    missing = [
        f"{door} does not import {library}"
        for library, doors in DOORS.items()
        for door in doors
        if library not in {name.split(".")[0] for name in imports_of(PACKAGE / door)}
    ]
    assert missing == []


def test_only_the_top_floor_talks_to_people_and_processes() -> None:
    """Terminal, server, scheduler and signal libraries stay in runtime (or the facade's own)."""
    strays = [
        f"{name} imports {imported}"
        for name, path in modules().items()
        if floor_of(name) not in {"runtime", "facade"}
        for imported in imports_of(path)
        if imported.split(".")[0] in TOP_ONLY
    ]
    assert strays == []


def test_importing_casework_starts_nothing_and_loads_nothing_heavy() -> None:
    """``import casework`` loads no server, no extra and no client library."""
    code = (
        "import sys, threading, casework;"
        f"print(sorted({HEAVY!r} & set(sys.modules)), threading.active_count())"
    )
    assert "[] 1" == _child(code)


def test_importing_casework_takes_under_150_ms_of_cpu() -> None:
    """The bar of the first import is CPU time, the smallest of three children."""
    code = "import time; a = time.process_time(); import casework; print(time.process_time() - a)"
    assert 0.150 > min(float(_child(code)) for _ in range(3))


def test_the_public_face_holds_what_it_lists() -> None:
    """Every name in ``__all__`` can be taken from the package, and nothing unlisted is lazy."""
    assert sorted(casework.__all__) == casework.__all__
    missing = [name for name in casework.__all__ if not hasattr(casework, name)]
    assert missing == []


def _child(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.strip()
