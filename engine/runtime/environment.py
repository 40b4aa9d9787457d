"""The live namespace that statements run in: its interface, and the values that start one.

`worker_environment` implements it. Programs that embed the engine may pass their own implementation to `Host`, for
example in tests. Must not know processes or sessions. Sessions use this interface alone.
"""

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


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of one worker: sizes in bytes, times in seconds.

    `data_bytes` limits what each process allocates. While a statement runs, it also limits all its processes together.
    """

    data_bytes: int = 4 << 30
    open_files: int = 1024
    statement_seconds: float = 120.0
    grace_seconds: float = 0.5


class EnvironmentSpec(Struct, frozen=True, kw_only=True):
    """Where statements run: absolute directories, import paths, and environment variables.

    `redactor` redacts everything that the worker sends. With a `domain` the kernel confines statements and their
    processes; `Environment.layers` tells which layers do. In a `confined` environment, views open only files below
    `cwd` and `directories`, and none below `kept_out`, this program's own places. That does not confine statements.
    With `allow_sudo` programs may gain privileges, and can then read the user's other processes. `servers` maps the
    names of modules in statements to the names of MCP servers.
    """

    cwd: str
    redactor: Redactor
    directories: tuple[str, ...] = ()
    confined: bool = False
    kept_out: tuple[str, ...] = ()
    servers: dict[str, str] = field(default_factory=dict[str, str])
    import_paths: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict[str, str])
    limits: Limits = field(default_factory=Limits)
    allow_sudo: bool = False
    domain: Domain | None = None


StartServer = Callable[[EnvironmentSpec, ServerRequest], ServerProcess]
"""Starts an MCP server with a session's limits. Raises EnvironmentUnavailableError, ValueError."""


