"""One session, as adapters use it: what it holds, what can be asked of it, and its life.

Owns nothing but three parts: the log with its folds (`parts`), the queue of requests (`queue`), and what serves them
(`session_runtime`), which is loaded with the first request. Must not know any protocol. Made by `lifecycle.registry`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, cast

import anyio
from anyio.abc import TaskGroup

from ..context.view import Window
from ..core.errors import InvalidRequestError, SessionBusyError, StatementWithdrawnError
from ..core.execution import ReplayMode
from ..core.ids import Seq, SessionId, StatementId
from ..core.mcp_servers import McpServer
from ..files.sources import Editor
from ..files.tails import Looked
from ..log.branches import BranchRow, branch_rows
from ..log.events import AnyEvent, Event
from ..log.events.conversation import Attachment, PromptKind
from ..log.events.execution import ExecutionFinished, StatementRecorded
from ..log.events.going_back import Rewound
from ..log.events.session import ConfigChanged, ModeChanged
from ..log.permissions import Permissions
from ..log.timeline import Cell
from ..log.user_message import Composed, compose
from .cancellation import to_the_end
from .directories import Spellings, additional, check_working_directory, spelled
from .journal import Subscription
from .parts import SessionParts
from .policy import OptionValues, check_option, known_mode
from .queue import RequestQueue
from .requests import (
    EditMode,
    EditRequest,
    Gone,
    PastRequest,
    PastResult,
    ReplayReport,
    ReplayRequest,
    RewindRequest,
    SwitchRequest,
    Ticket,
    TurnEnd,
)

if TYPE_CHECKING:  # of the prompt stage
    from ..log.cycles import CycleSummary
    from .model_calls.projector import Projection
    from .session_runtime import SessionRuntime


class Session:
    """A conversation with its timeline. All methods are for the event loop's thread."""

    def __init__(self, parts: SessionParts, settled: Sequence[Event] = ()) -> None:
        self._parts = parts
        self._settled = settled
        self._requests = RequestQueue(parts)
        self._spellings = Spellings((parts.cwd, *parts.directories))

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> SessionId:
        return self._parts.session_id

    @property
    def cwd(self) -> str:
        """Absolute directory."""
        return self._parts.cwd

    @property
    def directories(self) -> tuple[str, ...]:
        """The additional directories, absolute."""
        return self._parts.directories

    @property
    def is_confined(self) -> bool:
        """Whether views open nothing outside of these directories."""
        return self._parts.spec.confined

    @property
    def is_read_only(self) -> bool:
        """Whether a commit failed, so that nothing more is kept; opening it again goes on with what was."""
        return self._parts.journal.is_over

    @property
    def settled(self) -> Sequence[Event]:
        """What opening it has added to its log, because the process that had it open ended in the middle of that."""
        return self._settled

    def spelled(self, path: str) -> str:
        """An absolute path as who opened the session spells it: below a directory of the session as that was given."""
        return self._spellings.of(path)

    @property
    def title(self) -> str | None:
        """What it is called, after its first prompt; None before that."""
        return self._parts.policy.title

    @property
    def events(self) -> Sequence[AnyEvent]:
        """Everything on the log so far; a snapshot."""
        return cast("Sequence[AnyEvent]", self._parts.log.events)

    @property
    def path(self) -> Sequence[AnyEvent]:
        """The events of the active branch so far: what it shares with others, and its own. A snapshot."""
        return cast("Sequence[AnyEvent]", self._parts.log.path)

    @property
    def position(self) -> int:
        """How many events the log has."""
        return len(self._parts.log)

    def since(self, position: int) -> Sequence[AnyEvent]:
        """The events from that position on, 0 being the first; costs what these are, however long the log is."""
        return cast("Sequence[AnyEvent]", self._parts.log.since(position))

    @property
    def view(self) -> Window:
        """The attention window over the conversation, to read."""
        return self._parts.view.view

    @property
    def cells(self) -> Sequence[Cell]:
        """The statements, oldest first, each with its latest execution."""
        return self._parts.timeline.cells

    def statement(self, statement_id: StatementId) -> StatementRecorded | None:
        """The statement of that id; None where there is none."""
        cell = self._parts.timeline.cell(statement_id)
        return None if cell is None else cell.statement

    @property
    def branches(self) -> Sequence[BranchRow]:
        """The branches of the log, in the order in which they were made."""
        return branch_rows(self._parts.log.branches, self._parts.facts.statements_below)

    @property
    def names(self) -> Collection[str]:
        """Every name that a statement of the user's or a model's has bound so far."""
        return self._parts.timeline.names

    @property
    def rebound(self) -> Collection[str]:
        """The injected names, such as `view`, that a statement has ever bound to something else."""
        return self._parts.timeline.rebound

    @property
    def options(self) -> OptionValues:
        """Mode and options in force."""
        return self._parts.policy.options

    def options_at(self, seq: int) -> OptionValues:
        """Mode and options as they were when the event at `seq` had been taken."""
        return self._parts.policy.options_at(seq)

    def cycle_ended_by(self, seq: int) -> CycleSummary | None:
        """The request cycle that the RunStop at `seq` ended; None where it ended none."""
        return self._runtime.cycles.ended_by(seq)

    async def projection(self) -> Projection:
        """What a model would read now, with its cost in tokens.

        Raises:
            EnvironmentUnavailableError: the worker, which renders and counts, is gone and cannot be replaced.
        """
        return await self._runtime.project()

    def subscribe(self) -> Subscription:
        """A new reader of every event and signal that is published from now on; events once they are durable."""
        return self._parts.journal.subscribe()

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ends one that reads no more, after what it was sent so far."""
        self._parts.journal.unsubscribe(subscription)

    async def durable(self, seq: int) -> None:
        """Waits until the event at `seq` is on disk. Raises SessionReadOnlyError where it never will be."""
        await self._parts.journal.durable(Seq(seq))

    # --- what is asked of it ------------------------------------------------------------------------------------------

    def attach(self, permissions: Permissions, editor: Editor | None = None) -> None:
        """Says whom to ask from now on, and which editor's unsaved texts views and tools go by; None for none."""
        self._requests.attach(permissions, editor)

    def accept(self, said: str | Sequence[str | Attachment], wanted: PromptKind | None = None) -> Ticket:
        """Takes a prompt; at once, so that a cancel read after it finds it.

        Args:
            said: what the user typed; or texts and what came with them, in the order in which they are to be read. A
                text of more than a million characters is attached by itself.
            wanted: what a prompt that comes while a turn is running is to be; None leaves it to the session's option.

        Raises:
            SessionBusyError: the session is closing, or too many prompts wait.
            SessionReadOnlyError: nothing can be recorded any more.
        """
        composed = compose([said] if isinstance(said, str) else said)
        ticket = Ticket(self._parts.minter.message(), composed, self._kind())
        self._requests.take(ticket, wanted)
        return ticket

    async def cell(
        self, source: str, seconds: float | None = None, author: Literal["user", "client"] = "user"
    ) -> ExecutionFinished:
        """Runs one statement from outside a turn, in its place in the queue; returns when its record is durable.

        No model is called and no model reads it. Cancelling the waiting task stops it, which is recorded.

        Args:
            source: Python.
            seconds: how long it may run; None leaves it to the settings.
            author: who wrote it. What a `client` wrote is held as what a model wrote is, and so is the session then.

        Raises:
            SessionBusyError, SessionReadOnlyError: as from `accept`.
            StatementWithdrawnError: it was cancelled before it began.
            EnvironmentUnavailableError: there is no worker to run it in.
        """
        ticket = Ticket(
            self._parts.minter.message(),
            Composed(source),
            self._kind(),
            cell=True,
            seconds=seconds,
            by_client=author == "client",
        )
        self._requests.take(ticket, None)
        end = await self._carried_out(ticket)
        if end.execution is None:
            raise StatementWithdrawnError(self.session_id)
        return end.execution

    async def replay(self, first: int, last: int | None = None, mode: ReplayMode = "recorded") -> ReplayReport:
        """Runs the statements `first` to `last` again, by their numbers, and says what comes out differently.

        In its place in the queue, and on the log as the command `/replay`. Cancelling the waiting task cancels it.
        Where it does not come to its end, the report says why, and the namespace is as it was.

        Args:
            last: None for the newest statement.
            mode: `recorded` gives them the recorded answers to what they ask for, and keeps them from any other act;
                nothing but the record is new then. `dry` ends with the first that asks for anything. With `live` they
                act again, asking as usual, and the namespace is what comes of it.

        Raises:
            InvalidRequestError: there are no such statements, or none of them can run again; nothing has changed.
            StatementWithdrawnError: it was cancelled before it began.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        report = await self._ask(ReplayRequest(first, last, mode))
        assert isinstance(report, ReplayReport)
        return report

    async def edit(
        self, number: int, source: str, last: int | None = None, mode: EditMode = "recorded"
    ) -> ReplayReport:
        """Runs `source` in the place of statement `number`, on a new branch, then those behind it, as new statements.

        In its place in the queue, and in the conversation as the command `/edit`. A cancel goes back to the branch that
        was left. A statement that is lost or reaches its time limit ends it there.

        Args:
            source: Python.
            last: the number of the last that runs; None for the newest.
            mode: `recorded` answers what they ask for as it was answered before, reads what was not read then, and
                keeps them from all else that would change anything. With `live` they act again, asking as usual.

        Raises:
            InvalidRequestError: there is no such statement, or the source is empty or no Python; nothing has changed.
            StatementWithdrawnError: it was cancelled.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        report = await self._ask(EditRequest(number, source, last, mode))
        assert isinstance(report, ReplayReport)
        if report.outcome == "cancelled":
            raise StatementWithdrawnError(self.session_id)
        return report

    async def _carried_out(self, ticket: Ticket) -> TurnEnd:
        """The end of a request; where the waiting task is cancelled, so is the request."""
        try:
            end = await ticket.end()
        except anyio.get_cancelled_exc_class():
            self.cancel(ticket)
            await to_the_end(ticket.end)
            raise
        if end.failure is not None:
            raise end.failure
        return end

    async def rewind(self, statement: int, *, files: bool = True, conversation: bool = True) -> Rewound | None:
        """Goes back to where that statement had ended, 0 for the beginning; in its place in the queue.

        The namespace goes back, and what came after it stays on its branch, for `switch`: also what a later live replay
        made of the statement, because the conversation has what came of it the first time. Cancelling the waiting task
        gives it up, and then all is as before.

        Args:
            statement: its number.
            files: those that statements wrote since go back, too; one that somebody else has changed does not.
            conversation: it goes back, too, on a new branch. Otherwise the statements after it are left out of the
                namespace, as by `/omit`.

        Returns:
            What became of files; None where none was to go back.

        Raises:
            InvalidRequestError: there is no such statement, and nothing has changed.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        return await self._go(RewindRequest(statement, files, conversation))

    async def switch(self, branch: str, *, files: bool = True) -> Rewound | None:
        """Goes over to the end of another branch; in its place in the queue, and cancelled as `rewind`.

        Args:
            branch: its name.
            files: those that statements wrote are as they were when it was left; as for `rewind`, and returned so.

        Raises:
            InvalidRequestError: there is no such branch, or it is active already, and nothing has changed.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        return await self._go(SwitchRequest(branch, files))

    async def _go(self, request: RewindRequest | SwitchRequest) -> Rewound | None:
        gone = await self._ask(request)
        assert isinstance(gone, Gone)
        return gone.rewound

    async def _ask(self, request: PastRequest) -> PastResult:
        """Put a request about the past into the queue; its result. On the log it reads as the command for it."""
        ticket = Ticket(self._parts.minter.message(), Composed(request.command), self._kind(), request=request)
        self._requests.take(ticket, None)
        end = await self._carried_out(ticket)
        if end.refused is not None:
            raise end.refused
        if end.result is None:
            raise StatementWithdrawnError(self.session_id)
        return end.result

    async def tick(self) -> Sequence[Event]:
        """Lets running handles catch up with their files now; what changed, as events.

        What it has begun it ends, also when the waiting task is cancelled.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
        """
        return await to_the_end(self._runtime.tick)

    async def look(self, names: Collection[str] = (), tokens: int | None = None, *, at_sources: bool = False) -> Looked:
        """The handles there are, and what those of `names` show, as `Environment.look`; in between two statements.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
        """
        return await self._runtime.look(names, tokens, at_sources=at_sources)

    async def count(self, texts: Sequence[str]) -> Sequence[int]:
        """How many tokens each text has. Raises EnvironmentUnavailableError, because the worker counts."""
        return await self._runtime.count(texts)

    async def rest(self) -> None:
        """Ends the worker, where no request is carried out or waits; the next one that needs it has a rebuilt one."""
        runtime = self._requests.runtime
        if runtime is not None and not self.is_busy:
            await runtime.rest()

    def check_place(self, cwd: str, directories: Sequence[str], *, confined: bool) -> None:
        """Raises InvalidRequestError where it is open in other directories, or confined to them and not, or not."""
        spec = self._parts.spec
        if (cwd, tuple(directories), confined) != (spec.cwd, spec.directories, spec.confined):
            where = ", ".join((spec.cwd, *spec.directories))
            kind = "confined to" if spec.confined else "without limits in"
            raise InvalidRequestError(f"session {self.session_id} is open {kind} {where}; open another session")

    def would_move(self, cwd: str, directories: Sequence[str], servers: Sequence[McpServer] = ()) -> bool:
        """Whether loading it with these directories or MCP servers would have it go on with others, after a close.

        Raises:
            SessionBusyError: it would, but something runs or waits, which a close would cancel.
            InvalidRequestError: it would, but a path is not absolute or there is no such working directory.
        """
        chosen = spelled(cwd)
        named = self._parts.servers
        is_elsewhere = (chosen, additional(directories, chosen)) != (spelled(self.cwd), self._parts.directories)
        if not is_elsewhere and (not servers if named is None else named.are(servers)):
            return False
        check_working_directory(chosen)
        how = "elsewhere" if is_elsewhere else "with other MCP servers"
        if self._requests.is_busy:
            raise SessionBusyError(
                f"session {self.session_id} is busy in {self.cwd}; cancel it or wait before it goes on {how}"
            )
        return True

    def entitle(self) -> None:
        """Has listings show it under its title, if it has one: a session that was forked is not shown before."""
        if self.title is not None:
            self._parts.store.retitle(self.session_id, self.title)
            self._parts.store.flush()

    def set_mode(self, mode: str) -> None:
        """Also while a turn is running; it counts from the next statement on. Raises InvalidRequestError."""
        known = known_mode(mode)
        if known != self.options.mode:
            self._parts.log.append(ModeChanged(mode=known))

    def set_option(self, name: str, value: str) -> None:
        """Sets `mode` or another option of the session. Raises InvalidRequestError."""
        if name == "mode":
            self.set_mode(value)
            return
        check_option(name, value)
        if value != self.options.values[name]:
            self._parts.log.append(ConfigChanged(option=name, value=value))

    def cancel(self, ticket: Ticket | None = None) -> None:
        """Withdraws what waits, then ends what runs; or only what belongs to `ticket`. Does nothing when idle."""
        self._requests.cancel(ticket)

    def _kind(self) -> PromptKind:
        return "follow_up" if self._requests.is_busy else "direct"

    @property
    def is_busy(self) -> bool:
        """Whether a request is carried out or waits."""
        return self._requests.is_busy

    async def idle(self) -> None:
        """Waits until no request is carried out or waits."""
        await self._requests.idle()

    # --- its life -----------------------------------------------------------------------------------------------------

    def start(self, tasks: TaskGroup) -> None:
        """Begins to serve requests."""
        self._requests.start(tasks)

    def connect(self) -> None:
        """Begins to connect its MCP servers, beside everything else; the first request does it at the latest."""
        self._requests.connect()

    def begin_close(self) -> None:
        """Takes no request any more and cancels those there are; at once, like `accept`."""
        self._requests.begin_close()

    async def close(self) -> None:
        """Begins to close, waits until nothing runs any more, and frees what was used. Idempotent."""
        self.begin_close()
        await self._requests.idle()
        try:
            if self._requests.runtime is not None:
                await self._requests.runtime.close()
        finally:
            if self._parts.servers is not None:
                await self._parts.servers.close()
        self._parts.journal.close()

    @property
    def _runtime(self) -> SessionRuntime:
        return self._requests.server.runtime
