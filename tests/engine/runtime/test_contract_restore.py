"""Rebuilding a namespace by running its history again, which touches nothing outside, in any environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.errors import StoreError
from engine.core.execution import ExceptionInfo
from engine.core.ids import BlobDigest
from engine.core.plain_data import argument_digest
from engine.log.past import PastAnswer, PastQuestion, Restored, RestorePlan
from engine.log.statements import EffectAnswer, EffectRequest
from tests.support.environments import (
    PATIENCE,
    AnyBench,
    Make,
    contents,
    ended_otherwise,
    kept,
    opened,
    past,
    past_answer,
    restore,
    until,
)
from tests.support.stretches import Looked, lived, restored


async def test_namespace_is_rebuilt_without_stopped_statements(b: AnyBench) -> None:
    await b.run("gone = 1")
    restored = await restore(
        b,
        past("x = 1"),
        past("y = x + 1\n1 / 0", "error"),
        past("x = 100", "timeout"),
        past("x = 200", "cancelled"),
        past("print('never heard'); x += 1"),
    )
    assert restored == Restored(executions=3)
    assert await b.value("x, y, 'gone' in globals()") == "(2, 2, False)"
    assert b.output == []


async def test_what_a_stopped_statement_deleted_is_gone(b: AnyBench) -> None:
    restored = await restore(
        b, past("x, y = 1, 2"), replace(past("del x; time.sleep(99)", "cancelled"), unbound=("x",))
    )
    assert restored == Restored(executions=1)
    assert await b.value("'x' in globals(), y") == "(False, 2)"


async def test_names_without_a_copy_are_listed_by_reason(b: AnyBench) -> None:
    names = ("a", "b\nc", "d")
    step = replace(past("", "cancelled"), bound=names, unkept={"a": "too large", "d": "too large", "b\nc": "it hangs"})
    restored = await restore(b, step)
    assert restored.divergences == (
        "<statement 1> was stopped (cancelled), and is not run again; no copy of a, d (too large), b\\nc (it hangs)",
    )


async def test_recorded_answers_are_given_again_without_asking(b: AnyBench) -> None:
    answers = [EffectAnswer(value="a"), EffectAnswer(error=ExceptionInfo(type="FileNotFoundError", message="b"))]
    source = "r = read('1')\ntry: read('2')\nexcept FileNotFoundError as e: s = str(e)"
    assert await restore(b, past(source, answers=answers)) == Restored(executions=1)
    assert await b.value("r, s") == "('a', 'b')"
    restored = await restore(b, past("r = read('1')", label="<statement 7>"))
    assert restored.divergences == (
        "<statement 7> called read, which has no recorded answer",
        "<statement 7> ended with error (ReplayEffect: read() has no recorded answer) instead of ok",
    )


def recorded(ordinal: int, operation: str, arguments: dict[str, object], value: object) -> PastAnswer:
    question = PastQuestion(ordinal=ordinal, operation=operation, argument_digest=argument_digest(arguments))
    return past_answer(EffectAnswer(value=value), question)


def reading(ordinal: int, path: str, value: object) -> PastAnswer:
    return recorded(ordinal, "read", {"path": path, "start_line": None, "end_line": None}, value)


async def test_replayed_question_gets_its_own_answer_in_any_order(b: AnyBench) -> None:
    # As threads do, whose questions come in another order each time.
    answers = [reading(0, "b", "B1"), reading(1, "a", "A"), reading(2, "b", "B2"), reading(4, "c", "C")]
    source = "names = [read('a'), read('b'), read('b'), read('c')]"
    assert await restore(b, past(source, answers=answers)) == Restored(executions=1)
    assert await b.value("names") == "['A', 'B1', 'B2', 'C']"


async def test_a_replay_never_reads_the_answer_to_another_question(b: AnyBench) -> None:
    restored = await restore(b, past("x = read('a')", answers=[reading(0, "b", "B")]))
    assert restored.divergences[0] == "<statement 1> called read, which has no recorded answer"


async def test_too_large_question_is_refused_again(b: AnyBench) -> None:
    source = "try: write('big', 'x' * (81 << 20))\nexcept ValueError as e: kind = type(e).__name__\nx = read('a')"
    assert await restore(b, past(source, answers=[reading(1, "a", "A")])) == Restored(executions=1)
    assert await b.value("kind, x") == "('FrameTooLargeError', 'A')"


async def test_what_is_written_may_be_another_text_in_a_replay(b: AnyBench) -> None:
    written = {"path": "a", "created": True, "added": 1, "removed": 0, "line": 1, "size": 1}
    answers = [recorded(0, "write", {"path": "a", "text": "12:00"}, written)]
    assert await restore(b, past("w = write('a', '12:01')", answers=answers)) == Restored(executions=1)
    assert await b.value("w.size") == "1"


OUTSIDE = (
    "import io; io.open({0} + '/f.txt', 'a').write('again')",
    "import os; os.write(os.open({0} + '/f.txt', os.O_WRONLY | os.O_APPEND), b'again')",
    "from pathlib import Path; Path({0} + '/f.txt').unlink()",
    "import os; os.rename({0} + '/f.txt', {0} + '/g.txt')",
    "import os; os.truncate({0} + '/f.txt', 0)",
    "import os; os.mkdir({0} + '/d')",
    "import os; os.symlink('f.txt', {0} + '/g.txt')",
    "import os; os.link({0} + '/f.txt', {0} + '/g.txt')",
    "import os; os.chmod({0} + '/f.txt', 0)",
    "import os; os.rmdir({0} + '/empty')",
    "import os; os.system('touch ' + {0} + '/g.txt')",
    "import subprocess; subprocess.run(['touch', {0} + '/g.txt'])",
    "import sqlite3; sqlite3.connect({0} + '/g.txt').execute('create table t (x)')",
)
"""Statements that change something in the directory {0}."""


async def test_a_replay_leaves_no_trace(b: AnyBench, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("once")
    (tmp_path / "empty").mkdir()
    mode = (tmp_path / "f.txt").stat().st_mode
    history = [
        past(source.format(repr(str(tmp_path))), label=f"<statement {number}>") for number, source in enumerate(OUTSIDE)
    ]
    restored = await restore(b, past("x = 1"), *history, past("y = 2"))
    for number, source in enumerate(OUTSIDE):
        said = [line for line in restored.divergences if line.startswith(f"<statement {number}> ")]
        assert any("was not allowed to call" in line for line in said), source
        assert any("instead of ok" in line and "ReplayEffect" in line for line in said), source
    assert await b.value("x, y") == "(1, 2)"
    assert sorted(os.listdir(tmp_path)) == ["empty", "f.txt"]
    assert (tmp_path / "f.txt").read_text() == "once"
    assert (tmp_path / "f.txt").stat().st_mode == mode


REFUSED = (
    "try: open('new.txt', 'w').write('x'); how = 'wrote'",
    "import pathlib\ntry: pathlib.Path('new.txt').write_text('x'); how = 'wrote'",
    "import os\ntry: os.mkdir('d'); how = 'made'",
    "import subprocess\ntry: subprocess.run(['true']); how = 'ran'",
)


@pytest.mark.parametrize("source", REFUSED)
async def test_what_plan_mode_refused_is_refused_again_and_no_news(b: AnyBench, source: str, tmp_path: Path) -> None:
    source += "\nexcept PermissionError as e: how = str(e)"
    first = await b.run(source, plan=True)
    how = await b.value("how")
    assert "plan mode allows no outside effects" in (how or "")
    step = past(source)
    restored = await restore(b, replace(step, request=replace(step.request, plan=True)))
    assert restored == Restored(executions=1)
    assert await b.value("how") == how
    assert first.status == "ok"
    assert not (tmp_path / "new.txt").exists()


async def test_a_replay_does_not_connect(b: AnyBench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        connect = f"import socket\nwith socket.socket() as s: s.connect({server.getsockname()!r})"
        restored = await restore(b, past(connect))
        assert any("socket.connect" in line for line in restored.divergences)
        with pytest.raises(BlockingIOError):
            server.accept()
        assert (await b.run(connect)).status == "ok"
        server.accept()[0].close()


async def test_replay_may_read_import_and_print(b: AnyBench, tmp_path: Path) -> None:
    name = f"mine_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("X = 1")
    (tmp_path / "d").mkdir()
    here = repr(str(tmp_path))
    source = (
        f"import os, sys\nif {here} not in sys.path: sys.path.append({here})\nimport {name}\nsys.path.remove({here})\n"
        f"with open('/dev/null', 'w') as null: null.write('x')\nos.makedirs({here} + '/d', exist_ok=True)\n"
        f"with open({here} + '/{name}.py') as mine: t = mine.read()\nprint('x')\n"
        "import sqlite3; sqlite3.connect(':memory:').close()"
    )
    assert await restore(b, past(source)) == Restored(executions=1)
    assert not (tmp_path / "__pycache__").exists()
    assert (await b.run(f"import io\nwith io.open({here} + '/written', 'w') as f: f.write('x')")).status == "ok"


async def test_a_replay_that_ends_differently_says_so(make: Make, tmp_path: Path) -> None:
    async with opened(make(), tmp_path, grace_seconds=2.0) as b:
        restored = await restore(
            b,
            past("1", "error", label="<statement 1>"),
            past("while True: pass", label="<statement 2>", time_limit=0.1),
        )
        assert "<statement 1> ended with ok instead of error" in restored.divergences
        assert any(line.startswith("<statement 2> ended with timeout") for line in restored.divergences)
        assert b.environment.alive


async def test_a_cancelled_restore_leaves_no_half_namespace(b: AnyBench) -> None:
    with anyio.move_on_after(0.2) as scope:
        await b.environment.restore(
            RestorePlan(steps=(past("x = 1"), past("while True: pass"))), contents, ended_otherwise
        )
    assert scope.cancelled_caught
    assert not b.environment.alive
    assert await restore(b, past("x = 5")) == Restored(executions=1)
    assert await b.value("x") == "5"


async def test_statements_as_recorded_are_not_compared_by_the_host(b: AnyBench) -> None:
    steps = await lived(b, "import math", "def f(n): return n + 1", "x = [f(1)]", "x.append(f(2)); x", "1 / 0", "del f")
    found, looked = await restored(b, steps)
    assert (found.executions, found.divergences, looked.at) == (6, (), [])
    assert await b.value("x, 'f' in globals()") == "([2, 3], False)"


async def test_stretch_ends_at_the_first_different_statement(b: AnyBench) -> None:
    steps = await lived(b, "n = 1", "m = n + 1", "k = m + 1", "j = k + 1")
    steps[1] = replace(steps[1], request=replace(steps[1].request, source="m = n + 7"))
    found, looked = await restored(b, steps)
    assert looked.labels == ["<statement 2>"]
    assert found.executions == 4
    assert found.divergences == ("<statement 2> left another value in m (8 instead of 2); m restored from copies",)
    # The next statement found what it had found, or it would have come out differently too.
    assert await b.value("n, m, k, j") == "(1, 2, 3, 4)"


async def test_output_belongs_to_its_statement_and_is_compared(b: AnyBench) -> None:
    steps = await lived(
        b, "print('one')", "x = 1", "print('two'); import sys; print('three', file=sys.stderr)", "y = 2"
    )
    steps[1] = replace(steps[1], request=replace(steps[1].request, source="x = 1; print('more')"))
    found, looked = await restored(b, steps)
    assert looked.at == [
        ("<statement 1>", "ok", "one\n"),
        ("<statement 2>", "ok", "more\n"),
        ("<statement 3>", "ok", "two\n"),
    ]
    assert found.divergences == ("<statement 2> printed 'more' instead of nothing",)


async def test_each_statement_of_a_stretch_finds_streams_that_are_open(b: AnyBench) -> None:
    steps = await lived(b, "import sys; sys.stdout.close()", "print('there')", "sys.stderr.close()", "x = 1")
    found, looked = await restored(b, steps)
    assert (found.divergences, looked.at) == ((), [("<statement 2>", "ok", "there\n")])


async def test_more_than_a_pipe_holds_is_compared_as_one_statements(b: AnyBench) -> None:
    steps = await lived(b, "x = 1", "print('-' * 300_000)", "y = 2")
    found, looked = await restored(b, steps)
    assert found.divergences == ()
    assert looked.labels == ["<statement 2>"]


def acts(b: AnyBench, number: int) -> str:
    path = str(b.cwd / f"{number}.txt")
    return f"import io; n{number} = [{number}]; _ = io.FileIO({path!r}, 'w').close(); m{number} = [n{number}, {number}]"


async def test_acting_statement_gets_its_names_back_without_a_stop(b: AnyBench, tmp_path: Path) -> None:
    steps = await lived(b, *(acts(b, number) for number in range(12)), "m3[0].append(4); n3")
    for name in os.listdir(tmp_path):
        (tmp_path / name).unlink()
    visits: list[Collection[BlobDigest]] = []

    async def counted(digests: Collection[BlobDigest]) -> Mapping[BlobDigest, bytes | StoreError]:
        visits.append(digests)
        return await contents(digests)

    looked = Looked()
    with anyio.fail_after(PATIENCE):
        found = await b.environment.restore(RestorePlan(steps=tuple(steps)), counted, looked)
    assert [line.partition(" was not allowed")[0] for line in found.divergences] == [
        f"<statement {n}>" for n in range(1, 13)
    ]
    assert all("restored from copies" in line and "no copy" not in line for line in found.divergences)
    # The last one came out as recorded, although what it changes is shared between two names.
    assert looked.labels == [f"<statement {n}>" for n in range(1, 13)]
    assert len(visits) < 6
    assert await b.value("m3, m11") == "([[3, 4], 3], [[11], 11])"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [(BlobDigest("0" * len(kept(b""))), "(its copy is missing in the store)"), (kept(b"no pickle"), "m1, n1 (")],
    ids=["missing", "damaged"],
)
async def test_name_without_a_usable_copy_is_named(b: AnyBench, content: BlobDigest, reason: str) -> None:
    steps = await lived(b, "x = 1", acts(b, 1), "y = 2")
    (group,) = [each for each in steps[1].kept if "m1" in each.names]
    lost = tuple(replace(group, content=content) if each is group else each for each in steps[1].kept)
    found, _ = await restored(b, [steps[0], replace(steps[1], kept=lost), steps[2]])
    (said,) = found.divergences
    assert reason in said
    assert await b.value("x, y") == "(1, 2)"


async def test_slow_statement_in_a_stretch_is_stopped(make: Make, tmp_path: Path) -> None:
    async with opened(make(), tmp_path, grace_seconds=2.0) as b:
        steps = await lived(b, "x = 1", "y = 2", "z = 3")
        # It catches its interrupt and comes out as recorded, and was stopped all the same.
        caught = "try:\n    exec('while True: pass')\nexcept KeyboardInterrupt: y = 2"
        steps[1] = replace(steps[1], request=replace(steps[1].request, source=caught, time_limit=0.1))
        found, looked = await restored(b, steps)
        assert [each[:2] for each in looked.at] == [("<statement 2>", "timeout")]
        assert found.executions == 3
        assert len(found.divergences) == 1
        assert await b.value("x, y, z") == "(1, 2, 3)"


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


async def test_work_started_by_reruns_stays_guarded(b: AnyBench, tmp_path: Path) -> None:
    history = [
        past(at(tmp_path, name, source), label=f"<statement {number}>")
        for number, (name, source) in enumerate(STARTED.items(), 2)
    ]
    restored = await restore(b, past(BEGUN), *history)
    left = [line.split(" started ")[0] for line in restored.divergences if "which continues" in line]
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
    assert restored.divergences == ("<statement 4> started thread 'server', which continues without outside effects",)
    path = str(tmp_path / "made")
    said = await b.value(f"q.put({path!r}); said.get(timeout=20)")
    assert said is not None
    words = ("ReplayEffect", "server", "<statement 4> started it", f"os.mkdir {path}", "Start it again")
    assert [word for word in words if word not in said] == []
    kept_from = (
        "thread 'server', started by <statement 4> while the namespace was rebuilt, "
        f"was not allowed to call os.mkdir {path}"
    )
    assert (await b.environment.tick(5, 1.0)).stops == (kept_from,)
    assert (await b.environment.tick(6, 2.0)).stops == ()
    assert not (tmp_path / "made").exists()


async def test_task_made_by_a_rerun_is_guarded_in_live_statements(b: AnyBench, tmp_path: Path) -> None:
    made = "import asyncio, os\nloop = asyncio.new_event_loop()\nasync def make(name): os.mkdir(name)\n"
    started = at(tmp_path, "old", "task = loop.create_task(make(PATH), name='old')")
    await restore(b, past(made + started, label="<statement 3>"))
    outcome = await b.run("loop.run_until_complete(task)")
    assert "<statement 3> started it during a rebuild" in outcome.exception.message
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
    assert any("was not allowed to call os.mkdir" in line for line in restored.divergences)
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
    assert restored.divergences[-1] == "<statement 1> was refused 19,995 more outside effects"
    assert os.listdir(tmp_path) == []


async def test_the_execution_that_runs_again_is_named(b: AnyBench, tmp_path: Path) -> None:
    steps = [
        past("x = 1"),
        past(f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)"),
    ]
    assert b.environment.rerunning is None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(restore, b, *steps)
        with anyio.fail_after(PATIENCE):
            await until(lambda: b.environment.rerunning == steps[1].request.execution_id)
        (tmp_path / "go").touch()
    assert b.environment.rerunning is None
