"""Sends a session's events and signals to the editor: in order, merged, never faster than an editor can draw.

The first piece of a stream goes out at once; pieces that follow within a frame are joined. The pump knows when
everything up to an event was sent: a prompt's response waits for that, and a replay ends there. One pump for each open
session, owned by its conversation. Knows no shape of the protocol; `v1.updates` writes the updates.

The pump owns the state shown so far (`shown.Shown`) and the streams that have no event yet (`Streams`). `run` and
`replay` share a lock, so a replay starts and ends between two batches. It translates the log from its start to the last
event that was sent, adds the open streams, and stores the state it ends with. Events after that go through `run`
later. So no event is missing, and none is sent twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, cast

import anyio
from msgspec.structs import replace

from acp_adapter import v1
from acp_adapter.jsonrpc.messages import Json
from acp_adapter.shown import Facts, Shown
from engine import (
    CommandsListed,
    FilesPutBack,
    Item,
    ModelDelayed,
    ModelRetried,
    ModelsListed,
    OutputStreamed,
    ReasoningStreamed,
    StatementRerun,
    Subscription,
    TextStreamed,
)
from engine.context.tail.results import printed_text
from engine.core.ids import MessageId, Seq, ToolCallId
from engine.core.text import between
from engine.log.branches import path_of
from engine.log.events import AnyEvent, Event
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, SummaryCallEnded, ToolResult
from engine.log.events.execution import CommandEnded, ExecutionFinished
from engine.log.events.session import ConfigChanged, ModeChanged, ModelCallEnded, TitleChanged

FRAME_SECONDS: Final = 1 / 60
LIVE_OUTPUT_CHARS: Final = 4_096
"""Limit of one stream while its statement runs: longer output is cut in the middle. The result has all of it."""
_OF_ALL_BRANCHES: Final = (ModeChanged, ConfigChanged, TitleChanged)
"""Events that apply to the whole session, so a replay of one branch includes those of all."""

Send = Callable[[Json], Awaitable[None]]
"""Sends one update; waits while the editor does not read."""


class State(Enum):
    """Whether updates are sent. Waits for sent updates end when this is OVER."""

    WAITING = auto()
    """The client does not know the session yet."""
    SENDING = auto()
    OVER = auto()
    """The subscription has ended, or sending was given up before it started."""


_CALL_ENDED: Final = (ModelCallEnded, SummaryCallEnded)
_CALL_GOES_ON: Final = (TextStreamed, ReasoningStreamed, ModelRetried, *_CALL_ENDED)


class Pump:
    """Sends items of a subscription to the editor until the subscription ends."""

    def __init__(
        self, subscription: Subscription, facts: Facts, send: Send, *, terminals: bool = False, notices: bool = False
    ) -> None:
        """`terminals`: the editor draws terminals for commands. `notices`: it shows notices."""
        self._subscription = subscription
        self._facts = facts
        self._send = send
        self._nothing = Shown(terminals=terminals, notices=notices)
        self._shown = self._nothing
        self._streams = Streams()
        self._notices = notices
        self._delayed: ModelDelayed | None = None
        self._retried: ModelRetried | None = None
        """What delays the model call that runs, and its failure, if the editor shows them as calls."""
        self._sent = subscription.after
        self._handled = 0
        self._progress = anyio.Event()
        self._state = State.WAITING
        self._lock = anyio.Lock(fast_acquire=True)

    async def run(self) -> None:
        """Send what the session publishes until the subscription ends."""
        self._state = State.SENDING
        try:
            async for batch in self._subscription.batches(FRAME_SECONDS):
                async with self._lock:
                    for item in merged(batch):
                        for update in self._live_updates(item):
                            await self._send(update)
                        if isinstance(item, Event):
                            self._advance(item.seq)
                self._handled += len(batch)
                self._advance(self._sent)
        finally:
            self._state = State.OVER
            self._advance(self._sent)

    def give_up(self) -> None:
        """End all waits for `run` if it was not called yet."""
        if self._state is State.WAITING:
            self._state = State.OVER
            self._advance(self._sent)

    def _live_updates(self, item: Item) -> Sequence[Json]:
        return [*self._delay_updates(item), *self._retry_updates(item), *self._item_updates(item)]

    def _delay_updates(self, item: Item) -> Sequence[Json]:
        """Show why a model call has not begun: as a notice, or as one call that changes until it has."""
        if isinstance(item, ModelDelayed):
            if self._notices:
                return [v1.updates.delay_notice(item)]
            before, self._delayed = self._delayed, item
            return [v1.updates.delay_update(item, is_first=before is None)]
        if self._delayed is None or not isinstance(item, _CALL_GOES_ON):
            return []
        delayed, self._delayed = self._delayed, None
        return [v1.updates.delay_ended(delayed)]

    def _retry_updates(self, item: Item) -> Sequence[Json]:
        """Show that a model call is made again: as a notice, or as one call that changes until the model answers."""
        if isinstance(item, ModelRetried):
            if item.withdrawn:
                self._streams.withdraw()
            if self._notices:
                return [v1.updates.retry_notice(item)]
            before = self._retried
            # The model that answers instead may be asked again, and is named at the end.
            self._retried = item if before is None or item.instead else replace(item, instead=before.instead)
            return [v1.updates.retry_update(item, is_first=before is None)]
        if self._retried is None or not isinstance(item, (TextStreamed, ReasoningStreamed, *_CALL_ENDED)):
            return []
        retried, self._retried = self._retried, None
        is_answered = not isinstance(item, _CALL_ENDED) or item.answered is True
        return [v1.updates.retry_ended(retried, is_answered=is_answered)]

    def _item_updates(self, item: Item) -> Sequence[Json]:
        match item:
            case TextStreamed() | ReasoningStreamed():
                self._streams.add(item)
                return [v1.updates.message_update(item)]
            case OutputStreamed():
                text = self._streams.printed(item)
                return v1.updates.output_updates(item.tool_call_id, item.text, text, self._shown)
            case StatementRerun():
                return [v1.updates.rerun_update(item)]
            case FilesPutBack():
                return []  # because an event reports the result
            case ModelRetried() | ModelDelayed():
                return []  # shown above
            case CommandsListed(rows=rows):
                return [v1.updates.commands_update(rows)]
            case ModelsListed():
                return [v1.updates.options_update(self._facts.options_at(self._sent))]
            case _:
                event = cast("AnyEvent", item)
                self._streams.end(event)
                self._shown, updates = v1.updates.event_updates(event, self._shown, self._facts, is_live=True)
                return updates

    async def replay(self, events: Sequence[AnyEvent]) -> None:
        """Send the final state of everything sent so far on the branch that was active; `events` is the log."""
        async with self._lock:
            path = path_of(events[: self._sent + 1], _OF_ALL_BRANCHES)
            replay = v1.updates.Replay(path, self._facts, self._nothing)
            for update in replay:
                await self._send(update)
            self._shown = replay.shown
            self._delayed = self._retried = None  # their calls are not part of the log: the next ones are announced
            for piece in self._streams.messages:
                await self._send(v1.updates.message_update(piece))
            for call, text in self._streams.output:
                for update in v1.updates.output_updates(call, text, text, self._shown):
                    await self._send(update)

    async def show(self, events: Sequence[AnyEvent]) -> None:
        """Send updates for events that were logged before the subscription started, as if they happened now."""
        async with self._lock:
            for event in events:
                self._shown, updates = v1.updates.event_updates(event, self._shown, self._facts, is_live=True)
                for update in updates:
                    await self._send(update)

    def card_of(self, call: ToolCallId) -> ToolCallId:
        """Return the call under which the editor shows a call: an act may have its statement's card."""
        return self._shown.card_of(call)

    async def sent(self, seq: Seq) -> None:
        """Wait until everything up to the event at `seq` was sent, or nothing more will be sent."""
        while self._state is State.WAITING or (self._state is State.SENDING and self._sent < seq):
            await self._progress.wait()

    async def caught_up(self) -> None:
        """Wait until everything published so far was sent, signals included, or nothing more will be sent."""
        published = self._subscription.published
        while self._state is State.SENDING and self._handled < published:
            await self._progress.wait()

    def _advance(self, seq: Seq) -> None:
        self._sent = seq
        progress, self._progress = self._progress, anyio.Event()
        progress.set()


