"""What can be asked of a session: requests about its past, tickets in its queue, and how each ended."""

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

# What is asked of a replay or an edit, and how one went: plain values.
#
# Used by `replaying` and `editing`, by the commands `/replay` and `/edit`, and by who calls `Session.replay` or
# `edit`.

EditMode = Literal["recorded", "live"]
"""With the recorded answers to what statements ask for, or acting again."""
EDIT_MODES: Final[tuple[EditMode, ...]] = ("recorded", "live")


KEEP_FILES: Final = "--keep-files"
KEEP_CONVERSATION: Final = "--keep-conversation"


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


class RewindRequest(Struct, frozen=True):
    """Go back to the end of statement `statement`, 0 for the beginning.

    The `files` that statements wrote since go back too, unless they changed otherwise meanwhile. The `conversation`
    goes back on a new branch; without it the later statements are left out of the namespace, as by `/omit`.
    """

    statement: int
    files: bool = True
    conversation: bool = True

    @property
    def command(self) -> str:
        """As a person would type it."""
        keeps = ((KEEP_FILES, self.files), (KEEP_CONVERSATION, self.conversation))
        return " ".join(("/rewind", str(self.statement), *(option for option, goes in keeps if not goes)))


class SwitchRequest(Struct, frozen=True):
    """Switch to the end of another branch, with the `files` as they were when it was left, or without."""

    branch: str
    files: bool = True

    @property
    def command(self) -> str:
        """As a person would type it."""
        return f"/branch {self.branch}" if self.files else f"/branch {self.branch} {KEEP_FILES}"


class Gone(Struct, frozen=True):
    """Which files were written since the place where the session is now, and what became of them.

    `rewound` is None where they stay as they are, or where there are none.
    """

    written: Restorable
    rewound: Rewound | None


_HOW: Final[dict[ReplayMode, str]] = {
    "recorded": "with the recorded answers to what they ask for",
    "live": "with their effects",
    "dry": "as far as the first that asks for an effect",
}
_DIVERGENCES_LISTED: Final = 50


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
        end = "" if self.outcome == "completed" else " It ended early."
        detail = f" {self.detail[:1].upper()}{self.detail[1:]}." if self.detail else ""
        state = "now has the new results" if self.is_kept else "is unchanged"
        again = f"{ran} {plural(ran, 'statement')} ran again, {_HOW[self.mode]}: {found}."
        return f"{again}{end}{detail} The namespace {state}."


PastRequest = ReplayRequest | EditRequest | RewindRequest | SwitchRequest
"""What can be asked of a session's past. Commands, the command line, MCP and the API make the same values."""
PastResult = ReplayReport | Gone


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


# tickets:
# A request on its way through a session's queue: what is wanted, and how it ended.
#
# Knows nothing of queues or turns. Made by `Session`, ended by its queue, awaited by the caller that made the
# request.


class TurnEnd(Struct, frozen=True):
    """How a request ended.

    `detail` explains cause `error`; `seq` is the last event that belongs to it; `failure` is why it could not be
    carried out or recorded, if so; `execution` is what came of a cell; `unusable` says that the model has to be set up
    before a prompt can be answered. `refused` is why a command changed nothing, which its answer says too; `result` is
    what became of a request about the past.
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
    """A request that was accepted, from that moment until its turn has ended.

    Args:
        message_id: the id of its UserMessage.
        said: what the user typed with what came with it, or a cell's source.
        prompt_kind: whether it starts a turn or waits for one.
        cell: it is one statement from outside a turn, and no model is asked.
        seconds: how long a cell may run; None leaves it to the settings.
        by_client: it is a cell that a client wrote, and not the user.
        request: what the text asks of the past, as a value; None for what is typed.
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
        request: PastRequest | None = None,
    ) -> None:
        self.message_id = message_id
        self.said = said
        self.text = said.text
        self.prompt_kind: PromptKind = prompt_kind
        self.cell = cell
        self.seconds = seconds
        self.by_client = by_client
        self.request = request
        self._ended = asyncio.Event()
        self._end: TurnEnd | None = None

    def message(self, prompt_kind: PromptKind, *, aside: bool = False) -> UserMessage:
        """What goes on the log for it, unstamped."""
        return UserMessage(
            message_id=self.message_id,
            text=self.said.text,
            prompt_kind=prompt_kind,
            attachments=self.said.attachments,
            aside=aside,
            content=self.said.content,
        )

    def finish(self, end: TurnEnd) -> None:
        """Says how it ended; only the first call counts."""
        if self._end is None:
            self._end = end
            self._ended.set()

    async def end(self) -> TurnEnd:
        """Waits for the end."""
        await self._ended.wait()
        assert self._end is not None
        return self._end


def end_at(
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
    """The end of a request whose last event is the log's last."""
    return TurnEnd(cause, detail, Seq(len(log) - 1), failure, execution, unusable, refused, result)


class ActiveRequest:
    """The request that is served now: its message until that is on the log, its cancellation, and its result.

    A command that moves the head begins after the move, so that its message is on the branch where it leads.

    Args:
        log: the session's.
        message: what the user said; None where that is on the log already.
        waiting: the tickets behind it, in their order.
    """

    def __init__(self, log: EventLog, message: UserMessage | None, waiting: Iterable[Ticket]) -> None:
        self.cancellation = Cancellation()
        self.result: PastResult | None = None
        self._log = log
        self._message = message
        self._unsaid = message
        self._waiting = waiting

    def begin(self) -> None:
        """Append the message, unless it is on the log."""
        message, self._unsaid = self._unsaid, None
        if message is not None:
            self._log.append(message)

    def begin_again(self) -> None:
        """The message is to be appended once more, because the branch it was on was left."""
        self._unsaid = self._message

    def put_aside(self) -> None:
        """Show a message that is not on the log to the user alone: no model has to know of it."""
        if self._unsaid is not None:
            self._unsaid = replace(self._unsaid, aside=True)

    def announcements(self) -> Sequence[PromptQueued]:
        """What to announce again on a branch that the head moves to: this request, and those that wait behind it."""
        own = [self._unsaid] if self._unsaid is not None and self._unsaid.prompt_kind == "follow_up" else []
        behind = [ticket for ticket in self._waiting if ticket.prompt_kind == "follow_up"]
        return [PromptQueued(message_id=each.message_id, text=each.text) for each in (*own, *behind)]
