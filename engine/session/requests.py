"""Requests to a session: values about its past, tickets in its queue, and how each ended.

Commands, the command line, MCP and the public API make the same request values. `Session` makes a `Ticket` for each
request, the queue finishes it, and the caller waits for its end. Must not know the queue or turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..context.tail.feed import divergence_phrase
from ..core.errors import EngineError
from ..core.execution import ReplayMode
from ..core.ids import BranchId, MessageId, Seq
from ..core.text import code_span, cut_line, more, plural, printable
from ..log.event_log import EventLog
from ..log.events.conversation import PromptKind, StopCause, UserMessage
from ..log.events.execution import ExecutionFinished
from ..log.events.going_back import Diverged, ReplayOutcome, Rewound
from ..log.events.session import PromptQueued
from ..log.file_history import Restorable
from ..log.timeline import Cell
from ..log.user_message import Composed
from .cancellation import Cancellation

EditMode = Literal["recorded", "live"]
"""`recorded` gives statements the recorded answers of their tool calls; with `live` they have effects again."""
EDIT_MODES: Final[tuple[EditMode, ...]] = ("recorded", "live")


KEEP_FILES: Final = "--keep-files"
KEEP_CONVERSATION: Final = "--keep-conversation"
DRY_RUN: Final = "--dry-run"


class ReplayRequest(Struct, frozen=True):
    """Run the statements `first` to `last` again, by number; to the newest if `last` is None."""

    first: int
    last: int | None = None
    mode: ReplayMode = "recorded"

    @property
    def command(self) -> str:
        """The request as a person would type it."""
        last = "" if self.last is None else f" {self.last}"
        mode = "" if self.mode == "recorded" else f" --{self.mode}"
        return f"/replay {self.first}{last}{mode}"


class EditRequest(Struct, frozen=True):
    """Run `source` in place of statement `number`, then the later ones up to `last`; None means the newest."""

    number: int
    source: str
    last: int | None = None
    mode: EditMode = "recorded"

    @property
    def command(self) -> str:
        """The request as a person would type it."""
        last = "" if self.last is None else f" {self.last}"
        mode = "" if self.mode == "recorded" else f" --{self.mode}"
        return f"/edit {self.number}{last}{mode}\n{self.source}"


class RewindRequest(Struct, frozen=True):
    """Go back to the end of statement `statement`; 0 is the beginning.

    The `files` that statements wrote since then go back too, unless someone else changed them meanwhile. The
    `conversation` goes back on a new branch. Without it the later statements are left out of the namespace, as by
    `/omit`. With `protected` False, protected files stay: the caller may not write them. `is_dry`: only say what would
    be done.
    """

    statement: int
    files: bool = True
    conversation: bool = True
    protected: bool = True
    is_dry: bool = False

    @property
    def command(self) -> str:
        """The request as a person would type it."""
        options = ((KEEP_FILES, not self.files), (KEEP_CONVERSATION, not self.conversation), (DRY_RUN, self.is_dry))
        return " ".join(("/rewind", str(self.statement), *(option for option, is_set in options if is_set)))


class SwitchRequest(Struct, frozen=True):
    """Switch to the end of another branch. The `files` become what they were when it was left, or stay."""

    branch: str
    files: bool = True

    @property
    def command(self) -> str:
        """The request as a person would type it."""
        return f"/branch {self.branch}" if self.files else f"/branch {self.branch} {KEEP_FILES}"


class UndoRequest(Struct, frozen=True):
    """Undo what a statement did to files; the last one that changed any if `statement` is None. Or redo the last undo.

    `protected`: files that other programs run go back, too. `is_dry`: only say what would be done.
    """

    statement: int | None = None
    is_redo: bool = False
    protected: bool = True
    is_dry: bool = False

    @property
    def command(self) -> str:
        """The request as a person would type it."""
        words = ["/redo" if self.is_redo else "/undo"]
        words += [str(self.statement)] if self.statement is not None else []
        return " ".join([*words, *([DRY_RUN] if self.is_dry else [])])


class MoveResult(Struct, frozen=True):
    """The files that were written since the place where the session is now, and what happened to them.

    `rewound` is None if they stay as they are, or if there are none.
    """

    written: Restorable
    rewound: Rewound | None


_HOW: Final[dict[ReplayMode, str]] = {
    "recorded": "with their recorded answers",
    "live": "with their effects",
    "dry": "up to the first effect",
}
_DIVERGENCES_LISTED: Final = 50


class ReplayReport(Struct, frozen=True, kw_only=True):
    """The result of a replay of the statements `first` to `last`.

    `executions` are the records of the statements that ran again, in order. `not_run` has a sentence on each other one.
    If `outcome` is not `completed`, `detail` says why, and the namespace is as before. Only a failed edit stays on its
    `branch`, with the statements that ran.
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
        """Whether the namespace now has the new results."""
        return self.branch is not None or (self.mode == "live" and self.outcome == "completed")

    def text(self, conclusion: str = "") -> str:
        """Return the report as Markdown: a sentence, `conclusion`, and a list of the differences."""
        listed = [
            f"statement {each.statement}: {code_span(printable(divergence_phrase(each)))}" for each in self.divergences
        ]
        left = len(listed) - _DIVERGENCES_LISTED
        listed = [*listed[:_DIVERGENCES_LISTED], *([more(left, "divergence")] if left > 0 else ()), *self.not_run]
        return "\n".join([self._summary() + conclusion, *(f"- {line}" for line in listed)])

    def _summary(self) -> str:
        ran, differ = len(self.executions), len({each.execution_id for each in self.divergences})
        found = f"{differ} {'differs' if differ == 1 else 'differ'}" if differ else "none differs"
        end = "" if self.outcome == "completed" else " The replay ended early."
        detail = f" {self.detail[:1].upper()}{self.detail[1:]}." if self.detail else ""
        state = "now has the new results" if self.is_kept else "is unchanged"
        again = f"{ran} {plural(ran, 'statement')} ran again, {_HOW[self.mode]}: {found}."
        return f"{again}{end}{detail} The namespace {state}."


