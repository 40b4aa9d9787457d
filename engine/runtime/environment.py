"""The live namespace that statements run in: the Protocol, and what an environment is started with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct, field

from ..core.domain import Domain, Layer
from ..core.ids import ExecutionId
from ..core.programs import CommandOutcome, CommandRequest, ServerProcess, ServerRequest
from ..files.sources import Buffers
from ..files.tails import FeedItem, Looked, News, ProjectionPart
from ..log.past import CheckpointNews, Comparison, Contents, Preserved, Restored, RestorePlan
from ..log.redaction import Redactor
from ..log.statements import (
    EffectHandler,
    OutputSink,
    RunOutcome,
    RunRequest,
    TickOutcome,
    TouchSink,
    UpdatePayload,
    ignore_touched,
)
from .sandbox import landlock, seccomp

# The live namespace that statements run in. Implemented by `environment`.


class Limits(Struct, frozen=True, kw_only=True):
    """What one worker may use. Sizes in bytes, times in seconds.

    `data_bytes` bounds what each process allocates for itself and, while a statement runs, what all hold together.
    """

    data_bytes: int = 4 << 30
    open_files: int = 1024
    statement_seconds: float = 120.0
    grace_seconds: float = 0.5


class EnvironmentSpec(Struct, frozen=True, kw_only=True):
    """Where statements run: absolute directories, the project's import path, and the allowed environment variables.

    With `allow_sudo` the programs they start may gain privileges; then they can read the user's other processes.
    Views of a `confined` environment open nothing outside of `cwd` and `directories`, nor what is in `kept_out`, this
    program's own; statements are not held by that.
    `servers` are the names of MCP servers, by those of the modules that stand for them in statements. With a `domain`
    the kernel holds statements, and what they start, to it; which `Environment.layers` says. What comes from the
    worker is redacted by `redactor` as it arrives.
    """

    cwd: str
    redactor: Redactor
    directories: tuple[str, ...] = ()
    confined: bool = False
    kept_out: str = ""
    servers: dict[str, str] = field(default_factory=dict[str, str])
    import_paths: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict[str, str])
    limits: Limits = field(default_factory=Limits)
    allow_sudo: bool = False
    domain: Domain | None = None


StartServer = Callable[[EnvironmentSpec, ServerRequest], ServerProcess]
"""Starts a program with the limits of a session. Raises EnvironmentUnavailableError, ValueError."""


class Environment(Protocol):
    """The live Python namespace with its nodes, and programs beside it.

    One request at a time; `interrupt` and `command` may come at any moment.

    A worker that dies is an outcome of `run` (status `error`, exception type `WorkerDied`), never an exception;
    `EnvironmentUnavailableError` is raised where none can be started.

    Two implementations share one contract suite: a worker process, and `runtime.in_process` for tests and
    embedding. The worker's alone are: limits, variables, import paths and working directory of the spec, an end for
    whatever a statement does, and the output of children and of C code.
    """

    @property
    def alive(self) -> bool:
        """Whether there is a namespace to run in; after a kill there is none until `restore`."""
        ...

    @property
    def idle(self) -> bool:
        """Whether it is alive, and a statement that is run now is on its way before `run` awaits anything.

        False is always safe: then `begun` is nobody's concern.
        """
        ...

    async def loss(self) -> str | None:
        """Why there is no namespace any more, as a clause, if it was lost beside a statement, and until another begins.

        None where there is one, where it was ended as asked, and where the outcome of a statement has said it.
        """
        ...

    @property
    def layers(self) -> Collection[Layer]:
        """What of the sandbox holds the present namespace to its domain; nothing where it has none, or none lives."""
        ...

    async def start(self, spec: EnvironmentSpec) -> None:
        """Makes a fresh namespace, in place of one that may be there."""
        ...

    async def hold(self, places: Sequence[str]) -> None:
        """Has the kernel keep the present namespace from writing these absolute paths, of what its domain allows.

        For places that came to be since it began, or were replaced. Does nothing where there is no namespace, or no
        layer of mounts holds it. May come at any moment.

        Raises:
            EnvironmentUnavailableError: they are not held.
        """
        ...

    def stopped(self) -> AbstractAsyncContextManager[bool]:
        """Holds the sandboxed processes of all sessions of the host still, and lets nobody else be in `acting`.

        For what the host does by a path, and no such process may come between. Yields whether they stand still; also
        where there are none. False where the system has no means. Not within `acting`, nor within itself.
        """
        ...

    def acting(self) -> AbstractAsyncContextManager[None]:
        """While the host changes the file tree for a statement or a rewind: waits until nobody has all `stopped`."""
        ...

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        """Runs one statement to its end, whatever that is.

        `begun` is called when the statement is on its way, before anything of it is heard: what takes time then takes
        none of the statement's. Not where it never gets that far. What it raises stops the statement.
        """
        ...

    def interrupt(self) -> None:
        """Ends the statement that is running: SIGINT, after the grace SIGKILL. Its outcome is `cancelled`.

        Does nothing when no statement is running.
        """
        ...

    async def command(self, request: CommandRequest, output: OutputSink) -> CommandOutcome:
        """Runs a program beside whatever else goes on, also while a statement waits for its effect.

        It has the variables and the limits that the environment was started with, and nothing of what statements
        changed since; no terminal, and nobody to ask. `output` is given what is kept of what it prints: the beginning
        while it runs, the rest at its end. All that it started ends with it, and it ends with the wait that is
        cancelled, and with `close`.

        Raises:
            OSError: it cannot be started, by the name of the reason: FileNotFoundError, PermissionError ...
            ValueError: an argument holds a NUL character, or the request is too long to be sent.
            EnvironmentUnavailableError: the environment was not started, or is closed.
        """
        ...

    async def tick(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickOutcome:
        """Applies what was prepared, then lets running nodes catch up; `now` in seconds since the Unix epoch."""
        ...

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        """Renders the tail within `budget` tokens and counts `texts`; a budget of 0 counts alone. Changes nothing."""
        ...

    async def foresee(self, round_id: int, now: float) -> Sequence[FeedItem]:
        """What a tick in that Round would find at `now`: a line for each node that it would change. Changes nothing.

        Of what is prepared beside ticks nothing is foreseen.
        """
        ...

    async def look(self, names: Collection[str] = (), tokens: int | None = None, *, at_sources: bool = False) -> Looked:
        """The handles there are, and what those of `names` show, each at its own policy and within `tokens` tokens.

        Names are those in the namespace, or ids. With `at_sources` also which of those that run are stale, for which
        the disk is asked. Changes nothing: nothing is ticked, drained, or taken for shown. Without namespace there are
        none.
        """
        ...

    def read(self) -> None:
        """A model has read the handles as they are; the namespace hears of it ahead of the next request."""
        ...

    def follow(self, buffers: Buffers | None) -> None:
        """Has views show what an editor holds, from the next request on; with None nobody is asked."""
        ...

    def kept(self) -> Preserved | None:
        """What followed a run that `keeps`, once; None where it is not there yet, or not all, which `preserve` has."""
        ...

    async def preserve(self, large: bool) -> Preserved:
        """Pickles the values of all names that changed and were not preserved so far.

        Each group up to 64 KiB at once; with `large` up to 64 MiB, which may go on while the next statement runs. What
        code of the statements' own does meanwhile is bounded in time and touches nothing outside.
        """
        ...

    async def collect(self) -> Preserved:
        """What `preserve` has left to be taken, and is there now."""
        ...

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        """Replaces the namespace by a fresh one in which the plan's steps have run again, touching nothing outside.

        Where there is a checkpoint of the state after some of them, it begins there. A step that runs again and has no
        `record` runs in any case, with all that follow it. They see what they saw then. Where one is stopped, or comes
        out differently, the names that it bound are set from what was kept of them. What ends its worker now, or leaves
        Python unusable in it, is left out.

        What `compare` raises ends it, and there is no namespace then.

        Raises:
            StatementLostError: a statement that the plan will not have left out ended its worker.
        """
        ...

    @property
    def rerunning(self) -> ExecutionId | None:
        """Which execution runs again at this moment, while `restore` goes on; None before the first, and otherwise."""
        ...

    async def snapshot(self, execution_id: ExecutionId) -> bool:
        """Begins to keep the present state, which is that after this execution, so that `restore` can be fast.

        Returns without waiting; what comes of it is among `checkpoints`. False where this environment cannot.
        """
        ...

    def checkpoints(self) -> Sequence[CheckpointNews]:
        """What became of checkpoints since this was asked last."""
        ...

    async def end(self) -> None:
        """Ends the namespace with all that it started; `restore` gives another, and has the checkpoints for that."""
        ...

    async def close(self) -> None:
        """Ends it with all that it started; may be repeated."""
        ...


# holding:
# Whether this kernel can hold statements to a domain, before any worker says what does.
#
# Used by `rewindow-mcp`, which serves no statements where it cannot. Imports the standard library alone.


def cannot_hold() -> str:
    """Why the kernel cannot hold statements here, in a phrase; empty where it can."""
    return " and ".join(filter(None, (landlock.missing(), seccomp.missing())))
