"""What nodes wish for: each work alone, and what a session prepares, applies and keeps of it."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from engine import Session, Store
from engine.context.model import ModelError, ModelSignal, Prompt, TextDelta, TokensUsed
from engine.core.ids import Minter, ObjId, SessionId
from engine.files.disk import Disk
from engine.files.manifest import glob_path
from engine.files.outline.fallbacks import IndentationOutliner
from engine.files.outline.model import unpacked
from engine.files.paging import page_path
from engine.files.revision import LARGEST, digest_of, show_all
from engine.files.sources import FileStamp
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.nodes import (
    AsyncPayloadApplied,
    AsyncPayloadDropped,
    AsyncPayloadPrepared,
    PayloadBasis,
    RevisionAdopted,
)
from engine.log.facts import Payloads
from engine.log.redaction import Redactor
from engine.log.statements import PAYLOAD_BYTES, Want
from engine.log.store.memory import MemoryStore
from engine.runtime.worker.handles.trees import DirectFiles, DirectTrees
from engine.session.preparing import Prepare, Prepared, Preparer, Sources, content, outline, summary
from tests.support.fixed import CountingEntropy, FixedClock
from tests.support.models import Answer, AnsweringModel, says
from tests.support.sessions import events_of, in_process, session_in, sessions_of
from tests.support.workers import PATIENCE

E = TypeVar("E", bound=Event)
pytestmark = pytest.mark.anyio
SECRET = "s3cret-of-ours"
WANT = Want(
    obj_id=ObjId("view-1.1"),
    work="summary",
    payload_kind="other",
    basis=PayloadBasis(obj_digest_hash="00"),
    title="a.py",
    detail={"digest": "aa"},
)


def sources(tmp_path: Path, answer: Answer | None = None, allowance: int = 10_000, data: bytes = b"x = 1\n") -> Sources:
    return Sources(
        disk=Disk(DirectFiles((str(tmp_path),)), DirectTrees(lambda: 0.0), lambda: 0.0, show_all),
        kept=lambda digest: data if digest == "aa" else None,
        redactor=Redactor([SECRET]),
        model=AnsweringModel(says("never"), answer),
        allowance=lambda: allowance,
    )


@asynccontextmanager
async def preparing(tmp_path: Path, rows: Mapping[str, Prepare]) -> AsyncIterator[tuple[Preparer, EventLog, Payloads]]:
    clock = FixedClock()
    payloads = Payloads()
    log = EventLog(clock, lambda _: None, folds=(payloads.apply,))
    preparer = Preparer(
        log=log,
        store=MemoryStore(clock),
        payloads=payloads,
        minter=Minter(clock, CountingEntropy()),
        clock=clock,
        sources=sources(tmp_path),
        rows=rows,
    )
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(preparer.serve)
            yield preparer, log, payloads
            await preparer.close()


def of(log: EventLog, kind: type[E]) -> list[E]:
    return [event for event in log.events if isinstance(event, kind)]


@pytest.mark.parametrize("tokens", [0, 5])
async def test_unwanted_payload_is_kept_only_if_it_cost_tokens(tmp_path: Path, tokens: int) -> None:
    begun, go, done = anyio.Event(), anyio.Event(), anyio.Event()
    later = replace(WANT, basis=PayloadBasis(obj_digest_hash="11"))

    async def slow(want: Want, _: Sources) -> Prepared | None:
        if want == WANT:
            begun.set()
            await go.wait()
        return Prepared(payload_kind="other", data=b"x", mark="m", tokens=tokens)

    def hear(event: Event) -> None:
        if isinstance(event, AsyncPayloadPrepared) and event.basis == later.basis:
            done.set()

    async with preparing(tmp_path, {"summary": slow}) as (preparer, log, _):
        log.follow(hear, (AsyncPayloadPrepared,))
        preparer.want([WANT])
        await begun.wait()
        preparer.want([later])
        go.set()
        await done.wait()
    kept = [event.basis for event in of(log, AsyncPayloadPrepared)]
    assert kept == ([WANT.basis] if tokens else []) + [later.basis]


async def test_request_lists_no_tree_and_reads_no_page(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    for path in (glob_path(str(tmp_path), "*.py"), page_path(str(tmp_path / "a.py"), 0, 6, 1)):
        assert await content(replace(WANT, work="content", path=path), sources(tmp_path)) is None


async def test_large_file_is_marked_changed_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.write(b"a line\n")
        file.truncate(LARGEST + 1)
    want = replace(WANT, work="content", path=str(tmp_path / "large"))
    made = await content(want, sources(tmp_path))
    assert made is not None
    assert (made.payload_kind, made.data) == ("diff", b"")
    again = await content(want, sources(tmp_path))
    assert again is not None
    assert again.mark == made.mark
    os.utime(tmp_path / "large", (1, 1))
    changed = await content(want, sources(tmp_path))
    assert changed is not None
    assert changed.mark != made.mark


def _outlined(tmp_path: Path, data: bytes = b"x = 1\n") -> Sources:
    return dataclasses.replace(sources(tmp_path, data=data), outliner=IndentationOutliner)


async def test_large_text_is_outlined_from_log_or_unchanged_file(tmp_path: Path) -> None:
    text = b"class A:\n    x = 1\n"
    path = tmp_path / "a.py"
    path.write_bytes(text)
    want = replace(WANT, work="outline", payload_kind="parse", path=str(path))
    of_file = replace(want, detail={"digest": digest_of(text)})
    made = await outline(of_file, _outlined(tmp_path))
    assert made is not None
    assert (made.payload_kind, [symbol.name for symbol in unpacked(made.data).symbols]) == ("parse", ["A"])
    path.write_bytes(b"other\n")
    assert await outline(of_file, _outlined(tmp_path)) is None
    of_log = replace(want, detail={"digest": digest_of(b"def f(): pass\n")})
    kept = dataclasses.replace(_outlined(tmp_path), kept=lambda _: b"def f(): pass\n")
    made = await outline(of_log, kept)
    assert made is not None
    assert [symbol.name for symbol in unpacked(made.data).symbols] == ["f"]
    assert await outline(of_log, dataclasses.replace(kept, outliner=None)) == made
    assert await outline(replace(of_log, path=glob_path(str(tmp_path), "*.py")), kept) is None
    assert await outline(replace(want, detail={"digest": digest_of(b"\0\xff")}), _outlined(tmp_path)) is None


async def test_an_outline_holds_no_secret(tmp_path: Path) -> None:
    text = f"def f(key='{SECRET}'):\n    pass\n".encode()
    want = replace(WANT, work="outline", path=str(tmp_path / "a.py"), detail={"digest": digest_of(text)})
    made = await outline(want, dataclasses.replace(_outlined(tmp_path), kept=lambda _: text))
    assert made is not None
    assert SECRET not in made.data.decode()
    assert unpacked(made.data).symbols[0].signature.startswith("def f(key='")


async def test_model_summarizes_logged_content_without_secrets(tmp_path: Path) -> None:
    asked: list[Prompt] = []

    def answer(prompt: Prompt) -> list[ModelSignal]:
        asked.append(prompt)
        return [TextDelta(f"It sets x, not {SECRET}."), TokensUsed(120, 9)]

    made = await summary(WANT, sources(tmp_path, answer, data=f"x = '{SECRET}'\n".encode()))
    assert made is not None
    assert (made.payload_kind, made.tokens) == ("other", 129)
    assert made.data.startswith(b"It sets x, not ")
    assert SECRET not in made.data.decode()
    assert SECRET not in str(asked[0])
    assert not asked[0].statements


async def test_summary_needs_a_model_tokens_and_text(tmp_path: Path) -> None:
    assert await summary(WANT, sources(tmp_path)) is None
    assert await summary(WANT, sources(tmp_path, says("Yes."), allowance=999)) is None
    assert await summary(WANT, sources(tmp_path, says("Yes."), data=b"\x00\xff\x00")) is None
    assert await summary(WANT, sources(tmp_path, says(" "))) is None


async def test_text_is_cut_to_its_allowance_and_counted_in_bytes(tmp_path: Path) -> None:
    asked: list[Prompt] = []

    def answer(prompt: Prompt) -> list[ModelSignal]:
        asked.append(prompt)
        return [TextDelta("Yes.")]

    made = await summary(WANT, sources(tmp_path, answer, allowance=2_000, data="漢\n".encode() * 5_000))
    assert made is not None
    assert made.tokens <= 2_000 + len("Yes.")
    assert len(str(getattr(asked[0].messages[0], "text", "")).encode()) <= 2_000


async def test_a_model_that_fails_leaves_the_view_without_a_summary(tmp_path: Path) -> None:
    def answer(_: Prompt) -> list[ModelSignal]:
        raise ModelError("overloaded")

    assert await summary(WANT, sources(tmp_path, answer)) is None


async def test_failing_or_waiting_work_blocks_no_other(tmp_path: Path) -> None:
    reached, done = anyio.Event(), anyio.Event()

    async def fails(_want: Want, _sources: Sources) -> Prepared | None:
        raise RuntimeError("a defect")

    async def waits(_want: Want, _sources: Sources) -> Prepared | None:
        reached.set()
        await anyio.sleep_forever()

    async def makes(_want: Want, _sources: Sources) -> Prepared | None:
        done.set()
        return Prepared(payload_kind="other", data=b"done")

    rows: dict[str, Prepare] = {"fails": fails, "waits": waits, "makes": makes}
    async with preparing(tmp_path, rows) as (preparer, log, payloads):
        preparer.want([_for(work) for work in rows])
        await reached.wait()
        await done.wait()
        preparer.notify_change()
        await anyio.wait_all_tasks_blocked()
        assert [event.payload_kind for event in of(log, AsyncPayloadPrepared)] == ["other"]
        assert len(payloads.waiting) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"x" * (PAYLOAD_BYTES + 1), "too large"), (SECRET.encode(), "secret")],
    ids=["large", "secret"],
)
async def test_oversized_or_secret_payload_is_dropped(tmp_path: Path, data: bytes, reason: str) -> None:
    async def makes(_want: Want, _sources: Sources) -> Prepared | None:
        return Prepared(payload_kind="index", data=data)

    async with preparing(tmp_path, {"makes": makes}) as (preparer, log, payloads):
        preparer.want([_for("makes")])
        await anyio.wait_all_tasks_blocked()
        (prepared,) = of(log, AsyncPayloadPrepared)
        assert prepared.data is None
        assert [event.reason for event in of(log, AsyncPayloadDropped)] == [reason]
        assert payloads.waiting == ()


class _Hung(DirectFiles):
    """Files of a system that does not answer before the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.gate = threading.Event(), threading.Event()

    def stamp(self, path: str) -> FileStamp:
        self.reached.set()
        self.gate.wait(PATIENCE)
        return super().stamp(path)


