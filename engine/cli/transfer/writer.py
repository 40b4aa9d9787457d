"""Writes the events of an imported conversation: numbers them, and decides where its runs begin and end.

Owns what no format contains: whether the agent was idle before a message (`direct`) or not (`steer`), the run-stops
between, and unique ids. Must not know any format. Each format's `read` calls it.

A system prompt does not belong to a conversation, and the agent that continues this one has its own instructions. So
the prompt is saved as a text attachment of the first message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast

from msgspec.structs import replace

from ...core.ids import EventId, LlmResponseId, Minter, Seq, ToolCallId
from ...core.text import title
from ...log.events import Event
from ...log.events.conversation import (
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
from ...log.events.session import SessionOpened, TitleChanged
from ...log.user_message import SYSTEM_URI
from .document import loads

_NO_USER: Final = "[the conversation has no user message]"
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
"""Events of a model's output."""
_CAUSES: Final[dict[RunStopReason, StopCause]] = {
    "completed": "end_turn",
    "interrupted": "cancelled",
    "error": "error",
}
Run = Literal["idle", "asked", "working", "answered"]


@dataclass(frozen=True, slots=True)
class Imported:
    """A log that begins with SessionOpened, its title, and the report."""

    events: tuple[Event, ...]
    title: str | None
    report: Report


class Writer:
    """Takes a conversation in order.

    Args:
        at: seconds since the epoch, for events without a time.
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
        """Return the events from `position` on."""
        return tuple(self._events[position:])

    def __len__(self) -> int:
        return len(self._events)

    @property
    def begun(self) -> bool:
        """Whether anything other than a system prompt was written."""
        return len(self._events) > 1

    def system(self, text: str) -> None:
        """Take a system prompt."""
        if text:
            self._system.append(text)
            self.report.system_chars += len(text)

    def user(self, text: str) -> None:
        """Take a message of the user, to an idle or a working agent."""
        if self._run == "answered":
            self.stop()
        elif self._run == "working" and self._open:
            self.stop("interrupted")
        kind = "direct" if self._run == "idle" else "steer"
        if self._run == "idle":
            self._run = "asked"
        self._add(UserMessage(message_id=self._minter.message(), text=text, prompt_kind=kind))

    def reply(self, response_id: object = None) -> Reply:
        """Start a reply of the model, to be filled by the caller.

        An id that is not text, or belongs to an earlier batch, is replaced.
        """
        if not isinstance(response_id, str) or not response_id:
            self._batches.end()
            return Reply(self, self._minter, self._minter.llm_response())
        named = self._batches.name(response_id, self._open)
        if named != response_id:
            self._renamed.add(named)
        return Reply(self, self._minter, named)

    def result(self, call: str | None, status: ResultStatus, text: str, tool: object = None) -> bool:
        """Take a tool's result.

        Without an id it answers the oldest open call, of that tool if one is named.

        Returns:
            Whether a call was found.
        """
        if not call:
            named = [each for each, name in self._open.items() if tool is None or name == tool]
            if not named:
                return False
            call_id = named[0]
        else:
            call_id = self._ids.get(call, ToolCallId(call))
        self._open.pop(call_id, None)
        self._mark_working()
        self._add(ToolResult(tool_call_id=call_id, status=status, text=text))
        return True

    def condensation(self, forgotten: tuple[EventId, ...], summary: str | None, offset: int | None) -> EventId:
        """Take forgotten events, by our ids, and their summary.

        Returns the id of the new event.
        """
        return self._add(Condensation(forgotten=forgotten, summary=summary, summary_offset=offset))

    def condensation_request(self) -> None:
        self._add(CondensationRequest())

    def answered(self) -> None:
        """Mark the run as complete, although it ended with a tool's result."""
        if self._run != "idle" and not self._open:
            self._run = "answered"

    def stop(self, reason: RunStopReason = "completed", detail: str = "") -> None:
        """End the run; do nothing if the agent is idle."""
        if self._run == "idle":
            return
        self._run = "idle"
        self._open.clear()
        self._add(RunStop(reason=reason, cause=_CAUSES[reason], detail=detail or None))

    def pause(self) -> None:
        """End the run: completed if the agent had answered, else interrupted."""
        self.stop("completed" if self._run == "answered" else "interrupted")

    def finish(self) -> Imported:
        """Return the log. A run that is still open is interrupted."""
        self.pause()
        name = self._title()
        if name is not None:
            self._add(TitleChanged(title=name))
        if self._renamed:
            self.report.noted["reused response ids, renamed"] = len(self._renamed)
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
            self.user(_NO_USER)
            place = len(self._events) - 1
            self.stop()
        self._events[place] = replace(self._events[place], attachments=(kept,))

    def _mark_working(self) -> None:
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
        """For `Reply`: add text or reasoning."""
        if self._run != "idle":
            self._run = "answered"
        self._add(event)

    def add_call(self, named: object, call: ToolCall) -> None:
        """For `Reply`: add a call, under its own id if that is free."""
        name = named if isinstance(named, str) and named else str(self._minter.tool_call())
        call_id = ToolCallId(self._names.take(name))
        if call_id != name:
            self.report.noted["repeated tool call ids, renamed"] += 1
        self._batches.called(call_id)
        self._ids[name] = call_id
        self._open[call_id] = call.tool
        self._mark_working()
        self._add(replace(call, tool_call_id=call_id))


