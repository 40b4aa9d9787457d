"""While an effect is answered, which may take minutes, output is taken and the end of the worker is noticed."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine.log.statements import EffectAnswer, EffectRequest
from tests.support.environments import until
from tests.support.workers import bench

pytestmark = pytest.mark.anyio


async def never(_: EffectRequest) -> EffectAnswer:
    await anyio.sleep_forever()
    raise AssertionError


async def test_what_a_statement_started_can_print_while_its_effect_is_answered(tmp_path: Path) -> None:
    async def wait(_: EffectRequest) -> EffectAnswer:
        await until((tmp_path / "done").exists)
        return EffectAnswer(value="answered")

    source = "import subprocess\n_ = subprocess.Popen('head -c 5000000 /dev/zero; touch done', shell=True)\nread('x')"
    async with bench(tmp_path) as b:
        outcome = await b.run(source, effects=wait)
        assert (outcome.status, outcome.value) == ("ok", "'answered'")
        assert outcome.stdout.total_bytes == 5_000_000


async def test_a_worker_that_dies_while_its_effect_is_answered_ends_the_wait(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run(
            "import os, threading\nthreading.Timer(0.05, os._exit, (3,)).start()\nread('x')", effects=never
        )
        assert outcome.exception is not None
        assert outcome.exception.type == "WorkerDied"
        assert "exited with code 3" in outcome.exception.message


async def test_an_effect_that_its_statement_gave_up_is_stopped_and_the_next_is_answered(tmp_path: Path) -> None:
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
    async with bench(tmp_path) as b:
        outcome = await b.run(source, effects=first_never)
        assert (outcome.status, outcome.stdout.text) == ("ok", "answer to y\n")
        outcome = await b.run(source.replace("print(read('y'))", "print('gone on')"), effects=never)
        assert (outcome.status, outcome.stdout.text) == ("ok", "gone on\n")
        assert await b.value("5") == "5"


async def test_an_output_sink_that_raises_while_an_effect_is_answered_leaves_the_environment_in_step(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as b:

        def refuse() -> None:
            raise RuntimeError("no room")

        b.on_output = refuse
        with pytest.raises(RuntimeError, match="no room"):
            await b.run(
                "import subprocess\n_ = subprocess.Popen('sleep 0.05; echo x', shell=True)\nread('x')", effects=never
            )
        b.on_output = None
        assert await b.value("5") == "5"
