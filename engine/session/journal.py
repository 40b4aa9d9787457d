"""Make a session's events durable, then publish them in order, with signals between them.

Owns the rule that nothing a client sees because of an event leaves before the event is durable. `Journal` is between
`EventLog`, which passes every event on, and the store's writer thread. Each reader has a `Subscription`. Signals are
ephemeral: pieces of text or output, progress, retries. Must not know what events mean, except which one ends a stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final, Literal

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..core.errors import LeaseLostError, SessionNotFoundError, SessionReadOnlyError, StoreBusyError, StoreError
from ..core.ids import MessageId, Seq, SessionId, ToolCallId
from ..log.events import ConversationEvent, Event
from ..log.events.conversation import AgentReasoning, AgentText
from ..log.events.execution import CommandEnded, ExecutionFinished
from ..log.events.session import ProjectionSent
from ..log.redaction import NO_SECRETS, Redactor, redact_event
from ..log.store_protocol import Store


class TextStreamed(Struct, frozen=True):
    """A piece of the assistant's text, as it arrived. `AgentText` follows with the whole.

    `aside`: the session's own answer, in Markdown, in one piece. No model wrote it.
    """

    message_id: MessageId
    text: str
    aside: bool = False


class ReasoningStreamed(Struct, frozen=True):
    """A piece of reasoning, as it arrived. `AgentReasoning` follows with the whole."""

    message_id: MessageId
    text: str


class OutputStreamed(Struct, frozen=True):
    """A piece of a running statement's output. `ExecutionFinished` follows with the whole."""

    tool_call_id: ToolCallId
    stream: Literal["stdout", "stderr"]
    text: str


class FilesPutBack(Struct, frozen=True):
    """Progress of a rewind: `done` of `total` files. `Rewound` follows with the result for each."""

    done: int
    total: int


class StatementRerun(Struct, frozen=True):
    """An earlier statement runs again for its names, `place` of `total`. Only if that takes long.

    Not every statement between the first (`begun`) and the last (`over` or `given_up`) of a rebuild has a signal.
    `tool_call_id` is the rebuild's.
    """

    tool_call_id: ToolCallId
    statement: int
    place: int
    total: int
    state: Literal["begun", "running", "over", "given_up"]


class ModelRetried(Struct, frozen=True):
    """A model call failed and is made again: attempt 2 of 5, after `seconds`. `reason` says what failed.

    All attempts of a call have one `tool_call_id`. `withdrawn`: the reply broke off, and what was streamed of it does
    not count. `instead` is the name of another model that is asked now; attempts then count models.
    """

    attempt: int
    attempts: int
    seconds: float
    reason: str
    tool_call_id: ToolCallId = ToolCallId("")
    withdrawn: bool = False
    instead: str = ""


class ModelDelayed(Struct, frozen=True):
    """A model call has not begun, because it waits for `reason`, such as "loading the library for openai:gpt-5".

    All delays of a call have one `tool_call_id`.
    """

    reason: str
    tool_call_id: ToolCallId = ToolCallId("")


class ModelsListed(Struct, frozen=True):
    """Other models can be chosen than before."""


class CommandRow(Struct, frozen=True):
    """A slash command for lists. `hint` names its arguments, "" if it takes none."""

    name: str
    hint: str
    description: str


class CommandsListed(Struct, frozen=True):
    """The slash commands of files and servers are these now. Those of Rewindow itself never change."""

    rows: tuple[CommandRow, ...]


Stream = TextStreamed | ReasoningStreamed | OutputStreamed
"""A piece of text."""
Notice = FilesPutBack | StatementRerun | ModelRetried | ModelDelayed | ModelsListed | CommandsListed
"""What is published as it is."""
Signal = Stream | Notice
"""Published in order, and never stored."""
Item = Event | Signal
"""What is published."""


HIGH_WATER: Final = 8_192
"""Items that a subscriber may lag behind before `room` waits."""


