"""What a slash command is, and what it works on. The commands themselves are rows of `commands`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from ...context.tail.standing import SentProjections
from ...context.view.condensation import Cut
from ...core.ids import BlobDigest, SessionId, StatementId
from ...files.tails import FeedItem
from ...log.branch_rows import BranchRow
from ...log.events import Event
from ...log.events.session import ProjectionSent
from ...log.timeline import Timeline
from ..model_calls.context_text import Breakdown
from ..model_calls.projector import Projection
from ..past.branch_diff import BranchDiff
from ..past.head import Gone
from ..past.requests import EditRequest, ReplayReport, ReplayRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What commands work on: the timeline, what was projected last, and what may be done to find out more.

    `project`, `names`, `tick` and `compact` raise EnvironmentUnavailableError where there is no worker and none can be
    started. `compact` says what went, and how many tokens a model would now be sent; None where nothing could go.
    `branches` are those of the log, to read, `is_on_path` says whether an event is on the active one, and `diff`
    compares two by their names. `rewind` goes back to a statement, 0 for the beginning, with the files or without, and
    with the conversation, which is on a new branch then, or without; `switch` goes to the end of another branch, with
    the files or without. These three raise InvalidRequestError with one sentence; the latter two are for commands that
    move the head. `omit` leaves a statement out of the namespace, or takes it in again. `content` says in a sentence
    what is missing.
    `names` is what the namespace calls its handles now, by their ids; one without a name is called by its id. `foresee`
    says what the next tick would find by now, of each handle that it would change. `replay` runs statements again, ends
    by itself when it is cancelled, and raises InvalidRequestError for what cannot be asked of it; so does `edit`, which
    runs another source in the place of a statement and moves the head.
    """

    session_id: SessionId
    cwd: str
    timeline: Timeline
    sent: SentProjections
    breakdown: Callable[[Projection], Breakdown]
    breakdown_of: Callable[[ProjectionSent], Breakdown]
    content: Callable[[BlobDigest], str]
    latest: Callable[[], Projection | None]
    foresee: Callable[[], Awaitable[Sequence[FeedItem]]]
    project: Callable[[], Awaitable[Projection]]
    tick: Callable[[], Awaitable[Sequence[Event]]]
    names: Callable[[], Awaitable[Mapping[str, str]]]
    is_on_path: Callable[[Event], bool]
    compact: Callable[[], Awaitable[tuple[Cut, int] | None]]
    omit: Callable[[StatementId, bool], Awaitable[None]]
    branches: Callable[[], Sequence[BranchRow]]
    diff: Callable[[str, str], BranchDiff]
    rewind: Callable[[int, bool, bool], Awaitable[Gone]]
    switch: Callable[[str, bool], Awaitable[Gone]]
    replay: Callable[[ReplayRequest], Awaitable[ReplayReport]]
    edit: Callable[[EditRequest], Awaitable[ReplayReport]]

    @property
    def as_of(self) -> str:
        """The heading of what is answered while a turn runs, from what is known already."""
        cells = reversed(self.timeline.cells)
        done = next((cell.statement.index for cell in cells if cell.finished is not None), None)
        return f"As of statement {done}; a turn is running." if done else "As of the beginning; a turn is running."


CommandRun = Callable[[CommandContext, str], Awaitable[str]]
"""Carries a command out on its argument; the answer."""


class Command(Struct, frozen=True):
    """One slash command. `usage` is its argument as `/help` spells it and `hint` in words, empty where it takes none.

    `takes` says what may be completed: the numbers of statements, that of a model call, names of branches, Python, or
    the numbers and on the next lines Python.
    `glance` answers while a turn is running, from what is known already; None where it has to wait for its turn. Where
    `run` is None the argument is a statement, which the session runs as the user's own. One that `moves_head` is on the
    log where it leads: its message follows the move, or, where it made none, comes ahead of its answer. One
    that is `torn` by a cancel may be ended at any await; another one hears of it by itself, and comes to its end. What
    `is_said` is read by models, too: statements come of it that they are to know.
    """

    name: str
    usage: str
    hint: str
    description: str
    run: CommandRun | None
    glance: Callable[[CommandContext, str], str] | None = None
    takes: Literal["nothing", "statement", "call", "branch", "source", "edit"] = "nothing"
    moves_head: bool = False
    torn: bool = True
    is_said: bool = False


def glancing(
    glance: Callable[[CommandContext, str], str],
) -> CommandRun:
    """A command's `run` that is its glance, because all is known at any time."""

    async def run(context: CommandContext, argument: str) -> str:
        return glance(context, argument)

    return run
