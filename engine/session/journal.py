"""Makes a session's events durable, then publishes them in order, with signals between events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, Literal

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..core.errors import SessionNotFoundError, SessionReadOnlyError, StoreBusyError, StoreError
from ..core.ids import MessageId, Seq, SessionId, ToolCallId
from ..log.events import ConversationEvent, Event
from ..log.events.conversation import AgentReasoning, AgentText
from ..log.events.execution import CommandEnded, ExecutionFinished
from ..log.events.session import ProjectionSent
from ..log.redaction import NO_SECRETS, Redactor, redact_event
from ..log.store_protocol import Store

# What happens between two events and is never kept: pieces of text, of reasoning, of a running statement's output,
# how far a rewind is with its files, or a rebuild with its statements, and that a model call is made again.
#
# But for the last, one event follows each of them when it ends and holds all of it. Published beside events, in
# order, by the journal.


class TextStreamed(Struct, frozen=True):
    """A piece of assistant text, as it arrived; the whole follows as `AgentText`.

    `aside`: the session's own answer, in Markdown, which comes in one piece and is no model's.
    """

    message_id: MessageId
    text: str
    aside: bool = False


class ReasoningStreamed(Struct, frozen=True):
    """A piece of reasoning, as it arrived; the whole follows as `AgentReasoning`."""

    message_id: MessageId
    text: str


class OutputStreamed(Struct, frozen=True):
    """A piece of what a running statement printed; the whole follows on `ExecutionFinished`."""

    tool_call_id: ToolCallId
    stream: Literal["stdout", "stderr"]
    text: str


class FilesPutBack(Struct, frozen=True):
    """So many files of a rewind are as they are to be, or are left; what became of each follows as `Rewound`."""

    done: int
    total: int


class StatementRerun(Struct, frozen=True):
    """An earlier statement runs again so that its names are there, `place` of `total`; said where that takes long.

    Between the first of one rebuild (`begun`) and the last (`over`, or `given_up`) not all that run again are said.
    `tool_call_id` is the rebuild's.
    """

    tool_call_id: ToolCallId
    statement: int
    place: int
    total: int
    state: Literal["begun", "running", "over", "given_up"]


class ModelRetried(Struct, frozen=True):
    """A model call failed and is made again: attempt 2 of 5, after a pause of `seconds`. `reason` says what failed."""

    attempt: int
    attempts: int
    seconds: float
    reason: str


Stream = TextStreamed | ReasoningStreamed | OutputStreamed
"""A piece of text."""
Signal = Stream | FilesPutBack | StatementRerun | ModelRetried
"""A piece of what is happening. It is published in order and never stored."""
Item = Event | Signal
"""What is published."""


# subscription:
# One reader's queue of what a session publishes, in order, and when a sender has to wait for it.
#
# Filled by the journal, read by an adapter's pump. Must not know what is in it, but for events being pressing.

HIGH_WATER: Final = 8_192
"""Items that a subscriber may lag behind before `room` makes the sender wait."""


class Subscription:
    """An ordered, unbounded queue with a single reader; `room` tells a sender when to wait."""

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
        """Adds what was published; called by the journal."""
        self._items.append(item)
        self.published += 1
        self._arrival.set()
        if isinstance(item, Event):
            self._pressing.set()

    def close(self) -> None:
        """Ends it after what it was sent so far."""
        self._closed = True
        for event in (self._arrival, self._pressing, self._taken):
            event.set()

    async def room(self) -> None:
        """Waits while the reader lags more than HIGH_WATER items behind."""
        while len(self._items) > HIGH_WATER and not self._closed:
            self._taken = anyio.Event()
            await self._taken.wait()

    async def batches(self, pace: float) -> AsyncIterator[list[Item]]:
        """Everything there is, whenever there is something; ends after `close`.

        After a batch of signals alone the next waits `pace` seconds, so that a stream of small pieces is handed on in
        few batches; an event does not wait.
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


# journal:
# Makes a session's events durable and publishes them, in order, together with ephemeral signals.
#
# Owns the rule that nothing a client sees because of an event leaves before that event is durable. Stands between
# `EventLog`, which hands every event on, and the store's writer thread. Subscribers are the adapters' pumps. Must not
# know what events mean, but for which one ends a stream of signals.

_WAIT_SECONDS: Final = 0.005
"""How long the commit of an event that waits is put off: most statements have ended by then, and need one commit. One
that has not would wait for two, so it is more than a short one takes on a busy machine, and less than anybody sees."""


