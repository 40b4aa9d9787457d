"""Sessions with contents, for tests of deletion, export and import."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.execution import KeptGroup
from engine.core.ids import BlobDigest, EventId, ExecutionId, Seq, SessionId
from engine.log.events import Event
from engine.log.events.execution import EffectAnswered, ValuesDropped, ValuesKept
from engine.log.store_protocol import Store
from tests.support.stores import A, Recorder, message, row


def answered(seq: int, result: BlobDigest | None) -> Event:
    """An effect's answer at `seq`, whose content has the digest `result`."""
    return EffectAnswered(
        seq=Seq(seq),
        event_id=EventId(f"e{seq}"),
        execution_id=ExecutionId("x"),
        ordinal=0,
        operation="o",
        result=result,
    )


def kept(store: Store, session_id: SessionId = A, contents: Sequence[bytes] = ()) -> list[BlobDigest]:
    """A released session: a message, then one answer for each content. Returns the digests."""
    heard = Recorder()
    store.create(row(session_id))
    store.acquire(session_id, heard)
    store.submit(session_id, message(0))
    digests: list[BlobDigest] = []
    for seq, data in enumerate(contents, 1):
        digests.append(store.blob_put(data))
        store.submit(session_id, answered(seq, digests[-1]))
    heard.wait_for(len(contents))
    store.release(session_id)
    return digests


def is_there(store: Store, digest: BlobDigest) -> bool:
    try:
        store.blob_get(digest)
    except KeyError:
        return False
    return True


def values_kept(seq: int, *contents: BlobDigest | None) -> Event:
    """The event at `seq` that says that copies of values were kept, each of a name of its own."""
    groups = tuple(
        KeptGroup(names=(f"name_{number}",), content=content, size=1) for number, content in enumerate(contents)
    )
    return ValuesKept(seq=Seq(seq), event_id=EventId(f"e{seq}"), execution_id=ExecutionId(f"x{seq}"), groups=groups)


def dropped(seq: int, before: int) -> Event:
    """The event at `seq` whose commit drops the values that were kept before that position."""
    return ValuesDropped(
        seq=Seq(seq), event_id=EventId(f"e{seq}"), before=Seq(before), executions=1, copies=1, size=1, limit=1
    )
