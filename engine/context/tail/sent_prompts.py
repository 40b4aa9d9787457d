"""The model calls of a session as the log records them, and their prompts made again.

`SentProjections` is a fold over a path of events. A `ProjectionSent` names its messages relative to the call before
(`kept`), because a View grows at its end: the event stays small however long the conversation is. The messages stay on
the log, condensed or not. Texts that are not on the log (instructions, tail, shortened messages) are blobs that the
event names; the caller passes in how to read them. Used for the next call, and to show a past one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from msgspec.structs import replace

from ...core.ids import BlobDigest, EventId, ToolCallId
from ...core.text import cut_line
from ...log.events import Event
from ...log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    ResultRerendered,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ...log.events.session import ModelCallEnded, ProjectionSent
from ..model import Prompt
from ..view.entries import Summary, rerendered, summary_of

_SHOWN: Final = 20
"""Characters of an unknown call number that a sentence repeats."""
_NUMBER_DIGITS: Final = 9


class SentProjections:
    """The model calls so far, numbered from 1, with their results as far as known."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ProjectionSent, ModelCallEnded))

    def __init__(self) -> None:
        self._calls: list[ProjectionSent] = []
        self._messages: list[EventId] = []

    def apply(self, event: Event) -> None:
        if isinstance(event, ProjectionSent):
            self._calls.append(event)
            _follow(self._messages, event)
        elif isinstance(event, ModelCallEnded) and self._calls:
            self._calls[-1] = replace(
                self._calls[-1],
                answered=event.answered,
                input_tokens=event.input_tokens,
                cached_tokens=event.cached_tokens,
                output_tokens=event.output_tokens,
            )

    @property
    def calls(self) -> Sequence[ProjectionSent]:
        """All calls, oldest first."""
        return tuple(self._calls)

    @property
    def latest(self) -> ProjectionSent | None:
        return self._calls[-1] if self._calls else None

    @property
    def latest_messages(self) -> Sequence[EventId]:
        """The messages of the latest call."""
        return tuple(self._messages)

    def number_of(self, call: ProjectionSent) -> int:
        """Return the number of a call."""
        return next(number for number, each in enumerate(self._calls, 1) if each is call)

    def numbered(self, text: str) -> ProjectionSent | None:
        """Return the call with the number that a person typed.

        Returns None for an unknown one.
        """
        is_number = text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS
        return self._calls[int(text) - 1] if is_number and 1 <= int(text) <= len(self._calls) else None

    def without(self, number: str) -> str:
        """Explain, in one sentence, that there is no call with this number."""
        if not self._calls:
            return "No model has been called in this session."
        there = "there is 1" if len(self._calls) == 1 else f"the calls are numbered from 1 to {len(self._calls)}"
        return f"There is no model call {cut_line(number, _SHOWN)}; {there}."

    def messages_of(self, call: ProjectionSent) -> Sequence[EventId]:
        """Return the ids of the messages of a call, in order."""
        messages: list[EventId] = []
        for each in self._calls:
            _follow(messages, each)
            if each is call:
                break
        return messages


def _follow(messages: list[EventId], event: ProjectionSent) -> None:
    del messages[max(event.kept, 0) :]
    messages += event.messages


def shared_length(before: Sequence[EventId], messages: Sequence[Event]) -> int:
    """Count the leading messages that the call before, with the ids `before`, had too."""
    pairs = zip(before, messages, strict=False)
    return next(
        (place for place, (event_id, message) in enumerate(pairs) if event_id != message.event_id),
        min(len(before), len(messages)),
    )


class PromptEntries:
    """The events that prompts were made of, by the ids with which calls name them. A fold over a whole log."""

    def __init__(self, log: Iterable[Event] = ()) -> None:
        self._entries: dict[EventId, Event] = {}
        self._results: dict[ToolCallId, ToolResult] = {}
        for event in log:
            self.apply(event)

    def apply(self, event: Event) -> None:
        self._entries[event.event_id] = event
        match event:
            case Condensation() if (summary := summary_of(event)) is not None:
                self._entries[summary.event_id] = summary
            case ToolResult():
                self._results.setdefault(event.tool_call_id, event)
            case ResultRerendered(tool_call_id=call) if call in self._results:
                self._entries[event.event_id] = rerendered(self._results[call], event)
            case _:
                pass

    def message(self, event_id: EventId, shortened: str | None = None) -> Event:
        """Return a message of a prompt, with the text that was sent in place of its own, if any. Raises KeyError."""
        event = self._entries[event_id]
        if shortened is not None and isinstance(event, UserMessage | AgentText | ToolResult | Summary):
            return replace(event, text=shortened)
        return event


def prompt_of(
    call: ProjectionSent, messages: Sequence[EventId], log: Iterable[Event], content: Callable[[BlobDigest], bytes]
) -> Prompt:
    """Make the prompt of a call again, as it was sent.

    Raises:
        KeyError: an event of the prompt is not on the log, or a blob is not in the store.
    """
    entries = PromptEntries(log)

    def text(digest: BlobDigest | None) -> str:
        return "" if digest is None else content(digest).decode("utf-8", "replace")

    shortened = {event_id: text(digest) for event_id, digest in call.shortened.items()}
    return Prompt(
        instructions=text(call.instructions),
        messages=tuple(entries.message(each, shortened.get(each)) for each in messages),
        tail=text(call.tail),
        calls_tools=call.calls_tools,
    )


def role_of(message: Event) -> str:
    """Return what a message is, in words for people: `user`, `reply`, `call of python`, `result, error` ..."""
    match message:
        case UserMessage():
            return "user"
        case AgentText():
            return "reply"
        case AgentReasoning():
            return "reasoning"
        case ToolCall(tool=tool):
            return f"call of {tool}"
        case ToolResult(status=status):
            return "result" if status == "ok" else f"result, {status}"
        case Summary():
            return "summary"
        case _:
            return message.kind
