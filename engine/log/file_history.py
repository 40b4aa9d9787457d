"""Earlier contents of the files that a session wrote, as its log has them.

**Rewinds.** A disk has no branches: its contents follow each other in the order of the whole log, whatever branch was
active. So the target of a rewind is a position on the log, and each file that was written since gets the content from
before the first of these writes. That content may be somebody else's, written between the session's own writes; it
comes back, too. What rewinds did counts as writes. If one merged somebody's changes, these are no write of the session:
the content that the session alone would have is carried along (`own`), and the next rewind merges, too.

**Answered statements.** A statement that runs again with recorded answers finds a file as it was before the first
recorded act on it that it has not repeated yet, whatever the disk has now.

**Touched files.** A file that a statement's own code writes is *open* until the execution ends. Its earlier content is
known; its later content is looked up at the end of the statement, or when the session is loaded after a crash.

Pure. Called by rewinds, edits, replays and repairs in `session`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..core.execution import DIRECTORY, UNREAD, Artifact
from ..core.ids import BlobDigest, ExecutionId, Seq, ToolCallId
from ..core.text import ELLIPSIS, more, plural, printable
from .events import Event
from .events.conversation import ToolCall, ToolResult
from .events.execution import EffectRequested, ExecutionFinished, ExecutionStarted, FileTouched, FileWritten
from .events.going_back import FileLeft, FileToRestore, HeadMoved, OwnContents, RewindBegun, Rewound

SHOWN_FILES: Final = 20
"""How many files a sentence or report names."""
_NOT_KEPT: Final = "the earlier content is not stored, because it contains a secret"
_OWNER: Final = 0o700
"""What an owner needs to write in a directory."""
MERGED: Final = "{} of these files {} merged with changes by others: {}."
_FINISHED: Final = "A crash interrupted a rewind. Rewindow has now finished the rewind."

Question = tuple[str, str]
"""An operation and the digest of its arguments."""


# --- rewinds ----------------------------------------------------------------------------------------------------------


class Restorable(Struct, frozen=True):
    """The files written since a position: those that can be restored, and those that cannot, with the reason."""

    files: tuple[FileToRestore, ...]
    left: tuple[FileLeft, ...]


def restorable(since: Iterable[Event], *, despite_doubt: bool = False) -> Restorable:
    """Return how to restore the files to their state before these events, the last ones of a log, in this order.

    Files that may be somebody else's are left, unless `despite_doubt`.
    """
    found: dict[str, FileToRestore] = {}
    unread: dict[str, str] = {}
    lost: dict[str, str] = {}
    modes: dict[ToolCallId, ToolCall] = {}
    for event in since:
        match event:
            case FileTouched(path=path, note=note) if note:
                unread[path] = note
            case FileWritten(path=path):
                is_first = path not in found
                if reason := (event.unsure if not despite_doubt else "") or (
                    _why_not(event, unread.get(path, "")) if is_first else ""
                ):
                    lost[path] = reason
            case Rewound(restored=restored):
                for file in restored:
                    if file.path not in found and is_unknown(file.present, file.present_digest):
                        lost[file.path] = "the earlier content is not stored"
            case _:
                pass
        _take_event(found, modes, event)
    changed = sorted((each for file in found.values() if _differs(file) for each in _steps(file)), key=_order)
    return Restorable(
        tuple(file for file in changed if file.path not in lost),
        tuple(FileLeft(path=file.path, reason=lost[file.path]) for file in changed if file.path in lost),
    )


def written(events: Iterable[Event]) -> Sequence[FileToRestore]:
    """Return how to give files the contents that a session left them with, in this order, where it never was.

    Args:
        events: all of its log. A disk has no branches, so those of all branches count.
    """
    found: dict[str, FileToRestore] = {}
    modes: dict[ToolCallId, ToolCall] = {}
    for event in events:
        _take_event(found, modes, event)
    changed = (reversed_(file) for file in found.values() if _differs(file))
    return sorted((step for file in changed for step in _steps(file)), key=_order)


def _take_event(found: dict[str, FileToRestore], modes: dict[ToolCallId, ToolCall], event: Event) -> None:
    """Add what an event says of files; `modes` are the calls that set permissions and have not ended."""
    match event:
        case ToolCall(tool="chmod", tool_call_id=call):
            modes[call] = event
        case ToolResult(tool_call_id=call, status="ok") if call in modes:
            _take_mode(found, modes.pop(call))
        case FileWritten():
            _take(found, _as_written(event))
        case Rewound(restored=restored):
            for file in restored:
                _take(found, file, undone=True)
        case _:
            pass


def _differs(file: FileToRestore) -> bool:
    own = file.own
    is_undone = own is not None and own.present_digest == own.wanted_digest == file.wanted_digest
    if file.present_digest != file.wanted_digest and not is_undone:
        return True
    return None not in (file.present_mode, file.wanted_mode) and file.present_mode != file.wanted_mode


def _steps(file: FileToRestore) -> Sequence[FileToRestore]:
    """Return how a file is restored: a directory that its owner may not write gets its permissions last."""
    if file.wanted_digest != DIRECTORY or file.present_digest == DIRECTORY or _is_writable(file.wanted_mode):
        return (file,)
    made = replace(file, wanted_mode=(file.wanted_mode or 0) | _OWNER)
    closed = replace(
        file, present=None, present_digest=DIRECTORY, present_mode=made.wanted_mode, wanted_mode=file.wanted_mode
    )
    return made, closed


def _is_writable(mode: int | None) -> bool:
    return mode is None or mode & _OWNER == _OWNER


def _order(file: FileToRestore) -> tuple[int, int]:
    """Order files so that a directory is made and opened before what is in it, and removed or closed after that.

    Files are removed after others came back, because one that moved is the only copy until then. But what stands where
    a directory is wanted goes first.
    """
    depth = file.path.count("/")
    if file.wanted_digest == DIRECTORY == file.present_digest:
        return (-2, depth) if _is_writable(file.wanted_mode) else (3, -depth)
    if file.wanted_digest == DIRECTORY != file.present_digest:
        return -1, depth
    if file.present_digest == DIRECTORY != file.wanted_digest:
        return 2, -depth
    return (0, 0) if file.wanted_digest else (1, 0)


def stages(files: Sequence[FileToRestore]) -> Iterator[Sequence[FileToRestore]]:
    """Yield the files of a plan in groups whose order matters; within a group it does not."""
    keys = [_order(file) for file in files]
    start = 0
    for place in range(1, len(files) + 1):
        if place == len(files) or keys[place] != keys[start] or files[place].path == files[start].path:
            yield files[start:place]
            start = place


def is_unknown(content: BlobDigest | None, digest: str) -> bool:
    """Return whether something was there whose content is not stored. A directory has none."""
    return content is None and digest not in ("", DIRECTORY)


def open_rewind(events: Iterable[Event]) -> RewindBegun | None:
    """Return the rewind that has not ended, or None. `events` are a log's, the newest first."""
    for event in events:
        match event:
            case Rewound():
                return None
            case RewindBegun():
                return event
            case _:
                pass
    return None


