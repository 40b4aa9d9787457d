"""The script that starts the zygote: `python -S -s -P boot.py SOCKET BRAND BRAND THREAD PREFIX EXEC_PREFIX PATH...`.

Python does not look for `.pth` files and `sitecustomize` (`-S`), because statements may write where these are found,
and the zygote starts again in mid-session if it dies. So it is given the import path, and does the rest of `site`.
Loads this file's package under the private name `_rewindow`, so that statements can import a project's own `engine`.
Must import only what it needs for that.
"""

from __future__ import annotations

import gc
import importlib.util
import select
import site  # does nothing by itself
import sys
from pathlib import Path

PRIVATE_NAME = "_rewindow"
CONTINUES = 2
"""The argument THREAD if this is not the zygote but a worker of it, which was started again (`forking.child`)."""
IDLE_SECONDS = 1.0
"""After this time without a record, leftovers of dead hosts are ended, because nobody waits then."""


def load_package(directory: Path) -> None:
    """Make the package in `directory` importable as `_rewindow`, whatever the directory's name."""
    spec = importlib.util.spec_from_file_location(
        PRIVATE_NAME, directory / "__init__.py", submodule_search_locations=[str(directory)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package at {directory}")
    package = importlib.util.module_from_spec(spec)
    sys.modules[PRIVATE_NAME] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Become the zygote.

    Arguments: the fork socket, both values of the brand, 1 if the host's thread outlives it, and the host's prefixes
    and import path. A worker gets the descriptor of its request instead of the fork socket.
    """
    forks, soft, hard, with_thread = map(int, sys.argv[1:5])
    sys.prefix, sys.exec_prefix, *sys.path[:] = sys.argv[5:]
    site.PREFIXES[:] = sys.prefix, sys.exec_prefix
    continues = with_thread == CONTINUES
    # Wait for the host's first record, because the host needs the processors for its own start, or for its end.
    is_idle = not continues and not select.select([forks], [], [], IDLE_SECONDS)[0]
    for give_builtins in (site.setquit, site.setcopyright, site.sethelper):
        give_builtins()
    gc.disable()  # because loaded modules stay, and collections would take a tenth of the time
    load_package(Path(__file__).resolve().parent.parent.parent)
    # Before any module that could bind the replaced functions.
    importlib.import_module(f"{PRIVATE_NAME}.runtime.worker.guarding.routes").install()
    if continues:
        importlib.import_module(f"{PRIVATE_NAME}.runtime.worker.forking.child").continue_worker(forks)
    if is_idle:
        importlib.import_module(f"{PRIVATE_NAME}.runtime.worker.processes.ending").end_left_behind()
        select.select([forks], [], [])
    zygote = importlib.import_module(f"{PRIVATE_NAME}.runtime.worker.forking.zygote")
    brand = zygote.Brand(soft, hard)
    zygote.main(forks, brand, with_thread == 1, is_idle)


if __name__ == "__main__":
    main()
