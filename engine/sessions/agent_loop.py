"""Drives one turn: performs the effects that `Turn` yields and records everything that happens on the log.

Owns how a model call, a statement and a tick are carried out and what is appended when. Must not decide what comes
next (that is `turn.py`) nor know any protocol. Called by `Session`, one turn at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio
from msgspec.structs import replace

from .. import turn as t
from ..errors import EnvironmentUnavailableError
from ..events.conversation import ResultStatus, RunStop, RunStopReason, StopCause, ToolResult, UserMessage
from ..events.session import PermissionAnswered, PermissionAsked, PromptWithdrawn, UsageReported
from ..execution import ExecutionStatus
from ..ids import ToolCallId
from ..log import EventLog
from ..minter import Minter
from ..ports import (
    Clock,
    ContextTooLongError,
    Environment,
    Model,
    ModelError,
    PermissionAnswer,
    PermissionQuestion,
    Permissions,
)
from ..timeline.index import Timeline
from ..view.cuts import Cut
from .condenser import Condenser
from .journal import Journal
from .live_environment import LiveEnvironment
from .policy import STATEMENTS, Policy
from .projector import Projector
from .replies import ReplyRecorder
from .statements import StatementRunner

T = TypeVar("T")

_REASONS: Final[dict[StopCause, RunStopReason]] = {"cancelled": "interrupted", "error": "error"}
_RESULTS: Final[dict[ExecutionStatus, ResultStatus]] = {"ok": "ok", "cancelled": "cancelled"}


class AgentLoop:
    """The hands of a session: everything a turn does goes through here, in order."""

    def __init__(
        self,
        *,
        log: EventLog,
        journal: Journal,
        timeline: Timeline,
        policy: Policy,
        environment: LiveEnvironment,
        statements: StatementRunner,
        projector: Projector,
        condenser: Condenser,
        model: Model,
        minter: Minter,
        clock: Clock,
        max_rounds: int,
    ) -> None:
        self._log = log
        self._journal = journal
        self._timeline = timeline
        self._policy = policy
        self._environment = environment
        self._projector = projector
        self._condenser = condenser
        self._refused = False
        self._statements = statements
        self._model = model
        self._minter = minter
        self._clock = clock
        self._max_rounds = max_rounds
        self.permissions: Permissions | None = None
        """Whom to ask; set by the adapter. Nobody there means no."""
        self._steers: list[UserMessage] = []
        self._turn: t.Turn | None = None
        self._scope: anyio.CancelScope | None = None

    async def run(self, openings: Sequence[str]) -> t.Stop:
        """Runs a turn to its end and appends its RunStop, whatever happens. The UserMessage is on the log already."""
        turn = self._turn = t.Turn(self._timeline.rounds, self._max_rounds)
        stop = t.Stop("error", "internal error")
        try:
            effect = turn.feed(t.Begin(tuple(openings)))
            while not isinstance(effect, t.Stop):
                assert effect is not None
                effect = turn.feed(await self._perform(effect))
            stop = effect
        except anyio.get_cancelled_exc_class():
            stop = t.Stop("cancelled")
            raise
        finally:
            self._turn = None
            self._finish(stop)
        return stop

    def steer(self, message: UserMessage) -> bool:
        """Has the running turn's next model call read `message`; False where no turn is running or it is ending."""
        if self._turn is None or self._turn.state in (t.State.CANCELLING, t.State.STOPPED):
            return False
        self._turn.feed(t.Steered())
        self._steers.append(message)
        return True

    def cancel(self) -> None:
        """Ends the running turn as cancelled, if there is one; what is under way is given up at once."""
        if self._turn is not None and isinstance(self._turn.feed(t.Cancel()), t.Abort):
            if self._scope is not None:
                self._scope.cancel()
            self._condenser.cancel()
            self._statements.interrupt()

    def _finish(self, stop: t.Stop) -> None:
        while self._steers:
            self._log.append(PromptWithdrawn(message_id=self._steers.pop(0).message_id))
        status: ResultStatus = "cancelled" if stop.cause == "cancelled" else "error"
        for call in self._log.open_calls:
            text = f"[{status} before it ended]"
            self._log.append(
                ToolResult(tool_call_id=call.tool_call_id, status=status, text=text, parent_id=call.parent_id)
            )
        self._log.append(RunStop(reason=_REASONS.get(stop.cause, "completed"), cause=stop.cause, detail=stop.detail))

    async def _perform(self, effect: t.Effect) -> t.Outcome:
        try:
            match effect:
                case t.RunTick(round_id=round_id):
                    await self.tick(round_id)
                    return t.Ticked()
                case t.CallModel(may_condense=may_condense):
                    return await self._call_model(may_condense)
                case t.Condense():
                    return await self._condense()
                case t.AskPermission():
                    return await self._abortable(self._ask(effect)) or t.Aborted()
                case t.RunStatement():
                    call = ToolCallId(effect.tool_call_id) if effect.tool_call_id is not None else None
                    kind = "meta" if call is None else "python"
                    await self._statements.run(effect.source, effect.round_id, call, kind=kind)
                    return t.Ran()
                case _:
                    raise TypeError(f"{effect} is no effect to perform")
        except (ModelError, EnvironmentUnavailableError) as error:
            return t.Failed(str(error))

    async def _abortable(self, perform: Awaitable[T]) -> T | None:
        """Awaits what a cancel may cut short at any point; None where there was one, even if it came too late."""
        result: T | None = None
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                result = await perform
            finally:
                self._scope = None
        return None if scope.cancel_called else result

    async def _on_environment(self, act: Callable[[Environment], Awaitable[T]]) -> T | None:
        """What `act` makes of the living environment, or of a rebuilt one if it had died idle; None after a cancel.

        Only the rebuilding is cut short by a cancel: a worker that is left in the middle of an answer would have to be
        replaced.
        """
        environment = await self._abortable(self._environment.ready())
        if environment is None:
            return None
        try:
            return await act(environment)
        except EnvironmentUnavailableError:
            if environment.alive:
                raise
        environment = await self._abortable(self._environment.ready())
        return None if environment is None else await act(environment)

    async def tick(self, round_id: int) -> None:
        """Lets running nodes catch up with their sources, if there is a namespace at all.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
        """
        if self._timeline.last_execution is not None:
            outcome = await self._on_environment(lambda environment: environment.tick(round_id, self._clock.now()))
            for event in outcome.events if outcome is not None else ():
                self._log.append(event)

    async def compact(self) -> Cut | None:
        """Takes all from the View that can go; None where nothing can.

        Raises:
            EnvironmentUnavailableError: the worker, which counts, is gone and cannot be replaced.
        """
        return await self._on_environment(
            lambda environment: self._condenser.condense(environment, "asked", open_run=False)
        )

    async def _condense(self) -> t.Outcome:
        reason = "refused" if self._refused else "budget"
        self._refused = False
        await self._on_environment(lambda environment: self._condenser.condense(environment, reason, open_run=True))
        return t.Condensed()

    async def _call_model(self, may_condense: bool) -> t.Outcome:
        # Here and not when they came, because a message must not stand between a call and its result.
        while self._steers:
            self._log.append(self._steers.pop(0))
        if may_condense and await self._on_environment(self._condenser.is_due):
            return t.ContextFull()
        projection = await self._on_environment(self._projector.project)
        if projection is None:
            return t.Aborted()
        outcome: t.Outcome | None = None
        refused = False
        try:
            if self._turn is not None and self._turn.state is t.State.CALLING:
                recorder = ReplyRecorder(self._log, self._journal, self._minter)
                outcome = await self._abortable(recorder.record(self._model.reply(projection.prompt)))
                outcome = self._decided(outcome)
        except ContextTooLongError:
            if not may_condense:
                raise
            refused = self._refused = True
            self._projector.narrow()
            outcome = t.ContextFull()
        finally:
            # After the reply, because what is shown waits for what was recorded before it.
            if not refused:
                self._log.append(UsageReported(used=projection.used, size=projection.size))
        return outcome or t.Aborted()

    def _decided(self, replied: t.Replied | None) -> t.Replied | None:
        """The reply, with `ask` only where neither mode nor a remembered answer has decided."""
        if replied is None or replied.tool_call_id is None or not replied.ask:
            return replied
        return replace(replied, ask=self._policy.decided(STATEMENTS) is not True)

    async def _ask(self, effect: t.AskPermission) -> t.Answered:
        call = ToolCallId(effect.tool_call_id)
        announced = self._statements.announce(effect.source, call)
        allowed = self._policy.decided(STATEMENTS)
        if allowed is None:
            seq = self._log.append(PermissionAsked(tool_call_id=call, scope=STATEMENTS))
            question = PermissionQuestion(tool_call_id=call, title=announced.title, source=effect.source, seq=seq)
            allowed = await self._permitted(question)
        if not allowed:
            self._log.append(ToolResult(tool_call_id=call, status="rejected", text="The user rejected this statement."))
        return t.Answered(allowed)

    async def _permitted(self, question: PermissionQuestion) -> bool:
        answer = PermissionAnswer(outcome="cancelled")
        try:
            if self.permissions is not None:
                answer = await self.permissions.ask(question)
        finally:
            self._log.append(
                PermissionAnswered(
                    tool_call_id=question.tool_call_id,
                    scope=STATEMENTS,
                    outcome=answer.outcome,
                    remembered=answer.remember,
                )
            )
        return answer.outcome == "allowed"
