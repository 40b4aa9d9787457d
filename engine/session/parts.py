"""Put a session together: its log over the folds, its journal, and the environment's specification.

`SessionParts` has what a session needs from its beginning. `session_runtime` adds the rest with the first request,
because an editor waits for the answer that a new session exists. No other module connects the parts. Called by
`registry` and `reopening`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..context.view import ViewFold
from ..core.clock import Clock
from ..core.ids import Minter, Seq, SessionId
from ..core.mcp_servers import McpServer, modules_for, told_apart
from ..core.settings import Settings
from ..files.outline.model import Outliner
from ..files.safe_open import real_roots
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.session import ServersNamed
from ..log.facts import CurrentPlan, SessionFacts, Spending
from ..log.redaction import Redactor, redact_event
from ..log.secrets import allowed_variables, server_secrets
from ..log.store_protocol import Store
from ..log.timeline import Timeline
from ..runtime.environment import Environment, EnvironmentSpec, Limits, StartServer
from .directories import ProjectEnvironment, own_places
from .journal import Journal, StoredEvents, presentable
from .model_choice import ModelChoice, Models
from .pages import OpenPage
from .pictures import SessionPictures
from .policy import Policy

if TYPE_CHECKING:
    from ..runtime.picture_decoder import PictureDecoder
    from .clones import Clones
    from .servers import SessionServers


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    """The log with its folds and its journal, and what statements and turns are made with.

    `notes` are sentences for the user's next prompt, on problems with its directories or the project's environment.
    `environments` and `outliner` make the session's own when these are first needed. `servers` is there if
    MCP servers are named now, or were.
    """

    session_id: SessionId
    cwd: str
    directories: tuple[str, ...]
    store: Store
    log: EventLog
    journal: Journal
    timeline: Timeline
    facts: SessionFacts
    policy: Policy
    spending: Spending
    plan: CurrentPlan
    view: ViewFold
    minter: Minter
    clock: Clock
    settings: Settings
    spec: EnvironmentSpec
    environments: Callable[[], Environment]
    model: ModelChoice
    redactor: Redactor
    pictures: SessionPictures
    outliner: Callable[[], Outliner] | None = None
    servers: SessionServers | None = None
    notes: tuple[str, ...] = ()
    open_page: OpenPage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostServices:
    """What all sessions of a process share."""

    store: Store
    settings: Settings
    environments: Callable[[], Environment]
    outliner: Callable[[], Outliner] | None
    start_server: StartServer | None
    models: Models
    clock: Clock
    minter: Minter
    environ: Mapping[str, str]
    redactor: Redactor
    decoder: Callable[[], PictureDecoder] | None = None
    open_page: OpenPage | None = None
    clones: Clones | None = None

    def directory_of(self, session_id: SessionId, cwd: str) -> str:
        """Return where a session works that is opened in `cwd`: there, or in its own clone."""
        return cwd if self.clones is None else self.clones.directory(session_id, cwd)

    def for_servers(self, servers: Sequence[McpServer]) -> HostServices:
        """The same for a session with these servers, whose secrets are hidden from texts."""
        secrets = [secret for server in servers for secret in self._secrets_of(server)]
        return replace(self, redactor=self.redactor.knowing(secrets)) if secrets else self

    def _secrets_of(self, server: McpServer) -> Sequence[str]:
        return server_secrets(server, self.environ, self.settings.hidden_names)


def assemble(
    services: HostServices,
    session_id: SessionId,
    cwd: str,
    directories: tuple[str, ...],
    project: ProjectEnvironment,
    journal: Journal,
    history: Sequence[Event] = (),
    notes: Sequence[str] = (),
    *,
    confined: bool = False,
    servers: Sequence[McpServer] = (),
) -> SessionParts:
    """Make the parts of a session.

    Args:
        history: its events in the store, durable and stamped.
        notes: sentences for the user.
        confined: views open only files in `cwd` and `directories`.
        servers: the MCP servers that are named for it now.
    """
    facts, policy, view, spending, plan = SessionFacts(), Policy(), ViewFold(), Spending(), CurrentPlan()
    log = EventLog(
        services.clock,
        journal.write,
        redact=partial(redact_event, services.redactor),  # even without secrets now, because it may learn some
        check=view.refusal,
        # Code on the event loop reads old events, so those that only a network would return stay in memory.
        backing=None
        if services.store.is_remote
        else StoredEvents(services.store, session_id, journal, services.redactor),
    )
    timeline = Timeline(log.at)
    log.follow_path(timeline, Timeline.FOLLOWS)
    log.follow(facts.apply, SessionFacts.FOLLOWS)
    log.follow(policy.apply, Policy.FOLLOWS)
    log.follow(spending.apply, Spending.FOLLOWS)
    log.follow_path(view)
    log.follow_path(plan, CurrentPlan.FOLLOWS)
    if history:
        log.load(presentable(services.redactor, history))
        journal.opened_at(Seq(len(history) - 1))
    named = told_apart(servers, services.redactor.redact)
    modules = modules_for(named, facts.server_modules, timeline.names)
    spec = EnvironmentSpec(
        cwd=cwd,
        redactor=services.redactor,
        directories=directories,
        confined=confined,
        kept_out=own_places(services.settings, services.environ),
        servers={module: name for name, module in modules.items()},
        import_paths=project.import_paths,
        variables=allowed_variables(services.environ, services.settings.hidden_names),
        limits=Limits(statement_seconds=services.settings.statement_seconds),
        allow_sudo=services.settings.allow_sudo,
    )
    session_servers: SessionServers | None = None
    if modules:
        from .servers import SessionServers  # of the first server

        may_be_sandboxed = services.settings.sandbox in ("auto", "required")
        session_servers = SessionServers(
            named,
            spec,
            log,
            facts,
            services.start_server,
            written=lambda: tuple(map(os.path.realpath, facts.writable)),
            writable=tuple(map(os.path.realpath, (cwd, *directories))) if may_be_sandboxed else (),
            state=str(services.settings.state_dir),
            samples=services.settings.mcp_sampling,
        )
    return SessionParts(
        session_id=session_id,
        cwd=cwd,
        directories=directories,
        store=services.store,
        log=log,
        journal=journal,
        timeline=timeline,
        facts=facts,
        policy=policy,
        spending=spending,
        plan=plan,
        view=view,
        minter=services.minter,
        clock=services.clock,
        settings=services.settings,
        spec=spec,
        environments=services.environments,
        outliner=services.outliner,
        servers=session_servers,
        model=ModelChoice(services.models, policy, log, services.settings.fallback_models),
        redactor=services.redactor,
        pictures=SessionPictures(services.store, services.redactor, services.decoder, real_roots((cwd, *directories))),
        notes=tuple(notes),
        open_page=services.open_page,
    )


def newly_named(parts: SessionParts) -> Sequence[Event]:
    """Return the event that records servers which the session has not had before."""
    if parts.servers is None:
        return ()
    fresh = parts.servers.unrecorded
    return (ServersNamed(modules=fresh),) if fresh else ()
