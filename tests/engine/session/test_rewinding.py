"""Files that go back: recorded before and afterwards, given up whole, finished by whoever opens the session next."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import xxhash

from engine import Store
from engine.core.errors import SessionReadOnlyError, StoreError
from engine.core.ids import BlobDigest, ExecutionId, Seq, SessionId, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.execution import FileWritten
from engine.log.events.going_back import FileLeft, FileToRestore, RewindBegun, Rewound
from engine.log.events.session import OthersWrote
from engine.log.facts import SessionFacts
from engine.log.file_history import open_rewind
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import SessionRow
from engine.session.editor_files import EditorBuffers
from engine.session.journal import Journal
from engine.session.past import rewinding
from engine.session.past.left_files import HIDDEN_PATH, NOT_STORED
from engine.session.past.rewinding import FileRewinder
from engine.session.tools import UNTRUSTED, Workspace, restore
from tests.engine.session.test_buffers import Texts
from tests.support.fixed import FixedClock

pytestmark = pytest.mark.anyio
SESSION = SessionId("ses_files")


def digest(data: bytes | None) -> str:
    return "" if data is None else xxhash.xxh3_64_hexdigest(data)


class ToolContext:
    """A session's log over a store, and a project in which it writes."""

    def __init__(self, root: Path, store: Store | None = None) -> None:
        self.project = root / "project"
        self.project.mkdir(exist_ok=True)
        self.store = store or MemoryStore(FixedClock())
        self.store.create(SessionRow(session_id=SESSION, cwd=str(self.project)))
        self.journal = Journal(self.store, SESSION)
        self.store.acquire(SESSION, self.journal.committed)
        self.log = EventLog(FixedClock(), self.journal.write)
        self.facts = SessionFacts()
        self.log.follow(self.facts.apply, SessionFacts.FOLLOWS)
        self.workspace = Workspace(str(self.project), records=str(root / "state" / "writing"))

    def rewinding(self, buffers: EditorBuffers | None = None) -> FileRewinder:
        return FileRewinder(self.log, self.journal, self.store, self.workspace, self.facts, buffers)

    def write(self, name: str, data: bytes | None, **fields: Any) -> None:
        """The file holds that from now on, which is recorded."""
        path = self.project / name
        before = path.read_bytes() if path.exists() else None
        if data is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.log.append(
            FileWritten(
                execution_id=ExecutionId("ex"),
                tool_call_id=ToolCallId("call"),
                path=str(path),
                **{
                    "before": self.kept(before),
                    "after": self.kept(data),
                    "before_digest": digest(before),
                    "after_digest": digest(data),
                    **fields,
                },
            )
        )

    def kept(self, data: bytes | None) -> BlobDigest | None:
        return None if data is None else self.store.blob_put(data)

    def files(self) -> dict[str, bytes]:
        return files_in(self.project)

    def begun(self, at: int) -> RewindBegun:
        plan = self.rewinding().plan(Seq(at))
        return RewindBegun(statement=1, since=Seq(at), files=plan.files, left=plan.left)

    async def rewind(self, at: int, buffers: EditorBuffers | None = None) -> Rewound:
        ended = await self.rewinding(buffers).rewind(self.begun(at))
        self.log.append(ended)
        return ended


def files_in(project: Path) -> dict[str, bytes]:
    return {str(path.relative_to(project)): path.read_bytes() for path in sorted(project.rglob("*")) if path.is_file()}


def names(files: Sequence[FileToRestore | FileLeft]) -> list[str]:
    return [os.path.basename(file.path) for file in files]


@pytest.fixture
async def desk(tmp_path: Path) -> ToolContext:
    return ToolContext(tmp_path)


async def test_every_position_of_the_log_can_be_restored(desk: ToolContext) -> None:
    states: list[dict[str, bytes]] = []
    for name, data in (("a", b"1"), ("b", b"x"), ("a", b"2"), ("b", None), ("c/d/e", b"new"), ("b", b"y"), ("a", b"")):
        states.append(desk.files())
        desk.write(name, data)
    states.append(desk.files())
    for at in (7, 3, 0, 5, 7, 2):
        ended = await desk.rewind(at)
        assert desk.files() == states[at], at
        assert not ended.left


