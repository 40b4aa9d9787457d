"""Restoring a namespace from a checkpoint and by running its history again: the same namespace, nothing left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.ids import ExecutionId
from engine.log.events.nodes import RevisionAdopted
from engine.log.past import CheckpointNews, PastRevision, PastStep, PastTick, Restored, RestorePlan
from engine.runtime import checkpoint_memory, worker_environment
from engine.runtime.checkpoint_memory import NO_ROOM, SHORT, TOO_LARGE, CheckpointMemory
from engine.runtime.checkpoints import MOST
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.environments import PATIENCE, Bench, contents, ended_otherwise, kept, opened, past, refuse, until
from tests.support.workers import gone, shared_zygote

pytestmark = pytest.mark.slow


class History:
    """A namespace with what it went through; `forks` says whether checkpoints are taken where they may be."""

    def __init__(self, b: Bench[WorkerEnvironment], *, forks: bool) -> None:
        self.b = b
        self.forks = forks
        self.steps: list[PastStep] = []
        self.news: list[CheckpointNews] = []

    async def run(self, source: str, *, keep: bool = False) -> str | None:
        """Runs a statement that has to succeed; its value. A checkpoint follows if it is to `keep` its state."""
        step = past(source, label=f"<statement {len(self.steps) + 1}>")
        with anyio.fail_after(PATIENCE):
            outcome = await self.b.environment.run(step.request, refuse, self.b.take)
        assert outcome.status == "ok", outcome.exception
        seen = tuple(_seen(event, outcome.contents) for event in outcome.events if isinstance(event, RevisionAdopted))
        self.steps.append(replace(step, revisions=seen))
        if keep and self.forks:
            await self.keep(step.request.execution_id)
        return outcome.value

    async def tick(self, round_id: int) -> None:
        """A tick that finds nothing new."""
        outcome = await self.b.environment.tick(round_id, float(round_id))
        assert outcome.nodes
        assert not [event for event in outcome.events if isinstance(event, RevisionAdopted)]
        self.steps.append(PastTick(round_id=round_id, now=float(round_id)))

    async def ask(self) -> None:
        """Asks for a checkpoint, and waits for nothing."""
        assert await self.b.environment.snapshot(self.execution(-1))

    async def keep(self, execution_id: str) -> CheckpointNews:
        """Takes a checkpoint; what came of it."""
        assert await self.b.environment.snapshot(ExecutionId(execution_id))
        before = len(self.news)
        await until(lambda: len(self.hear()) > before)
        return self.news[before]

    def execution(self, number: int) -> ExecutionId:
        """The execution of the statement of that number, from 0."""
        step = self.steps[number]
        return step.request.execution_id

    def hear(self) -> list[CheckpointNews]:
        self.news += self.b.environment.checkpoints()
        return self.news

    async def restore(self, steps: int | None = None) -> Restored:
        """Restores what was there after so many steps."""
        self.steps = self.steps[:steps]
        plan = RestorePlan(steps=tuple(self.steps))
        with anyio.fail_after(PATIENCE):
            return await self.b.environment.restore(plan, contents, ended_otherwise)


def _seen(event: RevisionAdopted, contents: Mapping[str, bytes]) -> PastRevision:
    return PastRevision(
        path=event.path,
        look=event.look,
        state=event.state,
        digest=event.digest,
        size=event.size,
        content=kept(contents[event.digest]),
    )


@pytest.fixture(params=["checkpoint", "re-execution"])
async def h(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[History]:
    """A history that is restored in one of the two ways."""
    async with opened(WorkerEnvironment(shared_zygote()), tmp_path) as bench:
        yield History(bench, forks=request.param == "checkpoint")


@pytest.fixture
async def forked(tmp_path: Path) -> AsyncIterator[History]:
    """A history with checkpoints."""
    async with opened(WorkerEnvironment(shared_zygote()), tmp_path) as bench:
        yield History(bench, forks=True)


async def test_the_namespace_is_what_it_was_however_it_is_restored(h: History) -> None:
    await h.run("x = [1]\nclass C: pass\nc = C(); c.x = x", keep=True)
    await h.run("x.append(2); y = 3")
    restored = await h.restore(1)
    assert restored.executions == (0 if h.forks else 1)
    assert restored.checkpoint == (h.execution(0) if h.forks else None)
    assert await h.b.value("x, c.x is x, type(c) is C, 'y' in globals()") == "([1], True, True, False)"


async def test_what_came_after_the_checkpoint_runs_again(h: History) -> None:
    await h.run("x = [1]", keep=True)
    await h.run("x.append(len(x) + 1)")
    await h.run("import os")
    restored = await h.restore()
    assert restored.executions == (2 if h.forks else 3)
    assert await h.b.value("x, os.getpid() > 0") == "([1, 2], True)"


async def test_generators_locks_randomness_and_file_positions_are_restored(h: History) -> None:
    (h.b.cwd / "lines").write_text("one\ntwo\nthree\n")
    await h.run(
        "import os, random, threading\nrandom.seed(7); first = random.random()\n"
        "steps = iter(range(9)); made = (n * n for n in steps); next(made); next(made)\n"
        "lock = threading.Lock(); lock.acquire()\n"
        "text = open('lines'); text.readline(); raw = os.open('lines', os.O_RDONLY); os.read(raw, 4)",
        keep=True,
    )
    seen = "[random.random(), next(made), lock.locked(), text.readline(), os.read(raw, 3)]"
    live = await h.b.value(seen)
    for _ in range(2):
        await h.restore()
        assert await h.b.value(seen) == live
        assert await h.b.value("[next(made), text.readline(), os.read(raw, 3)]") == "[9, 'three\\n', b'\\nth']"


async def test_sockets_and_pipes_are_shared_with_the_last_worker(h: History) -> None:
    await h.run("import socket, subprocess, os\nleft, right = socket.socketpair(); r, w = os.pipe()", keep=True)
    await h.restore()
    assert await h.b.value("type(left).__name__, left.fileno() >= 0, os.fstat(w).st_nlink") == "('socket', True, 1)"


async def test_running_thread_prevents_a_checkpoint(forked: History) -> None:
    source = "import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait); t.start(); x = 1"
    await forked.run(source)
    news = await forked.keep(forked.execution(0))
    assert news.dropped == "1 running thread of statements"
    assert (await forked.restore()).checkpoint is None
    assert await forked.b.value("x") == "1"
    await forked.run("stop.set(); t.join()")
    assert (await forked.keep(forked.execution(-1))).dropped == ""


async def test_what_a_checkpoint_has_in_common_with_others_is_said(forked: History) -> None:
    await forked.run(
        "import mmap, os, socket, subprocess\nchild = subprocess.Popen(['sleep', '100'], stdin=subprocess.PIPE)\n"
        "left, right = socket.socketpair(); shared = mmap.mmap(-1, 4096)"
    )
    news = await forked.keep(forked.execution(0))
    assert news.shared == ("child processes: 1", "open pipes and sockets: 3", "mappings of shared memory: 1")
    assert news.seconds > 0


async def test_checkpoint_holds_nothing_open_that_the_worker_closed(forked: History) -> None:
    await forked.run(
        "import fcntl, io, os, socket, subprocess\nchild = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\n"
        "door = socket.create_server(('127.0.0.1', 0)); port = door.getsockname()[1]\n"
        "held = io.open('held', 'w'); fcntl.flock(held, fcntl.LOCK_EX); r, w = os.pipe(); os.write(w, b'x')",
        keep=True,
    )
    with anyio.fail_after(PATIENCE):
        assert await forked.b.value("child.stdin.close(); child.wait(10)") == "0"
        assert await forked.b.value("os.close(w); os.read(r, 9), os.read(r, 9)") == "(b'x', b'')"
        assert await forked.b.value("door.close(); socket.create_server(('127.0.0.1', port)).close()") is None
        assert await forked.b.value("held.close(); fcntl.flock(open('held'), fcntl.LOCK_EX | fcntl.LOCK_NB)") is None


async def test_output_of_a_restored_worker_is_its_own(forked: History) -> None:
    await forked.run("import os, sys; spare = os.dup(1)\nprint('before')", keep=True)
    await forked.restore()
    assert "".join(text for _, text in forked.b.output) == "before\n"
    outcome = await forked.b.run(
        "print('a'); os.system('echo b'); os.write(spare, b'c\\n'); print('d', file=sys.stderr)"
    )
    assert (outcome.stdout.text, outcome.stderr.text) == ("a\nb\nc\n", "d\n")


async def test_nobody_hears_of_a_checkpoint_in_the_worker(forked: History) -> None:
    await forked.run(
        "import os, signal; heard = []; signal.signal(signal.SIGCHLD, lambda *_: heard.append(1))", keep=True
    )
    refused = "try: os.waitpid(-1, 0)\nexcept ChildProcessError: pass\nelse: heard.append(2)\nheard"
    assert await forked.b.value(refused) == "[]"
    await forked.run("import threading; numbers = [0]", keep=True)
    assert await forked.b.value(refused) == "[]"


async def test_changed_history_uses_an_older_checkpoint_or_none(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    await forked.run("x = 2", keep=True)
    first = forked.execution(0)
    forked.steps[1] = past("x = 20", label="<statement 2>")
    restored = await forked.restore()
    assert (restored.checkpoint, restored.executions) == (first, 1)
    assert await forked.b.value("x") == "20"
    forked.steps[0] = past("x = 10")
    assert (await forked.restore(1)).checkpoint is None


ENDINGS = (
    "os._exit(3)",
    "import ctypes; ctypes.string_at(0)",
    "os.closerange(0, 1 << 16)",
    "os.kill(os.getpid(), 9)",
    "os.kill(0, 9)",
    "os.killpg(os.getpgid(0), 9)",
    "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
    "    try: os.getpgid(int(pid)) == os.getpid() and os.kill(int(pid), 9)\n"
    "    except OSError: pass\n"
    "os._exit(0)",
)


SLOW_COPIES = (
    "import os, sys, time; begun = {os.getpid()}\n"
    "def dawdle(*_):\n    if os.getpid() not in begun: begun.add(os.getpid()); time.sleep(0.1)\n"
    "sys.setprofile(dawdle)"
)
"""Has each copy wait at the first function that it calls, ahead of all that it has to do."""


async def test_killing_the_whole_session_leaves_the_earlier_checkpoint(forked: History) -> None:
    await forked.run(f"x = [1]\n{SLOW_COPIES}")
    await forked.ask()
    outcome = await forked.b.run("os.kill(0, 9)")
    assert outcome.exception.type == "WorkerDied"
    restored = await forked.restore()
    assert (restored.executions, restored.checkpoint) == (0, forked.execution(0))
    assert await forked.b.value("x") == "[1]"


async def test_reading_on_does_not_move_a_checkpoints_file_position(forked: History) -> None:
    (forked.b.cwd / "lines").write_bytes(b"one\ntwo\n")
    await forked.run(f"{SLOW_COPIES}; raw = os.open('lines', os.O_RDONLY)")
    await forked.ask()
    assert await forked.b.value("os.read(raw, 4)") == "b'one\\n'"
    assert (await forked.restore()).executions == 0
    assert await forked.b.value("os.read(raw, 4)") == "b'one\\n'"


@pytest.mark.parametrize("ending", ENDINGS)
async def test_death_of_a_worker_keeps_earlier_names(h: History, ending: str) -> None:
    await h.run("import os; x = [1]", keep=True)
    await h.run("x.append(2)", keep=True)
    outcome = await h.b.run(ending)
    assert outcome.exception.type == "WorkerDied"
    restored = await h.restore()
    assert restored.executions == (0 if h.forks else 2)
    assert await h.b.value("x") == "[1, 2]"


async def test_a_signal_that_reaches_a_checkpoint_changes_nothing_in_it(forked: History) -> None:
    await forked.run("import signal; heard = []; signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))", keep=True)
    (checkpoint,) = forked.b.environment.checkpoint_pids
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):
        os.kill(checkpoint, number)
    await forked.restore()
    assert await forked.b.value("heard") == "[]"
    assert await forked.b.value("signal.raise_signal(signal.SIGUSR1); heard") == "[1]"


async def test_a_checkpoint_that_was_killed_is_told_and_others_serve(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    await forked.run("y = 2", keep=True)
    *_, newest = forked.b.environment.checkpoint_pids
    os.kill(newest, signal.SIGKILL)
    await gone(newest)
    restored = await forked.restore()
    assert (restored.checkpoint, restored.executions) == (forked.execution(0), 1)
    assert forked.b.environment.checkpoints()[-1].dropped


async def test_closing_ends_the_checkpoints(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    await forked.run("y = 1", keep=True)
    pids = forked.b.environment.checkpoint_pids
    assert len(pids) == 2
    await forked.b.environment.close()
    await gone(*pids)


async def test_slow_statements_keep_their_checkpoints(forked: History) -> None:
    await forked.run("import time; time.sleep(0.1); x = 0", keep=True)
    for number in range(1, 30):
        await forked.run(f"x = {number}", keep=True)
    assert len(forked.b.environment.checkpoint_pids) <= MOST
    assert (await forked.restore()).executions == 0
    restored = await forked.restore(1)
    assert (restored.executions, restored.checkpoint) == (0, forked.execution(0))
    assert await forked.b.value("x") == "0"


@asynccontextmanager
async def tables(tmp_path: Path, memory: CheckpointMemory, number: int) -> AsyncIterator[History]:
    """A history with so many checkpoints, each of 80 MB that no later one has."""
    async with opened(WorkerEnvironment(shared_zygote(), memory), tmp_path) as bench:
        history = History(bench, forks=True)
        for each in range(number):
            await history.run(f"x = bytes([{each}]) * (80 << 20)")
            await history.keep(history.execution(-1))
        yield history


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_environment, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(checkpoint_memory, "LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("looks_often")
async def test_checkpoints_hold_no_more_memory_than_allowed(tmp_path: Path) -> None:
    async with tables(tmp_path, CheckpointMemory(256 << 20), 6) as history:
        # The newest shares its 80 MB with the worker, so three others remain.
        await until(lambda: len(history.b.environment.checkpoint_pids) == 4)
        assert {each.dropped for each in history.hear()} == {"", TOO_LARGE}
        assert (await history.restore()).executions == 0
        assert await history.b.value("x[0]") == "5"


@pytest.mark.usefixtures("looks_often")
async def test_memory_that_a_worker_shares_does_not_count(tmp_path: Path) -> None:
    async with opened(WorkerEnvironment(shared_zygote(), CheckpointMemory(64 << 20)), tmp_path) as bench:
        history = History(bench, forks=True)
        await history.run("x = bytes(range(256)) * (1 << 19)", keep=True)
        await history.run("y = 1", keep=True)
        await anyio.sleep(0.1)
        assert len(bench.environment.checkpoint_pids) == 2
        await history.run("x = None")
        await until(lambda: not bench.environment.checkpoint_pids)


@pytest.mark.usefixtures("looks_often")
async def test_sessions_share_the_memory_for_checkpoints(tmp_path: Path) -> None:
    memory = CheckpointMemory(200 << 20)
    async with tables(tmp_path, memory, 2) as first, tables(tmp_path, memory, 2) as second:
        await second.run("x = None")
        # Three tables are held beside the workers' own.
        both = (first.b.environment, second.b.environment)
        await until(lambda: sum(len(each.checkpoint_pids) for each in both) == 3)
        assert all(each.checkpoint_pids for each in both)


@pytest.mark.usefixtures("looks_often")
async def test_checkpoints_end_when_memory_is_short(forked: History, monkeypatch: pytest.MonkeyPatch) -> None:
    await forked.run("x = 1", keep=True)
    pids = forked.b.environment.checkpoint_pids
    monkeypatch.setattr(checkpoint_memory, "is_short", lambda: True)
    await until(lambda: not forked.b.environment.checkpoint_pids)
    await gone(*pids)
    assert forked.hear()[-1].dropped == SHORT
    assert (await forked.keep(forked.execution(-1))).dropped == SHORT
    restored = await forked.restore()
    assert (restored.executions, restored.checkpoint) == (1, None)


async def test_no_copy_of_what_holds_most_of_the_memory(forked: History, monkeypatch: pytest.MonkeyPatch) -> None:
    await forked.run("x = 1", keep=True)
    monkeypatch.setattr(checkpoint_memory, "free_memory", lambda: 1 << 20)
    assert (await forked.keep(forked.execution(-1))).dropped == NO_ROOM
    assert (await forked.restore()).executions == 0


def score(pid: int | str | None) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


async def test_the_kernel_kills_checkpoints_before_workers(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    await forked.restore()
    (checkpoint,) = forked.b.environment.checkpoint_pids
    assert score(checkpoint) == 1000
    assert score(forked.b.environment.pid) == score("self") != 1000
