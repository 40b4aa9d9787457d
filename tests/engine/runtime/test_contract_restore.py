"""Rebuilding a namespace by running its history again, which touches nothing outside, in any environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.execution import ExceptionInfo
from engine.core.plain_data import argument_digest
from engine.log.past import PastAnswer, PastQuestion, Restored, RestorePlan
from engine.log.statements import EffectAnswer
from engine.runtime.environment import Environment
from tests.support.environments import (
    PATIENCE,
    Bench,
    contents,
    ended_otherwise,
    opened,
    past,
    past_answer,
    restore,
    until,
)

pytestmark = pytest.mark.anyio
AnyBench = Bench[Environment]


async def test_the_namespace_is_rebuilt_and_what_was_stopped_is_left_out(b: AnyBench) -> None:
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


async def test_it_says_which_execution_runs_again(b: AnyBench, tmp_path: Path) -> None:
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


async def test_what_a_stopped_statement_deleted_is_gone(b: AnyBench) -> None:
    restored = await restore(
        b, past("x, y = 1, 2"), replace(past("del x; time.sleep(99)", "cancelled"), unbound=("x",))
    )
    assert restored == Restored(executions=1)
    assert await b.value("'x' in globals(), y") == "(False, 2)"


async def test_names_without_a_copy_are_told_by_reason_each_on_one_line(b: AnyBench) -> None:
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
        "<statement 7> asked for read, for which there is no recorded answer",
        "<statement 7> ended with error (ReplayEffect: read() has no recorded answer) instead of ok",
    )


def recorded(ordinal: int, operation: str, arguments: dict[str, object], value: object) -> PastAnswer:
    question = PastQuestion(ordinal=ordinal, operation=operation, argument_digest=argument_digest(arguments))
    return past_answer(EffectAnswer(value=value), question)


def reading(ordinal: int, path: str, value: object) -> PastAnswer:
    return recorded(ordinal, "read", {"path": path, "start_line": None, "end_line": None}, value)


async def test_a_question_gets_its_own_answer_in_whatever_order_a_replay_asks(b: AnyBench) -> None:
    # As threads do, whose questions come in another order each time.
    answers = [reading(0, "b", "B1"), reading(1, "a", "A"), reading(2, "b", "B2"), reading(4, "c", "C")]
    source = "names = [read('a'), read('b'), read('b'), read('c')]"
    assert await restore(b, past(source, answers=answers)) == Restored(executions=1)
    assert await b.value("names") == "['A', 'B1', 'B2', 'C']"


async def test_a_replay_never_reads_the_answer_to_another_question(b: AnyBench) -> None:
    restored = await restore(b, past("x = read('a')", answers=[reading(0, "b", "B")]))
    assert restored.divergences[0] == "<statement 1> asked for read, for which there is no recorded answer"


async def test_a_question_that_was_too_large_is_refused_again_and_takes_nobodys_answer(b: AnyBench) -> None:
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
        assert any("was kept from" in line for line in said), source
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
    assert "plan mode changes nothing outside" in (how or "")
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


async def test_a_replay_may_read_import_print_and_write_to_dev_null(b: AnyBench, tmp_path: Path) -> None:
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


async def test_a_replay_that_ends_differently_says_so(make: Callable[[], Environment], tmp_path: Path) -> None:
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
