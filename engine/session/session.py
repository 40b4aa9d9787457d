"""One session, as adapters use it.

It has three parts: the log with its folds (`parts`), the queue of requests (`queue`), and the runtime
(`session_runtime`), which is loaded with the first request. Must not know any protocol. Made by `registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ..context.view import Window
from ..core.errors import InvalidRequestError, SessionBusyError, StatementWithdrawnError
from ..core.execution import ReplayMode
from ..core.ids import BlobDigest, Seq, SessionId, StatementId
from ..core.mcp_servers import McpServer
from ..core.pictures import GivenPicture, Picture, PictureContent
from ..core.python_source import MOST_TAGS, TAG_CHARS, TAG_RULE, is_tag
from ..core.text import cut_line
from ..files.sources import Editor
from ..files.tails import Looked
from ..log.branches import BranchRow, branch_rows
from ..log.events import AnyEvent, Event
from ..log.events.conversation import Attachment, PromptKind
from ..log.events.execution import ExecutionFinished, StatementRecorded
from ..log.events.going_back import Rewound
from ..log.events.session import ConfigChanged, InstructionsGiven, ModeChanged, PlanEntry, TitleChanged
from ..log.facts import Spent
from ..log.file_history import Restorable
from ..log.forms import Forms
from ..log.permissions import Permissions
from ..log.timeline import Cell
from ..log.user_message import Composed, compose
from .askers import Asker
from .cancellation import shielded
from .directories import Spellings, additional, check_working_directory, spelled
from .journal import CommandRow, ModelsListed, Subscription
from .model_choice import MODEL, THINKING
from .parts import SessionParts
from .policy import OptionValues, check_option, known_mode
from .queue import RequestQueue
from .requests import (
    EditMode,
    EditRequest,
    MoveResult,
    PastRequest,
    PastResult,
    ReplayReport,
    ReplayRequest,
    RewindRequest,
    SwitchRequest,
    Ticket,
    TurnEnd,
    UndoRequest,
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

    # --- state --------------------------------------------------------------------------------------------------------

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
        """Whether views open only files in these directories."""
        return self._parts.spec.confined

    @property
    def is_read_only(self) -> bool:
        """Whether a commit failed, so that nothing more is recorded. Opening it again goes on from the last commit."""
        return self._parts.journal.is_over

    @property
    def settled(self) -> Sequence[Event]:
        """The events that opening it has added, because its last process died in the middle of something."""
        return self._settled

    def spelled(self, path: str) -> str:
        """Spell an absolute path as the client spells the session's directories."""
        return self._spellings.of(path)

    @property
    def title(self) -> str | None:
        """Its title, after the first prompt; None before."""
        return self._parts.policy.title

    @property
    def events(self) -> Sequence[AnyEvent]:
        """A snapshot of the whole log."""
        return cast("Sequence[AnyEvent]", self._parts.log.events)

    @property
    def path(self) -> Sequence[AnyEvent]:
        """A snapshot of the active branch, including what it shares with others."""
        return cast("Sequence[AnyEvent]", self._parts.log.path)

    @property
    def position(self) -> int:
        """The number of events on the log."""
        return len(self._parts.log)

    def since(self, position: int) -> Sequence[AnyEvent]:
        """Return the events from that position on; O(length of the result)."""
        return cast("Sequence[AnyEvent]", self._parts.log.since(position))

    @property
    def view(self) -> Window:
        """The attention window over the conversation, read-only."""
        return self._parts.view.view

    @property
    def cells(self) -> Sequence[Cell]:
        """The statements, oldest first, each with its latest execution."""
        return self._parts.timeline.cells

    def statement(self, statement_id: StatementId) -> StatementRecorded | None:
        """Return the statement of that id, or None."""
        cell = self._parts.timeline.cell(statement_id)
        return None if cell is None else cell.statement

    def picture(self, picture: Picture) -> PictureContent | None:
        """Return the content of a picture that an event of the log names; None if it has none, or it is lost."""
        return self._parts.pictures.content(picture)

    def answer_blocks(self, answer: BlobDigest) -> Sequence[Mapping[str, object]]:
        """Return the blocks of an MCP server's answer that an event of the log names, as they came.

        Empty if they are lost.
        """
        return self._parts.pictures.blocks(answer)

    @property
    def branches(self) -> Sequence[BranchRow]:
        """The branches of the log, oldest first."""
        return branch_rows(self._parts.log.branches, self._parts.facts.statements_below)

    @property
    def names(self) -> Collection[str]:
        """Every name that a statement of the user or a model has bound so far."""
        return self._parts.timeline.names

    @property
    def bound(self) -> Mapping[str, str]:
        """The type name of each bound name; see `Timeline.bound`."""
        return self._parts.timeline.bound

    @property
    def rebound(self) -> Collection[str]:
        """The injected names, such as `view`, that a statement has ever rebound."""
        return self._parts.timeline.rebound

    @property
    def options(self) -> OptionValues:
        """The current mode and options."""
        return self._with_rows(self._parts.policy.options)

    def options_at(self, seq: int) -> OptionValues:
        """Return the mode and options just after the event at `seq`."""
        return self._with_rows(self._parts.policy.options_at(seq))

    def _with_rows(self, options: OptionValues) -> OptionValues:
        model = self._parts.model
        rows = model.rows_of(options.values.get(MODEL) or model.spec)
        return replace(options, rows=(*rows, *options.rows)) if rows else options

    @property
    def plan(self) -> tuple[PlanEntry, ...]:
        """The plan that statements last told on the active branch; empty if none."""
        return self._parts.plan.entries

    @property
    def spent(self) -> Spent:
        """What its model calls took so far, on all branches."""
        return self._parts.spending.total

    @property
    def model(self) -> str:
        """The name of its model; "" for the model of an embedding program."""
        return self._parts.model.spec

    def offer_models(self) -> None:
        """Publish that other models can be chosen than before."""
        self._parts.journal.signal(ModelsListed())

    @property
    def custom_commands(self) -> Sequence[CommandRow]:
        """The slash commands of files and servers, as far as they are known. `CommandsListed` reports changes."""
        return self._requests.custom_commands

    async def list_commands(self) -> Sequence[CommandRow]:
        """List the slash commands of files again; return those of files and servers."""
        await self._requests.commands.refresh()
        return self.custom_commands

    def cycle_ended_by(self, seq: int) -> CycleSummary | None:
        """Return the request cycle that the RunStop at `seq` ended, or None."""
        return self._runtime.cycles.ended_by(seq)

    async def projection(self) -> Projection:
        """Build the prompt that a model would get now, with its cost in tokens.

        Raises:
            EnvironmentUnavailableError: the worker, which renders and counts, is gone and cannot be replaced.
        """
        return await self._runtime.project()

    def subscribe(self) -> Subscription:
        """Subscribe to every event and signal from now on; events once they are durable."""
        return self._parts.journal.subscribe()

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. Its reader still gets what was sent so far."""
        self._parts.journal.unsubscribe(subscription)

    async def durable(self, seq: int) -> None:
        """Wait until the event at `seq` is on disk.

        Raises:
            SessionReadOnlyError: it never will be.
        """
        await self._parts.journal.durable(Seq(seq))

    async def recorded(self) -> None:
        """Wait until all events so far are on disk. Raises SessionReadOnlyError."""
        await self._parts.journal.durable(Seq(len(self._parts.log) - 1))

    # --- requests -----------------------------------------------------------------------------------------------------

    def attach(self, permissions: Permissions | None, editor: Editor | None = None, forms: Forms | None = None) -> None:
        """Set whom questions go to, which editor's unsaved texts views and tools use, and who is asked for answers.

        Without `permissions` every question is rejected; without `forms` `ask` has no answer.
        """
        self._requests.attach(permissions, editor, forms)

    def ask_also(self, asker: Asker) -> Callable[[], None]:
        """Ask this one each question too, also one that waits already; return what ends that.

        The first answer counts. The others' waits are cancelled, which withdraws the question there.
        """
        return self._requests.ask_also(asker)

    def accept(self, said: str | Sequence[str | Attachment | GivenPicture], wanted: PromptKind | None = None) -> Ticket:
        """Take a prompt. Nothing is awaited, so a cancel that is read later finds it.

        Args:
            said: what the user typed; or texts, attachments and pictures, in reading order. A text of more than a
                million characters becomes an attachment.
            wanted: the kind of a prompt that comes while a turn is running; None for the session's option.

        Raises:
            SessionBusyError: the session is closing, or too many prompts wait.
            SessionReadOnlyError: nothing more can be recorded.
        """
        composed = compose([said] if isinstance(said, str) else said)
        ticket = Ticket(self._parts.minter.message(), composed, self._kind())
        self._requests.take(ticket, wanted)
        return ticket

    async def cell(
        self,
        source: str,
        seconds: float | None = None,
        author: Literal["user", "client"] = "user",
        tags: Sequence[str] = (),
    ) -> ExecutionFinished:
        """Run one statement from outside of a turn, when the queue reaches it.

        Returns when its record is durable. No model is called, and none reads it. Cancelling the waiting task stops the
        statement; the record says so.

        Args:
            source: Python.
            seconds: the time limit; None for the limit of the settings.
            author: who wrote it. A `client` statement is sandboxed like a model's, and so is the session from then on.
            tags: its tags, beside those of comment lines `# tag: NAME`; each at most 40 visible characters, without
                spaces at its ends.

        Raises:
            InvalidRequestError: a tag is invalid, or there are more than 16.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
            StatementWithdrawnError: it was cancelled before it began.
            EnvironmentUnavailableError: no worker can run it.
        """
        wrong = next((tag for tag in tags if not is_tag(tag)), None)
        if wrong is not None:
            raise InvalidRequestError(f"{cut_line(wrong, TAG_CHARS)!r} cannot be a tag: {TAG_RULE}.")
        if len(tags) > MOST_TAGS:
            raise InvalidRequestError(f"A statement may have at most {MOST_TAGS} tags.")
        ticket = Ticket(
            self._parts.minter.message(),
            Composed(source),
            self._kind(),
            cell=True,
            tags=tags,
            seconds=seconds,
            by_client=author == "client",
        )
        self._requests.take(ticket, None)
        end = await self._carried_out(ticket)
        if end.execution is None:
            raise StatementWithdrawnError(self.session_id)
        return end.execution

    async def replay(self, first: int, last: int | None = None, mode: ReplayMode = "recorded") -> ReplayReport:
        """Run the statements `first` to `last` again, by number, and report differences.

        It takes its place in the queue, and appears on the log as the command `/replay`. Cancelling the waiting task
        cancels it. If it does not finish, the report says why, and the namespace is as before.

        Args:
            last: None for the newest statement.
            mode: `recorded` gives statements the recorded answers of their tool calls and prevents all other effects;
                only the record is new afterwards. `dry` ends at the first statement that calls a tool. With `live` they
                act again, asking as usual, and the namespace has the new results.

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
        """Run `source` in place of statement `number`, on a new branch, then the later statements.

        All of them become new statements. It takes its place in the queue, and appears in the conversation as the
        command `/edit`. A cancel goes back to the branch that was left. A statement that ends the worker or reaches its
        time limit ends the edit.

        Args:
            source: Python.
            last: the number of the last statement that runs; None for the newest.
            mode: `recorded` gives statements the recorded answers of their tool calls, lets them read what was not read
                before, and prevents all other changes. With `live` they act again, asking as usual.

        Raises:
            InvalidRequestError: there is no such statement, or the source is empty or not Python; nothing has changed.
            StatementWithdrawnError: it was cancelled.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        report = await self._ask(EditRequest(number, source, last, mode))
        assert isinstance(report, ReplayReport)
        if report.outcome == "cancelled":
            raise StatementWithdrawnError(self.session_id)
        return report

    async def _carried_out(self, ticket: Ticket) -> TurnEnd:
        """Wait for the end of a request. Cancelling the waiting task cancels the request."""
        try:
            end = await ticket.end()
        except anyio.get_cancelled_exc_class():
            self.cancel(ticket)
            await shielded(ticket.end)
            raise
        if end.failure is not None:
            raise end.failure
        return end

    async def rewind(
        self, statement: int, *, files: bool = True, conversation: bool = True, protected: bool = True
    ) -> Rewound | None:
        """Go back to the end of that statement; 0 is the beginning.

        It takes its place in the queue. The namespace goes back. What came later stays on its branch, for `switch`.
        That includes the results of a later live replay, because the conversation has those of the first run.
        Cancelling the waiting task gives it up, and everything is as before.

        Args:
            statement: its number.
            files: files that statements wrote since go back, too, unless someone else changed them.
            conversation: the conversation goes back, too, on a new branch. Otherwise the later statements are left out
                of the namespace, as by `/omit`.
            protected: files that other programs run go back, too. False if anyone but the user asks for the rewind.

        Returns:
            What happened to the files; None if no file was to go back.

        Raises:
            InvalidRequestError: there is no such statement, and nothing has changed.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        return await self._go(RewindRequest(statement, files, conversation, protected))

    async def preview_rewind(self, statement: int, *, files: bool = True, conversation: bool = True) -> Restorable:
        """Return the files that a rewind would restore, and those that it would leave; nothing else is done.

        It says what the log knows. The rewind also leaves files that someone else has changed since.

        Raises:
            InvalidRequestError: there is no such statement.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        return (await self._move(RewindRequest(statement, files, conversation, is_dry=True))).written

    async def switch(self, branch: str, *, files: bool = True) -> Rewound | None:
        """Switch to the end of another branch. Queued and cancelled as `rewind`.

        Args:
            branch: its name.
            files: files that statements wrote become what they were when the branch was left; returned as by `rewind`.

        Raises:
            InvalidRequestError: there is no such branch, or it is active already, and nothing has changed.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        return await self._go(SwitchRequest(branch, files))

    async def undo(self, statement: int | None = None, *, protected: bool = True, is_dry: bool = False) -> MoveResult:
        """Undo what a statement did to files, and nothing else. Queued and cancelled as `rewind`.

        Args:
            statement: its number; None for the last one that changed files which are not undone yet.
            protected: as for `rewind`.
            is_dry: only say what would be done.

        Raises:
            InvalidRequestError: there is no such statement, or it has changed no file; nothing has changed.
            SessionBusyError, SessionReadOnlyError: as from `accept`.
        """
        return await self._move(UndoRequest(statement, protected=protected, is_dry=is_dry))

    async def redo(self, *, protected: bool = True, is_dry: bool = False) -> MoveResult:
        """Redo what was undone last. Arguments and errors as for `undo`."""
        return await self._move(UndoRequest(is_redo=True, protected=protected, is_dry=is_dry))

    async def _go(self, request: RewindRequest | SwitchRequest) -> Rewound | None:
        return (await self._move(request)).rewound

    async def _move(self, request: RewindRequest | SwitchRequest | UndoRequest) -> MoveResult:
        gone = await self._ask(request)
        assert isinstance(gone, MoveResult)
        return gone

    async def _ask(self, request: PastRequest) -> PastResult:
        """Queue a request about the past; return its result.

        The log shows it as its command.
        """
        ticket = Ticket(self._parts.minter.message(), Composed(request.command), self._kind(), request=request)
        self._requests.take(ticket, None)
        end = await self._carried_out(ticket)
        if end.refused is not None:
            raise end.refused
        if end.result is None:
            raise StatementWithdrawnError(self.session_id)
        return end.result

    async def tick(self) -> Sequence[Event]:
        """Let running handles catch up with their files; return the changes as events.

        It finishes even if the waiting task is cancelled.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
        """
        return await shielded(self._runtime.tick)

    async def look(self, names: Collection[str] = (), tokens: int | None = None, *, at_sources: bool = False) -> Looked:
        """Return the handles, and what those of `names` show, as `Environment.look`.

        Only between two statements.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
        """
        return await self._runtime.look(names, tokens, at_sources=at_sources)

    async def count(self, texts: Sequence[str]) -> Sequence[int]:
        """Count the tokens of each text.

        Raises:
            EnvironmentUnavailableError: the worker, which counts, is gone and cannot be replaced.
        """
        return await self._runtime.count(texts)

    async def rest(self) -> None:
        """End the worker if the session is idle; the next request that needs it has a rebuilt one."""
        runtime = self._requests.runtime
        if runtime is not None and not self.is_busy:
            await runtime.rest()

    def check_place(self, cwd: str, directories: Sequence[str], *, confined: bool) -> None:
        """Check that it is open in these directories, and confined to them or not.

        Raises InvalidRequestError.
        """
        spec = self._parts.spec
        if (cwd, tuple(directories), confined) != (spec.cwd, spec.directories, spec.confined):
            where = ", ".join((spec.cwd, *spec.directories))
            kind = "confined to" if spec.confined else "without limits in"
            raise InvalidRequestError(f"session {self.session_id} is open {kind} {where}; open another session")

    def is_at(self, cwd: str, directories: Sequence[str]) -> bool:
        """Return whether it is open in these directories. Raises InvalidRequestError if a path is not absolute."""
        chosen = spelled(cwd)
        return (chosen, additional(directories, chosen)) == (spelled(self.cwd), self._parts.directories)

    def would_move(self, cwd: str, directories: Sequence[str], servers: Sequence[McpServer] = ()) -> bool:
        """Return whether a load with these directories or MCP servers has to close it first.

        Raises:
            SessionBusyError: it has to, but something runs or waits, which the close would cancel.
            InvalidRequestError: it has to, but a path is not absolute, or there is no such working directory.
        """
        chosen = spelled(cwd)
        named = self._parts.servers
        is_elsewhere = not self.is_at(cwd, directories)
        if not is_elsewhere and (not servers if named is None else named.are(servers)):
            return False
        check_working_directory(chosen)
        how = "elsewhere" if is_elsewhere else "with other MCP servers"
        if self._requests.is_busy:
            raise SessionBusyError(
                f"session {self.session_id} is busy in {self.cwd}; cancel its prompt or wait, then load it {how}"
            )
        return True

    def entitle(self) -> None:
        """Let listings show its title, if it has one. A forked session is not listed before."""
        if self.title is not None:
            self._parts.store.retitle(self.session_id, self.title)
            self._parts.store.flush()

    async def retitle(self, title: str) -> None:
        """Give it another title; durable when it returns. Raises SessionReadOnlyError. See `Sessions.retitle`."""
        self._parts.store.retitle(self.session_id, title)
        await self._parts.journal.durable(self._parts.log.append(TitleChanged(title=title)))

    async def instruct(self, text: str) -> None:
        """Let prompts begin with these instructions of its client, instead of earlier ones; durable when it returns.

        A read-only session ignores them, because it takes no prompts. See `Sessions.instructions`.
        """
        text = self._parts.redactor.redact(text)
        known = next((each.text for each in reversed(self.events) if isinstance(each, InstructionsGiven)), "")
        if text != known and not self.is_read_only:
            await self._parts.journal.durable(self._parts.log.append(InstructionsGiven(text=text)))

    def set_mode(self, mode: str) -> None:
        """Set the mode, from the next statement on, even during a turn.

        Raises InvalidRequestError.
        """
        known = known_mode(mode)
        if known != self.options.mode:
            self._parts.log.append(ModeChanged(mode=known))

    def set_option(self, name: str, value: str) -> None:
        """Set `mode` or another option. Raises InvalidRequestError."""
        if name == "mode":
            self.set_mode(value)
            return
        if name in (MODEL, THINKING):
            self._parts.model.set(name, value)
            return
        check_option(name, value)
        if value != self.options.values[name]:
            self._parts.log.append(ConfigChanged(option=name, value=value))

    def cancel(self, ticket: Ticket | None = None) -> None:
        """Withdraw the waiting requests, then end the running one. With a `ticket`, only that request.

        A ticket that steers ends the running request. Does nothing when idle.
        """
        self._requests.cancel(ticket)

    def _kind(self) -> PromptKind:
        return "follow_up" if self._requests.is_busy else "direct"

    @property
    def is_busy(self) -> bool:
        """Whether a request runs or waits."""
        return self._requests.is_busy

    async def idle(self) -> None:
        """Wait until no request runs or waits."""
        await self._requests.idle()

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self, tasks: TaskGroup) -> None:
        """Start serving requests."""
        self._requests.start(tasks)
        if self._parts.store.is_remote:
            tasks.start_soon(self._end_if_taken_over)

    def connect(self) -> None:
        """Start connecting its MCP servers, and listing the slash commands of files, in the background.

        The first request does it at the latest.
        """
        self._requests.connect()

    @property
    def is_taken_over(self) -> bool:
        """Whether another process has taken the session over."""
        return self._parts.journal.is_taken_over

    def begin_close(self) -> None:
        """Refuse further requests and cancel all others. Nothing is awaited."""
        self._requests.begin_close()

    async def close(self) -> None:
        """Close the session: wait until nothing runs, and free its resources. Idempotent."""
        self.begin_close()
        await self._requests.idle()
        await self._free()
        self._parts.journal.close()

    async def _end_if_taken_over(self) -> None:
        """Stop everything once another process has the session. Clients still get what the journal says of it."""
        if await self._parts.journal.taken_over():
            self.begin_close()
            await self._requests.idle()
            await self._free()

    async def _free(self) -> None:
        try:
            if self._requests.runtime is not None:
                await self._requests.runtime.close()
        finally:
            if self._parts.servers is not None:
                await self._parts.servers.close()

    @property
    def _runtime(self) -> SessionRuntime:
        return self._requests.server.runtime
