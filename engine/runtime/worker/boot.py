"""The script file that the zygote process is started with: `python -s -P boot.py SOCKET BRAND BRAND THREAD`.

Loads the package directory this file lies in under the private name `_rewindow`, so that a project's own `engine` stays
importable in statements, and starts the zygote. Must import nothing but what that takes.
"""

from __future__ import annotations

import gc
import importlib.util
import select
import sys
from pathlib import Path

PRIVATE_NAME = "_rewindow"
IDLE_SECONDS = 1.0
"""Without a record, before what dead hosts left behind is ended: nobody waits then."""


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
    """Becomes the zygote. Arguments: fork socket, both values of the brand, 1 where the host's thread outlives us."""
    forks, soft, hard, with_thread = map(int, sys.argv[1:])
    # Waits for the host's first record, because the host needs the processors for its own start, or for its end.
    is_idle = not select.select([forks], [], [], IDLE_SECONDS)[0]
    gc.disable()  # because what is loaded stays, and to look through it again and again takes a tenth of the time
    load_package(Path(__file__).resolve().parent.parent.parent)
    # Ahead of all that might bind what it replaces.
    importlib.import_module(f"{PRIVATE_NAME}.runtime.worker.guarding.routes").install()
    if is_idle:
        importlib.import_module(f"{PRIVATE_NAME}.runtime.worker.processes.ending").end_left_behind()
        select.select([forks], [], [])
    zygote = importlib.import_module(f"{PRIVATE_NAME}.runtime.worker.forking.zygote")
    brand = zygote.Brand(soft, hard)
    zygote.main(forks, brand, with_thread == 1, is_idle)


if __name__ == "__main__":
    main()
