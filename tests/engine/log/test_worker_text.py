"""Adapters take no raw data of a worker, and write to standard output in two places."""

from __future__ import annotations

import ast
from functools import cache
from typing import Final

from tests.support.stores import ROOT


@cache
def adapters() -> dict[str, ast.Module]:
    """Each module of the adapters, by its path from the root."""
    paths = [
        path for package in ("acp_adapter", "mcp_tools", "session_page") for path in (ROOT / package).rglob("*.py")
    ]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


def imported(tree: ast.Module, module: str) -> set[str]:
    """The names that are imported from a module, which may be named relatively."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in nodes if (node.module or "").endswith(module) for alias in node.names}


RAW: Final = ("runtime.environment", "log.past", "core.programs", "log.statements")
"""Modules of the engine whose types contain raw data from a worker or a program."""
WRITES: Final = {"acp_adapter/jsonrpc/stdio.py", "acp_adapter/listening/command.py", "mcp_tools/cli.py"}
"""Where adapters take standard output: the transport below the one encoder, and printed tokens and configurations."""


STORED: Final = ("session_page/command.py", "session_page/feed.py", "session_page/server.py")
"""Where the page reads the store; it redacts everything that it reads."""


def test_adapters_import_no_raw_data_of_the_engine() -> None:
    face = ast.parse((ROOT / "engine/__init__.pyi").read_text())
    raw = {name for module in RAW for name in imported(face, module) if name[0].isupper()} | {"Store"}
    assert raw == {"Environment", "Store"}
    found = {path: names for path, tree in adapters().items() if (names := imported(tree, "engine") & raw)}
    assert found == {path: {"Store"} for path in STORED}
    whole = [path for path, tree in adapters().items() if "import engine\n" in ast.unparse(tree) + "\n"]
    assert whole == [], "all of the face, whose names nobody sees here"


def test_adapters_write_to_standard_output_in_three_places() -> None:
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

    found = {path for path, tree in adapters().items() if any(map(writes, ast.walk(tree)))}
    assert found == WRITES
