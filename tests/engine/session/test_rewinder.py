"""Going back and over as a whole: conversation, namespace and files, each of which may stay."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine import Session
from engine.log.cycles import cycles_of
from engine.log.events import Event
from engine.log.events.conversation import ToolCall
from engine.log.events.execution import StatementOmitted
from engine.log.events.going_back import BranchCreated, FileToRestore, HeadMoved, RewindBegun, Rewound
from engine.log.redaction import Storable
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import Store
from engine.session.commands.files import LEFT, SHOW_LEFT
from engine.session.past import rewinding
from engine.session.past.merging import SAME_LINES
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import answer_to, events_of, session_in, sessions_of, value_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def written(root: Path, store: Store | None = None) -> AsyncIterator[Session]:
    """A session whose statements 1 to 3 bind `n` and write it, each in another way, and each into a file of its own."""
    (root / "project").mkdir(exist_ok=True)
    async with session_in(root / "project", store, state=root / "state") as session:
        for n, source in enumerate(
            (
                "w = write('a.txt', f'{n}')",
                "with open('a.txt', 'w') as f: w = f.write(f'{n}')",
                "from pathlib import Path; w = Path('a.txt').write_text(f'{n}')",
            ),
            start=1,
        ):
            finished = await session.cell(f"n = {n}\n{source}\nw = write(f'only-{{n}}', 'x')")
            assert finished.exception is None, finished.exception
        yield session


def files(session: Session) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(Path(session.cwd).iterdir())}


async def n(session: Session) -> str | None:
    return (await session.cell("n")).value


def killed(store: MemoryStore, session: Session, events: Sequence[Event]) -> MemoryStore:
    """A store whose session has only these events, as if its process had been killed then."""
    again = MemoryStore(FixedClock())
    again.create(store.row(session.session_id))
    again.acquire(session.session_id, lambda seq, error: None)
    for data in [store.blob_get(digest) for digest in store.contents(session.session_id)]:
        again.blob_put(Storable(data))
    for event in events:
        again.submit(session.session_id, event)
    again.release(session.session_id)
    return again


def as_before(store: MemoryStore, file: FileToRestore) -> None:
    """Make a file what it was before it was put back."""
    if file.present is None:
        Path(file.path).unlink()
    else:
        Path(file.path).write_bytes(store.blob_get(file.present))


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]


def begun_at(session: Session) -> int:
    return next(event.seq for event in events_of(session, RewindBegun))


AFTER = [
    {},
    {"a.txt": "1", "only-1": "x"},
    {"a.txt": "2", "only-1": "x", "only-2": "x"},
    {"a.txt": "3", "only-1": "x", "only-2": "x", "only-3": "x"},
]


async def test_conversation_namespace_and_files_go_back_together_and_over_again(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        assert files(session) == AFTER[3]
        assert await answer_to(session, "/rewind 1") == (
            "This is now branch `b1`, with 1 statement; the namespace is rebuilt at its next use."
        )
        assert (files(session), await n(session)) == (AFTER[1], "1")
        ended = await session.rewind(0)
        assert ended is not None
        assert [Path(file.path).name for file in ended.restored] == ["a.txt", "only-1"]
        assert files(session) == AFTER[0]
        await session.switch("main")
        assert (files(session), await n(session)) == (AFTER[3], "3")
        await session.switch("b1")
        assert files(session) == AFTER[1]
        await session.cell("w = write('a.txt', 'of b1')")
        await session.switch("main")
        assert (files(session), await n(session)) == (AFTER[3], "3")
        await session.switch("b1")
        assert files(session) == {**AFTER[1], "a.txt": "of b1"}
        assert not cycles_of(session.path).anomalies


WAYS = [
    "w = write('{}', 'x')",
    "with open('{}', 'w') as f: w = f.write('x')",
    "from pathlib import Path; w = Path('{}').write_text('x')",
]


@pytest.mark.parametrize("way", WAYS, ids=["tool", "open", "own code"])
async def test_permissions_changed_by_the_user_are_a_conflict(tmp_path: Path, way: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with session_in(project, state=tmp_path / "state") as session:
        for name in ("mine", "theirs"):
            await value_of(session, way.format(name))
        (project / "mine").chmod(0o444)
        ended = await session.rewind(0)
        assert ended is not None
        assert [(Path(file.path).name, file.reason) for file in ended.left] == [
            ("mine", "the permissions have changed since the session last wrote the file: 644 -> 444")
        ]
        assert [Path(file.path).name for file in ended.restored] == ["theirs"]
        assert stat.S_IMODE((project / "mine").stat().st_mode) == 0o444
        assert files(session) == {"mine": "x"}


SETTINGS = [
    "os.chmod('a', 0o755)",
    "os.chmod(os.path.abspath('a'), 0o755)",
    "from pathlib import Path; Path('a').chmod(0o755)",
    "f = open('a'); os.fchmod(f.fileno(), 0o755)",
]


@pytest.mark.parametrize(
    "sources",
    [*([f"{way}\nimport os\n{SETTINGS[0]}"] for way in WAYS), *([WAYS[0], f"import os\n{each}"] for each in SETTINGS)],
    ids=["tool", "open", "own code", "later", "absolute path", "Path.chmod", "fchmod"],
)
async def test_permissions_set_by_statements_are_undone(tmp_path: Path, sources: list[str]) -> None:
    path = tmp_path / "project" / "a"
    path.parent.mkdir()
    path.write_text("as it was")
    path.chmod(0o640)
    async with session_in(path.parent, state=tmp_path / "state") as session:
        for source in sources:
            await value_of(session, source.format("a"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
        calls = [event.arguments for event in events_of(session, ToolCall) if event.tool == "chmod"]
        assert len(sources) == 1 or calls == [{"path": str(path), "mode": 0o755}]
        ended = await session.rewind(0)
        assert ended is not None
        assert not ended.left
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("as it was", 0o640)


async def test_log_has_the_plan_and_the_end_on_the_branch(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        await session.rewind(2)
        events = session.since(begun_at(session))
        own = ["rewind_begun", "branch_created", "head_moved", "user_message", "rewound", "agent_text", "run_stop"]
        assert kinds(events) == own
        assert [event.branch_id for event in events] == ["main"] * 2 + ["b1"] * 5
        position = session.position
        await session.rewind(2)
        assert kinds(session.since(position)) == [own[1], own[2], own[3], own[5], own[6]]


async def test_rewind_undoes_a_later_live_replay(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        await session.cell("import os; where = len(os.listdir())")
        await session.replay(2, mode="live")
        assert (await session.cell("where")).value == "4"
        await session.cell("w = write('more', '')")
        await session.replay(4, mode="live")
        assert (await session.cell("where")).value == "5"
        assert "Statements 2 to 3 ran" not in await answer_to(session, "/rewind 1")
        await session.switch("main")
        assert "Statement 2 ran again later; these runs are undone too." in await answer_to(session, "/rewind 2")
        await session.switch("main")
        assert "Statements 4 to 5 ran again later" in await answer_to(session, "/rewind 5")
        assert (await session.cell("where")).value == "4"


async def test_repeated_rewind_into_a_run_leaves_files_alone(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        await session.edit(1, "n = 9; w = write('a.txt', f'{n}')", mode="live")
        for _ in range(2):
            await session.rewind(1)
            assert (files(session)["a.txt"], await n(session)) == ("9", "9")
        await session.rewind(1)
        assert files(session)["a.txt"] == "9"


@pytest.mark.parametrize("k", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3))])
async def test_files_can_stay(tmp_path: Path, k: int) -> None:
    async with written(tmp_path) as session:
        answer = await answer_to(session, f"/rewind --keep-files {k}")
        count = {
            0: "4 files were written later, and stay unchanged.",
            2: "2 files were written later, and stay unchanged.",
        }
        assert count.get(k, "No files needed restoring.") in answer
        assert files(session) == AFTER[3]
        assert not [event for event in session.events if isinstance(event, RewindBegun | Rewound)]
        # They can follow later, and the way back is to where the head was.
        assert (await session.rewind(k) is not None) == (k < 3)
        assert files(session) == AFTER[k]
        await session.switch("main", files=False)
        assert files(session) == AFTER[k]


async def test_the_conversation_can_stay(tmp_path: Path) -> None:
    async with written(tmp_path) as session:
        assert await answer_to(session, "/rewind 1 --keep-conversation") == (
            "Statements 2 to 3 are left out, and the namespace is rebuilt at its next use "
            "(`/omit 2` puts one back); the conversation is unchanged."
        )
        assert (files(session), await n(session)) == (AFTER[1], "1")
        assert [cell.omitted for cell in session.cells[:3]] == [False, True, True]
        assert len(session.branches) == 1
        assert not [event for event in session.events if isinstance(event, BranchCreated | HeadMoved)]
        await session.rewind(1, files=False, conversation=False)
        assert len(events_of(session, StatementOmitted)) == 3  # and statement 4
        await session.accept("/omit 2").end()
        assert await n(session) == "2"


async def test_foreign_change_is_left_and_the_model_told(tmp_path: Path) -> None:
    model = AnsweringModel(runs("w = write('a', '1'); w = write('b', '1')", "w = write('a', '2'); w = write('b', '2')"))
    async with sessions_of(tmp_path / "state", model=model) as sessions:
        (tmp_path / "project").mkdir()
        session = await sessions.create(str(tmp_path / "project"))
        session.set_mode("auto")
        await session.accept("go").end()
        (tmp_path / "project" / "a").write_text("by hand")
        assert LEFT.format(1, "file", SHOW_LEFT.format(session.session_id)) in await answer_to(session, "/rewind 1")
        assert files(session) == {"a": "by hand", "b": "1"}
        await session.accept("and now?").end()
        tail = model.prompts[-1].tail
        assert f"{tmp_path}/project/a was not restored: {SAME_LINES}." in tail
        assert "Restored 1 file to its contents after statement 1" in tail


async def test_cancel_while_files_go_back_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with written(tmp_path) as session:
        await session.rewind(2)
        await session.switch("main")
        restore = rewinding.restore
        count = 0

        def restored(*arguments: Any, **options: Any) -> object:
            nonlocal count
            count += 1
            if count == 2:
                anyio.from_thread.run_sync(session.cancel)
            return restore(*arguments, **options)

        monkeypatch.setattr(rewinding, "restore", restored)
        end = await session.accept("/rewind 1").end()
        assert end.cause == "cancelled"
        assert (files(session), [row.name for row in session.branches if row.is_active]) == (AFTER[3], ["main"])
        tail = session.events[-3:]
        assert kinds(tail) == ["rewound", "user_message", "run_stop"]
        assert isinstance(tail[0], Rewound)
        assert (tail[0].cancelled, tail[0].restored) == (True, ())
        assert await n(session) == "3"
        count = 10
        await session.rewind(1)
        assert (files(session), await n(session)) == (AFTER[1], "1")


@pytest.mark.parametrize(
    ("kept", "keeps"),
    [(2, False), *(pytest.param(n, keeps, marks=pytest.mark.slow) for n in range(1, 7) for keeps in (False, True))],
)
async def test_rewind_killed_anywhere_is_finished_on_open(tmp_path: Path, kept: int, keeps: bool) -> None:
    """The log ends after each of the events that a rewind appends; the files may have gone back by then or not."""
    store = MemoryStore(FixedClock())
    async with written(tmp_path, store) as session:
        await session.rewind(1, conversation=not keeps)
        events = [event for event in session.events if event.seq < begun_at(session) + kept]
    if kept <= 1:  # the files had not gone back
        for name, text in AFTER[3].items():
            (tmp_path / "project" / name).write_text(text)
    again = killed(store, session, events)
    async with session_in(tmp_path / "state", again, load=session.session_id) as session:
        assert files(session) == AFTER[1]
        assert await n(session) == "1"
        assert [row.name for row in session.branches if row.is_active] == (["main"] if keeps else ["b1"])
        assert len(events_of(session, Rewound)) == 1
        assert not cycles_of(session.path).anomalies
        if not keeps:
            await session.switch("main")
            assert (files(session), await n(session)) == (AFTER[3], "3")


@pytest.mark.parametrize("is_redo", [False, True])
@pytest.mark.parametrize("done", [0, 1, 2])
async def test_undo_killed_anywhere_is_finished_on_open(tmp_path: Path, is_redo: bool, done: int) -> None:
    """The log ends with the plan, and so many of its two files have been put back."""
    store = MemoryStore(FixedClock())
    wanted = AFTER[3] if is_redo else AFTER[2]
    async with written(tmp_path, store) as session:
        await session.cell("m = 4")
        await session.undo()
        if is_redo:
            await session.redo()
        begun = events_of(session, RewindBegun)[-1]
        events = [event for event in session.events if event.seq <= begun.seq]
    for file in begun.files[done:]:
        as_before(store, file)
    async with session_in(tmp_path / "state", killed(store, session, events), load=session.session_id) as session:
        assert files(session) == wanted
        assert (await n(session), await value_of(session, "m")) == ("3", "4")
        assert [row.name for row in session.branches if row.is_active] == ["main"]
        ended = events_of(session, Rewound)[-1]
        assert (ended.undone, ended.is_redo, ended.left) == (begun.undone, is_redo, ())
        await (session.undo() if is_redo else session.redo())
        assert files(session) == (AFTER[2] if is_redo else AFTER[3])


@pytest.mark.parametrize("protected", [True, False])
async def test_a_client_gets_no_protected_file_back(tmp_path: Path, protected: bool) -> None:
    (tmp_path / "project").mkdir()
    async with session_in(tmp_path / "project", state=tmp_path / "state") as session:
        for text in ("old", "new"):
            finished = await session.cell(f"w = write('.envrc', {text!r}); w = write('plain', {text!r})")
            assert finished.exception is None, finished.exception
        ended = await session.rewind(1, protected=protected)
        assert ended is not None
        assert files(session) == {".envrc": "old" if protected else "new", "plain": "old"}
        assert [Path(file.path).name for file in ended.left] == ([] if protected else [".envrc"])
        (begun,) = events_of(session, RewindBegun)
        assert len(begun.files) == (2 if protected else 1)
