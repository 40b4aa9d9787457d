"""Prepares what nodes want while statements run and models write: contents, outlines, indexes, summaries."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace as with_fields

from ..context.model import Model, ModelError, Prompt, TextDelta, TokensUsed
from ..core.clock import Clock
from ..core.encodings import decode
from ..core.errors import EngineError, StoreError
from ..core.ids import MessageId, Minter, ObjId, PayloadId
from ..files.disk import Disk
from ..files.manifest import Listed, is_glob, manifest_of, place_of
from ..files.outline import model as outlines
from ..files.outline.fallbacks import IndentationOutliner
from ..files.outline.model import TOP, Kind, Outline, Outliner, Symbol
from ..files.outlines import utf8
from ..files.overview import Declared, packed, ranked
from ..files.paging import is_page
from ..files.revision import Found, decoded, digest_of
from ..files.ticks import chosen
from ..log.event_log import EventLog
from ..log.events.conversation import UserMessage
from ..log.events.nodes import (
    AsyncPayloadDropped,
    AsyncPayloadPrepared,
    DropReason,
    PayloadBasis,
    PayloadCost,
    PayloadKind,
)
from ..log.facts import Payloads, payload_of
from ..log.redaction import Redactor
from ..log.statements import PAYLOAD_BYTES, UpdatePayload, Want
from ..log.store_protocol import Store
from ..runtime.worker.handles.trees import DirectFiles, DirectTrees
from .kept import Revisions
from .parts import SessionParts

# What those who prepare may use, and what they make of it. Plain values.


class Made(Struct, frozen=True, kw_only=True):
    """What a payload is to hold, a `diff` nothing, and what it cost a model.

    `mark` says what it was made from, besides the basis: the same is not made for the same wish twice.
    """

    payload_kind: PayloadKind
    data: bytes = b""
    mark: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """One session's.

    Args:
        disk: the files of the workspace; a path outside is refused there with an OSError, and found unreadable.
        seen: what looks have found, by path, without content.
        kept: the content of a revision that the log has, by xxh3 hex; None where it is not kept.
        model: the session's.
        calls_tools: whether it calls tools.
        allowance: how many tokens it may still spend on what is prepared.
        outliner: gives who makes outlines; None where nobody does.
    """

    disk: Disk
    kept: Callable[[str], bytes | None]
    redactor: Redactor
    model: Model
    calls_tools: bool
    allowance: Callable[[], int]
    outliner: Callable[[], Outliner] | None = None
    seen: dict[str, Found] = field(default_factory=dict[str, Found])


# content:
# The work "content": a file is read beside, and where it is not what its view shows, the tick gets what it holds.
#
# Only files of the workspace are read, because the wish comes from the process that runs statements, and this one may
# read more than that may. Of other files, and of contents that are too large for a payload or hold a secret, the tick
# is told that they differ, and looks itself. A read that hangs, because a file system is away, is left to itself when
# the session is closed.

_FILES: Final = ("text", "binary")
"""States of which a payload can hold the content."""
_NOT_READ: Final = ("unreadable", "too large")
"""States that say nothing of the content: the tick looks itself, which may show a part of a large file."""


async def content(want: Want, sources: Sources) -> Made | None:
    """The content of the file at `want.path` as a `render`, or that there is another as a `diff`."""
    if is_glob(want.path) or is_page(want.path):
        return None  # because no view is of one, and to list a tree for whoever asks is dear
    return await anyio.to_thread.run_sync(_made, want, sources, abandon_on_cancel=True)


def _made(want: Want, sources: Sources) -> Made | None:
    found = sources.disk.look(want.path, want.title, sources.seen.get(want.path))
    if found.revision.state in _NOT_READ:
        return Made(payload_kind="diff", mark=_stamp(want.path))
    if found.revision.mark == want.basis.obj_digest_hash:
        sources.seen[want.path] = _without_lines(found)
        return None
    if found.revision.state not in _FILES:
        return Made(payload_kind="diff", mark=found.revision.mark)
    if found.data is None:
        found = sources.disk.look(want.path, want.title, None)
    sources.seen[want.path] = _without_lines(found)
    data = found.data
    if data is None or len(data) > PAYLOAD_BYTES or sources.redactor.holds(data.decode("utf-8", "replace")):
        return Made(payload_kind="diff", mark=found.revision.mark)
    return Made(payload_kind="render", data=data, mark=found.revision.digest)


def _without_lines(found: Found) -> Found:
    """What the next look is compared with, without holding the file in memory."""
    return Found(replace(found.revision, lines=()), found.stamp)


def _stamp(path: str) -> str:
    """What changes with a file, wherever it is; empty where there is none, or it cannot be told."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_size} {found.st_ino}"