async def test_hanging_file_system_does_not_block_the_end(tmp_path: Path) -> None:
    files = _Hung()
    disk = Disk(files, DirectTrees(lambda: 0.0), lambda: 0.0, show_all)

    async def reads(want: Want, given: Sources) -> Prepared | None:
        return await content(want, dataclasses.replace(given, disk=disk))

    async with preparing(tmp_path, {"content": reads}) as (preparer, log, _):
        preparer.want([replace(WANT, work="content", path=str(tmp_path / "a.py"))])
        await anyio.to_thread.run_sync(files.reached.wait, PATIENCE)
        await preparer.close()
        assert of(log, AsyncPayloadPrepared) == []
    files.gate.set()


async def test_payload_lent_to_a_tick_stays_until_its_end(tmp_path: Path) -> None:
    marks = iter("abc")

    async def makes(_want: Want, _sources: Sources) -> Prepared | None:
        mark = next(marks)
        return Prepared(payload_kind="index", data=mark.encode(), mark=mark)

    async with preparing(tmp_path, {"makes": makes}) as (preparer, log, payloads):
        preparer.want([_for("makes")])
        await anyio.wait_all_tasks_blocked()
        async with preparer.lend() as lent:
            preparer.notify_change()
            await anyio.wait_all_tasks_blocked()
            assert [payload.data for payload in lent] == [b"a"]
            assert of(log, AsyncPayloadDropped) == []
        preparer.notify_change()
        await anyio.wait_all_tasks_blocked()
        assert [event.reason for event in of(log, AsyncPayloadDropped)] == ["superseded"] * 2
        assert len(payloads.waiting) == 1


