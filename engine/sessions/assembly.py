"""How a session is put together, from top to bottom: the log over its folds, and the journal behind it.

The only place that knows how the parts are connected before a first prompt; what serves prompts is put together in
`turns`, which is loaded later, because an editor waits for the answer that a new session is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..config.project import ProjectEnvironment
from ..config.secrets import allowed_variables
from ..config.settings import Settings
from ..events import ConversationEvent, Event
from ..ids import Seq, SessionId
from ..log import EventLog
from ..minter import Minter
from ..nodes.outline.model import Outliner
from ..ports import Clock, Environment, EnvironmentSpec, Limits, Model, Store
from ..redaction import Redactor, redact_event
from ..timeline.index import Timeline
from ..timeline.rounds import Rounds
from ..view import ViewFold
from .journal import Journal
from .parts import SessionParts
from .policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all sessions of a process share."""

    store: Store
    settings: Settings
    environments: Callable[[], Environment]
    outliner: Callable[[], Outliner] | None
    models: Callable[[], Model]
    clock: Clock
    minter: Minter
    environ: Mapping[str, str]
    redactor: Redactor


def assemble(
    surroundings: Surroundings,
    session_id: SessionId,
    cwd: str,
    directories: tuple[str, ...],
    project: ProjectEnvironment,
    journal: Journal,
    history: Sequence[Event] = (),
    notes: Sequence[str] = (),
    *,
    confined: bool = False,
) -> SessionParts:
    """The parts of a session.

    Args:
        history: what the store holds of it, durable and stamped.
        notes: sentences for the user.
        confined: views open nothing outside of `cwd` and `directories`.
    """
    timeline, rounds, policy, view = Timeline(), Rounds(), Policy(), ViewFold()
    log = EventLog(
        surroundings.clock,
        journal.write,
        redact=partial(redact_event, surroundings.redactor) if surroundings.redactor else None,
        check=view.refusal,
    )
    log.follow(timeline.apply, Timeline.FOLLOWS)
    log.follow(rounds.apply, Rounds.FOLLOWS)
    log.follow(policy.apply, Policy.FOLLOWS)
    log.follow(view.apply)
    if history:
        log.load(_presentable(surroundings.redactor, history))
        journal.opened_at(Seq(len(history) - 1))
    spec = EnvironmentSpec(
        cwd=cwd,
        directories=directories,
        confined=confined,
        import_paths=project.import_paths,
        variables=allowed_variables(surroundings.environ, surroundings.settings.hidden_names),
        limits=Limits(statement_seconds=surroundings.settings.statement_seconds),
        allow_sudo=surroundings.settings.allow_sudo,
    )
    return SessionParts(
        session_id=session_id,
        cwd=cwd,
        directories=directories,
        store=surroundings.store,
        log=log,
        journal=journal,
        timeline=timeline,
        rounds=rounds,
        policy=policy,
        view=view,
        minter=surroundings.minter,
        clock=surroundings.clock,
        settings=surroundings.settings,
        spec=spec,
        environments=surroundings.environments,
        outliner=surroundings.outliner,
        models=surroundings.models,
        redactor=surroundings.redactor,
        notes=tuple(notes),
    )


def _presentable(redactor: Redactor, history: Iterable[Event]) -> Iterable[Event]:
    """The history as a model and a person may read it: it may be older than what is known to be secret.

    Of the timeline nothing changes, because what ran has to run again, and the store still has it.
    """
    if not redactor:
        return history
    return (redact_event(redactor, event) if isinstance(event, ConversationEvent) else event for event in history)