# index:
# The work "index": the files of a glob are outlined beside, and ranked by what refers to them, for an overview.
#
# Outlines are made where they are always made, in a process that may die of a text; this one reads and counts. Only
# files of the workspace are read, and none that holds a secret: its names would reach a model.

_MOST: Final = 1_500
"""Files that are outlined, at most; of more, those in the order of their paths."""
_LARGEST: Final = 128 << 10
"""Bytes of a file that is."""
_NO_CODE: Final[frozenset[Kind]] = frozenset({"heading", "key", "rule", "element"})


async def index(want: Want, sources: Sources) -> Made | None:
    """The overview of the files that the glob at `want.path` lists now; None where nobody makes outlines."""
    if sources.outliner is None:
        return None
    outliner = sources.outliner()
    root, _ = place_of(want.path)
    found = await anyio.to_thread.run_sync(sources.disk.look, want.path, want.title, None)
    manifest = manifest_of(found.revision)
    if manifest.digest != want.basis.obj_digest_hash:
        return None  # other files are there by now, and the next tick will wish for an overview of those
    declared: dict[str, Declared] = {}
    for path in _outlined(list(manifest.files.items())):
        # One by one, so that a session that closes waits for one file at most.
        one = await anyio.to_thread.run_sync(_declared, f"{root.rstrip('/')}/{path}", path, sources, outliner)
        if one is not None:
            declared[path] = one
    data = await anyio.to_thread.run_sync(lambda: packed(ranked(declared), PAYLOAD_BYTES))
    return Made(payload_kind="index", data=data, mark=manifest.digest)


def _outlined(files: Sequence[tuple[str, Listed]]) -> list[str]:
    return [path for path, listed in files if listed.size <= _LARGEST][:_MOST]


def _declared(path: str, title: str, sources: Sources, outliner: Outliner) -> Declared | None:
    found = sources.disk.look(path, title, None)
    revision = found.revision
    if revision.state != "text" or found.data is None:
        return None
    text = "\n".join(revision.lines) + "\n"
    if sources.redactor.holds(text):
        return None
    outline = outliner.outline(text.encode, digest=revision.digest, path=title, references=True)
    names = tuple(symbol.name for symbol in _outer(outline) if symbol.public)
    is_code = not any(symbol.kind in _NO_CODE for symbol in outline.symbols)
    return Declared(names=names, uses=outline.references, imports=outline.imports, is_code=is_code)


def _outer(outline: Outline) -> Iterator[Symbol]:
    """The symbols of the file itself, or of a namespace around them."""
    spaces = {TOP}
    for index, symbol in enumerate(outline.symbols):
        if symbol.parent in spaces:
            if symbol.kind == "module":
                spaces.add(index)
            else:
                yield symbol


# outline:
# The work "outline": a text that is too large to be outlined while a tick or a prompt waits is outlined beside.
#
# It is what the log has of the file, or where that was not kept, what the file holds, if that is still the same. Like
# all outlines it is made in a process that may die of it; that one may take its time here.


async def outline(want: Want, sources: Sources) -> Made | None:
    """The outline of the revision with the digest `want.detail["digest"]`; None where that is not to be had."""
    if is_glob(want.path):
        return None
    # Given up when the session is closed: a large text may take ten seconds.
    return await anyio.to_thread.run_sync(_outline_made, want, sources, abandon_on_cancel=True)


def _outline_made(want: Want, sources: Sources) -> Made | None:
    digest = str(want.detail.get("digest", ""))
    data = sources.kept(digest)
    if data is None:
        data = sources.disk.look(want.path, want.title, None).data
    if data is None or digest_of(data) != digest:
        return None
    revision = decoded(data)
    if revision.state != "text":
        return None
    outliner = IndentationOutliner() if sources.outliner is None else sources.outliner()
    made = outliner.outline(lambda: utf8(revision), digest=digest, path=want.path, patient=True)
    return Made(
        payload_kind="parse", data=outlines.packed(_without_secrets(made, sources.redactor), PAYLOAD_BYTES), mark=digest
    )


