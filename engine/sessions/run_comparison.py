"""What came out differently when a statement ran again with its effects, or another one in its place.

Compared is what each came to, which of the files that both have read had another content, and what they left of files.
Used by `live_replay` and `editing`, one for each of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..events import Event
from ..events.execution import EffectAnswered, ExecutionFinished
from ..events.nodes import seen_in
from ..events.replays import Diverged
from ..ids import ExecutionId, Seq
from ..log import EventLog
from ..timeline.compared import aspects_of_live_rerun
from ..timeline.divergence import differences, ending_of
from ..timeline.index import Execution


class RunComparison:
    """`divergences` are all that was found so far."""

    def __init__(self, log: EventLog) -> None:
        self.divergences: list[Diverged] = []
        self._log = log

    def compare(self, statement: int, before: Execution, start: int, after: ExecutionFinished) -> Iterable[Event]:
        """The events to be recorded ahead of the record `after`, of what began at position `start` of the log."""
        redacted = self._log.redacted(after)
        assert isinstance(redacted, ExecutionFinished)
        if before.finished is None:
            return
        found = differences(ending_of(before.finished), ending_of(redacted))
        then = self._read(before.started.execution_id, before.started.seq, before.finished.seq)
        now = self._read(after.execution_id, start, len(self._log))
        # Only what both have read can be compared: what a node knew already it does not read again.
        both = then.keys() & now.keys()
        read = ({path: then[path] for path in both}, {path: now[path] for path in both})
        for change in aspects_of_live_rerun(found, read, (_left(before.finished), _left(after))):
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

    def _read(self, execution_id: ExecutionId, start: int, end: int) -> Mapping[str, str]:
        """The digests of the files that an execution read, by path: through a tool, and first by a view."""
        found: dict[str, str] = {}
        for position in range(start, end):
            event = self._log.at(Seq(position))
            if isinstance(event, EffectAnswered) and event.execution_id == execution_id and event.digest:
                found[event.path] = event.digest
            for look in seen_in(event):
                found.setdefault(look.path, look.digest)
        return found


def _left(record: ExecutionFinished) -> Mapping[str, str]:
    return {artifact.path: artifact.after_digest for artifact in record.artifacts}
