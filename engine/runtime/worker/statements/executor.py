"""Runs one statement in the namespace, in phases, each of which an interrupt may end; or a stretch of a history.

`Executor` compiles the source, displays a trailing expression, and keeps the order of the phases. Exceptions of user
code become part of the result. `OwnPython` restores what a statement replaced in Python and our own code needs.

`Rerun` runs a stretch of a history without the host, as long as results match. Each statement is compared with its
record here, by the function that the host would use. The host gets the first one that differs and reports the
difference. It also gets one that has written output, which only the host can read. A statement that the guard stopped
always differs. Then no decision is needed: the differing names are set from its copies, if those were sent. An
interrupt ends the stretch with its statement, even if that catches it, because the host decides whether it was stopped.

Must not know the host or the nodes. Used by the interpreter.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import mmap
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from types import CodeType, ModuleType
from typing import Final, Literal, NamedTuple, Protocol, cast

import xxhash

from ....core.execution import Ending, ExceptionInfo, NamespaceDiff
from ....core.text import cut_middle
from ....log.comparison import bound_names, differences
from ....log.events import Event
from ....log.past import ValueGroup
from ...system import own_process
from ..framing import to_step
from ..handles.states import BoardReport
from ..interrupts import Interrupts
from ..namespace import NamespaceWatch
from ..protocol import (
    Began,
    BroughtBack,
    Content,
    FromWorker,
    Known,
    Ran,
    Repeat,
    Replay,
    Replayed,
    Run,
    ShownPicture,
    Tick,
)
from ..writes.touching import Noticed
from .effects import Transport
from .output import SourceLines, describe_failure, value_text
from .rich import rich_form

_PARSER_TRIES: Final = 5
_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
"""`signal.alarm` is the first of them."""
_USED: Final[dict[ModuleType, tuple[str, ...]]] = {
    builtins: tuple(name for name in vars(builtins) if name != "_"),
    ast: ("parse", "walk", "Expr", "Expression", "Name", "Constant", "Load"),
    linecache: ("cache", "getline", "getlines", "checkcache"),
    os: tuple(name for name in (
        "path", "getpid", "stat", "lstat", "fstat", "open", "close", "read", "dup2", "listdir", "set_inheritable",
        "waitid", "_exit", "fspath", "fsdecode", "fsencode", "pread", "readlink", "access",
        "fstatvfs", "fork", "memfd_create", "pidfd_open", "pwrite", "waitpid", "getppid", "closerange", "setsid",
    ) if name in vars(os)),
    pickle: ("Pickler", "dumps"),
    signal: ("signal", "setitimer", "getsignal", "set_wakeup_fd", "valid_signals"),
    sys: ("modules", "_getframe", "exc_info"),
    threading: ("get_ident", "current_thread", "main_thread", "Lock"),
    time: ("time", "perf_counter_ns", "monotonic"),
    traceback: ("TracebackException", "StackSummary"),
}  # fmt: skip
"""At least two names of each module, because `itemgetter` returns no tuple for one."""
_MISSING: Final = object()
# Bound here, because statements may have replaced the builtins when these are used.
_zip: Final = zip
_Anything: Final = BaseException
VALUE_LIMIT: Final = 16384
"""Characters of a displayed value."""
_PLAIN: Final = frozenset((bool, int, float, complex, str, bytes, dict, set, frozenset, range))
"""Kinds of value without a rich form."""
_RESERVE_BYTES: Final = 4 << 20
"""Never written, so it takes no physical memory."""


class Executor:
    """Runs statements in a namespace.

    Args:
        flush: called after Python's own streams are flushed.
        python: the parts of Python that our code needs and statements may replace.
        settle: finishes work that a statement deferred to its end; returns the failures.
        let_go: ends objects that the statement left unreachable.
        advise: called with a statement's exception, before it is formatted.
    """

    def __init__(
        self,
        namespace: dict[str, object],
        watch: NamespaceWatch,
        interrupts: Interrupts,
        flush: Callable[[], None],
        python: OwnPython,
        settle: Callable[[], list[BaseException]],
        let_go: Callable[[], None],
        advise: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._namespace = namespace
        self._lines = SourceLines()
        self._python = python
        self._watch = watch
        self._interrupts = interrupts
        self._flush_more = flush
        self._settle = settle
        self._let_go = let_go
        self._advise = advise
        self._reserve: mmap.mmap | None = None
        """A memory reserve, released if a statement uses up all memory, so that the next one can free some."""

    def run(self, source: str, label: str, *, traced: bool = True) -> Result:
        """Run the statement, `label` in tracebacks. Never raises for user code.

        An exception has a traceback only if it is `traced`.
        """
        result = Result()
        if self._reserve is None:
            with suppress(OSError):
                self._reserve = mmap.mmap(-1, _RESERVE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._lines.show(source, label)
        # The order matters: displaying may write files and change names, which the diff must see; streams are flushed
        # when no more user code can run.
        phases: tuple[Callable[[], None], ...] = (
            lambda: self._execute(source, label, result),
            lambda: self._settle_files(result),
            lambda: self._compare(result),
            self._let_go,
        )
        for phase in phases:
            self._guard(phase, result, traced)
        # Because reprs and reductions that the diff called are user code too.
        self._python.take_over()
        # An interrupt may have ended the examination early; the diff names the rest.
        result.diff = self._watch.ended()
        self._flush()
        return result

    def _guard(self, phase: Callable[[], None], result: Result, traced: bool) -> None:
        done = False
        try:
            try:
                with self._interrupts.armed():
                    phase()
                done = True
            finally:
                if not done:
                    # Because an interrupt may have ended the first attempt.
                    self._python.take_over()
        except BaseException as error:
            if isinstance(error, MemoryError) and self._reserve is not None:
                self._reserve.close()
                self._reserve = None
            self._leave_if_forked(error)
            if result.exception is None:
                result.exception = self._described(error, traced)
        else:
            self._leave_if_forked(None)

    def _execute(self, source: str, label: str, result: Result) -> None:
        started = time.perf_counter_ns()
        try:
            body, tail = self._compile(source, label)
            value = self._evaluate(body, tail)
            if value is not None:
                self._display(value, result)
        finally:
            result.time_ms = (time.perf_counter_ns() - started) / 1e6

    def _display(self, value: object, result: Result) -> None:
        result.value = cut_middle(value_text(value), VALUE_LIMIT)
        if type(value) in _PLAIN:
            return
        form = rich_form(value)
        if form.note:
            result.value = f"{result.value}\n{form.note}"
        result.markdown = form.markdown
        if form.picture:
            others = (ShownPicture(media_type, data) for media_type, data in form.others)
            result.pictures = (ShownPicture(form.media_type, form.picture, form.name, form.pixels), *others)

    def _evaluate(self, body: CodeType | None, tail: CodeType | None) -> object:
        # Looked up first, because the builtins belong to the statement from then on.
        run, evaluate = exec, eval
        self._python.give_back()
        try:
            if body is not None:
                run(body, self._namespace)
            return None if tail is None else evaluate(tail, self._namespace)
        finally:
            self._python.take_over()

    def _compile(self, source: str, label: str) -> tuple[CodeType | None, CodeType | None]:
        tree = None
        for _ in range(_PARSER_TRIES):
            # Not with `ast.parse`, whose frame would be in the traceback of a syntax error.
            with suppress(SystemError):  # of another thread that parses, see `core.python_source`
                tree = cast("ast.Module", compile(source, label, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
                break
        if tree is None:
            raise SystemError("the statement could not be parsed while other threads were parsing; run it again")
        self._watch.before(tree)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        body = compile(tree, label, "exec", dont_inherit=True) if tree.body else None
        tail = (
            compile(ast.Expression(last.value), label, "eval", dont_inherit=True)
            if isinstance(last, ast.Expr)
            else None
        )
        self._lines.compiled(*(code for code in (body, tail) if code is not None))
        return body, tail

    def _settle_files(self, result: Result) -> None:
        first, *others = self._settle() or [None]
        if first is not None and result.exception is not None:
            others.insert(0, first)
        for error in others:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        if first is not None and result.exception is None:
            raise first

    def _compare(self, result: Result) -> None:
        result.diff = self._watch.after()

    def _leave_if_forked(self, error: BaseException | None) -> None:
        """Exit in a process that the statement forked, because it must not continue as a second worker."""
        if own_process.is_own():
            return
        with suppress(BaseException):
            if error is not None:
                sys.stderr.write(describe_failure(error).traceback)
            self._flush()
        os._exit(0 if error is None else 1)

    def _flush(self) -> None:
        # Because a statement may have closed or replaced any of them.
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()
        self._flush_more()

    def _described(self, error: BaseException, traced: bool) -> ExceptionInfo:
        try:
            with self._interrupts.armed():
                if self._advise is not None:
                    self._advise(error)
                return describe_failure(error, traced=traced)
        except BaseException as failure:
            return ExceptionInfo(type=type(error).__name__, message=f"<describing it raised {type(failure).__name__}>")


@dataclass(slots=True)
class Result:
    """The results of the phases so far."""

    value: str | None = None
    markdown: str = ""
    pictures: tuple[ShownPicture, ...] = ()
    exception: ExceptionInfo | None = None
    time_ms: float = 0.0
    diff: NamespaceDiff = field(default_factory=NamespaceDiff)

    @property
    def status(self) -> Literal["ok", "error"]:
        return "ok" if self.exception is None else "error"


class OwnPython:
    """The objects of the given modules when this is made, to be restored after statements."""

    def __init__(self, modules: dict[ModuleType, tuple[str, ...]]) -> None:
        self._places = [
            _Place(vars(module), names, tuple(vars(module)[name] for name in names), itemgetter(*names))
            for module, names in modules.items()
        ]
        self._limit = sys.getrecursionlimit()
        self._theirs: list[tuple[dict[str, object], str, object]] = []
        self._their_limit = 0

    @classmethod
    def of_this_process(cls) -> OwnPython:
        """Everything that a worker's own code needs, as it is now."""
        return cls(_USED)

    @classmethod
    def of_nobody(cls) -> OwnPython:
        """Nothing, for a process that also runs other code, which may replace anything."""
        return cls({})

    def take_over(self) -> None:
        """After a statement: restore what it replaced. O(watched objects), in C if nothing was replaced."""
        for place in self._places:
            try:
                # Tuples compare by identity first. A replacement that claims to be equal goes unnoticed.
                if place.look(place.names) == place.own:
                    continue
            except _Anything:
                pass  # because a name was deleted, or a replacement cannot be compared
            self._put_back(place)
        if self._places and sys.getrecursionlimit() < self._limit:
            self._their_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(self._limit)

    def _put_back(self, place: _Place) -> None:
        for name, own in _zip(place.watched, place.own):
            theirs = place.names.get(name, _MISSING)
            if theirs is not own:
                self._theirs.append((place.names, name, theirs))
                place.names[name] = own

    def give_back(self) -> None:
        """Before a statement: give it the replacements of the earlier ones."""
        theirs, self._theirs = self._theirs, []
        for place, name, value in theirs:
            if value is _MISSING:
                place.pop(name, None)
            else:
                place[name] = value
        if self._their_limit:
            limit, self._their_limit = self._their_limit, 0
            # The limit may be too low for the current depth.
            with suppress(RecursionError):
                sys.setrecursionlimit(limit)


