"""Random sessions: acts drawn by a seed, played through the engine's API, ACP or MCP, lost, and looked at again.

Each statement prints at its end what the namespace holds (`session_probe`). So whatever ends a session, its log says
what was there, and `session_compare` judges what is there after a load. Other random tests exercise one class each:
`test_timeline_machine` a timeline beside a model of it, `test_namespace_random` the diff of names, `test_realms` how
processes end, `test_interleaving` two sessions of one connection, `test_random_calls` the arguments of MCP tools.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import anyio
import anyio.to_thread

from engine import Session, Store, session_named
from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.store.memory import MemoryStore
from engine.log.store.postgresql.store import PostgresqlStore
from tests.support.agents import SECONDS
from tests.support.mcp_clients import Caller, served
from tests.support.memory import logged
from tests.support.models import AnsweringModel, says
from tests.support.past import Life, Unchecked
from tests.support.scripts import kill_each, runs, workers
from tests.support.session_compare import compare
from tests.support.session_probe import PROBE
from tests.support.sessions import sessions_of
from tests.support.transcripts import Message

BEGINNING = """
import collections, dataclasses, functools, os, random, subprocess, time
from pathlib import Path
a = [1]; b = {'k': a}; c = [a, b]; d = 'text'; e = (1, [2])
def f(n=1): return n, a
def g(n=1): return f(n)
class C:
    shared = a
    def __init__(self, n=0): self.n = n
    def put(self, n): self.n = [self.n, n]; return self
class D(C):
    def twice(self): return self.put(self.n)
