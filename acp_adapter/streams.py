"""What was streamed to the editor and has no event yet: the messages and the output that are still growing.

Kept so that a client that loads a session in the middle of a turn is shown them too, and because an editor gets the
end of a statement's output as one text. Must not know how anything is sent. Used by the pump alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from engine import MessageId, OutputStreamed, ReasoningStreamed, TextStreamed, ToolCallId, between, printed_text
from engine.log.events import AnyEvent
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, ToolResult
from engine.log.events.execution import CommandEnded, ExecutionFinished

LIVE_OUTPUT_CHARS: Final = 4_096
"""How much of a stream is shown while its statement runs, of a longer one both ends; the whole follows at the end."""


class Printed:
    """What came through one stream of a statement: it grows at its end, and from some length on in its middle."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._left_out = 0

    def add(self, text: str) -> None:
        half = LIVE_OUTPUT_CHARS // 2
        room = half - len(self._head)
        self._head += text[:room]
        tail = self._tail + text[room:]
        self._tail = tail[-half:]
        self._left_out += len(tail) - len(self._tail)

    @property
    def text(self) -> str:
        """Both ends, and how much is missing between them."""
        return self._head + (between(self._left_out) if self._left_out else "") + self._tail


class Streams:
    """The streams of one session."""

    def __init__(self) -> None:
        self._messages: dict[MessageId, list[TextStreamed | ReasoningStreamed]] = {}
        self._output: dict[ToolCallId, dict[str, Printed]] = {}

    def add(self, piece: TextStreamed | ReasoningStreamed) -> None:
        """Notes a piece of a message."""
        self._messages.setdefault(piece.message_id, []).append(piece)

    def printed(self, piece: OutputStreamed) -> str:
        """Notes a piece of output; what its statement has printed so far, as its result will show it."""
        streams = self._output.setdefault(piece.tool_call_id, {"stdout": Printed(), "stderr": Printed()})
        streams[piece.stream].add(piece.text)
        return _text(streams)

    def end(self, event: AnyEvent) -> None:
        """Forgets what the event says in whole."""
        match event:
            case AgentText(message_id=message_id) | AgentReasoning(message_id=message_id):
                self._messages.pop(message_id, None)
            case CommandEnded(tool_call_id=call) | ToolResult(tool_call_id=call):
                self._output.pop(call, None)
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
        """What each running statement has printed."""
        return [(call, _text(streams)) for call, streams in self._output.items()]


def _text(streams: Mapping[str, Printed]) -> str:
    return printed_text(streams["stdout"].text, streams["stderr"].text)
