"""Prepare what nodes wish for while statements run and models write, and lend it to ticks.

A tick reports the nodes' wishes. PREPARERS has a row for each kind of work: a function from a wish and the `Sources` to
what a payload contains. To add one, write a function and a row. `Preparer` runs each row in a task of its own, so one
that waits for a model delays no other, and none blocks the event loop. Made by `session_runtime`.
"""

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

from ..context.model import ModelError, Prompt, TextDelta, TokensUsed
from ..core.clock import Clock
from ..core.encodings import decode
from ..core.errors import EngineError, StoreError
from ..core.ids import MessageId, Minter, ObjId, PayloadId
from ..core.text import whole_words_before_cut
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
from .model_choice import ModelChoice
from .parts import SessionParts
from .saved_state import Revisions


class Prepared(Struct, frozen=True, kw_only=True):
    """The contents of a payload (a `diff` has none), and its cost in tokens.

    `mark` says what it was made from, besides the basis. A result with the same mark is not recorded twice for one
    wish.
    """

    payload_kind: PayloadKind
    data: bytes = b""
    mark: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the work of one session may use.

    Args:
        disk: the files of the workspace. Paths outside of it raise OSError there, and count as unreadable.
        kept: returns the content of a revision by its xxh3 hex; None if it is not stored.
        model: the session's.
        allowance: the tokens that it may still spend on preparing.
        outliner: returns what makes outlines; None if nothing does.
        seen: earlier looks, by path, without content.
    """

    disk: Disk
    kept: Callable[[str], bytes | None]
    redactor: Redactor
    model: ModelChoice
    allowance: Callable[[], int]
    outliner: Callable[[], Outliner] | None = None
    seen: dict[str, Found] = field(default_factory=dict[str, Found])


# --- content ----------------------------------------------------------------------------------------------------------

_FILES: Final = ("text", "binary")
"""States in which a payload can contain the content."""
_NOT_READ: Final = ("unreadable", "too large")
"""States that say nothing about the content. The tick looks itself, and may show a part of a large file."""


async def content(want: Want, sources: Sources) -> Prepared | None:
    """Read a file ahead: its content as a `render`, or a `diff` if it only changed.

    Only files of the workspace are read, because the wish comes from the process of statements, and the host may read
    more. For other files, and for contents that are too large or contain a secret, the tick only learns that they
    changed, and looks itself. A read that hangs, because a file system is away, is abandoned when the session closes.
    """
    if is_glob(want.path) or is_page(want.path):
        return None  # because no view shows one, and listing a tree is slow
    return await anyio.to_thread.run_sync(_made, want, sources, abandon_on_cancel=True)


def _made(want: Want, sources: Sources) -> Prepared | None:
    found = sources.disk.look(want.path, want.title, sources.seen.get(want.path))
    if found.revision.state in _NOT_READ:
        return Prepared(payload_kind="diff", mark=_stamp(want.path))
    if found.revision.mark == want.basis.obj_digest_hash:
        sources.seen[want.path] = _without_lines(found)
        return None
    if found.revision.state not in _FILES:
        return Prepared(payload_kind="diff", mark=found.revision.mark)
    if found.data is None:
        found = sources.disk.look(want.path, want.title, None)
    sources.seen[want.path] = _without_lines(found)
    data = found.data
    if data is None or len(data) > PAYLOAD_BYTES or sources.redactor.holds(data.decode("utf-8", "replace")):
        return Prepared(payload_kind="diff", mark=found.revision.mark)
    return Prepared(payload_kind="render", data=data, mark=found.revision.digest)


def _without_lines(found: Found) -> Found:
    """Return what the next look compares with, without the file's lines."""
    return Found(replace(found.revision, lines=()), found.stamp)


