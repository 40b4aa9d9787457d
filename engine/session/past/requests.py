"""What is asked of a replay or an edit, and how one went: plain values.

Used by `replaying` and `editing`, by the commands `/replay` and `/edit`, and by who calls `Session.replay` or `edit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from ...core.execution import ReplayMode
from ...core.ids import BranchId
from ...core.text import cut_line, printable
from ...log.events.execution import ExecutionFinished
from ...log.events.going_back import Diverged, ReplayOutcome
from ...log.timeline import Cell

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


class Reruns(Protocol):
    """What has run again so far, and what came out differently."""

    @property
    def executions(self) -> Sequence[ExecutionFinished]: ...

    @property
    def divergences(self) -> Sequence[Diverged]: ...


def report_of(
    request: ReplayRequest | EditRequest,
    numbers: tuple[int, int],
    reruns: Reruns,
    ending: tuple[ReplayOutcome, str],
    not_run: Sequence[str],
    branch: BranchId | None = None,
) -> ReplayReport:
    """How the statements of these `numbers`, the first and the last, ran again; `ending` is the outcome, and why."""
    return ReplayReport(
        first=numbers[0],
        last=numbers[1],
        mode=request.mode,
        outcome=ending[0],
        detail=ending[1],
        executions=tuple(reruns.executions),
        divergences=tuple(reruns.divergences),
        not_run=tuple(not_run),
        branch=branch,
    )


# numbered:
# Statements by their numbers, as people give them to commands: the one that is meant, or which there are.
#
# Pure. Used by the commands that take a statement.

_SHOWN_CHARS: Final = 20
_NUMBER_DIGITS: Final = 9


def number_in(text: str) -> int | None:
    """The whole number that a text is; None where it is none, or none that a statement could have."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS else None


def numbered(cells: Sequence[Cell], text: str) -> Cell | None:
    """The statement of that number; None where there is none."""
    number = number_in(text)
    return cells[number - 1] if number is not None and 1 <= number <= len(cells) else None


def no_statement(cells: Sequence[Cell], text: str) -> str:
    """One sentence for somebody who named a statement that there is not."""
    if not cells:
        return "No statement has run yet."
    there = "the only one is 1" if len(cells) == 1 else f"they are numbered from 1 to {len(cells)}"
    return f"There is no statement {cut_line(printable(text), _SHOWN_CHARS)}; {there}."
