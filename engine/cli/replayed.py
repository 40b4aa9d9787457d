"""The result of a session that ran again, as `rewindow replay --all` prints it, and as nodes of a cluster send it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Outcome = Literal["same", "different", "failed", "empty"]
"""`same`: all results are as recorded. `failed`: the replay did not reach its end. `empty`: nothing can run again."""
OUTCOMES: Final[tuple[Outcome, ...]] = ("same", "different", "failed", "empty")


class Difference(Struct, frozen=True):
    """What a statement gave before, and what it gives now."""

    statement: int
    aspect: str
    before: str
    after: str


class Replayed(Struct, frozen=True, kw_only=True):
    """The result of one session. `statements` ran again; `detail` says why a session failed or is empty."""

    session_id: str
    outcome: Outcome
    cwd: str = ""
    title: str | None = None
    statements: int = 0
    detail: str = ""
    differences: tuple[Difference, ...] = ()
    not_run: tuple[str, ...] = ()
