"""Names of the things a session is made of, as distinct types, and the one place where they are minted.

Owns the shape of every identifier. Must not know what the identifiers are used for. Randomness comes in through
`ports.Entropy`, so that tests count instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NewType

if TYPE_CHECKING:
    from .ports import Clock, Entropy

SessionId = NewType("SessionId", str)
EventId = NewType("EventId", str)
BranchId = NewType("BranchId", str)
MessageId = NewType("MessageId", str)
StatementId = NewType("StatementId", str)
ExecutionId = NewType("ExecutionId", str)
ToolCallId = NewType("ToolCallId", str)
LlmResponseId = NewType("LlmResponseId", str)
ObjId = NewType("ObjId", str)
BlobDigest = NewType("BlobDigest", str)
"""`blake2b-` and 40 hex digits of the content."""
Seq = NewType("Seq", int)
"""Position of an event on its session's log: 0, 1, 2 ... without gaps."""

MAIN_BRANCH: Final = BranchId("main")
"""The branch every session starts on."""


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

    def _mint(self, prefix: str) -> str:
        return f"{prefix}_{int(self._clock.now() * 1000):012x}{self._entropy.bytes(6).hex()}"
