"""Puts the files of a session back to what they held at a position of its log, and records that.

What is to be done is durable before the first file is replaced, each file is replaced as a whole, and the end is
recorded: so whoever opens the session after a kill finishes it, and each file is as before or as after. Which
contents are wanted is known to `log.timeline.workspace`, how a file is replaced to `session.tools.restoring`. Must not
know why somebody goes back, nor what becomes of the conversation. Made by `turns`, and by `reopening` where a rewind is
open.

A cancel brings back what was replaced, after a kill as well, because that is recorded before the first one. A content
that is not kept (it holds a secret, or is too large) cannot be brought back, so the files that hold one come last, and
from the first of them on there is no way back.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from ...core.errors import SessionReadOnlyError, StoreError
from ...core.ids import Seq
from ...log.event_log import EventLog
from ...log.events import Event
from ...log.events.execution import FileWritten
from ...log.events.going_back import FileLeft, FileToRestore, RewindBegun, Rewound
from ...log.facts import Provenance
from ...log.file_history import Restorable, restorable, reversed_
from ...log.redaction import HIDDEN
from ...log.store_protocol import Store
from ..acts.buffers import SessionBuffers
from ..cancellation import to_the_end
from ..publishing.journal import Journal
from ..publishing.signals import FilesPutBack
from ..tools import Replaced, Workspace, restore

_HIDDEN: Final = "a secret in its path is not kept, so which file it is nobody knows"
_UNSAVED: Final = "it has unsaved changes in the editor"
_LOST: Final = "what it held then is not in the store"


class FileRewinding:
    """The files of one session. `buffers` says what an editor holds of them; None where none is attached."""

    def __init__(
        self,
        log: EventLog,
        journal: Journal,
        store: Store,
        workspace: Workspace,
        provenance: Provenance,
        buffers: SessionBuffers | None = None,
    ) -> None:
        self._log = log
        self._journal = journal
        self._store = store
        self._workspace = workspace
        self._provenance = provenance
        self._buffers = buffers
        self._reported: Container[str] = ()
        """Files that are left alone where other programs run them."""

    def plan(self, at: Seq) -> Restorable:
        """What is to be done for the files to be as they were at that position of the log. Looks at no file."""
        found = restorable(self._log.since(at))
        hidden = [FileLeft(path=file.path, reason=_HIDDEN) for file in found.files if HIDDEN in file.path]
        files = [file for file in found.files if HIDDEN not in file.path]
        return Restorable(tuple(sorted(files, key=_is_lost)), (*found.left, *hidden))

    async def rewind(self, begun: RewindBegun) -> Rewound:
        """Does what a `plan` says, which is recorded by `begun`; the end, which is not recorded yet.

        Nothing is awaited after the last file. A cancel, or a defect, takes back what is done, and that is recorded.

        Raises:
            SessionReadOnlyError: nothing can be recorded; no file was touched.
        """
        seq = self._log.append(begun)
        replaced: list[FileToRestore] = []
        try:
            await self._journal.durable(seq)
            return await self._go(begun, replaced)
        except BaseException:
            await to_the_end(lambda: self._give_up(begun, replaced))
            raise

    async def finish(self, begun: RewindBegun) -> Rewound:
        """The same of one that is on the log, because a process was killed in the middle of it.

        What that process has replaced is not known, so a cancel takes nothing back: the rewind stays open.
        """
        return await (self._bring_back(begun) if begun.cancelled else self._go(begun, []))

    async def _go(self, begun: RewindBegun, replaced: list[FileToRestore]) -> Rewound:
        """Into `replaced` goes each file that was not as it is to be."""
        done: list[FileToRestore] = []
        left = list(begun.left)
        self._reported = self._reported_paths()
        for place, file in enumerate(begun.files):
            self._journal.signal(FilesPutBack(place, len(begun.files)))
            put = partial(self._put, file)
            outcome = await (to_the_end(put) if _is_lost(file) else put())
            if isinstance(outcome, FileLeft):
                left.append(outcome)
            else:
                done.append(file)
                replaced += [file] * outcome
        if begun.files:
            self._journal.signal(FilesPutBack(len(begun.files), len(begun.files)))
        return Rewound(statement=begun.statement, restored=tuple(done), left=tuple(left))

    async def _give_up(self, begun: RewindBegun, replaced: Sequence[FileToRestore]) -> None:
        """Brings back what these files held before, the last one first, also if the process is killed meanwhile."""
        files = tuple(map(reversed_, reversed(replaced)))
        back = RewindBegun(statement=begun.statement, since=begun.since, files=files, cancelled=True)
        with suppress(SessionReadOnlyError):  # which is no reason to leave them
            await self._journal.durable(self._log.append(back))
        self._log.append(await self._bring_back(back))

    async def _bring_back(self, begun: RewindBegun) -> Rewound:
        self._reported = self._reported_paths()
        lost = [reversed_(file) for file in begun.files if isinstance(await self._put(file), FileLeft)]
        return Rewound(statement=begun.statement, restored=tuple(lost), cancelled=True)

    async def _put(self, file: FileToRestore) -> FileLeft | bool:
        """Whether the file had to be replaced to hold what is wanted; or that it is left as it was, and why."""
        try:
            if self._buffers is not None and await self._buffers.unsaved(file.path, changes=True) is not None:
                raise OSError(_UNSAVED)
            before = await anyio.to_thread.run_sync(self._restore, file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return FileLeft(path=file.path, reason=reason)
        if before is not None and self._buffers is not None:
            self._buffers.note_replaced(file.path, before.data)
        return before is not None

    def _restore(self, file: FileToRestore) -> Replaced | None:
        try:
            wanted = self._store.blob_get(file.wanted) if file.wanted is not None else None
        except (KeyError, StoreError):
            raise OSError(_LOST) from None
        if wanted is None and file.wanted_digest:  # which an export has left out
            raise OSError(_LOST)
        return restore(self._workspace, file, wanted, is_trusted=file.path not in self._reported)

    def _reported_paths(self) -> Container[str]:
        """The files of which the log repeats what somebody else said of them: an import, or a worker of a model's."""
        if not self._provenance.is_foreign:
            return ()
        imported = self._provenance.imported_at
        return {path for event in self._log.events for path in _reported(event, is_imported=event.seq <= imported)}


def _reported(event: Event, *, is_imported: bool) -> Iterable[str]:
    """The paths of which the event says what they held, without this program having seen it."""
    match event:
        case FileWritten(path=path) if is_imported or event.noticed:
            return (path,)
        case Rewound(restored=files) | RewindBegun(files=files) if is_imported:
            return (file.path for file in files)
        case _:
            return ()


def _is_lost(file: FileToRestore) -> bool:
    """Whether what the file holds now could not be brought back."""
    return file.present is None and bool(file.present_digest)
