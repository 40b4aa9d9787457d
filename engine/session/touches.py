"""Keeps the earlier content of files that a statement's own code writes, and records at its end what became of them.

`take` receives the place of a file before it is written. That is a claim: a statement can send it as well. A rewind
writes what is recorded here, so the host reads the file itself, with its permissions, and only where the statement's
rights let it write there at all (`may_write`). What it held goes on the log at once, so that it is not lost whatever is
killed then. `settle` looks at the files when the statement has ended, however it did: one that is as before leaves
nothing more; for another there is a FileWritten, shown as a call within the statement, as a tool's is. A session that
is loaded after a kill settles what the last process could not (`reopening`). Only regular files are opened
(`pinned`), on a thread, because a file system may be slow. Must not know how writes are noticed. Made by `statements`
for each execution.

A file that a program or a thread has open since an earlier statement is written without a notice. So what is open when
a statement ends is looked at again when the next one begins (`hold`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread
from msgspec.structs import replace

from ..core.diff import text_size
from ..core.errors import SessionReadOnlyError, StoreError
from ..core.execution import TextChange
from ..core.ids import BlobDigest, ExecutionId, Minter, ToolCallId
from ..core.text import plural
from ..files.safe_open import LARGEST
from ..log.event_log import EventLog
from ..log.events.conversation import ToolCall, ToolResult
from ..log.events.execution import FileTouched, FileWritten
from ..log.file_history import open_touches
from ..log.redaction import HIDDEN, Redactor, withheld
from ..log.store_protocol import Store
from .act_files import Look, look
from .acts import SHOWN_CHANGES_CHARS
from .parts import SessionParts
from .questions import beginning
from .tools import Workspace, changes_of, name_text

SHOWN_FILES: Final = 100
"""So many are shown one by one, and of the others the number."""
MOST_CHANGES_CHARS: Final = 1_000_000
"""How much of what changed the log repeats of one statement."""
KEPT_AFTER: Final = 256 << 20
"""Bytes of contents after one statement that are kept, like those before it."""
SMALL_BYTES: Final = 1 << 20
"""When so much was read, a content up to this size is read on, to see whether it is as before."""
HELD_BYTES: Final = 4 << 20
"""Of a file that stays open a content up to this size is kept, because it is looked at for each statement."""
KEPT_BEFORE: Final = 256 << 20
"""Bytes of earlier contents that are kept of one statement; of further files the state alone."""
_BATCH: Final = 50
"""Files after which others have their turn."""
_UNSPELLED: Final = ("\ufffd", HIDDEN)
"""What stands in a path for what the log cannot hold."""
_NOTHING: Final = Look()

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Where touches are recorded. Files below `hidden`, a path with its slash, are ours, and nobody's to record. `why`
    says of which files other programs run what is in them (`Protection.why`)."""

    log: EventLog
    store: Store
    minter: Minter
    redactor: Redactor
    hidden: str
    why: Callable[[str], str]


def records_of(parts: SessionParts) -> Records:
    """Those of a session."""
    hidden = os.path.join(os.path.realpath(parts.settings.state_dir), "")
    return Records(
        log=parts.log,
        store=parts.store,
        minter=parts.minter,
        redactor=parts.redactor,
        hidden=hidden,
        why=Workspace(parts.cwd, parts.directories).protection.why,
    )


