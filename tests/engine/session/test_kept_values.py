"""What a rebuild cannot run again is kept after each statement, when nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import get_ident

import anyio
import pytest

from engine import Session
from engine.core.errors import EnvironmentUnavailableError
from engine.core.ids import BlobDigest
from engine.log.events.conversation import ToolResult
from engine.log.events.execution import ExecutionFinished, ValuesKept
from engine.log.events.session import EnvironmentRestored
from engine.log.past import Preserved, ValueGroup
from engine.log.store.memory import MemoryStore
from tests.support.environments import until
from tests.support.fixed import FixedClock
from tests.support.hollow import HollowEnvironment
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
SECRET = "s3cret-of-ours"


def kept(session: Session) -> list[ValuesKept]:
    return [event for event in session.events if isinstance(event, ValuesKept)]


def names_kept(session: Session) -> set[str]:
    return {name for event in kept(session) for group in event.groups for name in group.names}


def told(session: Session) -> tuple[str, ...]:
    """What the last rebuild said."""
    return [event for event in session.events if isinstance(event, EnvironmentRestored)][-1].divergences


async def idle(session: Session, *names: str) -> None:
    """Returns when there are copies of these names."""
    await until(lambda: names_kept(session) >= set(names))


async def test_what_a_statement_bound_is_kept_with_its_reasons_after_its_result(tmp_path: Path) -> None:
    model = AnsweringModel(runs("import threading\nx, y = [1], threading.Lock()", "z = 1"))
    async with sessions_of(tmp_path, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("go").end()
        await idle(session, "x", "z")
        first, second = kept(session)
        order = [event for event in session.events if isinstance(event, ExecutionFinished | ToolResult | ValuesKept)]
    assert first.unkept == {"y": "it holds a lock, which cannot be copied"}
    assert [type(event) for event in order] == [ExecutionFinished, ToolResult, ValuesKept] * 2
    assert {group.names: bool(group.data) for group in first.groups} == {("threading",): True, ("x",): True}
    assert second.execution_id == order[3].execution_id  # type: ignore[union-attr]


ACTS = {
    "a file": "import io\nio.open('out.txt', 'w').write('x'); n = 5",
    "a process": "import subprocess\nn = subprocess.run(['sh', '-c', 'exit 5']).returncode",
    "a stopped one": "n = 5\nwhile True: pass",
    "one with a secret": f"n = 5; {SECRET!r} and None",
}


@pytest.mark.parametrize("what", ACTS)
async def test_a_name_of_a_statement_that_cannot_run_again_is_there_after_a_load(tmp_path: Path, what: str) -> None:
    store = MemoryStore(FixedClock())
    async with sessions_of(tmp_path, store, A_TOKEN=SECRET) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell(ACTS[what], 0.3 if what == "a stopped one" else None)
        await session.cell("m = n + 1; big = [n] * 300_000" if what == "a file" else "m = n + 1")
    (tmp_path / "out.txt").unlink(missing_ok=True)
    async with sessions_of(tmp_path, store, A_TOKEN=SECRET) as sessions:
        session = await sessions.load(session.session_id)
        assert (await session.cell("n, m")).value == "(5, 6)"
        assert not any("no copy" in sentence for sentence in told(session))
    assert not (tmp_path / "out.txt").exists()


async def test_a_large_value_of_a_statement_that_acted_is_kept_by_the_time_the_session_is_closed(
    tmp_path: Path,
) -> None:
    store = MemoryStore(FixedClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("import os\nbig, status = list(range(300_000)), os.system('true')")
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.load(session.session_id)
        assert "big" in names_kept(session)
        assert (await session.cell("len(big), big[-1], status")).value == "(300000, 299999, 0)"


async def test_a_group_that_holds_a_secret_is_not_stored_but_named(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with sessions_of(tmp_path, store, A_TOKEN=SECRET) as sessions:
        session = await sessions.create(str(tmp_path))
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
    async with sessions_of(tmp_path, store, A_TOKEN=SECRET) as sessions:
        session = await sessions.load(session.session_id)
        assert (await session.cell("fine, 'token' in globals()")).value == "([1], False)"
        assert "no copy of token (its copy held a secret and was not kept)" in told(session)[-1]


@pytest.mark.parametrize("before", [(1 << 20) - 6, (1 << 20) - (64 << 10) + 3, 5 << 20])
async def test_a_secret_is_found_wherever_it_is_in_a_large_group(tmp_path: Path, before: int) -> None:
    store = MemoryStore(FixedClock())
    data = b"\xff" * before + SECRET.encode()
    environment = Pickling(Preserved(groups=(ValueGroup(("x",), data),)))
    async with sessions_of(tmp_path, store, environments=lambda: environment, A_TOKEN=SECRET) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        await idle(session, "x")
    assert [group.content for event in kept(session) for group in event.groups] == [None]


async def test_a_small_value_is_within_its_event_and_a_larger_one_is_content(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("import os\nos.system('true'); small, large = [1], 'x' * 300")
        await idle(session, "small", "large")
        groups = {group.names[0]: group for event in kept(session) for group in event.groups}
        assert (groups["small"].content, groups["large"].data) == (None, b"")
        assert store.contents(session.session_id) == {groups["large"].content}
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.load(session.session_id)
        assert (await session.cell("small, len(large)")).value == "([1], 300)"


async def test_no_event_of_a_statement_from_outside_a_turn_begins_a_commit_by_itself(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
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


async def test_values_that_followed_by_themselves_are_recorded_ahead_of_the_next_statement_and_not_asked_for(
    tmp_path: Path,
) -> None:
    environment = Following()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
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
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        await until(lambda: bool(then(session)))


async def test_a_reply_does_not_wait_for_what_is_kept_and_the_next_statement_does(tmp_path: Path) -> None:
    environment = Pickling(group("x"))
    environment.go = anyio.Event()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
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


async def test_what_is_there_is_collected_before_the_next_statement_and_lost_with_its_worker(tmp_path: Path) -> None:
    environment = Pickling(Preserved(pending=True))
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
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


async def test_other_sessions_go_on_while_the_values_of_very_many_names_are_stored(tmp_path: Path) -> None:
    store = Noting()
    many = Preserved(groups=tuple(ValueGroup((f"n{number}",), b"%d" % number) for number in range(1000)))
    environment = Pickling(many)
    async with sessions_of(tmp_path, store, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        await idle(session, "n0", "n999")
    assert len(names_kept(session)) == len(many.groups)
    assert get_ident() not in store.threads


async def test_a_worker_that_is_lost_meanwhile_leaves_its_names_without_a_copy(tmp_path: Path) -> None:
    environment = Pickling(Preserved(pending=True))
    environment.lost_at = "collect"
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        await until(lambda: not environment.alive)
        await session.cell("y = 2")
        await until(lambda: environment.asked[-1] == "small")
        assert kept(session) == []
        assert environment.restored == ["x = 1"]


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
