"""Makes a session's events durable and publishes them, in order, together with ephemeral signals.

Owns the rule that nothing a client sees because of an event leaves before that event is durable. Stands between
`EventLog`, which hands every event on, and the store's writer thread. Subscribers are the adapters' pumps. Must not
know what events mean, but for which one ends a stream of signals.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from msgspec.structs import replace

from ...core.errors import SessionReadOnlyError, StoreBusyError, StoreError
from ...core.ids import Seq, SessionId
from ...log.events import Event
from ...log.events.conversation import AgentReasoning, AgentText
from ...log.events.execution import CommandEnded, ExecutionFinished
from ...log.events.session import ProjectionSent
from ...log.redaction import NO_SECRETS, Redactor
from ...log.store_protocol import Store
from .signals import FilesPutBack, Item, ModelRetried, OutputStreamed, Signal, StatementRerun, Stream
from .subscription import Subscription

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
