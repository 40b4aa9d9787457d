"""Sends a session's events and signals to the editor: in order, merged, never faster than an editor can draw.

The first piece of a stream goes out at once; pieces that follow within a frame are joined. The pump knows when
everything up to an event was sent: a prompt's response waits for that, and a replay ends there. One pump for each open
session, owned by its conversation. Knows no shape of the protocol; `updates` makes the updates, and a version's writer
makes JSON of them.

The pump owns the state shown so far (`shown.Shown`) and the streams that have no event yet (`Streams`). `run` and
`replay` share a lock, so a replay starts and ends between two batches. It translates the log from its start to the last
event that was sent, adds the open streams, and stores the state it ends with. Events after that go through `run`
later. So no event is missing, and none is sent twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, cast

import anyio
from msgspec.structs import replace

from acp_adapter import updates
from acp_adapter.jsonrpc.messages import Json
from acp_adapter.shown import NOTHING_SHOWN, Facts, Shown
from acp_adapter.versions import Writer
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
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, SummaryCallEnded, ToolResult, UserMessage
from engine.log.events.execution import CommandEnded, ExecutionFinished
from engine.log.events.session import ConfigChanged, ModeChanged, ModelCallEnded, TitleChanged

if TYPE_CHECKING:  # loaded in the prompt stage
    from acp_adapter.updates import Update

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
        self,
        subscription: Subscription,
        facts: Facts,
        send: Send,
        writer: Writer,
        nothing: Shown = NOTHING_SHOWN,
        between: Callable[[RunStop], Awaitable[None]] | None = None,
    ) -> None:
        """`nothing` is the state before the first event: what the editor can show.

        `between` is called with the end of each run before the next message of the user is sent.
        """
        self._subscription = subscription
        self._facts = facts
        self._send = send
        self._writer = writer
        self._nothing = nothing
        self._between = between
        self._stop: RunStop | None = None
        """The end of the last run, until a message of the user follows."""
        self._shown = nothing
        self._streams = Streams()
        self._inserted: set[MessageId] = set()
        """The user's messages that were sent, or would have been: version 1 sends none while they are new."""
        self._asides: dict[MessageId, UserMessage] = {}
        self._delayed: ModelDelayed | None = None
        self._retried: ModelRetried | None = None
        """What delays the model call that runs, and its failure, if the editor shows them as calls."""
        self._sent = subscription.after
        self._handled = 0
        self._progress = anyio.Event()
        self._state = State.WAITING
        self._lock = anyio.Lock(fast_acquire=True)
        self._is_foreign: Callable[[MessageId], bool] = lambda _: False
        self._followed: Callable[[UserMessage | RunStop], Awaitable[None]] | None = None

    def follow(
        self, is_foreign: Callable[[MessageId], bool], followed: Callable[[UserMessage | RunStop], Awaitable[None]]
    ) -> None:
        """Expect prompts of other clients, and show those messages for which `is_foreign` returns True.

        `followed` is called after each message of a user, and each end of a run, was sent.
        """
        self._is_foreign, self._followed = is_foreign, followed

    async def run(self) -> None:
        """Send what the session publishes until the subscription ends."""
        self._state = State.SENDING
        self._advance(self._sent)
        try:
            async for batch in self._subscription.batches(FRAME_SECONDS):
                async with self._lock:
                    for item in merged(batch):
                        await self._separate(item)
                        for update in self._writer.live(self._live_updates(item)):
                            await self._send(update)
                        if isinstance(item, UserMessage):
                            self._inserted.add(item.message_id)
                        if isinstance(item, UserMessage | RunStop) and self._followed is not None:
                            await self._followed(item)
                        if isinstance(item, Event):
                            self._advance(item.seq)
                self._handled += len(batch)
                self._advance(self._sent)
        finally:
            self._state = State.OVER
            self._advance(self._sent)

    async def _separate(self, item: Item) -> None:
        if isinstance(item, RunStop):
            self._stop = item
        elif isinstance(item, UserMessage) and self._stop is not None:
            stop, self._stop = self._stop, None
            if self._between is not None:
                await self._between(stop)

    def give_up(self) -> None:
        """End all waits for `run` if it was not called yet."""
        if self._state is State.WAITING:
            self._state = State.OVER
            self._advance(self._sent)

    def _live_updates(self, item: Item) -> Sequence[Update]:
        return [*self._delay_updates(item), *self._retry_updates(item), *self._item_updates(item)]

    def _delay_updates(self, item: Item) -> Sequence[Update]:
        """Show why a model call has not begun: as a notice, or as one call that changes until it has."""
        if isinstance(item, ModelDelayed):
            if self._nothing.notices:
                return [updates.delay_notice(item)]
            before, self._delayed = self._delayed, item
            return [updates.delay_update(item, is_first=before is None)]
        if self._delayed is None or not isinstance(item, _CALL_GOES_ON):
            return []
        delayed, self._delayed = self._delayed, None
        return [updates.delay_ended(delayed)]

    def _retry_updates(self, item: Item) -> Sequence[Update]:
        """Show that a model call is made again: as a notice, or as one call that changes until the model answers."""
        if isinstance(item, ModelRetried):
            if item.withdrawn:
                self._streams.withdraw()
            if self._nothing.notices:
                return [updates.retry_notice(item)]
            before = self._retried
            # The model that answers instead may be asked again, and is named at the end.
            self._retried = item if before is None or item.instead else replace(item, instead=before.instead)
            return [updates.retry_update(item, is_first=before is None)]
        if self._retried is None or not isinstance(item, (TextStreamed, ReasoningStreamed, *_CALL_ENDED)):
            return []
        retried, self._retried = self._retried, None
        is_answered = not isinstance(item, _CALL_ENDED) or item.answered is True
        return [updates.retry_ended(retried, is_answered=is_answered)]

    def _item_updates(self, item: Item) -> Sequence[Update]:
        match item:
            case TextStreamed() | ReasoningStreamed():
                self._streams.add(item)
                return [*self._question_of(item), updates.message_update(item)]
            case OutputStreamed():
                text = self._streams.printed(item)
                return updates.output_updates(item.tool_call_id, item.text, text, self._shown)
            case StatementRerun():
                return [updates.rerun_update(item)]
            case FilesPutBack():
                return []  # because an event reports the result
            case ModelRetried() | ModelDelayed():
                return []  # shown above
            case CommandsListed(rows=rows):
                return [updates.commands_update(rows)]
            case ModelsListed():
                return [updates.options_update(self._facts.options_at(self._sent), booleans=self._nothing.booleans)]
            case _:
                event = cast("AnyEvent", item)
                self._streams.end(event)
                return self._event_updates(event)

    def _event_updates(self, event: AnyEvent) -> Sequence[Update]:
        is_foreign = isinstance(event, UserMessage) and self._is_foreign(event.message_id)
        shown = replace(self._shown, echoes=True) if is_foreign else self._shown
        shown, made = updates.event_updates(event, shown, self._facts, is_live=True)
        self._shown = replace(shown, echoes=self._nothing.echoes) if is_foreign else shown
        return made

    def _question_of(self, piece: TextStreamed | ReasoningStreamed) -> Sequence[Update]:
        """Return the aside that a message answers, before its first piece."""
        aside = self._asides.pop(piece.message_id, None)
        return () if aside is None else updates.user_updates(aside, self._facts)

    async def replay(self, events: Sequence[AnyEvent]) -> None:
        """Send the final state of everything sent so far on the branch that was active; `events` is the log."""
        async with self._lock:
            for update in self._writer.replayed(self._replayed(events)):
                await self._send(update)

    def _replayed(self, events: Sequence[AnyEvent]) -> Iterator[Update]:
        replay = updates.Replay(path_of(events[: self._sent + 1], _OF_ALL_BRANCHES), self._facts, self._nothing)
        yield from replay
        self._shown = replay.shown
        self._delayed = self._retried = None  # their calls are not part of the log: the next ones are announced
        for piece in self._streams.messages:
            yield updates.message_update(piece)
        for call, text in self._streams.output:
            yield from updates.output_updates(call, text, text, self._shown)

    async def show(self, events: Sequence[AnyEvent]) -> None:
        """Send updates for events that were logged before the subscription started, as if they happened now."""
        async with self._lock:
            for event in events:
                for update in self._writer.live(self._event_updates(event)):
                    await self._send(update)

    def answer_aside(self, aside: UserMessage, answer: MessageId) -> None:
        """Send a message that is not on the log before its answer, whose first piece was not sent yet."""
        self._asides[answer] = aside

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

    def has_inserted(self, message_id: MessageId) -> bool:
        """Whether the user's message was sent with its place in the conversation."""
        return message_id in self._inserted

    async def inserted(self, message_id: MessageId) -> None:
        """Wait until the user's message has its place in the conversation, or nothing more will be sent."""
        while self._state is not State.OVER and message_id not in self._inserted:
            await self._progress.wait()

    @property
    def is_sending(self) -> bool:
        """Whether `run` was called and has not ended."""
        return self._state is State.SENDING

    async def over(self) -> None:
        """Wait until nothing more will be sent."""
        while self._state is not State.OVER:
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
