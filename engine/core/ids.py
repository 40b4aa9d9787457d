"""The identifiers of sessions and their parts, as distinct types, and the one place where they are made.

Everything imports this module, so it imports only the clock. Must not know what the identifiers are used for. Time and
randomness are passed in, so tests count instead.
"""

from __future__ import annotations

from typing import Final, NewType

from .clock import Clock, Entropy

SessionId = NewType("SessionId", str)
"""A session: `ses_` and 24 hex digits, or a name from an import."""
EventId = NewType("EventId", str)
"""An event of one session: `e` and its position on the log. An imported log may have others."""
BranchId = NewType("BranchId", str)
"""A path through a session's log: `main`, then `b1`, `b2` ... in the order of creation."""
MessageId = NewType("MessageId", str)
"""A message of the user or the agent: `msg_` and 24 hex digits."""
StatementId = NewType("StatementId", str)
"""A statement on the timeline: `st_` and 24 hex digits."""
ExecutionId = NewType("ExecutionId", str)
"""One run of a statement: `ex_` and 24 hex digits."""
ToolCallId = NewType("ToolCallId", str)
"""A call: the id that the model's provider gave it, or `call_` and 24 hex digits."""
LlmResponseId = NewType("LlmResponseId", str)
"""One reply of a model; all events from it carry this id."""
ObjId = NewType("ObjId", str)
"""A context object of one session: its type, the number of its statement and its number there, such as `view-3.1`."""
PayloadId = NewType("PayloadId", str)
"""A payload prepared for a context object: `pay_` and 24 hex digits."""
BlobDigest = NewType("BlobDigest", str)
"""The digest of a content: `blake2b-` and 40 hex digits."""
Seq = NewType("Seq", int)
"""The position of an event on its session's log: 0, 1, 2 ... without gaps."""

MAIN_BRANCH: Final = BranchId("main")
"""The branch on which every session starts."""


class Minter:
    """Makes identifiers that are unique in the whole store and sort by time: `<prefix>_<12 hex ms><12 hex random>`."""

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
