"""Which files the code of an execution is about to write or has written by now, as the log says it.

Pure. A file that was touched is *open* until its execution has ended: what it held before is known, and what it holds
afterwards has to be looked at, at the end of the statement or, where the host was killed in the middle, when the
session is loaded. Called by `sessions.touches` and `session.repair`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ...core.execution import Artifact
from ...core.ids import ExecutionId
from ..events import Event
from ..events.execution import ExecutionFinished, FileTouched, FileWritten


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
