"""Only the place for the system names what Linux alone has, and asks which system it runs on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.other_system import ASKS, LINUX_ONLY, is_linux_only

ROOT = Path(__file__).parents[4]
PRODUCT = ("acp_adapter", "conformance", "engine", "mcp_tools", "rewindow_pytest.py", "rewindow_startup.py")
JUDGE = "conformance/peers/process.py"
"""Shares nothing with the engine, and adopts orphans on Linux."""


def _modules() -> Iterator[str]:
    for name in PRODUCT:
        found = ROOT / name
        yield from (
            str(each.relative_to(ROOT)) for each in (sorted(found.rglob("*.py")) if found.is_dir() else [found])
        )


def _named(source: str) -> Iterator[tuple[str, str]]:
    """The modules and names of each attribute of a module and each name imported from one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def _forbidden(source: str) -> list[str]:
    return [
        f"{module}.{name}"
        for module, name in _named(source)
        if (module, name) == ("sys", "platform") or is_linux_only(module, name)
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os\nos.pidfd_open(1)", ["os.pidfd_open"]),
        ("from os import O_PATH, O_RDONLY", ["os.O_PATH"]),
        ("import select\nselect.EPOLLIN | select.POLLIN", ["select.EPOLLIN"]),
        ("import sys\nsys.platform", ["sys.platform"]),
        ("import os\nos.open('a', os.O_RDONLY)", []),
    ],
)
def test_the_rule_sees_names(source: str, found: list[str]) -> None:
    assert _forbidden(source) == found


def test_only_the_place_for_the_system_knows_the_system() -> None:
    allowed = {f"{name.replace('.', '/')}.py" for name in ASKS} | {JUDGE}
    found = {path: names for path in _modules() if (names := _forbidden((ROOT / path).read_text()))}
    assert found.keys() == allowed
    assert found[JUDGE] == ["sys.platform"]


def test_only_one_function_syncs_files() -> None:
    """Because `os.fsync` does not reach the disk on macOS."""
    syncs = {("os", "fsync"), ("os", "fdatasync")}
    found = [path for path in _modules() if syncs & set(_named((ROOT / path).read_text()))]
    assert found == ["engine/core/durable.py"]


def test_the_names_are_those_that_linux_has() -> None:
    for module, names in LINUX_ONLY.items():
        present = vars(__import__(module))
        for name in names:
            assert any(each.startswith(name) if name.isupper() else each == name for each in present), name