PastRequest = ReplayRequest | EditRequest | RewindRequest | SwitchRequest | UndoRequest
"""A request about the past of a session."""
PastResult = ReplayReport | MoveResult


class Reruns(Protocol):
    """The statements that ran again so far, and their differences."""

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
    """Make the report on the statements of these `numbers`, first and last.

    `ending` is the outcome and the reason.
    """
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


_SHOWN_CHARS: Final = 20
_NUMBER_DIGITS: Final = 9


def statement_number(text: str) -> int | None:
    """Parse the number of a statement; None if the text cannot be one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS else None


def cell_numbered(cells: Sequence[Cell], text: str) -> Cell | None:
    """Return the statement of that number, or None."""
    number = statement_number(text)
    return cells[number - 1] if number is not None and 1 <= number <= len(cells) else None


def no_such_statement(cells: Sequence[Cell], text: str) -> str:
    """Return a sentence for a person who named an unknown statement."""
    if not cells:
        return "No statement has run yet."
    there = "the only statement is 1" if len(cells) == 1 else f"the statements are numbered from 1 to {len(cells)}"
    return f"There is no statement {cut_line(printable(text), _SHOWN_CHARS)}; {there}."


class TurnEnd(Struct, frozen=True):
    """How a request ended.

    `detail` explains cause `error`. `seq` is the last event that belongs to the request. `failure` is the reason if it
    could not be served or recorded. `execution` is the result of a single statement. `unusable` means that the model
    must be set up before it can answer. `refused` is the reason if a command changed nothing; its answer says the same.
    `result` is the result of a request about the past.
    """

    cause: StopCause
    detail: str | None
    seq: Seq
    failure: EngineError | None = None
    execution: ExecutionFinished | None = None
    unusable: bool = False
    refused: EngineError | None = None
    result: PastResult | None = None


class Ticket:
    """A request from its acceptance until its end.

    Args:
        message_id: the id of its UserMessage.
        said: what the user typed, with attachments, or a statement's source.
        prompt_kind: whether it starts a turn or waits for one.
        cell: it is one statement from outside a turn, so no model is called.
        seconds: the time limit of the statement; None for the limit of the settings.
        by_client: a client wrote the statement, not the user.
        tags: tags of the statement, beside those in its source.
        request: the request about the past that the text spells; None for typed text.
    """

    def __init__(
        self,
        message_id: MessageId,
        said: Composed,
        prompt_kind: PromptKind,
        *,
        cell: bool = False,
        seconds: float | None = None,
        by_client: bool = False,
        tags: Sequence[str] = (),
        request: PastRequest | None = None,
    ) -> None:
        self.message_id = message_id
        self.said = said
        self.text = said.text
        self.prompt_kind: PromptKind = prompt_kind
        self.cell = cell
        self.seconds = seconds
        self.by_client = by_client
        self.tags = tuple(tags)
        self.request = request
        self._ended = asyncio.Event()
        self._end: TurnEnd | None = None

    def message(self, prompt_kind: PromptKind, *, aside: bool = False) -> UserMessage:
        """Return its message for the log, not yet stamped."""
        return UserMessage(
            message_id=self.message_id,
            text=self.said.text,
            prompt_kind=prompt_kind,
            attachments=self.said.attachments,
            aside=aside,
            content=self.said.content,
            expansion=self.said.expansion,
        )

    def finish(self, end: TurnEnd) -> None:
        """Report how it ended. Only the first call counts."""
        if self._end is None:
            self._end = end
            self._ended.set()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._end is not None

    async def end(self) -> TurnEnd:
        """Wait for its end."""
        await self._ended.wait()
        assert self._end is not None
        return self._end


def turn_end(
    log: EventLog,
    cause: StopCause,
    detail: str | None = None,
    *,
    failure: EngineError | None = None,
    execution: ExecutionFinished | None = None,
    unusable: bool = False,
    refused: EngineError | None = None,
    result: PastResult | None = None,
) -> TurnEnd:
    """Return the end of a request whose last event is now the log's last."""
    return TurnEnd(cause, detail, Seq(len(log) - 1), failure, execution, unusable, refused, result)


