"""What a statement is run with, what it asks of the host meanwhile, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct, field

from ..core.execution import Captured, Display, ExceptionInfo, ExecutionStatus, Location, NamespaceDiff
from ..core.ids import ExecutionId
from .events import Event


class RunRequest(Struct, frozen=True, kw_only=True):
    """One execution to run. `label` is what tracebacks call the source; `round_id` is what nodes note as touched.

    `index` is the statement's number, which the ids of its handles begin with. With `plan` whatever would change
    something outside raises PermissionError; bookkeeping, not a boundary. So it does with `answered`, but for what the
    handler of effects is asked for, which answers from a record. With `keeps` the small values that it changed follow
    the outcome by themselves, for `Environment.kept`.
    """

    execution_id: ExecutionId
    label: str
    source: str
    index: int = 0
    round_id: int = 0
    time_limit: float | None = None
    plan: bool = False
    answered: bool = False
    keeps: bool = False


class RunOutcome(Struct, frozen=True, kw_only=True):
    """What came of it. `events` are unstamped node and name events in the order in which they happened.

    `contents` are those of the revisions that nodes adopted, by xxh3 hex, each once from one worker. `acted`: it asked
    for an effect, or did something outside that a rebuild would keep it from. `writing` are the files that its process
    has open for writing since; `more` counts acts on files of which no `Touched` says anything. `stops` are phrases on
    what it was kept from, where it ran again.
    """

    status: ExecutionStatus
    value: str | None = None
    exception: ExceptionInfo | None = None
    time_ms: float = 0.0
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)
    displays: tuple[Display, ...] = ()
    locations: tuple[Location, ...] = ()
    diff: NamespaceDiff = field(default_factory=NamespaceDiff)
    stops: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    acted: bool = False
    writing: tuple[bytes, ...] = ()
    more: int = 0


class Touched(Struct, frozen=True, kw_only=True):
    """A file that a statement's own code is about to write, and what it holds until then.

    `path` is its real place, as the file system has it; `digest` is xxh3 hex, empty where there is no file. Where the
    content was not read, `data` is None, `note` says why, and `digest` stands for the state of the file. `mode` are its
    permission bits.
    """

    path: bytes
    digest: str = ""
    data: bytes | None = None
    note: str = ""
    mode: int | None = None


class EffectRequest(Struct, frozen=True, kw_only=True):
    """What a statement asks of the host: `operation` with plain-data arguments; `ordinal` counts within the run.

    `basis` is the xxh3 hex of what a view last showed of the file that it is about, None where no view did.
    """

    ordinal: int
    operation: str
    arguments: dict[str, object]
    basis: str | None = None


class EffectAnswer(Struct, frozen=True, kw_only=True):
    """Plain data for the statement, or the exception it is to see."""

    value: object = None
    error: ExceptionInfo | None = None


EffectHandler = Callable[[EffectRequest], Awaitable[EffectAnswer]]
"""Performs what a statement asks of the host; what it raises is the statement's exception."""


OutputSink = Callable[[Literal["stdout", "stderr"], str], None]
"""Is given the name of the stream and what was printed, while the statement or the program runs."""


TouchSink = Callable[[Touched], None]
"""Is told of each file once in a statement, before it is written; blocks nobody for long and raises nothing."""


def ignore_touched(touched: Touched) -> None:
    """A `TouchSink` that keeps nothing."""