def _take(found: dict[str, FileToRestore], file: FileToRestore, *, undone: bool = False) -> None:
    """Add a change of the file: `wanted` stays its first content, `present` becomes its latest.

    `undone`: the change was the restoration `file`, from its `present` back to its `wanted`.
    """
    if undone:
        file = reversed_(file)
    first = found.get(file.path, file)
    origin = found.get(file.source)
    found[file.path] = replace(
        first,
        present=file.present,
        present_digest=file.present_digest,
        present_mode=file.present_mode,
        source=(origin.source if origin is not None else "") or file.source or first.source,
        own=None if file.own is None else _own(file.own, first),
        is_merged=False,
    )


def _own(last: OwnContents, first: FileToRestore) -> OwnContents:
    """Return the session's part of a file whose last change was a merge."""
    wanted = (first.wanted, first.wanted_digest) if first.own is None else (first.own.wanted, first.own.wanted_digest)
    return replace(last, wanted=wanted[0], wanted_digest=wanted[1])


def is_merge_due(file: FileToRestore) -> bool:
    """Return whether a file has others' changes that the wanted content lacks, though it is as the rewind expects."""
    own = file.own
    is_theirs_in = own is not None and own.present_digest != file.present_digest
    return is_theirs_in and own is not None and own.wanted_digest == file.wanted_digest and not file.is_merged


def _take_mode(found: dict[str, FileToRestore], call: ToolCall) -> None:
    """Take the permissions that a statement set on a written file; they belong to the session like the content."""
    match call.arguments:
        case {"path": str(path), "mode": int(mode)} if path in found:
            found[path] = replace(found[path], present_mode=mode)
        case _:
            pass


