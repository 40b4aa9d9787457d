"""The parts of a session that its first request needs, and what can be done with them.

The constructor puts them together from top to bottom: each part gets the session's `SessionParts` and the parts that it
works with. The methods below are what commands and adapters may call. Loaded with the first request, because an editor
waits for a new session. Must not know how a request is served: that is `serving`, which makes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from ..context.tail.feed import LogNews
from ..context.tail.prompt import Account
from ..context.tail.sent_prompts import SentProjections
from ..context.view.condensation import Cut
from ..core.ids import StatementId
from ..files import temporary_files
from ..files.search.commands import find_ripgrep
from ..files.sources import Editor
from ..files.tails import FeedItem, Looked
from ..log.branches import BranchRow, branch_rows
from ..log.cycles import CycleFold
from ..log.events import Event
from ..log.events.conversation import Attachment
from ..log.events.execution import StatementOmitted
from ..log.events.session import ContextMeasured
from ..log.facts import READING, Readings
from ..log.forms import Forms
from ..log.permissions import Permissions
from ..log.timeline import Cell
from ..runtime.environment import Environment
from .agent_loop import AgentLoop, ModelCalls
from .cancellation import WorkCancelledError, shielded
from .confinement import Confinement
from .directories import Scratch
from .editor_files import EditorBuffers
from .fetching import Fetcher
from .forms import FormQuestions
from .guidance import Guidance
from .journal import CommandRow
from .live_environment import LiveEnvironment
from .model_calls.condenser import Condenser
from .model_calls.projector import Projection, Projector, ResultRerenderer
from .model_calls.replies import ModelCallRecords
from .parts import SessionParts
from .past.branch_diff import BranchDiff, diff
from .past.editing import Editing
from .past.merging import Merger
from .past.replaying import Replayer, RerunContext
from .past.rewinding import FileRewinder, Head, Rewinder
from .past.undoing import Undoer
from .policy import Questions
from .preparing import preparer_of
from .requests import (
    ActiveRequest,
    EditRequest,
    PastRequest,
    PastResult,
    ReplayReport,
    ReplayRequest,
    RewindRequest,
    SwitchRequest,
    UndoRequest,
)
from .saved_state import CheckpointSaver, HistoryLimit, Revisions, ValueSaver
from .statements import StatementRunner, Ticker
from .tool_calls import ToolContext
from .tools import SeenFiles, Workspace
from .working_tree.changes import TreeComparison

T = TypeVar("T")


class SessionRuntime:
    """The working parts of one session.

    Args:
        openings_of: gives the statements that open a prompt's attachments.
        dismissed: ends the active request, because the user dismissed a question.
        commands: gives the slash commands of files and servers.
    """

    def __init__(
        self,
        parts: SessionParts,
        openings_of: Callable[[Sequence[Attachment]], Sequence[str]],
        dismissed: Callable[[], None],
        commands: Callable[[], Sequence[CommandRow]] = tuple,
    ) -> None:
        self.parts = parts
        self.custom_commands = commands
        log, timeline, settings = parts.log, parts.timeline, parts.settings
        model = parts.model
        self._openings_of = openings_of
        self._loop: AgentLoop | None = None

        # Files, and questions to the user
        workspace = Workspace(
            parts.cwd,
            parts.directories,
            records=str(settings.state_dir / temporary_files.FOLDER),
            ripgrep=find_ripgrep(parts.spec.variables.get("PATH", ""), (parts.cwd, *parts.directories)),
            hide=parts.redactor.hidden_lines,
        )
        self._questions = Questions(log, parts.policy, parts.redactor, workspace.roots)
        self._forms = FormQuestions(parts.redactor)
        self.buffers = EditorBuffers(workspace, parts.clock)
        seen = SeenFiles(parts.store.blob_get, workspace.hide)
        log.follow_path(seen, SeenFiles.FOLLOWS)
        self._scratch = Scratch(settings.state_dir, parts.session_id)
        self._comparison = TreeComparison(parts, workspace, self.buffers.saved_since)

        # State that is saved for rebuilds
        revisions = Revisions(parts.store, parts.redactor)
        log.follow(revisions.apply, Revisions.FOLLOWS)
        limit = HistoryLimit(parts.store, parts.session_id, log, parts.journal, settings.past_bytes)
        values = ValueSaver(log, parts.store, parts.redactor, limit.enforce)
        checkpoints = CheckpointSaver(log, keeps=settings.restore_by == "checkpoints")

        # The namespace and its sandbox
        confinement = Confinement(
            parts,
            questions=self._questions,
            roots=workspace.roots,
            protection=workspace.protection,
            scratch=self._scratch,
            by_model=lambda: not model.is_direct,
            dismissed=dismissed,
        )
        readings = Readings()
        log.follow_path(readings, READING)
        self.environment = LiveEnvironment(parts, readings, values, checkpoints, confinement)
        self.buffers.stopped = self.environment.stopped
        self.buffers.acting = self.environment.acting

        # Statements and ticks
        self._preparer = preparer_of(parts, workspace.roots, revisions)
        self.ticker = Ticker(
            log=log,
            timeline=timeline,
            facts=parts.facts,
            environment=self.environment,
            revisions=revisions,
            preparer=self._preparer,
            clock=parts.clock,
        )
        tools = ToolContext(
            parts=parts,
            workspace=workspace,
            questions=self._questions,
            forms=self._forms,
            fetcher=Fetcher(settings.fetch_private),
            downloads=self._scratch.keep,
            seen=seen,
            comparison=self._comparison,
            buffers=self.buffers,
            dismissed=dismissed,
            domain=lambda: self.environment.domain,
            distrusted=lambda: confinement.distrusted,
            has_appeared=confinement.has_appeared,
        )
        self.statements = StatementRunner(parts, self.environment, revisions, values, tools, self._preparer)

        # Rewinds, replays and edits
        reruns = RerunContext(
            log=log,
            environment=self.environment,
            statements=self.statements,
            ticker=self.ticker,
            questions=self._questions,
            policy=parts.policy,
            minter=parts.minter,
        )
        self._replayer = Replayer(reruns, timeline=timeline, clock=parts.clock)
        self._head = Head(
            log=log,
            journal=parts.journal,
            timeline=timeline,
            view=parts.view,
            environment=self.environment,
            preparer=self._preparer,
        )
        self._editing = Editing(reruns, timeline=timeline, store=parts.store, head=self._head)
        merger = Merger(parts.store, workspace, parts.redactor.storable)
        files = FileRewinder(
            log, parts.journal, parts.store, workspace, parts.facts, self.buffers, self._comparison, merger
        )
        self._rewinder = Rewinder(log, self._head, files)
        self._undoer = Undoer(log, timeline, self.environment, files)

    def attach(self, permissions: Permissions | None, editor: Editor | None, forms: Forms | None) -> None:
        """Set whom questions go to, whose unsaved texts replace the disk's, and who is asked for answers."""
        self._questions.permissions = permissions
        self._forms.forms = forms
        self.buffers.editor = editor
        self.environment.follow(None if editor is None else self.buffers)

    # --- the past -----------------------------------------------------------------------------------------------------

    @property
    def cells(self) -> Sequence[Cell]:
        """The statements of the active branch, oldest first."""
        return self.parts.timeline.cells

    @property
    def branches(self) -> Sequence[BranchRow]:
        """The branches of the log, oldest first."""
        return branch_rows(self.parts.log.branches, self.parts.facts.statements_below)

    def diff(self, left: str, right: str) -> BranchDiff:
        """Compare two branches by name. Raises InvalidRequestError for an unknown one."""
        return diff(self.parts.log.events, self.parts.log.branches, left, right)

    async def perform(self, request: PastRequest, active: ActiveRequest) -> PastResult:
        """Rewind, switch, replay or edit; leave the result with `active`.

        Raises:
            InvalidRequestError: there is no such statement or branch, or it cannot run again; nothing has changed.
            WorkCancelledError: it was cancelled, and everything is as before.
        """
        match request:
            case RewindRequest():
                with self.parts.log.held():
                    goal = self._head.after(request.statement, conversation=request.conversation)
                    move = self._rewinder.look if request.is_dry else self._rewinder.go
                    active.result = await move(goal, active, files=request.files, protected=request.protected)
            case SwitchRequest():
                with self.parts.log.held():
                    goal = self._head.end_of(request.branch)
                    active.result = await self._rewinder.go(goal, active, files=request.files)
            case UndoRequest():
                with self.parts.log.held():
                    active.result = await self._undoer.go(request, active)
            case ReplayRequest():
                active.result = _unless_cancelled(await self._replayer.replay(request, active.cancellation), active)
            case EditRequest():
                report = await self._editing.edit(request, active)
                if report.outcome == "cancelled":
                    active.append_again()
                active.result = _unless_cancelled(report, active)
        return active.result

    async def omit(self, statement_id: StatementId, omitted: bool) -> None:
        """Leave a statement out of the namespace, or put it back.

        The next use of the namespace rebuilds it.
        """
        self.parts.log.append(StatementOmitted(statement_id=statement_id, omitted=omitted))
        await self.environment.renew()

    # --- what a model reads -------------------------------------------------------------------------------------------
    #
    # A session without a model reads none of this. So each read model follows the log from its first use on, and gets
    # the earlier events then.

    @cached_property
    def cycles(self) -> CycleFold:
        """The request cycles of the active branch."""
        cycles = CycleFold(self.parts.log.at)
        self.parts.log.follow_path(cycles, CycleFold.FOLLOWS)
        return cycles

    @cached_property
    def sent(self) -> SentProjections:
        """The prompts that model calls were sent."""
        sent = SentProjections()
        self.parts.log.follow(sent.apply, SentProjections.FOLLOWS)
        return sent

    @cached_property
    def calls(self) -> ModelCallRecords:
        """The records of model calls."""
        account = Account(self.parts.timeline)
        self.parts.log.follow_path(account, Account.FOLLOWS)
        return ModelCallRecords(self.parts.store, self.parts.redactor, self.sent, account)

    @cached_property
    def _news(self) -> LogNews:
        news = LogNews(self.parts.timeline)
        self.parts.log.follow_path(news)
        return news

    @cached_property
    def projector(self) -> Projector:
        """The projector, which builds prompts."""
        settings = self.parts.settings
        return Projector(
            self.parts.view.view,
            self.parts.cwd,
            settings.context_budget,
            self._news,
            self.parts.model,
            self.parts.facts,
        )

    @cached_property
    def _rerendering(self) -> ResultRerenderer:
        return ResultRerenderer(
            log=self.parts.log,
            view=self.parts.view.view,
            standing=self._news.standing,
            statements=self._news.past,
            sent=self.sent,
            projector=self.projector,
            rule=self.parts.settings.projection_rerender,
        )

    @cached_property
    def _guidance(self) -> Guidance:
        return Guidance(self.parts)

    @property
    def loop(self) -> AgentLoop:
        """The agent loop."""
        if self._loop is None:
            condenser = Condenser(
                log=self.parts.log,
                journal=self.parts.journal,
                minter=self.parts.minter,
                view=self.parts.view.view,
                projector=self.projector,
                past=self._news.past,
                cycles=self.cycles,
                model=self.parts.model,
            )
            self._loop = AgentLoop(
                self.parts,
                self.environment,
                self.statements,
                ModelCalls(self.parts.model, self.projector, self._rerendering, self._guidance, self.calls, condenser),
                self.ticker,
                self._questions,
                self._openings_of,
            )
        return self._loop

    def cancel_turn(self) -> None:
        """End the running turn as cancelled, if there is one."""
        if self._loop is not None:
            self._loop.cancel()

    async def project(self) -> Projection:
        """Build the prompt that a model would get now.

        Raises EnvironmentUnavailableError.
        """
        return await self.environment.use(self._rerendering.project)

    async def compact(self) -> tuple[Cut, int] | None:
        """Replace messages by a summary; return the cut and the new token count.

        Returns None if nothing can go.

        Raises:
            EnvironmentUnavailableError: the worker, which counts tokens, is gone and cannot be replaced.
        """
        cut = await self.loop.compact()
        if cut is None:
            return None
        now = await self.project()
        self.parts.log.append(ContextMeasured(used=now.used, size=now.size))
        return cut, now.used

    async def foresee(self) -> Sequence[FeedItem]:
        """Return what the next tick would find now, for each handle that it would change.

        Raises EnvironmentUnavailableError.
        """
        if self.parts.timeline.last_execution is None:
            return ()
        round_id, now = self.parts.facts.next_round, self.parts.clock.now()
        return await self.environment.use(lambda environment: environment.foresee(round_id, now))

    async def tick(self) -> Sequence[Event]:
        """Let running handles catch up with their files; return the events.

        Raises EnvironmentUnavailableError.
        """
        round_id = self.ticker.open_round("tick")
        before = len(self.parts.log)
        await self.ticker.tick(round_id)
        return self.parts.log.since(before)

    async def look(self, names: Collection[str], tokens: int | None, *, at_sources: bool) -> Looked:
        """Return the handles as they are; none before the first statement.

        Raises EnvironmentUnavailableError.
        """
        if self.parts.timeline.last_execution is None:
            return Looked()

        return await self._uninterrupted(lambda environment: environment.look(names, tokens, at_sources=at_sources))

    async def handle_names(self) -> Mapping[str, str]:
        """Return the current names of handles, by their ids."""
        return {row.obj_id: row.name for row in (await self.look((), None, at_sources=False)).rows}

    async def count(self, texts: Sequence[str]) -> Sequence[int]:
        """Count the tokens of each text. Raises EnvironmentUnavailableError."""

        return (await self._uninterrupted(lambda environment: environment.project(texts, 0))).text_tokens

    async def _uninterrupted(self, ask: Callable[[Environment], Awaitable[T]]) -> T:
        """Wait for the worker's answer even if the caller is cancelled.

        A worker whose answer is not received must be replaced.
        """

        return await self.environment.use(lambda environment: shielded(lambda: ask(environment)))

    async def rest(self) -> None:
        """End the worker until it is needed again. Not during a statement or tick."""
        async with self.environment.step:
            await self.environment.rest()

    @property
    def idle_delay(self) -> float | None:
        """Seconds of idleness after which `run_idle_work` has work; None for never."""
        return self.environment.idle_delay

    async def prepare(self) -> None:
        """Prepare what nodes wish for, beside the requests, until `close`."""
        await self._preparer.serve()

    async def run_idle_work(self) -> float | None:
        """Do the work that waits for idleness.

        Returns the seconds until there is more, or None.
        """
        return await self.environment.run_idle_work()

    async def close(self) -> None:
        """Free the worker and close the model's connections. Idempotent, even after a failure."""
        try:
            await self._preparer.close()
            await self.environment.close()
        finally:
            await self._comparison.close()
            self._scratch.close()
            await self.parts.model.aclose()


def _unless_cancelled(report: ReplayReport, active: ActiveRequest) -> ReplayReport:
    if report.outcome == "cancelled":
        active.result = report
        raise WorkCancelledError
    return report
