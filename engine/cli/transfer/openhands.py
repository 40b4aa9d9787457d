"""Events of the OpenHands software agent SDK, as `model_dump_json` writes them: `kind` names the class.

Its condensations name its own event ids, and its summary offsets count its own View. One of its events may become
several of ours. So the reader keeps its View beside ours, as far as condensations need it. Source: openhands-sdk 1.x,
`openhands/sdk/event`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, cast

from msgspec import Struct

from ...core.ids import EventId
from ...core.text import cut_line
from ...log.events.conversation import AgentReasoning, AgentText, ToolCall, ToolResult, UserMessage
from .document import Document, Fields, Item
from .messages import joined, note_unread, parts_of, refuse_without_messages, think_aloud
from .writer import Reply, Writer

NAME: Final = "openhands"
TITLE: Final = "OpenHands events"
_FINISH: Final = "finish"
_NAME_CHARS: Final = 80
_ENTRIES: Final = (UserMessage, AgentText, AgentReasoning, ToolCall, ToolResult)


class _Entry(Struct, frozen=True):
    """One entry of its View: its id, and the ids of our events."""

    name: str
    ours: tuple[EventId, ...]


class _Reader:
    """One pass over the events.

    `entries` is its current View; `ours` maps its ids to those of our events.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.entries: list[_Entry] = []
        self.ours: dict[str, tuple[EventId, ...]] = {}
        self.summaries: set[str] = set()
        self.parents: set[str] = set()

    def read(self, item: Item) -> None:
        kind = item.fields.get("kind")
        if not isinstance(kind, str) or not kind:
            item.refuse("`kind`, the class of an OpenHands event, is missing")
        self.writer.at = _seconds(item.fields.get("timestamp"), self.writer.at)
        self._note_branch(item.fields.get("parent_id"))
        row = _ROWS.get(kind)
        if row is None:
            self.writer.report.ignored[cut_line(kind, _NAME_CHARS)] += 1
            return
        before = len(self.writer)
        row(self, item)
        if kind in _CONVERTIBLE:
            self._enter(item, before)

    def _note_branch(self, parent: object) -> None:
        # Its conversations are trees. The events do not say which branch was active.
        if not isinstance(parent, str):
            return
        if parent in self.parents:
            self.writer.report.noted["branches, one after the other"] += 1
        self.parents.add(parent)

    def _enter(self, item: Item, before: int) -> None:
        name = _text(item, "id")
        if name in self.summaries:
            return
        ours = tuple(event.event_id for event in self.writer.since(before) if isinstance(event, _ENTRIES))
        self.entries.append(_Entry(name, ours))
        self.ours[name] = (*self.ours.get(name, ()), *ours)

    # --- the conversation -----------------------------------------------------------------------------------------

    def prompt(self, item: Item) -> None:
        for key in ("system_prompt", "dynamic_context"):
            self.writer.system(joined(item.fields.get(key), item.place, self.writer.report))
        tools = item.fields.get("tools")
        if isinstance(tools, list) and tools:
            self.writer.report.ignored["definitions of tools"] += len(cast("list[object]", tools))

    def message(self, item: Item) -> None:
        message = _object(item, "llm_message")
        role = message.get("role")
        text = self._content(item, message.get("content"))
        if role == "assistant":
            reply = self.writer.reply(item.fields.get("llm_response_id"))
            self._think(message, reply)
            reply.text(text)
        elif role == "user":
            self.writer.user(text)
        else:
            item.refuse(
                f"the role of llm_message is {cut_line(str(role), _NAME_CHARS)!r}; the role must be user or assistant"
            )

    def action(self, item: Item) -> None:
        fields = item.fields
        reply = self.writer.reply(fields.get("llm_response_id"))
        self._think(fields, reply)
        reply.text(joined(fields.get("thought"), item.place, self.writer.report))
        call: Fields = cast("Fields", fields["tool_call"]) if isinstance(fields.get("tool_call"), dict) else {}
        tool = call.get("name") or fields.get("tool_name")
        if not isinstance(tool, str) or not tool:
            item.refuse("the event names no tool")
        arguments: Any = call["arguments"] if "arguments" in call else fields.get("action")
        reply.call(fields.get("tool_call_id") or call.get("id"), tool, arguments)

    def observation(self, item: Item) -> None:
        observation = _object(item, "observation")
        text = self._content(item, observation.get("content"))
        failed = observation.get("is_error") is True
        self.writer.result(_text(item, "tool_call_id"), "error" if failed else "ok", text)
        if item.fields.get("tool_name") == _FINISH and not failed:
            self.writer.answered()

    def error(self, item: Item) -> None:
        self.writer.result(_text(item, "tool_call_id"), "error", _text(item, "error"))

    def rejection(self, item: Item) -> None:
        reason = item.fields.get("rejection_reason")
        text = f"Action rejected: {reason}" if isinstance(reason, str) else "Action rejected"
        self.writer.result(_text(item, "tool_call_id"), "rejected", text)

    def summary(self, item: Item) -> None:
        """Take a separate summary event, unless a condensation contained it."""
        if item.fields.get("id") in self.summaries:
            self.writer.report.ignored["CondensationSummaryEvent that repeats its condensation"] += 1
            return
        self.writer.report.noted["summaries, as user messages"] += 1
        self.writer.user(f"[summary of earlier events] {_text(item, 'summary')}")

    # --- condensations --------------------------------------------------------------------------------------------

    def condensation(self, item: Item) -> None:
        names = item.fields.get("forgotten_event_ids", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[object]", names)):
            item.refuse("forgotten_event_ids is not a list of ids")
        gone = frozenset(cast("list[str]", names))
        self.entries = [entry for entry in self.entries if entry.name not in gone]
        summary, offset = item.fields.get("summary"), item.fields.get("summary_offset")
        if not isinstance(summary, (str, type(None))) or not isinstance(offset, (int, type(None))):
            item.refuse("summary is not text, or summary_offset is not a number")
        ours = tuple(each for name, became in self.ours.items() if name in gone for each in became)
        place = None if offset is None else sum(len(entry.ours) for entry in self.entries[: max(offset, 0)])
        named = self.writer.condensation(ours, summary, place)
        if summary is not None and offset is not None:
            entry = _Entry(f"{_text(item, 'id')}-summary", (EventId(f"{named}-summary"),))
            # Limited, because insert() refuses numbers beyond 64 bits.
            self.entries.insert(min(max(offset, 0), len(self.entries)), entry)
            self.summaries.add(entry.name)
            self.ours[entry.name] = entry.ours

    def request(self, _: Item) -> None:
        self.writer.condensation_request()

    # --- ends of runs ---------------------------------------------------------------------------------------------

    def pause(self, _: Item) -> None:
        self.writer.pause()

    def failure(self, item: Item) -> None:
        parts = [value for key in ("code", "detail") if isinstance(value := item.fields.get(key), str) and value]
        self.writer.stop("error", ": ".join(parts))

    def _content(self, item: Item, content: object) -> str:
        parts = [*parts_of(content, item.place), *parts_of(item.fields.get("extended_content"), item.place)]
        return joined(parts, item.place, self.writer.report)

    def _think(self, fields: Fields, reply: Reply) -> None:
        think_aloud(fields, reply, self.writer.report)
        thought = fields.get("responses_reasoning_item")
        if isinstance(thought, dict):
            item = cast("Fields", thought)
            texts = [*parts_of(item.get("summary"), "summary"), *parts_of(item.get("content"), "content")]
            if texts:
                reply.reasoning(joined(texts, "reasoning", self.writer.report))
            if item.get("encrypted_content"):
                self.writer.report.ignored["encrypted reasonings"] += 1


Row = Callable[[_Reader, Item], None]
_ROWS: Final[dict[str, Row]] = {
    "SystemPromptEvent": _Reader.prompt,
    "MessageEvent": _Reader.message,
    "ActionEvent": _Reader.action,
    "ObservationEvent": _Reader.observation,
    "AgentErrorEvent": _Reader.error,
    "UserRejectObservation": _Reader.rejection,
    "CondensationSummaryEvent": _Reader.summary,
    "Condensation": _Reader.condensation,
    "CondensationRequest": _Reader.request,
    "PauseEvent": _Reader.pause,
    "InterruptEvent": _Reader.pause,
    "ConversationErrorEvent": _Reader.failure,
}
_CONVERTIBLE: Final = frozenset(tuple(_ROWS)[:7])
"""The kinds in its View."""


def recognises(document: Document) -> bool:
    """Whether an item names its class and its source, and has no role."""
    return any(
        isinstance(item.fields.get("kind"), str) and "source" in item.fields and "role" not in item.fields
        for item in document.items
    )


def read(document: Document, writer: Writer) -> None:
    """Write the conversation, and count the kinds that are not read.

    Raises:
        InvalidRequestError: an item is not an event. The error names its place.
    """
    refuse_without_messages(document)
    note_unread(document.around, (), writer.report, "of the conversation")
    reader = _Reader(writer)
    for item in document.items:
        reader.read(item)


def _text(item: Item, key: str) -> str:
    value = item.fields.get(key)
    if not isinstance(value, str) or not value:
        item.refuse(f"{key} is missing or not text")
    return value


def _object(item: Item, key: str) -> Fields:
    value = item.fields.get(key)
    if not isinstance(value, dict):
        item.refuse(f"{key} is missing or not an object")
    return cast("Fields", value)


def _seconds(timestamp: object, otherwise: float) -> float:
    # The SDK writes local times without a zone.
    try:
        return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else otherwise
    except (ValueError, OverflowError, OSError):
        return otherwise
