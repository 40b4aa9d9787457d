"""Values that a rebuild cannot compute: copies, checkpoints, their bound, and what the rebuild says."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from threading import get_ident

import anyio
import pytest

from engine import Session
from engine.core.errors import EnvironmentUnavailableError
from engine.core.execution import KeptGroup
from engine.core.ids import BlobDigest, ExecutionId, Seq
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import ToolResult
from engine.log.events.execution import (
    CheckpointDropped,
    CheckpointTaken,
    EffectAnswered,
    ExecutionFinished,
    ValuesDropped,
    ValuesKept,
)
from engine.log.events.session import EnvironmentRestored
from engine.log.past import Preserved, ValueGroup
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import Droppable, Store
from engine.session import saved_state
from engine.session.journal import Journal
from engine.session.saved_state import LEAST_SECONDS, Drop, HistoryLimit, due_drop
from tests.support.archives import is_there
from tests.support.environments import until
from tests.support.fixed import FixedClock
from tests.support.hollow import HollowEnvironment
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import events_of, in_process, session_in, sessions_of, value_of
from tests.support.stores import A, row

pytestmark = pytest.mark.anyio
SECRET = "s3cret-of-ours"


@pytest.fixture(autouse=True)
def free_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a checkpoint may cost more than a tenth of what the statements here take."""
    monkeypatch.setattr(saved_state, "_TIMES_COST", 0)


def kept(session: Session) -> list[ValuesKept]:
    return events_of(session, ValuesKept)


def names_kept(session: Session) -> set[str]:
    return {name for event in kept(session) for group in event.groups for name in group.names}


def told(session: Session) -> tuple[str, ...]:
    """What the last rebuild said."""
    return events_of(session, EnvironmentRestored)[-1].divergences


async def idle(session: Session, *names: str) -> None:
    """Returns when there are copies of these names."""
    await until(lambda: names_kept(session) >= set(names))


async def test_values_are_saved_with_reasons_after_the_result(tmp_path: Path) -> None:
    model = AnsweringModel(runs("import threading\nx, y = [1], threading.Lock()", "z = 1"))
    async with session_in(tmp_path, model=model) as session:
        await session.accept("go").end()
        await idle(session, "x", "z")
        first, second = kept(session)
        order = [event for event in session.events if isinstance(event, ExecutionFinished | ToolResult | ValuesKept)]
    assert first.unkept == {"y": "the value holds a lock, which cannot be copied"}
    assert [type(event) for event in order] == [ExecutionFinished, ToolResult, ValuesKept] * 2
    assert {group.names: bool(group.data) for group in first.groups} == {("threading",): True, ("x",): True}
    assert second.execution_id == order[3].execution_id


ACTS = {
    "a file": "import io\nio.open('out.txt', 'w').write('x'); n = 5",
    "a process": "import subprocess\nn = subprocess.run(['sh', '-c', 'exit 5']).returncode",
    "a stopped one": "n = 5\nwhile True: pass",
    "one with a secret": f"n = 5; {SECRET!r} and None",
}


@pytest.mark.parametrize("what", ACTS)
async def test_names_of_unrepeatable_statements_survive_a_load(tmp_path: Path, what: str) -> None:
    store = MemoryStore(FixedClock())
    async with session_in(tmp_path, store, A_TOKEN=SECRET) as session:
        await session.cell(ACTS[what], 0.3 if what == "a stopped one" else None)
        await session.cell("m = n + 1; big = [n] * 300_000" if what == "a file" else "m = n + 1")
    (tmp_path / "out.txt").unlink(missing_ok=True)
    async with session_in(tmp_path, store, load=session.session_id, A_TOKEN=SECRET) as session:
        assert (await session.cell("n, m")).value == "(5, 6)"
        assert not any("no copy" in sentence for sentence in told(session))
    assert not (tmp_path / "out.txt").exists()