o = C(a); p = D(o)
v = view('a.txt'); w = view('b.txt', mode='running'); u = view('a.txt', tokens=40)
"""
FILES = ("a.txt", "b.txt", "s/c.txt")
DATA, FUNCTIONS, CLASSES, OBJECTS, VIEW_NAMES = "abcde", "fg", "CD", "op", "uvw"

ORDINARY = (
    "{x} = [{y}, {y}, {n}]",
    "{x} = {{'k': {y}, 'l': [{z}]}}",
    "{x} = {y}",
    "{x} = {y}, {z}",
    "{x}.append({n})",
    "{x}.append({y})",
    "{x}['k'] = {y}",
    "{x}['k'].append({n})",
    "{x}[0].append({n})",
    "{x} += [{n}]",
    "{x} = {{{n}, {n} + 1}}",
    "{x} = []; {x}.append({x})",
    "{x} = bytearray(b'some'); {y} = [{x}]",
    "{x} = random.Random({n}); {y} = [{x}, {x}.random()]",
    "{x} = iter([{n}, 2, 3]); next({x})",
    "for {x} in range({n}): pass",
    "del {x}",
    "del {x}, {y}",
    "{x} = {n}; {y} = [{n}]",
    "{x} = 5; 1 / 0",
    "{y}.append(7); raise ValueError('{n}')",
    "{f} = lambda n=2, k={x}: (n, k, {y})",
    "def {f}(n={n}):\n    global {x}\n    {x} = [n, {y}]\n    return {x}",
    "def make(made={y}):\n    cell = [{n}]\n    def inner(n=1): cell.append(n); return cell, made\n"
    "    return inner\n{f} = make()",
    "def pair():\n    held = [{n}]\n    def up(n=1): held.append(n); return held\n    def get(n=1): return held\n"
    "    return up, get\nf, g = pair()",
    "def {f}(n=1, into=[]): into.append(n); return into, {y}",
    "{f}.seen = [{y}]",
    "{x} = functools.partial({f}, {y})",
    "{x} = collections.deque([{y}, {n}], maxlen=3)",
    "{x} = collections.Counter('some words'); {y} = {{frozenset([1, {n}]): {x}}}",
    "{x} = dict.fromkeys([(1, {n}), 'k'], {y})",
    "class {C}:\n    __slots__ = ('n', 'm')\n    shared = {y}\n    def __init__(self, n=1): self.n = n\n"
    "    def put(self, n): self.m = [self.n, n]; return self\n{o} = {C}({x})",
    "@dataclasses.dataclass\nclass {C}:\n    n: object = None\n"
    "    rest: list = dataclasses.field(default_factory=list)\n"
    "    def put(self, n): self.rest.append(n); return self\n{o} = {C}({x})",
    "class {C}({C}):\n    def put(self, n): self.more = n; return super().put(n)\n{o} = {C}({x})",
    "class E(Exception): pass\n{x} = E({y}, {n})",
    "globals()['{x}'] = {y}; globals().pop('{z}', None)",
    "exec('{x} = [{y}]')",
    "{x}, *{y} = [{z}, {n}, {n}]",
    "{x} = [{y}] * 3; {x}[0] = {x}",
    "{f}()",
    "{x} = {f}()",
    "{x} = {f}",
    "class {C}:\n    shared = {x}\n    def __init__(self, n=1): self.n = n\n"
    "    def put(self, n): self.n = (self.n, n); return {y}",
    "{o} = {C}({x})",
    "{o} = {C}([{y}])",
    "{o}.put({n})",
    "{o}.n = {x}",
    "{x} = {o}.put",
    "{x} = [{o}, {o}.n]",
    "{C}.shared = {y}",
    "{v} = view('{file}', tokens={t})",
    "{v} = view('{file}', mode='running')",
    "{x} = view('{file}', pos='2')",
    "{v}.SetTokens({t})",
    "{v}.SetPos('{n}')",
    "{v}.Scroll(1)",
    "{v}.SetLod(0)",
    "{v}.Refresh()",
    "{v}.Run()",
    "{v}.Pause()",
    "{v}.min_turn_interval = 2",
    "{x} = [{v}]",
    "{x} = {v}",
    "{x} = str({v}.Render())",
    "show({v})",
    "{x} = repr(ls())",
    "{x} = read('{file}')",
    "{x} = [read('{file}'), {y}]",
    "write('{file}', 'written {n}\\n')",
    "edit('{file}', 'one', 'two{n}', count=None)",
    "open('{file}', 'a').write('line {n}\\n')",
    "with open('{file}', 'w') as __file: __file.write('one\\n' * {n})\n{x} = {n}",
    "{x} = str(bash('echo {n} >> {file}; cat {file}'))",
    "{x} = repr(grep('one'))",
    "{x} = repr(sorted(map(str, find('*.txt'))))",
)
"""What comes out the same when it runs again with what it saw: a rebuild has nothing to say of it."""

OTHER = (
    "{x} = random.random()",
    "{x} = [random.random(), {y}]",
    "{x}.append(random.random())",
    "{x} = time.time()",
    "{o}.n = [time.time(), {o}.n]",
    "{x} = os.urandom(4)",
    "{C}.shared = [os.urandom(2), {x}]",
    "{x} = Path('{file}').read_text()",
    "{x} = {{Path('{file}').stat().st_mtime_ns: {y}}}",
    "if random.random() < 0.5: {x} = [{y}]\nelse: del {y}",
    "{x} = Path('{file}').write_text('by pathlib {n}\\n')",
    "_ = Path('s/new.txt').write_text('{n}'); {x} = [{y}]; {y}.append({x})",
    "{x} = subprocess.run(['cat', '{file}'], capture_output=True).stdout",
    "os.makedirs('made/{n}', exist_ok=True); {x} = [{n}, {y}]; del {z}",
    "_ = os.system('true'); {v} = view('{file}'); {x} = [{v}]",
    "_ = os.system('true'); {v}.SetTokens({t}); {x} = {v}.tokens",
    "_ = os.system('true')\nclass {C}:\n    shared = [{n}]\n    def __init__(self, n=2): self.n = n\n"
    "    def put(self, n): self.n = [n]; return self\n{o} = {C}({x})",
    "_ = os.system('true'); {f} = lambda n={n}: (n, {y}); {x} = {f}()",
)
"""What acts outside, or sees what no second run sees."""

VIEWS = (
    "h{n} = view('{file}', freq='Async')",
    "h{n}.Run(('Periodic', 1e-9))",
    "x{n} = len(tick()), h{n}.Render().text",
    "h{n} = view('{file}', freq='Sync')",
    "h{n} = view('{file}', text='mine\\n', freq='Sync')",
    "x{n} = h{n}.dirty, h{n}.changed, h{n}.last_tick_time, h{n}.obj_id, repr(h{n})",
    "h{n}.Refresh(); g = view('{file}'); 1 / 0",
    "[view('{file}') for _ in range(3)]; None",
)
"""Views under names of their own, most of which run."""

Kind = Literal["ordinary", "other", "stopped", "outside", "tick"]
Loss = Literal["load", "worker", "agent"]


@dataclass(frozen=True, slots=True)
class Act:
    """What happens next. `source` is the statement; of "outside" the file that somebody writes, and what."""

    kind: Kind
    source: str = ""
    text: str = ""


class Chance:
    """What happens in one session, by a seed."""

    def __init__(self, seed: int, *more: str) -> None:
        """`more` are statements beside the ordinary ones."""
        self.random = random.Random(seed)
        self._ordinary = (*ORDINARY, *more)

    def acts(self, most: int = 8) -> list[Act]:
        return [self._act() for _ in range(self.random.randint(1, most))]

    def _act(self) -> Act:
        drawn = self.random.random()
        if drawn < 0.1:
            text = f"one\nby somebody {self.random.randrange(100)}\n"
            return Act("outside", self.random.choice(FILES), text)
        if drawn < 0.15:
            return Act("tick")
        if drawn < 0.22:
            return Act("stopped", probed(f"{self._statement(self._ordinary)}\ntime.sleep(20)"))
        first = [self._statement(self._ordinary) for _ in range(self.random.choice((0, 0, 0, 1)))]
        kind: Kind = "other" if drawn < 0.5 else "ordinary"
        last = self._statement(OTHER if kind == "other" else self._ordinary)
        return Act(kind, probed("\n".join([*first, last])))

    def _statement(self, templates: tuple[str, ...]) -> str:
        pick = self.random.choice
        x, y, z = self.random.sample(DATA, 3)
        return pick(templates).format(
            x=x, y=y, z=z, f=pick(FUNCTIONS), C=pick(CLASSES), o=pick(OBJECTS), v=pick(VIEW_NAMES), file=pick(FILES),
            n=self.random.randint(1, 9), t=pick((30, 60, 2000)),
        )  # fmt: skip


def probed(source: str) -> str:
    """The statement with the probe at its end, however it ends."""
    body = "\n".join("    " + line for line in source.strip().splitlines())
    return f"try:\n{body}\nfinally:\n    print(__probe())"


# --- drivers ----------------------------------------------------------------------------------------------------------


class Driver(Protocol):
    """One session as a user of one interface has it."""

    losses: tuple[Loss, ...]
    """How its namespace can be lost."""

    async def run(self, source: str) -> None: ...

    async def stop(self, source: str, after: float) -> None:
        """Runs a statement, and stops it so many seconds later."""
        ...

    async def tick(self) -> None: ...

    async def lose(self, how: Loss, source: str, after: float) -> None:
        """Loses what serves the session, and opens it again; a kill comes so many seconds into the statement."""
        ...

    def events(self) -> list[Message]: ...


class EngineDriver:
    """A session of the engine's API, whose ticks come with model calls."""

    losses: tuple[Loss, ...] = ("load", "worker")

    def __init__(self, root: Path, stack: AsyncExitStack, store: Store) -> None:
        self._root = root
        self._stack = stack
        self._store = store
        self.session: Session

    async def open(self, session_id: str = "") -> None:
        model = AnsweringModel(says("Well."))
        sessions = await self._stack.enter_async_context(sessions_of(self._root, self._store, model=model))
        opened = sessions.load(self.session.session_id) if session_id else sessions.create(str(self._root))
        self.session = await opened
        self.session.set_mode("auto")

    async def run(self, source: str) -> None:
        await self.session.cell(source)

    async def stop(self, source: str, after: float) -> None:
        await self.session.cell(source, seconds=0.05 + after)

    async def tick(self) -> None:
        await self.session.accept("go on").end()

    async def lose(self, how: Loss, source: str, after: float) -> None:
        if how == "worker":
            await self.run("import os; os._exit(1)")
        else:
            await self._stack.aclose()
            await self.open(self.session.session_id)

    def events(self) -> list[Message]:
        return logged(self._store, self.session.session_id)


