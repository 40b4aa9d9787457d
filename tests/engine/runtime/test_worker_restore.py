"""What only a worker's restore meets: statements that start processes, and statements that end theirs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from engine.log.past import Differences, PastExecution, Restored, RestorePlan
from engine.log.statements import RunOutcome
from engine.runtime import rebuild
from tests.support.environments import PATIENCE, contents, ended_otherwise, past, restore, spec_for
from tests.support.workers import WorkerBench, bench


@pytest.mark.parametrize(
    "source",
    [
        "import os; os.posix_spawn('/usr/bin/touch', ['touch', 'g.txt'], {})",
        "import os; os.spawnlp(os.P_WAIT, 'touch', 'touch', 'g.txt')",
        "import os; os.execlp('touch', 'touch', 'g.txt')",
        "import os\nif os.fork() == 0:\n    os.system('touch g.txt'); os._exit(0)\nos.wait()",
        "import io, threading\nraised = []\n"
        "def work():\n    try: io.open('g.txt', 'w')\n    except Exception as e: raised.append(e)\n"
        "t = threading.Thread(target=work); t.start(); t.join()\nraise raised[0]",
    ],
)
async def test_a_replay_starts_nothing_and_its_threads_write_nothing(tmp_path: Path, source: str) -> None:
    async with bench(tmp_path) as b:
        restored = await restore(b, past("x = 1"), past(source, label="<statement 9>"), past("y = 2"))
        assert any("<statement 9> was not allowed to call" in line for line in restored.divergences)
        assert any("instead of ok" in line and "ReplayEffect" in line for line in restored.divergences)
        assert await b.value("x, y") == "(1, 2)"
    assert os.listdir(tmp_path) == []


INTERPRETERS = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
UNAUDITED = {
    "mkfifo": "import os; os.mkfifo('made')",
    "mknod": "import os; os.mknod('made')",
    "posix": "import posix; posix.mkfifo('made')",
    "attach": "import sqlite3; sqlite3.connect(':memory:').execute(\"attach 'made' as a\")",
    "worked out": "import sqlite3; sqlite3.connect(':memory:').execute(\"attach 'ma' || 'de' as a\")",
    "vacuum": "import sqlite3; sqlite3.connect(':memory:').execute(\"vacuum into 'made'\")",
    "class": "import sqlite3; sqlite3.Connection(':memory:').execute(\"attach 'made' as a\")",
    "spawn": "import multiprocessing, os\n"
    "p = multiprocessing.get_context('spawn').Process(target=os.mkdir, args=('made',))\np.start(); p.join()",
    "forkserver": "import multiprocessing, os\n"
    "p = multiprocessing.get_context('forkserver').Process(target=os.mkdir, args=('made',))\np.start(); p.join()",
    "rank": "import os; h = os.getppid(); os.setpriority(os.PRIO_PROCESS, h, os.getpriority(os.PRIO_PROCESS, h))",
    "group's rank": "import os; os.setpriority(os.PRIO_PGRP, 0, os.getpriority(os.PRIO_PGRP, 0))",
    "processors": "import os; os.sched_setaffinity(os.getppid(), os.sched_getaffinity(os.getppid()))",
    "clock": "import time; time.clock_settime(time.CLOCK_MONOTONIC, 0)",
    "clock in nanoseconds": "import time; time.clock_settime_ns(time.CLOCK_MONOTONIC, 0)",
    "host name": "import socket; socket.sethostname(socket.gethostname())",
    "interpreter": f"import {INTERPRETERS} as i; i.run_string(i.create(), \"import os; os.mkdir('made')\")",
}
"""Ways to act of which Python raises no audit event, or one that is raised for another interpreter."""


async def test_replay_acts_by_no_unaudited_route(b: WorkerBench, tmp_path: Path) -> None:
    history = [past(source, label=f"<{name}>") for name, source in UNAUDITED.items()]
    restored = await restore(b, past("import sqlite3; old = sqlite3.connect(':memory:')"), *history)
    assert os.listdir(tmp_path) == []
    for name in UNAUDITED:
        assert any(line.startswith(f"<{name}> was not allowed to call") for line in restored.divergences), name


async def test_a_replay_loads_nothing_of_databases_where_no_statement_does(b: WorkerBench) -> None:
    await restore(b, past("x = 1"))
    assert await b.value("import sys; '_sqlite3' in sys.modules") == "False"


async def test_in_memory_database_works_in_its_first_statement(b: WorkerBench) -> None:
    made = "import sqlite3; made = sqlite3.connect(':memory:'); _ = made.execute('create table t (x)')"
    assert (await restore(b, past(made))).divergences == ()
    assert await b.value("made.execute('select count(*) from t').fetchone()") == "(0,)"


async def test_plan_mode_acts_by_none_of_them_either(b: WorkerBench, tmp_path: Path) -> None:
    assert (await b.run("import sqlite3; old = sqlite3.connect(':memory:')")).status == "ok"
    for name, source in {**UNAUDITED, "opened before": "old.execute(\"attach 'made' as a\")"}.items():
        outcome = await b.run(source, plan=True)
        assert outcome.status == "error", name
    assert os.listdir(tmp_path) == []
    assert (await b.run(UNAUDITED["mkfifo"])).status == "ok"
    assert os.listdir(tmp_path) == ["made"]


@pytest.mark.parametrize(
    "call", ["signal.setitimer(signal.ITIMER_REAL, 30)", "signal.alarm(30)", "signal.setitimer(signal.ITIMER_PROF, 30)"]
)
async def test_alarms_are_turned_off_and_named(b: WorkerBench, call: str) -> None:
    left = "import signal; [signal.getitimer(which) for which in range(3)]"
    restored = await restore(b, past(f"import signal; _ = {call}", label="<statement 7>"))
    assert [line.partition(" in ")[0] for line in restored.divergences] == ["<statement 7> left an alarm due"]
    assert await b.value(left) == "[(0.0, 0.0), (0.0, 0.0), (0.0, 0.0)]"
    outcome = await b.run(f"import signal; _ = {call}", plan=True)
    assert outcome.stderr.text.startswith("plan mode: this statement left an alarm due in")
    assert await b.value(left) == "[(0.0, 0.0), (0.0, 0.0), (0.0, 0.0)]"


async def test_a_timer_of_a_thread_is_turned_off_and_named(b: WorkerBench) -> None:
    restored = await restore(b, past("import threading; t = threading.Timer(60, print); t.name = 'late'; t.start()"))
    assert restored.divergences == ("<statement 1> started timer 'late', which was stopped",)
    assert await b.value("t.join(20); t.is_alive()") == "False"


async def test_thread_begun_by_c_code_stays_guarded(b: WorkerBench, tmp_path: Path) -> None:
    begun = (
        "import ctypes, os, threading\ngo, said, ended = threading.Event(), [], threading.Event()\n"
        "@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)\ndef work(_):\n    go.wait(20)\n"
        "    try: os.mkdir('made')\n    except Exception as error: said.append(str(error))\n    ended.set()\n"
        "thread = ctypes.c_ulong(); _ = ctypes.CDLL(None).pthread_create(ctypes.byref(thread), None, work, None)"
    )
    assert (await restore(b, past(begun))).divergences == ()
    said = await b.value("go.set(); _ = ended.wait(20); said[0]")
    assert "started it during a rebuild of the namespace" in said
    assert os.listdir(tmp_path) == []
    again = begun.replace("go.wait(20)", "pass")
    assert (await b.run(f"{again}\nassert ended.wait(20)")).status == "ok"
    assert os.listdir(tmp_path) == ["made"]


async def test_what_is_collected_after_a_rebuild_was_finalized_in_it(b: WorkerBench, tmp_path: Path) -> None:
    # Without the collector, which may come earlier by itself.
    cycle = (
        "import gc, os; gc.disable()\nclass Late:\n    def __del__(self): os.mkdir('made')\n"
        "late = Late(); late.me = late; del late"
    )
    restored = await restore(b, past(cycle))
    assert restored.divergences == ("an unreferenced object was not allowed to call os.mkdir made",)
    assert (await b.run("import gc; gc.collect()")).status == "ok"
    assert os.listdir(tmp_path) == []


ENDING = "import os; os._exit(1)"


async def test_every_fatal_execution_is_left_out(b: WorkerBench) -> None:
    history = [past(f"x{n} = {n}" if n % 2 else ENDING, label=f"<statement {n}>") for n in range(1, 17)]
    restored = await restore(b, *history)
    assert restored.executions == 8
    assert restored.divergences == tuple(f"<statement {n}> ended the worker and was left out" for n in range(2, 17, 2))
    assert await b.value("sum((x1, x3, x5, x7, x9, x11, x13, x15))") == "64"


async def test_worker_killed_from_outside_costs_no_statement(tmp_path: Path) -> None:
    pids: list[int] = []

    def kill_first(step: PastExecution, outcome: RunOutcome) -> Differences:
        pid = b.environment.pid
        assert pid is not None
        if not pids:
            os.kill(pid, signal.SIGKILL)
        pids.append(pid)
        return ended_otherwise(step, outcome)

    history = tuple(past(f"x{n} = {n}", label=f"<statement {n}>") for n in range(3))
    async with bench(tmp_path) as b:
        with anyio.fail_after(PATIENCE):
            restored = await b.environment.restore(RestorePlan(steps=history), contents, kill_first)
        assert restored == Restored(executions=3)
        assert await b.value("x0, x1, x2") == "(0, 1, 2)"
    assert len(set(pids)) == 2


async def test_unused_worker_runs_the_history(b: WorkerBench, tmp_path: Path) -> None:
    started = b.environment.pid
    await restore(b, past("x = 1"))
    assert b.environment.pid == started
    # What has run is no beginning, and neither is one that has ended meanwhile.
    await restore(b, past("assert 'x' not in globals(); y = 1"))
    assert b.environment.pid != started
    assert await b.value("'x' in globals(), y") == "(False, 1)"
    await b.environment.start(spec_for(tmp_path))
    idle = b.environment.pid
    assert idle is not None
    os.kill(idle, signal.SIGKILL)
    assert (await restore(b, past("x = 1"))).divergences == ()
    assert b.environment.pid != idle


async def test_slow_search_leaves_out_and_names_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "SEARCH_SECONDS", 0.0)
    history = [past(source, label=f"<{source[:5]}>") for source in ("a = 1", ENDING, "b = 2", ENDING, "c = 3")]
    async with bench(tmp_path) as b:
        restored = await restore(b, *history)
        assert restored.executions == 1
        assert len(restored.divergences) == 4
        assert restored.divergences[1].startswith("<b = 2> was left out, because it follows a failed statement")
        assert await b.value("a, 'b' in globals()") == "(1, False)"


OURS = "next(module for name, module in sys.modules.items() if name.endswith('worker.statements.executor'))"
BREAKING = (f"import sys; {OURS}.Result = None", f"import sys; {OURS}.Executor._compile = None")


@pytest.mark.parametrize("breaking", BREAKING)
async def test_execution_that_breaks_python_alone_is_left_out(b: WorkerBench, breaking: str) -> None:
    restored = await restore(
        b,
        past("x = 1"),
        past(breaking, label="<breaking>"),
        past("y = x + 1", label="<after>"),
        past("z = y + 1", label="<last>"),
    )
    assert restored.divergences == ("<breaking> broke its Python process and was left out",)
    assert await b.value("x, y, z") == "(1, 2, 3)"


async def test_execution_that_breaks_python_costs_one_live_statement(b: WorkerBench) -> None:
    assert (await b.run(BREAKING[0])).status == "ok"
    outcome = await b.run("1")
    assert outcome.exception.type == "WorkerDied"
    assert "the statement could not be run" in outcome.exception.message
    assert not b.environment.alive


REPLACING = (
    "import builtins; builtins.compile = builtins.isinstance = builtins.len = builtins.next = None",
    "import builtins; builtins.BaseException = builtins.Exception = builtins.__build_class__ = None",
    "import builtins; del builtins.compile, builtins.getattr, builtins.hasattr, builtins.type",
    "import os; os.open = os.fstat = os.getpid = os.path = None",
    "import ast, time, linecache, traceback; ast.parse = time.perf_counter_ns = time.time = linecache.cache = None",
    "import sys; sys.setrecursionlimit(40)",
)


@pytest.mark.parametrize("replacing", REPLACING)
async def test_replaced_builtins_do_not_affect_the_worker(b: WorkerBench, replacing: str) -> None:
    assert (await b.run(replacing)).status == "ok"
    for _ in range(2):
        assert await b.value("41 + 1") == "42"
        outcome = await b.run("1 / 0")
        assert outcome.exception.type == "ZeroDivisionError"
        await b.environment.tick(1, 2.0)
        await b.environment.project(["x"], 1000)
    restored = await restore(b, past("x = 1"), past(replacing), past("y = 2"))
    assert restored.divergences == ()
    assert await b.value("x, y") == "(1, 2)"


async def test_what_a_statement_replaces_is_there_for_the_next_one(b: WorkerBench) -> None:
    await b.run("import builtins, os; builtins.len = lambda _: 7; os.getpid = lambda: 8; builtins.mine = 9")
    assert await b.value("len([]), os.getpid(), mine") == "(7, 8, 9)"
    await b.run("del builtins.len")
    assert (await b.run("len([])")).status == "error"


async def test_a_report_is_bounded_however_much_came_out_differently(b: WorkerBench) -> None:
    history = [past("1 / 0", label=f"<statement {n}>") for n in range(300)]
    restored = await restore(b, *history)
    assert len(restored.divergences) == rebuild.KEPT_SENTENCES + 1
    assert restored.divergences[-1] == "... 100 more sentences"


async def test_refused_statement_is_reported_in_one_sentence(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        history = [past(f"import io; io.open('{n}', 'w')", label=f"<statement {n}>") for n in range(150)]
        history += [past("x = 1\n1 / 0", label="<statement 150>")]
        restored = await restore(b, *history)
    assert len(restored.divergences) == 151
    assert (
        restored.divergences[0]
        == "<statement 0> was not allowed to call open 0; ended with error (ReplayEffect) instead of ok"
    )
    assert restored.divergences[-1].startswith("<statement 150> ended with error (ZeroDivisionError")


async def test_a_replay_may_rank_and_place_its_own_process(b: WorkerBench) -> None:
    own = "import os; os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)); "
    own += (
        "os.sched_setaffinity(0, os.sched_getaffinity(0)); os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))"
    )
    assert (await restore(b, past(own))).divergences == ()