def turn_off() -> tuple[str, ...]:
    """Turn off alarms; return a phrase for each."""
    phrases: list[str] = []
    # Because a handler may run in between, and raise anything.
    with suppress(Exception):
        for timer in _TIMERS:
            seconds, interval = signal.setitimer(timer, 0)
            if seconds or interval:
                phrases.append(f"left an alarm due in {seconds:.1f} s, which was turned off")
    return tuple(phrases)


@dataclass(frozen=True, slots=True)
class Executed:
    """A statement that has run, with the reports of its nodes and the guard. `rebound` are injected names."""

    result: Result
    report: BoardReport
    stops: tuple[str, ...]
    noticed: Noticed
    rebound: tuple[Event, ...]


# --- a stretch of a history -------------------------------------------------------------------------------------------


class Rerun:
    """Runs the steps of a `Replay`."""

    def __init__(self, runner: Runner, transport: Transport, interrupts: Interrupts, output: Output) -> None:
        self._runner = runner
        self._transport = transport
        self._interrupts = interrupts
        self._output = output

    def conduct(self, request: Replay) -> Ran | Replayed:
        """Perform the request; return the answer."""
        self._output.begin()
        for content in request.contents:
            self._runner.answer(content)
        for number, packed in enumerate(request.steps):
            step = to_step(packed)
            if not isinstance(step, Repeat):
                self._runner.answer(step)
                continue
            ran = self._repeat(number, step)
            if ran is not None:
                return ran
            if self._interrupts.came:
                return Replayed(number + 1)
        return Replayed(len(request.steps))

    def _repeat(self, number: int, step: Repeat) -> Ran | None:
        """Run a step; return its record if the host must decide, else None."""
        self._transport.send(Began(number))
        executed = self._runner.execute(step.run)
        if not self._interrupts.came and self._output.silent and not _prints(step.record):
            came = _ending(executed, step.record)
            if not executed.stops and (step.record == came or not differences(step.record, came).phrases):
                return None
            if executed.stops and step.copies is not None and _has_bound_no_more(step.record, came):
                self._bring_back(number, step, step.copies, executed, came)
                return None
        return self._runner.ran(step.run, executed)

    def _bring_back(
        self, number: int, step: Repeat, copies: Sequence[ValueGroup], executed: Executed, came: Ending
    ) -> None:
        """Restore the differing names, and those that share objects with them, as `KeptValues` would."""
        wanted = frozenset(bound_names(step.record.diff)).difference(differences(step.record, came).same)
        groups = [group for group in copies if not wanted.isdisjoint(group.names)]
        failures: dict[str, str] = {}
        if groups or step.record.diff.deleted:
            self._transport.send(Began(number, loading=True))
            failures = self._runner.put(groups, step.record.diff.deleted)
        self._transport.send(BroughtBack(self._runner.ran(step.run, executed), failures))


