"""A namespace whose statements are watched as the executor does it, without a worker."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any

from engine.core.execution import NamespaceDiff
from engine.runtime.worker.namespace import NamespaceWatch


class Space:
    """`names` is what statements see, `watch` what is told of them."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "view": print}
        self.watch = NamespaceWatch(self.names, ("view",))

    def run(self, source: str) -> NamespaceDiff:
        """Runs one statement. Raises what it raises, and KeyboardInterrupt where the examination was interrupted."""
        tree = ast.parse(source)
        self.watch.before(tree)
        exec(compile(tree, "<statement>", "exec"), self.names)
        return self.watch.after()

    def run_to_its_end(self, source: str) -> NamespaceDiff:
        """Runs one statement, which may end with an exception."""
        tree = ast.parse(source)
        self.watch.before(tree)
        with suppress(Exception):
            exec(compile(tree, "<statement>", "exec"), self.names)
        return self.watch.after()