class Subscription:
    """An ordered, unbounded queue with one reader. `room` makes a sender wait."""

    def __init__(self, after: Seq) -> None:
        """`after` is the last event that was published before."""
        self.after = after
        self.published = 0
        """How many items there have been."""
        self._items: deque[Item] = deque()
        self._arrival = anyio.Event()
        self._pressing = anyio.Event()
        self._taken = anyio.Event()
        self._closed = False

    def put(self, item: Item) -> None:
        """Add an item. Called by the journal."""
        self._items.append(item)
        self.published += 1
        self._arrival.set()
        if isinstance(item, Event):
            self._pressing.set()

    def close(self) -> None:
        """End it after the items so far."""
        self._closed = True
        for event in (self._arrival, self._pressing, self._taken):
            event.set()

    async def room(self) -> None:
        """Wait while the reader lags more than HIGH_WATER items behind."""
        while len(self._items) > HIGH_WATER and not self._closed:
            self._taken = anyio.Event()
            await self._taken.wait()

    async def batches(self, pace: float) -> AsyncIterator[list[Item]]:
        """Yield all waiting items whenever there are some, until `close`.

        After a batch of signals alone it waits `pace` seconds, so a stream of small pieces arrives in few batches. An
        event does not wait.
        """
        while True:
            while not self._items:
                if self._closed:
                    return
                self._arrival = anyio.Event()
                await self._arrival.wait()
            batch = list(self._items)
            self._items.clear()
            self._taken.set()
            self._pressing = anyio.Event()
            yield batch
            if not self._closed and not any(isinstance(item, Event) for item in batch):
                with anyio.move_on_after(pace):
                    await self._pressing.wait()


TAKEN_OVER: Final = "Session {session} is closed here: {reason}. Open it again to go on."
_WAIT_SECONDS: Final = 0.005
"""How long the commit of an event that can wait is delayed. Most statements have ended by then, and need one commit
instead of two. It is more than a short statement takes on a busy machine, and less than a person notices."""


