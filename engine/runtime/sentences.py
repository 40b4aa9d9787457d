"""What a rebuild says of one step: why it did not run again, what came out differently, and what became of its names.

Must not know how a step is carried out. Used by `attempt`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ..core.text import cut_line, printable
from ..log.past import PastExecution
from .worker.guarding.refusal import replaying

_SENTENCE_CHARS: Final = 500
_NAME_CHARS: Final = 80
_SHOWN_NAMES: Final = 20

STOPPED: Final = "was stopped ({}), and is not run again"
"""Of a statement of that status."""


def skipped(past: PastExecution, fault: str | None) -> Sequence[str]:
    """Why a statement did not run again; nothing of one that was stopped then, which is no news."""
    if fault is not None:
        return (fault,)
    if past.hindrance:
        return (past.hindrance,)
    stopped = past.status in ("cancelled", "timeout")
    return () if stopped else ("held a secret in its source, which is not kept, so it was not run again",)


def told(stops: Sequence[str], differences: Sequence[str]) -> Sequence[str]:
    """All phrases on a statement; one alone where it ended by what it was kept from, as most that act outside do."""
    for stop in stops:
        reason = f": {replaying(stop)}"
        if differences and reason in differences[0]:
            return ("; ".join((*stops, differences[0].replace(reason, "", 1), *differences[1:])),)
    return (*stops, *differences)


def outcome_of(brought: Collection[str], without: dict[str, str]) -> Iterable[str]:
    """Which names were set from copies, and of which there was none, by reason."""
    if brought:
        yield f"{_listed(brought)} set from what was kept"
    if without:
        by_reason: dict[str, list[str]] = {}
        for name, reason in without.items():
            by_reason.setdefault(reason, []).append(name)
        yield "no copy of " + ", ".join(f"{_listed(names)} ({reason})" for reason, names in by_reason.items())


def _listed(names: Collection[str]) -> str:
    # A name that a statement made up may hold a newline.
    shown = [cut_line(printable(name), _NAME_CHARS) for name in sorted(names)[:_SHOWN_NAMES]]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def sentence(label: str, phrase: str) -> str:
    """What is said of one statement."""
    return bounded(f"{label} {phrase}")


def bounded(text: str) -> str:
    """A sentence within what a report gives to each."""
    return cut_line(text, _SENTENCE_CHARS)
