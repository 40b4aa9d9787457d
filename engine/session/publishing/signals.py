"""What happens between two events and is never kept: pieces of text, of reasoning, of a running statement's output,
how far a rewind is with its files, or a rebuild with its statements, and that a model call is made again.

But for the last, one event follows each of them when it ends and holds all of it. Published beside events, in order, by
the journal.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...core.ids import MessageId, ToolCallId
from ...log.events import Event


class TextStreamed(Struct, frozen=True):
    """A piece of assistant text, as it arrived; the whole follows as `AgentText`.

    `aside`: the session's own answer, in Markdown, which comes in one piece and is no model's.
    """

    message_id: MessageId
    text: str
    aside: bool = False


class ReasoningStreamed(Struct, frozen=True):
    """A piece of reasoning, as it arrived; the whole follows as `AgentReasoning`."""

    message_id: MessageId
    text: str


class OutputStreamed(Struct, frozen=True):
    """A piece of what a running statement printed; the whole follows on `ExecutionFinished`."""

    tool_call_id: ToolCallId
    stream: Literal["stdout", "stderr"]
    text: str


class FilesPutBack(Struct, frozen=True):
    """So many files of a rewind are as they are to be, or are left; what became of each follows as `Rewound`."""

    done: int
    total: int


class StatementRerun(Struct, frozen=True):
    """An earlier statement runs again so that its names are there, `place` of `total`; said where that takes long.

    Between the first of one rebuild (`begun`) and the last (`over`, or `given_up`) not all that run again are said.
    `tool_call_id` is the rebuild's.
    """

    tool_call_id: ToolCallId
    statement: int
    place: int
    total: int
    state: Literal["begun", "running", "over", "given_up"]


class ModelRetried(Struct, frozen=True):
    """A model call failed and is made again: attempt 2 of 5, after a pause of `seconds`. `reason` says what failed."""

    attempt: int
    attempts: int
    seconds: float
    reason: str


Stream = TextStreamed | ReasoningStreamed | OutputStreamed
"""A piece of text."""
Signal = Stream | FilesPutBack | StatementRerun | ModelRetried
"""A piece of what is happening. It is published in order and never stored."""
Item = Event | Signal
"""What is published."""