class Journal:
    """One session's outgoing order. Used from the event loop only, but for the store's commit callback."""

    def __init__(
        self,
        store: Store,
        session_id: SessionId,
        redactor: Redactor = NO_SECRETS,
        failure: StoreError | None = None,
    ) -> None:
        """`redactor` takes secrets out of what is signalled, also those that are cut by two signals.

        With a `failure` nothing is ever written: the session can be looked at, for that reason.
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
        self._subscriptions: list[Subscription] = []

    def opened_at(self, seq: Seq) -> None:
        """Everything up to `seq` is durable already: the session was loaded."""
        self._durable = seq

    def write(self, event: Event) -> None:
        """Queues a stamped event for the next commit, and for publication after it.

        Raises:
            SessionReadOnlyError: an earlier commit failed; nothing was queued.
        """
        if self._failure is not None:
            raise self._failure
        waits = event.waits
        self._store.submit(self._session_id, event, waits=waits)
        if not waits:
            self._forget_timer()
        elif self._flushing is None:
            self._flushing = self._loop.call_later(_WAIT_SECONDS, self.flush)
        self._end_streams(event)
        self._waiting.append(event)

    def flush(self) -> None:
        """Begins the commit of what was written and waits."""
        if self._flushing is not None:
            self._forget_timer()
            self._store.flush()

    def _forget_timer(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None

    def signal(self, signal: Signal, *, is_whole: bool = False) -> None:
        """Publishes a signal after the events before it; it is not kept.

        An end of it that may be the start of a secret waits for the next piece of its stream or for the stream's event;
        `is_whole` says that neither will come.
        """
        if isinstance(signal, ModelRetried):
            signal = replace(signal, reason=self._redactor.redact(signal.reason))
        if isinstance(signal, FilesPutBack | StatementRerun | ModelRetried):
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
        # What a reply says need not wait for the commit of the record of its call, which nobody is shown.
        is_record = bool(self._waiting) and isinstance(self._waiting[-1], ProjectionSent)
        self._waiting.insert(len(self._waiting) - is_record, signal)

    def _end_streams(self, event: Event) -> None:
        match event:
            case AgentText(message_id=message_id) | AgentReasoning(message_id=message_id):
                held = self._held.pop(message_id, None)
                if held is not None:
                    self._waiting.append(replace(held, text=self._redactor.redact(held.text)))
            case CommandEnded(tool_call_id=call):
                # An editor that draws a terminal is not told what it printed once more.
                for key, held in list(self._held.items()):
                    if isinstance(held, OutputStreamed) and held.tool_call_id == call:
                        self._waiting.append(replace(held, text=self._redactor.redact(held.text)))
                        del self._held[key]
            case ExecutionFinished():
                # Shows all that was printed in the place of what was streamed.
                self._held = {key: held for key, held in self._held.items() if not isinstance(held, OutputStreamed)}
            case _:
                pass

    async def room(self) -> None:
        """Waits while a subscriber is far behind, so that a slow client slows the model and not the memory."""
        for subscription in self._subscriptions:
            await subscription.room()

    async def durable(self, seq: Seq) -> None:
        """Waits until the event at `seq` is on disk.

        Raises:
            SessionReadOnlyError: it never will be, or not as long as another process keeps the store locked.
        """
        self.flush()
        while self._durable < seq:
            if self.failure is not None:
                raise self.failure
            self._progress.clear()
            await self._progress.wait()

    @property
    def kept(self) -> int:
        """How many events are on disk: the first ones."""
        return self._durable + 1

    @property
    def is_over(self) -> bool:
        """Whether nothing will ever be kept any more."""
        return self._failure is not None

    @property
    def failure(self) -> SessionReadOnlyError | None:
        """Why nothing can be kept, if so: for good, or until another process gives the store free.

        In the latter case events are taken all the same, so that what was under way can end, and are kept in time.
        """
        return self._failure or self._delay

    def subscribe(self) -> Subscription:
        """A new reader of everything published from now on."""
        subscription = Subscription(self._durable)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ends one that reads no more, after what it was sent so far."""
        self._subscriptions.remove(subscription)
        subscription.close()

    def close(self) -> None:
        """Ends every subscription after what it was sent so far."""
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
        self._progress.set()
        self._publish()

    def _publish(self) -> None:
        while self._waiting:
            item = self._waiting[0]
            if isinstance(item, Event) and item.seq > self._durable:
                return
            self._waiting.popleft()
            for subscription in self._subscriptions:
                subscription.put(item)


# stored events:
# What a session's log reads again: its events in the store, as far as they are durable.
#
# They are as the log had them: what has become known as a secret since an event was stored is taken out when it is
# read. Must not know who asks. Made by `parts`.


class StoredEvents:
    """`event_list.Backing` for one session."""

    def __init__(self, store: Store, session_id: SessionId, journal: Journal, redactor: Redactor) -> None:
        self._store = store
        self._session_id = session_id
        self._journal = journal
        self._redactor = redactor

    @property
    def kept(self) -> int:
        """As in the protocol; what the writer has committed counts when the journal has heard of it."""
        return self._journal.kept

    def between(self, start: int, end: int) -> Sequence[Event]:
        """As in the protocol. Raises StoreError, also where the store has lost events."""
        try:
            found = list(presentable(self._redactor, self._store.load(self._session_id, start, end - start)))
        except SessionNotFoundError as error:  # somebody has deleted it by other means than this program
            raise StoreError(str(error)) from error
        if [event.seq for event in found] != list(range(start, end)):
            raise StoreError(
                f"events {start} to {end - 1} of session {self._session_id} are not in the store as they were;"
                " restore it from a copy"
            )
        return found


def presentable(redactor: Redactor, history: Iterable[Event]) -> Iterable[Event]:
    """The history as a model and a person may read it: it may be older than what is known to be secret.

    Of the timeline nothing changes, because what ran has to run again, and the store still has it.
    """
    if not redactor:
        return history
    return (redact_event(redactor, event) if isinstance(event, ConversationEvent) else event for event in history)