class AcpDriver:
    """A session of `rewindow-acp` in a process of its own; `store` is where its agent keeps it, if it is no file."""

    losses: tuple[Loss, ...] = ("load", "worker", "agent")

    def __init__(self, life: Life, store: Store | None = None) -> None:
        self._life = life
        self._store = store

    async def run(self, source: str) -> None:
        self._life.run(source)

    async def stop(self, source: str, after: float) -> None:
        agent, session = self._life.agent, self._life.session
        prompt = agent.begin_prompt(session, source)
        agent.until(runs)
        await anyio.sleep(after)  # because a statement that runs tells nobody how far it is
        agent.notify("session/cancel", {"sessionId": session})
        agent.response(prompt)

    async def tick(self) -> None:
        self._life.agent.prompt(self._life.session, "/tick")

    async def lose(self, how: Loss, source: str, after: float) -> None:
        life = self._life
        if how == "load":
            life.lose(how)
            return
        prompt = life.agent.begin_prompt(life.session, source)
        await anyio.sleep(after)  # an instant that no message marks
        if how == "worker":
            kill_each(workers(life.agent))
            life.agent.response(prompt)
        else:
            life.agent.kill()
            await self._until_free()
            life.reopen()

    async def _until_free(self) -> None:
        """Waits until the lease of a killed agent has expired, if the store has leases."""
        with anyio.fail_after(SECONDS):
            while self._store is not None and await anyio.to_thread.run_sync(self._store.owners):  # noqa: ASYNC110
                await anyio.sleep(0.2)

    def events(self) -> list[Message]:
        return self._life.events() if self._store is None else logged(self._store, SessionId(self._life.session))


