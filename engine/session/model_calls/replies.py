"""Turns a model's stream into signals and events: pieces go out as they come, each finished item is one event.

An item that is interrupted is recorded with exactly what was sent of it. Used by the agent loop for one reply each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ...context.model import CallRetried, ModelSignal, ReasoningDelta, ReplyEnded, StatementAsked, TextDelta, TokensUsed
from ...context.models.written_replies import with_written_statement
from ...context.tail.results import STATEMENT_TOOL
from ...core.errors import InvalidEventError
from ...core.ids import MessageId, Minter, ToolCallId
from ...log.event_log import EventLog
from ...log.events.conversation import AgentReasoning, AgentText, ThinkingBlock, ToolCall
from .. import turn as t
from ..publishing.journal import Journal
from ..publishing.signals import ModelRetried, ReasoningStreamed, TextStreamed


class ReplyRecorder:
    """Records one reply; `calls_tools` as the model was prompted."""

    def __init__(self, log: EventLog, journal: Journal, minter: Minter, *, calls_tools: bool = True) -> None:
        self._log = log
        self._calls_tools = calls_tools
        self._journal = journal
        self._minter = minter
        self._response = minter.llm_response()
        self._item: type[TextDelta | ReasoningDelta] | None = None
        self._message = MessageId("")
        self._pieces: list[str] = []
        self._signature: str | None = None
        self._provider: str | None = None
        self._thinking: list[ThinkingBlock] = []
        self.answered = False
        """Whether the model has begun to answer."""
        self.used: TokensUsed | None = None
        """What the provider has counted."""

    async def record(self, stream: AsyncGenerator[ModelSignal, None]) -> t.Replied:
        """Consumes the stream. Whatever ends it, cancellation included, the open item is appended.

        A statement that is written in the reply's text is taken out of that. The reply says `ask` for what the user has
        not typed; whether that is asked is not decided here.
        """
        statement: StatementAsked | None = None
        ended = ReplyEnded()
        try:
            async with aclosing(with_written_statement(stream, calls_tools=self._calls_tools)) as signals:
                async for signal in signals:
                    self.answered = self.answered or not isinstance(signal, CallRetried)
                    match signal:
                        case TextDelta() | ReasoningDelta():
                            await self._stream(signal)
                        case StatementAsked():
                            statement = signal
                        case ReplyEnded():
                            ended = signal
                        case TokensUsed():
                            self.used = signal
                        case CallRetried():
                            self._journal.signal(
                                ModelRetried(signal.attempt, signal.attempts, signal.seconds, signal.reason)
                            )
        finally:
            self._end_item()
        if statement is None or ended.cause != "end":
            return t.Replied(cause=ended.cause)
        call = self._call(statement)
        return t.Replied(t.WantedStatement(statement.source, call, ask=not statement.typed))

    async def _stream(self, delta: TextDelta | ReasoningDelta) -> None:
        if type(delta) is not self._item:
            self._end_item()
            self._item = type(delta)
            self._message = self._minter.message()
        if delta.text:
            self._pieces.append(delta.text)
            streamed = TextStreamed if isinstance(delta, TextDelta) else ReasoningStreamed
            self._journal.signal(streamed(self._message, delta.text))
            await self._journal.room()
        if isinstance(delta, ReasoningDelta):
            self._provider = delta.provider or self._provider
            if delta.signature is not None:
                # It closes what it signs: the next piece is signed apart.
                self._signature = delta.signature
                self._end_item()

    def _end_item(self) -> None:
        text = "".join(self._pieces)
        if self._item is TextDelta and text:
            self._log.append(AgentText(message_id=self._message, text=text, llm_response_id=self._response))
        elif self._item is ReasoningDelta and (text or self._signature):
            self._reasoned(text)
        self._item, self._pieces, self._signature, self._provider = None, [], None, None

    def _reasoned(self, text: str) -> None:
        """Notes a block of thinking for the call that may follow; one without text (encrypted) is nothing to show."""
        signature, provider = self._signature, self._provider
        self._thinking.append(ThinkingBlock(text=text, signature=signature, provider=provider))
        if text:
            self._log.append(
                AgentReasoning(
                    message_id=self._message,
                    text=text,
                    signature=signature,
                    provider=provider,
                    llm_response_id=self._response,
                )
            )

    def _call(self, asked: StatementAsked) -> ToolCallId:
        call = ToolCallId(asked.tool_call_id) if asked.tool_call_id else self._minter.tool_call()
        try:
            self._append_call(call, asked)
        except InvalidEventError:
            # Some servers count their calls anew in each reply, and an id names one call of a session.
            call = self._minter.tool_call()
            self._append_call(call, asked)
        return call

    def _append_call(self, call: ToolCallId, asked: StatementAsked) -> None:
        self._log.append(
            ToolCall(
                tool_call_id=call,
                tool=STATEMENT_TOOL,
                arguments={"source": asked.source},
                llm_response_id=self._response,
                thinking=tuple(self._thinking),
                typed=asked.typed,
                rest_left_out=asked.rest_left_out,
            )
        )