class _Place(NamedTuple):
    """Names of one module with their original values, and a function that looks all of them up at once."""

    names: dict[str, object]
    watched: tuple[str, ...]
    own: tuple[object, ...]
    look: Callable[[dict[str, object]], tuple[object, ...]]


class Runner(Protocol):
    """The part of `interpreter.Interpreter` that is needed here."""

    def answer(self, request: Tick | Known | Content) -> FromWorker | None: ...
    def execute(self, request: Run) -> Executed: ...
    def ran(self, request: Run, executed: Executed) -> Ran: ...
    def put(self, groups: Sequence[ValueGroup], delete: Sequence[str]) -> dict[str, str]: ...


class Output(Protocol):
    """The output of statements."""

    def begin(self) -> None:
        """Begin a replay; the host has read all earlier output."""
        ...

    @property
    def silent(self) -> bool:
        """Whether the replay has written nothing."""
        ...


def _prints(record: Ending) -> bool:
    return bool(record.stdout.total_bytes or record.stderr.total_bytes)


def _ending(executed: Executed, record: Ending) -> Ending:
    """The ending of a statement without output, comparable with the recorded one."""
    result = executed.result
    return Ending(
        status=result.status,
        value=result.value,
        markdown=result.markdown,
        pictures=tuple(xxhash.xxh3_128_hexdigest(picture.data) for picture in result.pictures),
        exception=result.exception,
        stdout=record.stdout,  # because even empty output has a digest, which must be equal
        stderr=record.stderr,
        diff=result.diff,
    )


def _has_bound_no_more(record: Ending, came: Ending) -> bool:
    """Whether it touched only names of the record, because only these have copies here."""
    touched = {*bound_names(came.diff), *came.diff.deleted}
    return touched.issubset((*bound_names(record.diff), *record.diff.deleted))