def _for(work: str) -> Want:
    return Want(obj_id=ObjId("view-1.1"), work=work, payload_kind="index", basis=PayloadBasis())


SECRET = "s3cret-of-ours"


@pytest.fixture
def store() -> Store:
    return MemoryStore(FixedClock())


@asynccontextmanager
async def begun(
    tmp_path: Path, store: Store, source: str = "a = view('a.txt', freq='Async')"
) -> AsyncIterator[Session]:
    """A session whose views have been ticked once, so that it is known what they wish for."""
    async with session_in(tmp_path, store, environments=in_process, TOKEN=SECRET) as session:
        await session.cell(source)
        await session.tick()
        yield session


@asynccontextmanager
async def loaded(tmp_path: Path, store: Store, session_id: SessionId) -> AsyncIterator[Session]:
    async with sessions_of(tmp_path, store, environments=in_process, TOKEN=SECRET) as sessions:
        yield await sessions.load(session_id)


def write(path: Path, data: bytes) -> None:
    """Writes at once, so that nobody sees it empty, and with a time stamp that no clock granularity hides."""
    stamp = path.stat().st_mtime_ns + 10**9 if path.exists() else 10**18
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    os.utime(new, ns=(stamp, stamp))
    new.replace(path)


async def until(session: Session, holds: Callable[[], bool]) -> None:
    """Waits for an event after which it holds."""
    with anyio.fail_after(PATIENCE):
        subscription = session.subscribe()
        while not holds():
            async for _ in subscription.batches(0):
                break


