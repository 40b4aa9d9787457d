"""What the files held that a session has written, as its log says it: what a rewind puts back, and what it cannot.

Pure. A disk has no branches: it goes from one content to the next in the order of the whole log, whichever branch was
active. So the target of a rewind is a position on the log, and a file that was written from there on is to hold what it
held before the first of these writes. That is not always what the session had written last before the position: what
somebody else changed in between was there when the session overwrote it, and comes back. What rewinds did counts as
writes. Called by `sessions.rewinding` and by whoever lists what a rewind would do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..core.execution import UNREAD, Artifact
from ..core.ids import ExecutionId, Seq, ToolCallId
from ..core.text import ELLIPSIS, more, plural, printable
from .events import Event
from .events.conversation import ToolCall, ToolResult
from .events.execution import EffectRequested, ExecutionFinished, ExecutionStarted, FileTouched, FileWritten
from .events.going_back import FileLeft, FileToRestore, HeadMoved, RewindBegun, Rewound

_NOT_KEPT: Final = "what it held then is not kept, because it holds a secret"


class Restorable(Struct, frozen=True):
    """The files that were written since a position: those that can go back, and those that cannot, with the reason."""

    files: tuple[FileToRestore, ...]
    left: tuple[FileLeft, ...]


def restorable(since: Iterable[Event]) -> Restorable:
    """What is to be done to the files for them to be as they were before these events, the last ones of a log."""
    found: dict[str, FileToRestore] = {}
    unread: dict[str, str] = {}
    lost: dict[str, str] = {}
    modes: dict[ToolCallId, ToolCall] = {}
    for event in since:
        match event:
            case ToolCall(tool="chmod", tool_call_id=call):
                modes[call] = event
            case ToolResult(tool_call_id=call, status="ok") if call in modes:
                _take_mode(found, modes.pop(call))
            case FileTouched(path=path, note=note) if note:
                unread[path] = note
            case FileWritten(path=path):
                if path not in found and (reason := _why_not(event, unread.get(path, ""))):
                    lost[path] = reason
                _take(found, _as_written(event))
            case Rewound(restored=restored):
                for file in restored:
                    if file.path not in found and file.present is None and file.present_digest:
                        lost[file.path] = "what it held then is not kept"
                    _take(found, file, undone=True)
            case _:
                pass
    changed = [file for file in found.values() if file.present_digest != file.wanted_digest]
    return Restorable(
        tuple(file for file in changed if file.path not in lost),
        tuple(FileLeft(path=file.path, reason=lost[file.path]) for file in changed if file.path in lost),
    )


def open_rewind(events: Iterable[Event]) -> RewindBegun | None:
    """The rewind that was under way where these events end, the newest of a log first; None where none was."""
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
    """Adds what became of the file: `wanted` stays what it held first, `present` is what it holds since.

    `undone`: not the write of `present` but its way back to `wanted` has taken place.
    """
    if undone:
        file = reversed_(file)
    first = found.get(file.path, file)
    found[file.path] = replace(
        first, present=file.present, present_digest=file.present_digest, present_mode=file.present_mode
    )


def _take_mode(found: dict[str, FileToRestore], call: ToolCall) -> None:
    """A statement has set the permissions of a file; they are the session's, no less than what it wrote."""
    match call.arguments:
        case {"path": str(path), "mode": int(mode)} if path in found:
            found[path] = replace(found[path], present_mode=mode)
        case _:
            pass


def reversed_(file: FileToRestore) -> FileToRestore:
    """The way back of a restoration."""
    return FileToRestore(
        path=file.path,
        present=file.wanted,
        present_digest=file.wanted_digest,
        present_mode=file.wanted_mode,
        wanted=file.present,
        wanted_digest=file.present_digest,
        wanted_mode=file.present_mode,
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
    )


def _why_not(event: FileWritten, note: str) -> str:
    """Why what the file held before is not kept; empty where it is, or where there was no file."""
    if event.before is not None or not event.before_digest:
        return ""
    if event.before_digest.startswith(UNREAD):
        return f"what it held then is not kept, because {note}" if note else "what it held then was not read"
    return _NOT_KEPT


