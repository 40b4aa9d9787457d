"""Cells in a shell of IPython that Kishu follows: it checkpoints after each, and checks out what was there before.

Run as `python kishu_cells.py DIR`; what Kishu keeps is below it. Without a frontend it saves no notebook, which would
only take longer.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter

from serving import serve


def main(directory: str) -> None:
    place = Path(directory)
    place.mkdir(parents=True)
    os.environ["HOME"] = directory

    import nbformat  # type: ignore[import-not-found] -- of the peer's environment, as all below
    from IPython.core.interactiveshell import InteractiveShell  # type: ignore[import-not-found]
    from kishu.jupyterint import KishuForJupyter  # type: ignore[import-not-found]
    from kishu.notebook_id import NotebookId  # type: ignore[import-not-found]
    from kishu.storage.config import Config  # type: ignore[import-not-found]

    Config.set("JUPYTERINT", "test_mode", True)
    notebook = place / "notebook.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), notebook)
    shell = InteractiveShell.instance()
    kishu = KishuForJupyter(NotebookId("bench", notebook, "kernel"), shell)
    kishu.install_kishu_hooks()
    marked = ""

    def run(source: str) -> float:
        start = perf_counter()
        result = shell.run_cell(source, store_history=True)
        took = perf_counter() - start
        result.raise_error()
        return took

    def mark() -> float:
        """Remembers the present commit."""
        nonlocal marked
        marked = kishu._kishu_branch.get_head().commit_id
        return 0.0

    def begin(source: str) -> float:
        """Without what was there before."""
        shell.reset(new_session=False)
        return run(source)

    def checkout(source: str) -> float:
        """Back to that commit, and a cell."""
        start = perf_counter()
        kishu.checkout(marked, skip_notebook=True)
        took = perf_counter() - start
        return took + run(source)

    serve({"begin": begin, "run": run, "statement": run, "mark": mark, "checkout": checkout})


main(sys.argv[1])
