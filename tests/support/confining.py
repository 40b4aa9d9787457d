"""The confinement of a session that is made of a log alone."""

from __future__ import annotations

from pathlib import Path

from engine.core.ids import SessionId
from engine.core.settings import SandboxRule
from engine.files.protected import Protection
from engine.log.event_log import EventLog
from engine.log.facts import Provenance
from engine.log.permissions import Permissions
from engine.log.redaction import Redactor
from engine.log.timeline import Domains
from engine.session.confining import Confinement
from engine.session.directories import Scratch
from engine.session.policy import Policy
from engine.session.questions import Questions

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
