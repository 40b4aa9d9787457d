"""The interpreter: one namespace with its views, the answer to each request, and the loop that serves them.

`Interpreter` owns the namespace, the board, the executor and the effects, and what a run reports. `Values` answers the
requests about kept values; `keeping` is loaded with the first one. `serve` handles one request after another, until the
transport ends it. Must not know how messages travel, nor how its process came to be. Started by `forking.child`. A
little over 500 lines, because every request of the host is answered here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from ...core.domain import Domain, Layer
from ...core.execution import ExceptionInfo
from ...core.ids import ExecutionId
from ...files.outline.model import Outliner
from ...log.events import Event
from ...log.events.execution import NamesRebound
from ...log.events.nodes import ContentsAdopted, RevisionAdopted
from ...log.past import ValueGroup
from .framing import FrameTooLargeError, events_of, pack_events
from .guarding import routes
from .guarding.guard import OutsideGuard, editing, planning, replaying
from .handles.board import Board, LastShown
from .handles.trees import DirectFiles
from .interrupts import Interrupts
from .names import InjectedNames
from .namespace import NamespaceWatch
from .protocol import (
    Answer,
    BuffersMoved,
    BufferTexts,
    CleanedUp,
    CleanUp,
    Collect,
    Content,
    Failed,
    Foresee,
    Foreseen,
    FromWorker,
    HiddenLines,
    Kept,
    Known,
    Look,
    LookAt,
    LookedAt,
    Noted,
    Outlined,
    OutputTaken,
    Pickled,
    Preserve,
    Project,
    Projected,
    Ran,
    Replay,
    Run,
    Settle,
    Settled,
    SetValues,
    Snapshot,
    Started,
    Stopping,
    Tick,
    Ticked,
    ValuesSet,
)
from .statements.effects import Effects, Transport
from .statements.executor import Executed, Executor, OwnPython
from .writes.advice import Advice
from .writes.opening import Opening, lead
from .writes.touching import WriteNotices
from .writes.tree import RoutedTree

if TYPE_CHECKING:
    from .keeping.value_keeper import ValueKeeper
    from .statements.executor import Output, Rerun

Request = (
    Run
    | Tick
    | Project
    | LookAt
    | Foresee
    | BuffersMoved
    | CleanUp
    | Preserve
    | Collect
    | Content
    | Known
    | Outlined
    | SetValues
    | Settle
    | Replay
)


class Interpreter:
    """Runs statements in `namespace`, and answers all other requests.

    Args:
        transport: sends the requests for effects.
        count: counts tokens exactly, as for `Board`.
        cwd: absolute directory that relative paths of views start from.
        directories: absolute roots of the workspace.
        confined: whether views open only files in these.
        servers: names of MCP servers by the names of their modules.
        prepare: called before each statement.
        flush: called after each statement, to flush buffers of C code.
        output: tells whether a statement of a replay has written anything.
        python: restores the parts of Python that our own code uses.
        forks: whether the process may be forked to pickle values.
        outliner: makes outlines for views.
        domain: the sandbox domain of this process.
    """

    def __init__(
        self,
        namespace: dict[str, object],
        transport: Transport,
        interrupts: Interrupts,
        guard: OutsideGuard,
        *,
        count: Callable[[str], int],
        cwd: str,
        directories: tuple[str, ...],
        confined: bool,
        servers: Mapping[str, str],
        prepare: Callable[[], None],
        flush: Callable[[], None],
        output: Output,
        python: OwnPython,
        forks: bool,
        outliner: Outliner,
        domain: Domain | None = None,
    ) -> None:
        self._namespace = namespace
        self._count = count
        self._prepare = prepare
        self._output = output
        self._interrupts = interrupts
        self._guard = guard
        roots = (cwd, *directories)
        self._effects = Effects(transport, interrupts, guard.admit)
        files = DirectFiles(roots if confined else None)
        self._board = Board(
            files,
            count,
            cwd,
            directories,
            time.time,
            outliner,
            ask_editor=self._effects.texts,
            hide=self._effects.hidden_lines,
        )
        scratch = () if domain is None else (domain.scratch,)
        self._notices = WriteNotices(transport, interrupts, own_process=guard.own_process, left_out=scratch)
        change = LastShown(self._board).ask_to_change(self._effects.ask)
        opening = Opening(self._effects, change, roots, domain)
        self._files = opening.files
        advice = None
        if domain is not None:
            advice = Advice(domain, roots, lambda: self._notices.database)
            tree = RoutedTree(opening, self._effects, change)
            lead(opening, tree.tree_remover())
            routes.lead(tree.targets())
        self._transport = transport
        self._said: list[str] = []
        """Sentences about a replay that concern no statement."""
        self._names = InjectedNames(self._board, self._effects.ask, opening.open, namespace, servers)
        self._watch = NamespaceWatch(namespace, self._names.originals)
        self._executor = Executor(
            namespace, self._watch, interrupts, flush, python, opening.settle, self._let_go, advice and advice.add_to
        )
        self._forks = forks
        self._values = Values(self._keeper, self._watch, interrupts, python, self._let_go)
        self._rerun: Rerun | None = None

    def answer(self, request: Request) -> FromWorker | None:
        """Return the reply; None if the request has none.

        Failures of a statement are part of the reply. Raises only if our own code fails.
        """
        with self._effects.serving():
            return self._answer(request)

    def _answer(self, request: Request) -> FromWorker | None:
        match request:
            case Run() | Replay():
                return self._run(request)
            case Tick():
                return self._tick(request)
            case Project():
                return self._project(request)
            case LookAt():
                looked = self._board.look(self._namespace, request.names, request.tokens)
                return LookedAt(replace(looked, stale=self._board.stale()) if request.at_sources else looked)
            case Foresee():
                return Foreseen(self._board.foresee(request.round_id, request.now))
            case CleanUp():
                self._interrupts.forget()
                return CleanedUp()
            case Preserve() | Collect() | SetValues():
                return self._values.answer(request)
            case Content() | Known() | Outlined() | BuffersMoved():
                self._take(request)
                return None
            case Settle():
                return self._settle(request)

    def take_place(self) -> None:
        """Continue in a copy of the worker: pending work of the original does not apply here."""
        self._interrupts.install()
        self._interrupts.forget()
        self._files.take_place()
        self._values.take_place()

    def kept(self, execution_id: str) -> Kept:
        """Return the message that follows the reply to a request with `keeps`."""
        return self._values.kept(execution_id)

    def _take(self, known: Content | Known | Outlined | BuffersMoved) -> None:
        """Take facts for a replay, or changes in the editor."""
        match known:
            case BuffersMoved(paths=paths):
                self._board.looks.forget_buffers(paths)
            case Content(digest=digest, data=data):
                self._board.looks.take_content(digest, data)
            case Outlined(tiers=tiers):
                self._board.outlines.know(tiers)
            case Known(revisions=revisions, after_reading=after_reading):
                self._board.looks.know(revisions)
                if after_reading:
                    self._board.read()

    def _run(self, request: Run | Replay) -> FromWorker:
        if isinstance(request, Run):
            return self.ran(request, self.execute(request))
        if self._rerun is None:
            # Imported here, like the ValueKeeper.
            from .statements.executor import Rerun

            self._rerun = Rerun(self, self._transport, self._interrupts, self._output)
        return self._rerun.conduct(request)

    def execute(self, request: Run) -> Executed:
        """Run a statement to its end."""
        self._prepare()
        self._names.begin()
        self._interrupts.install()
        self._effects.open(request.recorded, plan=request.plan, answered=request.answered)
        if request.recorded is not None:
            self._replay(request.revisions)
        if request.after_reading:
            self._board.read()
        self._board.begin(
            request.index,
            self._namespace,
            execution_id=request.execution_id,
            round_id=request.round_id,
            times=request.ticks,
            payloads=request.payloads,
            unread=request.unread,
            known=request.known,
            is_known_read=request.is_known_read,
        )
        self._arm(request)
        if request.recorded is None and not request.plan and not request.answered:
            self._notices.begin()
        try:
            # The result of a replay is compared and needs no traceback.
            result = self._executor.run(request.source, request.label, traced=request.recorded is None)
        finally:
            stops = self._disarm(request)
            self._effects.close()
            noticed = self._notices.take()
        report = self._board.finish()
        self._send_contents()
        return Executed(result, report, stops, noticed, self._rebound(request.execution_id))

    def _let_go(self) -> None:
        """End handles that the namespace does not reach any more."""
        self._board.let_go(self._watch.holding.unheld(self._board.made()))

    def _replay(self, revisions: tuple[Look, ...] | None) -> None:
        """Begin a step of a replay."""
        self._say("code between two statements")
        self._board.looks.replay(revisions)

    def _say(self, who: str) -> None:
        phrases = self._board.looks.take_phrases()
        if phrases:
            self._said += [f"{who} {phrase}" for phrase in phrases]

    def _send_contents(self) -> None:
        """Send the contents that nodes saw, ahead of the events that name them."""
        for digest, data in self._board.looks.take_contents().items():
            self._transport.send(Content(digest, data))

    def _arm(self, request: Run) -> None:
        is_replay = request.recorded is not None
        refusal = planning if request.plan else editing if request.answered else replaying
        if is_replay or refusal is not replaying:
            self._guard.arm(request.label, refusal, replay=is_replay)
        else:
            self._guard.disarm()
            self._guard.begin_watch(self._notices.notice)

    def _disarm(self, request: Run) -> tuple[str, ...]:
        """End the guard of a statement, and return what it stopped. It stays armed between statements of a history.

        A re-run of a statement in plan mode, or of an edit, does not report acts that were denied in its first run too.
        """
        self._guard.end_watch()
        stops, turned_off = self._guard.ended()
        unseen = self._board.looks.take_phrases()
        if request.recorded is not None and not (request.plan or request.answered):
            return (*stops, *turned_off, *self._effects.stops, *unseen)
        if request.recorded is None:
            self._guard.disarm()
        for phrase in turned_off:
            sys.stderr.write(f"{'plan mode' if request.plan else 'edit without --live'}: this statement {phrase}\n")
        return (*self._effects.stops, *unseen)

    def ran(self, request: Run, executed: Executed) -> Ran:
        """Build the record of a statement."""
        result, report, noticed = executed.result, executed.report, executed.noticed
        return Ran(
            execution_id=request.execution_id,
            status=result.status,
            value=result.value,
            markdown=result.markdown,
            pictures=result.pictures,
            exception=result.exception,
            time_ms=result.time_ms,
            displays=report.displays,
            locations=report.locations,
            diff=result.diff,
            events=pack_events((*report.events, *executed.rebound)),
            stops=executed.stops,
            acted=noticed.acted or self._effects.asked,
            writing=noticed.writing,
            more=noticed.more,
        )

    def _keeper(self) -> ValueKeeper:
        # Imported here, so that the zygote can fork before it has loaded this.
        from .keeping.value_keeper import ValueKeeper

        return ValueKeeper(
            self._namespace,
            self._watch,
            self._board,
            self._names.originals,
            self._guard,
            self._interrupts,
            forks=self._forks,
        )

    def put(self, groups: Sequence[ValueGroup], delete: Sequence[str]) -> dict[str, str]:
        """Set names to their kept values, as `SetValues` does."""
        return self._values.put(groups, delete)

    def _rebound(self, execution_id: str) -> tuple[Event, ...]:
        names = self._names.newly_rebound()
        return (NamesRebound(execution_id=ExecutionId(execution_id), names=names),) if names else ()

    def _tick(self, request: Tick) -> Ticked:
        if request.replay:
            return self._tick_again(request)
        if request.after_reading:
            self._board.read()
        started = time.perf_counter_ns()
        nodes = sum(node.running for node in self._board.handles())
        with self._effects.ticking():
            events = self._board.tick(request.round_id, request.now, request.payloads)
        wants = self._board.wants()
        self._say(f"the tick after statement {self._board.statement}")
        self._send_contents()
        time_ms = (time.perf_counter_ns() - started) / 1e6
        return Ticked(
            events=pack_events(events), time_ms=time_ms, nodes=nodes, stops=self._guard.take_late(), wants=wants
        )

    def _tick_again(self, request: Tick) -> Ticked:
        """Repeat a tick of the history: nodes change as they did, without events, which are already on the log."""
        self._replay(request.revisions)
        if request.after_reading:
            self._board.read()
        self._board.tick(request.round_id, request.now, request.payloads, tells=False)
        self._say(f"the tick after statement {self._board.statement}")
        return Ticked(events=(), time_ms=0.0, stops=self._guard.take_late())

    def _settle(self, request: Settle) -> Settled:
        self._say("code between two statements")
        if request.after_reading:
            self._board.read()
        # Before the looks, because a finalizer that runs now may look at a file.
        sentences = (*self._said, *self._guard.settle())
        self._board.looks.settle()
        self._board.outlines.settle()
        self._said.clear()
        self._values.settle(request.anew, self._namespace.values())
        return Settled(sentences, tuple(name for name in request.anew if name not in self._namespace))

    def _project(self, request: Project) -> Projected:
        if request.after_reading:
            self._board.read()
        counts = tuple(self._count(text) for text in request.texts)
        if request.budget == 0:
            return Projected(tail="", tail_tokens=0, text_tokens=counts)
        tail, handles = self._board.tail(self._namespace, request.budget, request.news)
        return Projected(
            tail=tail.text,
            tail_tokens=tail.tokens,
            text_tokens=counts,
            handles=handles,
            sections=dict(tail.sections),
            nodes=dict(tail.nodes),
        )


# --- kept values ------------------------------------------------------------------------------------------------------


class Values:
    """The kept values of one namespace.

    Loading them runs user code. So afterwards Python's own functions are restored, and the loaded names do not count as
    changes of the next statement. `keeper` makes the ValueKeeper at its first use. `let_go` ends unreachable handles.
    """

    def __init__(
        self,
        keeper: Callable[[], ValueKeeper],
        watch: NamespaceWatch,
        interrupts: Interrupts,
        python: OwnPython,
        let_go: Callable[[], None],
    ) -> None:
        self._make = keeper
        self._made: ValueKeeper | None = None
        self._watch = watch
        self._interrupts = interrupts
        self._python = python
        self._let_go = let_go

    def answer(self, request: Preserve | Collect | SetValues) -> Pickled | ValuesSet:
        """Return the reply."""
        keeper = self._keeper()
        match request:
            case Preserve(large=large):
                self._interrupts.install()
                return keeper.preserve(large)
            case Collect():
                return keeper.collect()
            case SetValues(groups=groups, delete=delete):
                return ValuesSet(self._set(keeper, groups, delete))

    def kept(self, execution_id: str) -> Kept:
        """Pickle the small changed values of an execution. A late interrupt leaves the rest for `Preserve`."""
        self._interrupts.install()
        groups, unkept, left = self._keeper().preserve_at_once()
        return Kept(execution_id=execution_id, groups=groups, unkept=unkept, left=left)

    def _keeper(self) -> ValueKeeper:
        if self._made is None:
            self._made = self._make()
        return self._made

    def put(self, groups: Sequence[ValueGroup], delete: Sequence[str]) -> dict[str, str]:
        """Set and delete names; return the failed names with their reasons."""
        return self._set(self._keeper(), groups, delete)

    def take_place(self) -> None:
        """Continue in a copy of the worker: its children belong to the original."""
        if self._made is not None:
            self._made.leave_children()

    def settle(self, anew: Iterable[str], values: Iterable[object]) -> None:
        """End a replay with these values. All changes are already kept, apart from the names in `anew`."""
        self._watch.changed(anew)
        made = [value for value in tuple(values) if issubclass(type(value), type)]
        if made:
            self._keeper().made_again(made)

    def _set(self, keeper: ValueKeeper, groups: Sequence[ValueGroup], delete: Sequence[str]) -> dict[str, str]:
        self._interrupts.install()
        try:
            self._watch.before_setting(name for group in groups for name in group.names)
            failures = keeper.put(groups, delete)
            with suppress(BaseException), self._interrupts.armed():
                self._watch.after()
            with suppress(BaseException), self._interrupts.armed():
                self._let_go()
        finally:
            self._python.take_over()
        return failures


# --- the loop ---------------------------------------------------------------------------------------------------------


def serve(
    transport: Transport,
    answer: Callable[[Request], FromWorker | None],
    kept: Callable[[str], Kept],
    snapshot: Callable[[], Started | None],
    layers: tuple[Layer, ...] = (),
) -> NoReturn:
    """Send Started and answer one request after another; `transport.receive` ends the loop.

    `layers` are the active sandbox layers. A message of `snapshot` comes from a copy of this process, for the host.
    """
    transport.send(Started(layers))
    while True:
        request = transport.receive()
        # Late answers to interrupted questions, and a late `OutputTaken` of a replay that is over.
        if isinstance(request, Snapshot):
            if (started := snapshot()) is not None:
                transport.send(started)
        elif not isinstance(request, Answer | BufferTexts | HiddenLines | Noted | Stopping | OutputTaken):
            _reply(transport, request, answer)
        if isinstance(request, Run) and request.keeps:
            # After the reply, which the host records meanwhile.
            transport.send(_kept(request.execution_id, kept))


def _kept(execution_id: str, kept: Callable[[str], Kept]) -> Kept:
    try:
        return kept(execution_id)
    except Exception:
        return Kept(execution_id=execution_id, left=True)  # then the host requests them, and learns of the failure


def _reply(transport: Transport, request: Request, answer: Callable[[Request], FromWorker | None]) -> None:
    try:
        reply = answer(request)
    except Exception as error:
        reply = Failed(_reason(error))
    if reply is None:
        return
    try:
        transport.send(reply)
    except FrameTooLargeError as error:
        transport.send(_without_record(reply, error) if isinstance(reply, Ran) else Failed(_reason(error)))


def _without_record(ran: Ran, error: FrameTooLargeError) -> Ran:
    """Replace a record that is too long to be sent. What its nodes saw stays, because a rebuild needs it."""
    lost = ExceptionInfo(type="RecordError", message=f"the statement's record was lost: {_reason(error)}")
    events = events_of(ran.events, RevisionAdopted, ContentsAdopted)
    return Ran(execution_id=ran.execution_id, status="error", exception=lost, events=events)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
