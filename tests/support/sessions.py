"""The sessions of one process for tests, through the public API: real workers unless told otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio

from engine import Environment, Host, McpServer, Model, Session, Sessions, Settings, Store
from engine.core.clock import Clock, Entropy, SystemClock
from engine.core.ids import SessionId
from engine.log.events import Event
from engine.log.events.conversation import AgentText
from engine.log.store.memory import MemoryStore
from engine.runtime.server_program import ServerProgram
from tests.support.fixed import CountingEntropy
from tests.support.in_process import InProcessEnvironment
from tests.support.workers import PATIENCE, new_worker, shared_zygote

E = TypeVar("E", bound=Event)


class LentStore:
    """A store that outlives the host that is given it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def close(self) -> None:
        """Left to whoever lends it."""


@asynccontextmanager
async def sessions_of(
    tmp_path: Path,
    store: Store | None = None,
    *,
    model: Model | None = None,
    environments: Callable[[], Environment] | None = None,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    settings: dict[str, object] | None = None,
    **environ: str,
) -> AsyncIterator[Sessions]:
    """Sessions over `store`, in memory where there is none, as one process has them."""
    with anyio.fail_after(PATIENCE * 2):
        host = Host(
            Settings(state_dir=tmp_path, **(settings or {})),
            environ,
            environments=environments or new_worker,
            models=None if model is None else (lambda: model),
            store=_lent(store) if store is not None else MemoryStore(clock or SystemClock()),
            clock=clock,
            entropy=entropy or CountingEntropy(),
            start_server=lambda spec, request: ServerProgram.start(shared_zygote(), spec, request),
        )
        async with host:
            yield host.sessions


@asynccontextmanager
async def session_in(
    cwd: Path,
    store: Store | None = None,
    *,
    load: SessionId | None = None,
    state: Path | None = None,
    servers: Sequence[McpServer] = (),
    **options: Any,
) -> AsyncIterator[Session]:
    """One session that works in `cwd`, which has the state too unless told otherwise: `load`, or a new one."""
    async with sessions_of(state or cwd, store, **options) as sessions:
        yield await (sessions.create(str(cwd), (), servers) if load is None else sessions.load(load, servers=servers))


def in_process() -> Environment:
    """An environment in a thread, for which a token is a character."""
    return InProcessEnvironment(len)


def events_of(session: Session, kind: type[E]) -> list[E]:
    """The events of one kind on the session's log."""
    return [event for event in session.events if isinstance(event, kind)]


async def answer_to(session: Session, text: str) -> str:
    """What the session says last after this prompt."""
    await session.accept(text).end()
    return [event.text for event in session.path if isinstance(event, AgentText)][-1]


async def value_of(session: Session, source: str) -> str | None:
    """The value of a statement, which succeeds."""
    finished = await session.cell(source)
    assert finished.exception is None, finished.exception
    return finished.value


def _lent(store: Store) -> Store:
    return store if isinstance(store, LentStore) else cast("Store", LentStore(store))