class Journal:
    """The outgoing order of one session. Only for the event loop, except the store's commit callback."""

    def __init__(
        self,
        store: Store,
        session_id: SessionId,
        redactor: Redactor = NO_SECRETS,
        failure: StoreError | None = None,
    ) -> None:
        """`redactor` removes secrets from signals, even if two signals split them.

        With a `failure` nothing is ever written: the session can only be read, for that reason.
        """
        self._store = store
        self._redactor = redactor
        self._held: dict[object, Stream] = {}
        self._session_id = session_id
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Item] = deque()
        self._flushing: asyncio.TimerHandle | None = None
        self._durable = Seq(-1)
        self._failure = None if failure is None else SessionReadOnlyError(session_id, str(failure))
        self._delay: SessionReadOnlyError | None = None
        self._progress = asyncio.Event()
        """Set by each commit."""
        self._is_taken_over = False
        self._end = asyncio.Event()
        """Set when it is closed, or another process has taken the session over."""
        self._subscriptions: list[Subscription] = []
        self._is_together = False

    def opened_at(self, seq: Seq) -> None:
        """Take all events up to `seq` as durable: the session was loaded."""
        self._durable = seq

    def write(self, event: Event) -> None:
        """Queue a stamped event for the next commit, and for publication after it.

        Raises:
            SessionReadOnlyError: an earlier commit failed; nothing was queued.
        """
        if self._failure is not None:
            raise self._failure
        waits = event.waits or self._is_together
        self._store.submit(self._session_id, event, waits=waits)
        if not waits:
            self._forget_timer()
        elif self._flushing is None:
            self._flushing = self._loop.call_later(_WAIT_SECONDS, self.flush)
        self._end_streams(event)
        self._waiting.append(event)

    @contextmanager
    def together(self) -> Generator[None]:
        """Commit the events of the block in one transaction, so that a kill leaves all or none. Not for `await`."""
        self._is_together = True
        try:
            yield
        finally:
            self._is_together = False
            self.flush()

    def flush(self) -> None:
        """Start the commit of events that wait."""
        if self._flushing is not None:
            self._forget_timer()
            self._store.flush()

    def _forget_timer(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None

    def signal(self, signal: Signal, *, is_whole: bool = False) -> None:
        """Publish a signal after the events before it.

        Its end waits for the next piece or the stream's event if it may be the start of a secret. `is_whole` says that
        neither will come.
        """
        if isinstance(signal, ModelRetried):
            if signal.withdrawn:
                self._held = {key: held for key, held in self._held.items() if isinstance(held, OutputStreamed)}
            signal = replace(signal, reason=self._redactor.redact(signal.reason))
        if isinstance(signal, Notice):
            self.flush()
            self._enqueue(signal)
            self._publish()
            return
        stream = (signal.tool_call_id, signal.stream) if isinstance(signal, OutputStreamed) else signal.message_id
        held = self._held.pop(stream, None)
        text = (held.text if held else "") + signal.text
        shown, rest = (self._redactor.redact(text), "") if is_whole else self._redactor.redact_piece(text)
        if rest:
            self._held[stream] = replace(signal, text=rest)
        if shown:
            self.flush()
            self._enqueue(signal if shown == signal.text else replace(signal, text=shown))
            self._publish()

    def _enqueue(self, signal: Signal) -> None:
        # A reply's text need not wait for the record of its call, which is never shown.
        is_record = bool(self._waiting) and isinstance(self._waiting[-1], ProjectionSent)
        self._waiting.insert(len(self._waiting) - is_record, signal)

    def _end_streams(self, event: Event) -> None:
        match event:
            case AgentText(message_id=message_id) | AgentReasoning(message_id=message_id):
                held = self._held.pop(message_id, None)
                if held is not None:
                    self._waiting.append(replace(held, text=self._redactor.redact(held.text)))
            case CommandEnded(tool_call_id=call):
                # An editor that draws a terminal does not get the output again.
                for key, held in list(self._held.items()):
                    if isinstance(held, OutputStreamed) and held.tool_call_id == call:
                        self._waiting.append(replace(held, text=self._redactor.redact(held.text)))
                        del self._held[key]
            case ExecutionFinished():
                # The record shows the whole output instead of the streamed pieces.
                self._held = {key: held for key, held in self._held.items() if not isinstance(held, OutputStreamed)}
            case _:
                pass

    async def room(self) -> None:
        """Wait while a subscriber lags far behind: a slow client slows the model, and fills no memory."""
        for subscription in self._subscriptions:
            await subscription.room()

    async def durable(self, seq: Seq) -> None:
        """Wait until the event at `seq` is on disk.

        Raises:
            SessionReadOnlyError: it never will be, or not while another process keeps the store locked.
        """
        self.flush()
        while self._durable < seq:
            if self.failure is not None:
                raise self.failure
            self._progress.clear()
            await self._progress.wait()

    @property
    def kept(self) -> int:
        """How many events are on disk, from the first on."""
        return self._durable + 1

    @property
    def is_over(self) -> bool:
        """Whether nothing will ever be recorded again."""
        return self._failure is not None

    @property
    def failure(self) -> SessionReadOnlyError | None:
        """Why nothing can be recorded: for good, or until another process unlocks the store.

        In the latter case events are still taken, so that current work can end, and committed later.
        """
        return self._failure or self._delay

    def subscribe(self) -> Subscription:
        """Subscribe to everything from now on."""
        subscription = Subscription(self._durable)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription after the items so far."""
        self._subscriptions.remove(subscription)
        subscription.close()

    @property
    def is_taken_over(self) -> bool:
        """Whether another process has taken the session over."""
        return self._is_taken_over

    async def taken_over(self) -> bool:
        """Wait until another process has taken the session over; return False if the journal is closed before."""
        await self._end.wait()
        return self._is_taken_over

    def close(self) -> None:
        """End every subscription after the items so far."""
        self._end.set()
        for subscription in self._subscriptions:
            subscription.close()

    def committed(self, seq: Seq, error: Exception | None) -> None:
        """The store's callback, on its own thread."""
        try:
            self._loop.call_soon_threadsafe(self._on_commit, seq, error)
        except RuntimeError:  # because the loop may be closed while the last commit is still under way
            return

    def _on_commit(self, seq: Seq, error: Exception | None) -> None:
        self._durable = max(self._durable, seq)
        is_busy = isinstance(error, StoreBusyError)
        reason = None if error is None else SessionReadOnlyError(self._session_id, str(error), for_now=is_busy)
        self._delay = reason if is_busy else None
        if self._delay is None and self._failure is None:
            self._failure = reason
        if isinstance(error, LeaseLostError):
            self._report_takeover(error)
        self._progress.set()
        self._publish()

    def _report_takeover(self, error: LeaseLostError) -> None:
        # Before the events that wait: they will never be durable, so nothing after them is published.
        text = TAKEN_OVER.format(session=self._session_id, reason=error)
        for subscription in self._subscriptions:
            subscription.put(TextStreamed(MessageId(f"taken_over_{self.kept}"), text, aside=True))
        self._is_taken_over = True
        self._end.set()

    def _publish(self) -> None:
        while self._waiting:
            item = self._waiting[0]
            if isinstance(item, Event) and item.seq > self._durable:
                return
            self._waiting.popleft()
            for subscription in self._subscriptions:
                subscription.put(item)


class StoredEvents:
    """`event_log.Backing` of one session: reads its durable events again from the store.

    Values that became known as secrets since then are removed when an event is read. Must not know who reads. Made by
    `parts`.
    """

    def __init__(self, store: Store, session_id: SessionId, journal: Journal, redactor: Redactor) -> None:
        self._store = store
        self._session_id = session_id
        self._journal = journal
        self._redactor = redactor
        self._clean = _Clean(0)

    @property
    def kept(self) -> int:
        """As in the protocol. A commit counts once the journal knows of it."""
        return self._journal.kept

    def between(self, start: int, end: int) -> Sequence[Event]:
        """As in the protocol. Raises StoreError, even if the store has lost events."""
        try:
            stored = self._store.load(self._session_id, start, end - start)
        except SessionNotFoundError as error:  # somebody has deleted it by other means than this program
            raise StoreError(str(error)) from error
        if [event.seq for event in stored] != list(range(start, end)):
            raise StoreError(
                f"events {start} to {end - 1} of session {self._session_id} have changed in the "
                "store; restore the store from a copy"
            )
        return self._presented(start, end, stored)

    def _presented(self, start: int, end: int, stored: Sequence[Event]) -> Sequence[Event]:
        """Return the events without secrets. Those that had none are searched again once more secrets are known."""
        known = self._redactor.known
        if self._clean.known != known:
            self._clean = _Clean(known)
        clean = self._clean.events
        if len(clean) >= end and all(clean[start:end]):
            return stored
        found = list(presentable(self._redactor, stored))
        clean.extend(bytes(max(0, end - len(clean))))
        clean[start:end] = bytes(mine is its for mine, its in zip(found, stored, strict=True))
        return found


class _Clean:
    """Which events, by position, have none of so many `known` secrets: 1 for each of them."""

    __slots__ = ("events", "known")

    def __init__(self, known: int) -> None:
        self.known = known
        self.events = bytearray()


def presentable(redactor: Redactor, history: Iterable[Event]) -> Iterable[Event]:
    """Return the history as models and people may read it, without secrets.

    A value may have become known as a secret after its event was stored. The timeline is unchanged, because its
    statements must run again, and because the store has it anyway.
    """
    if not redactor:
        return history
    return (redact_event(redactor, event) if isinstance(event, ConversationEvent) else event for event in history)