async def test_failing_log_leaves_the_files_alone(tmp_path: Path) -> None:
    class Refusing(MemoryStore):
        def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
            if isinstance(event, RewindBegun):
                self.listener(Seq(event.seq - 1), StoreError("the disk is full"))
            else:
                super().submit(session_id, event, waits=waits)

        def acquire(self, session_id: SessionId, committed: Any) -> None:
            self.listener = committed
            super().acquire(session_id, committed)

    desk = ToolContext(tmp_path, Refusing(FixedClock()))
    desk.write("a", b"1")
    desk.write("a", b"2")
    with pytest.raises(SessionReadOnlyError):
        await desk.rewind(1)
    assert desk.files() == {"a": b"2"}


async def test_files_that_cannot_go_back_are_named(desk: ToolContext) -> None:
    for name in ("changed", "removed", "fine", "damaged"):
        desk.write(name, b"1")
    at = len(desk.log)
    for name in ("changed", "removed", "fine"):
        desk.write(name, b"2")
    desk.write("damaged", b"2", before=BlobDigest("blake2b-" + "0" * 40))
    desk.write("secret", b"KEY=sk-1", after=None, withheld="blake2b:00")
    desk.write("secret", b"KEY=none", before=None, withheld="blake2b:00")
    desk.write("***/hidden", b"x")
    (desk.project / "changed").write_bytes(b"by hand")
    (desk.project / "removed").unlink()
    ended = await desk.rewind(at)
    assert {os.path.basename(left.path): left.reason for left in ended.left} == {
        "changed": "the file has changed since the session last wrote it",
        "removed": "the file was removed since the session last wrote it",
        "damaged": "the earlier content is not in the store",
        "hidden": HIDDEN_PATH,
    }
    assert desk.files() == {"***/hidden": b"x", "changed": b"by hand", "damaged": b"2", "fine": b"1"}
    # What the secret replaced was nothing, so nothing is what comes back.
    assert names(ended.restored) == ["fine", "secret"]


async def test_imported_rewind_restores_no_hooks(desk: ToolContext) -> None:
    """It says as well what files held."""
    hook = str(desk.project / ".git/hooks/update")
    evil = FileToRestore(path=hook, present=desk.store.blob_put(b"evil"), present_digest=digest(b"evil"))
    desk.log.append(Rewound(statement=1, restored=(evil,)))
    desk.log.append(OthersWrote(by="import"))
    ended = await desk.rewind(0)
    assert desk.files() == {}
    assert names(ended.left) == ["update"]


@pytest.mark.parametrize("reported", ["noticed", "imported", ""])
async def test_what_programs_run_is_not_put_back_from_a_report(desk: ToolContext, reported: str) -> None:
    """A worker may make up what a file held, and so may who wrote a log that was imported."""
    (desk.project / ".git" / "hooks").mkdir(parents=True)
    for name in ("a.txt", ".git/hooks/update"):
        (desk.project / name).write_bytes(b"theirs")
    for name in ("a.txt", ".git/hooks/update"):
        desk.write(name, b"ours", noticed=reported == "noticed", protected=True)
    desk.log.append(OthersWrote(by="import" if reported == "imported" else "client"))
    ended = await desk.rewind(0)
    assert desk.files() == {"a.txt": b"theirs", ".git/hooks/update": b"ours" if reported else b"theirs"}
    assert names(ended.left) == ["update"] * bool(reported)


