"""What was streamed to the editor and has no event yet: the messages and the output that are still growing.

Kept so that a client that loads a session in the middle of a turn is shown them too, and because an editor gets the
end of a statement's output as one text. Must not know how anything is sent. Used by the pump alone.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from engine import MessageId, OutputStreamed, ReasoningStreamed, TextStreamed, ToolCallId
from engine.events import AnyEvent
from engine.events.conversation import AgentReasoning, AgentText, RunStop
from engine.events.execution import ExecutionFinished

LIVE_OUTPUT_CHARS: Final = 4_096
"""How much of what a running statement printed is shown while it runs; the whole bounded output follows at its end."""


class Streams:
    """The streams of one session."""

    def __init__(self) -> None:
        self._messages: dict[MessageId, list[TextStreamed | ReasoningStreamed]] = {}
        self._output: dict[ToolCallId, str] = {}

    def add(self, piece: TextStreamed | ReasoningStreamed) -> None:
        """Notes a piece of a message."""
        self._messages.setdefault(piece.message_id, []).append(piece)

    def printed(self, piece: OutputStreamed) -> str:
        """Notes a piece of output; the end of what its statement has printed so far."""
        text = (self._output.get(piece.tool_call_id, "") + piece.text)[-LIVE_OUTPUT_CHARS:]
        self._output[piece.tool_call_id] = text
        return text

    def end(self, event: AnyEvent) -> None:
        """Forgets what the event says in whole."""
        match event:
            case AgentText(message_id=message_id) | AgentReasoning(message_id=message_id):
                self._messages.pop(message_id, None)
            case ExecutionFinished():
                self._output.clear()  # because one statement runs at a time
            case RunStop():
                # What was answered beside the run was streamed and has no event that would end it.
                self._messages.clear()
            case _:
                pass

    @property
    def messages(self) -> list[TextStreamed | ReasoningStreamed]:
        """Each unfinished message, as one piece."""
        return [replace(pieces[0], text="".join(piece.text for piece in pieces)) for pieces in self._messages.values()]

    @property
    def output(self) -> list[tuple[ToolCallId, str]]:
        """The end of what each running statement has printed."""
        return list(self._output.items())
