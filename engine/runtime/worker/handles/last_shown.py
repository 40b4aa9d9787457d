"""What views have shown of a file that is about to be changed: the host refuses to overwrite what nobody has seen.

The host knows what tools have read and written; which content a view shows is known here alone, and what that was. Used
by `names`, around the tools that change files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from ....core.toolbox import STALE
from ....files.changes import describe
from ....files.revision import Revision
from .board import Board

_MOST_CHARS = 2_000


class LastShown:
    """The content that each file's views show. `board` has the views."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def ask_to_change(self, ask: Callable[[str, dict[str, object], str | None], object]) -> Callable[..., object]:
        """`ask`, for tools with a path, with what a view has shown there; its refusals say what differs from that."""

        def asking(operation: str, arguments: dict[str, object], _: str | None = None) -> object:
            shown = self.revision(arguments.get("path"))
            try:
                return ask(operation, arguments, shown.digest if shown else None)
            except OSError as error:
                if shown is None or STALE not in str(error) or "\n" in str(error):
                    raise
                difference = self._difference(shown, arguments)
                raise type(error)(f"{error}. {difference}" if difference else str(error)) from None

        return asking

    def revision(self, path: object) -> Revision | None:
        """What a view shows of the file at that path: the one that is as the file is now, else the newest view's."""
        place = self._place(path)
        if place is None:
            return None
        views = [view for view in self._board.views() if view.path and os.path.realpath(view.path) == place]
        # A text that was given to a view is not the file's, and neither is what stands for one that cannot be read.
        shown = [view.revision for view in views if view.revision.digest and view.revision.encoding != "text"]
        if len({revision.digest for revision in shown}) > 1:
            now = self._board.content(place).digest
            shown.sort(key=lambda revision: revision.digest == now)
        return shown[-1] if shown else None

    def _place(self, path: object) -> str | None:
        if not isinstance(path, str):
            return None  # the host says what is wrong with it
        with suppress(ValueError, OSError):
            return os.path.realpath(os.path.join(self._board.cwd, os.path.expanduser(path)))
        return None

    def _difference(self, shown: Revision, arguments: dict[str, object]) -> str:
        place = self._place(arguments["path"])
        assert place is not None
        if shown.state == "paged":
            return ""
        now = self._board.content(place)
        if now.state == "paged":
            return ""
        return describe(str(arguments["path"]), shown.lines, now.lines, len, _MOST_CHARS)[1]
