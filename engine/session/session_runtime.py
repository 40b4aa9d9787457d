"""What a session has from its first request on, put together from top to bottom, and what can be done with it.

Read the constructor first: each part is given the session's `SessionParts` and the parts that it works with. The
methods below are what commands and adapters may ask for. Loaded with the first request, because an editor waits for a
new session. Must not know how a request is served: that is `serving`. Made by `RequestServer`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from ..context.models import close_model
from ..context.tail.feed import LogNews
from ..context.tail.prompt import Account
from ..context.tail.sent_prompts import SentProjections
from ..context.view.condensation import Cut
from ..core.ids import StatementId
from ..core.settings import DEFAULT_MODEL
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
from ..log.permissions import Permissions
from ..log.timeline import Cell
from ..runtime.environment import Environment
from .acts import Desk
from .agent_loop import AgentLoop, ModelCalls
from .cancellation import WorkCancelledError, to_the_end
from .confining import Confinement
from .directories import Scratch
from .editor_files import SessionBuffers
from .kept import CheckpointKeeping, PastBound, Revisions, ValueKeeping
from .live_environment import LiveEnvironment
from .model_calls.condenser import Condenser
from .model_calls.projector import Projection, Projector, Rerendering
from .model_calls.replies import SentCalls
from .parts import SessionParts
from .past.branch_diff import BranchDiff, diff
from .past.editing import Editing
from .past.head import FileRewinding, Head, Rewinder
from .past.replaying import Replayer, RunsAgain
from .preparing import preparer_of
from .questions import Questions
from .requests import (
    ActiveRequest,
    EditRequest,
    PastRequest,
    PastResult,
    ReplayReport,
    ReplayRequest,
    RewindRequest,
    SwitchRequest,
)
from .statements import StatementRunner
from .ticker import Ticker
from .tools import Seen, Workspace

T = TypeVar("T")


class SessionRuntime:
    """The parts of one session that do something.

    Args:
        parts: the session's.
        openings_of: gives the statements that open what was attached to a prompt.
        dismissed: ends the request that is served, because the user dismissed a question.
    """

    def __init__(
        self,
        parts: SessionParts,
        openings_of: Callable[[Sequence[Attachment]], Sequence[str]],
        dismissed: Callable[[], None],
    ) -> None:
        self.parts = parts
        log, timeline, settings, view = parts.log, parts.timeline, parts.settings, parts.view.view
        model = self._model = parts.models()
        self._model_is_open = True

        # Files, and who is asked about them
        workspace = Workspace(
            parts.cwd,
            parts.directories,
            records=str(settings.state_dir / temporary_files.FOLDER),
            ripgrep=find_ripgrep(parts.spec.variables.get("PATH", ""), (parts.cwd, *parts.directories)),
        )
        self._questions = Questions(log, parts.policy, parts.redactor, workspace.roots)
        self.buffers = SessionBuffers(workspace, parts.clock)
        seen = Seen(parts.store.blob_get)
        log.follow_path(seen, Seen.FOLLOWS)
        self._scratch = Scratch(settings.state_dir, parts.session_id)

        # What is kept for rebuilding the namespace
        revisions = Revisions(parts.store, parts.redactor)
        log.follow(revisions.apply, Revisions.FOLLOWS)
        bound = PastBound(parts.store, parts.session_id, log, parts.journal, settings.past_bytes)
        values = ValueKeeping(log, parts.store, parts.redactor, bound.hold)
        checkpoints = CheckpointKeeping(log, keeps=settings.restore_by == "checkpoints")

        # The namespace, and the domain that it is held to
        confinement = Confinement(
            parts,
            questions=self._questions,
            roots=workspace.roots,
            protection=workspace.protection,
            scratch=self._scratch,
            by_model=model.name != DEFAULT_MODEL,
            dismissed=dismissed,
        )
        readings = Readings()
        log.follow_path(readings, READING)
        self.environment = LiveEnvironment(parts, readings, values, checkpoints, confinement)
        self.buffers.stopped = self.environment.stopped
        self.buffers.acting = self.environment.acting

        # What a model reads, and what it read
        news, account, self.sent = LogNews(timeline), Account(timeline), SentProjections()
        log.follow_path(news)
        log.follow_path(account, Account.FOLLOWS)
        log.follow(self.sent.apply, SentProjections.FOLLOWS)
        self.calls = SentCalls(parts.store, parts.redactor, self.sent, account)
        self.projector = Projector(view, parts.cwd, settings.context_budget, news, calls_tools=settings.calls_tools)
        self.cycles = CycleFold(log.at)
        log.follow_path(self.cycles, CycleFold.FOLLOWS)
        self._rerendering = Rerendering(
            log=log,
            view=view,
            standing=news.standing,
            sent=self.sent,
            projector=self.projector,
            rule=settings.projection_rerender,
        )
        condenser = Condenser(
            log=log,
            view=view,
            projector=self.projector,
            past=news.past,
            cycles=self.cycles,
            model=model,
            calls_tools=settings.calls_tools,
        )

        # Statements, ticks, and turns of them
        self._preparer = preparer_of(parts, workspace.roots, revisions, model)
        self.ticker = Ticker(
            log=log,
            timeline=timeline,
            facts=parts.facts,
            environment=self.environment,
            revisions=revisions,
            preparer=self._preparer,
            clock=parts.clock,
        )
        desk = Desk(
            parts=parts,
            workspace=workspace,
            questions=self._questions,
            seen=seen,
            buffers=self.buffers,
            dismissed=dismissed,
            domain=lambda: self.environment.domain,
            distrusted=lambda: confinement.distrusted,
        )
        self.statements = StatementRunner(parts, self.environment, revisions, values, desk)
        self.loop = AgentLoop(
            parts,
            self.environment,
            self.statements,
            ModelCalls(model, self.projector, self._rerendering, self.calls, condenser),
            self.ticker,
            self._questions,
            openings_of,
        )

        # Going back, and running again
        runs_again = RunsAgain(
            log=log,
            environment=self.environment,
            statements=self.statements,
            ticker=self.ticker,
            questions=self._questions,
            policy=parts.policy,
            minter=parts.minter,
        )
        self._replayer = Replayer(runs_again, timeline=timeline, clock=parts.clock)
        self._head = Head(
            log=log, timeline=timeline, view=parts.view, environment=self.environment, preparer=self._preparer
        )
        self._editing = Editing(runs_again, timeline=timeline, store=parts.store, head=self._head)
        files = FileRewinding(log, parts.journal, parts.store, workspace, parts.facts, self.buffers)
        self._rewinder = Rewinder(log, self._head, files)

    def attach(self, permissions: Permissions | None, editor: Editor | None) -> None:
        """Set who is asked from now on, and whose unsaved texts come before the disk."""
        self._questions.permissions = permissions
        self.buffers.editor = editor
        self.environment.follow(None if editor is None else self.buffers)

    # --- the past -----------------------------------------------------------------------------------------------------

    @property
    def cells(self) -> Sequence[Cell]:
        """The statements of the active branch, oldest first."""
        return self.parts.timeline.cells

    @property
    def branches(self) -> Sequence[BranchRow]:
        """The branches of the log, in the order in which they were made."""
        return branch_rows(self.parts.log.branches, self.parts.facts.statements_below)

    def diff(self, left: str, right: str) -> BranchDiff:
        """Compare two branches by their names. Raises InvalidRequestError where there is no such branch."""
        return diff(self.parts.log.events, self.parts.log.branches, left, right)

    async def perform(self, request: PastRequest, active: ActiveRequest) -> PastResult:
        """Rewind, switch, replay or edit, and leave the result with `active`.

        Raises:
            InvalidRequestError: there is no such statement or branch, or it cannot run again; nothing has changed.
            WorkCancelledError: it was cancelled, and everything is as before.
        """
        match request:
            case RewindRequest():
                goal = self._head.after(request.statement, conversation=request.conversation)
                active.result = await self._rewinder.go(goal, active, files=request.files)
            case SwitchRequest():
                active.result = await self._rewinder.go(self._head.end_of(request.branch), active, files=request.files)
            case ReplayRequest():
                active.result = _unless_cancelled(await self._replayer.replay(request, active.cancellation), active)
            case EditRequest():
                report = await self._editing.edit(request, active)
                if report.outcome == "cancelled":
                    active.begin_again()
                active.result = _unless_cancelled(report, active)
        return active.result

    async def omit(self, statement_id: StatementId, omitted: bool) -> None:
        """Leave a statement out of the namespace, or put it back; the namespace is rebuilt when it is needed next."""
        self.parts.log.append(StatementOmitted(statement_id=statement_id, omitted=omitted))
        await self.environment.renew()

    # --- what a model reads -------------------------------------------------------------------------------------------

    async def project(self) -> Projection:
        """What a model would read now. Raises EnvironmentUnavailableError."""
        return await self.environment.use(self._rerendering.project)

    async def compact(self) -> tuple[Cut, int] | None:
        """Replace what can go by a summary: what went, and the tokens of the next call; None where nothing can go.

        Raises:
            EnvironmentUnavailableError: the worker, which counts, is gone and cannot be replaced.
        """
        cut = await self.loop.compact()
        if cut is None:
            return None
        now = await self.project()
        self.parts.log.append(ContextMeasured(used=now.used, size=now.size))
        return cut, now.used

    async def foresee(self) -> Sequence[FeedItem]:
        """What the next tick would find by now, of each handle that it would change.

        Raises EnvironmentUnavailableError.
        """
        if self.parts.timeline.last_execution is None:
            return ()
        round_id, now = self.parts.facts.next_round, self.parts.clock.now()
        return await self.environment.use(lambda environment: environment.foresee(round_id, now))

    async def tick(self) -> Sequence[Event]:
        """Lets running handles catch up with their files now; the events. Raises EnvironmentUnavailableError."""
        round_id = self.ticker.open_round("tick")
        before = len(self.parts.log)
        await self.ticker.tick(round_id)
        return self.parts.log.since(before)

    async def look(self, names: Collection[str], tokens: int | None, *, at_sources: bool) -> Looked:
        """The handles as they are, of a namespace that has seen a statement. Raises EnvironmentUnavailableError."""
        if self.parts.timeline.last_execution is None:
            return Looked()

        return await self._whole(lambda environment: environment.look(names, tokens, at_sources=at_sources))

    async def handle_names(self) -> Mapping[str, str]:
        """The names of handles by their ids, as the namespace has them now."""
        return {row.obj_id: row.name for row in (await self.look((), None, at_sources=False)).rows}

    async def count(self, texts: Sequence[str]) -> Sequence[int]:
        """How many tokens each text has. Raises EnvironmentUnavailableError."""

        return (await self._whole(lambda environment: environment.project(texts, 0))).text_tokens

    async def _whole(self, ask: Callable[[Environment], Awaitable[T]]) -> T:
        """An answer of the worker's, which is waited for to its end: one that nobody takes costs the worker."""

        return await self.environment.use(lambda environment: to_the_end(lambda: ask(environment)))

    async def rest(self) -> None:
        """Ends the worker until somebody needs it. Not while anything is carried out."""
        async with self.environment.step:
            await self.environment.rest()

    @property
    def next_look(self) -> float | None:
        """Seconds of idleness after which `run_idle_work` has something to do; None for never."""
        return self.environment.next_look

    async def prepare(self) -> None:
        """Prepares beside the requests what nodes wish for, until `close`."""
        await self._preparer.serve()

    async def run_idle_work(self) -> float | None:
        """Does what has waited for the session to be idle; after how many seconds again, None for not at all."""
        return await self.environment.look_after()

    async def close(self) -> None:
        """Frees the worker and closes the model's connections. May be repeated, also after a failure."""
        try:
            await self._preparer.close()
            await self.environment.close()
        finally:
            self._scratch.close()
            was_open, self._model_is_open = self._model_is_open, False
            if was_open:
                await close_model(self._model)


def _unless_cancelled(report: ReplayReport, active: ActiveRequest) -> ReplayReport:
    if report.outcome == "cancelled":
        active.result = report
        raise WorkCancelledError
    return report
