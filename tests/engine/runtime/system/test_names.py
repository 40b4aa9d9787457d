"""Only the place for the system names what Linux alone has, and asks which system it runs on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.other_system import ASKS, C_OF_LINUX, LINUX_ONLY, is_linux_only

ROOT = Path(__file__).parents[4]
PRODUCT = (
    "acp_adapter",
    "conformance",
    "engine",
    "mcp_tools",
    "session_page",
    "rewindow_pytest.py",
    "rewindow_startup.py",
)
JUDGE = "conformance/peers/process.py"
"""Shares nothing with the engine, and adopts orphans on Linux."""
ALONE = {"engine/runtime/page_child.py", "engine/runtime/system_keyring_child.py"}
"""Scripts that import nothing of the engine, and end with their parents on Linux."""
KNOWN = ("ctypes", "kernel", "os")
"""What is no library: the place for the system itself, and what the other rule judges."""


def _modules() -> Iterator[str]:
    for name in PRODUCT:
        found = ROOT / name
        yield from (
            str(each.relative_to(ROOT)) for each in (sorted(found.rglob("*.py")) if found.is_dir() else [found])
        )


def _named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The modules and names of each attribute of a module and each name imported from one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def _of_libraries(tree: ast.Module) -> Iterator[str]:
    """The functions of C libraries that a module may call: attributes, and names that it gets by their words."""
    imports = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    for node in ast.walk(tree) if "ctypes" in imports else ():
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in KNOWN):
            yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            yield from (
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def _forbidden(source: str) -> list[str]:
    tree = ast.parse(source)
    names = [
        f"{module}.{name}"
        for module, name in _named(tree)
        if (module, name) == ("sys", "platform") or is_linux_only(module, name)
    ]
    return [*names, *(name for name in _of_libraries(tree) if name in C_OF_LINUX)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os\nos.pidfd_open(1)", ["os.pidfd_open"]),
        ("from os import O_PATH, O_RDONLY", ["os.O_PATH"]),
        ("import select\nselect.EPOLLIN | select.POLLIN", ["select.EPOLLIN"]),
        ("import sys\nsys.platform", ["sys.platform"]),
        ("import os\nos.open('a', os.O_RDONLY | os.O_DIRECTORY)", []),
        ("import socket\nsocket.SOCK_SEQPACKET", ["socket.SOCK_SEQPACKET"]),
        ("import os\nos.sched_setaffinity(0, {0})", ["os.sched_setaffinity"]),
        ("import ctypes\nctypes.CDLL(None).prctl(1, 9)", ["prctl"]),
        ("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.statx", ["statx"]),
        ("import ctypes\ngetattr(ctypes.CDLL(None), 'renameat2', None)", ["renameat2"]),
        ("import ctypes\nfrom ..system import kernel\nkernel.prctl(4, 1)", []),
    ],
)
def test_the_rule_sees_names(source: str, found: list[str]) -> None:
    assert _forbidden(source) == found


def test_only_the_place_for_the_system_knows_the_system() -> None:
    allowed = {f"{name.replace('.', '/')}.py" for name in ASKS} | {JUDGE} | ALONE
    found = {path: names for path in _modules() if (names := _forbidden((ROOT / path).read_text()))}
    assert found.keys() == allowed
    assert found[JUDGE] == ["sys.platform", "prctl"]
    assert [found[each] for each in ALONE] == [["prctl"]] * len(ALONE)


def test_only_one_function_syncs_files() -> None:
    """Because `os.fsync` does not reach the disk on macOS."""
    syncs = {("os", "fsync"), ("os", "fdatasync")}
    found = [path for path in _modules() if syncs & set(_named(ast.parse((ROOT / path).read_text())))]
    assert found == ["engine/core/durable.py"]


def test_the_names_are_those_that_linux_has() -> None:
    for module, names in LINUX_ONLY.items():
        present = vars(__import__(module))
        for name in names:
            assert any(fnmatchcase(each, name) for each in present), name
