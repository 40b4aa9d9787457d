"""What a worker says, as the host may use it: decoded, checked, and without secrets.

A worker runs untrusted code and may have read any secret, so nothing that it sends is used before it was read here.
Only bytes arrive: frames, and what statements print. In the host `MessageReader` alone makes messages of the first, and
`Capture` alone makes text of the second. Both need a redactor and return redacted text, so no code behind them can
forget to redact. What must stay exact says so by the type of its field (`protocol`): arguments for tools, names,
digests, and contents, which are bytes, and which a store takes from a `Redactor` alone. Used by the connections.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..log.events import EVENTS, UNSTAMPED, Event
from ..log.events.codec import UndecodableEventError
from ..log.events.codec import decode as decode_event
from ..log.redaction import Redactor, redact_event, redact_struct
from .worker.framing import ProtocolError, decode, decoder_of
from .worker.protocol import FromCheckpoint, FromWorker

WORKER_EVENTS: Final = tuple(kind for kind in EVENTS if kind.from_worker)
"""The only kinds of event that a worker may report."""
_FROM_WORKER: Final = decoder_of(FromWorker)
_FROM_CHECKPOINT: Final = decoder_of(FromCheckpoint)


class MessageReader:
    """Reads what the workers of one session send. Every method raises ProtocolError for what a worker must not send."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def message(self, body: bytes) -> FromWorker:
        """A message of a worker, from the body of a frame."""
        return self._decoded(_FROM_WORKER, body)

    def checkpoint_message(self, body: bytes) -> FromCheckpoint:
        """The same for a checkpoint."""
        return self._decoded(_FROM_CHECKPOINT, body)

    def events(self, packed: tuple[bytes, ...]) -> tuple[Event, ...]:
        """The events that `framing.pack_events` packed."""
        return tuple(map(self._event, packed))

    def _decoded(self, decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Any:
        try:
            return redact_struct(self.redactor, decode(decoder, body))
        except ProtocolError as error:  # it may quote what was sent
            raise ProtocolError(self.redactor.redact(str(error))) from None

    def _event(self, data: bytes) -> Event:
        try:
            event = decode_event(data)
        except (UndecodableEventError, ValueError, RecursionError) as error:
            raise ProtocolError(f"undecodable event: {self.redactor.redact(str(error))}") from None
        if not isinstance(event, WORKER_EVENTS) or event.seq != UNSTAMPED:
            raise ProtocolError(f"a worker must not report {event.kind} with seq {event.seq}")
        return redact_event(self.redactor, event)
