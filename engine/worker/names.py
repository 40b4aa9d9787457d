"""The names injected into every namespace: the nodes' functions, `ls`, `read`, and `restore_names`.

Owns which names there are and notices when a statement rebinds them. Must not know how an effect is performed. Built
by `main`; `namespace` leaves these names out of its diffs.
"""

from __future__ import annotations

from collections.abc import Callable

from .board import Board

Ask = Callable[[str, dict[str, object]], object]


class Listing(str):
    """Text that displays as it is, not as a quoted literal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class InjectedNames:
    """What is injected, and into which namespace."""

    def __init__(self, board: Board, ask: Ask, namespace: dict[str, object]) -> None:
        self._namespace = namespace
        self._rebound: set[str] = set()

        def ls(path: str | None = None) -> object:
            """Without a path: the handles there are. With one: the directory's listing."""
            if path is None:
                return board.ls()
            found = ask("ls", {"path": str(path)})
            return Listing(found) if isinstance(found, str) else found

        def read(path: str, start_line: int | None = None, end_line: int | None = None) -> object:
            """The file's text, or its lines from `start_line` to `end_line`, both counted from 1 and included."""
            return ask("read", {"path": str(path), "start_line": start_line, "end_line": end_line})

        def restore_names() -> None:
            """Gives injected names that were rebound or deleted their meaning back."""
            self.restore()

        self.originals: dict[str, object] = {
            **board.names(),
            "ls": ls,
            "read": read,
            "restore_names": restore_names,
        }
        self.restore()

    def restore(self) -> None:
        self._namespace.update(self.originals)
        self._rebound.clear()

    def newly_rebound(self) -> tuple[str, ...]:
        """Names that were rebound or deleted since the last time this was asked, sorted."""
        now = {name for name, value in self.originals.items() if self._namespace.get(name, self) is not value}
        fresh = tuple(sorted(now - self._rebound))
        self._rebound = now
        return fresh
