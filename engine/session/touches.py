"""Save the earlier content of files that a statement's own code writes, and record the changes at its end.

The worker reports a file before it writes it (`take`). The report is only a claim, because a statement can send it too.
A rewind will write what is recorded here. So the host reads the file itself, with its own permissions, and only where
the sandbox lets the statement write (`may_write`). The statement waits until the earlier content is on disk with the
log, so that no kill loses the change.

`settle` compares the files when the statement has ended, in any way. An unchanged file leaves nothing more. A changed
one gets a FileWritten, shown like a tool call of the statement. After a kill, `reopening` settles what the last process
could not.

A program or thread may still have a file open since an earlier statement, and writes it without a report. So the files
that are open at the end of a statement are read again at the start of the next one (`hold`).

Only regular files are opened (`pinned`), on a thread, because a file system may be slow. Must not know how writes are
noticed. `statements` makes one `Touches` for each execution.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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
from ..core.execution import UNREAD, TextChange
from ..core.ids import BlobDigest, ExecutionId, Minter, Seq, ToolCallId
from ..core.text import plural
from ..files.protected import Appeared
from ..files.safe_open import LARGEST
from ..log.event_log import EventLog
from ..log.events.conversation import ToolCall, ToolResult
from ..log.events.execution import FileTouched, FileWritten
from ..log.file_history import open_touches
from ..log.redaction import HIDDEN, Redactor, withheld
from ..log.statements import ANYTHING, BY_LIBRARY
from ..log.store_protocol import Store
from .name_guard import Taken
from .parts import SessionParts
from .policy import shown_part
from .tool_calls import SHOWN_CHANGES_CHARS
from .tool_records import FileState, file_state, link_state
from .tools import Workspace, changes_of, name_text
from .working_tree.baseline import Baseline
from .working_tree.changes import Begun, TreeComparison, close_acts

SHOWN_FILES: Final = 100
"""Files that are shown one by one. The others are counted."""
MOST_CHANGES_CHARS: Final = 1_000_000
"""Characters of changes that the log repeats for one statement."""
KEPT_AFTER: Final = 256 << 20
"""Bytes of later contents that are saved for one statement."""
SMALL_BYTES: Final = 1 << 20
"""Beyond KEPT_AFTER, a content up to this size is still read, to find out whether it changed."""
HELD_BYTES: Final = 4 << 20
"""The largest saved content of a file that stays open, because it is read for each statement."""
KEPT_BEFORE: Final = 256 << 20
"""Bytes of earlier contents that are saved for one statement. For further files only the state is recorded."""
LINK_APPEARED: Final = "this is a link; check its target before you continue, because other programs run it"
DIRECTORY_APPEARED: Final = "this is a directory from which other programs run files; check it before you continue"
MORE_APPEARED: Final = "more files that other programs run have appeared here; check them before you continue"
_BATCH: Final = 50
"""Files after which other tasks run."""
_UNSPELLED: Final = ("\ufffd", HIDDEN)
"""Parts of a recorded path that stand for what the log cannot contain."""
_NOTHING: Final = FileState()
_UNWATCHED: Final = FileState(f"{UNREAD}unwatched", reason="the file was not watched before, so it may be yours")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchRecords:
    """Where touches are recorded.

    Files below `hidden`, a path with its slash, belong to this program and are never recorded. `why` says whether other
    programs run a file's content (`Protection.why`). `durable` waits until an event is on disk (`Journal.durable`).
    """

    log: EventLog
    durable: Callable[[Seq], Awaitable[None]]
    store: Store
    minter: Minter
    redactor: Redactor
    hidden: str
    why: Callable[[str], str]


def touch_records(parts: SessionParts) -> TouchRecords:
    """Return the records of a session."""
    hidden = os.path.join(os.path.realpath(parts.settings.state_dir), "")
    return TouchRecords(
        log=parts.log,
        durable=parts.journal.durable,
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
        may_write: whether the statement's own code can write that real path.
        comparison: compares the session's directories, for acts that do not name what they change.
    """

    def __init__(
        self,
        records: TouchRecords,
        execution_id: ExecutionId,
        parent: ToolCallId,
        start: int,
        may_write: Callable[[str], bool],
        comparison: TreeComparison | None = None,
    ) -> None:
        self._records = records
        self._comparison = comparison
        self._begun: asyncio.Task[Begun] | None = None
        self._execution = execution_id
        self._parent = parent
        self._start = start
        self._may_write = may_write
        self._room = KEPT_BEFORE
        self._places: dict[int, str] = {}
        """The files as the file system names them, by the positions of their events on the log."""
        self._taken: dict[str, asyncio.Task[None] | None] = {}
        """The files that were read, or are being read and saved."""
        self._lines: dict[str, str] = {}
        """What is shown about paths that have no content to show."""
        self._refused = 0
        self._held: set[str] = set()
        self._is_writing = False
        self._acts: Sequence[tuple[Baseline, int]] = ()
        """The notes for other sessions that this statement writes."""

    # --- before -------------------------------------------------------------------------------------------------------

    def take(self, path: bytes, looked: Callable[[], None]) -> None:
        """Take a report, as `TouchSink`."""
        if path in (ANYTHING, BY_LIBRARY):
            self._take_unseen(looked, is_likely=path == ANYTHING)
            return
        place = os.fsdecode(path)
        if place not in self._taken and self._is_credible(place):
            self._taken[place] = asyncio.ensure_future(self._look_before(place))
        looking = self._taken.get(place)
        if looking is None or looking.done():
            looked()
        else:
            looking.add_done_callback(lambda _: looked())

    async def _look_before(self, place: str) -> None:
        """Save the file's state. The statement goes on also if that fails, because then nothing more is recorded."""
        with suppress(StoreError, SessionReadOnlyError):
            found = await asyncio.get_running_loop().run_in_executor(None, self._before, place, LARGEST)
            if found is not None and (seq := self._append(place, found)) is not None:
                await self._records.durable(seq)

    def _take_unseen(self, looked: Callable[[], None], *, is_likely: bool) -> None:
        """Look at the directories before the statement goes on, if it can write there.

        Where that takes long, it is done only if a change is likely.
        """
        comparison = self._comparison
        is_wanted = comparison is not None and (is_likely or comparison.is_fast)
        if comparison is None or not is_wanted or not any(map(self._may_write, comparison.roots)):
            looked()
            return
        if self._begun is None:
            self._begun = asyncio.ensure_future(comparison.begin())
        self._begun.add_done_callback(lambda _: looked())

    def _is_credible(self, place: str) -> bool:
        if place.startswith(self._records.hidden):
            return False
        if os.path.isabs(place) and "\0" not in place and self._may_write(place):
            return True
        self._refused += 1
        if self._refused == 1:
            logger.warning("%s reported writes that it may not make; they are not recorded", self._execution)
        return False

    def take_new(self, found: Iterable[Appeared]) -> None:
        """Record files that the host found, whatever the statement has reported of them.

        A rewind leaves one that may have been there before the statement.
        """
        for place, was_nothing, has_more in found:
            if place.startswith(self._records.hidden):
                continue
            self._taken.setdefault(place, None)
            line = MORE_APPEARED if has_more else LINK_APPEARED if os.path.islink(place) else ""
            if line or os.path.isdir(place):
                self._lines[place] = line or DIRECTORY_APPEARED
            before = _NOTHING if was_nothing or place in self._lines else _UNWATCHED
            self._append(place, replace(self._kept(place, before), found=True))

    def take_away(self, found: Iterable[Taken]) -> None:
        """Show names that the host took away, or that have vanished."""
        for place, sentence in found:
            self._taken.setdefault(place, None)
            self._lines[place] = "; ".join(filter(None, (self._lines.get(place), sentence)))

    async def hold(self, places: Iterable[bytes]) -> None:
        """Save files that are still open, and may be written without a report."""
        last = None
        for place in map(os.fsdecode, places):
            if place in self._taken or not self._is_credible(place):
                continue
            self._held.add(place)
            self._taken[place] = None
            found = await anyio.to_thread.run_sync(self._before, place, HELD_BYTES)
            if found is not None:
                last = self._append(place, found)
        if last is not None:
            with suppress(SessionReadOnlyError):
                await self._records.durable(last)

    def _before(self, place: str, limit: int) -> FileTouched | None:
        """Read the file; None if the path is not a file, and no file could be made there.

        Blocks.
        """
        self._begin_writing()
        room = max(self._room, 0)
        found = self._look(place, min(limit, room))
        self._room -= len(found.data or b"")
        if not found.digest and not _is_free(place):
            return None
        if found.data is None and found.digest and room < limit:
            found = replace(found, reason=f"the statement had changed files of {KEPT_BEFORE >> 20} MiB before")
        return self._kept(place, replace(found, reason=found.reason.replace("the file has more", "the file had more")))

    def _look(self, place: str, limit: int) -> FileState:
        if place.startswith(self._records.hidden):
            return FileState()
        found = file_state(place, limit)
        return found if found.digest else link_state(place)

    def _kept(self, place: str, found: FileState) -> FileTouched:
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

    def _append(self, place: str, event: FileTouched) -> Seq | None:
        # A session that has become read-only reports that at the end of the statement.
        with suppress(SessionReadOnlyError):
            seq = self._records.log.append(event)
            self._places[seq] = place
            return seq
        return None

    def _stored(self, data: bytes | None) -> tuple[BlobDigest | None, str]:
        """Save the content if possible.

        Returns its digest, and the description of one that contains a secret.
        """
        if data is None:
            return None, ""
        storable = self._records.redactor.storable(data)
        return (None, withheld(data)) if storable is None else (self._records.store.blob_put(storable), "")

    @property
    def any(self) -> bool:
        """Whether there is anything for `settle` to compare."""
        return bool(self._taken) or self._begun is not None or self._is_writing

    def _begin_writing(self) -> None:
        if self._comparison is not None and not self._is_writing:
            self._is_writing = True
            self._acts = self._comparison.open_acts()

    async def settle_unseen(self) -> None:
        """Record what changed so far without a report, because a tool is about to change files, too."""
        if not self._is_writing:
            await anyio.to_thread.run_sync(self._begin_writing)
        if self._begun is None or self._comparison is None:
            return
        await self._show_all(await self._unseen(), 0)
        self._begun = asyncio.ensure_future(self._comparison.begin())

    # --- afterwards ---------------------------------------------------------------------------------------------------

    async def settle(self, more: int = 0) -> None:
        """Record the files that changed. The statement has ended.

        `more` is the number of further acts on files, of which nothing is recorded.
        """
        if looking := [each for each in self._taken.values() if each is not None and not each.done()]:
            await asyncio.wait(looking)
        for place, line in self._lines.items():
            call = self._records.minter.tool_call()
            self._call(call, {"path": name_text(place)}, "write")
            self._end(call, line)
        touched = open_touches(self._records.log.since(self._start))
        unseen = await self._unseen()
        await anyio.to_thread.run_sync(close_acts, self._acts)
        if not touched and not unseen and not more:
            return
        written, modes = await anyio.to_thread.run_sync(self._changed, touched) if touched else ([], {})
        written += unseen
        self._show_modes(modes)
        await self._show_all(written, more)

    async def _show_all(self, written: Sequence[FileWritten], more: int) -> None:
        """Append the changes, most of them as calls of their own; `more` as in `settle`."""
        sources = _renamed(written[:SHOWN_FILES])
        for number, event in enumerate(written[:SHOWN_FILES], 1):
            if event.path in sources:
                self._show_rename(sources[event.path], event)
            elif event not in sources.values():
                self._show(event)
            if number % _BATCH == 0:
                await anyio.lowlevel.checkpoint()
        await self._count(written[SHOWN_FILES:], more)

    async def _unseen(self) -> list[FileWritten]:
        """Return what changed without a report, and not by a call that has its own records."""
        if self._begun is None or self._comparison is None:
            return []
        begun = await self._begun
        changes = await self._comparison.end(begun, self._execution, self._parent)
        since = self._records.log.since(self._start)
        reported = {event.path for event in since if isinstance(event, FileTouched) and event.tool_call_id is None}
        known = {event.path: event for event in since if isinstance(event, FileWritten)}
        found: list[FileWritten] = []
        for event in changes.events:
            last = known.get(event.path)
            if event.path in reported or (last is not None and last.after_digest == event.after_digest):
                continue
            found.append(event if last is None else _since(last, event))
        return found

    def _show(self, event: FileWritten) -> None:
        call = self._records.minter.tool_call()
        removed = not event.after_digest
        self._call(call, {"path": event.path}, "remove" if removed else "write")
        self._records.log.append(replace(event, tool_call_id=call))
        self._end(call, f"{'removed' if removed else 'written'} by the statement's own code")

    def _show_rename(self, gone: FileWritten, made: FileWritten) -> None:
        call = self._records.minter.tool_call()
        self._call(call, {"path": made.path, "source": gone.path}, "rename")
        for event in (replace(gone, changes=(), note=""), made):
            self._records.log.append(replace(event, tool_call_id=call, unshown=True))
        self._end(call, "")

    def _show_modes(self, modes: Mapping[str, FileWritten]) -> None:
        """Show permissions that were set as calls of chmod, where a rewind finds them."""
        for path, event in islice(modes.items(), SHOWN_FILES):
            call = self._records.minter.tool_call()
            self._call(call, {"path": path, "mode": event.after_mode}, "chmod")
            self._records.log.append(replace(event, tool_call_id=call))
            self._end(call, "permissions set by the statement's own code")
        for event in islice(modes.values(), SHOWN_FILES, None):
            self._records.log.append(event)

    async def _count(self, unshown: Sequence[FileWritten], more: int) -> None:
        """Show the remaining files as one call."""
        if not unshown and not more:
            return
        call = self._records.minter.tool_call()
        self._call(call, {}, "write")
        for number, event in enumerate(unshown, 1):
            self._records.log.append(replace(event, tool_call_id=call, unshown=True))
            if number % _BATCH == 0:
                await anyio.lowlevel.checkpoint()
        files = f"{len(unshown):,} more {plural(len(unshown), 'file')} changed by the statement's own code"
        acts = f"{more:,} more {plural(more, 'act')} on files without a record"
        self._end(call, "; ".join([files] * bool(unshown) + [acts] * bool(more)))

    def _call(self, call: ToolCallId, arguments: dict[str, object], tool: str) -> None:
        """Begin a call of the tool that does the same."""
        event = ToolCall(tool_call_id=call, tool=tool, arguments=arguments, parent_id=self._parent)
        self._records.log.append(event)

    def _end(self, call: ToolCallId, text: str) -> None:
        self._records.log.append(ToolResult(tool_call_id=call, status="ok", text=text, parent_id=self._parent))

    def _changed(self, touched: Sequence[FileTouched]) -> tuple[list[FileWritten], dict[str, FileWritten]]:
        """Return the changed files, and by path those that changed only their permissions.

        Blocks.
        """
        written: list[FileWritten] = []
        modes: dict[str, FileWritten] = {}
        kept, shown = KEPT_AFTER, MOST_CHANGES_CHARS
        for before in touched:
            place = self._places.get(before.seq)
            if place is None:
                if any(each in before.path for each in _UNSPELLED):
                    continue  # because the file is unknown now
                place = before.path
            most = HELD_BYTES if place in self._held else LARGEST if kept > 0 else SMALL_BYTES
            after = self._look(place, most)
            kept -= len(after.data or b"")
            if before.before_digest == after.digest or (after.mark and before.before_digest == after.mark):
                if after.mode is not None and before.mode not in (None, after.mode):
                    modes[before.path] = self._mode_set(before, after)
                continue
            if kept < 0 and after.data is not None:
                after = replace(after, data=None, reason=f"the statement had written {KEPT_AFTER >> 20} MiB before")
            event = self._written(before, after, shown if len(written) < SHOWN_FILES else 0)
            shown -= text_size(event.changes)
            written.append(event)
        return written, modes

    def _mode_set(self, before: FileTouched, after: FileState) -> FileWritten:
        return FileWritten(
            execution_id=self._execution,
            tool_call_id=self._parent,
            path=before.path,
            before=before.before,
            after=before.before,
            before_digest=before.before_digest,
            after_digest=before.before_digest,
            withheld=before.withheld,
            noticed=True,
            unshown=True,
            before_mode=before.mode,
            after_mode=after.mode,
        )

    def _written(self, before: FileTouched, after: FileState, room: int) -> FileWritten:
        content, secret = self._stored(after.data)
        changes, note = self._changes(before, after) if room > 0 else ((), "")
        changes, note = shown_part(self._records.redactor, changes, note, min(room, SHOWN_CHANGES_CHARS))
        notes = [note]
        if before.note:
            notes.append(f"the earlier content is not stored: {before.note}")
        if after.reason:
            notes.append(f"the new content is not stored: {after.reason}")
        elif not after.digest:
            notes.append("the file was removed")
        elif why := self._records.why(before.path):
            notes.append(f"check it before you continue: {why}")
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

    def _changes(self, before: FileTouched, after: FileState) -> tuple[tuple[TextChange, ...], str]:
        """Return the changes to show, if both contents are known."""
        if (after.digest and after.data is None) or (before.before_digest and before.before is None):
            return (), ""
        old = None
        if before.before is not None:
            try:
                old = self._records.store.blob_get(before.before)
            except (KeyError, StoreError):
                return (), "the earlier content cannot be read from the store"
        return changes_of(old, after.data or b"", self._records.redactor.hidden_lines)


def _renamed(written: Sequence[FileWritten]) -> dict[str, FileWritten]:
    """Return the removed file that each new file was before, by the path of the new one.

    A content that several files had or have does not tell which became which. A file with a note is shown on its own.
    """
    gone = Counter(event.before_digest for event in written if not event.after_digest)
    made = Counter(event.after_digest for event in written if not event.before_digest)
    once = {digest for digest in gone.keys() & made.keys() if gone[digest] == made[digest] == 1}
    sources = {event.before_digest: event for event in written if not event.after_digest}
    return {
        event.path: sources[event.after_digest]
        for event in written
        if not event.before_digest and event.after_digest in once and not event.note
    }


def _since(last: FileWritten, event: FileWritten) -> FileWritten:
    """Return the change of a file since the last record of it."""
    return replace(event, before=last.after, before_digest=last.after_digest, before_mode=last.after_mode, changes=())


def _is_free(place: str) -> bool:
    """Return whether nothing has the name, and no link leads to it."""
    above = os.path.dirname(place)
    return not os.path.lexists(place) and os.path.realpath(above) == above
