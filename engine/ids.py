"""Names of the things a session is made of, as distinct types. Imports nothing, because everything imports it.

Must not know what the identifiers are used for, nor how one is made: that is `minter`.
"""

from __future__ import annotations

from typing import Final, NewType

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
