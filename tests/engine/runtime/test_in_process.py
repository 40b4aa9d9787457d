"""The environment in a thread leaves the test process as it was."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import anyio
import pytest

from engine.log.statements import EffectAnswer, EffectRequest, RunOutcome
from tests.support.environments import PATIENCE, Bench, opened, past, restore, until
from tests.support.in_process import STDERR, STDOUT, InProcessEnvironment, OutputPipe

pytestmark = pytest.mark.anyio


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "statements"]


async def test_what_the_host_writes_while_a_statement_runs_stays_the_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(_: EffectRequest) -> EffectAnswer:
        print("the host's")
        return EffectAnswer()

    async with opened(InProcessEnvironment(), tmp_path) as b:
        outcome = await b.run("print('the statement\\'s'); read('x')", effects=answer)
        assert outcome.stdout.text == "the statement's\n"
        print("after")
    assert capsys.readouterr().out == "the host's\nafter\n"


async def test_the_hosts_streams_are_back_after_a_statement_whatever_it_put_there(tmp_path: Path) -> None:
    before = sys.stdout, sys.stderr
    async with opened(InProcessEnvironment(), tmp_path) as b:
        await b.run("import io, sys\nsys.stdout = sys.stderr = io.StringIO()")
        assert (sys.stdout, sys.stderr) == before
        await b.run("1 / 0")
        await b.run("while True: pass", time_limit=0.05)
    assert (sys.stdout, sys.stderr) == before


async def test_the_hosts_streams_survive_a_statement_that_replaced_them_while_another_began(tmp_path: Path) -> None:
    before = sys.stdout, sys.stderr

    async def meanwhile(_: EffectRequest) -> EffectAnswer:
        assert (await other.run("print('other')")).stdout.text == "other\n"
        print("the host's", file=sys.stderr)
        return EffectAnswer()

    async with opened(InProcessEnvironment(), tmp_path) as b, opened(InProcessEnvironment(), tmp_path) as other:
        source = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): read('x')\nprint('mine')"
        assert (await b.run(source, effects=meanwhile)).stdout.text == "mine\n"
    assert (sys.stdout, sys.stderr) == before


async def test_a_host_may_replace_its_streams_while_a_statement_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = tmp_path / "over"
    stubborn = (
        "import os, time\ndef on():\n"
        f"    while not os.path.exists({str(over)!r}): time.sleep(0.002)\n"
        "while True:\n    try: on(); break\n    except KeyboardInterrupt: pass\n"
    )
    before = sys.stdout, sys.stderr
    hosts = io.StringIO()
    try:
        async with opened(InProcessEnvironment(), tmp_path, grace_seconds=0.05) as b:
            await b.run(stubborn, time_limit=0.05)
            assert not b.environment.alive
        monkeypatch.setattr(sys, "stdout", hosts)
        async with opened(InProcessEnvironment(), tmp_path) as b:

            async def say(_: EffectRequest) -> EffectAnswer:
                print("the host's")
                return EffectAnswer()

            assert (await b.run("print('mine'); read('x')", effects=say)).stdout.text == "mine\n"
        assert hosts.getvalue() == "the host's\n"
    finally:
        over.touch()
        await until(lambda: not threads())
        sys.stdout, sys.stderr = before


async def test_closing_gives_the_thread_and_every_descriptor_back(tmp_path: Path) -> None:
    await until(lambda: not threads())
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        async with opened(InProcessEnvironment(), tmp_path) as b:
            await b.run("x = 1")
            await restore(b, past("x = 2"))
    await until(lambda: not threads())
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_a_statement_that_is_left_behind_writes_nothing_any_more(tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    source = (
        "import os, time\ndef on():\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.002)\n"
        "while True:\n    try: on(); break\n    except KeyboardInterrupt: pass\n"
        f"print('z' * 200_000)\nos.mkdir({str(done)!r})"
    )
    async with opened(InProcessEnvironment(), tmp_path, grace_seconds=0.05) as b:
        outcome = await b.run(source, time_limit=0.05)
        assert outcome.exception is not None
        assert "left behind" in outcome.exception.message
        with anyio.fail_after(PATIENCE):
            await restore(b, past("x = 1"))
        go.touch()
        await until(lambda: done.exists() and len(threads()) == 1)
        assert b.output == []
        assert await b.value("print('mine'); x") == "1"
        assert b.output[0] == ("stdout", "mine")


async def test_statements_of_several_environments_are_interrupted_each_for_itself(tmp_path: Path) -> None:
    async with (
        opened(InProcessEnvironment(), tmp_path) as first,
        opened(InProcessEnvironment(), tmp_path) as second,
        opened(InProcessEnvironment(), tmp_path) as other,
    ):
        outcomes: list[RunOutcome] = []

        async def run(b: Bench[InProcessEnvironment]) -> None:
            outcomes.append(await b.interrupted("print('go')\nwhile True: pass"))

        with anyio.fail_after(PATIENCE):
            for _ in range(10):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run, first)
                    tasks.start_soon(run, second)
                    assert await other.value("sum(range(1000))") == "499500"
        assert {outcome.status for outcome in outcomes} == {"cancelled"}
        assert first.environment.alive
        assert second.environment.alive


async def test_the_guard_stands_before_its_own_statement_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    asked = anyio.Event()
    answered = anyio.Event()

    async def wait(_: EffectRequest) -> EffectAnswer:
        asked.set()
        await answered.wait()
        return EffectAnswer()

    async with opened(InProcessEnvironment(), tmp_path) as planning, opened(InProcessEnvironment(), tmp_path) as free:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: planning.run("read('x')", effects=wait, plan=True))
                await asked.wait()
                (tmp_path / "the host's").write_text("x")
                write = f"import io\nwith io.open({str(tmp_path / 'free')!r}, 'w') as f: n = f.write('x')"
                assert (await free.run(write)).status == "ok"
                refused = await free.run(write, plan=True)
                assert refused.exception is not None
                assert refused.exception.type == "PermissionError"
                assert not sys.dont_write_bytecode, "the host's imports keep what they compile"
                answered.set()


async def test_the_builtins_of_the_host_stay_as_they_are(tmp_path: Path) -> None:
    async with opened(InProcessEnvironment(), tmp_path) as b:
        await b.run("__builtins__['len'] = lambda _: 0")
        assert await b.value("len([1])") == "0"
    assert len([1]) == 1


async def test_the_count_of_tokens_can_be_replaced(tmp_path: Path) -> None:
    async with opened(InProcessEnvironment(count=len), tmp_path) as b:
        assert (await b.environment.project(["four", ""], 0)).text_tokens == (4, 0)


TRACED = """
import sys
from pathlib import Path
import anyio
from tests.support.in_process import InProcessEnvironment
from tests.support.environments import opened