class ActiveRequest:
    """The request that is served now: its message until that is on the log, its cancellation, its result.

    A command that moves the head appends its message after the move, so that the message is on the branch that is
    active then.

    Args:
        message: the user's message; None if it is on the log already.
        waiting: the tickets behind it, in order.
    """

    def __init__(self, log: EventLog, message: UserMessage | None, waiting: Iterable[Ticket]) -> None:
        self.cancellation = Cancellation()
        self.result: PastResult | None = None
        self._log = log
        self._message = message
        self._pending = message
        self._waiting = waiting

    def append_message(self) -> None:
        """Append the message, unless it is on the log."""
        message, self._pending = self._pending, None
        if message is not None:
            self._log.append(message)

    def append_again(self) -> None:
        """Make `append_message` append once more: the branch with the message was left."""
        self._pending = self._message

    def hide_from_models(self) -> None:
        """Show a message that is not on the log yet to the user alone."""
        if self._pending is not None:
            self._pending = replace(self._pending, aside=True)

    def announcements(self) -> Sequence[PromptQueued]:
        """Return what to announce again on the branch that the head moves to.

        That is this request and those that wait behind it.
        """
        own = [self._pending] if self._pending is not None and self._pending.prompt_kind == "follow_up" else []
        behind = [ticket for ticket in self._waiting if ticket.prompt_kind == "follow_up"]
        return [PromptQueued(message_id=each.message_id, text=each.text) for each in (*own, *behind)]
