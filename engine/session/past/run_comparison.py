"""What came out differently when a statement ran again with its effects, or another one in its place.

Compared is what each came to, which of the files that both have read had another content, and what they left of files.
Used by `live_replay` and `editing`, one for each of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...core.ids import ExecutionId, Seq
from ...log.comparison import aspects_of_live_rerun, differences, ending_of
from ...log.event_log import EventLog
from ...log.events import Event
from ...log.events.execution import EffectAnswered, ExecutionFinished, FileTouched, FileWritten
from ...log.events.going_back import Diverged
from ...log.events.nodes import seen_in
from ...log.timeline import Execution


class RunComparison:
    """`divergences` are all that was found so far. Where statements do not act, it says nothing that files differ."""

    def __init__(self, log: EventLog, *, acts: bool = True) -> None:
        self.divergences: list[Diverged] = []
        self._log = log
        self._acts = acts

    def compare(self, statement: int, before: Execution, start: int, after: ExecutionFinished) -> Iterable[Event]:
        """The events to be recorded ahead of the record `after`, of what began at position `start` of the log."""
        redacted = self._log.redacted(after)
        assert isinstance(redacted, ExecutionFinished)
        if before.finished is None:
            return
        found = differences(ending_of(before.finished), ending_of(redacted))
        then = self._files(before.started.execution_id, before.started.seq, before.finished.seq)
        now = self._files(after.execution_id, start, len(self._log))
        # Only what both have read can be compared: what a node knew already it does not read again.
        both = then.read.keys() & now.read.keys()
        read = ({path: then.read[path] for path in both}, {path: now.read[path] for path in both})
        # One of them may have found a file as the other one left it, and so have changed nothing.
        artifacts = (*before.finished.artifacts, *after.artifacts) if self._acts else ()
        changed = {artifact.path for artifact in artifacts}
        left = [{path: each.left[path] for path in changed & each.left.keys()} for each in (then, now)]
        for change in aspects_of_live_rerun(found, read, (left[0], left[1])):
            event = Diverged(
                execution_id=after.execution_id,
                against=before.started.execution_id,
                statement=statement,
                aspect=change.aspect,
                before=change.before,
                after=change.after,
            )
            self.divergences.append(event)
            yield event

    def _files(self, execution_id: ExecutionId, start: int, end: int) -> _Files:
        files = _Files({}, {})
        for position in range(start, end):
            event = self._log.at(Seq(position))
            match event:
                case EffectAnswered(execution_id=owner, path=path, digest=digest) if owner == execution_id and digest:
                    files.read[path] = files.left[path] = digest
                case FileTouched(execution_id=owner, path=path, before_digest=digest) if owner == execution_id:
                    files.left.setdefault(path, digest)
                case FileWritten(execution_id=owner, path=path, after_digest=digest) if owner == execution_id:
                    files.left[path] = digest
                case _:
                    pass
            for look in seen_in(event):
                files.read.setdefault(look.path, look.digest)
        return files


class _Files(NamedTuple):
    """Digests of files by path: as an execution read them, through a tool or first by a view, and as it left them."""

    read: dict[str, str]
    left: dict[str, str]
