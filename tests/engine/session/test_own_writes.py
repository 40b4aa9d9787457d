"""Files that a statement's own code writes: what they held is on the log before, and what became of them afterwards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine import Session
from engine.core.clock import SystemClock
from engine.core.execution import TextChange
from engine.core.ids import SessionId
from engine.files.revision import digest_of
from engine.log.events import Event
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import EffectRequested, ExecutionFinished, FileTouched, FileWritten
from engine.log.events.session import Mode
from engine.log.store.memory import MemoryStore
from tests.support.environments import until
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import events_of, session_in

pytestmark = pytest.mark.anyio


async def ran(session: Session, source: str) -> ExecutionFinished:
    finished = await session.cell(source)
    assert finished.exception is None, finished.exception
    return finished


def written(session: Session) -> Sequence[FileWritten]:
    return events_of(session, FileWritten)


def touched(session: Session) -> Sequence[FileTouched]:
    return events_of(session, FileTouched)


async def test_own_write_is_recorded_with_both_contents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n")
    store = MemoryStore(SystemClock())
    async with session_in(tmp_path, store, state=tmp_path / "state") as session:
        finished = await ran(session, "from pathlib import Path; n = Path('a.txt').write_text('two\\n')")
        (event,) = written(session)
        (before,) = touched(session)
        assert (event.path, event.noticed, event.note) == (str(tmp_path / "a.txt"), True, "")
        assert (event.before_digest, event.after_digest) == (digest_of(b"one\n"), digest_of(b"two\n"))
        assert event.changes == (TextChange(line=1, old="one\n", new="two\n"),)
        assert before.before is not None
        assert event.after is not None
        assert (store.blob_get(before.before), store.blob_get(event.after)) == (b"one\n", b"two\n")
        assert event.before == before.before
        assert [each.path for each in finished.artifacts] == [event.path]
        call = next(each for each in session.events if isinstance(each, ToolCall) and each.parent_id)
        result = next(each for each in session.events if isinstance(each, ToolResult) and each.parent_id)
        assert (call.tool, call.arguments, event.tool_call_id) == ("write", {"path": event.path}, call.tool_call_id)
        assert result.text == "written by the statement's own code"


class Late(MemoryStore):
    """Keeps nothing from the first event of a kind on, until `go`."""

    def __init__(self, kind: type[Event] = FileTouched) -> None:
        super().__init__(SystemClock())
        self._kind = kind
        self.holds = anyio.Event()
        self._held: list[tuple[SessionId, Event]] = []
        self._is_released = False

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        if not self._is_released and (self._held or isinstance(event, self._kind)):
            self._held.append((session_id, event))
            self.holds.set()
        else:
            super().submit(session_id, event, waits=waits)

    def go(self) -> None:
        self._is_released = True
        for session_id, event in self._held:
            super().submit(session_id, event)


async def test_a_file_changes_only_when_its_content_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n")
    store = Late()
    async with session_in(tmp_path, store, state=tmp_path / "state") as session, anyio.create_task_group() as tasks:
        tasks.start_soon(ran, session, "import os; os.remove('a.txt')")
        await store.holds.wait()
        await anyio.sleep(0.3)  # in which the file would be gone
        is_there = (tmp_path / "a.txt").exists()
        store.go()
    assert is_there
    assert not (tmp_path / "a.txt").exists()


async def test_a_command_runs_only_when_what_led_to_it_is_kept(tmp_path: Path) -> None:
    store = Late(EffectRequested)
    async with session_in(tmp_path, store, state=tmp_path / "state") as session, anyio.create_task_group() as tasks:
        tasks.start_soon(ran, session, "print(bash('touch made'))")
        await store.holds.wait()
        await anyio.sleep(0.3)  # in which it would have run
        has_run = (tmp_path / "made").exists()
        store.go()
    assert not has_run
    assert (tmp_path / "made").exists()


async def test_what_is_as_before_at_the_end_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n")
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        finished = await ran(
            session,
            "import io, os, tempfile; from pathlib import Path\n"
            "io.open('a.txt', 'r+').close()\nfor text in ('x', 'one\\n'): n = Path('a.txt').write_text(text)\n"
            "n = Path('made').write_text('x'); os.remove('made')\n"
            "with tempfile.NamedTemporaryFile() as f: n = f.write(b'x')",
        )
        assert not written(session)
        assert not finished.artifacts
        assert [Path(event.path).name for event in touched(session)][:2] == ["a.txt", "made"]


async def test_writes_of_tool_and_code_are_recorded_once_in_order(tmp_path: Path) -> None:
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        finished = await ran(
            session,
            "from pathlib import Path; p = Path('a.txt'); n = p.write_text('1'); w = write('a.txt', '2')\n"
            "with open('a.txt', 'w') as f: n = f.write('3')\nn = p.write_text('4')",
        )
        # What the code wrote ahead of the tool is told by what the tool found.
        steps = [(each.before_digest, each.after_digest, each.noticed) for each in written(session)]
        one, two, three, four = map(digest_of, (b"1", b"2", b"3", b"4"))
        assert steps == [(one, two, False), (two, three, False), (three, four, True)]
        (artifact,) = finished.artifacts
        assert (artifact.before_digest, artifact.after_digest) == ("", four)


async def test_earlier_content_survives_a_killed_worker(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n")
    (tmp_path / "b.txt").write_bytes(b"as it is\n")
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        finished = await session.cell(
            "import io, os, signal\nf = io.open('b.txt', 'r+'); f = io.open('a.txt', 'w')\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        assert finished.exception is not None
        assert finished.exception.type == "WorkerDied"
        (event,) = written(session)
        assert (event.before_digest, event.after_digest) == (digest_of(b"one\n"), digest_of(b""))
        assert [each.path for each in finished.artifacts] == [event.path]


async def test_removed_moved_and_new_files_are_labelled(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n")
    (tmp_path / "b.bin").write_bytes(b"\0\xff")
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        await ran(session, "import os; os.rename('a.txt', 'c.txt'); os.remove('b.bin')")
        found = {Path(event.path).name: event for event in written(session)}
        assert found["a.txt"].changes == ()  # because the other half of the rename shows the content
        assert (found["a.txt"].after_digest, found["c.txt"].before_digest) == ("", "")
        assert found["c.txt"].changes == (TextChange(line=1, old=None, new="one\n"),)
        assert found["b.bin"].note == "binary, 2 bytes -> text, 0 bytes\nthe file was removed"
        calls = [each.tool for each in session.events if isinstance(each, ToolCall) and each.parent_id]
        assert sorted(calls) == ["remove", "rename"]
        results = [each.text for each in session.events if isinstance(each, ToolResult) and each.parent_id]
        assert sorted(results) == ["", "removed by the statement's own code"]


async def test_a_secret_in_a_file_is_not_kept_but_named(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("KEY=sk-1234567890abcdef\n")
    store = MemoryStore(SystemClock())
    async with session_in(tmp_path, store, state=tmp_path / "state", MY_API_KEY="sk-1234567890abcdef") as session:
        await ran(session, "from pathlib import Path; p = Path('a.env'); n = p.write_text(p.read_text() + 'more\\n')")
        ((before,), (event,)) = touched(session), written(session)
        assert (before.before, event.before, event.after) == (None, None, None)
        assert before.withheld
        assert event.withheld.startswith(before.withheld + " ")
        assert "sk-1234567890abcdef" not in repr(session.events)


async def test_open_file_is_checked_after_each_statement(tmp_path: Path) -> None:
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        await ran(session, "import io, sqlite3; f = io.open('a.log', 'w'); n = f.write('1'); f.flush()")
        await ran(session, "n = f.write('2'); f.flush()")
        await ran(session, "1 + 1")
        await ran(session, "n = f.write('3'); f.close(); c = sqlite3.connect('a.db'); c.isolation_level = None")
        await ran(session, "_ = c.execute('create table t (x)')")
        await ran(session, "c.close()")
        await ran(session, "1 + 1")
        found = [(Path(event.path).name, event.before_digest) for event in written(session)]
        contents = [("a.log", ""), ("a.log", digest_of(b"1")), ("a.log", digest_of(b"12")), ("a.db", "")]
        assert found == [*contents, ("a.db", digest_of(b""))]
        assert [Path(event.path).name for event in touched(session)][-1] == "a.db"


async def test_oversized_file_is_named_without_its_content(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(100 << 20)
    with (tmp_path / "same").open("wb") as file:
        file.truncate(100 << 20)
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        await ran(
            session, "import io; io.open('same', 'r+').close(); f = io.open('large', 'r+'); n = f.write('x'); f.close()"
        )
        (event,) = written(session)
        assert Path(event.path).name == "large"
        assert event.before is None
        assert event.after is None
        assert event.note == (
            "the earlier content is not stored: the file had more than 64 MiB\n"
            "the new content is not stored: the file has more than 64 MiB"
        )


async def test_file_whose_name_is_not_text_is_recorded(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.txt"
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        await ran(session, f"import io; f = io.open({name!r}, 'w'); n = f.write('x'); f.close()")
        (event,) = written(session)
        assert Path(event.path).name == "\ufffd.txt"
        assert event.after_digest == digest_of(b"x")


async def test_what_is_no_regular_file_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "later")
    (tmp_path / "swapped").write_text("x")
    for name in ("gone", "linked", "same"):
        (tmp_path / name).write_text("x")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        await ran(
            session,
            "import io, os, socket\n"
            "os.close(os.open('pipe', os.O_RDWR)); s = socket.socket(socket.AF_UNIX); s.bind('socket'); s.close()\n"
            "io.open('swapped', 'a').close(); os.remove('swapped'); os.rename('later', 'swapped')\n"
            "os.remove('linked'); os.symlink('same', 'linked')\n"
            "io.open('gone', 'a').close(); n = os.system('rm gone')\n"
            "try: io.open('circle', 'w')\nexcept OSError: pass",
        )
        assert sorted(Path(event.path).name for event in written(session)) == ["gone", "linked", "swapped"]
        assert {event.after_digest[:5] for event in written(session)} == {"", "link-"}


async def test_what_happens_between_statements_and_in_forked_processes_is_nobodys(tmp_path: Path) -> None:
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        await ran(
            session,
            "import io, os, threading\ngo, done = threading.Event(), threading.Event()\n"
            "def work():\n    go.wait(20); io.open('by a thread', 'w').close(); done.set()\n"
            "t = threading.Thread(target=work); t.start()\n"
            "if os.fork() == 0:\n    io.open('by a child', 'w').close(); os._exit(0)\n_ = os.wait()\n"
            "threading.Timer(0.05, go.set).start()",
        )
        await until((tmp_path / "by a thread").exists)
        await ran(session, "t.join()")
        assert not touched(session)
        assert (tmp_path / "by a child").exists()


async def test_writing_thread_does_not_wait_for_the_host(tmp_path: Path) -> None:
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        finished = await ran(
            session,
            "import io, threading\n"
            "def work():\n    for n in range(200): io.open(f't{n}', 'w').close()\n    io.open('ready', 'w').close()\n"
            "t = threading.Thread(target=work); t.start()\n"
            "code = bash('until test -e ready; do sleep 0.01; done').code; t.join(); code",
        )
        assert finished.value == "0"
        assert len(touched(session)) == 201


async def test_a_statement_that_is_stopped_has_its_files_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        source = "import pathlib, time; n = pathlib.Path('a.txt').write_text('two'); time.sleep(60)"
        finished = await session.cell(source, seconds=0.3)
        assert finished.status == "timeout"
        assert [each.after_digest for each in finished.artifacts] == [digest_of(b"two")]


async def test_without_a_free_descriptor_an_act_is_counted_and_happens(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        await ran(
            session,
            "import os\nheld = []\ntry:\n    while True: held.append(os.open('/dev/null', os.O_RDONLY))\n"
            "except OSError: os.remove('a.txt')\nfor n in held: os.close(n)\ndel held, n",
        )
        assert not (tmp_path / "a.txt").exists()
        results = [each.text for each in session.events if isinstance(each, ToolResult) and each.parent_id]
        assert results == ["1 more act on files without a record"]


async def test_load_finishes_the_look_of_a_killed_agent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    first = MemoryStore(SystemClock())
    async with session_in(tmp_path, first, state=tmp_path / "state") as session:
        await ran(session, "import pathlib; n = pathlib.Path('a.txt').write_text('two')")
        row = replace(first.row(session.session_id), title="a copy")
        end = next(at for at, event in enumerate(session.events) if isinstance(event, FileTouched))
        events = [first.blob_get(event.before) for event in touched(session) if event.before]
        cut = MemoryStore(SystemClock())
        cut.add(row, [*events, *session.events[: end + 1]])
    async with session_in(tmp_path / "state", cut, load=row.session_id) as session:
        (event,) = written(session)
        (finished,) = events_of(session, ExecutionFinished)
        assert (event.before_digest, event.after_digest) == (digest_of(b"one"), digest_of(b"two"))
        assert event.changes == (TextChange(line=1, old="one", new="two"),)
        assert (finished.status, [each.path for each in finished.artifacts]) == ("cancelled", [event.path])
        assert event.seq < finished.seq


FORGES = """
import gc, os
notices = [each for each in gc.get_objects() if type(each).__name__ == "WriteNotices"][0]
Touching = type(notices).notice.__globals__["Touching"]
notices._transport.send(Touching(number=91, path={path!r}))
{then}
"""
"""Tells the host of a file by a message that nobody asked for."""


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_forged_notice_is_refused(tmp_path: Path, mode: Mode) -> None:
    work = tmp_path / "work"
    work.mkdir()
    mine = work / "mine.py"
    mine.write_text("mine")
    model = AnsweringModel(runs(FORGES.format(path=bytes(mine), then=""), typed=False))
    async with session_in(work, state=tmp_path / "state", model=model, settings={"sandbox": "required"}) as session:
        session.set_mode(mode)
        await session.accept("go").end()
        assert session.cells[0].finished is not None
        assert session.cells[0].finished.status == "ok", session.cells[0].finished.exception
        assert not [event for event in session.events if isinstance(event, FileTouched | FileWritten)]
        await session.rewind(0)
    assert mine.read_text() == "mine"


async def test_host_reads_the_file_that_a_notice_names(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    mine = work / "mine.py"
    mine.write_text("mine")
    mine.chmod(0o640)
    writes = f"import time; time.sleep(0.2); os.system('echo other > {mine}; chmod 755 {mine}')"
    model = AnsweringModel(runs(FORGES.format(path=bytes(mine), then=writes), typed=False))
    async with session_in(work, state=tmp_path / "state", model=model, settings={"sandbox": "required"}) as session:
        session.set_mode("auto")
        await session.accept("go").end()
        (written,) = events_of(session, FileWritten)
        assert (written.before_mode, written.after_mode) == (0o640, 0o755)
        await session.rewind(0)
    assert mine.read_text() == "mine"
    assert mine.stat().st_mode & 0o777 == 0o640


async def test_statement_that_breaks_used_modules_has_its_record(tmp_path: Path) -> None:
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        source = "import fcntl, io, os\nf = io.open('a', 'w'); fcntl.fcntl = os.path.join = os.scandir = None; x = 1"
        assert (await session.cell(source)).exception is None
        assert (await session.cell("f.close(); x")).value == "1"
        assert [Path(event.path).name for event in written(session)] == ["a"]
