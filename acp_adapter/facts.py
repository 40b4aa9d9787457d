"""What the translation of events asks about the session they happened in, besides the events themselves.

A Protocol, so that updates can be made from plain values in a test. The engine's `Session` is one: it has folded its
log once already, and nobody folds it a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # of the session stage
    from engine import CycleSummary, OptionValues, StatementId
    from engine.log.events.execution import StatementRecorded


class Facts(Protocol):
    """One session, as the translation of its events sees it."""

    @property
    def cwd(self) -> str:
        """The session's directory, an absolute path."""
        ...

    def spelled(self, path: str) -> str:
        """An absolute path as the client spells it: below a directory of the session as that was given."""
        ...

    def options_at(self, seq: int) -> OptionValues:
        """Mode and options as they were when the event at `seq` had been taken."""
        ...

    def statement(self, statement_id: StatementId) -> StatementRecorded | None:
        """The statement of that id; None where there is none."""
        ...

    def cycle_ended_by(self, seq: int) -> CycleSummary | None:
        """The request cycle that the run-stop at `seq` ended; None where it ended none."""
        ...
