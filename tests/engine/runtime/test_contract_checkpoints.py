"""Restoring a namespace from a checkpoint and by running its history again: the same namespace, nothing left behind.

Each statement is the history's and runs in the worker first. Where it is asked for, a checkpoint follows.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import pytest
from msgspec.structs import replace

from engine.core.ids import ExecutionId
from engine.log.events.nodes import RevisionAdopted
from engine.log.past import CheckpointNews, PastExecution, PastRevision, PastStep, PastTick, Restored, RestorePlan
from engine.runtime.control_channel import DEATH_SECONDS
from engine.runtime.worker.processes.brands import children_of
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.environments import PATIENCE, Bench, contents, ended_otherwise, kept, opened, past, refuse, until
from tests.support.workers import gone, processes_in, running, shared_zygote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


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
        assert isinstance(step, PastExecution)
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


async def test_generators_locks_random_numbers_and_places_in_files_are_where_they_were(h: History) -> None:
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


async def test_views_show_what_they_showed_also_in_ticks_after_a_checkpoint(h: History) -> None:
    (h.b.cwd / "a.txt").write_text("then\n")
    await h.run("v = view('a.txt', freq='Sync'); w = view('a.txt')", keep=True)
    await h.tick(1)
    await h.run("shown = [each.Render().text for each in (v, w)]; u = view('a.txt')")
    (h.b.cwd / "a.txt").write_text("now\n")
    assert (await h.restore()).divergences == ()
    assert await h.b.value("shown, u.Render().text") == "(['1\\tthen\\n', '1\\tthen\\n'], '1\\tthen\\n')"


async def test_sockets_children_and_pipes_are_the_last_workers_and_their_names_are_there(h: History) -> None:
    await h.run("import socket, subprocess, os\nleft, right = socket.socketpair(); r, w = os.pipe()", keep=True)
    await h.restore()
    assert await h.b.value("type(left).__name__, left.fileno() >= 0, os.fstat(w).st_nlink") == "('socket', True, 1)"


async def test_a_thread_that_runs_means_no_checkpoint_and_it_is_said(forked: History) -> None:
    source = "import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait); t.start(); x = 1"
    await forked.run(source)
    news = await forked.keep(forked.execution(0))
    assert news.dropped == "1 thread of the statements at work"
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


async def test_a_checkpoint_keeps_nobody_waiting_for_what_the_worker_has_closed(forked: History) -> None:
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


async def test_what_ran_otherwise_on_this_branch_takes_an_older_checkpoint_or_none(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    await forked.run("x = 2", keep=True)
    first = forked.execution(0)
    forked.steps[1] = past("x = 20", label="<statement 2>")
    restored = await forked.restore()
    assert (restored.checkpoint, restored.executions) == (first, 1)
    assert await forked.b.value("x") == "20"
    forked.steps[0] = past("x = 10")
    assert (await forked.restore(1)).checkpoint is None


async def test_a_statement_whose_outcome_is_asked_for_runs_in_any_case(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    await forked.run("x += 1", keep=True)
    step = forked.steps[1]
    assert isinstance(step, PastExecution)
    forked.steps[1] = replace(step, record=None)
    restored = await forked.restore()
    assert (restored.checkpoint, restored.executions) == (forked.execution(0), 1)
    assert await forked.b.value("x") == "2"


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


async def test_a_statement_that_ends_all_of_its_session_at_once_leaves_the_checkpoint_before_it(
    forked: History,
) -> None:
    await forked.run(f"x = [1]\n{SLOW_COPIES}")
    await forked.ask()
    outcome = await forked.b.run("os.kill(0, 9)")
    assert outcome.exception is not None
    assert outcome.exception.type == "WorkerDied"
    restored = await forked.restore()
    assert (restored.executions, restored.checkpoint) == (0, forked.execution(0))
    assert await forked.b.value("x") == "[1]"


async def test_a_statement_that_reads_on_at_once_does_not_move_the_place_of_the_checkpoint(forked: History) -> None:
    (forked.b.cwd / "lines").write_bytes(b"one\ntwo\n")
    await forked.run(f"{SLOW_COPIES}; raw = os.open('lines', os.O_RDONLY)")
    await forked.ask()
    assert await forked.b.value("os.read(raw, 4)") == "b'one\\n'"
    assert (await forked.restore()).executions == 0
    assert await forked.b.value("os.read(raw, 4)") == "b'one\\n'"


@pytest.mark.parametrize("ending", ENDINGS)
async def test_what_a_statement_does_to_its_worker_does_nothing_to_the_names_before_it(h: History, ending: str) -> None:
    await h.run("import os; x = [1]", keep=True)
    await h.run("x.append(2)", keep=True)
    outcome = await h.b.run(ending)
    assert outcome.exception is not None
    assert outcome.exception.type == "WorkerDied"
    restored = await h.restore()
    assert restored.executions == (0 if h.forks else 2)
    assert await h.b.value("x") == "[1, 2]"


async def test_a_chain_that_forks_without_end_is_ended_and_the_checkpoint_serves(forked: History) -> None:
    await forked.run("import os; x = [1]", keep=True)
    outcome = await forked.b.run("while True:\n    if os.fork(): os._exit(0)")
    assert outcome.status == "error"
    await until(lambda: processes_in(forked.b.cwd) == len(forked.b.environment.checkpoint_pids))
    assert (await forked.restore()).executions == 0
    assert await forked.b.value("x") == "[1]"


BOMB_SECONDS: Final = 20
BOMBS: Final = {
    # Each process takes a token, starts two that wait for one, hands it on and ends.
    "tokens": f"""