def merged(batch: Sequence[Item]) -> list[Item]:
    """Return the batch with adjacent pieces of one stream joined."""
    result: list[Item] = []
    for item in batch:
        joined = _join(result[-1], item) if result else None
        if joined is None:
            result.append(item)
        else:
            result[-1] = joined
    return result


def _join(first: Item, second: Item) -> Item | None:
    match first, second:
        case TextStreamed(message_id=a), TextStreamed(message_id=b) if a == b:
            return TextStreamed(a, first.text + second.text)
        case ReasoningStreamed(message_id=a), ReasoningStreamed(message_id=b) if a == b:
            return ReasoningStreamed(a, first.text + second.text)
        case OutputStreamed(tool_call_id=a, stream=stream), OutputStreamed(tool_call_id=b, stream=other) if (
            a == b and stream == other
        ):
            return OutputStreamed(a, stream, first.text + second.text)
        case _:
            return None


class _CutOutput:
    """The output of one stream, cut in the middle when it is long."""

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
        """Both ends, and the number of characters missing between them."""
        return self._head + (between(self._left_out) if self._left_out else "") + self._tail


class Streams:
    """Streamed messages and output of one session that have no event yet.

    Kept for a client that loads the session during a turn, and because an editor gets output as one text.
    """

    def __init__(self) -> None:
        self._messages: dict[MessageId, list[TextStreamed | ReasoningStreamed]] = {}
        self._output: dict[ToolCallId, dict[str, _CutOutput]] = {}

    def add(self, piece: TextStreamed | ReasoningStreamed) -> None:
        """Add a piece of a message."""
        self._messages.setdefault(piece.message_id, []).append(piece)

    def withdraw(self) -> None:
        """Forget the messages that no event will contain, because the reply broke off."""
        self._messages.clear()

    def printed(self, piece: OutputStreamed) -> str:
        """Add a piece of output; return all output of its statement so far, as the result will show it."""
        streams = self._output.setdefault(piece.tool_call_id, {"stdout": _CutOutput(), "stderr": _CutOutput()})
        streams[piece.stream].add(piece.text)
        return _text(streams)

    def end(self, event: AnyEvent) -> None:
        """Forget the streams that the event contains in full."""
        match event:
            case AgentText(message_id=message_id) | AgentReasoning(message_id=message_id):
                self._messages.pop(message_id, None)
            case CommandEnded(tool_call_id=call) | ToolResult(tool_call_id=call):
                self._output.pop(call, None)
            case ExecutionFinished():
                self._output.clear()  # because one statement runs at a time
            case RunStop():
                # Answers beside the run were streamed, and no event ends them.
                self._messages.clear()
            case _:
                pass

    @property
    def messages(self) -> list[TextStreamed | ReasoningStreamed]:
        """The open messages, each as one piece."""
        return [replace(pieces[0], text="".join(piece.text for piece in pieces)) for pieces in self._messages.values()]

    @property
    def output(self) -> list[tuple[ToolCallId, str]]:
        """The output so far of each running statement."""
        return [(call, _text(streams)) for call, streams in self._output.items()]


def _text(streams: Mapping[str, _CutOutput]) -> str:
    return printed_text(streams["stdout"].text, streams["stderr"].text)