class Reply:
    """One reply of the model.

    Its calls share a response id, and each has the thinking that preceded it.
    """

    def __init__(self, writer: Writer, minter: Minter, response_id: LlmResponseId) -> None:
        self._writer = writer
        self._minter = minter
        self._response_id = response_id
        self._thinking: list[ThinkingBlock] = []

    def thinking(self, block: ThinkingBlock) -> None:
        """Add a block that is sent back to its provider with the next call.

        It makes that call part of a tool loop.
        """
        self._thinking.append(block)
        self.reasoning(block.text, block.signature, block.provider)

    def reasoning(self, text: str, signature: str | None = None, provider: str | None = None) -> None:
        """Add reasoning that is not sent back to any provider."""
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
        """Add a call.

        Arguments are an object or its JSON text; anything else is saved as `{"text": ...}`.
        """
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
        self._writer.report.noted["arguments that are not a JSON object"] += 1
        return {"text": arguments}


class UniqueNames:
    """Makes repeated names unique: `name`, `name#2`, `name#3`.

    Some programs count their calls from 1 again after each message, but on a log each id must be unique.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._uses: Counter[str] = Counter()

    def take(self, name: str) -> str:
        """Return the name, or its first variant that is free."""
        free = name
        while free in self._taken:
            self._uses[name] += 1
            free = f"{name}#{self._uses[name] + 1}"
        self._taken.add(free)
        return free


class Batches:
    """Decides which replies form one batch: consecutive ones with the same id.

    A batch ends when something other than the model's output arrives, and none of its calls waits for a result. If its
    id is used again later, that is another batch, and gets another name. Some servers give every reply the same id;
    since the View keeps a batch together, such a conversation could otherwise never be condensed.
    """

    def __init__(self) -> None:
        self._names = UniqueNames()
        self._given: str | None = None
        self._name = LlmResponseId("")
        self._calls: set[ToolCallId] = set()
        self._is_interrupted = False

    def name(self, given: str, open_calls: Container[ToolCallId]) -> LlmResponseId:
        """Return the batch name of a reply with the id `given`."""
        waits = any(call in open_calls for call in self._calls)
        if given != self._given or (self._is_interrupted and not waits):
            self.end()
            self._given, self._name = given, LlmResponseId(self._names.take(given))
        return self._name

    def called(self, call: ToolCallId) -> None:
        """Note a call of the current batch."""
        self._calls.add(call)

    def interrupt(self) -> None:
        """Note something other than the model's output."""
        self._is_interrupted = True

    def end(self) -> None:
        """End the current batch."""
        self._given, self._is_interrupted = None, False
        self._calls.clear()


_KINDS: Final = 12
"""The most kinds in one line."""


class Report:
    """Counts what an import used, turned into notes, or ignored.

    The keys are names that a person understands; each line of `lines` is a sentence.
    """

    def __init__(self) -> None:
        self.imported: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.system_chars = 0

    def lines(self) -> Iterator[str]:
        """Yield at most four lines; the first always exists."""
        yield f"imported: {_listed(self.imported)}"
        if self.system_chars:
            yield (
                f"system prompt: {self.system_chars:,} characters, kept as an attachment of the first message;"
                " the agent has its own instructions"
            )
        if self.noted:
            yield f"turned into notes: {_listed(self.noted)}"
        if self.ignored:
            yield f"ignored: {_listed(self.ignored)}"


def _listed(counts: Counter[str]) -> str:
    shown = [f"{name} {count:,}" for name, count in counts.most_common(_KINDS)]
    if len(counts) > _KINDS:
        shown.append(f"and {len(counts) - _KINDS:,} other kinds")
    return ", ".join(shown) or "nothing"
