"""Nothing but redacted text comes out of a worker: what holds that is seen to fail where code goes around it.

Of a worker the host has bytes alone. `worker_messages` and `capture` make text of them, and redact it; contracts keep
the bytes away from all others, and the types of both ask for a redactor. Adapters see neither, and what they send
passes one encoder (ACP), one middleware (MCP) or a stream without secrets (the commands).
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.node import command
from tests.support.stores import ROOT

SECONDS: Final = 240
PACKAGES: Final = ("acp_adapter", "conformance", "engine", "mcp_tools")


def trees(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    """Each module of the packages, by its path from the root."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def imported(tree: ast.Module, module: str) -> set[str]:
    """The names that are imported from a module, which may be named relatively."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in nodes if (node.module or "").endswith(module) for alias in node.names}


# --- contracts --------------------------------------------------------------------------------------------------------

PLANTED: Final = {
    "acp_adapter.v1.planted": "engine.runtime.worker.framing",
    "mcp_tools.tools.planted": "engine.runtime.control_channel",
    "mcp_tools.planted": "engine.runtime.connection",
    "engine.cli.planted": "engine.runtime.worker.protocol",
    "engine.cli.terminal.planted": "engine.runtime.connection",
    "engine.cli.transfer.planted": "engine.runtime.connection",
    "engine.context.models.planted": "engine.core.programs",
    "engine.session.planted": "engine.runtime.statement_run",
    "engine.session.commands.planted": "engine.runtime.control_channel",
    "engine.session.past.planted": "engine.core.programs",
    "engine.log.store.planted": "engine.runtime.worker.framing",
    "engine.session.tools.planted": "engine.runtime.control_channel",
}
"""Modules that take what a worker sent from where it is not redacted yet."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copied")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@pytest.mark.slow
def test_a_module_that_takes_a_workers_bytes_breaks_a_contract(copied: Path) -> None:
    for name, source in PLANTED.items():
        (copied / f"{name.replace('.', '/')}.py").write_text(f'"""Planted."""\nimport {source}\n')
    linter = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(linter, cwd=copied, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    assert [name for name, source in PLANTED.items() if f"{name} -> {source}" not in told] == []


WRONG: Final = """\
from engine import Store
from engine.runtime.environment import EnvironmentSpec
from engine.runtime.connection import Capture
from engine.runtime.control_channel import MessageReader
from mcp_tools.server import Service

def wrong(store: Store, data: bytes) -> None:
    MessageReader()
    Capture()
    EnvironmentSpec(cwd="/")
    Service()
    store.blob_put(data)
"""


@pytest.mark.slow
def test_what_is_not_redacted_does_not_type_check(copied: Path) -> None:
    (copied / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [*command("pyright", "index.js"), "--outputjson", "--pythonpath", sys.executable, "wrong.py"],
        cwd=copied, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    found: set[int] = {each["range"]["start"]["line"] for each in json.loads(done.stdout)["generalDiagnostics"]}
    lines = WRONG.splitlines()
    assert {lines[line].strip() for line in found} == {line.strip() for line in lines if line.startswith("    ")}


# --- the rooms themselves ---------------------------------------------------------------------------------------------

DECODING: Final = {"decode", "decoder_of"}
READS: Final = "engine/runtime/control_channel.py"


def test_one_module_of_the_host_decodes_what_a_worker_sends() -> None:
    host = [(path, tree) for path, tree in trees("engine/runtime") if not path.startswith("engine/runtime/worker/")]
    assert {path for path, tree in host if imported(tree, "worker.framing") & DECODING} == {READS}
    assert {path for path, tree in host if "msgpack" in ast.unparse(tree)} == {READS}


# --- the adapters -----------------------------------------------------------------------------------------------------

RAW: Final = ("runtime.environment", "log.past", "core.programs", "log.statements")
"""Modules of the engine whose types contain raw data from a worker or a program."""
WRITES: Final = {"acp_adapter/jsonrpc/stdio.py", "mcp_tools/cli.py"}
"""Where adapters take standard output: the transport below the one encoder, and a configuration that is printed."""


def test_adapters_take_nothing_exact_from_the_face_of_the_engine() -> None:
    face = ast.parse((ROOT / "engine/__init__.pyi").read_text())
    raw = {name for module in RAW for name in imported(face, module) if name[0].isupper()} | {"Store"}
    assert raw == {"Environment", "Store"}
    adapters = list(trees("acp_adapter", "mcp_tools"))
    assert {path: found for path, tree in adapters if (found := imported(tree, "engine") & raw)} == {}
    whole = [path for path, tree in adapters if "import engine\n" in ast.unparse(tree) + "\n"]
    assert whole == [], "all of the face, whose names nobody sees here"


def test_adapters_write_to_standard_output_in_two_places() -> None:
    def writes(node: ast.AST) -> bool:
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "__stdout__" | "__stderr__" | "__stdin__"):
                return True
            case ast.Attribute(value=ast.Name(id="os"), attr="write" | "writev" | "fdopen"):
                return True
            case ast.Call(func=ast.Name(id="print")):
                return True
            case _:
                return False

    found = {path for path, tree in trees("acp_adapter", "mcp_tools") if any(map(writes, ast.walk(tree)))}
    assert found == WRITES
