"""Compare the session's directories around an act that changes files without the host's own hand.

`begin` looks before the act, so that what somebody else changed earlier is not taken for the act's. `end` looks again,
and returns the records of what differs: the same ones that a tool's write leaves, with the contents before and after in
the session's own store. So rewinds, diffs and exports need nothing else.

**Certainty.** A rewind removes or replaces what an act made. So an entry counts as made or changed only if it was not
there before for certain: it is the same file, the file system says that it was born later, or it is an entry of before
under another name. Otherwise a command may have moved it here from where nothing is compared, or a rule may have left
it out.

**Whose change it is.** What changed between two acts, and not by a record of the session, is somebody else's: it is
told and not recorded. What changed during an act is recorded, but not undone if it may be somebody else's: if the
editor saved the file meanwhile; if an act of another session ran at the same time, in any process (each is noted in the
directory's database); or if the act was cut short, and the session only loaded later.

What cannot be compared is said once for each session. Must not know commands or servers. Used by `tool_calls`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import anyio
import anyio.to_thread
import xxhash

from ...core.domain import is_inside
from ...core.execution import DIRECTORY, TextChange
from ...core.ids import BlobDigest, ExecutionId, Seq, ToolCallId
from ...core.text import plural
from ...files.changes import counted
from ...files.git_refs import GitRefs, git_refs, moves
from ...files.spellings import is_listed
from ...log.events import Event
from ...log.events.execution import FileTouched, FileWritten
from ...log.events.going_back import RewindBegun, Rewound
from ...runtime.system.names import birth_of
from ..parts import SessionParts
from ..policy import shown_part
from ..tools import Workspace, changes_of, name_text
from .baseline import FOLDER, Baseline, Known, Snapshot, forget_unused
from .listing import MOST_ENTRIES, MOST_LEVELS, MOST_SECONDS, StoppedError, TooLargeError, TooSlowError

T = TypeVar("T")
SHOWN_FILES: Final = 20
"""Files of an act that are shown with their changes. The others are counted."""
SHOWN_CHARS: Final = 100_000
"""Characters of changes that the log repeats for one act."""
DIFFED_BYTES: Final = 2 << 20
"""Of the contents of one act, before and after, that are compared line by line."""
TOO_LONG: Final = "the lines are not compared, because the changes are too large"
MOST_RECORDED: Final = 20_000
"""Changes of one act that are recorded. If there are more, none is undone, because a part could be worse."""
NOT_COMPARED: Final = "changes in {} are not recorded and cannot be undone: {}"
NOT_CERTAIN: Final = "the file may be older, or moved from a place that is not compared"
TOO_MANY: Final = f"the action changed more than {MOST_RECORDED:,} files, so not all of them could be undone"
AMBIGUOUS: Final = "another file has the same name except for bytes that are not UTF-8"
SHARED: Final = "another session ran something here at the same time, so the change may not be this session's"
SAVED: Final = "the file was saved in the editor meanwhile, so the change may be yours"
CUT_SHORT: Final = "the agent ended before the action, so others may have changed the file since"
NONE_UNDONE: Final = "an undo leaves all of these files unchanged"
NONE_CHANGED: Final = "none changed"
MOVED: Final = "git references, which an undo leaves unchanged: {}"
BY_OTHERS: Final = "changed earlier, not by a recorded action of this session: {}"
FAST_SECONDS: Final = 0.1
_MOMENT: Final = 1.0
"""Seconds that the first look waits, because the first reply is more urgent."""
_CHANGED_WORDS: Final = ("made", "changed", "removed")
_HOME: Final = "the directory is a home directory or the root of the file system"
TOO_SLOW: Final = (
    f"listing the directory takes more than {MOST_SECONDS:.0f} s of processor time, for example "
    "because of many ignore rules"
)
TOO_LARGE: Final = (
    f"the directory has more than {MOST_ENTRIES:,} files and directories, or more than {MOST_LEVELS} levels"
)
_STATE: Final = "the directory is Rewindow's own"

logger = logging.getLogger(__name__)


def _none(_moment: int) -> Collection[str]:
    return ()


class Begun(NamedTuple):
    """The directories before an act, by their paths; `started` is in nanoseconds since the epoch.

    `others` says what somebody else has changed since the act before, or is "". `refs` is where repositories were.
    """

    snapshots: dict[str, tuple[Snapshot, int]]
    started: int
    others: str
    refs: Mapping[str, GitRefs | None]


class Changes(NamedTuple):
    """What an act changed: its records in the order in which they are undone last, and a text of one line, or ""."""

    events: Sequence[FileWritten] = ()
    text: str = ""


class TreeComparison:
    """Compares the directories of one session.

    `unchecked` names the directories that cannot be compared, each with the reason.

    Args:
        saved_since: returns the paths of files that the editor has saved since a time, in nanoseconds since the epoch.
    """

    def __init__(
        self, parts: SessionParts, workspace: Workspace, saved_since: Callable[[int], Collection[str]] = _none
    ) -> None:
        self._parts = parts
        self._workspace = workspace
        self._saved_since = saved_since
        self._known: dict[str, Snapshot] = {}
        """The directories after the last act, which ended at position `_known_at` of the log."""
        self._known_at = Seq(0)
        self._baselines: dict[str, Baseline] | None = None
        self._lock = anyio.Lock()
        self._preparing: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        self._seconds = 0.0
        """How long the last look took, unless it was the first."""
        self.unchecked: dict[str, str] = {}

    @property
    def roots(self) -> Sequence[str]:
        """The real paths of the session's directories."""
        return self._workspace.real_roots

    @property
    def is_fast(self) -> bool:
        """Whether a look takes no longer than a statement may be delayed only because it might change something."""
        return self._seconds <= FAST_SECONDS

    def prepare_soon(self) -> None:
        """Look for the first time, in a moment, so that the first act need not wait for it."""
        if self._preparing is None and self._baselines is None:
            self._preparing = asyncio.ensure_future(self._prepare())

    async def _prepare(self) -> None:
        await anyio.sleep(_MOMENT)
        async with self._lock:
            found = await self._on_thread(self._snapshots, False)
            self._note({root: snapshot for root, (snapshot, _) in found.items()})

    async def begin(self) -> Begun:
        """Look at the directories before an act."""
        async with self._lock:
            mine = frozenset(_paths(self._parts.log.since(self._known_at)))
            is_first, began = self._baselines is None, time.monotonic()
            found = await self._on_thread(self._snapshots, True)
            self._seconds = 0.0 if is_first else time.monotonic() - began
            others = await anyio.to_thread.run_sync(self._others, found, mine)
            refs = await anyio.to_thread.run_sync(self._refs)
            return Begun(found, time.time_ns(), others, refs)

    async def end(self, begun: Begun, execution_id: ExecutionId, call: ToolCallId) -> Changes:
        """Look again; return what has changed since, for the call that did it."""
        async with self._lock:
            saved = tuple(self._saved_since(begun.started))
            changes, after = await anyio.to_thread.run_sync(self._compared, begun, execution_id, call, saved)
            self._note(after)
            return changes

    async def recovered(self, execution_id: ExecutionId, call: ToolCallId) -> Sequence[FileWritten]:
        """Return what has changed since an act began that ended with its process; nothing if there was none."""
        return await anyio.to_thread.run_sync(self._recovered, execution_id, call)

    def open_acts(self) -> Sequence[tuple[Baseline, int]]:
        """Note that the session writes in the directories by itself, for the comparisons of other sessions. Blocks."""
        owner = self._parts.session_id
        kept = [baseline for baseline in self._opened().values() if baseline.is_kept]
        return [(baseline, baseline.open_act(owner, is_compared=False)) for baseline in kept]

    def _note(self, snapshots: dict[str, Snapshot]) -> None:
        self._known, self._known_at = snapshots, Seq(len(self._parts.log))

    async def close(self) -> None:
        """End what is running, and close the databases."""
        if self._preparing is not None:
            self._preparing.cancel()
        baselines = (self._baselines or {}).values()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: [baseline.close() for baseline in baselines])

    async def _on_thread(self, look: Callable[[bool, Callable[[], bool]], T], opens: bool) -> T:
        """Run a look on a thread. If nobody waits for it any more, it ends soon."""
        stop = threading.Event()
        try:
            return await anyio.to_thread.run_sync(look, opens, stop.is_set, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            stop.set()
            raise

    # --- on a thread --------------------------------------------------------------------------------------------------

    def _opened(self) -> dict[str, Baseline]:
        if self._baselines is None:
            folder = self._parts.settings.state_dir / FOLDER
            forget_unused(str(folder))
            roots = [each for each in self._workspace.real_roots if self._is_comparable(each)]
            outer = [each for each in roots if not any(each != other and is_inside(each, (other,)) for other in roots)]
            self._baselines = {
                root: Baseline(root, str(folder / f"{_digest(root)}.db"), self._is_storable) for root in outer
            }
        return self._baselines

    def _is_comparable(self, root: str) -> bool:
        state = os.path.realpath(self._parts.settings.state_dir)
        if root in ("/", os.path.realpath(os.path.expanduser("~"))):
            self.unchecked[root] = _HOME
        elif is_inside(root, (state,)):
            self.unchecked[root] = _STATE
        return root not in self.unchecked

    def _is_storable(self, data: bytes) -> bool:
        return self._parts.redactor.storable(data) is not None

    def _snapshots(self, opens: bool, is_stopped: Callable[[], bool]) -> dict[str, tuple[Snapshot, int]]:
        found: dict[str, tuple[Snapshot, int]] = {}
        for root, baseline in self._opened().items():
            if (snapshot := self._snapshot(root, baseline, is_stopped)) is not None:
                found[root] = snapshot, baseline.open_act(self._parts.session_id) if opens else 0
        return found

    def _snapshot(
        self, root: str, baseline: Baseline, is_stopped: Callable[[], bool] = lambda: False
    ) -> Snapshot | None:
        if self.unchecked.get(root) == TOO_SLOW:
            return None
        try:
            snapshot = baseline.update(is_stopped)
        except TooLargeError:
            reason = TOO_LARGE
        except TooSlowError:
            reason = TOO_SLOW
        except StoppedError:
            return None
        except OSError as error:
            reason = error.strerror or str(error)
        except sqlite3.Error as error:
            reason = f"the earlier state of the directory cannot be saved: {error}"
        else:
            self.unchecked.pop(root, None)
            return snapshot
        if root not in self.unchecked:
            logger.warning("cannot compare %s: %s", root, reason)
        self.unchecked[root] = reason
        return None

    def _compared(
        self, begun: Begun, execution_id: ExecutionId, call: ToolCallId, saved: Collection[str]
    ) -> tuple[Changes, dict[str, Snapshot]]:
        maker = _Records(self._parts, self._workspace, execution_id, call)
        maker.saved = frozenset(map(os.path.realpath, saved))
        found: dict[str, Snapshot] = {}
        for root, (before, act) in begun.snapshots.items():
            baseline = self._opened()[root]
            after = self._snapshot(root, baseline)
            is_shared = baseline.close_act(act)
            if after is not None:
                found[root] = after
                maker.add(baseline, before, after, begun.started, doubt=SHARED if is_shared else "")
        notes = (*self._moves(begun.refs), *filter(None, (begun.others,)))
        return maker.changes(notes, self._untold()), found

    def _refs(self) -> Mapping[str, GitRefs | None]:
        return {root: git_refs(root) for root in self._workspace.real_roots}

    def _moves(self, before: Mapping[str, GitRefs | None]) -> Sequence[str]:
        """Return a phrase for what moved in each repository. An undo brings back files only."""
        now = self._refs()
        both = [(was, is_now) for root, was in before.items() if was and (is_now := now.get(root))]
        found = dict.fromkeys(phrase for was, is_now in both for phrase in moves(was, is_now))
        return [MOVED.format("; ".join(found))] if found else []

    def _recovered(self, execution_id: ExecutionId, call: ToolCallId) -> Sequence[FileWritten]:
        maker = _Records(self._parts, self._workspace, execution_id, call)
        for root, baseline in self._opened().items():
            try:
                before = baseline.cut_short(self._parts.session_id)
            except sqlite3.Error as error:
                logger.warning("cannot find the changes of an interrupted action in %s: %s", root, error)
                continue
            if before is not None and (after := self._snapshot(root, baseline)) is not None:
                maker.add(baseline, before, after, 0, doubt=CUT_SHORT)
        return maker.changes().events

    def _others(self, found: Mapping[str, tuple[Snapshot, int]], mine: Container[str]) -> str:
        """Return what somebody else has changed since the last act, in a line, or ""."""
        named: tuple[list[str], list[str], list[str]] = ([], [], [])
        for root, (now, _) in found.items():
            if (before := self._known.get(root)) is None:
                continue
            for each in sorted(_differences(root, before, now, 0), key=lambda found: found.path):
                path = name_text(os.path.join(root, each.path))
                if each.is_directory or path in mine:
                    continue
                named[0 if each.before is None else 1 if each.after else 2].append(self._workspace.shown(path))
        text = counted(zip(_CHANGED_WORDS, named, strict=True))
        return BY_OTHERS.format(text) if text else ""

    def _untold(self) -> Sequence[str]:
        """Return a phrase for each directory that cannot be compared, once."""
        fresh = {root: reason for root, reason in self.unchecked.items() if root not in self._told}
        self._told |= fresh.keys()
        return [NOT_COMPARED.format(self._workspace.shown(root), reason) for root, reason in fresh.items()]


def close_acts(acts: Sequence[tuple[Baseline, int]]) -> None:
    """End what `open_acts` has noted. Blocks."""
    for baseline, number in acts:
        baseline.close_act(number)


async def cut_short_changes(parts: SessionParts, execution_id: ExecutionId, call: ToolCallId) -> Sequence[FileWritten]:
    """Return what has changed since a command or a call of that execution began, which ended with its process.

    `call` is the innermost one. For a session that was just loaded.
    """
    comparison = TreeComparison(parts, Workspace(parts.cwd, parts.directories))
    try:
        return await comparison.recovered(execution_id, call)
    finally:
        await comparison.close()


def _paths(events: Iterable[Event]) -> Iterator[str]:
    """Yield the paths that the session itself has changed."""
    for event in events:
        match event:
            case FileWritten(path=path) | FileTouched(path=path):
                yield path
            case Rewound(restored=files) | RewindBegun(files=files):
                yield from (file.path for file in files)
            case _:
                pass


def _digest(root: str) -> str:
    return xxhash.xxh3_128_hexdigest(os.fsencode(root))


class _Difference(NamedTuple):
    """A path with what was and is there.

    `is_certain`: what is there now was not elsewhere before, where nothing is compared. `source`: it had that path.
    """

    path: str
    before: Known | None
    after: Known | None
    is_certain: bool = True
    source: str = ""

    @property
    def is_directory(self) -> bool:
        """Whether it is or was a directory, and nothing else."""
        return all(each is None or each.digest == DIRECTORY for each in (self.before, self.after))


class _Records:
    """Makes the records of one act."""

    def __init__(self, parts: SessionParts, workspace: Workspace, execution_id: ExecutionId, call: ToolCallId) -> None:
        self._parts = parts
        self._workspace = workspace
        self._execution = execution_id
        self._call = call
        self._events: list[FileWritten] = []
        self._named: tuple[list[str], list[str], list[str]] = ([], [], [])
        self._room = SHOWN_CHARS
        self._ambiguous: Container[str] = ()
        self._diffed = 0
        self._more = 0
        self.saved: Container[str] = ()
        """The real paths of files that the editor saved during the act."""

    def add(self, baseline: Baseline, before: Snapshot, after: Snapshot, started: int, *, doubt: str) -> None:
        """Add the records of one directory. `doubt` says why the changes may be somebody else's, or is ""."""
        found = sorted(_differences(baseline.root, before, after, started), key=lambda found: found.path)
        self._ambiguous = _ambiguous(found, before, after)
        if len(self._events) + len(found) > MOST_RECORDED:
            doubt = doubt or TOO_MANY
        for each in found:
            if len(self._events) >= MOST_RECORDED:
                self._more += 1
                continue
            event = self._event(baseline, each, doubt)
            self._events.append(event)
            if DIRECTORY not in (event.before_digest, event.after_digest):
                kind = 0 if not event.before_digest else 1 if event.after_digest else 2
                self._named[kind].append(self._workspace.shown(event.path))

    def changes(self, notes: Sequence[str] = (), unchecked: Sequence[str] = ()) -> Changes:
        """Return all records, and what they say in a line, with `notes`, and what could not be compared."""
        text = counted(zip(_CHANGED_WORDS, self._named, strict=True)) or (NONE_CHANGED if notes else "")
        if self._more:
            text += f", {self._more:,} more {plural(self._more, 'file')}; {NONE_UNDONE}"
        return Changes(self._events, "; ".join(filter(None, (text, *notes, *unchecked))))

    def _event(self, baseline: Baseline, found: _Difference, doubt: str) -> FileWritten:
        path = os.path.join(baseline.root, found.path)
        old, old_digest, notes = self._kept(baseline, found.before, "the earlier content is not stored: {}")
        new, new_digest, new_notes = self._kept(baseline, found.after, "the new content is not stored: {}")
        notes += new_notes
        unsure = doubt or (SAVED if path in self.saved else "" if found.is_certain else NOT_CERTAIN)
        if name_text(found.path) in self._ambiguous:
            unsure = AMBIGUOUS
        if unsure:
            notes.append(f"an undo leaves this file unchanged: {unsure}")
        changes: Sequence[TextChange] = ()
        is_shown = len(self._events) < SHOWN_FILES and DIRECTORY not in (old_digest, new_digest)
        if is_shown:
            notes += _form(found)
            if (data := self._texts(baseline, found)) is not None:
                self._diffed += sum(len(each or b"") for each in data)
                is_short = self._diffed <= DIFFED_BYTES
                changes, note = changes_of(*data, self._workspace.hide) if is_short else ((), TOO_LONG)
                notes += [note] * bool(note)
            if new_digest and (why := self._workspace.protection.why(path)):
                notes.append(f"check it before you continue: {why}")
            changes, note = shown_part(self._parts.redactor, changes, "\n".join(notes), self._room)
            self._room -= sum(len(each.new) + len(each.old or "") for each in changes)
        else:
            note = "\n".join(notes)
        return FileWritten(
            execution_id=self._execution,
            tool_call_id=self._call,
            path=name_text(path),
            before=old,
            after=new,
            before_digest=old_digest,
            after_digest=new_digest,
            changes=tuple(changes),
            note=note,
            noticed=True,
            unsure=unsure,
            unshown=not is_shown,
            before_mode=_mode(found.before),
            after_mode=_mode(found.after),
            source=name_text(os.path.join(baseline.root, found.source)) if found.source else "",
        )

    def _kept(self, baseline: Baseline, known: Known | None, note: str) -> tuple[BlobDigest | None, str, list[str]]:
        """Save the content. Return its digest in the store, its own digest, and a note if it is not saved."""
        if known is None or known.digest == DIRECTORY:
            return None, "" if known is None else DIRECTORY, []
        if known.reason:
            return None, known.digest, [note.format(known.reason)]
        data = baseline.content(known.digest)
        storable = None if data is None else self._parts.redactor.storable(data)
        if storable is None:
            return None, known.digest, [note.format("the content was lost or contains a secret")]
        return self._parts.store.blob_put(storable), known.digest, []

    def _texts(self, baseline: Baseline, found: _Difference) -> tuple[bytes | None, bytes] | None:
        """Return the contents to show as a diff; None if one is unknown, or nothing of it changed."""
        both = found.before, found.after
        if any(each is not None and (each.reason or each.state.is_link) for each in both):
            return None
        before, after = (None if each is None else baseline.content(each.digest) for each in both)
        if before == after or (found.before is not None and before is None):
            return None
        return before, after or b""


def _differences(root: str, before: Snapshot, after: Snapshot, started: int) -> Iterator[_Difference]:
    if before is after:
        return
    names: dict[int, str] = {}
    for path, now in after.items():
        was = _at(before, path)
        if was is now or (was is not None and was.is_like(now)):
            continue
        if was is not None and was.state.inode == now.state.inode:
            yield _Difference(path.rstrip("/"), was, now)
            continue
        born = _born(os.path.join(root, path))
        if born >= started or (was is not None and not born):
            yield _Difference(path.rstrip("/"), was, now)
            continue
        names = names or {known.state.inode: name for name, known in before.items()}
        source = names.get(now.state.inode, "")
        there = _at(after, source)
        is_moved = there is None or there.state.inode != now.state.inode
        # Its name may be taken by a directory of which nothing is compared, so it could not go back.
        is_free = there is not None or not is_listed(os.path.join(root, source))
        yield _Difference(path.rstrip("/"), was, now, bool(source) and is_free, source.rstrip("/") if is_moved else "")
    for path, was in before.items():
        # One that is still there is only left out of comparisons now.
        if _at(after, path) is None and not is_listed(os.path.join(root, path.rstrip("/"))):
            yield _Difference(path.rstrip("/"), was, None)


def _ambiguous(found: Sequence[_Difference], *snapshots: Snapshot) -> Container[str]:
    """Return the names of changed files that several files have, as far as text can tell."""
    if all(name_text(each.path) == each.path for each in found):
        return ()
    named: dict[str, set[str]] = {}
    for path in (path.rstrip("/") for snapshot in snapshots for path in snapshot):
        named.setdefault(name_text(path), set()).add(path)
    return frozenset(text for text, paths in named.items() if len(paths) > 1)


def _at(snapshot: Snapshot, path: str) -> Known | None:
    """Return what has the name, a directory or not."""
    found = snapshot.get(path)
    return found or snapshot.get(path[:-1] if path.endswith("/") else f"{path}/")


def _form(found: _Difference) -> list[str]:
    """Say what a diff of text does not."""
    before, after = found.before, found.after
    notes: list[str] = []
    if after is None:
        notes.append("the file was removed")
    elif after.state.is_link:
        notes.append(
            "the path is a symbolic link now" if before is None or not before.state.is_link else "the link changed"
        )
    elif before is not None and before.state.is_link:
        notes.append("the path was a symbolic link")
    elif before is not None and before.permissions != after.permissions:
        notes.append(f"mode {before.permissions:o} -> {after.permissions:o}")
    return notes


def _mode(known: Known | None) -> int | None:
    return None if known is None or known.state.is_link else known.permissions


# --- the time of birth ------------------------------------------------------------------------------------------------

_SLACK_NS: Final = 20_000_000
"""The file system's clock lags by up to a tick."""


def _born(path: str) -> int:
    """Return when an entry was made, in nanoseconds since the epoch, rounded up by a tick; 0 if nobody knows."""
    birth = birth_of(path)
    return birth and birth + _SLACK_NS
