"""The confinement of a session that is made of a log alone."""

from __future__ import annotations

from pathlib import Path

from engine.config.settings import SandboxRule
from engine.ids import SessionId
from engine.log import EventLog
from engine.ports.permissions import Permissions
from engine.protected import Protection
from engine.redaction import Redactor
from engine.sessions.acts.questions import Questions
from engine.sessions.confining import Confinement
from engine.sessions.policy import Policy
from engine.sessions.scratch import Scratch
from engine.timeline.domains import Domains
from engine.timeline.provenance import Provenance

ROOTS = ("/work",)


def confinement_of(
    log: EventLog,
    state: Path = Path("/nowhere"),
    *,
    rule: SandboxRule | None = None,
    by_model: bool = False,
    permissions: Permissions | None = None,
) -> Confinement:
    """That of a session in ROOTS."""
    policy, provenance = Policy(), Provenance()
    log.follow(policy.apply, Policy.FOLLOWS)
    log.follow(provenance.apply, Provenance.FOLLOWS)
    domains = Domains(provenance)
    log.follow_path(domains, Domains.FOLLOWS)
    questions = Questions(log, policy, Redactor(()), ROOTS)
    questions.permissions = permissions
    return Confinement(
        log=log,
        policy=policy,
        provenance=provenance,
        domains=domains,
        questions=questions,
        rule=rule,
        roots=ROOTS,
        protection=Protection(ROOTS),
        scratch=Scratch(state, SessionId("s")),
        state=str(state),
        by_model=by_model,
        dismissed=lambda: None,
    )
