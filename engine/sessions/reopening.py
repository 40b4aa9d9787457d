"""Brings a session back that the store holds: reads its log, puts it together, and makes the log whole again.

Loaded with the prompt stage, because no editor that waits for a new session waits for this. Called by `registry`, which
has acquired the session for writing.
"""

from __future__ import annotations

import anyio.to_thread

from ..config.project import find_project_environment
from ..ids import SessionId
from .assembly import Surroundings, assemble
from .journal import Journal
from .repair import enforce_view, repair
from .session import Session


async def reopen(surroundings: Surroundings, session_id: SessionId, journal: Journal) -> Session:
    """The session, repaired where its last process died, durable as it is; not served yet."""
    row = await anyio.to_thread.run_sync(surroundings.store.row, session_id)
    history = await anyio.to_thread.run_sync(surroundings.store.load, session_id)
    project = find_project_environment(row.cwd, surroundings.environ, surroundings.settings.python)
    parts = assemble(surroundings, session_id, row.cwd, row.directories, project, journal, history)
    repaired = [*repair(parts.log, parts.timeline), *enforce_view(parts.log, parts.view.warning)]
    if repaired:
        await journal.durable(repaired[-1].seq)
    return Session(parts)
