"""What a session is made of from its beginning, as one value: put together by `assembly`, read by what works on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..context.model import Model
from ..context.view import ViewFold
from ..core.clock import Clock
from ..core.ids import Minter, SessionId
from ..core.settings import Settings
from ..files.outline.model import Outliner
from ..log.branch_rows import BranchStatements
from ..log.event_log import EventLog
from ..log.facts import Provenance, Rounds
from ..log.redaction import Redactor
from ..log.store_protocol import Store
from ..log.timeline import Timeline
from ..runtime.environment import Environment, EnvironmentSpec
from .journal import Journal
from .policy import Policy

if TYPE_CHECKING:  # of the first server
    from .servers import SessionServers


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    """The log with its folds, what makes it durable, and what statements and turns will be made with.

    `notes` are sentences that the user is told at the next prompt: what is amiss with its directories or the project's
    environment.
    `environments`, `models` and `outliner` make the session's own, when they are first needed. `servers` are there
    where MCP servers are named now, or were.
    """

    session_id: SessionId
    cwd: str
    directories: tuple[str, ...]
    store: Store
    log: EventLog
    journal: Journal
    timeline: Timeline
    branch_statements: BranchStatements
    rounds: Rounds
    provenance: Provenance
    policy: Policy
    view: ViewFold
    minter: Minter
    clock: Clock
    settings: Settings
    spec: EnvironmentSpec
    environments: Callable[[], Environment]
    models: Callable[[], Model]
    redactor: Redactor
    outliner: Callable[[], Outliner] | None = None
    servers: SessionServers | None = None
    notes: tuple[str, ...] = ()