import os, select, time
end = time.monotonic() + {BOMB_SECONDS}
(tokens, give), (births, fill) = os.pipe(), os.pipe()
os.set_blocking(births, False)
def wait():
    while select.select([tokens], [], [], max(0, end - time.monotonic()))[0]:
        token = os.read(tokens, 1)
        try: os.read(births, 2)
        except BlockingIOError: os._exit(0)
        if os.fork() and os.fork():
            os.write(give, token); os._exit(0)
    os._exit(0)
os.write(fill, b'.' * 4000); os.write(give, b'.' * 8)
for _ in range(8):
    if os.fork() == 0: wait()
while time.monotonic() < end: pass
""",
    "threads": f"""
import subprocess, threading, time
end = time.monotonic() + {BOMB_SECONDS}
def start():
    for _ in range(300):
        subprocess.Popen(['sleep', '{BOMB_SECONDS}'])
threads = [threading.Thread(target=start) for _ in range(8)]
for thread in threads: thread.start()
while time.monotonic() < end: pass
""",
}
"""Each is bounded in itself, whatever becomes of the test: its processes end after BOMB_SECONDS, and it starts no more
than 4,000."""


@pytest.mark.parametrize(("bomb", "limit"), [("tokens", 0.5), ("threads", BOMB_SECONDS)], ids=str)
async def test_what_starts_processes_without_end_is_ended_and_the_names_come_back(
    h: History, bomb: str, limit: float
) -> None:
    await h.run("import os; x = [1]", keep=True)
    begun = time.monotonic()
    outcome = await h.b.run(BOMBS[bomb], time_limit=limit)
    assert outcome.status == ("timeout" if bomb == "tokens" else "error"), outcome.exception
    environment = h.b.environment
    with anyio.fail_after(PATIENCE):
        await until(lambda: processes_in(h.b.cwd) == len(environment.checkpoint_pids) + environment.alive)
    assert time.monotonic() - begun < BOMB_SECONDS  # nobody waited for them to end by themselves
    await h.restore()
    assert await h.b.value("x") == "[1]"


async def test_earlier_effects_do_not_cost_names(forked: History) -> None:
    made = (
        "import os; number = os.open('made', os.O_CREAT | os.O_WRONLY); os.write(number, b'once'); key = os.urandom(8)"
    )
    await forked.run(made, keep=True)
    key = await forked.b.value("key")
    await forked.b.run("os._exit(1)")
    assert await forked.restore() == Restored(executions=0, checkpoint=forked.execution(0))
    assert await forked.b.value("key") == key
    assert (forked.b.cwd / "made").read_bytes() == b"once"


async def test_a_statement_that_is_stopped_hard_leaves_the_checkpoints(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    checkpoint = forked.b.environment.checkpoint_pids
    stubborn = "while True:\n    try:\n        while True: sum(range(10**6))\n    except KeyboardInterrupt: pass"
    outcome = await forked.b.run(stubborn, time_limit=0.1)
    assert outcome.status == "timeout"
    assert not forked.b.environment.alive
    assert all(map(running, checkpoint))
    assert (await forked.restore()).executions == 0
    assert await forked.b.value("x") == "1"


async def test_a_signal_that_reaches_a_checkpoint_changes_nothing_in_it(forked: History) -> None:
    await forked.run("import signal; heard = []; signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))", keep=True)
    (checkpoint,) = forked.b.environment.checkpoint_pids
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):
        os.kill(checkpoint, number)
    await forked.restore()
    assert await forked.b.value("heard") == "[]"
    assert await forked.b.value("signal.raise_signal(signal.SIGUSR1); heard") == "[1]"


async def test_a_restored_worker_is_interrupted_and_ends_what_it_started_as_any(forked: History) -> None:
    await forked.run("import subprocess, time", keep=True)
    await forked.restore()
    outcome = await forked.b.interrupted(
        "p = subprocess.Popen(['sleep', '100']); print(p.pid, flush=True); time.sleep(99)"
    )
    assert outcome.status == "cancelled"
    await gone(int(outcome.stdout.text))
    assert await forked.b.value("p.wait()") == "-9"
    orphan = (
        "subprocess.run(['sh', '-c', 'sleep 100 > /dev/null 2>&1 & echo $!'], capture_output=True, text=True).stdout"
    )
    pid = int((await forked.b.value(f"int({orphan})")) or 0)
    assert running(pid)
    await forked.b.run("import os; os._exit(0)")
    await gone(pid)


async def test_a_checkpoint_that_was_killed_is_told_and_others_serve(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    await forked.run("y = 2", keep=True)
    *_, newest = forked.b.environment.checkpoint_pids
    os.kill(newest, signal.SIGKILL)
    await gone(newest)
    restored = await forked.restore()
    assert (restored.checkpoint, restored.executions) == (forked.execution(0), 1)
    assert forked.b.environment.checkpoints()[-1].dropped


async def test_each_of_many_restores_has_its_checkpoint_though_workers_end_all_the_time(forked: History) -> None:
    await forked.run("import os, subprocess; x = 1", keep=True)
    leave_behind = "subprocess.Popen(['sh', '-c', 'sleep 100 & sleep 100 & wait']); os._exit(0)"
    for number in range(25):
        if number % 5 == 0:
            await forked.b.run(leave_behind)
        assert (await forked.restore()).executions == 0
    assert not [news for news in forked.hear() if news.dropped]


async def test_a_zygote_that_comes_late_gives_one_up_and_takes_another_in(tmp_path: Path) -> None:
    async with opened(WorkerEnvironment(shared_zygote()), tmp_path) as bench:
        closed = History(bench, forks=True)
        await closed.run("x = 1")
        assert bench.environment.pid is not None
        os.kill(bench.environment.pid, signal.SIGSTOP)
        assert await bench.environment.snapshot(closed.execution(0))
        async with opened(WorkerEnvironment(shared_zygote()), tmp_path) as other:
            restored = History(other, forks=True)
            await restored.run("x = 1", keep=True)
            zygote = shared_zygote().pid
            children = len(children_of(zygote) or ())
            os.kill(zygote, signal.SIGSTOP)
            # Where nobody says that a worker has died, it takes longer.
            with anyio.fail_after(DEATH_SECONDS - 1):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(bench.environment.close)
                    tasks.start_soon(restored.restore)
                    await until(lambda: len(children_of(zygote) or ()) > children)
                    os.kill(zygote, signal.SIGCONT)
            assert await other.value("x") == "1"
            assert not [news for news in restored.hear() if news.dropped]


async def test_closing_ends_the_checkpoints(forked: History) -> None:
    await forked.run("x = 1", keep=True)
    await forked.run("y = 1", keep=True)
    pids = forked.b.environment.checkpoint_pids
    assert len(pids) == 2
    await forked.b.environment.close()
    await gone(*pids)


async def test_checkpoints_beyond_those_that_are_kept_end(forked: History) -> None:
    for number in range(40):
        await forked.run(f"x = {number}", keep=True)
    assert 16 < len(forked.b.environment.checkpoint_pids) < 24
    assert (await forked.restore(1)).checkpoint is not None
    assert await forked.b.value("x") == "0"


async def test_checkpoints_that_hold_too_much_memory_end_the_oldest_first(tmp_path: Path) -> None:
    async with opened(WorkerEnvironment(shared_zygote()), tmp_path, data_bytes=256 << 20) as bench:
        history = History(bench, forks=True)
        for number in range(5):
            await history.run(f"x = bytes([{number}]) * (80 << 20)")
            await history.keep(history.execution(-1))

        def dropped() -> set[str]:
            return {each.execution_id for each in history.hear() if each.dropped == "all of them held too much memory"}

        await until(lambda: bool(dropped()))
        assert history.execution(-1) not in dropped()
        assert (await history.restore()).executions == 0


HOST = """
import sys
import time
sys.path.insert(0, {root!r})
from pathlib import Path
from typing import Final
import anyio
from engine.runtime.control_channel import DEATH_SECONDS
from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote
from tests.engine.runtime.test_contract_checkpoints import History
from tests.support.environments import opened
zygote = Zygote.spawn()
async def main():
    async with opened(WorkerEnvironment(zygote), Path({cwd!r})) as bench:
        history = History(bench, forks=True)
        await history.run("x = 1", keep=True)
        await history.restore()
        await history.run("y = 1", keep=True)
        print(zygote.pid, bench.environment.pid, *bench.environment.checkpoint_pids, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


@pytest.mark.parametrize("victim", ["host", "zygote"])
async def test_whoever_is_killed_no_checkpoint_is_left(tmp_path: Path, victim: str) -> None:
    script = HOST.format(root=str(Path(__file__).parents[3]), cwd=str(tmp_path))
    with anyio.fail_after(PATIENCE):
        async with await anyio.open_process([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as host:
            assert host.stdout is not None
            said = b""
            while said.count(b"\n") < 1:
                said += await host.stdout.receive()
            zygote, *others = map(int, said.split())
            assert len(others) == 3
            assert all(map(running, others))
            os.kill(host.pid if victim == "host" else zygote, signal.SIGKILL)
            await gone(*others)
            with suppress(ProcessLookupError):
                host.kill()
            await gone(zygote)
