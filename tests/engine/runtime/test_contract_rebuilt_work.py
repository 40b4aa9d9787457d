"""What re-run statements have started stays guarded as long as it lives; what live statements hand to it is free."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.log.past import Restored
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime.environment import Environment
from tests.support.environments import Bench, past, restore

pytestmark = pytest.mark.anyio
AnyBench = Bench[Environment]

BEGUN = """
import asyncio, multiprocessing, os, threading
multiprocessing.set_start_method("fork", force=True)  # Python 3.14 writes a file to find one, which would be refused
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
go, raised = threading.Event(), {}
def act(name):
    go.wait(20)
    try: os.mkdir(name)
    except Exception as error: raised[os.path.basename(name)] = str(error)
def nested(name):
    inner = threading.Thread(target=act, args=(name,)); inner.start(); inner.join(20)
executor, pool, loop = ThreadPoolExecutor(1), ThreadPool(1), asyncio.new_event_loop()
looping = threading.Thread(target=loop.run_forever, daemon=True); looping.start()
"""
STARTED = {
    "thread": "threads = [threading.Thread(target=act, args=(PATH,))]; threads[0].start()",
    "nested": "threads.append(threading.Thread(target=nested, args=(PATH,))); threads[1].start()",
    "executor": "future = executor.submit(act, PATH)",
    "pool": "result = pool.apply_async(act, (PATH,))",
    "task": "async def later(name): await asyncio.to_thread(go.wait, 20); act(name)\n"
    "task = asyncio.run_coroutine_threadsafe(later(PATH), loop)",
}
COURSE = "go.set(); future.result(20); result.wait(20); task.result(20); [t.join(20) for t in threads]; sorted(raised)"
HANDED = {
    "submitted": "executor.submit(os.mkdir, PATH).result(20)",
    "applied": "pool.apply(os.mkdir, (PATH,))",
    "mapped": "pool.map(os.mkdir, [PATH])",
    "awaited": "async def make(): os.mkdir(PATH)\nasyncio.run_coroutine_threadsafe(make(), loop).result(20)",
    "passed_on": "async def hand(): await loop.run_in_executor(None, os.mkdir, PATH)\n"
    "asyncio.run_coroutine_threadsafe(hand(), loop).result(20)",
    "called_back": "done = threading.Event(); f = executor.submit(int)\n"
    "f.add_done_callback(lambda _: (os.mkdir(PATH), done.set())); assert done.wait(20)",
    "new": "t = threading.Thread(target=os.mkdir, args=(PATH,)); t.start(); t.join(20)",
}
END = "executor.shutdown(); pool.terminate(); _ = loop.call_soon_threadsafe(loop.stop); looping.join(20); loop.close()"


def at(directory: Path, name: str, source: str) -> str:
    return source.replace("PATH", repr(str(directory / name)))


async def test_what_was_started_stays_guarded_and_what_is_handed_to_it_is_free(b: AnyBench, tmp_path: Path) -> None:
    history = [
        past(at(tmp_path, name, source), label=f"<statement {number}>")
        for number, (name, source) in enumerate(STARTED.items(), 2)
    ]
    restored = await restore(b, past(BEGUN), *history)
    left = [line.split(" started ")[0] for line in restored.divergences if "goes on" in line]
    assert {"<statement 1>", "<statement 2>", "<statement 3>", "<statement 4>"} <= set(left)
    assert await b.value(COURSE) == str(sorted(STARTED))
    assert os.listdir(tmp_path) == []
    for name, source in HANDED.items():
        outcome = await b.run(at(tmp_path, name, source))
        assert outcome.status == "ok", (name, outcome.exception)
    assert set(os.listdir(tmp_path)) == set(HANDED)
    assert await b.value(END) is None


async def test_the_error_names_what_to_make_anew(b: AnyBench, tmp_path: Path) -> None:
    queued = (
        "import os, queue, threading\nq, said = queue.Queue(), queue.Queue()\n"
        "def serve():\n    try: os.mkdir(q.get(timeout=20))\n    except Exception as error: said.put(repr(error))\n"
        "threading.Thread(target=serve, name='server').start()"
    )
    restored = await restore(b, past(queued, label="<statement 4>"))
    assert restored.divergences == (
        "<statement 4> started thread 'server', which goes on and is kept from acting outside",
    )
    path = str(tmp_path / "made")
    said = await b.value(f"q.put({path!r}); said.get(timeout=20)")
    assert said is not None
    words = ("ReplayEffect", "server", " was started by <statement 4>", f"os.mkdir {path}", "Make it anew")
    assert [word for word in words if word not in said] == []
    kept_from = (
        f"thread 'server', started by <statement 4> while the namespace was rebuilt, was kept from os.mkdir {path}"
    )
    assert (await b.environment.tick(5, 1.0)).stops == (kept_from,)
    assert (await b.environment.tick(6, 2.0)).stops == ()
    assert not (tmp_path / "made").exists()


async def test_a_task_made_by_a_rerun_statement_is_guarded_in_a_live_one(b: AnyBench, tmp_path: Path) -> None:
    made = "import asyncio, os\nloop = asyncio.new_event_loop()\nasync def make(name): os.mkdir(name)\n"
    started = at(tmp_path, "old", "task = loop.create_task(make(PATH), name='old')")
    await restore(b, past(made + started, label="<statement 3>"))
    outcome = await b.run("loop.run_until_complete(task)")
    assert outcome.exception is not None
    assert "task 'old' was started by <statement 3>" in outcome.exception.message
    assert (await b.run(at(tmp_path, "new", "loop.run_until_complete(make(PATH)); loop.close()"))).status == "ok"
    assert os.listdir(tmp_path) == ["new"]


async def test_what_a_live_statement_calls_is_free_whoever_made_it(b: AnyBench, tmp_path: Path) -> None:
    made = at(
        tmp_path,
        "once",
        "import os\ndef make():\n    yield 1\n    os.mkdir(PATH)\n    yield 2\n"
        "g = make(); first = next(g)\nasync def make_async():\n    for _ in make(): yield _\na = make_async()\n"
        "class Late:\n    def __del__(self): os.mkdir(PATH + '-gone')\nlate = Late()",
    )
    assert await restore(b, past(made)) == Restored(executions=1)
    assert await b.value("next(g)") == "2"
    assert (await b.run("del late")).status == "ok"
    assert sorted(os.listdir(tmp_path)) == ["once", "once-gone"]


async def test_an_empty_context_is_no_way_round_the_guard(b: AnyBench, tmp_path: Path) -> None:
    empty = at(tmp_path, "made", "import contextvars, os\ncontextvars.Context().run(os.mkdir, PATH)")
    restored = await restore(b, past(empty))
    assert any("was kept from os.mkdir" in line for line in restored.divergences)
    assert os.listdir(tmp_path) == []


async def test_work_left_from_a_rebuild_asks_the_host_for_nothing(b: AnyBench) -> None:
    asked: list[str] = []

    async def answer(request: EffectRequest) -> EffectAnswer:
        asked.append(request.operation)
        return EffectAnswer(value="content")

    waiting = (
        "import threading\ngo, said = threading.Event(), []\ndef work():\n    go.wait(20)\n"
        "    try: read('f.txt')\n    except Exception as error: said.append(type(error).__name__)\n"
        "thread = threading.Thread(target=work); thread.start()"
    )
    await restore(b, past(waiting))
    outcome = await b.run("go.set(); thread.join(20); said, read('mine')", effects=answer)
    assert outcome.value == "(['ReplayEffect'], 'content')"
    assert asked == ["read"]


async def test_many_stops_of_one_statement_are_counted(b: AnyBench, tmp_path: Path) -> None:
    loop = (
        "import io\nfor number in range(20000):\n"
        f"    try: io.open({str(tmp_path)!r} + f'/{{number}}', 'w')\n    except Exception: pass"
    )
    restored = await restore(b, past(loop, label="<statement 1>"))
    assert len(restored.divergences) == 6
    assert restored.divergences[-1] == "<statement 1> was kept from 19,995 more acts outside"
    assert os.listdir(tmp_path) == []


async def test_what_a_statement_in_plan_mode_started_is_refused_later_too(b: AnyBench, tmp_path: Path) -> None:
    waiting = at(
        tmp_path,
        "made",
        "import os, threading\ngo, said = threading.Event(), []\ndef work():\n    go.wait(20)\n"
        "    try: os.mkdir(PATH)\n    except Exception as error: said.append(str(error))\n"
        "thread = threading.Thread(target=work); thread.start()",
    )
    assert (await b.run(waiting, plan=True)).status == "ok"
    said = await b.value("go.set(); thread.join(20); said[0]")
    assert said is not None
    assert "plan mode changes nothing outside" in said
    assert os.listdir(tmp_path) == []
