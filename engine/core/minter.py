"""The one place where identifiers are minted: unique in the whole store, and in the order of time.

Owns the shape of every identifier. Randomness and time come in through ports, so that tests count instead.
"""

from __future__ import annotations

from .clock import Clock, Entropy
from .ids import ExecutionId, LlmResponseId, MessageId, PayloadId, SessionId, StatementId, ToolCallId


class Minter:
    """Mints identifiers that are unique in the whole store and sort by time: `<prefix>_<12 hex ms><12 hex random>`."""

    __slots__ = ("_clock", "_entropy")

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy

    def session(self) -> SessionId:
        return SessionId(self._mint("ses"))

    def message(self) -> MessageId:
        return MessageId(self._mint("msg"))

    def statement(self) -> StatementId:
        return StatementId(self._mint("st"))

    def execution(self) -> ExecutionId:
        return ExecutionId(self._mint("ex"))

    def tool_call(self) -> ToolCallId:
        return ToolCallId(self._mint("call"))

    def llm_response(self) -> LlmResponseId:
        return LlmResponseId(self._mint("llm"))

    def payload(self) -> PayloadId:
        return PayloadId(self._mint("pay"))

    def _mint(self, prefix: str) -> str:
        return f"{prefix}_{int(self._clock.now() * 1000):012x}{self._entropy.bytes(6).hex()}"
