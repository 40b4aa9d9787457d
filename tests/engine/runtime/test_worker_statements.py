"""What only a process does in a statement: waits for effects, system calls, output of descriptors, stretches."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.execution import STATEMENT_CANCELLED
from engine.log.statements import EffectAnswer, EffectRequest
from tests.support.environments import PATIENCE, until
from tests.support.stretches import lived, restored
from tests.support.workers import WorkerBench, bench


async def never(_: EffectRequest) -> EffectAnswer:
    await anyio.sleep_forever()
    raise AssertionError


async def test_children_can_print_while_an_effect_is_answered(b: WorkerBench, tmp_path: Path) -> None:
    async def wait(_: EffectRequest) -> EffectAnswer:
        await until((tmp_path / "done").exists)
        return EffectAnswer(value="answered")

    source = "import subprocess\n_ = subprocess.Popen('head -c 5000000 /dev/zero; touch done', shell=True)\nread('x')"
    outcome = await b.run(source, effects=wait)
    assert (outcome.status, outcome.value) == ("ok", "'answered'")
    assert outcome.stdout.total_bytes == 5_000_000


async def test_death_during_an_effect_ends_the_wait(b: WorkerBench) -> None:
    outcome = await b.run(
        "import os, threading\nthreading.Timer(0.05, os._exit, (3,)).start()\nread('x')", effects=never
    )
    assert outcome.exception.type == "WorkerDied"
    assert "exited with code 3" in outcome.exception.message


async def test_abandoned_effect_is_stopped_and_the_next_answered(b: WorkerBench) -> None:
    asked: list[str] = []

    async def first_never(request: EffectRequest) -> EffectAnswer:
        asked.append(str(request.arguments["path"]))
        if asked == ["x"]:
            await never(request)
        return EffectAnswer(value=f"answer to {asked[-1]}")

    source = (
        "import signal\n"
        "def late(*_): raise TimeoutError\n"
        "signal.signal(signal.SIGALRM, late); _ = signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "try: read('x')\n"
        "except TimeoutError: print(read('y'))"
    )
    outcome = await b.run(source, effects=first_never)
    assert (outcome.status, outcome.stdout.text) == ("ok", "answer to y\n")
    outcome = await b.run(source.replace("print(read('y'))", "print('gone on')"), effects=never)
    assert (outcome.status, outcome.stdout.text) == ("ok", "gone on\n")
    assert await b.value("5") == "5"


C_LOOP = """
import os, collections, itertools
collections.deque(itertools.chain(map(os.write, [1], [b"go"]), itertools.repeat(1)), maxlen=0)
"""
"""Says "go" from within a loop that runs no bytecode, so that no signal handler of Python's ever runs."""


async def test_a_c_loop_is_killed_after_the_grace(tmp_path: Path) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        outcome = await b.interrupted(C_LOOP)
        assert outcome.status == "cancelled"
        assert outcome.exception.type == "WorkerDied"
        assert "SIGKILL" in outcome.exception.message
        assert outcome.stdout.text == "go"
        assert not b.environment.alive


async def test_early_interrupt_ends_a_system_call(b: WorkerBench) -> None:
    for _ in range(10):
        async with b.running("import time; time.sleep(20)") as outcomes:
            b.environment.interrupt()
        assert outcomes[0].status == "cancelled"
        assert b.environment.alive


async def test_unnoticed_interrupt_is_repeated(b: WorkerBench) -> None:
    lose_the_first = """
import signal, time
ours = signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, ours))
print("go", flush=True)
time.sleep(20)
"""
    outcome = await b.interrupted(lose_the_first)
    assert outcome.status == "cancelled"
    assert outcome.exception.type == STATEMENT_CANCELLED
    assert b.environment.alive


async def test_cancelling_an_uninterruptible_statement_ends_the_worker(tmp_path: Path) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            b.on_output = scope.cancel
            await b.run(C_LOOP)
        assert scope.cancelled_caught
        assert not b.environment.alive


async def test_users_sigint_handler_is_gone_in_the_next_statement(b: WorkerBench) -> None:
    await b.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    outcome = await b.run("while True: pass", time_limit=0.1)
    assert outcome.status == "timeout"
    assert b.environment.alive


