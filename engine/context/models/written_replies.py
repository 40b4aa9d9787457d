"""A reply in which the model may have written its statement as a block: the same signals as if it had called for it.

Owns what counts where a reply holds more than one statement. Every reply of every model that may run something passes
here, so no model has to know of blocks. Must not know how a reply is recorded. Called by the recorder of replies.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from ..model_protocol import (
    CallRetried,
    ModelError,
    ModelSignal,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from ..tail.written import CLOSING
from .blocks import BlockReader
from .statement_tool import raising

_NOT_CLOSED = f"the block has no {CLOSING}, so nothing of it was run; write all of it again"


async def with_written_statement(
    reply: AsyncGenerator[ModelSignal, None], *, calls_tools: bool = True
) -> AsyncGenerator[ModelSignal, None]:
    """The reply without the block in its text, and with the statement of it: what it says before streams as it comes.

    A call counts rather than a block, because a model that calls knows how. Where the model cannot call, the reply is
    over as soon as something follows its block: what such a model goes on with is often a result that it makes up.
    What is cut by length after a block has lost nothing that counts.

    Args:
        reply: of the model; closed at the end, however that comes.
        calls_tools: whether the model was told to call a tool, and not to write blocks.
    """
    reader = _ReplyReader(calls_tools)
    async with aclosing(reply) as signals:
        try:
            async for signal in signals:
                for read in reader.read(signal):
                    yield read
                if reader.is_over:
                    break
        except ModelError:
            for kept in reader.kept():
                yield kept
            raise
    for last in [*reader.kept(), *reader.ending()]:
        yield last


class _ReplyReader:
    def __init__(self, calls_tools: bool) -> None:
        self._calls_tools = calls_tools
        self._blocks = BlockReader()
        self._call: StatementAsked | None = None
        self._ended = ReplyEnded()

    @property
    def is_over(self) -> bool:
        return self._blocks.has_rest and not self._calls_tools

    def read(self, signal: ModelSignal) -> Sequence[ModelSignal]:
        match signal:
            case TextDelta(text=text):
                return _said(self._blocks.read(text))
            case ReasoningDelta():
                return [*_said(self._blocks.interrupt()), signal]
            case StatementAsked():
                self._call = signal if self._call is None else replace(self._call, rest_left_out=True)
            case ReplyEnded():
                self._ended = signal
            case TokensUsed() | CallRetried():
                return [signal]
        return []

    def kept(self) -> Sequence[ModelSignal]:
        """The text that was kept back and is in no block."""
        return _said(self._blocks.end())

    def ending(self) -> Sequence[ModelSignal]:
        """The statement, if there is one, and why the reply ended; after `kept`."""
        blocks, call, ended = self._blocks, self._call, self._ended
        if call is not None:
            return [replace(call, rest_left_out=call.rest_left_out or blocks.source is not None), ended]
        if blocks.source is not None and ended.cause != "refusal":
            return [StatementAsked(blocks.source, rest_left_out=blocks.has_rest), ReplyEnded()]
        if blocks.is_open and ended.cause == "end" and not self._calls_tools:
            return [StatementAsked(raising(SyntaxError, _NOT_CLOSED)), ended]
        return [ended]


def _said(text: str) -> Sequence[ModelSignal]:
    return [TextDelta(text)] if text else []
