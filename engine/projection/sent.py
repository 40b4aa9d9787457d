"""What each model call of a session read, as the log has it: a fold over a path of events, and the prompt made again.

A call's messages are named relative to those of the call before (`ProjectionSent.kept`), because a View grows at its
end: so an event is small however long the conversation is. The events themselves stay on the log, condensed or not;
texts that are on no log (instructions, tail, shortened messages) are contents that the event names. Pure: contents
come from whoever asks. Followed by the log for the next call, and made anew by whoever shows a past one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ..cutting import cut_line
from ..events import Event
from ..events.conversation import AgentText, Condensation, ToolResult, UserMessage
from ..events.session import ProjectionSent
from ..ids import BlobDigest, EventId
from ..ports import Prompt
from ..view.entries import Summary, summary_of

_SHOWN: Final = 20


class SentProjections:
    """The calls so far. `apply` is for the log alone."""

    def __init__(self) -> None:
        self._calls: list[ProjectionSent] = []
        self._messages: list[EventId] = []

    def apply(self, event: Event) -> None:
        if isinstance(event, ProjectionSent):
            self._calls.append(event)
            _follow(self._messages, event)

    @property
    def calls(self) -> Sequence[ProjectionSent]:
        """Oldest first."""
        return tuple(self._calls)

    @property
    def latest(self) -> ProjectionSent | None:
        return self._calls[-1] if self._calls else None

    @property
    def latest_messages(self) -> Sequence[EventId]:
        """The messages of the latest call."""
        return tuple(self._messages)

    def of_round(self, round_id: int) -> ProjectionSent | None:
        """The call of a Round: the one that was answered, else the last; None where the Round has none."""
        found = [call for call in self._calls if call.round_id == round_id]
        return next((call for call in found if call.answered), found[-1] if found else None)

    def without(self, round_id: str) -> str:
        """One sentence for somebody who asked for a Round that no call was made in."""
        if not self._calls:
            return "No model has been called yet."
        first, last = self._calls[0].round_id, self._calls[-1].round_id
        return f"No model was called in Round {cut_line(round_id, _SHOWN)}; the calls are of Rounds {first} to {last}."

    def messages_of(self, call: ProjectionSent) -> Sequence[EventId]:
        """The messages of that call, in order."""
        messages: list[EventId] = []
        for each in self._calls:
            _follow(messages, each)
            if each is call:
                break
        return messages


def _follow(messages: list[EventId], event: ProjectionSent) -> None:
    del messages[max(event.kept, 0) :]
    messages += event.messages


def prompt_of(
    call: ProjectionSent, messages: Sequence[EventId], log: Iterable[Event], content: Callable[[BlobDigest], bytes]
) -> Prompt:
    """The prompt of that call, as the model was sent it.

    Raises:
        KeyError: an event that it was made of is not on the log, or a content is not in the store.
    """
    entries = _entries(log)

    def text(digest: BlobDigest | None) -> str:
        return "" if digest is None else content(digest).decode("utf-8", "replace")

    shortened = {event_id: text(digest) for event_id, digest in call.shortened.items()}
    return Prompt(
        instructions=text(call.instructions),
        messages=tuple(_with_text(entries[each], shortened.get(each)) for each in messages),
        tail=text(call.tail),
        calls_tools=call.calls_tools,
    )


def _entries(log: Iterable[Event]) -> Mapping[EventId, Event]:
    entries: dict[EventId, Event] = {}
    for event in log:
        entries[event.event_id] = event
        if isinstance(event, Condensation) and (summary := summary_of(event)) is not None:
            entries[summary.event_id] = summary
    return entries


def _with_text(event: Event, text: str | None) -> Event:
    if text is not None and isinstance(event, UserMessage | AgentText | ToolResult | Summary):
        return replace(event, text=text)
    return event
