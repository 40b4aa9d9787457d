"""Writes the events of an imported conversation: stamps them, and says where its runs begin and end.

Owns what no format says itself: that the agent was idle before a message (`direct`) or not (`steer`), the run-stops
between, ids that are unique on the log, and where a system prompt is kept. Must not know any format.

A system prompt is no part of a conversation, and the agent that goes on with this one has instructions of its own. So
it is kept beside it: as an attachment, with its text, of the first message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast

from msgspec.structs import replace

from ....core.ids import EventId, LlmResponseId, Minter, Seq, ToolCallId
from ....core.text import title
from ....log.events import Event
from ....log.events.conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    Condensation,
    CondensationRequest,
    ResultStatus,
    RunStop,
    RunStopReason,
    StopCause,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ....log.events.session import SessionOpened, TitleChanged
from ....log.user_message import SYSTEM_URI
from .document import Batches, Report, UniqueNames, loads

_NOBODY: Final = "[the conversation holds no message of a user]"
_COUNTED: Final[dict[type[Event], str]] = {
    UserMessage: "user messages",
    AgentText: "agent texts",
    AgentReasoning: "reasonings",
    ToolCall: "tool calls",
    ToolResult: "tool results",
    Condensation: "condensations",
    CondensationRequest: "condensation requests",
}
_OUTPUT: Final = (AgentText, AgentReasoning, ToolCall)
"""What a batch of the model's output consists of."""
_CAUSES: Final[dict[RunStopReason, StopCause]] = {
    "completed": "end_turn",
    "interrupted": "cancelled",
    "error": "error",
}
Run = Literal["idle", "asked", "working", "answered"]


@dataclass(frozen=True, slots=True)
class Imported:
    """A stamped log that begins with SessionOpened, its title, and the report."""

    events: tuple[Event, ...]
    title: str | None
    report: Report


class Writer:
    """Takes a conversation in order.

    Args:
        at: seconds since the epoch, for what has no time of its own.
    """

    def __init__(self, minter: Minter, cwd: str, at: float) -> None:
        self.report = Report()
        self.at = at
        self._minter = minter
        self._events: list[Event] = []
        self._run: Run = "idle"
        self._system: list[str] = []
        self._ids: dict[str, ToolCallId] = {}
        self._names = UniqueNames()
        self._batches = Batches()
        self._renamed: set[LlmResponseId] = set()
        self._open: dict[ToolCallId, str] = {}
        self._add(SessionOpened(cwd=cwd))

    def since(self, position: int) -> tuple[Event, ...]:
        """The events from `position` on, as they are by now."""
        return tuple(self._events[position:])

    def __len__(self) -> int:
        return len(self._events)

    @property
    def begun(self) -> bool:
        """Whether anything but system prompts has come."""
        return len(self._events) > 1

    def system(self, text: str) -> None:
        """A system prompt."""
        if text:
            self._system.append(text)
            self.report.system_chars += len(text)

    def user(self, text: str) -> None:
        """A message of the user, to an idle agent or to one that is working."""
        if self._run == "answered":
            self.stop()
        elif self._run == "working" and self._open:
            self.stop("interrupted")
        kind = "direct" if self._run == "idle" else "steer"
        if self._run == "idle":
            self._run = "asked"
        self._add(UserMessage(message_id=self._minter.message(), text=text, prompt_kind=kind))

    def reply(self, response_id: object = None) -> Reply:
        """One reply of the model, to be filled; ids that are no text, or an earlier batch's, are replaced."""
        if not isinstance(response_id, str) or not response_id:
            self._batches.end()
            return Reply(self, self._minter, self._minter.llm_response())
        named = self._batches.name(response_id, self._open)
        if named != response_id:
            self._renamed.add(named)
        return Reply(self, self._minter, named)

    def result(self, call: str | None, status: ResultStatus, text: str, tool: object = None) -> bool:
        """A tool's result. Without an id it answers the oldest open call, of that tool where one is named.

        Returns:
            Whether it could be said which call it answers.
        """
        if not call:
            named = [each for each, name in self._open.items() if tool is None or name == tool]
            if not named:
                return False
            call_id = named[0]
        else:
            call_id = self._ids.get(call, ToolCallId(call))
        self._open.pop(call_id, None)
        self._works()
        self._add(ToolResult(tool_call_id=call_id, status=status, text=text))
        return True

    def condensation(self, forgotten: tuple[EventId, ...], summary: str | None, offset: int | None) -> EventId:
        """What was forgotten, by our ids, and its summary. Returns its id."""
        return self._add(Condensation(forgotten=forgotten, summary=summary, summary_offset=offset))

    def condensation_request(self) -> None:
        self._add(CondensationRequest())

    def answered(self) -> None:
        """The run has come to its end, although it ended with a tool's result."""
        if self._run != "idle" and not self._open:
            self._run = "answered"

    def stop(self, reason: RunStopReason = "completed", detail: str = "") -> None:
        """The agent went idle. Does nothing where it is."""
        if self._run == "idle":
            return
        self._run = "idle"
        self._open.clear()
        self._add(RunStop(reason=reason, cause=_CAUSES[reason], detail=detail or None))

    def pause(self) -> None:
        """The agent went idle: because it had answered, or in the middle of its work."""
        self.stop("completed" if self._run == "answered" else "interrupted")

    def finish(self) -> Imported:
        """The log. A run that the conversation leaves open is interrupted."""
        self.pause()
        name = self._title()
        if name is not None:
            self._add(TitleChanged(title=name))
        if self._renamed:
            self.report.noted["response ids used again, renamed"] = len(self._renamed)
        if self._system:
            self._attach("\n\n".join(self._system))
        return Imported(tuple(self._events), name, self.report)

    def _title(self) -> str | None:
        titles = (title(event.text, "") for event in self._events if isinstance(event, UserMessage))
        return next(filter(None, titles), None)

    def _attach(self, text: str) -> None:
        kept = Attachment(uri=SYSTEM_URI, name="system prompt", media_type="text/plain", text=text)
        place = next((at for at, event in enumerate(self._events) if isinstance(event, UserMessage)), None)
        if place is None:
            self.user(_NOBODY)
            place = len(self._events) - 1
            self.stop()
        self._events[place] = replace(self._events[place], attachments=(kept,))

    def _works(self) -> None:
        if self._run != "idle":
            self._run = "working"

    def _add(self, event: Event) -> EventId:
        if not isinstance(event, _OUTPUT):
            self._batches.interrupt()
        seq = Seq(len(self._events))
        self._events.append(replace(event, seq=seq, event_id=EventId(f"e{seq}"), at=self.at))
        if type(event) in _COUNTED:
            self.report.imported[_COUNTED[type(event)]] += 1
        return self._events[-1].event_id

    def add_output(self, event: AgentText | AgentReasoning) -> None:
        """For `Reply`."""
        if self._run != "idle":
            self._run = "answered"
        self._add(event)

    def add_call(self, named: object, call: ToolCall) -> None:
        """For `Reply`: the call under its own name if it has one that is free, else under another."""
        name = named if isinstance(named, str) and named else str(self._minter.tool_call())
        call_id = ToolCallId(self._names.take(name))
        if call_id != name:
            self.report.noted["tool call ids used twice, renamed"] += 1
        self._batches.called(call_id)
        self._ids[name] = call_id
        self._open[call_id] = call.tool
        self._works()
        self._add(replace(call, tool_call_id=call_id))


