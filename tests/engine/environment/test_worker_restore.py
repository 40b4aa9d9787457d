"""Rebuilding a namespace by running its history again, which touches nothing outside."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import anyio
import pytest

from engine.execution import ExceptionInfo
from engine.ports import EffectAnswer, PastExecution, Restored
from tests.support.workers import PATIENCE, Bench, bench, request

pytestmark = pytest.mark.anyio


def past(
    source: str,
    status: Literal["ok", "error", "timeout", "cancelled"] = "ok",
    answers: Sequence[EffectAnswer] = (),
    label: str = "<statement 1>",
    time_limit: float = 20.0,
) -> PastExecution:
    return PastExecution(request=request(source, time_limit, label), status=status, answers=tuple(answers))


async def restore(b: Bench, *history: PastExecution) -> Restored:
    with anyio.fail_after(PATIENCE):
        return await b.environment.restore(history)


async def test_the_namespace_is_rebuilt_and_what_was_stopped_is_left_out(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        restored = await restore(
            b,
            past("x = 1"),
            past("y = x + 1\n1 / 0", "error"),
            past("x = 100", "timeout"),
            past("x = 200", "cancelled"),
            past("print('never heard'); x += 1"),
        )
        assert restored == Restored(executions=3)
        assert await b.value("x, y") == "(2, 2)"
        assert b.output == []


async def test_recorded_answers_are_given_again_without_asking(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        answers = [EffectAnswer(value="a"), EffectAnswer(error=ExceptionInfo(type="FileNotFoundError", message="b"))]
        source = "r = read('1')\ntry: read('2')\nexcept FileNotFoundError as e: s = str(e)"
        assert await restore(b, past(source, answers=answers)) == Restored(executions=1)
        assert await b.value("r, s") == "('a', 'b')"
        restored = await restore(b, past("r = read('1')", label="<statement 7>"))
        assert len(restored.divergences) == 2
        assert "<statement 7> asked for read" in restored.divergences[0]


@pytest.mark.parametrize(
    "source",
    [
        "open('f.txt', 'a').write('again')",
        "import os; os.write(os.open('f.txt', os.O_WRONLY | os.O_APPEND), b'again')",
        "from pathlib import Path; Path('f.txt').unlink()",
        "import os; os.rename('f.txt', 'g.txt')",
        "import os; os.truncate('f.txt', 0)",
        "import os; os.mkdir('d')",
        "import os; os.symlink('f.txt', 'g.txt')",
        "import os; os.link('f.txt', 'g.txt')",
        "import os; os.chmod('f.txt', 0)",
        "import os; os.rmdir('empty')",
        "import os; os.system('touch g.txt')",
        "import subprocess; subprocess.run(['touch', 'g.txt'])",
        "import os; os.posix_spawn('/usr/bin/touch', ['touch', 'g.txt'], {})",
        "import os; os.spawnlp(os.P_WAIT, 'touch', 'touch', 'g.txt')",
        "import os; os.execlp('touch', 'touch', 'g.txt')",
        "import os\nif os.fork() == 0:\n    os.system('touch g.txt'); os._exit(0)\nos.wait()",
        "import sqlite3; sqlite3.connect('g.txt').execute('create table t (x)')",
    ],
)
async def test_a_replay_leaves_no_trace(tmp_path: Path, source: str) -> None:
    (tmp_path / "f.txt").write_text("once")
    (tmp_path / "empty").mkdir()
    mode = (tmp_path / "f.txt").stat().st_mode
    async with bench(tmp_path) as b:
        restored = await restore(b, past("x = 1"), past(source, label="<statement 9>"), past("y = 2"))
        assert any("<statement 9> was kept from" in line for line in restored.divergences)
        assert any("instead of ok" in line and "ReplayEffect" in line for line in restored.divergences)
        assert await b.value("x, y") == "(1, 2)"
    assert sorted(os.listdir(tmp_path)) == ["empty", "f.txt"]
    assert (tmp_path / "f.txt").read_text() == "once"
    assert (tmp_path / "f.txt").stat().st_mode == mode


async def test_a_replay_does_not_connect(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        async with bench(tmp_path) as b:
            restored = await restore(b, past(f"import socket; socket.create_connection(('127.0.0.1', {port}))"))
            assert any("socket.connect" in line for line in restored.divergences)
            with pytest.raises(BlockingIOError):
                server.accept()
            assert (await b.run(f"import socket; s = socket.create_connection(('127.0.0.1', {port}))")).status == "ok"
            server.accept()[0].close()


async def test_a_replay_may_read_import_print_and_write_to_dev_null(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("X = 1")
    (tmp_path / "d").mkdir()
    async with bench(tmp_path) as b:
        source = (
            "import mine, os, sys\nopen('/dev/null', 'w').write('x')\nos.makedirs('d', exist_ok=True)\n"
            "t = open('mine.py').read()\nos.write(1, b'x')\nimport sqlite3; sqlite3.connect(':memory:').close()"
        )
        assert await restore(b, past(source)) == Restored(executions=1)
        assert not (tmp_path / "__pycache__").exists()
        assert (await b.run("open('written', 'w').write('x')")).status == "ok"


async def test_a_replay_that_ends_differently_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        restored = await restore(
            b,
            past("1", "error", label="<statement 1>"),
            past("while True: pass", label="<statement 2>", time_limit=0.1),
        )
        assert "<statement 1> ended with ok instead of error" in restored.divergences
        assert any(line.startswith("<statement 2> ended with timeout") for line in restored.divergences)
        assert b.environment.alive


async def test_an_execution_that_ends_its_worker_is_left_out(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        restored = await restore(
            b, past("x = 1"), past("import os; os._exit(1)", label="<statement 2>"), past("x += 1")
        )
        assert restored.executions == 2
        assert restored.divergences == ("<statement 2> ended the worker and was left out",)
        assert await b.value("x") == "2"


async def test_a_cancelled_restore_leaves_no_half_namespace(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        with anyio.move_on_after(0.3) as scope:
            await b.environment.restore([past("x = 1"), past("while True: pass")])
        assert scope.cancelled_caught
        assert not b.environment.alive
        assert await restore(b, past("x = 5")) == Restored(executions=1)
        assert await b.value("x") == "5"
