"""Verdicts: what a judge concludes, and how verdicts of the same requirement on several transcripts combine.

Knows no protocol. Used by every judge, the runner and the reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from conformance.values import encodable

Outcome = Literal["pass", "fail", "skipped", "not-tested"]

_PRECEDENCE: Final[tuple[Outcome, ...]] = ("fail", "pass", "not-tested", "skipped")
"""Of several transcripts: one violation decides; then one that shows it held; then that it was tried in vain."""


_LONGEST: Final = 600
"""Characters of a reason: what it quotes of a program may be of any length."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One conclusion. `reason` is a sentence, empty for a pass; `evidence` are indices of the transcript's entries."""

    outcome: Outcome
    reason: str = ""
    evidence: tuple[int, ...] = ()
    scenario: str = ""
    """Whose transcript it was; the suite fills it in."""


PASS: Final = Verdict("pass")


def failed(reason: str, *evidence: int) -> Verdict:
    """The subject violates the requirement."""
    return Verdict("fail", reason, evidence)


def skipped(reason: str) -> Verdict:
    """It does not apply: a capability is not advertised, or the race did not happen."""
    return Verdict("skipped", reason)


def not_tested(reason: str) -> Verdict:
    """It applies and could not be shown; a failure where the requirement is mandatory."""
    return Verdict("not-tested", reason)


def combined(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a requirement that several transcripts speak of; not-tested if there are none."""
    best: Verdict | None = None
    for verdict in verdicts:
        if best is None or _PRECEDENCE.index(verdict.outcome) < _PRECEDENCE.index(best.outcome):
            best = verdict
    return best or not_tested("nothing was recorded")


def of(verdict: Verdict, scenario: str) -> Verdict:
    """The same, naming the scenario whose transcript it is about; its reason, which quotes programs, short enough."""
    reason = encodable(verdict.reason)
    short = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]} ..."
    return replace(verdict, scenario=scenario, reason=short)
