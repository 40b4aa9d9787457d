"""The confinement of a session that is made of its parts alone."""

from __future__ import annotations

from engine.files.protected import Protection
from engine.session.confinement import Confinement
from engine.session.directories import Scratch
from engine.session.parts import SessionParts
from engine.session.policy import Questions

ROOTS = ("/work",)


def confinement_of(parts: SessionParts) -> Confinement:
    """That of a session in ROOTS."""
    return Confinement(
        parts,
        questions=Questions(parts.log, parts.policy, parts.redactor, ROOTS),
        roots=ROOTS,
        protection=Protection(ROOTS),
        scratch=Scratch(parts.settings.state_dir, parts.session_id),
        by_model=lambda: False,
        dismissed=lambda: None,
    )