# files then:
# What files held around the recorded acts of an execution, for a statement that is given its answers again.
#
# Pure. Such a statement finds a file as it was ahead of the first act on it which it has not repeated yet, whatever
# the disk has by now. One that was itself given recorded answers has no acts: those of the execution in whose place
# it ran stand for it. Used by `session.acts.recorded_answers`, made by `session.past.editing`.

Question = tuple[str, str]
"""An operation and the digest of its arguments."""


class ActOnFile(Struct, frozen=True):
    """What one act made of one file: the `turn`-th time, from 0, that its execution asked for the same."""

    question: Question
    turn: int
    written: FileWritten


def acts_of(at: Callable[[Seq], Event], started: ExecutionStarted, ended: Seq) -> Sequence[ActOnFile]:
    """The acts by which the execution that ended there changed files, or those that its answers are of, in order.

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


# touches:
# Which files the code of an execution is about to write or has written by now, as the log says it.
#
# Pure. A file that was touched is *open* until its execution has ended: what it held before is known, and what it
# holds afterwards has to be looked at, at the end of the statement or, where the host was killed in the middle, when
# the session is loaded. Called by `sessions.touches` and `session.repair`.


def open_touches(events: Iterable[Event]) -> tuple[FileTouched, ...]:
    """The open files, each with what it is to be compared with: what was there first, or what was recorded since.

    A tool of the host may write a file that the statement's own code has touched. That is recorded by itself, and what
    comes after it starts from there.
    """
    found: dict[str, FileTouched] = {}
    for event in events:
        match event:
            case FileTouched(path=path):
                found.setdefault(path, event)
            case FileWritten(path=path) if path in found:
                found[path] = replace(
                    found[path],
                    before=event.after,
                    before_digest=event.after_digest,
                    note="",
                    withheld=event.withheld,
                    mode=event.after_mode,
                )
            case ExecutionFinished():
                found.clear()
            case _:
                pass
    return tuple(found.values())


def artifacts_of(events: Iterable[Event], execution_id: ExecutionId) -> tuple[Artifact, ...]:
    """The files that are otherwise than the execution found them, in the order in which they were first written."""
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


# rewound:
# What a rewind did to files, in words: one text for the report, the editor and the model. Pure.

SHOWN_FILES: Final = 20
_FINISHED: Final = "A rewind that was cut off, because its process ended, is finished now."


def rewound_lines(event: Rewound, shown: Callable[[str], str]) -> Sequence[str]:
    """A sentence on the files that went back, and one on each that was left as it was; none where there was neither.

    Args:
        shown: how a path is spelled for whoever reads it.
    """
    count, names = len(event.restored), _names(event.restored, shown)
    files = plural(count, "file")
    if event.cancelled:
        back = f" {count} {files} could not be brought back to that: {names}." if count else ""
        return (f"The rewind was given up, and the files are as they were before it.{back}",)
    when = f"after statement {event.statement}" if event.statement else "at the beginning"
    lines = [f"Restored {count} {files} to what was there {when}: {names}."] * bool(count)
    lines += [f"{_name(left, shown)} is left as it is: {left.reason}." for left in event.left[:SHOWN_FILES]]
    if len(event.left) > SHOWN_FILES:
        lines.append(more(len(event.left) - SHOWN_FILES, "file", "that are left as they are"))
    return lines


def finished_lines(settled: Sequence[Event], shown: Callable[[str], str]) -> Sequence[str]:
    """Sentences on the rewind that the opening of a session has brought to its end; none where there was none.

    Args:
        settled: what the opening has added to the log.
        shown: as above.
    """
    files = [line for event in settled if isinstance(event, Rewound) for line in rewound_lines(event, shown)]
    head = [f"The session is on branch {event.branch}." for event in settled if isinstance(event, HeadMoved)]
    return [_FINISHED, *files, *head] if files else ()


def _names(files: Iterable[FileToRestore], shown: Callable[[str], str]) -> str:
    names = [_name(file, shown) for file in files]
    return ", ".join([*names[:SHOWN_FILES], *[ELLIPSIS] * (len(names) > SHOWN_FILES)])


def _name(file: FileToRestore | FileLeft, shown: Callable[[str], str]) -> str:
    return printable(shown(file.path))
