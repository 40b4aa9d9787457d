"""What the files held that a session has written, as its log says it: what a rewind puts back, and what it cannot.

Pure. A disk has no branches: it goes from one content to the next in the order of the whole log, whichever branch was
active. So the target of a rewind is a position on the log, and a file that was written from there on is to hold what it
held before the first of these writes. That is not always what the session had written last before the position: what
somebody else changed in between was there when the session overwrote it, and comes back. What rewinds did counts as
writes. Called by `sessions.rewinding` and by whoever lists what a rewind would do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...core.execution import UNREAD
from ...core.ids import ToolCallId
from ..events import Event
from ..events.conversation import ToolCall, ToolResult
from ..events.execution import FileTouched, FileWritten
from ..events.rewinding import FileLeft, FileToRestore, RewindBegun, Rewound

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
