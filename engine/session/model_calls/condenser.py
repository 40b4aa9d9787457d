"""Condenses a View: chooses the messages that leave it, gets their summary, and appends the Condensation.

Owns the order of these steps and the record of the model's call, and fits a summary into its tokens. `context.view`
chooses the messages. The model writes the summary if it can; otherwise it is made from the request cycles. If nothing
can be condensed, that is the event NoCutPossible, not an error, and the projection shortens the prompt. Called by the
agent loop.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final, Literal

from ...context.model import (
    CallDelayed,
    CallRetried,
    ModelError,
    ModelSignal,
    Prompt,
    ReplyEnded,
    TextDelta,
    TokensUsed,
)
from ...context.tail.past_statements import PastStatements
from ...context.tail.prompt import message_text, shortened
from ...context.view.condensation import Cut, choose_cut, current_request, unread
from ...context.view.entries import Summary
from ...context.view.view import Window
from ...core.ids import MessageId, Minter, ToolCallId
from ...core.text import DOTS, left_out
from ...log.cycles import CycleFold, summary_lines
from ...log.event_log import EventLog
from ...log.events import Event
from ...log.events.conversation import (
    Condensation,
    CondensationReason,
    CondensationRequest,
    NoCutPossible,
    SummaryCallEnded,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ...runtime.environment import Environment
from ..cancellation import Cancellation
from ..journal import Journal, ModelDelayed, ModelRetried
from ..model_choice import ModelChoice
from .projector import Projector

logger = logging.getLogger(__name__)

HEADING: Final = "Summary of the earlier conversation:\n"
INSTRUCTIONS: Final = (
    "The conversation has become too long. The text below is its beginning, and only your summary of it "
    "will remain. Write\ndown everything that you need to go on: the user's goals, decisions and their "
    "reasons, findings, relevant files and\nnames with their state, and open tasks. Be specific and "
    "brief: at most {words} words. Your statements stay listed beside\nyour summary, so give their "
    "outcomes, and do not repeat them. Write nothing but the summary.\n"
)
NO_SUMMARY: Final = "the model could not write a summary, so the session makes one: %s"
INCOMPLETE: Final = {"length": "the reply was too long, and cut", "refusal": "the model refused"}
_EXCERPT_CHARS: Final = 4_000
"""The most of each message that the model gets for its summary."""


class Condenser:
    """Condenses one session's View."""

    def __init__(
        self,
        *,
        log: EventLog,
        journal: Journal,
        minter: Minter,
        view: Window,
        projector: Projector,
        past: PastStatements,
        cycles: CycleFold,
        model: ModelChoice,
    ) -> None:
        self._log = log
        self._journal = journal
        self._minter = minter
        self._view = view
        self._projector = projector
        self._past = past
        self._cycles = cycles
        self._model = model
        self._stuck: tuple[int, ...] | None = None

    async def is_due(self, environment: Environment) -> bool:
        """Whether to condense before a model call. Not if it was impossible before and nothing has changed since."""
        if self._stuck is not None and self._stuck == self._gaps():
            return False
        return self._view.unhandled_condensation_request or not await self._projector.fits(environment)

    async def condense(
        self, environment: Environment, reason: CondensationReason, cancellation: Cancellation, *, open_run: bool
    ) -> Cut | None:
        """Condense the View; return what was removed, or None if nothing can be.

        Args:
            environment: counts tokens.
            reason: `asked` condenses as much as possible, the others until half of the room is left, or half of
                the messages if these take less.
            cancellation: ends the wait for the model's summary.
            open_run: a run is in progress; its request and its unread messages stay.

        Raises:
            WorkCancelledError: a cancel came before the summary; the View is unchanged.
        """
        if not self._view.unhandled_condensation_request:
            self._log.append(CondensationRequest(reason=reason))
        events = self._view.events
        costs = await self._projector.costs(environment, events)
        cut = choose_cut(
            self._view.indices,
            costs,
            0 if reason == "asked" else min(self._projector.room, sum(costs)) // 2,
            keep=current_request(events) if open_run else None,
            end=unread(events) if open_run else None,
        )
        if cut is None:
            self._log.append(NoCutPossible(tokens=sum(costs)))
            self._stuck = self._gaps()
            return None
        forgotten = [events[position] for position in cut.positions]
        summary = await self._summary(environment, forgotten, cut.summary_tokens, cancellation)
        self._log.append(
            Condensation(
                forgotten=tuple(event.event_id for event in forgotten),
                summary=summary or None,
                summary_offset=0 if summary else None,
            )
        )
        self._stuck = None
        return cut

    def _gaps(self) -> tuple[int, ...]:
        """The positions at which an open run can be cut."""
        end = unread(self._view.events)
        return tuple(gap for gap in self._view.indices if gap <= end)

    async def _summary(
        self, environment: Environment, forgotten: Sequence[Event], tokens: int, cancellation: Cancellation
    ) -> str:
        """A summary of at most `tokens` tokens; "" if there is no room for a line."""
        lines: Sequence[str] = ()
        if self._model.summarizes:
            lines = await cancellation.guard(lambda: self._by_model(forgotten, tokens))
        if not lines:
            lines = [
                *_earlier(forgotten),
                *summary_lines(self._cycles.model, {event.event_id for event in forgotten}, self._past.numbers),
            ]
        return await _fitting(environment, lines, tokens)

    async def _by_model(self, forgotten: Sequence[Event], tokens: int) -> list[str]:
        call = self._minter.llm_response()
        transcript = "\n\n".join(_excerpt(event) for event in forgotten)
        prompt = Prompt(
            instructions=INSTRUCTIONS.format(words=tokens // 2),
            messages=(UserMessage(message_id=MessageId("summary"), text=transcript),),
            tail="",
            statements=False,
            calls_tools=self._model.calls_tools,
        )
        reply = SideReply()
        try:
            async with aclosing(self._model.reply(prompt)) as signals:
                async for signal in signals:
                    if isinstance(signal, CallRetried | CallDelayed):
                        self._hold_up(signal, call)
                    reply.take(signal)
        except ModelError as error:
            logger.warning(NO_SUMMARY, error)
            return []
        finally:
            self._log.append(reply.ended(self._model.answering))
        if reply.cause != "end":
            logger.warning(NO_SUMMARY, INCOMPLETE[reply.cause])
            return []
        return reply.text.strip().splitlines()

    def _hold_up(self, signal: CallRetried | CallDelayed, call: str) -> None:
        """Publish why there is no summary yet. Nothing of it was streamed, so nothing is withdrawn."""
        if isinstance(signal, CallDelayed):
            self._journal.signal(ModelDelayed(signal.reason, ToolCallId(f"delay_{call}")))
            return
        self._journal.signal(
            ModelRetried(
                signal.attempt,
                signal.attempts,
                signal.seconds,
                signal.reason,
                ToolCallId(f"retry_{call}"),
                instead=signal.instead,
            )
        )


class SideReply:
    """A reply beside the conversation: its pieces that count, and what the provider says of the call."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.cause: Literal["end", "length", "refusal"] = "end"
        self._used: TokensUsed | None = None
        self._is_answered = False

    def take(self, signal: ModelSignal) -> None:
        """Take the next part of the reply."""
        self._is_answered = self._is_answered or not isinstance(signal, CallRetried | CallDelayed)
        match signal:
            case TextDelta(text=text):
                self.pieces.append(text)
            case CallRetried(withdrawn=True):
                self.pieces.clear()
            case TokensUsed():
                self._used = signal
            case ReplyEnded(cause=cause):
                self.cause = cause
            case _:
                pass

    @property
    def text(self) -> str:
        """The reply so far."""
        return "".join(self.pieces)

    def ended(self, model: str, server: str = "") -> SummaryCallEnded:
        """Return the event of the end of the call of `model`, which `server` has asked for."""
        used = self._used
        return SummaryCallEnded(
            answered=self._is_answered,
            input_tokens=None if used is None else used.input_tokens,
            cached_tokens=None if used is None else used.cached_tokens,
            output_tokens=None if used is None else used.output_tokens,
            model=model,
            dollars=None if used is None else used.dollars,
            server=server,
        )


async def _fitting(environment: Environment, lines: Sequence[str], tokens: int) -> str:
    """The newest lines that fit below the heading, and the number of missing ones."""
    texts = [f"{line}\n" for line in (HEADING.rstrip("\n"), _missing(len(lines)), *lines)]
    heading, note, *costs = (await environment.project(texts, 0)).text_tokens
    first = len(lines)
    room = tokens - heading - note
    while first and (room := room - costs[first - 1]) >= 0:
        first -= 1
    if first == len(lines):
        return ""
    omitted = [_missing(first)] if first else []
    return HEADING + "\n".join([*omitted, *lines[first:]])


def _missing(lines: int) -> str:
    return f"{DOTS} {left_out(lines, 'earlier line')}"


def _earlier(forgotten: Sequence[Event]) -> list[str]:
    """The lines of earlier summaries among the condensed messages."""
    texts = [event.text.removeprefix(HEADING) for event in forgotten if isinstance(event, Summary)]
    return [line for text in texts for line in text.splitlines()]


def _excerpt(event: Event) -> str:
    text = message_text(event)
    if len(text) > _EXCERPT_CHARS:
        text = shortened(text, _EXCERPT_CHARS / len(text))
    match event:
        case ToolCall(tool=tool):
            return f"[you ran {tool}]\n{text}"
        case ToolResult(status=status):
            return f"[the result: {status}]\n{text}"
        case UserMessage():
            return f"[the user]\n{text}"
        case _:
            return f"[you]\n{text}"