WAITING = "import time; time.sleep(600)"

async def main():
    async with opened(InProcessEnvironment(), Path(sys.argv[1]), grace_seconds=0.1) as b:
        for source in ("1", "while True: pass", WAITING if sys.argv[2] == "left behind" else "2"):
            await b.run(source, time_limit=0.1)

def work():
    return sum(1 for _ in range(1000))

anyio.run(main)
sys.settrace(lambda *_: None)
work()
print("traced", flush=True)
import os
os._exit(0)  # because a thread was left behind
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["interrupted", "left behind"])
async def test_a_host_can_be_traced_after_a_statement_was(tmp_path: Path, ending: str) -> None:
    with anyio.fail_after(PATIENCE):
        done = await anyio.run_process([sys.executable, "-c", TRACED, str(tmp_path), ending], check=False)
    assert done.stdout == b"traced\n", done.stderr


PIECE = b"x" * 40_000


def writing(pipe: OutputPipe) -> threading.Thread:
    """Writes ten pieces, which is more than the pipe takes."""

    def write() -> None:
        for _ in range(10):
            pipe.write(STDOUT, PIECE)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def test_what_is_written_is_taken_once_in_order_with_its_stream_and_one_wake() -> None:
    woken: list[bool] = []
    pipe = OutputPipe(lambda: woken.append(True))
    pipe.write(STDOUT, b"a")
    pipe.write(STDERR, b"b")
    assert pipe.take() == [(STDOUT, b"a"), (STDERR, b"b")]
    assert pipe.take() == []
    assert woken == [True]
    pipe.write(STDOUT, b"c")
    assert woken == [True, True]


def test_a_writer_waits_until_the_host_has_taken_what_is_on_its_way() -> None:
    pipe = OutputPipe(lambda: None)
    writer = writing(pipe)
    taken = 0
    while taken < 10 * len(PIECE):
        pieces = pipe.take()
        assert sum(len(data) for _, data in pieces) <= 2 * len(PIECE)
        taken += sum(len(data) for _, data in pieces)
        writer.join(0.001)
    writer.join(PATIENCE)
    assert not writer.is_alive()


def test_a_closed_pipe_lets_a_waiting_writer_go_and_keeps_nothing_of_later_ones() -> None:
    pipe = OutputPipe(lambda: None)
    writer = writing(pipe)
    pipe.close()
    writer.join(PATIENCE)
    assert not writer.is_alive()
    pipe.take()
    pipe.write(STDOUT, b"late")
    assert pipe.take() == []