def reversed_(file: FileToRestore) -> FileToRestore:
    """Return the restoration that undoes this one."""
    return FileToRestore(
        path=file.path,
        present=file.wanted,
        present_digest=file.wanted_digest,
        present_mode=file.wanted_mode,
        wanted=file.present,
        wanted_digest=file.present_digest,
        wanted_mode=file.present_mode,
        own=None if file.own is None else _reversed(file.own),
    )


def _reversed(own: OwnContents) -> OwnContents:
    return OwnContents(
        present=own.wanted, present_digest=own.wanted_digest, wanted=own.present, wanted_digest=own.present_digest
    )


def _as_written(event: FileWritten) -> FileToRestore:
    return FileToRestore(
        path=event.path,
        present=event.after,
        present_digest=event.after_digest,
        present_mode=event.after_mode,
        wanted=event.before,
        wanted_digest=event.before_digest,
        wanted_mode=event.before_mode,
        source=event.source,
    )


def _why_not(event: FileWritten, note: str) -> str:
    """Return why the earlier content is not restored; empty if it is, or if there was no file."""
    if not is_unknown(event.before, event.before_digest):
        return ""
    if event.before_digest.startswith(UNREAD):
        return f"the earlier content is not stored, because {note}" if note else "the earlier content was not read"
    return _NOT_KEPT


# --- recorded acts of an execution ------------------------------------------------------------------------------------


class ActOnFile(Struct, frozen=True):
    """The write of one file by one act. `turn` counts, from 0, how often the execution asked the same before."""

    question: Question
    turn: int
    written: FileWritten


def acts_of(at: Callable[[Seq], Event], started: ExecutionStarted, ended: Seq) -> Sequence[ActOnFile]:
    """Return the acts by which an execution changed files, in order.

    An execution that itself got recorded answers has no acts; those of the execution that it replaced count.

    Args:
        at: finds the events of the whole log.
    """
    while started.answered and started.against is not None:
        found = _start(at, started.against, started.seq)
        if found is None:
            return ()
        started, ended = found, _end(at, found, ended)
    acts: list[ActOnFile] = []
    asked: dict[ToolCallId, tuple[Question, int]] = {}
    turns: Counter[Question] = Counter()
    for place in range(started.seq, ended):
        match at(Seq(place)):
            case EffectRequested(execution_id=owner, tool_call_id=str() as call) as request:
                if owner == started.execution_id:
                    question = request.operation, request.argument_digest
                    asked[call] = question, turns[question]
                    turns[question] += 1
            case FileWritten(execution_id=owner, tool_call_id=call) as written:
                if owner == started.execution_id and call in asked:
                    acts.append(ActOnFile(*asked[call], written))
            case _:
                pass
    return acts


def _start(at: Callable[[Seq], Event], execution_id: ExecutionId, before: Seq) -> ExecutionStarted | None:
    for place in range(before - 1, -1, -1):
        event = at(Seq(place))
        if isinstance(event, ExecutionStarted) and event.execution_id == execution_id:
            return event
    return None


def _end(at: Callable[[Seq], Event], started: ExecutionStarted, before: Seq) -> Seq:
    for place in range(started.seq, before):
        event = at(Seq(place))
        if isinstance(event, ExecutionFinished) and event.execution_id == started.execution_id:
            return Seq(place)
    return before


# --- touched files ----------------------------------------------------------------------------------------------------


def open_touches(events: Iterable[Event]) -> tuple[FileTouched, ...]:
    """Return the open files, each with the content to compare it with: its first one, or the last recorded.

    If a tool of the host writes a file that the statement's own code touched, that write has its own record, and the
    comparison starts from there. A file that a tool was about to write is open until that record, or the call's end.
    """
    found: dict[str, FileTouched] = {}
    by_tools: dict[str, FileTouched] = {}
    for event in events:
        match event:
            case FileTouched(path=path, tool_call_id=str()):
                by_tools[path] = event
            case FileTouched(path=path, found=is_found):
                # A program made it before the statement's own code touched it.
                found[path] = event if is_found else found.get(path, event)
            case FileWritten(path=path):
                by_tools.pop(path, None)
                if path in found:
                    found[path] = _from(found[path], event)
            case ToolResult(tool_call_id=call):
                by_tools = {path: each for path, each in by_tools.items() if each.tool_call_id != call}
            case ExecutionFinished():
                found.clear()
                by_tools.clear()
            case _:
                pass
    return tuple({**by_tools, **found}.values())


