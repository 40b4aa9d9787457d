"""A worker learns from its host which lines of a displayed text have secrets, in whatever step it reads the text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.files.revision import digest_of
from engine.log.past import PastTick
from engine.log.redaction import Redactor
from engine.runtime.connection import Hiding
from tests.engine.runtime.test_contract_handles import seen, step
from tests.support.environments import AnyBench, Bench, Make, restore, spec_for
from tests.support.in_process import InProcessEnvironment

KEY = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8a"
TEXT = f"A=1\nKEY={KEY}\n"
SHOWN = "1\tA=1\n2\tKEY=***\n"
LENGTH = "len(v.Render(0, All).text)"
"""As a number, because the host would hide a key in a text."""


@asynccontextmanager
async def knowing(make: Make, tmp_path: Path) -> AsyncIterator[AnyBench]:
    environment = make()
    try:
        await environment.start(replace(spec_for(tmp_path), redactor=Redactor([KEY])))
        yield Bench(environment, tmp_path)
    finally:
        await environment.close()


async def test_a_view_has_no_key_in_the_worker(make: Make, tmp_path: Path) -> None:
    async with knowing(make, tmp_path) as b:
        (tmp_path / "a").write_text(TEXT)
        outcome = await b.run(f"v = view('a'); w = view(text={TEXT!r})")
        assert [SHOWN in display.text for display in outcome.displays] == [True, True]
        assert await b.value(LENGTH) == str(len(SHOWN))
        assert await b.value(LENGTH.replace("v.", "w.")) == str(len(SHOWN))
        assert [digest_of(data) for data in outcome.contents.values()] == [digest_of(TEXT.encode())]


async def test_a_large_text_is_searched_beside_the_event_loop(make: Make, tmp_path: Path) -> None:
    gaps: list[float] = []

    async def watch() -> None:
        last = anyio.current_time()
        while True:
            await anyio.sleep(0.001)
            last, before = anyio.current_time(), last
            gaps.append(last - before)

    async with knowing(make, tmp_path) as b, anyio.create_task_group() as tasks:
        (tmp_path / "a").write_text(f"{TEXT}{'some words of a line' * 4}\n" * 40_000)
        tasks.start_soon(watch)
        outcome = await b.run("v = view('a', tokens=60)")
        tasks.cancel_scope.cancel()
    assert "KEY=***" in outcome.displays[0].text
    assert max(gaps) < sum(gaps) / 2


async def test_a_change_that_a_tick_finds_has_no_key(make: Make, tmp_path: Path) -> None:
    async with knowing(make, tmp_path) as b:
        (tmp_path / "a").write_text("A=1\n")
        await b.run("v = view('a', freq='Sync')")
        (tmp_path / "a").write_text(TEXT)
        foreseen = await b.environment.foresee(1, 1.0)
        assert [KEY in item.text for item in foreseen] == [False]
        await b.environment.tick(1, 1.0)
        assert await b.value(LENGTH) == str(len(SHOWN))


async def test_a_rebuilt_view_has_no_key(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("A=1\n")
    source = "v = view('a', freq='Sync')"
    async with knowing(make, tmp_path) as b:
        first = step(source, await b.run(source, index=1))
        (tmp_path / "a").write_text(TEXT)
        live = await b.environment.tick(1, 1.0)
    async with knowing(make, tmp_path) as b:
        restored = await restore(b, first, PastTick(round_id=1, now=1.0, revisions=seen(live)))
        assert restored.divergences == ()
        assert await b.value(LENGTH) == str(len(SHOWN))


async def test_threads_get_answers_while_the_host_waits_and_no_longer(make: Make, tmp_path: Path) -> None:
    later = (
        "import threading, time\n"
        "go = threading.Event()\n"
        "def look():\n"
        "    go.wait(); time.sleep(0.2)\n"
        "    global v; v = view('b')\n"
        "t = threading.Thread(target=look); t.start()\n"
        "go.set()"
    )
    async with knowing(make, tmp_path) as b:
        (tmp_path / "a").write_text(TEXT)
        (tmp_path / "b").write_text(TEXT)
        at_once = "import threading\ndef look():\n    global v; v = view('a')\n"
        await b.run(at_once + "t = threading.Thread(target=look); t.start(); t.join()")
        assert await b.value(LENGTH) == str(len(SHOWN))
        await b.run(later)
        await anyio.sleep(0.4)
        assert await b.value("t.join(); v.Render(0, All).text") == repr("1\t***\n2\t***\n")


async def test_a_forked_process_shows_no_line(make: Make, tmp_path: Path) -> None:
    source = (
        "import os\n"
        "if (child := os.fork()) == 0:\n"
        "    text = view('a').Render(0, All).text\n"
        "    open('out', 'w').write(text); os._exit(0)\n"
        "os.waitpid(child, 0)"
    )
    if make is InProcessEnvironment:
        pytest.skip("it would fork the tests")
    async with knowing(make, tmp_path) as b:
        (tmp_path / "a").write_text(TEXT)
        assert (await b.run(source)).status == "ok"
    assert (tmp_path / "out").read_text() == "1\t***\n2\t***\n"


async def test_a_flood_of_forged_questions_ends_the_worker(make: Make, tmp_path: Path) -> None:
    if make is InProcessEnvironment:
        pytest.skip("there is no socket")
    source = """if True:
        import msgspec, os, socket, stat, struct, time
        body = msgspec.msgpack.encode({"type": "AskHidden", "number": 9, "text": b"x" * 3_000})
        frame = struct.pack("<I", len(body)) + body
        sockets = [each for each in map(int, os.listdir("/proc/self/fd")) if each > 2]
        for each in sockets:
            try:
                if stat.S_ISSOCK(os.fstat(each).st_mode):
                    socket.socket(fileno=os.dup(each)).send(20 * frame, socket.MSG_DONTWAIT)
            except OSError: pass
        time.sleep(5)
    """
    async with knowing(make, tmp_path) as b:
        outcome = await b.run(source)
    assert "asked for hidden lines too often" in str(outcome.exception)


def test_guesses_are_limited() -> None:
    seconds = [0.0]
    hiding = Hiding(Redactor([KEY]), lambda: seconds[0])
    assert [hiding.delay(16 << 20) for _ in range(6)] == [0, 0, 0, 0, 4, 8]
    seconds[0] = 8.0
    assert [hiding.delay(4 << 20) for _ in range(2)] == [1, 2]
    seconds[0] = 1e9
    assert [hiding.delay(16 << 20) for _ in range(5)] == [0, 0, 0, 0, 4]
