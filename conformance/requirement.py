"""What a requirement is. Rows of these are in `requirements/`; this module knows no protocol and no row.

The level follows from the quoted sentence, so that no program fails for what nobody wrote down:

- *mandatory*: the specification says MUST (NOT), or a keyword of its schema forbids otherwise (`documents.binds`);
- *capability*: the same, once the subject advertises the capability that `applies` names;
- *advisory*: SHOULD, a statement of fact, a courtesy of JSON-RPC, or what users reported. Never decides;
- *informational*: the text is silent or contradicts itself. Recorded, and never decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from conformance.documents import Source
from conformance.traffic import Traffic
from conformance.verdict import Verdict

Level = Literal["mandatory", "capability", "advisory", "informational"]
LEVELS: Final[tuple[Level, ...]] = ("mandatory", "capability", "advisory", "informational")
DECIDING: Final[frozenset[Level]] = frozenset({"mandatory", "capability"})
"""The levels at which a failure makes the subject not conformant."""

Judge = Callable[[Traffic], Verdict]
"""Reads the traffic of one transcript. Pure: no clock, no files, the same answer each time."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing a program must, should or may do, and how it is found out."""

    id: str
    """`ACP1-A-CANCEL-003`: protocol and version, role, area, number. Never reused, even after a requirement is gone."""
    level: Level
    text: str
    """One sentence, subject first: what a conforming program does."""
    source: Source
    judge: Judge
    scenario: str | None = None
    """The scenario that shows it; None for a passive one, which is judged in every transcript."""
    applies: str | None = None
    """A dotted path into the subject's capabilities; where it is absent, false or null, the requirement is skipped."""
    violation: str = ""
    """An example of traffic that violates it, for `explain`."""

    @property
    def decides(self) -> bool:
        """Whether a failure, or a mandatory requirement that was not tested, makes the subject not conformant."""
        return self.level in DECIDING