async def prepared(session: Session, count: int = 1) -> AsyncPayloadPrepared:
    """A statement ends, which is a cue; what comes of it."""
    await session.cell("None")
    await until(session, lambda: len(events_of(session, AsyncPayloadPrepared)) >= count)
    return events_of(session, AsyncPayloadPrepared)[-1]


async def text(session: Session, name: str = "a") -> str:
    finished = await session.cell(f"print({name}.Render().text, end='')")
    assert finished.exception is None, finished.exception
    return finished.stdout.text


async def test_changed_file_is_read_between_ticks_and_shown_next(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, b"two\n")
        payload = await prepared(session)
        assert (payload.payload_kind, payload.obj_id) == ("render", "view-1.1")
        assert payload.data is not None
        assert store.blob_get(payload.data) == b"two\n"
        assert await text(session) == "1\tone\n"
        await session.tick()
        assert await text(session) == "1\ttwo\n"
        assert [event.payload_id for event in events_of(session, AsyncPayloadApplied)] == [payload.payload_id]
        assert events_of(session, RevisionAdopted)[-1].content == payload.data


@pytest.mark.parametrize(("data", "shown"), [(b"two\n", "1\ttwo\n"), (b"", "(empty file)\n")])
async def test_payload_waiting_at_close_is_applied_after_load(
    tmp_path: Path, store: Store, data: bytes, shown: str
) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, data)
        await prepared(session)
    async with loaded(tmp_path, store, session.session_id) as session:
        await session.cell("None")
        await session.tick()
        assert len(events_of(session, AsyncPayloadApplied)) == 1
        assert await text(session) == shown
    write(file, b"three\n")  # What was applied is known from the log alone.
    async with loaded(tmp_path, store, session.session_id) as session:
        assert await text(session) == shown


async def test_payload_of_another_branch_is_prepared_again(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, b"two\n")
        before = await prepared(session)
        await session.rewind(1)
        await session.tick()
        assert await text(session) == "1\tone\n"
        after = await prepared(session, 2)
        assert (before.obj_id, before.basis) == (after.obj_id, after.basis)
        await session.tick()
        assert await text(session) == "1\ttwo\n"
        assert [event.payload_id for event in events_of(session, AsyncPayloadApplied)] == [after.payload_id]


