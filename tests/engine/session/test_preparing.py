"""Each work by itself, and what becomes of one that fails, takes long, or makes what no payload may hold."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from engine.context.model import ModelError, ModelSignal, Prompt, TextDelta, TokensUsed
from engine.core.ids import Minter, ObjId
from engine.files.disk import Disk
from engine.files.manifest import glob_path
from engine.files.outline.fallbacks import IndentationOutliner
from engine.files.outline.model import unpacked
from engine.files.paging import page_path
from engine.files.revision import LARGEST, digest_of
from engine.files.sources import FileStamp
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.nodes import AsyncPayloadDropped, AsyncPayloadPrepared, PayloadBasis
from engine.log.facts import Payloads
from engine.log.redaction import Redactor
from engine.log.statements import PAYLOAD_BYTES, Want
from engine.log.store.memory import MemoryStore
from engine.runtime.worker.handles.trees import DirectFiles, DirectTrees
from engine.session.preparing import Prepare, Prepared, Preparer, Sources, content, outline, summary
from tests.support.fixed import CountingEntropy, FixedClock
from tests.support.models import Answer, AnsweringModel, says
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
        disk=Disk(DirectFiles((str(tmp_path),)), DirectTrees(lambda: 0.0), lambda: 0.0),
        kept=lambda digest: data if digest == "aa" else None,
        redactor=Redactor([SECRET]),
        model=AnsweringModel(says("never"), answer),
        calls_tools=True,
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
async def test_what_nobody_wishes_for_any_more_is_not_kept_unless_it_cost_tokens(tmp_path: Path, tokens: int) -> None:
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


async def test_no_tree_is_listed_for_a_wish_and_no_page_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    for path in (glob_path(str(tmp_path), "*.py"), page_path(str(tmp_path / "a.py"), 0, 6, 1)):
        assert await content(replace(WANT, work="content", path=path), sources(tmp_path)) is None


async def test_of_a_large_file_it_is_told_that_it_differs_and_nothing_of_it_is_read(tmp_path: Path) -> None:
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


async def test_a_large_text_is_outlined_from_what_the_log_has_or_the_file_while_it_still_holds_that(
    tmp_path: Path,
) -> None:
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


async def test_a_model_sums_up_what_the_log_has_and_is_shown_no_secret(tmp_path: Path) -> None:
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


async def test_no_summary_is_asked_for_without_a_model_that_can_tokens_to_spend_or_a_text(tmp_path: Path) -> None:
    assert await summary(WANT, sources(tmp_path)) is None
    assert await summary(WANT, sources(tmp_path, says("Yes."), allowance=999)) is None
    assert await summary(WANT, sources(tmp_path, says("Yes."), data=b"\x00\xff\x00")) is None
    assert await summary(WANT, sources(tmp_path, says(" "))) is None


async def test_a_text_is_cut_to_what_may_be_spent_and_counts_as_bytes_where_nobody_counts(tmp_path: Path) -> None:
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


async def test_a_work_that_fails_or_waits_keeps_no_other_from_being_done(tmp_path: Path) -> None:
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
async def test_what_no_payload_may_hold_is_dropped_at_once_and_not_kept(
    tmp_path: Path, data: bytes, reason: str
) -> None:
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


async def test_a_file_system_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    files = _Hung()
    disk = Disk(files, DirectTrees(lambda: 0.0), lambda: 0.0)

    async def reads(want: Want, given: Sources) -> Prepared | None:
        return await content(want, dataclasses.replace(given, disk=disk))

    async with preparing(tmp_path, {"content": reads}) as (preparer, log, _):
        preparer.want([replace(WANT, work="content", path=str(tmp_path / "a.py"))])
        await anyio.to_thread.run_sync(files.reached.wait, PATIENCE)
        await preparer.close()
        assert of(log, AsyncPayloadPrepared) == []
    files.gate.set()


async def test_what_a_tick_was_lent_is_left_to_it_whatever_is_prepared_meanwhile(tmp_path: Path) -> None:
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
