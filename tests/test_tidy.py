"""Style is a test: sizes, names, docstrings and documents fail the build when they drift."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import typer.main

from casework.config.gateway_config import GatewayConfig
from casework.runtime.cli.command_line import app

ROOT = Path(__file__).resolve().parent.parent

FILE_LINES_MAX = 500
ADAPTER_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
PARAMETERS_MAX = 5
POSITIONAL_MAX = 2
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "core", "misc", "base"}
DOCUMENTS = ("README.md", "CHANGELOG.md", "docs")


def tracked() -> list[Path]:
    """Return every file that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def python_files(*folders: str) -> list[Path]:
    """Return the tracked Python files below some folders."""
    return [
        path
        for path in tracked()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders
    ]


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[tuple[Function, bool]]:
    """Yield every function of a file and whether it is a method."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    methods = {
        id(item) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for item in node.body
    }
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node, id(node) in methods


def test_no_file_outgrows_its_limit() -> None:
    """A file stays under 500 lines; an adapter may reach 600."""
    long = [
        f"{path.relative_to(ROOT)}: {lines}"
        for path in python_files("casework", "tests", "bench")
        for lines in [len(path.read_text(encoding="utf-8").splitlines())]
        if lines > (ADAPTER_LINES_MAX if path.parent.name == "providers" else FILE_LINES_MAX)
    ]
    assert long == []


def test_no_function_outgrows_its_limit() -> None:
    """A function stays within 60 lines."""
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1}"
        for path in python_files("casework", "tests", "bench")
        for node, _ in functions(path)
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_parameters_stay_few_and_named() -> None:
    """Public functions take at most two positional parameters, and few altogether.

    Command-line verbs are exempt: their parameters are the options of ``--help``.
    """
    wide = []
    for path in python_files("casework"):
        if "cli" in path.parts:
            continue
        for node, is_method in functions(path):
            if node.name.startswith("__") and node.name != "__init__":
                continue
            positional = len(node.args.args) - (1 if is_method and not _is_static(node) else 0)
            named = len(node.args.kwonlyargs)
            if positional > POSITIONAL_MAX + 1 or positional + named > PARAMETERS_MAX + 2:
                wide.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert wide == []


def _is_static(node: Function) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)


def test_no_name_says_nothing() -> None:
    """No module or folder is called utils, helpers, common, manager or core."""
    empty = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if EMPTY_NAMES & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
    ]
    assert empty == []


def test_every_test_says_what_it_holds() -> None:
    """Each test has a docstring of one sentence, and asserts or expects a refusal."""
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in python_files("tests")
        for node, _ in functions(path)
        if node.name.startswith("test_") and (not ast.get_docstring(node) or not _can_fail(node))
    ]
    assert silent == []


def _can_fail(test: Function) -> bool:
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Attribute) and node.attr == "raises")
        or (isinstance(node, ast.Call) and _called(node).startswith(("assert_", "check_")))
        for node in ast.walk(test)
    )


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def test_no_test_sleeps() -> None:
    """Tests wait for events, never for time."""
    sleepers = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"time.sleep", "asyncio.sleep", "sleep"}
        and ast.unparse(node) != "asyncio.sleep(0)"
    ]
    assert sleepers == []


def test_every_setting_is_documented() -> None:
    """``docs/configuration.md`` names each setting that the configuration reads."""
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    schema = GatewayConfig.settings_schema()
    names = set(schema["properties"])
    for definition in schema.get("$defs", {}).values():
        names |= set(definition.get("properties", {}))
    assert [] == sorted(name for name in names if f"`{name}`" not in text)


def test_every_verb_and_option_is_documented() -> None:
    """``docs/operations.md`` names each verb of the command line with its options."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    missing = [
        word
        for path, options in _verbs(typer.main.get_command(app))
        for word in (f"casework {path}", *options)
        if word not in text
    ]
    assert missing == []


def _verbs(command: object, trail: str = "") -> Iterator[tuple[str, list[str]]]:
    children: dict[str, object] = getattr(command, "commands", {})
    for name, child in sorted(children.items()):
        path = f"{trail} {name}".strip()
        if getattr(child, "commands", None):
            yield from _verbs(child, path)
            continue
        options = [
            max(parameter.opts, key=len)
            for parameter in getattr(child, "params", [])
            if parameter.param_type_name == "option" and not parameter.hidden
        ]
        yield path, [o for o in options if o not in {"--help", "--json"}]


def test_documents_and_code_name_no_machine_of_ours() -> None:
    """No tracked text holds a developer's path or a registry's address."""
    marks = re.compile(r"/work/|/root/|/home/[a-z]+/|pypi\.org|registry\.npmjs", re.IGNORECASE)
    named = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.suffix in {".py", ".md", ".toml", ".txt", ".lock", ".yml", ""}
        and path != Path(__file__).resolve()
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if marks.search(line)
    ]
    assert named == []


def test_links_between_documents_lead_somewhere() -> None:
    """Each relative link in a document names a file that exists."""
    pages = [
        path
        for path in tracked()
        if path.suffix == ".md" and path.relative_to(ROOT).parts[0] in DOCUMENTS
    ]
    dead = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert dead == []
    assert pages != []