def _from(touched: FileTouched, written: FileWritten) -> FileTouched:
    return replace(
        touched,
        before=written.after,
        before_digest=written.after_digest,
        note="",
        withheld=written.withheld,
        mode=written.after_mode,
    )


def artifacts_of(events: Iterable[Event], execution_id: ExecutionId) -> tuple[Artifact, ...]:
    """Return the files that the execution changed, in the order in which they were first written."""
    found: dict[str, Artifact] = {}
    for event in events:
        match event:
            case FileTouched(execution_id=owner, path=path, before_digest=before) if owner == execution_id:
                found.setdefault(path, Artifact(path=path, before_digest=before, after_digest=before))
            case FileWritten(execution_id=owner, path=path, before_digest=before) if owner == execution_id:
                first = found.get(path, Artifact(path=path, before_digest=before))
                found[path] = replace(first, after_digest=event.after_digest)
            case _:
                pass
    return tuple(each for each in found.values() if each.before_digest != each.after_digest)


# --- rewinds in words -------------------------------------------------------------------------------------------------


def rewound_lines(event: Rewound, shown: Callable[[str], str]) -> Sequence[str]:
    """Return sentences on the restored files and on each that was left: for report, editor and model.

    Args:
        shown: spells a path for the reader.
    """
    count, names = len({file.path for file in event.restored}), restored_names(event, shown)
    files, its = plural(count, "file"), "its" if count == 1 else "their"
    if event.cancelled:
        back = f" {count} {files} could not be changed back: {names}." if count else ""
        return (f"The rewind was cancelled, and its file changes were undone.{back}",)
    merged = merged_lines(event.restored, shown)
    if event.undone is not None:
        did = "Restored the changes of statement {} to" if event.is_redo else "Undid the changes of statement {} to"
        lines = [f"{did.format(event.statement)} {count} {files}: {names}."] * bool(count)
        return [*lines, *merged, *left_lines(event, shown)]
    when = f"after statement {event.statement}" if event.statement else "at the beginning"
    lines = [f"Restored {count} {files} to {its} contents {when}: {names}."] * bool(count)
    return [*lines, *merged, *left_lines(event, shown)]


def merged_lines(files: Iterable[FileToRestore], shown: Callable[[str], str], *, is_dry: bool = False) -> Sequence[str]:
    """Return a sentence on the files of a rewind that somebody else had changed; none if there are none."""
    found = [file for file in files if file.is_merged]
    verb = "would be" if is_dry else "was" if len(found) == 1 else "were"
    return [MERGED.format(len(found), verb, _names(found, shown))] if found else []


def restored_names(event: Rewound, shown: Callable[[str], str]) -> str:
    """Return the names of the restored files, spelled by `shown`."""
    return _names(event.restored, shown)


def left_lines(event: Rewound | Restorable, shown: Callable[[str], str]) -> Sequence[str]:
    """Return a sentence on each file that was not restored, spelled by `shown`."""
    lines = [f"{_name(left, shown)} was not restored: {left.reason}." for left in event.left[:SHOWN_FILES]]
    if len(event.left) > SHOWN_FILES:
        lines.append(more(len(event.left) - SHOWN_FILES, "file", "that were not restored"))
    return lines


def finished_lines(settled: Sequence[Event], shown: Callable[[str], str]) -> Sequence[str]:
    """Return sentences on a rewind that the opening of a session finished; none if there was none.

    Args:
        settled: the events that the opening added to the log.
        shown: as in `rewound_lines`.
    """
    files = [line for event in settled if isinstance(event, Rewound) for line in rewound_lines(event, shown)]
    head = [f"The session is on branch {event.branch}." for event in settled if isinstance(event, HeadMoved)]
    return [_FINISHED, *files, *head] if files else ()


def _names(files: Iterable[FileToRestore], shown: Callable[[str], str]) -> str:
    names = list(dict.fromkeys(_name(file, shown) for file in files))
    return ", ".join([*names[:SHOWN_FILES], *[ELLIPSIS] * (len(names) > SHOWN_FILES)])


def _name(file: FileToRestore | FileLeft, shown: Callable[[str], str]) -> str:
    return printable(shown(file.path))
