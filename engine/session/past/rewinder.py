"""Takes a session to another place on its log as a whole: head and namespace (`head`), and files (`rewinding`).

Owns the order in which that happens. What is to be done is durable first; then the files go back, which may be given
up; then, with nothing awaited in between, the head moves, and the command that asked for it and the end of the files
are recorded where it leads. A kill leaves either nothing to be seen of it, or a RewindBegun that says all that is to be
done: `carry_on` does the rest when the session is opened. Must not know commands. Made by `turns`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...files import safe_open
from ...log.event_log import EventLog
from ...log.events.going_back import RewindBegun, Rewound
from ...log.file_history import Restorable
from ..parts import SessionParts
from ..tools import Workspace
from .head import Goal, Head, reach
from .rewinding import FileRewinding


class Gone(NamedTuple):
    """What of the session's files was written since the place where it is now, and what became of it.

    `rewound` is None where they stay as they are, or where there are none.
    """

    written: Restorable
    rewound: Rewound | None


class Rewinder:
    """One session's. `begin_run` has the command that is carried out be on the log."""

    def __init__(self, log: EventLog, head: Head, files: FileRewinding, begin_run: Callable[[], None]) -> None:
        self._log = log
        self._head = head
        self._files = files
        self._begin_run = begin_run

    async def go(self, goal: Goal, *, files: bool) -> Gone:
        """Goes there, with the `files` or without. Raises SessionReadOnlyError."""
        found = self._files.plan(goal.since)
        begun = None
        if files and (found.files or found.left):
            begun = RewindBegun(
                statement=goal.statement, since=goal.since, branch=goal.branch, files=found.files, left=found.left
            )

        async def put_back() -> Rewound | None:
            return None if begun is None else await self._files.rewind(begun)

        rewound = await self._head.go(goal, put_back)
        self._begin_run()
        if rewound is not None:
            self._log.append(rewound)
        return Gone(found, rewound)


async def carry_on(parts: SessionParts, begun: RewindBegun) -> None:
    """Does the rest of what was under way when the last process of the session died."""
    records = str(parts.settings.state_dir / safe_open.FOLDER)
    workspace = Workspace(parts.cwd, parts.directories, records=records)
    files = FileRewinding(parts.log, parts.journal, parts.store, workspace, parts.provenance)
    rewound = await files.finish(begun)
    if not begun.cancelled:
        reach(parts.log, parts.timeline, parts.view, Goal(begun.branch, begun.since, begun.statement))
    parts.log.append(rewound)