def _without_secrets(outline: Outline, redactor: Redactor) -> Outline:
    # Here, because a payload that holds one is dropped as a whole, and the view would wait for it in vain.
    redact = redactor.redact
    symbols = tuple(
        with_fields(
            symbol,
            name=redact(symbol.name),
            qualified=redact(symbol.qualified),
            signature=redact(symbol.signature),
            doc=redact(symbol.doc),
        )
        if redactor.holds(f"{symbol.qualified}\n{symbol.signature}\n{symbol.doc}")
        else symbol
        for symbol in outline.symbols
    )
    return with_fields(outline, symbols=symbols, doc=redact(outline.doc))


# summary:
# The work "summary": a model writes in a few lines what is in a text, where it can and its allowance lasts.
#
# Tokens are those that the provider counts. Where it counts none each byte is taken for one, because no token is
# less. For the same reason a text is cut to as many bytes as there are tokens left: only an answer can pass the
# allowance.

logger = logging.getLogger(__name__)
_LONGEST: Final = 60_000
"""Characters of a text that a model is given: its beginning."""
_LEAST: Final = 1_000
"""With fewer tokens left no summary is begun."""
_INSTRUCTIONS: Final = """\
You are given the text of one file. Say in at most 12 short lines, as a plain list, what it is responsible for, what it
offers by name, and what whoever changes it must keep true. No introduction, no quotation of code.
"""


async def summary(want: Want, sources: Sources) -> Made | None:
    """A summary of the revision with the digest `want.detail["digest"]`; None where no model may write one."""
    if not sources.model.summarizes or sources.allowance() < _LEAST:
        return None
    data = await anyio.to_thread.run_sync(sources.kept, str(want.detail.get("digest", "")))
    found = None if data is None else decode(data)
    if found is None:
        return None
    text = sources.redactor.redact(f"{want.title}\n\n{found.text[:_LONGEST]}")
    text = text.encode("utf-8", "replace")[: sources.allowance()].decode("utf-8", "ignore")
    try:
        return await _written(text, sources)
    except ModelError as error:
        logger.warning("the model could not sum up %s: %s", want.title, error)
        return None


async def _written(text: str, sources: Sources) -> Made | None:
    prompt = Prompt(
        instructions=_INSTRUCTIONS,
        messages=(UserMessage(message_id=MessageId("summary"), text=text),),
        tail="",
        statements=False,
        calls_tools=sources.calls_tools,
    )
    pieces: list[str] = []
    used: TokensUsed | None = None
    async with aclosing(sources.model.reply(prompt)) as signals:
        async for signal in signals:
            match signal:
                case TextDelta():
                    pieces.append(signal.text)
                case TokensUsed():
                    used = signal
                case _:
                    pass
    written = sources.redactor.redact("".join(pieces).strip())
    if not written:
        return None
    counted = 0 if used is None else used.input_tokens + used.output_tokens
    data = written.encode("utf-8", "replace")
    return Made(payload_kind="other", data=data, tokens=counted or len(text.encode()) + len(data))


# preparing:
# What can be prepared for nodes beside statements and ticks, a row for each work that a node may wish for.
#
# Adding one is a file and a row: a function from a wish and the sources to what a payload is to hold. Called by
# `session.preparer`, each row from a task of its own, so that one that waits for a model holds up no other.

Prepare = Callable[[Want, Sources], Awaitable[Made | None]]
"""What was prepared for a wish; None where there is nothing to say."""

PREPARERS: Final[Mapping[str, Prepare]] = {
    "content": content,
    "outline": outline,
    "summary": summary,
    "index": index,
}
"""By the name of the work, as wishes have it."""


# preparer:
# Prepares what nodes wish for while statements run and models write, and lends ticks what is ready.
#
# Owns when: after each tick, which says what the nodes wish for, and after each cue that files may have changed. Who
# can prepare what are the rows of `preparing`; each has a task of its own, so none waits for another, and none blocks
# the event loop. What is ready is on the log, its data as a blob, before any tick is given it: a re-run is given the
# same, and a session that is loaded again goes on with what waited. Nothing here changes a node; ticks do.
#
# Of each node and kind one payload waits, the newest, so a session that is idle for long collects none. But those
# that a tick has been lent are left to that tick, because it may be applying them. Must not know nodes. Made by
# `session_runtime`.

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
            allowance=lambda: parts.settings.summary_tokens - parts.facts.prepared_tokens,
            outliner=parts.outliner,
        ),
    )