class Reply:
    """One reply of the model: its calls share a response id, and each has the thinking that came before it."""

    def __init__(self, writer: Writer, minter: Minter, response_id: LlmResponseId) -> None:
        self._writer = writer
        self._minter = minter
        self._response_id = response_id
        self._thinking: list[ThinkingBlock] = []

    def thinking(self, block: ThinkingBlock) -> None:
        """A block that goes back to its provider with the call that follows, and makes a tool loop of it."""
        self._thinking.append(block)
        self.reasoning(block.text, block.signature, block.provider)

    def reasoning(self, text: str, signature: str | None = None, provider: str | None = None) -> None:
        """Reasoning that is not sent back to any provider."""
        self._writer.add_output(
            AgentReasoning(
                message_id=self._minter.message(),
                text=text,
                signature=signature,
                provider=provider,
                llm_response_id=self._response_id,
            )
        )

    def text(self, text: str) -> None:
        if text:
            self._writer.add_output(
                AgentText(message_id=self._minter.message(), text=text, llm_response_id=self._response_id)
            )

    def call(self, named: object, tool: str, arguments: object) -> None:
        """A call. Arguments may be an object or the JSON of one; anything else is kept as `{"text": ...}`."""
        call = ToolCall(
            tool_call_id=ToolCallId(""),
            tool=tool,
            arguments=self._arguments(arguments),
            llm_response_id=self._response_id,
            thinking=tuple(self._thinking),
        )
        self._thinking.clear()
        self._writer.add_call(named, call)

    def _arguments(self, arguments: object) -> dict[str, object]:
        if arguments is None or arguments == "":
            return {}
        value = arguments
        if isinstance(arguments, str):
            try:
                value = loads(arguments)
            except ValueError:
                value = None
        if isinstance(value, dict):
            return cast("dict[str, object]", value)
        self._writer.report.noted["arguments that are no JSON object"] += 1
        return {"text": arguments}
