"""The parts of a session over a store in memory, for tests of what works on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import Model
from engine.core.ids import Minter, SessionId
from engine.core.settings import Settings
from engine.log.redaction import NO_SECRETS
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import SessionRow
from engine.runtime.environment import Environment
from engine.session.directories import ProjectEnvironment
from engine.session.journal import Journal
from engine.session.model_choice import OwnModel
from engine.session.parts import HostServices, SessionParts, assemble

from .fixed import CountingEntropy, FixedClock

SESSION = SessionId("s")


def session_parts(
    cwd: Path,
    *,
    environments: Callable[[], Environment] | None = None,
    models: Callable[[], Model] | None = None,
    state: Path | None = None,
    **settings: Any,
) -> SessionParts:
    """Those of a session in `cwd`, with these settings; nothing has happened in it."""
    clock = FixedClock()
    store = MemoryStore(clock)
    store.create(SessionRow(session_id=SESSION, cwd=str(cwd)))
    journal = Journal(store, SESSION)
    store.acquire(SESSION, journal.committed)
    of_tests = Settings(state_dir=state or cwd / "state", **settings)
    services = HostServices(
        store=store,
        settings=of_tests,
        environments=environments or _none,
        outliner=None,
        start_server=None,
        models=OwnModel(models or _none, of_tests),
        clock=clock,
        minter=Minter(clock, CountingEntropy()),
        environ={},
        redactor=NO_SECRETS,
    )
    return assemble(services, SESSION, str(cwd), (), ProjectEnvironment(), journal)


def _none() -> Any:
    raise NotImplementedError
