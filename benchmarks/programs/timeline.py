"""What checkpoints cost and bring, with the engine that this interpreter has: run as `python timeline.py DIR PACKAGES`.

Statements run in worker processes that import from PACKAGES. Without a log, but for `session`: what counts here is the
process. Whatever `begin` has bound is in the checkpoint that `restore` and `replay` start from.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import anyio.from_thread
import psutil
from serving import serve

from engine.core.execution import Ending
from engine.core.ids import ExecutionId
from engine.core.settings import Settings
from engine.log.past import Differences, PastExecution, RestorePlan
from engine.log.redaction import NO_SECRETS
from engine.log.statements import EffectAnswer, EffectRequest, RunRequest
from engine.runtime.environment import EnvironmentSpec, Limits
from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote
from engine.session.host import Host

MEMORY = 8 << 30
TRIVIAL = "count = {}"
ANONYMOUS, HUGE = "Anonymous:", "AnonHugePages:"
EFFECT = 'import os; os.utime("."); made = {}'


class Engine:
    """One namespace after the other, with what it went through."""

    def __init__(self, place: Path, packages: str) -> None:
        self._zygote = Zygote.spawn()
        self._place = place
        self._spec = EnvironmentSpec(
            cwd=str(place),
            redactor=NO_SECRETS,
            import_paths=(packages,),
            variables={"PATH": os.defpath},
            limits=Limits(data_bytes=MEMORY),
        )
        self._environment: WorkerEnvironment | None = None
        self._steps: list[PastExecution] = []
        self._marked: tuple[PastExecution, ...] = ()
        self._numbers = count()

    @property
    def _live(self) -> WorkerEnvironment:
        assert self._environment is not None
        return self._environment

    async def begin(self, source: str) -> float:
        """A new namespace with what that binds, and a checkpoint of it."""
        await self.close()
        await self._zygote.ready()
        self._environment, self._steps = WorkerEnvironment(self._zygote), []
        await self._live.start(self._spec)
        await self._step(source)
        await self._step("started = True")
        await self._snapshot()
        await self._heard()
        await self._step("started = None")
        return 0.0

    async def _step(self, source: str) -> None:
        number = next(self._numbers)
        request = RunRequest(
            execution_id=ExecutionId(f"ex_{number}"), label=f"<statement {number}>", source=source, index=number
        )
        outcome = await self._live.run(request, _refuse, lambda _name, _text: None)
        assert outcome.status == "ok", outcome.exception
        ending = Ending(
            status=outcome.status,
            value=outcome.value,
            exception=outcome.exception,
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            diff=outcome.diff,
        )
        self._steps.append(PastExecution(request=request, status="ok", again=True, record=ending))

    async def _snapshot(self) -> None:
        assert await self._live.snapshot(self._steps[-1].request.execution_id)

    async def _heard(self) -> None:
        while not any(news.seconds for news in self._live.checkpoints()):  # noqa: ASYNC110 -- nobody tells
            await anyio.sleep(0.0005)

    async def run(self, source: str) -> float:
        """Seconds for a statement and a checkpoint after it, until the next one is answered."""
        start = perf_counter()
        await self._step(source)
        return perf_counter() - start + await self.checkpoint()

    async def checkpoint(self) -> float:
        """Seconds for a checkpoint, until a trivial statement that waits for it is answered."""
        start = perf_counter()
        await self._snapshot()
        await self._step("after = 0")
        took = perf_counter() - start
        await self._heard()
        return took

    async def statement(self, source: str) -> float:
        """Seconds for one statement."""
        start = perf_counter()
        await self._step(source)
        return perf_counter() - start

    async def statements(self, number: int) -> float:
        """Seconds for so many trivial statements."""
        start = perf_counter()
        for each in range(number):
            await self._step(TRIVIAL.format(each))
        return perf_counter() - start

    async def kept(self, number: int) -> float:
        """The same with a checkpoint after each, which the next one waits for."""
        start = perf_counter()
        for each in range(number):
            await self._step(TRIVIAL.format(each))
            await self._snapshot()
        await self._step("after = 0")
        return perf_counter() - start

    async def mark(self) -> float:
        """What came by now is what `checkout` goes back to."""
        await self._snapshot()
        await self._heard()
        self._marked = tuple(self._steps)
        return 0.0

    async def checkout(self, source: str) -> float:
        """Seconds for the way back there, and a statement."""
        return await self._restored(self._marked, source)

    async def restore(self) -> float:
        """Seconds for the way back to what `begin` has left, and a statement."""
        return await self._restored(tuple(self._steps[:2]), "after = 0")

    async def replay(self, number: int, last: int) -> float:
        """Seconds for the last ones of so many statements, from a checkpoint ahead of them, and one more."""
        while len(self._steps) < number:
            if len(self._steps) == number - last:
                await self._snapshot()
                await self._heard()
            await self._step(TRIVIAL.format(len(self._steps)))
        return await self._restored(tuple(self._steps[:number]), "after = 0")

    async def _restored(self, steps: tuple[PastExecution, ...], source: str) -> float:
        start = perf_counter()
        restored = await self._live.restore(RestorePlan(steps=steps), _contents, lambda _past, _outcome: Differences())
        assert restored.checkpoint is not None, self._live.checkpoints()
        kept = list(steps)
        await self._step(source)
        took = perf_counter() - start
        self._steps = kept
        return took

    async def memory(self, number: int, part: str) -> float:
        """Bytes that the whole tree grows by at a `checkpoint`, or in the `statement` after it, over so many.

        And those that the worker has `written` to again at a checkpoint, on its way to the next request.
        """
        assert self._live.pid is not None
        grown = {"checkpoint": 0, "written": 0, "statement": 0}
        for each in range(number):
            before, faults = self._held(), _faults(self._live.pid)
            await self._snapshot()
            await self._heard()
            taken = self._held()
            grown["checkpoint"] += taken - before
            grown["written"] += (_faults(self._live.pid) - faults) * resource.getpagesize()
            await self._step(TRIVIAL.format(each))
            grown["statement"] += self._held() - taken
        return grown[part] / number

    async def shape(self, what: str) -> float:
        """How many `mappings`, small `pages` and `huge` pages the worker has.

        And how many pages it has `written` to for a first time when a trivial statement after a checkpoint is answered.
        """
        pid = self._live.pid
        assert pid is not None
        if what == "written":
            before = _faults(pid)
            await self.checkpoint()
            return _faults(pid) - before
        return _shape(pid)[what]

    def _held(self) -> int:
        tree = psutil.Process(self._zygote.pid)
        return sum(each.memory_full_info().pss for each in (tree, *tree.children(recursive=True)))

    async def session(self, rule: str, number: int) -> float:
        """Seconds for a session of so many statements, each with an effect, until their records are durable."""
        place = self._place / f"{rule}-{next(self._numbers)}"
        (place / "project").mkdir(parents=True)
        host = Host(Settings(state_dir=place / "state", restore_by=rule), dict(os.environ))
        async with host:
            session: Any = await host.sessions.create(str(place / "project"))
            await session.cell("ready = True")
            start = perf_counter()
            for each in range(number):
                finished = await session.cell(EFFECT.format(each))
                assert finished.status == "ok", finished
            return perf_counter() - start

    async def close(self) -> float:
        if self._environment is not None:
            await self._environment.close()
        self._environment = None
        return 0.0

    def leave(self) -> None:
        self._zygote.close()


def _faults(pid: int) -> int:
    """The page faults of a process that needed no disk."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def _shape(pid: int) -> dict[str, float]:
    sizes = [line.split() for line in Path(f"/proc/{pid}/smaps").read_text().splitlines()]
    total = {name: sum(int(line[1]) for line in sizes if line[0] == name) for name in (ANONYMOUS, HUGE)}
    return {
        "mappings": sum(line[0] == "VmFlags:" for line in sizes),
        "pages": (total[ANONYMOUS] - total[HUGE]) // 4,
        "huge": total[HUGE] // 2048,
    }


async def _refuse(_: EffectRequest) -> EffectAnswer:
    raise AssertionError("no statement here asks for an effect")


async def _contents(_: Collection[Any]) -> Mapping[Any, Any]:
    return {}


def main(directory: str, packages: str) -> None:
    place = Path(directory)
    place.mkdir(parents=True)
    engine = Engine(place, packages)
    actions = (
        "begin",
        "run",
        "checkpoint",
        "statement",
        "statements",
        "kept",
        "mark",
        "checkout",
        "restore",
        "replay",
        "memory",
        "shape",
        "session",
    )
    with anyio.from_thread.start_blocking_portal() as portal:
        serve({name: lambda *given, name=name: portal.call(getattr(engine, name), *given) for name in actions})
        portal.call(engine.close)
    engine.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