class Touches:
    """The files of one execution.

    Args:
        parent: the call of its statement.
        start: the position on the log where the execution begins.
        may_write: whether the statement's rights let it write that real place by itself.
    """

    def __init__(
        self,
        records: Records,
        execution_id: ExecutionId,
        parent: ToolCallId,
        start: int,
        may_write: Callable[[str], bool],
    ) -> None:
        self._records = records
        self._execution = execution_id
        self._parent = parent
        self._start = start
        self._may_write = may_write
        self._room = KEPT_BEFORE
        self._places: dict[int, str] = {}
        """The files as the file system names them, by the positions of their events on the log."""
        self._taken: dict[str, asyncio.Future[FileTouched | None] | None] = {}
        """The places that were looked at, or are being looked at."""
        self._refused = 0
        self._held: set[str] = set()

    # --- before -------------------------------------------------------------------------------------------------------

    def take(self, path: bytes, looked: Callable[[], None]) -> None:
        """A `TouchSink`."""
        place = os.fsdecode(path)
        if place not in self._taken and self._is_believed(place):
            self._taken[place] = future = asyncio.get_running_loop().run_in_executor(None, self._before, place, LARGEST)
            future.add_done_callback(lambda done: self._append_kept(place, done))
        looking = self._taken.get(place)
        if looking is None or looking.done():
            looked()
        else:
            looking.add_done_callback(lambda _: looked())

    def _is_believed(self, place: str) -> bool:
        if place.startswith(self._records.hidden):
            return False
        if os.path.isabs(place) and "\0" not in place and self._may_write(place):
            return True
        self._refused += 1
        if self._refused == 1:
            logger.warning("%s says it writes files that it has no right to write; not recorded", self._execution)
        return False

    def take_new(self, places: Iterable[str]) -> None:
        """The host has found these files, which were not there before the statement."""
        for place in places:
            if place not in self._taken and not place.startswith(self._records.hidden):
                self._taken[place] = None
                self._append(place, self._kept(place, _NOTHING))

    async def hold(self, places: Iterable[bytes]) -> None:
        """These files are open since an earlier statement, and may be written without a notice."""
        for place in map(os.fsdecode, places):
            if place in self._taken or not self._is_believed(place):
                continue
            self._held.add(place)
            self._taken[place] = None
            found = await anyio.to_thread.run_sync(self._before, place, HELD_BYTES)
            if found is not None:
                self._append(place, found)

    def _before(self, place: str, limit: int) -> FileTouched | None:
        """What the host finds there now; None where that is no file of the name, nor room for one. Blocks."""
        room = max(self._room, 0)
        found = self._look(place, min(limit, room))
        self._room -= len(found.data or b"")
        if not found.digest and not _is_free(place):
            return None
        if found.data is None and found.digest and room < limit:
            found = replace(found, reason=f"the statement had changed files of {KEPT_BEFORE >> 20} MiB before")
        return self._kept(place, replace(found, reason=found.reason.replace("it has more", "it had more")))

    def _look(self, place: str, limit: int) -> Look:
        return Look() if place.startswith(self._records.hidden) else look(place, limit)

    def _kept(self, place: str, found: Look) -> FileTouched:
        content, secret = self._stored(found.data)
        return FileTouched(
            execution_id=self._execution,
            path=name_text(place),
            before=content,
            before_digest=found.digest,
            note=found.reason,
            withheld=secret,
            mode=found.mode,
        )

    def _append_kept(self, place: str, done: asyncio.Future[FileTouched | None]) -> None:
        # It fails where the store is closed, and then nothing is recorded any more.
        if not done.cancelled() and done.exception() is None and (event := done.result()) is not None:
            self._append(place, event)

    def _append(self, place: str, event: FileTouched) -> None:
        # A session that has become read-only says so at the end of the statement.
        with suppress(SessionReadOnlyError):
            self._places[self._records.log.append(event)] = place

    def _stored(self, data: bytes | None) -> tuple[BlobDigest | None, str]:
        """The digest under which the content is kept, if it is; and what stands for one that holds a secret."""
        if data is None:
            return None, ""
        storable = self._records.redactor.storable(data)
        return (None, withheld(data)) if storable is None else (self._records.store.blob_put(storable), "")

    @property
    def any(self) -> bool:
        """Whether the statement has told of a file, for `settle` to look at."""
        return bool(self._taken)

    # --- afterwards ---------------------------------------------------------------------------------------------------

    async def settle(self, more: int = 0) -> None:
        """The statement has ended: records the files that are otherwise. `more` acts on files were not noticed."""
        if looking := [each for each in self._taken.values() if each is not None and not each.done()]:
            await asyncio.wait(looking)
        if self._taken:
            await anyio.lowlevel.checkpoint()  # in which what was kept last is appended
        touched = open_touches(self._records.log.since(self._start))
        if not touched and not more:
            return
        written, modes = await anyio.to_thread.run_sync(self._changed, touched) if touched else ([], {})
        self._show_modes(modes)
        for number, event in enumerate(written[:SHOWN_FILES], 1):
            self._show(event)
            if number % _BATCH == 0:
                await anyio.lowlevel.checkpoint()
        await self._count(written[SHOWN_FILES:], more)

    def _show(self, event: FileWritten) -> None:
        call = self._records.minter.tool_call()
        removed = not event.after_digest
        self._call(call, {"path": event.path}, "remove" if removed else "write")
        self._records.log.append(replace(event, tool_call_id=call))
        self._end(call, f"{'removed' if removed else 'written'} by the statement's own code")

    def _show_modes(self, modes: Mapping[str, int]) -> None:
        """Permissions that were set, as calls of the tool that sets them: there a rewind looks for them."""
        for path, mode in islice(modes.items(), SHOWN_FILES):
            call = self._records.minter.tool_call()
            self._call(call, {"path": path, "mode": mode}, "chmod")
            self._end(call, "permissions set by the statement's own code")

    async def _count(self, unshown: Sequence[FileWritten], more: int) -> None:
        """The files that are not shown one by one, as one call."""
        if not unshown and not more:
            return
        call = self._records.minter.tool_call()
        self._call(call, {}, "write")
        for number, event in enumerate(unshown, 1):
            self._records.log.append(replace(event, tool_call_id=call, unshown=True))
            if number % _BATCH == 0:
                await anyio.lowlevel.checkpoint()
        files = f"{len(unshown):,} more {plural(len(unshown), 'file')} changed by the statement's own code"
        acts = f"{more:,} more {plural(more, 'act')} on files of which nothing is recorded"
        self._end(call, "; ".join([files] * bool(unshown) + [acts] * bool(more)))

    def _call(self, call: ToolCallId, arguments: dict[str, object], tool: str) -> None:
        """Begins a call of the tool that does such an act."""
        event = ToolCall(tool_call_id=call, tool=tool, arguments=arguments, parent_id=self._parent)
        self._records.log.append(event)

    def _end(self, call: ToolCallId, text: str) -> None:
        self._records.log.append(ToolResult(tool_call_id=call, status="ok", text=text, parent_id=self._parent))

    def _changed(self, touched: Sequence[FileTouched]) -> tuple[list[FileWritten], dict[str, int]]:
        """The files that hold something else now; and the permissions of those that have others alone. Blocks."""
        written: list[FileWritten] = []
        modes: dict[str, int] = {}
        kept, shown = KEPT_AFTER, MOST_CHANGES_CHARS
        for before in touched:
            place = self._places.get(before.seq)
            if place is None:
                if any(each in before.path for each in _UNSPELLED):
                    continue  # because nobody knows any more which file that is
                place = before.path
            most = HELD_BYTES if place in self._held else LARGEST if kept > 0 else SMALL_BYTES
            after = self._look(place, most)
            kept -= len(after.data or b"")
            if before.before_digest in (after.digest, after.mark):
                if after.mode is not None and before.mode not in (None, after.mode):
                    modes[before.path] = after.mode
                continue
            if kept < 0 and after.data is not None:
                after = replace(after, data=None, reason=f"the statement had written {KEPT_AFTER >> 20} MiB before")
            event = self._written(before, after, shown if len(written) < SHOWN_FILES else 0)
            shown -= text_size(event.changes)
            written.append(event)
        return written, modes

    def _written(self, before: FileTouched, after: Look, room: int) -> FileWritten:
        content, secret = self._stored(after.data)
        changes, note = self._changes(before, after) if room > 0 else ((), "")
        changes, note = beginning(self._records.redactor, changes, note, min(room, SHOWN_CHANGES_CHARS))
        notes = [note]
        if before.note:
            notes.append(f"what it held before is not kept: {before.note}")
        if after.reason:
            notes.append(f"what it holds now is not kept: {after.reason}")
        elif not after.digest:
            notes.append("the file was removed")
        elif why := self._records.why(before.path):
            notes.append(f"look at it before you go on: {why}")
        return FileWritten(
            execution_id=self._execution,
            tool_call_id=self._parent,
            path=before.path,
            before=before.before,
            after=content,
            before_digest=before.before_digest,
            after_digest=after.digest,
            changes=changes,
            note="\n".join(filter(None, notes)),
            withheld=" ".join(filter(None, (before.withheld, secret))),
            noticed=True,
            before_mode=before.mode,
            after_mode=after.mode,
        )

    def _changes(self, before: FileTouched, after: Look) -> tuple[tuple[TextChange, ...], str]:
        """What a person is shown of it, where both contents are there."""
        if (after.digest and after.data is None) or (before.before_digest and before.before is None):
            return (), ""
        old = None
        if before.before is not None:
            try:
                old = self._records.store.blob_get(before.before)
            except (KeyError, StoreError):
                return (), "what it held before cannot be read from the store"
        return changes_of(old, after.data or b"")


def _is_free(place: str) -> bool:
    """Whether the name is free, and no link leads to it."""
    above = os.path.dirname(place)
    return not os.path.lexists(place) and os.path.realpath(above) == above
