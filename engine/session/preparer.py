"""Prepares what nodes wish for while statements run and models write, and lends ticks what is ready.

Owns when: after each tick, which says what the nodes wish for, and after each cue that files may have changed. Who can
prepare what are the rows of `preparing`; each has a task of its own, so none waits for another, and none blocks the
event loop. What is ready is on the log, its data as a blob, before any tick is given it: a re-run is given the same,
and a session that is loaded again goes on with what waited. Nothing here changes a node; ticks do.

Of each node and kind one payload waits, the newest, so a session that is idle for long collects none. But those that a
tick has been lent are left to that tick, because it may be applying them. Must not know nodes. Made by `turns`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct

from ..context.model import Model
from ..core.clock import Clock
from ..core.errors import EngineError, StoreError
from ..core.ids import Minter, ObjId, PayloadId
from ..files.disk import Disk
from ..files.revision import digest_of
from ..files.ticks import chosen
from ..log.event_log import EventLog
from ..log.events.nodes import AsyncPayloadDropped, AsyncPayloadPrepared, DropReason, PayloadBasis, PayloadCost
from ..log.rebuild_plan import Payloads, PreparedTokens, payload_of
from ..log.statements import PAYLOAD_BYTES, UpdatePayload, Want
from ..log.store_protocol import Store
from ..runtime.worker.handles.files import DirectFiles
from ..runtime.worker.handles.trees import DirectTrees
from .kept.revisions import Revisions
from .parts import SessionParts
from .preparing import PREPARERS, Made, Prepare, Sources

logger = logging.getLogger(__name__)
_REMEMBERED: Final = 10_000
"""Wishes of which it is remembered what was made for them."""


class _Done(Struct, frozen=True):
    """What was made for a wish."""

    basis: PayloadBasis
    mark: str


class Preparer:
    """One session's. `payloads` follows its log."""

    def __init__(
        self,
        *,
        log: EventLog,
        store: Store,
        payloads: Payloads,
        minter: Minter,
        clock: Clock,
        sources: Sources,
        rows: Mapping[str, Prepare] = PREPARERS,
    ) -> None:
        self._log = log
        self._store = store
        self._payloads = payloads
        self._minter = minter
        self._clock = clock
        self._sources = sources
        self._rows = rows
        self._wants: Sequence[Want] = ()
        self._done: dict[tuple[ObjId, str], _Done] = {}
        self._lent: frozenset[PayloadId] = frozenset()
        self._cues = dict.fromkeys(rows, 0)
        self._changed = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._is_closing = False
        self._ended = anyio.Event()

    # --- what asks ----------------------------------------------------------------------------------------------------

    def want(self, wants: Sequence[Want]) -> None:
        """After a tick: all that nodes wish for now."""
        self._wants = wants
        self.cue()

    def cue(self) -> None:
        """Something may have changed: what is wished for is looked at again. Takes no time, and may be called often."""
        if self._wants:
            self._cues = {work: number + 1 for work, number in self._cues.items()}
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    def forget(self) -> None:
        """The head has moved: other nodes go by these ids from now on, which say after a tick what they wish for."""
        self._wants = ()
        self._done.clear()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[tuple[UpdatePayload, ...]]:
        """What the next tick is to be given; its events are to be on the log before this ends."""
        waiting, _ = chosen(self._payloads.waiting)
        self._lent = frozenset(payload.payload_id for payload in waiting)
        try:
            yield tuple([payload for each in waiting if (payload := await self._loaded(each)) is not None])
        finally:
            self._lent = frozenset()

    async def _loaded(self, event: AsyncPayloadPrepared) -> UpdatePayload | None:
        if event.data is None:
            return payload_of(event)
        try:
            return payload_of(event, await anyio.to_thread.run_sync(self._store.blob_get, event.data))
        except (KeyError, StoreError):
            self._drop(event, "unusable")
            return None

    # --- what prepares ------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Prepares until `close`. Whatever fails, no other task of the process is harmed."""
        if self._is_closing:
            return
        try:
            with anyio.CancelScope() as self._scope:
                async with anyio.create_task_group() as tasks:
                    for work, row in self._rows.items():
                        tasks.start_soon(self._serve_row, work, row)
        finally:
            self._ended.set()

    async def close(self) -> None:
        """Gives up what is being prepared, and returns when nothing is any more."""
        self._is_closing = True
        if self._scope is not None:
            self._scope.cancel()
            await self._ended.wait()

    async def _serve_row(self, work: str, row: Prepare) -> None:
        seen = 0
        while True:
            while self._cues[work] == seen:
                await self._changed.wait()
            seen = self._cues[work]
            for want in [each for each in self._wants if each.work == work]:
                await self._prepare(want, row)

    async def _prepare(self, want: Want, row: Prepare) -> None:
        started = time.perf_counter_ns()
        try:
            made = await row(want, self._sources)
            if made is not None and not made.tokens and want not in self._wants:
                return  # a tick has come meanwhile, or another branch; tokens of a model are counted on the log
            done = None if made is None else _Done(want.basis, made.mark)
            if made is None or self._done.get((want.obj_id, want.work)) == done:
                return
            self._remember(want, done)
            self._take(want, made, (time.perf_counter_ns() - started) / 1e6)
        except EngineError as error:
            # The log takes nothing any more, of which the session's user hears elsewhere.
            logger.warning("%s of %s could not be kept: %s", want.work, want.obj_id, error)
        except Exception:
            logger.exception("preparing %s of %s failed", want.work, want.obj_id)

    def _remember(self, want: Want, done: _Done | None) -> None:
        if done is not None:
            self._done[want.obj_id, want.work] = done
        while len(self._done) > _REMEMBERED:
            self._done.pop(next(iter(self._done)))

    def _take(self, want: Want, made: Made, time_ms: float) -> None:
        """Puts what was made on the log, and gives up what it supersedes."""
        reason: DropReason | None = None
        storable = self._sources.redactor.storable(made.data)
        if len(made.data) > PAYLOAD_BYTES:
            reason = "too large"
        elif storable is None:
            reason = "secret"
        older = [
            each
            for each in self._payloads.waiting
            if (each.obj_id, each.payload_kind) == (want.obj_id, made.payload_kind)
            and each.payload_id not in self._lent
        ]
        prepared = AsyncPayloadPrepared(
            payload_id=self._minter.payload(),
            obj_id=want.obj_id,
            prepared_at=self._clock.now(),
            payload_kind=made.payload_kind,
            basis=want.basis,
            payload_hash=digest_of(made.data),
            data=None if made.payload_kind == "diff" or storable is None or reason else self._store.blob_put(storable),
            cost=PayloadCost(time_ms=time_ms, bytes=len(made.data), tokens=made.tokens),
        )
        self._log.append(prepared)
        if reason is not None:
            self._drop(prepared, reason)
            return
        for each in older:
            self._drop(each, "superseded")

    def _drop(self, event: AsyncPayloadPrepared, reason: DropReason) -> None:
        self._log.append(
            AsyncPayloadDropped(
                payload_id=event.payload_id, obj_id=event.obj_id, payload_kind=event.payload_kind, reason=reason
            )
        )


def preparer_of(parts: SessionParts, roots: tuple[str, ...], revisions: Revisions, model: Model) -> Preparer:
    """The preparer of a session: reading within its roots, and with what is left of its tokens."""
    payloads = Payloads()
    parts.log.follow_path(payloads, Payloads.FOLLOWS)
    tokens = PreparedTokens()
    parts.log.follow(tokens.apply, PreparedTokens.FOLLOWS)
    now = parts.clock.now
    return Preparer(
        log=parts.log,
        store=parts.store,
        payloads=payloads,
        minter=parts.minter,
        clock=parts.clock,
        sources=Sources(
            disk=Disk(DirectFiles(roots), DirectTrees(now), now),
            kept=revisions.content,
            redactor=parts.redactor,
            model=model,
            calls_tools=parts.settings.calls_tools,
            allowance=lambda: parts.settings.summary_tokens - tokens.taken,
            outliner=parts.outliner,
        ),
    )
