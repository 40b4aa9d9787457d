"""The script file that the zygote process is started with: `python -s -P boot.py <fork socket> <host pid> <signal>`.

Loads the package directory this file lies in under the private name `_rewindow`, so that a project's own `engine` stays
importable in statements, and starts the zygote. Must import nothing but what that takes.
"""

from __future__ import annotations

import importlib.util
import select
import sys
from pathlib import Path

PRIVATE_NAME = "_rewindow"


def load_package(directory: Path) -> None:
    """Makes the package at `directory` importable as `_rewindow`, whatever its folder is called."""
    spec = importlib.util.spec_from_file_location(
        PRIVATE_NAME, directory / "__init__.py", submodule_search_locations=[str(directory)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package at {directory}")
    package = importlib.util.module_from_spec(spec)
    sys.modules[PRIVATE_NAME] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Becomes the zygote. Arguments: file descriptor, process id of the host, 1 where its thread outlives us."""
    # Waits for the host's first record, because the host needs the processors for its own start, or for its end.
    select.select([int(sys.argv[1])], [], [])
    load_package(Path(__file__).resolve().parent.parent)
    zygote = importlib.import_module(f"{PRIVATE_NAME}.worker.zygote")
    zygote.main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1")


if __name__ == "__main__":
    main()
