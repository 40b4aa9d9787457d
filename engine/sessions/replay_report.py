"""What is asked of a replay or an edit, and how one went: plain values.

Used by `replaying` and `editing`, by the commands `/replay` and `/edit`, and by who calls `Session.replay` or `edit`.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from ..events.execution import ExecutionFinished
from ..events.replays import Diverged, ReplayOutcome
from ..execution import ReplayMode
from ..ids import BranchId

EditMode = Literal["recorded", "live"]
"""With the recorded answers to what statements ask for, or acting again."""
EDIT_MODES: Final[tuple[EditMode, ...]] = ("recorded", "live")


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


class EditRequest(Struct, frozen=True):
    """Run `source` in the place of statement `number`, then those behind it up to `last`, to the newest for None."""

    number: int
    source: str
    last: int | None = None
    mode: EditMode = "recorded"

    @property
    def command(self) -> str:
        """As a person would type it."""
        last = "" if self.last is None else f" {self.last}"
        mode = "" if self.mode == "recorded" else f" --{self.mode}"
        return f"/edit {self.number}{last}{mode}\n{self.source}"


class ReplayReport(Struct, frozen=True, kw_only=True):
    """How a replay of the statements `first` to `last` went.

    `executions` are the records of those that ran again, in order. `not_run` are sentences on the others. Where
    `outcome` is not `completed`, `detail` says why, and the namespace is as it was before. An edit has its statements,
    or those that ran of one that failed, on `branch`.
    """

    first: int
    last: int
    mode: ReplayMode
    outcome: ReplayOutcome
    detail: str = ""
    executions: tuple[ExecutionFinished, ...] = ()
    divergences: tuple[Diverged, ...] = ()
    not_run: tuple[str, ...] = ()
    branch: BranchId | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the namespace is what came of it."""
        return self.branch is not None or (self.mode == "live" and self.outcome == "completed")