async def test_large_value_is_saved_by_the_time_the_session_closes(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with session_in(tmp_path, store) as session:
        await session.cell("import os\nbig, status = list(range(300_000)), os.system('true')")
    async with session_in(tmp_path, store, load=session.session_id) as session:
        assert "big" in names_kept(session)
        assert (await session.cell("len(big), big[-1], status")).value == "(300000, 299999, 0)"


async def test_value_with_a_secret_is_named_and_not_stored(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with session_in(tmp_path, store, A_TOKEN=SECRET) as session:
        await session.cell(
            "import os\nos.system('true')\ntoken, fine, more = 's3cret-' + 'of-ours', [1], ['long' * 100]"
        )
        await idle(session, "token", "fine", "more")
    (event,) = kept(session)
    groups = {group.names: group for group in event.groups}
    assert groups["token",].content is None
    assert groups["token",].data == b""
    assert groups["token",].withheld
    contents = [store.blob_get(digest) for digest in store.contents(session.session_id)]
    assert contents
    assert not any(SECRET.encode() in content for content in contents)
    async with session_in(tmp_path, store, load=session.session_id, A_TOKEN=SECRET) as session:
        assert (await session.cell("fine, 'token' in globals()")).value == "([1], False)"
        assert "no copy of token (its copy contained a secret and was not saved)" in told(session)[-1]


@pytest.mark.parametrize("before", [(1 << 20) - 6, (1 << 20) - (64 << 10) + 3, 5 << 20])
async def test_secret_is_found_anywhere_in_a_large_value(tmp_path: Path, before: int) -> None:
    store = MemoryStore(FixedClock())
    data = b"\xff" * before + SECRET.encode()
    environment = Pickling(Preserved(groups=(ValueGroup(("x",), data),)))
    async with session_in(tmp_path, store, environments=lambda: environment, A_TOKEN=SECRET) as session:
        await session.cell("x = 1")
        await idle(session, "x")
    assert [group.content for event in kept(session) for group in event.groups] == [None]


async def test_small_value_is_in_its_event_and_large_one_content(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with session_in(tmp_path, store) as session:
        await session.cell("import os\nos.system('true'); small, large = [1], 'x' * 300")
        await idle(session, "small", "large")
        groups = {group.names[0]: group for event in kept(session) for group in event.groups}
        assert (groups["small"].content, groups["large"].data) == (None, b"")
        assert store.contents(session.session_id) == {groups["large"].content}
    async with session_in(tmp_path, store, load=session.session_id) as session:
        assert (await session.cell("small, len(large)")).value == "([1], 300)"


async def test_cell_events_begin_no_commit_of_their_own(session: Session) -> None:
    await session.cell("x = 1")
    before = len(session.events)
    await session.cell("y = [1]")
    await idle(session, "y")
    assert [event.kind for event in session.events[before:] if not event.waits] == []


class Following(HollowEnvironment):
    """Has kept what each statement changed by the time that it has ended."""

    def kept(self) -> Preserved | None:
        return group(self.ran[-1][0])

    async def preserve(self, large: bool) -> Preserved:
        raise AssertionError("nothing is left to be asked for")


async def test_values_that_come_with_the_statement_are_not_requested(tmp_path: Path) -> None:
    environment = Following()
    async with session_in(tmp_path, environments=lambda: environment) as session:
        await session.cell("x = 1")
        before = len(session.events)
        await session.cell("y = 2")
        assert [event.kind for event in session.events[before:]][:2] == ["values_kept", "user_message"]
        await idle(session, "y")  # which no further statement follows
        assert [group.names for event in kept(session) for group in event.groups] == [("x",), ("y",)]


class Pickling(HollowEnvironment):
    """Gives what the test says: the answers of `preserve` and then of `collect`, each when it is told to."""

    def __init__(self, *answers: Preserved) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[str] = []
        self.go = anyio.Event()
        self.go.set()
        self.lost_at = ""

    async def preserve(self, large: bool) -> Preserved:
        return await self._answer("large" if large else "small")

    async def collect(self) -> Preserved:
        return await self._answer("collect")

    async def _answer(self, asked: str) -> Preserved:
        self.asked.append(asked)
        await self.go.wait()
        if asked == self.lost_at:
            self.alive = False
            raise EnvironmentUnavailableError("gone")
        return self.answers.pop(0) if self.answers else Preserved()


def group(name: str) -> Preserved:
    return Preserved(groups=(ValueGroup((name,), name.encode()),))


async def cell_in(environment: Pickling, tmp_path: Path, then: Callable[[Session], object]) -> None:
    async with session_in(tmp_path, environments=lambda: environment) as session:
        await session.cell("x = 1")
        await until(lambda: bool(then(session)))


async def test_next_statement_waits_for_saving_and_the_reply_does_not(tmp_path: Path) -> None:
    environment = Pickling(group("x"))
    environment.go = anyio.Event()
    async with session_in(tmp_path, environments=lambda: environment) as session:
        await session.cell("x = 1")
        await until(lambda: environment.asked == ["small"])
        second = session.accept("y = 2")
        assert environment.ran == ["x = 1"]
        # A cancel meanwhile must not end the worker in the middle of its answer.
        third = session.accept("z = 3")
        session.cancel(third)
        environment.go.set()
        await second.end()
        assert environment.ran == ["x = 1", "y = 2"]
        assert names_kept(session) == {"x"}


async def test_what_takes_longer_is_collected_while_the_session_is_idle(tmp_path: Path) -> None:
    pending = Preserved(pending=True)
    environment = Pickling(pending, pending, pending, Preserved(groups=group("x").groups, pending=True), group("y"))
    await cell_in(environment, tmp_path, lambda session: names_kept(session) == {"x", "y"})
    assert environment.asked == ["small", "collect", "collect", "collect", "collect"]


async def test_values_are_collected_before_the_next_statement(tmp_path: Path) -> None:
    environment = Pickling(Preserved(pending=True))
    async with session_in(tmp_path, environments=lambda: environment) as session:
        session.accept("x = 1")
        environment.lost_at = "collect"
        assert (await session.cell("y = 2")).status == "ok"
        assert environment.asked[:2] == ["small", "collect"]
        assert environment.requests.count("restore") == 1


class Noting(MemoryStore):
    """Notes on which threads contents are put."""

    def __init__(self) -> None:
        super().__init__(FixedClock())
        self.threads: set[int] = set()

    def blob_put(self, data: bytes) -> BlobDigest:
        self.threads.add(get_ident())
        return super().blob_put(data)


async def test_many_values_are_stored_off_the_event_loop(tmp_path: Path) -> None:
    store = Noting()
    many = Preserved(groups=tuple(ValueGroup((f"n{number}",), b"%d" % number) for number in range(1000)))
    environment = Pickling(many)
    async with session_in(tmp_path, store, environments=lambda: environment) as session:
        await session.cell("x = 1")
        await idle(session, "n0", "n999")
    assert len(names_kept(session)) == len(many.groups)
    assert get_ident() not in store.threads


async def test_a_close_waits_for_what_is_on_its_way(tmp_path: Path) -> None:
    environment = Pickling(group("x"))
    environment.go = anyio.Event()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions, anyio.create_task_group() as tasks:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        await until(lambda: environment.asked == ["small"])
        tasks.start_soon(sessions.close, session.session_id)
        await anyio.wait_all_tasks_blocked()
        environment.go.set()
        await until(lambda: names_kept(session) == {"x"})


END = "import os; os._exit(1)"


async def run(session: Session, *sources: str) -> None:
    for source in sources:
        await session.cell(source)


async def rebuilt(session: Session) -> EnvironmentRestored:
    """Loses the worker, and says how the next one came about."""
    await run(session, END, "'again'")
    return events_of(session, EnvironmentRestored)[-1]


@pytest.mark.parametrize("in_turns", [True, False], ids=["in turns", "as cells"])
async def test_nothing_is_said_of_handles_that_are_listed_and_used(tmp_path: Path, in_turns: bool) -> None:
    (tmp_path / "a.py").write_text("".join(f"line {number}\n" for number in range(200)))
    statements = ["a = view('a.py', tokens=60); ls()", "ls()", "a.SetPos('90'); b = view('a.py'); ls()", "ls()", "b"]
    async with session_in(tmp_path) as session:
        for statement in statements:
            await (session.accept(statement).end() if in_turns else session.cell(statement))
        restored = await rebuilt(session)
    assert restored.executions == len(statements)
    assert restored.divergences == ()


async def test_model_hears_of_a_rebuild_once_and_looks_consume_nothing(tmp_path: Path) -> None:
    model = AnsweringModel(runs("import random", "r = random.random()"))
    async with session_in(tmp_path, model=model) as session:
        await session.accept("draw a number").end()
        await run(session, END, "'again'")
        assert "rebuilt in a new worker" in (await session.projection()).prompt.tail
        before = len(model.prompts)
        await session.accept("go on").end()
        await session.accept("and on").end()
    told, later = model.prompts[before:]
    assert told.tail.endswith("\nnamespace: rebuilt in a new worker: 2 statements ran again\n")
    assert "left another value" not in told.tail  # its copy has the value that it had
    assert later.tail == ""


REFUSING = """
import os, random
class Refusing:
    def __init__(self): self.n = random.random()
    def __getstate__(self):
        if os.path.exists(refuse): raise ValueError('not now')
        return self.__dict__
if os.path.exists(refuse): lost = Refusing()
refusing = [Refusing()]
"""


async def test_value_without_a_copy_stays_what_the_rebuild_made(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    (tmp_path / "refuse").touch()
    async with session_in(tmp_path, store, environments=in_process) as session:
        await run(session, f"refuse = {str(tmp_path / 'refuse')!r}", REFUSING)
    (tmp_path / "refuse").unlink()
    shown = "n, refusing[0].n == n, 'lost' in globals()"
    values: list[str | None] = []
    for source in (f"n = refusing[0].n\n{shown}", shown, shown):
        async with session_in(tmp_path, store, load=session.session_id, environments=in_process) as session:
            values.append((await session.cell(source)).value)
            said = [event.divergences for event in events_of(session, EnvironmentRestored)]
        (tmp_path / "refuse").touch()
    assert values[0] == values[1] == values[2]
    assert all(line.startswith("<statement 2> ") for lines in said for line in lines)


ACT = "number = os.open('made', os.O_CREAT | os.O_WRONLY | os.O_APPEND); os.write(number, b'once'); os.close(number)"


async def test_checkpoint_restores_unrepeatable_names_after_a_crash(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        key = await value_of(session, f"import os; key = os.urandom(8); made = iter([1, 2]); next(made); {ACT}; key")
        await session.cell("os._exit(1)")
        assert await value_of(session, "key") == key
        assert await value_of(session, "next(made)") == "2"
        (restored,) = events_of(session, EnvironmentRestored)
        assert (restored.executions, restored.divergences) == (0, ())
        assert (tmp_path / "made").read_bytes() == b"once"
        assert (
            events_of(session, CheckpointTaken)[0].execution_id == events_of(session, ExecutionFinished)[0].execution_id
        )


async def test_rewind_and_switch_restore_each_sides_namespace(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        first = await value_of(session, f"import os; key = os.urandom(8); {ACT}; key")
        second = await value_of(session, f"key = os.urandom(8); {ACT}; key")
        await session.rewind(1)
        assert await value_of(session, "key") == first
        await session.switch("main")
        assert await value_of(session, "key") == second
        assert [each.executions for each in events_of(session, EnvironmentRestored)] == [0, 0]


async def test_a_statement_that_is_left_out_goes_back_before_it(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        first = await value_of(session, f"import os; key = os.urandom(8); {ACT}; key")
        await value_of(session, f"key = 2; {ACT}")
        await session.accept("/omit 2").end()
        assert await value_of(session, "key") == first


async def test_live_replay_begins_at_the_checkpoint_before_it(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        await value_of(session, f"import os; key = os.urandom(8); {ACT}")
        await value_of(session, "again = key")
        assert (await session.replay(2, mode="live")).outcome == "completed"
        assert [each.executions for each in events_of(session, EnvironmentRestored)] == [0]
        # What is left behind a replay that ends earlier begins at the one after that.
        await session.replay(1, 1, mode="live")
        assert await value_of(session, "again == key") == "True"
        assert [each.executions for each in events_of(session, EnvironmentRestored)] == [0, 1]


async def test_why_there_is_no_checkpoint_is_said_once(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        await value_of(
            session, f"import os, threading; t = threading.Event(); threading.Thread(target=t.wait).start(); {ACT}"
        )
        for _ in range(3):
            await value_of(session, ACT)
        await value_of(session, "t.set()")
        reasons = [each.reason for each in events_of(session, CheckpointDropped)]
        assert reasons == ["1 running thread of statements"]
        await session.cell("os._exit(1)")
        assert await value_of(session, "number >= 0") == "True"


async def first_taken_after(session: Session) -> list[int]:
    """The numbers of the statements with a checkpoint, once there is one."""
    await until(lambda: bool(events_of(session, CheckpointTaken)))
    return taken_after(session)


def taken_after(session: Session) -> list[int]:
    """The numbers of the statements with a checkpoint that is recorded."""
    numbers = [event.execution_id for event in events_of(session, ExecutionFinished)]
    return [numbers.index(event.execution_id) + 1 for event in events_of(session, CheckpointTaken)]


async def test_going_back_past_a_slow_statement_does_not_run_it_again(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        await session.cell("import time; runs = [1]; time.sleep(1); x = object()")
        x = await value_of(session, "id(x)")
        await session.cell("x = None")
        for act in (lambda: session.rewind(1), lambda: session.switch("main"), lambda: session.edit(3, "y = id(x)")):
            await act()
            assert await value_of(session, "runs") == "[1]"
        assert await value_of(session, "y") == x
        assert [each.executions for each in events_of(session, EnvironmentRestored)][:2] == [0, 2]
        assert await first_taken_after(session) == [1]


async def test_time_limit_restores_what_was_slow_without_running_it(tmp_path: Path) -> None:
    async with session_in(tmp_path, settings={"statement_seconds": 0.5}) as session:
        await session.cell("import time; time.sleep(0.4); x = object()")
        x = await value_of(session, "id(x)")
        stubborn = "while True:\n    try:\n        while True: time.sleep(9)\n    except BaseException: pass"
        assert (await session.cell(stubborn)).status == "timeout"
        assert await value_of(session, "id(x)") == x
        assert [each.executions for each in events_of(session, EnvironmentRestored)] == [1]


async def test_a_load_runs_again_and_the_next_rewind_does_not(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with session_in(tmp_path, store) as session:
        await session.cell("import time; time.sleep(0.5); x = object()")
        await session.cell("y = 1")
    async with session_in(tmp_path, store, load=session.session_id) as session:
        x = await value_of(session, "id(x)")
        await session.rewind(2)
        assert await value_of(session, "id(x)") == x
        assert [each.executions for each in events_of(session, EnvironmentRestored)] == [2, 0]


async def test_fast_statements_have_no_checkpoint_until_they_add_up(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        for source in ("import time", "1", "write('a', 'b')", *("time.sleep(0.08)",) * 3, "2"):
            assert (await session.cell(source)).status == "ok"
        times = list(accumulate(event.time_ms / 1000 for event in events_of(session, ExecutionFinished)))
        assert await first_taken_after(session) == [next(n for n, time in enumerate(times, 1) if time >= LEAST_SECONDS)]


async def test_none_is_taken_that_costs_more_than_a_tenth_of_the_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_state, "_TIMES_COST", 10)
    monkeypatch.setattr(saved_state, "_COST", 1.0)
    async with session_in(tmp_path) as session:
        for source in ("import time; time.sleep(0.25)", "1"):
            await session.cell(source)
        assert taken_after(session) == []


async def test_a_statement_that_cannot_repeat_has_a_checkpoint(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        await value_of(session, f"import os; {ACT}")
        await value_of(session, "1")
        assert await first_taken_after(session) == [1]


async def test_without_the_setting_none_is_taken(tmp_path: Path) -> None:
    async with session_in(tmp_path, settings={"restore_by": "re-execution"}) as session:
        await value_of(session, f"import os; {ACT}")
        await value_of(session, "1")
        assert not events_of(session, CheckpointTaken)


SECONDS = 10.0


def droppable(*items: tuple[int, int]) -> list[Droppable]:
    return [Droppable(seq=Seq(seq), size=size) for seq, size in items]


DROPS = {
    "as large as allowed": ([(1, 50), (2, 50)], 100, 100, None),
    "one too much": ([(1, 50), (2, 50)], 101, 100, Drop(Seq(2), 1, 50)),
    "nine tenths stay": ([(1, 5), (2, 5), (3, 90)], 101, 100, Drop(Seq(4), 3, 100)),
    "one event's together": ([(1, 50), (1, 1), (2, 50)], 101, 100, Drop(Seq(2), 2, 51)),
    "not enough": ([(3, 50)], 1000, 100, Drop(Seq(4), 1, 50)),
    "none": ([], 1000, 100, None),
}


@pytest.mark.parametrize(("items", "size", "limit", "expected"), DROPS.values(), ids=DROPS)
def test_the_oldest_go_until_nine_tenths_are_left(
    items: list[tuple[int, int]], size: int, limit: int, expected: Drop | None
) -> None:
    assert due_drop(droppable(*items), size, limit) == expected


class Live:
    """A session's log and journal over a store, and the bound on it."""

    def __init__(self, store: Store, limit: int, history: Sequence[Event] = ()) -> None:
        self.store = store
        self.journal = Journal(store, A)
        self.log = EventLog(FixedClock(), self.journal.write)
        self.bound = HistoryLimit(store, A, self.log, self.journal, limit)
        if history:
            self.log.load(history)
            self.journal.opened_at(Seq(len(history) - 1))
        else:
            store.create(row(A))
        store.acquire(A, self.journal.committed)

    async def keep(self, execution: str, *contents: bytes) -> list[BlobDigest]:
        digests = [self.store.blob_put(data) for data in contents]
        groups = tuple(KeptGroup(names=("x",), content=digest, size=1) for digest in digests)
        self.log.append(ValuesKept(execution_id=ExecutionId(execution), groups=groups))
        await self.enforce()
        return digests

    def answer(self, data: bytes) -> BlobDigest:
        digest = self.store.blob_put(data)
        self.log.append(EffectAnswered(execution_id=ExecutionId("x"), ordinal=0, operation="read", result=digest))
        return digest

    async def enforce(self) -> None:
        with anyio.fail_after(SECONDS):
            await self.bound.enforce()
            await self.settled()

    async def settled(self) -> None:
        await self.journal.durable(Seq(len(self.log) - 1))

    def drops(self) -> list[ValuesDropped]:
        return [event for event in self.log.events if isinstance(event, ValuesDropped)]


async def test_the_oldest_values_go_and_the_log_says_so(store: Store) -> None:
    live = Live(store, limit=10_000)
    answer = live.answer(os.urandom(3000))
    (first,) = await live.keep("one", os.urandom(3000))
    second = await live.keep("two", os.urandom(1000), os.urandom(1000))
    assert live.drops() == []
    (third,) = await live.keep("three", os.urandom(2500))
    (said,) = live.drops()
    assert (said.before, said.executions, said.copies, said.limit) == (2, 1, 1, 10_000)
    assert 3000 <= said.size <= 3100
    assert [is_there(store, digest) for digest in (answer, first, *second, third)] == [True, False, True, True, True]
    assert store.row(A).contents_size <= 9000
    await live.keep("four", os.urandom(2600))
    assert (live.drops()[1].executions, live.drops()[1].copies) == (1, 2)
    assert is_there(store, third)


async def test_what_is_no_value_stays_however_much_it_is(store: Store) -> None:
    live = Live(store, limit=1000)
    answers = [live.answer(os.urandom(2000)) for _ in range(3)]
    (value,) = await live.keep("one", b"value")
    assert [is_there(store, digest) for digest in (*answers, value)] == [True, True, True, False]
    await live.enforce()
    assert len(live.drops()) == 1  # and nothing is said where nothing can go


async def test_what_packs_well_counts_as_it_is_packed(store: Store) -> None:
    live = Live(store, limit=100_000)
    (digest,) = await live.keep("one", bytes(5_000_000))
    assert live.drops() == []
    assert is_there(store, digest)


async def test_a_session_that_takes_nothing_any_more_drops_nothing(store: Store) -> None:
    live = Live(store, limit=1000)
    live.log.append(ValuesKept(execution_id=ExecutionId("x"), groups=()))
    await live.settled()
    store.release(A)
    store.close()
    before = len(live.log)
    await live.bound.enforce()
    assert len(live.log) == before


async def test_lower_limit_applies_at_the_next_value(store: Store) -> None:
    live = Live(store, limit=1_000_000)
    (old,) = await live.keep("one", os.urandom(5000))
    store.release(A)
    again = Live(store, limit=2000, history=live.log.events)
    (new,) = await again.keep("two", b"new")
    assert (is_there(store, old), is_there(store, new)) == (False, True)


async def test_deleted_name_does_not_return_with_its_shared_objects(session: Session, tmp_path: Path) -> None:
    changing = "if os.path.exists('a.txt'): c = [a]\nelse: del a"
    for source in ("import os; a = [1]; b = {'k': a}; c = [a, b]", "del b", changing):
        await session.cell(source)
    (tmp_path / "a.txt").write_text("now")
    await session.cell("os._exit(1)")
    assert (await session.cell("sorted({'a', 'b', 'c'} & globals().keys()), c")).value == "(['c'], [[1], {'k': [1]}])"
    assert told(session)[-1] == "<statement 3> deleted other names: a; c restored from copies"
