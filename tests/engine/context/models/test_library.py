"""A provider's library is loaded in steps, one at a time, while no session works."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from engine import Host, Settings
from engine.context.models import loading_steps, provider
from engine.context.models.providers import PROVIDERS, Provider
from engine.core.clock import SystemClock
from engine.log.store.memory import MemoryStore
from tests.support.hollow import HollowEnvironment, Moment
from tests.support.stores import PATIENCE

NAMES = [f"rewindow_test_sdk_{number}" for number in range(3)]


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Modules that a provider might have; the second is broken, the third says how it was loaded."""
    (tmp_path / f"{NAMES[0]}.py").write_text("")
    (tmp_path / f"{NAMES[1]}.py").write_text("raise ValueError('broken')")
    (tmp_path / f"{NAMES[2]}.py").write_text(
        "import gc, sys, threading\n"
        "COLLECTS, THREAD, INTERVAL = gc.isenabled(), threading.current_thread(), sys.getswitchinterval()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(provider, "_BEFORE", ())
    monkeypatch.setattr(provider, "_AFTER", ())
    yield NAMES
    for name in NAMES:
        sys.modules.pop(name, None)


def test_each_step_loads_one_part_and_none_raises(sdk: list[str]) -> None:
    first, *others = provider.steps(sdk)
    assert sdk[0] not in sys.modules
    first()
    assert sdk[0] in sys.modules
    assert sdk[2] not in sys.modules
    for step in others:
        step()
    assert sdk[2] in sys.modules


def test_no_garbage_collection_during_a_step(sdk: list[str]) -> None:
    before = (gc.isenabled(), sys.getswitchinterval())
    for step in provider.steps(sdk):
        step()
    loaded = sys.modules[sdk[2]]
    assert not loaded.COLLECTS
    assert before[1] > loaded.INTERVAL
    assert (gc.isenabled(), sys.getswitchinterval()) == before


def test_two_threads_never_load_at_once(sdk: list[str]) -> None:
    (step, *_) = provider.steps(sdk)
    other = threading.Thread(target=step)
    with provider.loading():
        other.start()
        other.join(0.05)
        assert sdk[0] not in sys.modules
    other.join(PATIENCE)
    assert sdk[0] in sys.modules


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_the_modules_of_a_provider_are_part_of_its_steps(provider: Provider) -> None:
    assert len(loading_steps(f"provider:{provider.name}:m")) >= 3


def test_a_model_that_is_there_already_has_nothing_to_load() -> None:
    assert loading_steps("direct") == loading_steps("scripted:x") == ()


@pytest.mark.anyio
async def test_no_step_begins_while_a_session_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, goes_on = anyio.Event(), anyio.Event()

    async def meanwhile(moment: Moment) -> None:
        if moment == "run":
            runs.set()
            await goes_on.wait()

    done: list[str] = []
    all_done, loop = anyio.Event(), asyncio.get_running_loop()

    def step(name: str) -> Callable[[], None]:
        def load() -> None:
            assert threading.current_thread().daemon  # so that the process can end while it loads
            done.append(name)
            if name == "last":
                loop.call_soon_threadsafe(all_done.set)

        return load

    monkeypatch.setattr("engine.context.models.loading_steps", lambda _spec: [step("first"), step("last")])
    settings = Settings(state_dir=tmp_path)
    environment = HollowEnvironment(meanwhile)
    with anyio.fail_after(PATIENCE):
        async with Host(settings, {}, environments=lambda: environment, store=MemoryStore(SystemClock())) as host:
            session = await host.sessions.create(str(tmp_path))
            ticket = session.accept("1")
            await runs.wait()
            host.warm_up()
            second = session.accept("2")  # waits behind the first, and the warm-up behind both
            for _ in range(5):  # more than a step that had begun would need
                await anyio.to_thread.run_sync(threading.get_ident)
            early = list(done)
            goes_on.set()
            await ticket.end()
            await second.end()
            await all_done.wait()
    assert (early, done) == ([], ["first", "last"])


async def test_a_turn_that_waits_for_its_worker_loads_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, loaded, starts = asyncio.get_running_loop(), anyio.Event(), threading.Event()

    async def meanwhile(moment: Moment) -> None:
        if moment == "start":
            starts.set()
            await loaded.wait()

    steps = [lambda: starts.wait(PATIENCE), lambda: loop.call_soon_threadsafe(loaded.set)]
    monkeypatch.setattr("engine.context.models.loading_steps", lambda _spec: steps)
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    settings = Settings(state_dir=tmp_path, model="provider:openai:m")
    environment = HollowEnvironment(meanwhile)
    with anyio.fail_after(PATIENCE):
        async with Host(settings, environ, environments=lambda: environment, store=MemoryStore(SystemClock())) as host:
            session = await host.sessions.create(str(tmp_path))
            host.warm_up()
            session.accept("hello")
            await loaded.wait()
            assert session.is_busy