async def test_unsaved_file_is_left_and_a_late_one_is_not(desk: ToolContext) -> None:
    for name in ("unsaved", "silent", "saved"):
        desk.write(name, b"1\n")
        desk.write(name, b"2\n")
    editor = Texts(desk.project, unsaved="mine\n", silent=None, saved="2\n")
    editor.opened = [str(desk.project / name) for name in ("unsaved", "silent", "saved")]
    buffers = EditorBuffers(desk.workspace, FixedClock())
    buffers.editor = editor
    ended = await desk.rewind(0, buffers)
    assert desk.files() == {"silent": b"2\n", "unsaved": b"2\n"}
    assert names(ended.left) == ["unsaved", "silent"]
    assert ended.left[0].reason == "the file has unsaved changes in the editor"
    # The editor goes on for a moment with what the file held; that is no unsaved text.
    desk.write("saved", b"3\n")
    assert await buffers.unsaved(str(desk.project / "saved"), changes=True) is None


# --- given up, and killed -----------------------------------------------------------------------------------------


@contextmanager
def cancelled_at(monkeypatch: pytest.MonkeyPatch, number: int, killed_at: int = 0) -> Any:
    """Cancels whoever is waiting within this when file `number` is being restored, and fails with file `killed_at`."""
    count = 0
    with anyio.CancelScope() as scope:

        def restored(workspace: Workspace, file: FileToRestore, wanted: bytes | None, **options: Any) -> object:
            nonlocal count
            count += 1
            if count == number:
                anyio.from_thread.run_sync(scope.cancel)
            if count == killed_at:
                raise RuntimeError("killed")
            return restore(workspace, file, wanted, **options)

        monkeypatch.setattr("engine.session.past.rewinding.restore", restored)
        yield scope


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_cancel_brings_back_what_was_replaced(
    desk: ToolContext, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (desk.project / "by-hand").write_bytes(b"2")
    for name in ("a", "b"):
        desk.write(name, b"1")
    at = len(desk.log)
    for name in ("a", "b", "by-hand", "c"):
        desk.write(name, b"changed")
    (desk.project / "by-hand").write_bytes(b"2")  # as before the session wrote it, which is nothing of the rewind's
    before = desk.files()
    with cancelled_at(monkeypatch, number) as scope:
        await desk.rewind(at)
    assert scope.cancelled_caught
    assert desk.files() == before
    ended = desk.log.events[-1]
    assert isinstance(ended, Rewound)
    assert (ended.cancelled, ended.restored, ended.left) == (True, (), ())
    monkeypatch.undo()
    await desk.rewind(at)
    assert desk.files() == {"a": b"1", "b": b"1", "by-hand": b"2"}


class Slow(MemoryStore):
    """Keeps a RewindBegun no sooner than the event after it."""

    def __init__(self) -> None:
        super().__init__(FixedClock())
        self._held: Event | None = None
        self.holds = anyio.Event()

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        if isinstance(event, RewindBegun) and not event.cancelled:
            self._held = event
            self.holds.set()
            return
        held, self._held = self._held, None
        if held is not None:
            super().submit(session_id, held)
        super().submit(session_id, event, waits=waits)


async def test_a_cancel_before_the_first_file_ends_the_rewind(tmp_path: Path) -> None:
    store = Slow()
    desk = ToolContext(tmp_path, store)
    desk.write("a", b"1")
    desk.write("a", b"2")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.rewind, 1)
        await store.holds.wait()
        tasks.cancel_scope.cancel()
    assert desk.files() == {"a": b"2"}
    assert open_rewind(reversed(desk.log.events)) is None
    assert open_rewind(reversed(desk.store.load(SESSION))) is None


@pytest.mark.parametrize("brought_back", [0, 1, 2])
async def test_kill_during_a_cancel_restores_the_rest_on_open(
    desk: ToolContext, monkeypatch: pytest.MonkeyPatch, brought_back: int
) -> None:
    monkeypatch.setattr(rewinding, "_AT_ONCE", 1)
    for name in ("a", "b", "c", "d"):
        desk.write(name, b"1")
    at = len(desk.log)
    for name in ("a", "b", "c", "d"):
        desk.write(name, b"2")
    before = desk.files()
    with cancelled_at(monkeypatch, 3, killed_at=4 + brought_back), pytest.raises(RuntimeError, match="killed"):
        await desk.rewind(at)
    assert desk.files() == {**before, **dict.fromkeys(["a", "b", "c"][: 3 - brought_back], b"1")}
    monkeypatch.undo()
    begun = open_rewind(reversed(desk.log.events))
    assert begun is not None
    ended = await desk.rewinding().finish(begun)
    assert desk.files() == before
    assert (ended.cancelled, ended.restored) == (True, ())