class McpDriver:
    """A session of the MCP server, whose statements come through the tool `run`."""

    losses: tuple[Loss, ...] = ("load", "worker")

    def __init__(self, root: Path, stack: AsyncExitStack) -> None:
        self._root = root
        self._stack = stack
        self._store = MemoryStore(SystemClock())
        self._caller: Caller

    async def open(self) -> None:
        opened = served(self._root, store=self._store, session="work", runs=True)
        self._caller = await self._stack.enter_async_context(opened)

    async def run(self, source: str) -> None:
        await self._caller.result("run", code=source)

    async def stop(self, source: str, after: float) -> None:
        await self._caller.result("run", code=source, seconds=1)

    async def tick(self) -> None:
        await self._caller.result("tick")

    async def lose(self, how: Loss, source: str, after: float) -> None:
        if how == "worker":
            await self.run("import os; os._exit(1)")
        else:
            await self._stack.aclose()
            await self.open()

    def events(self) -> list[Message]:
        return logged(self._store, session_named("work"))


@asynccontextmanager
async def through_engine(root: Path, store: Store | None = None) -> AsyncIterator[Driver]:
    async with AsyncExitStack() as stack:
        driver = EngineDriver(root, stack, store or MemoryStore(SystemClock()))
        await driver.open()
        yield driver


@asynccontextmanager
async def over_acp(root: Path) -> AsyncIterator[Driver]:
    with Life(root.parent, coverage=Unchecked()) as life:
        yield AcpDriver(life)


@asynccontextmanager
async def over_acp_at(address: str, root: Path) -> AsyncIterator[Driver]:
    """With the sessions in the PostgreSQL database at the address, whose leases end with their killed agents."""
    with (
        closing(PostgresqlStore(address, SystemClock())) as store,
        Life(root.parent, "--store", address, coverage=Unchecked()) as life,
    ):
        yield AcpDriver(life, store)


@asynccontextmanager
async def over_mcp(root: Path) -> AsyncIterator[Driver]:
    async with AsyncExitStack() as stack:
        driver = McpDriver(root, stack)
        await driver.open()
        yield driver


Opened = Callable[[Path], AbstractAsyncContextManager[Driver]]
"""Opens a session in a project."""


# --- playing ----------------------------------------------------------------------------------------------------------


async def wrong_after_losses(folder: Path, seed: int, opened: Opened, *more: str) -> list[str]:
    """Plays a session that is lost up to three times; what is not as it was, or falsely reported, after the last."""
    chance, project = Chance(seed, *more), folder / "project"
    for file in FILES:
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).write_text(f"one\n{file}\nthree\n")
    ordinary: dict[str, bool] = {}
    before: list[Message] = []
    async with opened(project) as driver:
        for source in (PROBE, probed(BEGINNING)):
            await driver.run(source)
        for _ in range(chance.random.randint(1, 3)):
            for act in chance.acts():
                ordinary[act.source] = ordinary.get(act.source, True) and act.kind == "ordinary"
                await perform(driver, act, project, chance.random.choice((0.0, 0.002, 0.02)))
            interrupted = next(act.source for act in iter(lambda: chance.acts(1)[0], None) if act.kind == "ordinary")
            await driver.lose(chance.random.choice(driver.losses), interrupted, chance.random.uniform(0, 0.03))
            before = driver.events()
            await driver.run("print(__probe())")
        found, outcome = compare(before, driver.events(), ordinary)
        print(outcome)  # "unknown" if the last stop came into the probe
    return found


async def perform(driver: Driver, act: Act, project: Path, after: float) -> None:
    match act.kind:
        case "outside":
            (project / act.source).write_text(act.text)
        case "tick":
            await driver.tick()
        case "stopped":
            await driver.stop(act.source, after)
        case _:
            await driver.run(act.source)
