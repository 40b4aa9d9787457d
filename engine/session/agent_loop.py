"""Drive one turn: perform the effects that `turn.Turn` asks for, and put everything that happens on the log.

The turn decides, the loop performs. `run` reports the outcome of each effect and gets the next one, so the order of
effects is tested as plain values (`turn`), and this module has only the waiting.

**One effect at a time, one outcome each.** `cancel` does two things at once: it tells the turn, and it ends the current
wait through the turn's `Cancellation`. The effect still reports an outcome, `Aborted` if it was cancelled and its real
outcome if the cancel came too late. The turn then ends as cancelled in both cases.

**Steers** go on the log before the next model call, because no message may come between a call and its result. Their
attachments are opened right after them. Steers that no call has read are withdrawn when the turn ends.

**Failures.** A failure outside of this program (a model, a worker that cannot be replaced) is an outcome, `Failed`. A
worker that dies under a statement is that statement's result. Any other exception, a defect of ours or the end of the
surrounding task, ends the turn where it is.

However a turn ends, `_finish` leaves the log whole: every open call gets its result, every unread steer is withdrawn,
and one `RunStop` comes last. Only a log that takes no events can prevent that; the next load repairs it.

Must not decide what comes next, nor know any protocol. `serving` calls it for one turn at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
from msgspec.structs import replace

from ..context.model import ContextTooLongError, ModelError, ModelUnusableError, PictureRefusedError
from ..context.view.condensation import Cut
from ..core.errors import EnvironmentUnavailableError
from ..core.ids import BlobDigest
from ..core.pictures import GivenPicture
from ..log.events.conversation import (
    AgentText,
    Attachment,
    CondensationReason,
    ResultStatus,
    RunStop,
    RunStopReason,
    StopCause,
    ToolResult,
    UserMessage,
)
from ..log.events.session import PicturesWithdrawn, PromptWithdrawn
from ..log.permissions import StatementSubject
from ..log.user_message import with_pictures
from . import turn as t
from .cancellation import Cancellation, WorkCancelledError
from .guidance import Guidance
from .journal import TextStreamed
from .live_environment import LiveEnvironment
from .model_calls.condenser import Condenser
from .model_calls.projector import Projector, ResultRerenderer
from .model_calls.replies import ModelCallRecords, ReplyRecorder
from .model_choice import ModelChoice
from .parts import SessionParts
from .pictures import sent_pictures
from .policy import Questions
from .statements import StatementRunner, Ticker

WITHDRAWN: Final = (
    "{model} refused a picture: {reason}. Rewindow does not send this picture to a model again, nor "
    "other new pictures of the same request."
)
NO_PICTURES: Final = (
    "{model} does not accept pictures: {reason}. Rewindow sends their names and sizes instead. To "
    "avoid refused requests, add the model to models_without_pictures "
    "(REWINDOW_MODELS_WITHOUT_PICTURES)."
)
_REASONS: Final[dict[StopCause, RunStopReason]] = {"cancelled": "interrupted", "error": "error"}


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """What a model call needs: the prompt, its new renders, its record, and its room."""

    model: ModelChoice
    projector: Projector
    rerendering: ResultRerenderer
    guidance: Guidance
    sent: ModelCallRecords
    condenser: Condenser


class AgentLoop:
    """Run the turns of one session.

    Args:
        openings_of: gives the statements that open a steer's attachments, before a model reads it.
    """

    def __init__(
        self,
        parts: SessionParts,
        environment: LiveEnvironment,
        statements: StatementRunner,
        calls: ModelCalls,
        ticker: Ticker,
        questions: Questions,
        openings_of: Callable[[Sequence[Attachment]], Sequence[str]],
    ) -> None:
        self._parts = parts
        self._log = parts.log
        self._environment = environment
        self._statements = statements
        self._calls = calls
        self._ticker = ticker
        self._questions = questions
        self._openings_of = openings_of
        self._steers: list[tuple[UserMessage, Sequence[GivenPicture]]] = []
        self._typed = ""
        self._turn: t.Turn | None = None
        self._accepted: set[BlobDigest] = set()
        """Pictures of requests that a provider has answered."""
        self._round_numbers: list[int] = []
        """The log's numbers for the turn's Rounds."""
        self._cancellation = Cancellation()

    async def run(self, openings: Sequence[str], typed: str) -> t.Stop:
        """Run a turn to its end, and append its RunStop in every case.

        Its UserMessage is on the log already, without secrets. `typed` is the text as the user typed it.
        """
        self._typed = typed
        turn = self._turn = t.Turn(self._parts.settings.max_rounds, openings)
        self._round_numbers = []
        self._cancellation = Cancellation()
        stop = t.Stop("error", "internal error")
        self._calls.model.expect()
        try:
            effect = turn.feed(t.Begin())
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

    def steer(self, message: UserMessage, given: Sequence[GivenPicture] = ()) -> bool:
        """Let the turn's next model call read `message`, whose pictures are `given`.

        Returns False if no turn runs, or if it is ending.
        """
        if self._turn is None or self._turn.state in (t.State.CANCELLING, t.State.STOPPED):
            return False
        self._turn.feed(t.Steered())
        self._steers.append((message, given))
        return True

    def cancel(self) -> None:
        """End the running turn, if any, as cancelled. Give up its effect at once."""
        if self._turn is not None and isinstance(self._turn.feed(t.Cancel()), t.Abort):
            self._cancellation.cancel()

    def _finish(self, stop: t.Stop) -> None:
        while self._steers:
            self._log.append(PromptWithdrawn(message_id=self._steers.pop(0)[0].message_id))
        status: ResultStatus = "cancelled" if stop.cause == "cancelled" else "error"
        for call in self._log.open_calls:
            text = f"[{status} before it ended]"
            self._log.append(
                ToolResult(tool_call_id=call.tool_call_id, status=status, text=text, parent_id=call.parent_id)
            )
        self._log.append(RunStop(reason=_REASONS.get(stop.cause, "completed"), cause=stop.cause, detail=stop.detail))

    async def _perform(self, effect: t.Effect) -> t.Outcome:
        cancellation = self._cancellation
        try:
            match effect:
                case t.RunTick():
                    if self._parts.servers is not None:
                        await cancellation.guard(self._parts.servers.settle)
                    await self._ticker.tick(self._number_of(effect.round), cancellation)
                    return t.Ticked()
                case t.CallModel():
                    return await self._call_model(self._number_of(effect.round), effect.may_condense, cancellation)
                case t.Condense(reason=reason):
                    await self._condense(reason, cancellation, open_run=True)
                    return t.Condensed()
                case t.AskPermission():
                    return await cancellation.guard(lambda: self._ask(effect))
                case t.RunStatement():
                    kind = "meta" if effect.tool_call_id is None else "python"
                    await self._statements.run(
                        effect.source,
                        self._number_of(effect.round),
                        effect.tool_call_id,
                        cancellation,
                        kind=kind,
                        approved=effect.approved,
                    )
                    self._ticker.notify_change()
                    return t.Ran()
                case t.Abort() | t.Stop():
                    raise TypeError(f"{effect} is not an effect")
        except WorkCancelledError:
            return t.Aborted()
        except (ModelError, EnvironmentUnavailableError) as error:
            return t.Failed(str(error), unusable=isinstance(error, ModelUnusableError))

    def _number_of(self, round_: int) -> int:
        """Return the log's number for a Round of the turn; open it at its first use."""
        if round_ == len(self._round_numbers):
            self._round_numbers.append(self._ticker.open_round("call"))
        return self._round_numbers[round_]

    async def compact(self) -> Cut | None:
        """Condense the View as far as possible; return None if nothing can go.

        Raises:
            EnvironmentUnavailableError: the worker, which counts tokens, is gone and cannot be replaced.
        """
        return await self._condense("asked", Cancellation(), open_run=False)

    async def _condense(self, reason: CondensationReason, cancellation: Cancellation, *, open_run: bool) -> Cut | None:
        cut = await self._environment.use(
            lambda environment: self._calls.condenser.condense(environment, reason, cancellation, open_run=open_run),
            cancellation,
        )
        if cut is not None:
            self._calls.guidance.rebuild()
        return cut

    async def _read_steer(
        self, message: UserMessage, given: Sequence[GivenPicture], round_id: int, cancellation: Cancellation
    ) -> None:
        self._typed = message.text
        attachments, given = await self._parts.pictures.linked(message.attachments, given)
        kept = await self._parts.pictures.keep(given)
        message = replace(message, attachments=with_pictures(attachments, kept))
        self._log.append(message)
        for source in self._openings_of(message.attachments):
            await self._statements.run(source, round_id, None, cancellation, kind="meta")

    async def _call_model(self, round_id: int, may_condense: bool, cancellation: Cancellation) -> t.Outcome:
        while self._steers:
            await self._read_steer(*self._steers.pop(0), round_id, cancellation)
        while True:  # each refusal of a picture leaves fewer to send
            outcome = await self._call_once(round_id, may_condense, cancellation)
            if outcome is not None:
                return outcome

    async def _call_once(self, round_id: int, may_condense: bool, cancellation: Cancellation) -> t.Outcome | None:
        """Call the model; return None if its provider refused a picture, which is withdrawn."""
        if not self._calls.model.is_direct:
            self._calls.projector.guide(await cancellation.guard(self._calls.guidance.refresh))
        if self._calls.rerendering.is_wanted:
            await self._environment.use(self._calls.rerendering.rerender, cancellation)
        if may_condense and await self._environment.use(self._calls.condenser.is_due, cancellation):
            return t.ContextFull()
        self._parts.journal.flush()  # beside the projection: what the model says is shown when the prompt is durable
        projection = await self._environment.use(self._calls.projector.project, cancellation)
        seen = [picture for message in projection.prompt.messages for picture in sent_pictures(message)]
        pictures = await self._parts.pictures.contents(seen)
        prompt = replace(projection.prompt, typed=self._typed, pictures=pictures)
        call = self._calls.sent.begun(projection, round_id)
        self._log.append(call)
        self._parts.journal.flush()  # beside the request
        recorder = ReplyRecorder(self._log, self._parts.journal, self._parts.minter, calls_tools=prompt.calls_tools)
        try:
            replied = await cancellation.guard(lambda: recorder.record(self._calls.model.reply(prompt)))
        except PictureRefusedError as error:
            self._withdraw(error, pictures)
            return None
        except ContextTooLongError as error:
            if not self._calls.projector.narrow(error.window):
                raise ModelError(
                    f"{error}. By Rewindow's count this request had {projection.used:,} of {projection.size:,} tokens. "
                    "If the model's context window is smaller, set REWINDOW_CONTEXT_BUDGET to its size."
                ) from None
            if not may_condense:
                raise
            return t.ContextFull(refused=True)
        finally:
            # After the reply, because a signal is shown only after the events before it are durable.
            self._log.append(
                self._calls.sent.ended(
                    call, self._calls.model.answering, answered=recorder.answered, used=recorder.used
                )
            )
        if self._calls.model.answering == self._calls.model.spec:  # a fallback says nothing about the chosen model
            self._calls.projector.answered(None if recorder.used is None else recorder.used.input_tokens)
        self._accepted.update(pictures)
        return self._with_decision(replied)

    def _withdraw(self, error: PictureRefusedError, pictures: Collection[BlobDigest]) -> None:
        """Never again send the pictures that the provider refused, or any to a model that takes none; tell the user.

        A refusal seldom says which picture it means. Those that a provider has accepted before are not it.
        """
        model = self._calls.model.spec
        refused = () if error.takes_none else tuple(each for each in pictures if each not in self._accepted)
        if not refused and not error.takes_none:
            refused = tuple(pictures)
        self._log.append(PicturesWithdrawn(model=model, reason=str(error), pictures=refused))
        named = model.removeprefix("provider:")
        told = NO_PICTURES if error.takes_none else WITHDRAWN
        text = told.format(model=named, reason=str(error).rstrip(".")) + "\n\n"
        message_id = self._parts.minter.message()
        self._parts.journal.signal(TextStreamed(message_id, text, aside=True), is_whole=True)
        self._log.append(AgentText(message_id=message_id, text=text, aside=True))

    def _with_decision(self, replied: t.Replied) -> t.Replied:
        """Set `ask` only if the user decides about statements and has not yet."""
        wanted = replied.wanted
        if wanted is None:
            return replied
        if not wanted.ask:
            return replace(replied, wanted=replace(wanted, approved=True))
        is_asked = self._parts.policy.asks_about(sandboxed=self._environment.is_sandboxed) == "statements"
        approved = is_asked and self._parts.policy.remembered(StatementSubject(wanted.source)) is True
        return replace(replied, wanted=replace(wanted, ask=is_asked and not approved, approved=approved))

    async def _ask(self, effect: t.AskPermission) -> t.Answered | t.Dismissed:
        call = effect.tool_call_id
        self._statements.announce(effect.source, call)
        verdict = await self._questions.decide(call, StatementSubject(effect.source))
        if verdict.outcome == "cancelled":
            return t.Dismissed()
        if verdict.outcome == "rejected":
            self._log.append(ToolResult(tool_call_id=call, status="rejected", text=verdict.reason))
        return t.Answered(verdict.outcome == "allowed")