async def test_killed_rewind_is_finished_even_after_a_cancelled_open(
    desk: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        desk.write(name, b"1")
    at = len(desk.log)
    for name in ("a", "b", "c"):
        desk.write(name, b"2")
    begun = desk.begun(at)
    desk.log.append(begun)
    (desk.project / begun.files[0].path).write_bytes(b"1")  # as far as the killed process came
    with cancelled_at(monkeypatch, 2) as scope:
        await desk.rewinding().finish(begun)
    assert scope.cancelled_caught
    assert open_rewind(reversed(desk.log.events)) == desk.log.events[-1]
    monkeypatch.undo()
    ended = await desk.rewinding().finish(begun)
    assert (ended.cancelled, names(ended.restored)) == (False, ["a", "b", "c"])
    assert desk.files() == {"a": b"1", "b": b"1", "c": b"1"}


async def test_rewind_leaves_a_file_that_nothing_could_bring_back(desk: ToolContext) -> None:
    desk.write("secret", b"KEY=sk-1", after=None, withheld="blake2b:00")
    desk.write("a", b"1")
    desk.write("unread", b"0")
    desk.write("unread", b"KEY=sk-2", after=None, withheld="blake2b:00")
    ended = await desk.rewind(0)
    assert names(ended.restored) == ["a"]
    assert [(Path(each.path).name, each.reason) for each in ended.left] == [
        ("secret", NOT_STORED),
        ("unread", NOT_STORED),
    ]
    assert desk.files() == {"secret": b"KEY=sk-1", "unread": b"KEY=sk-2"}


async def test_path_that_cannot_be_resolved_counts_as_protected(
    desk: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("a", b"1")

    def fail(path: str) -> str:
        raise OSError(errno.EINVAL, "Invalid argument", path)

    files = desk.rewinding()
    monkeypatch.setattr(os.path, "realpath", fail)
    plan = files.plan(Seq(0))
    assert files.has_protected(plan)
    assert [Path(each.path).name for each in files.without_protected(plan).left] == ["a"]


async def test_what_a_statement_wrote_does_not_come_back_into_a_file_that_programs_run(desk: ToolContext) -> None:
    (desk.project / "tool.sh").write_bytes(b"mine")
    desk.write("tool.sh", b"evil")
    at = len(desk.log)
    desk.write("tool.sh", b"harmless")
    desk.log.append(OthersWrote(by="model"))
    desk.workspace.protection.why = lambda path: "git runs it" if path.endswith("tool.sh") else ""
    ended = await desk.rewind(at)
    assert [each.reason for each in ended.left] == [UNTRUSTED.format("git runs it")]
    assert desk.files()["tool.sh"] == b"harmless"
    # A program that a statement left running may have written what was there before the first of these writes.
    ended = await desk.rewind(0)
    assert (names(ended.left), desk.files()["tool.sh"]) == (["tool.sh"], b"harmless")


async def test_no_repository_comes_back_because_its_parts_come_together(desk: ToolContext) -> None:
    parts = ("objects", "refs", "HEAD")
    for name in parts:
        desk.write(f"new/{name}", b"1")
    at = len(desk.log)
    for name in parts:
        desk.write(f"new/{name}", None)
    desk.log.append(OthersWrote(by="model"))
    ended = await desk.rewind(at)
    assert (names(ended.restored), names(ended.left)) == (["objects", "refs"], ["HEAD"])
    assert "makes the directory a repository" in ended.left[0].reason