def _stamp(path: str) -> str:
    """Return a text that changes with the file; empty if it does not exist or is unreadable."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_size} {found.st_ino}"


# --- index ------------------------------------------------------------------------------------------------------------

_MOST: Final = 1_500
"""The most files to outline, in the order of their paths."""
_LARGEST: Final = 128 << 10
"""The largest file to outline, in bytes."""
_NO_CODE: Final[frozenset[Kind]] = frozenset({"heading", "key", "rule", "element"})


async def index(want: Want, sources: Sources) -> Prepared | None:
    """Make the overview of the files that a glob lists; None without an outliner.

    The files are outlined, and ranked by the references to them. The outliner's process may die of a text; this one
    only reads and counts. Files outside of the workspace, and files with a secret, are skipped: their names would reach
    a model.
    """
    if sources.outliner is None:
        return None
    outliner = sources.outliner()
    root, _ = place_of(want.path)
    found = await anyio.to_thread.run_sync(sources.disk.look, want.path, want.title, None)
    manifest = manifest_of(found.revision)
    if manifest.digest != want.basis.obj_digest_hash:
        return None  # the files have changed, and the next tick will wish for an overview of the new ones
    declared: dict[str, Declared] = {}
    for path in _outlined(list(manifest.files.items())):
        # One by one, so that closing the session waits for one file at most.
        one = await anyio.to_thread.run_sync(_declared, f"{root.rstrip('/')}/{path}", path, sources, outliner)
        if one is not None:
            declared[path] = one
    data = await anyio.to_thread.run_sync(lambda: packed(ranked(declared), PAYLOAD_BYTES))
    return Prepared(payload_kind="index", data=data, mark=manifest.digest)


def _outlined(files: Sequence[tuple[str, Listed]]) -> list[str]:
    return [path for path, listed in files if listed.size <= _LARGEST][:_MOST]


def _declared(path: str, title: str, sources: Sources, outliner: Outliner) -> Declared | None:
    found = sources.disk.look(path, title, None)
    revision = found.revision
    if revision.state != "text" or found.data is None:
        return None
    text = "\n".join(revision.lines) + "\n"
    outline = outliner.outline(text.encode, digest=revision.digest, path=title, references=True)
    names = tuple(symbol.name for symbol in _outer(outline) if symbol.public)
    is_code = not any(symbol.kind in _NO_CODE for symbol in outline.symbols)
    return Declared(names=names, uses=outline.references, imports=outline.imports, is_code=is_code)


def _outer(outline: Outline) -> Iterator[Symbol]:
    """Yield the symbols of the file itself, or of a namespace around them."""
    spaces = {TOP}
    for index, symbol in enumerate(outline.symbols):
        if symbol.parent in spaces:
            if symbol.kind == "module":
                spaces.add(index)
            else:
                yield symbol


# --- outline ----------------------------------------------------------------------------------------------------------


async def outline(want: Want, sources: Sources) -> Prepared | None:
    """Outline a text that is too large to outline during a tick.

    The text is the revision with the digest `want.detail["digest"]`: from the log, or from the file if that is
    unchanged. Returns None if it is not available. The outliner's process may take its time here.
    """
    if is_glob(want.path):
        return None
    # Abandoned when the session closes: a large text may take ten seconds.
    return await anyio.to_thread.run_sync(_outline_made, want, sources, abandon_on_cancel=True)


def _outline_made(want: Want, sources: Sources) -> Prepared | None:
    digest = str(want.detail.get("digest", ""))
    data = sources.kept(digest)
    if data is None:
        data = sources.disk.look(want.path, want.title, None).data
    if data is None or digest_of(data) != digest:
        return None
    revision = decoded(data, sources.redactor.hidden_lines)
    if revision.state != "text":
        return None
    outliner = IndentationOutliner() if sources.outliner is None else sources.outliner()
    made = outliner.outline(lambda: utf8(revision), digest=digest, path=want.path, patient=True)
    return Prepared(payload_kind="parse", data=outlines.packed(made, PAYLOAD_BYTES), mark=digest)


# --- summary ----------------------------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)
_LONGEST: Final = 60_000
"""Characters of a text that a model gets, from its beginning."""
_LEAST: Final = 1_000
"""With fewer tokens left, no summary is started."""
_INSTRUCTIONS: Final = (
    "You get the text of one file. Summarize it in at most 12 short lines, as a plain list: its purpose, "
    "its public names,\nand the invariants that every change must keep. No introduction, no quoted code.\n"
)


async def summary(want: Want, sources: Sources) -> Prepared | None:
    """Let the model summarize the revision with the digest `want.detail["digest"]`.

    Returns None if the model cannot, or the allowance is used up. Tokens are the provider's count. If it does not
    count, each byte counts as one, because no token is less. So the text is cut to as many bytes as tokens are left:
    only an answer can exceed the allowance.
    """
    if not sources.model.summarizes or sources.allowance() < _LEAST:
        return None
    data = await anyio.to_thread.run_sync(sources.kept, str(want.detail.get("digest", "")))
    found = None if data is None else decode(data)
    if found is None:
        return None
    kept = found.text if len(found.text) <= _LONGEST else whole_words_before_cut(found.text[:_LONGEST])
    text = sources.redactor.redact(f"{want.title}\n\n{kept}")
    text = text.encode("utf-8", "replace")[: sources.allowance()].decode("utf-8", "ignore")
    try:
        return await _written(text, sources)
    except ModelError as error:
        logger.warning("the model could not summarize %s: %s", want.title, error)
        return None


async def _written(text: str, sources: Sources) -> Prepared | None:
    prompt = Prompt(
        instructions=_INSTRUCTIONS,
        messages=(UserMessage(message_id=MessageId("summary"), text=text),),
        tail="",
        statements=False,
        calls_tools=sources.model.calls_tools,
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
    return Prepared(payload_kind="other", data=data, tokens=counted or len(text.encode()) + len(data))


# --- the table, and the tasks -----------------------------------------------------------------------------------------

Prepare = Callable[[Want, Sources], Awaitable[Prepared | None]]
"""Prepares the answer to a wish; None if there is nothing to say."""

PREPARERS: Final[Mapping[str, Prepare]] = {
    "content": content,
    "outline": outline,
    "summary": summary,
    "index": index,
}
"""By the name of the work in wishes."""


_REMEMBERED: Final = 10_000
"""Wishes whose results are remembered."""


class _Done(Struct, frozen=True):
    """The result for a wish."""

    basis: PayloadBasis
    mark: str


class Preparer:
    """Prepare the wishes of one session. `payloads` follows its log.

    It decides when: after each tick, which reports all wishes, and after each hint that files may have changed. A
    result is on the log, and its data in a blob, before a tick gets it. So a rerun gets the same, and a loaded session
    goes on with what waits. Nothing here changes a node; only ticks do.

    For each node and kind only the newest payload waits, so payloads do not pile up in an idle session. A payload that
    is lent to a tick stays, because the tick may be applying it. Must not know nodes.
    """

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

    # --- wishes and payloads ------------------------------------------------------------------------------------------

    def want(self, wants: Sequence[Want]) -> None:
        """Set the nodes' current wishes, after a tick."""
        self._wants = wants
        self.notify_change()

    def notify_change(self) -> None:
        """Look at the wishes again: something may have changed. Cheap; may be called often."""
        if self._wants:
            self._cues = {work: number + 1 for work, number in self._cues.items()}
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    def forget(self) -> None:
        """Forget all wishes: the head moved, so these ids mean other nodes now."""
        self._wants = ()
        self._done.clear()

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[tuple[UpdatePayload, ...]]:
        """Lend the next tick its payloads, or a statement, which may call ticks.

        Its events must be on the log before the block ends.
        """
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

    # --- work ---------------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Prepare until `close`. A failure does not affect other tasks."""
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
        """Give up the current work, and wait until it has ended."""
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
                return  # the wish is outdated; but tokens of a model must be counted on the log
            done = None if made is None else _Done(want.basis, made.mark)
            if made is None or self._done.get((want.obj_id, want.work)) == done:
                return
            self._remember(want, done)
            self._take(want, made, (time.perf_counter_ns() - started) / 1e6)
        except EngineError as error:
            # The log takes no more events. The user learns that elsewhere.
            logger.warning("%s of %s could not be saved: %s", want.work, want.obj_id, error)
        except Exception:
            logger.exception("preparing %s of %s failed", want.work, want.obj_id)

    def _remember(self, want: Want, done: _Done | None) -> None:
        if done is not None:
            self._done[want.obj_id, want.work] = done
        while len(self._done) > _REMEMBERED:
            self._done.pop(next(iter(self._done)))

    def _take(self, want: Want, made: Prepared, time_ms: float) -> None:
        """Put the result on the log, and drop what it supersedes."""
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


def preparer_of(parts: SessionParts, roots: tuple[str, ...], revisions: Revisions) -> Preparer:
    """Make the preparer of a session, within its roots and its token allowance."""
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
            disk=Disk(DirectFiles(roots), DirectTrees(now), now, parts.redactor.hidden_lines),
            kept=revisions.content,
            redactor=parts.redactor,
            model=parts.model,
            allowance=lambda: parts.settings.summary_tokens - parts.facts.prepared_tokens,
            outliner=parts.outliner,
        ),
    )