async def test_nothing_is_prepared_twice_or_for_other_views(tmp_path: Path, store: Store) -> None:
    write(tmp_path / "a.txt", b"one\n")
    write(tmp_path / "b.txt", b"one\n")
    source = "a = view('a.txt', freq='Async'); b = view('b.txt', freq='Sync'); c = view('b.txt')"
    async with begun(tmp_path, store, source) as session:
        write(tmp_path / "b.txt", b"two\n")
        write(tmp_path / "a.txt", b"two\n")
        await prepared(session)
        for _ in range(3):
            await session.cell("None")
        await session.tick()
        write(tmp_path / "a.txt", b"three\n")
        await prepared(session, 2)
        assert [event.obj_id for event in events_of(session, AsyncPayloadPrepared)] == ["view-1.1"] * 2


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"one\n", b"x" * (PAYLOAD_BYTES + 1)), (b"one\n", f"key = {SECRET}\n".encode()), (b"one\n", None)],
    ids=["too large", "a secret", "deleted"],
)
async def test_tick_learns_of_a_change_that_no_payload_may_hold(
    tmp_path: Path, store: Store, before: bytes, after: bytes | None
) -> None:
    file = tmp_path / "a.txt"
    write(file, before)
    async with begun(tmp_path, store) as session:
        if after is None:
            file.unlink()
        else:
            write(file, after)
        payload = await prepared(session)
        assert (payload.payload_kind, payload.data) == ("diff", None)
        await session.tick()
        assert len(events_of(session, AsyncPayloadApplied)) == 1
        assert "one" not in await text(session)


async def test_the_host_reads_no_file_outside_of_the_workspace(tmp_path: Path, store: Store) -> None:
    outside = tmp_path / "outside.txt"
    write(outside, b"one\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / "link.txt").symlink_to(outside)
    (work / "environ").symlink_to("/proc/self/environ")
    names = (str(outside), "link.txt", "/proc/self/environ", "environ")
    source = "; ".join(f"v{number} = view({name!r}, freq='Async')" for number, name in enumerate(names))
    async with begun(work, store, source) as session:
        await prepared(session, len(names))
        assert {(event.payload_kind, event.data) for event in events_of(session, AsyncPayloadPrepared)} == {
            ("diff", None)
        }
        await session.tick()
        write(outside, b"two\n")
        await prepared(session, len(names) + 2)
        await session.tick()
        assert [await text(session, f"v{number}") for number in (0, 1)] == ["1\ttwo\n"] * 2


async def test_tick_in_a_statement_applies_what_is_prepared(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, b"two\n")
        payload = await prepared(session)
        finished = await session.cell("tick(); show(a)")
        assert [each.text for each in finished.displays] == ["1\ttwo\n"]
        assert [event.payload_id for event in events_of(session, AsyncPayloadApplied)] == [payload.payload_id]
        await session.tick()
        assert len(events_of(session, AsyncPayloadApplied)) == 1
    write(file, b"three\n")  # A rebuild applies the same payload in the same statement.
    async with loaded(tmp_path, store, session.session_id) as session:
        assert await text(session) == "1\ttwo\n"


async def test_summary_is_shown_by_the_statement_that_ticks(tmp_path: Path, store: Store) -> None:
    write(tmp_path / "a.txt", b"one\n")
    model = AnsweringModel(says("Done."), says("- counts from one"))
    async with session_in(tmp_path, store, environments=in_process, model=model) as session:
        await session.cell("a = view('a.txt', lod=2, freq='Async')")
        await session.tick()
        await until(session, lambda: bool(events_of(session, AsyncPayloadPrepared)))
        finished = await session.cell("tick(); show(a)")
        assert "counts from one" in finished.displays[-1].text
    async with loaded(tmp_path, store, session.session_id) as session:
        assert "counts from one" in await text(session)