async def test_python_children_and_c_code_keep_their_order(b: WorkerBench) -> None:
    outcome = await b.run(
        "import os, subprocess, ctypes\n"
        "print('a', end='')\nos.system('printf b')\nos.write(1, b'c')\n"
        "subprocess.run(['printf', 'd'])\nprint('e')\nctypes.CDLL(None).printf(b'last')"
    )
    assert outcome.stdout.text == "abcde\nlast"


async def test_warnings_are_shown_on_stderr(b: WorkerBench) -> None:
    outcome = await b.run("import warnings; warnings.warn('careful')")
    assert "UserWarning: careful" in outcome.stderr.text


async def test_what_comes_between_statements_belongs_to_the_next(b: WorkerBench, tmp_path: Path) -> None:
    await b.run("import subprocess; p = subprocess.Popen('read x; echo late; touch done', shell=True, stdin=-1)")
    await b.run("p.stdin.write(b'go\\n'); p.stdin.close()")
    await until((tmp_path / "done").exists)
    said = (await b.run("1")).stdout.text
    assert said == "late\n" or [text for _, text in b.output] == ["late\n"]


async def test_a_background_flood_does_not_hold_statements_up(b: WorkerBench) -> None:
    assert (await b.run("import subprocess; p = subprocess.Popen(['yes'])")).status == "ok"
    assert await b.value("1 + 1") == "2"
    assert (await b.run("p.kill(); p.wait()")).status == "ok"


LEAVES = "import os; os._exit(3)"


async def test_fatal_statement_in_a_stretch_alone_is_left_out(b: WorkerBench) -> None:
    steps = await lived(b, *(f"x{number} = {number}" for number in range(12)))
    steps[6] = replace(steps[6], request=replace(steps[6].request, source=LEAVES))
    found, _ = await restored(b, steps)
    assert [line.partition(";")[0] for line in found.divergences] == ["<statement 7> ended the worker and was left out"]
    assert found.executions == 11
    assert await b.value("[*globals()].count('x6'), x5, x6, x7") == "(1, 5, 6, 7)"


async def test_fatal_copy_is_not_loaded_again(b: WorkerBench, tmp_path: Path) -> None:
    ends = "class Ends:\n    def __setstate__(self, state):\n        import os; os._exit(3)\n"
    acts = "import pathlib; _ = pathlib.Path('f.txt').write_text('x'); ends = Ends(); ends.a = 1"
    steps = await lived(b, "x = 1", ends, acts, "y = 2")
    (tmp_path / "f.txt").unlink()
    found, _ = await restored(b, steps)
    (said,) = found.divergences
    assert "no copy of _, ends (loading the copy ended the worker)" in said
    assert await b.value("x, y") == "(1, 2)"


@pytest.mark.parametrize(
    "source",
    [
        "import os; x = os.write(1, b'abc')",
        "import ctypes; c = ctypes.CDLL(None); _ = c.puts(b'abc')",
        "import os, sys; x = os.write(2, b'abc')",
    ],
)
async def test_what_goes_past_pythons_streams_is_compared_too(b: WorkerBench, source: str) -> None:
    steps = await lived(b, "w = 1", source, "y = 2")
    found, looked = await restored(b, steps)
    assert (found.divergences, looked.labels) == ((), ["<statement 2>"])
    without = replace(steps[1], request=replace(steps[1].request, source=source.replace("b'abc'", "b'abd'")))
    found, _ = await restored(b, [steps[0], without, steps[2]])
    assert len(found.divergences) == 1


async def test_endless_output_in_a_stretch_is_stopped(tmp_path: Path) -> None:
    async with bench(tmp_path, grace_seconds=2.0) as b:
        steps = await lived(b, "x = 1", "y = 2", "z = 3")
        endless = replace(steps[1].request, source="while True: print('-' * 1000)", time_limit=0.2)
        found, looked = await restored(b, [steps[0], replace(steps[1], request=endless), steps[2]])
        assert [each[:2] for each in looked.at] == [("<statement 2>", "timeout")]
        assert await b.value("x, y, z") == "(1, 2, 3)"
        assert found.divergences[-1] == "<statement 2> did not bind y; y restored from copies"


async def test_raising_sink_during_an_effect_leaves_the_environment_usable(b: WorkerBench) -> None:
    def refuse() -> None:
        raise RuntimeError("no room")

    b.on_output = refuse
    with pytest.raises(RuntimeError, match="no room"):
        await b.run(
            "import subprocess\n_ = subprocess.Popen('sleep 0.05; echo x', shell=True)\nread('x')", effects=never
        )
    b.on_output = None
    assert await b.value("5") == "5"
