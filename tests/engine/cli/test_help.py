"""`rewindow help` shows the pages of the documentation, and every message names pages that way."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from engine.cli.help import topics
from tests.support.commands import Home
from tests.support.stores import ROOT

SOURCES = [
    path for name in ("engine", "acp_adapter", "mcp_tools", "conformance") for path in (ROOT / name).rglob("*.py")
]


def strings(path: Path) -> list[str]:
    """The texts of a module without its docstrings and the comments."""
    tree = ast.parse(path.read_text("utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return [node.value for node in constants if isinstance(node.value, str)]


def test_a_page_is_printed_whole(empty: Home) -> None:
    done = empty.run("help", "scripts")
    assert (done.returncode, done.stdout) == (0, (ROOT / "docs" / "scripts.md").read_text("utf-8"))


def test_on_a_terminal_a_page_goes_through_the_pager(empty: Home) -> None:
    seen = empty.path / "seen"
    code, shown = empty.run_on_a_terminal("help", "scripts", PAGER=f"cat > {seen}", TERM="xterm")
    assert (code, shown) == (0, b"")
    assert seen.read_text("utf-8") == (ROOT / "docs" / "scripts.md").read_text("utf-8")


def test_the_pages_are_listed_with_their_titles(empty: Home) -> None:
    lines = empty.run("help").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [path.stem for path in sorted((ROOT / "docs").glob("*.md"))]
    assert "In scripts" in next(line for line in lines if line.startswith("scripts "))


@pytest.mark.parametrize(("topic", "said"), [("script", "did you mean scripts"), ("zzz", "`rewindow help`")])
def test_an_unknown_page_is_wrong_usage_and_near_ones_are_named(empty: Home, topic: str, said: str) -> None:
    done = empty.run("help", topic)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


def test_messages_name_pages_by_the_command_that_shows_them() -> None:
    texts = {(path.name, text) for path in SOURCES for text in strings(path)}
    named = {page for _, text in texts for page in re.findall(r"`rewindow help ([a-z-]+)`", text)}
    assert {"configuration", "scripts", "conformance-formats"} <= named <= set(topics())
    by_path = {(name, page) for name, text in texts for page in re.findall(r"docs/([\w-]+)\.md", text)}
    assert {name for name, page in by_path if page in topics()} <= {
        "documents.py"
    }  # which names files of the repository
