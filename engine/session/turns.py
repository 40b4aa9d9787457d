"""What serves the requests of one session, put together from top to bottom: environment, projection, model, loop.

The second half of the composition that `assembly` begins, loaded with the first request. Owns how a prompt, a command
and a cell are carried out between their UserMessage and the end of their run. Called by `Session`, one at a time.
Long for this folder, because what is put together stands in one place, and what runs on it needs most of that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from ..context.model import Model
from ..context.models import close_model
from ..context.tail.feed import LogNews
from ..context.tail.prompt import Account
from ..context.tail.results import value_chars
from ..context.tail.standing import SentProjections
from ..context.view.condensation import Cut
from ..core.errors import EnvironmentUnavailableError, InvalidRequestError
from ..core.ids import MessageId, StatementId
from ..core.settings import DEFAULT_MODEL
from ..files import safe_open
from ..files.search.commands import find_ripgrep
from ..files.sources import Editor
from ..files.tails import FeedItem, Looked
from ..log.branch_rows import branch_rows
from ..log.cycles import CycleFold
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.conversation import AgentText, Attachment, RunStop, UserMessage
from ..log.events.execution import StatementOmitted
from ..log.events.session import ContextMeasured, OthersWrote, PromptQueued, TitleChanged
from ..log.facts import READING, Readings
from ..log.permissions import Permissions
from ..log.timeline import Domains, Timeline
from ..runtime.environment import Environment
from .acts import Desk
from .agent_loop import AgentLoop
from .cancellation import Cancellation, WorkCancelledError, to_the_end
from .commands.command import Command, CommandContext, CommandRun
from .commands.table import command_in, command_of
from .confining import Confinement
from .directories import Scratch
from .editor_files import SessionBuffers
from .journal import TextStreamed
from .kept import CheckpointKeeping, PastBound, Revisions, ValueKeeping
from .live_environment import LiveEnvironment, RebuildProgress
from .model_calls.condenser import Condenser
from .model_calls.projector import Projection, Projector, Rerendering
from .model_calls.replies import SentCalls
from .openings import not_opened, openings
from .parts import SessionParts
from .past.branch_diff import diff
from .past.editing import Editing
from .past.head import FileRewinding, Head, Rewinder
from .past.replaying import LiveReplay, Replayer, RunsAgain
from .past.requests import EditRequest, ReplayReport, ReplayRequest
from .preparing import preparer_of
from .questions import Questions
from .statements import StatementRunner
from .ticker import Ticker
from .tickets import Ticket, TurnEnd, end_at
from .tools import Seen, Workspace
from .touches import records_of
from .turn import Stop

T = TypeVar("T")


class Turns:
    """Everything a session needs from its first request on. `announced` are the requests that wait, on the log."""

    def __init__(self, parts: SessionParts, announced: Callable[[], Sequence[Ticket]]) -> None:
        self._parts = parts
        log, timeline = parts.log, parts.timeline
        workspace = _workspace_of(parts)
        self._questions = Questions(log, parts.policy, parts.redactor, workspace.roots)
        self._buffers = SessionBuffers(workspace, parts.clock)
        seen = Seen(parts.store.blob_get)
        log.follow_path(seen, Seen.FOLLOWS)
        readings = Readings()
        log.follow_path(readings, READING)
        revisions = Revisions(parts.store, parts.redactor)
        log.follow(revisions.apply, Revisions.FOLLOWS)
        bound = PastBound(parts.store, parts.session_id, log, parts.journal, parts.settings.past_bytes)
        values = ValueKeeping(log, parts.store, parts.redactor, bound.hold)
        checkpoints = CheckpointKeeping(log, keeps=parts.settings.restore_by == "checkpoints")
        model = parts.models()
        self._open_model: Model | None = model
        self._scratch = Scratch(parts.settings.state_dir, parts.session_id)
        confinement = self._confinement_of(model, workspace)
        self._environment = LiveEnvironment(
            parts.environments,
            parts.spec,
            log,
            readings,
            parts.store,
            values,
            checkpoints,
            confinement,
            progress=partial(RebuildProgress, parts.journal.signal, parts.minter),
        )
        self._buffers.stopped = self._environment.stopped
        news, account = _told_of(log, timeline)
        sent = SentProjections()
        log.follow(sent.apply, SentProjections.FOLLOWS)
        calls = SentCalls(parts.store, parts.redactor, sent, account)
        self._projector = Projector(
            parts.view.view,
            parts.cwd,
            parts.settings.context_budget,
            news,
            calls_tools=parts.settings.calls_tools,
        )
        self.cycles = CycleFold(log.at)
        log.follow_path(self.cycles, CycleFold.FOLLOWS)
        self._preparer = preparer_of(parts, workspace.roots, revisions, model)
        self._ticker = Ticker(
            log=log,
            timeline=timeline,
            rounds=parts.rounds,
            environment=self._environment,
            revisions=revisions,
            preparer=self._preparer,
            clock=parts.clock,
        )
        self._statements = self._statements_of(self._desk_of(workspace, seen, confinement), revisions, values)
        runs_again = self._runs_again()
        self._replayer = self._replayer_of(runs_again)
        self._replayed: ReplayReport | None = None
        """How the replay went that the present request asked for."""
        self._rerendering = Rerendering(
            log=log,
            view=parts.view.view,
            standing=news.standing,
            sent=sent,
            projector=self._projector,
            rule=parts.settings.projection_rerender,
        )
        self._loop = self._loop_of(model, calls, self._condenser_of(model, news))
        self._announced = announced
        self._unsaid: UserMessage | None = None
        """Of the prompt that is carried out, as long as it is not on the log."""
        self._head = Head(
            log=log,
            timeline=timeline,
            view=parts.view,
            environment=self._environment,
            preparer=self._preparer,
            waiting=self._waiting,
        )
        self._editing = Editing(runs_again, timeline=timeline, store=parts.store, head=self._head)
        files = FileRewinding(log, parts.journal, parts.store, workspace, parts.provenance, self._buffers)
        self._rewinder = Rewinder(log, self._head, files, self._begin_run)
        self._context = self._context_of(sent, calls)
        self._notes = parts.notes
        self._cancellation = Cancellation()
        """Of the command or the cell that is carried out; a turn has its own."""

    # --- the parts that take many others ------------------------------------------------------------------------------

    def _desk_of(self, workspace: Workspace, seen: Seen, confinement: Confinement) -> Desk:
        parts = self._parts
        return Desk(
            log=parts.log,
            store=parts.store,
            minter=parts.minter,
            workspace=workspace,
            redactor=parts.redactor,
            policy=parts.policy,
            questions=self._questions,
            seen=seen,
            buffers=self._buffers,
            servers=parts.servers,
            domain=lambda: self._environment.domain,
            distrusted=lambda: confinement.distrusted,
            signal=parts.journal.signal,
            dismissed=self.cancel,
        )

    def _statements_of(self, desk: Desk, revisions: Revisions, values: ValueKeeping) -> StatementRunner:
        parts = self._parts
        return StatementRunner(
            log=parts.log,
            journal=parts.journal,
            timeline=parts.timeline,
            policy=parts.policy,
            environment=self._environment,
            revisions=revisions,
            values=values,
            desk=desk,
            records=records_of(parts),
            minter=parts.minter,
            clock=parts.clock,
            seconds=parts.settings.statement_seconds,
            value_chars=value_chars(parts.settings.context_budget),
        )

    def _runs_again(self) -> RunsAgain:
        parts = self._parts
        return RunsAgain(
            log=parts.log,
            environment=self._environment,
            statements=self._statements,
            ticker=self._ticker,
            questions=self._questions,
            policy=parts.policy,
            minter=parts.minter,
        )

    def _replayer_of(self, runs_again: RunsAgain) -> Replayer:
        parts = self._parts
        return Replayer(
            log=parts.log,
            timeline=parts.timeline,
            environment=self._environment,
            live=lambda cells: LiveReplay(cells, runs_again),
            minter=parts.minter,
            clock=parts.clock,
        )

    def _condenser_of(self, model: Model, news: LogNews) -> Condenser:
        parts = self._parts
        return Condenser(
            log=parts.log,
            view=parts.view.view,
            projector=self._projector,
            past=news.past,
            cycles=self.cycles,
            model=model,
            calls_tools=parts.settings.calls_tools,
        )

    def _loop_of(self, model: Model, calls: SentCalls, condenser: Condenser) -> AgentLoop:
        parts = self._parts
        return AgentLoop(
            log=parts.log,
            journal=parts.journal,
            timeline=parts.timeline,
            policy=parts.policy,
            environment=self._environment,
            statements=self._statements,
            projector=self._projector,
            rerendering=self._rerendering,
            sent=calls,
            condenser=condenser,
            ticker=self._ticker,
            questions=self._questions,
            model=model,
            minter=parts.minter,
            max_rounds=parts.settings.max_rounds,
            servers=parts.servers,
            openings_of=self._openings_of,
        )

    def _context_of(self, sent: SentProjections, calls: SentCalls) -> CommandContext:
        parts, log = self._parts, self._parts.log
        return CommandContext(
            session_id=parts.session_id,
            timeline=parts.timeline,
            sent=sent,
            breakdown=calls.breakdown,
            breakdown_of=calls.breakdown_of,
            content=calls.text,
            latest=lambda: self._projector.latest,
            foresee=self.foresee,
            project=self.project,
            tick=self.tick,
            names=self._handle_names,
            compact=self._compact,
            omit=self.omit,
            cwd=parts.cwd,
            is_on_path=log.branches.holds,
            branches=lambda: branch_rows(log.branches, parts.branch_statements),
            diff=lambda left, right: diff(log.events, log.branches, left, right),
            rewind=lambda statement, files, conversation: self._rewinder.go(
                self._head.after(statement, conversation=conversation), files=files
            ),
            switch=lambda name, files: self._rewinder.go(self._head.end_of(name), files=files),
            replay=self._replay,
            edit=self._edit,
        )

    def _confinement_of(self, model: Model, workspace: Workspace) -> Confinement:
        parts = self._parts
        domains = Domains(parts.provenance)
        parts.log.follow_path(domains, Domains.FOLLOWS)
        return Confinement(
            log=parts.log,
            policy=parts.policy,
            provenance=parts.provenance,
            domains=domains,
            questions=self._questions,
            rule=parts.settings.sandbox,
            roots=workspace.roots,
            protection=workspace.protection,
            scratch=self._scratch,
            state=str(parts.settings.state_dir),
            by_model=model.name != DEFAULT_MODEL,
            dismissed=self.cancel,
        )

    def attach(self, permissions: Permissions | None, editor: Editor | None) -> None:
        """Says whom to ask from now on, and whose files to look at first."""
        self._questions.permissions = permissions
        self._buffers.editor = editor
        self._environment.follow(None if editor is None else self._buffers)

    async def _compact(self) -> tuple[Cut, int] | None:
        cut = await self._loop.compact()
        if cut is None:
            return None
        now = await self.project()
        self._parts.log.append(ContextMeasured(used=now.used, size=now.size))
        return cut, now.used

    # --- one request --------------------------------------------------------------------------------------------------

    async def carry_out(self, ticket: Ticket) -> TurnEnd:
        """Serves one request from its UserMessage to its RunStop; returns when both are durable."""
        command, argument = (None, ticket.text) if ticket.cell else command_of(ticket.said)
        if ticket.cell or (command is not None and command.run is None):
            end = await self._run_cell(ticket, argument)
        else:
            end = await self._serve_prompt(ticket, command, argument)
        await self._parts.journal.durable(end.seq)
        return end

    async def _serve_prompt(self, ticket: Ticket, command: Command | None, argument: str) -> TurnEnd:
        self._unsaid = ticket.message(ticket.prompt_kind, aside=command is not None and not command.is_said)
        if command is None or not command.moves_head:
            self._begin_run()
        if command is not None and command.run is not None:
            return await self._answer(command.run, argument, torn=command.torn)
        stop = await self._run(ticket)
        return end_at(self._parts.log, stop.cause, stop.detail, unusable=stop.unusable)

    def _begin_run(self) -> None:
        """Has the message of what is carried out be on the log."""
        message, self._unsaid = self._unsaid, None
        if message is not None:
            self._parts.log.append(message)

    def _waiting(self) -> Sequence[PromptQueued]:
        """What is to be announced again where the head moves: what is carried out now, and what waits behind it."""
        waits = [self._unsaid] if self._unsaid is not None and self._unsaid.prompt_kind == "follow_up" else []
        behind = [PromptQueued(message_id=each.message_id, text=each.text) for each in self._announced()]
        return [*(PromptQueued(message_id=each.message_id, text=each.text) for each in waits), *behind]

    def steer(self, message: UserMessage) -> bool:
        """Has the running turn's next model call read `message`; False where no turn is running or it is ending.

        A command is for no model, and waits.
        """
        return command_in(message.text)[0] is None and self._loop.steer(message)

    def answer_at_once(self, text: str, message_id: MessageId) -> bool:
        """Answers a command that can be answered while a turn is running; False for any other text."""
        command, argument = command_in(text)
        if command is None or command.glance is None:
            return False
        shown = TextStreamed(message_id, command.glance(self._context, argument), aside=True)
        self._parts.journal.signal(shown, is_whole=True)
        return True

    async def _run(self, ticket: Ticket) -> Stop:
        """Carries out the prompt whose message is on the log, to its RunStop."""
        if self._parts.policy.title is None:
            self._entitle()
        notes, self._notes = self._notes, ()
        self._tell(notes)
        return await self._loop.run(self._openings_of(ticket.said.attachments), ticket.said.text)

    def _openings_of(self, attachments: Sequence[Attachment]) -> Sequence[str]:
        """The statements that open what was attached; says of the others why they are not opened."""
        self._tell(not_opened(attachments))
        # Names of variables are made of these names, and are no texts.
        named = [replace(each, name=self._parts.redactor.redact(each.name or each.uri)) for each in attachments]
        timeline = self._parts.timeline
        return openings(named, self._parts.cwd, timeline.names, timeline.rebound)

    def _entitle(self) -> None:
        """Names the session after its first prompt, whose message is on the log."""
        cycle = self.cycles.active
        assert cycle is not None
        self._parts.log.append(TitleChanged(title=cycle.title))
        self._parts.store.retitle(self._parts.session_id, cycle.title)

    def _tell(self, sentences: Sequence[str]) -> None:
        if sentences:
            self._say("\n".join(sentences) + "\n\n")

    async def _answer(self, run: CommandRun, argument: str, *, torn: bool) -> TurnEnd:
        """Carries out a command to its RunStop. One that is not `torn` sees to a cancel by itself."""
        self._cancellation = Cancellation()
        self._replayed = None
        stop, refused = _COMPLETED, None
        try:
            if torn:
                answer = await self._cancellation.guard(lambda: run(self._context, argument))
            else:
                answer = await run(self._context, argument)
        except (EnvironmentUnavailableError, InvalidRequestError) as error:
            answer, refused = str(error), error
            self._say_aside()
        except WorkCancelledError:
            answer, stop = "", RunStop(reason="interrupted", cause="cancelled")
            self._say_aside()
        self._begin_run()
        if answer:
            self._say(answer)
        self._parts.log.append(stop)
        return end_at(self._parts.log, stop.cause, refused=refused, replay=self._replayed)

    async def _replay(self, request: ReplayRequest) -> ReplayReport:
        """Raises InvalidRequestError, and WorkCancelledError where it was cancelled."""
        self._replayed = await self._replayer.replay(request, self._cancellation)
        if self._replayed.outcome == "cancelled":
            raise WorkCancelledError
        return self._replayed

    def _say_aside(self) -> None:
        """Has nobody but the user read the message, if it is not on the log: nothing came of it."""
        if self._unsaid is not None:
            self._unsaid = replace(self._unsaid, aside=True)

    async def _edit(self, request: EditRequest) -> ReplayReport:
        """Raises InvalidRequestError, and WorkCancelledError where it was cancelled and all is as before."""
        message = self._unsaid
        self._replayed = await self._editing.edit(request, self._cancellation, self._begin_run)
        if self._replayed.outcome == "cancelled":
            self._unsaid = message  # it was on the branch that was left
            raise WorkCancelledError
        return self._replayed

    async def _run_cell(self, ticket: Ticket, source: str) -> TurnEnd:
        """Runs one statement, to its RunStop.

        Raises:
            EnvironmentUnavailableError: there is no worker to run it in.
        """
        stop = RunStop(reason="error", cause="error", detail="internal error")
        self._cancellation = Cancellation()
        before = len(self._parts.log)
        if ticket.by_client and not self._parts.provenance.is_foreign:
            self._parts.log.append(OthersWrote(by="client"))  # ahead of all else, because the worker goes by it
        try:
            opened = self._ticker.next_round("cell")
            finished = await self._statements.run(
                source,
                opened.round_id,
                None,
                self._cancellation,
                seconds=ticket.seconds,
                opening=(ticket.message(ticket.prompt_kind, aside=True), opened),
            )
            self._ticker.cue()
            is_cancelled = finished.status == "cancelled"
            stop = RunStop(reason="interrupted", cause="cancelled") if is_cancelled else _COMPLETED
        except EnvironmentUnavailableError as error:
            stop = RunStop(reason="error", cause="error", detail=str(error))
            raise
        finally:
            if len(self._parts.log) > before:  # else not even its message could be recorded
                self._parts.log.append(stop)
        return end_at(self._parts.log, stop.cause, execution=finished)

    def cancel(self) -> None:
        """Ends what is running, whatever it is; what is under way is given up at once."""
        self._loop.cancel()
        self._cancellation.cancel()
        self._buffers.give_up()

    def _say(self, text: str) -> None:
        """Tells the user something that no model reads."""
        message_id = self._parts.minter.message()
        self._parts.journal.signal(TextStreamed(message_id, text, aside=True), is_whole=True)
        self._parts.log.append(AgentText(message_id=message_id, text=text, aside=True))

    # --- looking, and the end -----------------------------------------------------------------------------------------

    async def project(self) -> Projection:
        """What a model would read now. Raises EnvironmentUnavailableError."""
        return await self._environment.use(self._rerendering.project)

    async def foresee(self) -> Sequence[FeedItem]:
        """What the next tick would find by now, of each handle that it would change.

        Raises EnvironmentUnavailableError.
        """
        if self._parts.timeline.last_execution is None:
            return ()
        round_id, now = self._parts.rounds.next, self._parts.clock.now()
        return await self._environment.use(lambda environment: environment.foresee(round_id, now))

    async def tick(self) -> Sequence[Event]:
        """Lets running handles catch up with their files now; the events. Raises EnvironmentUnavailableError."""
        round_id = self._ticker.open_round("tick")
        before = len(self._parts.log)
        await self._ticker.tick(round_id)
        return self._parts.log.since(before)

    async def look(self, names: Collection[str], tokens: int | None, *, at_sources: bool) -> Looked:
        """The handles as they are, of a namespace that has seen a statement. Raises EnvironmentUnavailableError."""
        if self._parts.timeline.last_execution is None:
            return Looked()

        return await self._whole(lambda environment: environment.look(names, tokens, at_sources=at_sources))

    async def _handle_names(self) -> Mapping[str, str]:
        return {row.obj_id: row.name for row in (await self.look((), None, at_sources=False)).rows}

    async def count(self, texts: Sequence[str]) -> Sequence[int]:
        """How many tokens each text has. Raises EnvironmentUnavailableError."""

        return (await self._whole(lambda environment: environment.project(texts, 0))).text_tokens

    async def _whole(self, ask: Callable[[Environment], Awaitable[T]]) -> T:
        """An answer of the worker's, which is waited for to its end: one that nobody takes costs the worker."""

        return await self._environment.use(lambda environment: to_the_end(lambda: ask(environment)))

    async def rest(self) -> None:
        """Ends the worker until somebody needs it. Not while anything is carried out."""
        async with self._environment.step:
            await self._environment.rest()

    async def omit(self, statement_id: StatementId, omitted: bool) -> None:
        """Leaves a statement out of the namespace, which is rebuilt when it is needed next, or takes it in again."""
        self._parts.log.append(StatementOmitted(statement_id=statement_id, omitted=omitted))
        await self._environment.renew()

    @property
    def next_look(self) -> float | None:
        """After how many seconds of the session's being idle `look_after` has something to do; None for not at all."""
        return self._environment.next_look

    async def prepare(self) -> None:
        """Prepares beside the requests what nodes wish for, until `close`."""
        await self._preparer.serve()

    async def look_after(self) -> float | None:
        """Does what has waited for the session to be idle; after how many seconds again, None for not at all."""
        return await self._environment.look_after()

    async def close(self) -> None:
        """Frees the worker and closes the model's connections. May be repeated, also after a failure."""
        try:
            await self._preparer.close()
            await self._environment.close()
        finally:
            self._scratch.close()
            model, self._open_model = self._open_model, None
            if model is not None:
                await close_model(model)


def _workspace_of(parts: SessionParts) -> Workspace:
    return Workspace(
        parts.cwd,
        parts.directories,
        records=str(parts.settings.state_dir / safe_open.FOLDER),
        ripgrep=find_ripgrep(parts.spec.variables.get("PATH", ""), (parts.cwd, *parts.directories)),
    )


def _told_of(log: EventLog, timeline: Timeline) -> tuple[LogNews, Account]:
    news, account = LogNews(timeline), Account(timeline)
    log.follow_path(news)
    log.follow_path(account, Account.FOLLOWS)
    return news, account


_COMPLETED = RunStop(reason="completed", cause="end_turn")
