"""What is asked of a replay, and how one went: plain values.

Used by `replaying`, by the command `/replay`, and by who calls `Session.replay`.
"""

from __future__ import annotations

from msgspec import Struct

from ..events.execution import ExecutionFinished
from ..events.replays import Diverged, ReplayOutcome
from ..execution import ReplayMode


class ReplayRequest(Struct, frozen=True):
    """Run the statements `first` to `last` again, by their numbers; to the newest where `last` is None."""

    first: int
    last: int | None = None
    mode: ReplayMode = "recorded"

    @property
    def command(self) -> str:
        """As a person would type it."""
        last = "" if self.last is None else f" {self.last}"
        mode = "" if self.mode == "recorded" else f" --{self.mode}"
        return f"/replay {self.first}{last}{mode}"


class ReplayReport(Struct, frozen=True, kw_only=True):
    """How a replay of the statements `first` to `last` went.

    `executions` are the records of those that ran again, in order. `not_run` are sentences on the others. Where
    `outcome` is not `completed`, `detail` says why, and the namespace is as it was before.
    """

    first: int
    last: int
    mode: ReplayMode
    outcome: ReplayOutcome
    detail: str = ""
    executions: tuple[ExecutionFinished, ...] = ()
    divergences: tuple[Diverged, ...] = ()
    not_run: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether the namespace is what came of it."""
        return self.mode == "live" and self.outcome == "completed"