class Environment(Protocol):
    """The live Python namespace with its views and groups, and programs beside it.

    Requests run one at a time. `interrupt`, `command` and `hold` may be called at any moment.

    If the worker dies during `run`, that is the outcome: status `error`, exception type `WorkerDied`. Every other
    request raises `EnvironmentUnavailableError`. So does each one that finds no worker.
    """

    @property
    def alive(self) -> bool:
        """Whether a namespace exists. After a kill there is none until `restore`."""
        ...

    @property
    def idle(self) -> bool:
        """Whether it is alive and answers no request, so that `run` sends its statement before it awaits anything.

        False is always safe: then nobody relies on `begun`.
        """
        ...

    async def loss(self) -> str | None:
        """Why the namespace was lost outside of a statement, as a clause, until the next one starts.

        None if there is a namespace, if `end` ended it, or if the outcome of a statement already reported the loss.
        """
        ...

    @property
    def layers(self) -> Collection[Layer]:
        """The sandbox layers that confine the current namespace; empty without a domain or a namespace."""
        ...

    async def start(self, spec: EnvironmentSpec) -> None:
        """Start a fresh namespace in place of the current one."""
        ...

    async def hold(self, places: Sequence[str]) -> None:
        """Make these absolute paths read-only for the current namespace, if its domain allows writing there.

        For paths that were created or replaced after its start. Also covers the sockets of `finds_sockets`. Does
        nothing without a namespace or its mounts.

        Raises:
            EnvironmentUnavailableError: the paths stay writable.
        """
        ...

    @property
    def hides_all(self) -> bool:
        """Whether the current namespace still sees none of the directories that its domain hides.

        A directory that was made anew or moved after its start is not hidden. True without a namespace or its mounts.
        """
        ...

    @property
    def finds_sockets(self) -> bool:
        """Whether the current namespace finds Unix sockets outside that were made after its start: `hold` covers them.

        False without a namespace or its mounts, or if Landlock refuses to connect.
        """
        ...

    @property
    def has_programs(self) -> bool:
        """Whether code of earlier statements may run in the sandbox now, though none is running.

        It may run in a process, a thread of the worker, a signal handler, or a method of a value that is being saved.
        A checkpoint runs nothing. True also if it is unknown.
        """
        ...

    def end_programs(self) -> None:
        """Kill all sandboxed processes of the session at once, the worker and its checkpoints too."""
        ...

    def stopped(self) -> AbstractAsyncContextManager[bool]:
        """Stop the sandboxed processes of all the host's sessions, and exclude `acting`.

        For operations of the host on a path that no such process may change meanwhile. Yields True if all of them
        stand still, also if there are none, and False if the system cannot stop them. Neither reentrant nor allowed
        inside `acting`.
        """
        ...

    def acting(self) -> AbstractAsyncContextManager[None]:
        """Enclose each change of the file tree by the host, for a statement or a rewind. Waits while `stopped`."""
        ...

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        """Run one statement to its end.

        `begun` is called when the statement was sent, before any answer to it is read, so its work takes none of the
        statement's time. It is not called if nothing was sent. If it raises, the statement is stopped.
        """
        ...

    def interrupt(self) -> None:
        """Stop the running statement: SIGINT, and SIGKILL after the grace. Its outcome is `cancelled`.

        Does nothing if no statement runs.
        """
        ...

    async def command(self, request: CommandRequest, output: OutputSink) -> CommandOutcome:
        """Run a program. Other requests go on meanwhile, even a statement that waits for this program.

        It has the variables and limits of the spec, without changes by statements, and no terminal. `output` receives
        the kept output: its beginning while the program runs, the rest at the end. The program ends with all its
        processes; a cancel and `close` end it.

        Raises:
            OSError: it cannot start; the subclass tells why: FileNotFoundError, PermissionError ...
            ValueError: an argument contains a NUL character, or the request is too long.
            EnvironmentUnavailableError: the environment was not started, or is closed.
        """
        ...

    async def tick(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickOutcome:
        """Apply prepared updates, then update running views; `now` in seconds since the Unix epoch."""
        ...

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        """Render the tail within `budget` tokens, and count `texts`. A budget of 0 only counts. Changes nothing."""
        ...

    async def foresee(self, round_id: int, now: float) -> Sequence[FeedItem]:
        """Preview a tick in that Round at `now`: a line for each view that it would change. Changes nothing.

        Updates that are prepared outside of ticks are not included.
        """
        ...

    async def look(self, names: Collection[str] = (), tokens: int | None = None, *, at_sources: bool = False) -> Looked:
        """List the handles, and render those in `names`, each with its own policy and within `tokens` tokens.

        `names` are variables or ids. With `at_sources` the result also names running views whose files have changed.
        Changes nothing: no tick, and nothing counts as shown. Without a namespace the list is empty.
        """
        ...

    def read(self) -> None:
        """Note that a model has read the handles. The namespace learns it with the next request."""
        ...

    def follow(self, buffers: Buffers | None) -> None:
        """Make views show the editor's buffers from the next request on; None stops that."""
        ...

    def kept(self) -> Preserved | None:
        """Return the values that a run with `keeps` sent after its result, once.

        None if they have not arrived, or are incomplete; `preserve` returns them then.
        """
        ...

    async def preserve(self, large: bool) -> Preserved:
        """Pickle the values of all names that changed since they were last preserved.

        Groups of up to 64 KiB are pickled at once. With `large`, groups of up to 64 MiB are pickled too, possibly
        while the next statement runs. User code that runs for it is limited in time and has no outside effects.
        """
        ...

    async def collect(self) -> Preserved:
        """Return the large values whose pickles are complete."""
        ...

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        """Replace the namespace by a fresh one, and run the plan's steps in it with their recorded inputs.

        Nothing outside is changed. If a checkpoint matches, the steps before it are not run again. A step without
        `record`, and all after it, run in any case. If a step is stopped or differs, its names are set from kept
        values. A step that kills its worker, or makes Python unusable, is skipped. An exception of `compare` ends the
        restore without a namespace.

        Raises:
            StatementLostError: a step that the plan must not skip killed its worker.
        """
        ...

    @property
    def rerunning(self) -> ExecutionId | None:
        """The execution that `restore` is running again; None before the first and outside of `restore`."""
        ...

    async def snapshot(self, execution_id: ExecutionId) -> bool:
        """Begin a checkpoint of the current state, after this execution, to make later restores faster.

        Returns at once; `checkpoints` reports the result. False if this environment has no checkpoints.
        """
        ...

    def checkpoints(self) -> Sequence[CheckpointNews]:
        """Return the new and dropped checkpoints since the last call."""
        ...

    async def end(self) -> None:
        """End the namespace with all its processes. Checkpoints stay for a later `restore`."""
        ...

    async def close(self) -> None:
        """End everything, checkpoints included. May be repeated."""
        ...
