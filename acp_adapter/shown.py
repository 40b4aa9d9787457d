"""Inputs of the translation from events to updates: facts about the session, and the state shown so far.

Independent of the protocol version. The pump keeps the state of a session; `updates` takes one and returns the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from engine.core.ids import BlobDigest, StatementId, ToolCallId
from engine.core.pictures import Picture, PictureContent
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import CommandEnded, FileWritten
from engine.log.events.nodes import FileChanged

if TYPE_CHECKING:  # not needed at run time
    from engine import CycleSummary, OptionValues, Spent
    from engine.log.events.execution import StatementRecorded
    from engine.log.events.session import PlanEntry


class Facts(Protocol):
    """What translations ask about a session. The engine's `Session` is one; tests and loads have their own."""

    @property
    def cwd(self) -> str:
        """The session's directory, an absolute path."""
        ...

    def spelled(self, path: str) -> str:
        """Return an absolute path as the client spells it, below a directory of the session."""
        ...

    def options_at(self, seq: int) -> OptionValues:
        """Return mode and options after the event at `seq`."""
        ...

    @property
    def plan(self) -> Sequence[PlanEntry]:
        """Return the plan of the active branch."""
        ...

    @property
    def spent(self) -> Spent:
        """What the model calls of the session took so far."""
        ...

    def statement(self, statement_id: StatementId) -> StatementRecorded | None:
        """Return the statement with this id, if there is one."""
        ...

    def picture(self, picture: Picture) -> PictureContent | None:
        """Return the content of a picture, if there is one."""
        ...

    def answer_blocks(self, answer: BlobDigest) -> Sequence[Mapping[str, object]]:
        """Return the blocks of an MCP server's answer as they came; none if they are lost."""
        ...

    def cycle_ended_by(self, seq: int) -> CycleSummary | None:
        """Return the request cycle that the run-stop at `seq` ended, if it ended one."""
        ...


class RunningStatement(Struct, frozen=True):
    """A statement that has not ended: its call, and the source in the call's content, if it is shown there.

    `is_typed`: the user wrote it, so its result answers the prompt. `rest_left_out`: the rest of the model's reply was
    dropped, and the content says so. `differs`: a re-run has another result. `rejection` is why the
    user rejected its last act, as the statement's exception says, and `failure` is the error of its last act that
    failed. `outputs` are texts that its acts' cards show. `is_held`: no update has announced it so far. `tool` is the
    tool that it calls, if it is one call and nothing else. Its card is then that of the `act`, once it was called.
    `due` are the tools that it has not called, if it is several calls and nothing else. Their cards then show it.
    `title` is the title of its card, if that is not its source. `rerun` is the kind of replay that runs it again.
    `is_answered`: its acts are answered from the record, so they are not done, and have no cards.
    `ended` is the act with its result. `has_acts`: its acts have cards. `number` counts statements.
    `has_planned`: it told the user a plan. `has_contents`: a card of its acts shows contents of an MCP server.
    """

    call: ToolCallId
    source: str | None
    is_typed: bool
    rest_left_out: bool = False
    differs: bool = False
    rejection: str = ""
    failure: str = ""
    outputs: tuple[str, ...] = ()
    number: int = 0
    has_acts: bool = False
    has_contents: bool = False
    has_planned: bool = False
    is_held: bool = False
    tool: str | None = None
    due: tuple[str, ...] = ()
    title: str = ""
    rerun: str = ""
    is_answered: bool = False
    act: ToolCallId | None = None
    ended: EndedCall | None = None

    @property
    def is_opening(self) -> bool:
        """Whether it opens an attachment and nobody was told of it."""
        return self.is_held and self.tool is None and not (self.due or self.has_acts or self.has_planned)


class RunningCall(Struct, frozen=True):
    """A helper's call that has not ended, and its effect so far, which its result repeats.

    `card` is the call under which the editor shows it: its own, or that of its statement. `is_late`: the card was there
    before it, as that of the statement. `files` are what a command or a server changed, for `more_files` of which no
    change is shown.
    """

    call: ToolCall
    card: ToolCallId
    is_late: bool = False
    effect: FileWritten | CommandEnded | None = None
    files: tuple[FileWritten, ...] = ()
    more_files: int = 0


class EndedCall(Struct, frozen=True):
    """A helper's call that has ended, and its result."""

    call: RunningCall
    result: ToolResult


class ReplayProgress(Struct, frozen=True):
    """The progress of a replay or an edit: number of statements, and how many have started.

    `is_edit`: it runs new statements, not recorded ones.
    """

    statements: int
    started: int = 0
    is_edit: bool = False

    def next(self) -> ReplayProgress:
        """Return the progress after one more statement started."""
        return replace(self, started=self.started + 1)

    def numbered(self, title: str) -> str:
        """Return a title with the position of the latest statement."""
        return f"{title} ({self.started} of {max(self.statements, self.started)})"


class Shown(Struct, frozen=True, kw_only=True):
    """The state between two events: what the editor shows that later updates refer to.

    A new or resumed session starts with `Shown()`, because nothing is running.

    Attributes:
        statements: those that have not ended.
        helpers: calls inside these statements.
        unannounced: calls without an update so far, which wait for a statement or a result.
        terminals: whether the editor draws terminals for commands.
        notices: whether the editor shows notices.
        booleans: whether it shows options that are on or off as such.
        echoes: whether it wants the user's messages while they are new.
        condensations: whether it shows condensations as such, and not as calls.
        told: the last sentence about the sandbox and each MCP server, by subject.
        rebuild: the call of the last question about earlier statements.
        has_plan: the editor shows a plan.
        changed: a change of a file that waits for the next event.
        condensing: the call for the running condensation.
        replay: the running replay or edit.
    """

    statements: Mapping[StatementId, RunningStatement] = field(default_factory=dict[StatementId, RunningStatement])
    helpers: Mapping[ToolCallId, RunningCall] = field(default_factory=dict[ToolCallId, RunningCall])
    unannounced: Mapping[ToolCallId, ToolCall] = field(default_factory=dict[ToolCallId, ToolCall])
    terminals: bool = False
    notices: bool = False
    booleans: bool = False
    echoes: bool = False
    condensations: bool = False
    told: Mapping[str, str] = field(default_factory=dict[str, str])
    rebuild: ToolCallId | None = None
    has_plan: bool = False
    changed: FileChanged | None = None
    condensing: str | None = None
    replay: ReplayProgress | None = None

    def without(self, ended: StatementId) -> Shown:
        """Return the state after a statement ended."""
        statements = {other: running for other, running in self.statements.items() if other != ended}
        return replace(self, statements=statements)

    def statement_of(self, call: ToolCallId | None) -> RunningStatement | None:
        """Return the running statement with that call."""
        return next((running for running in self.statements.values() if running.call == call), None)

    def with_statement(self, changed: RunningStatement) -> Shown:
        """Return the state after a running statement changed."""
        statements = {
            statement: changed if running.call == changed.call else running
            for statement, running in self.statements.items()
        }
        return replace(self, statements=statements)

    def card_of(self, call: ToolCallId) -> ToolCallId:
        """Return the call under which the editor shows a call."""
        helper = self.helpers.get(call)
        return call if helper is None else helper.card

    def with_helper(self, helper: RunningCall) -> Shown:
        """Return the state with a new or changed helper call."""
        return replace(self, helpers={**self.helpers, helper.call.tool_call_id: helper})

    def without_helper(self, ended: ToolCallId) -> Shown:
        """Return the state after a helper call ended."""
        return replace(self, helpers={call: helper for call, helper in self.helpers.items() if call != ended})


NOTHING_SHOWN: Final = Shown()
