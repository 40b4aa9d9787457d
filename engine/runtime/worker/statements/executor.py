"""Runs one statement in the namespace, in phases, each of which an interrupt may end.

Owns compiling, displaying the trailing expression, and the order of the phases. Whatever user code raises becomes part
of the result. Must not know the host or the nodes. Called by `interpreter`.
"""

from __future__ import annotations

import ast
import mmap
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import CodeType
from typing import Final, Literal, cast

from ....core.execution import ExceptionInfo, NamespaceDiff
from ....core.text import cut_middle
from ..interrupts import Interrupts
from ..namespaces.namespace import NamespaceWatch
from ..processes import own_process
from .failures import describe_failure
from .own_python import OwnPython
from .source_lines import SourceLines
from .value_text import value_text

VALUE_LIMIT: Final = 16384
"""Characters of a displayed value."""
_RESERVE_BYTES: Final = 4 << 20
"""Nothing writes to it, so it takes none of the machine's memory."""


@dataclass(slots=True)
class Result:
    """What the phases have found out so far."""

    value: str | None = None
    exception: ExceptionInfo | None = None
    time_ms: float = 0.0
    diff: NamespaceDiff = field(default_factory=NamespaceDiff)

    @property
    def status(self) -> Literal["ok", "error"]:
        return "ok" if self.exception is None else "error"


class Executor:
    """The namespace with what is needed to run statements in it. `flush` follows the flush of Python's own streams.

    `python` is what our own code runs on, and statements may replace. `settle` does what a statement has left to its
    end, and returns what went wrong with that. `let_go` ends what the statement has left unreachable. `advise` is
    called with what a statement has raised, before that is put into words.
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
        """Memory that is given back when a statement has used up all, so that the next one can free some."""

    def run(self, source: str, label: str, *, traced: bool = True) -> Result:
        """Runs the statement; tracebacks call it `label`. Never raises for what user code does.

        An exception has a traceback only if it is `traced`.
        """
        result = Result()
        if self._reserve is None:
            with suppress(OSError):
                self._reserve = mmap.mmap(-1, _RESERVE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._lines.show(source, label)
        # Order matters: displaying may write files, the diff sees what displaying did and which names hold what, and
        # streams are flushed when no user code can follow.
        phases: tuple[Callable[[], None], ...] = (
            lambda: self._execute(source, label, result),
            lambda: self._settle_files(result),
            lambda: self._compare(result),
            self._let_go,
        )
        for phase in phases:
            self._guard(phase, result, traced)
        # What the diff called, a repr or a reduction, was a statement's code too.
        self._python.take_over()
        # An interrupt may have ended it before all values were examined; their names are in the difference.
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
                    # An interrupt may have ended the first time.
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
            result.value = None if value is None else cut_middle(value_text(value), VALUE_LIMIT)
        finally:
            result.time_ms = (time.perf_counter_ns() - started) / 1e6

    def _evaluate(self, body: CodeType | None, tail: CodeType | None) -> object:
        # Looked up ahead, because from then on the builtins are the statements'.
        run, evaluate = exec, eval
        self._python.give_back()
        try:
            if body is not None:
                run(body, self._namespace)
            return None if tail is None else evaluate(tail, self._namespace)
        finally:
            self._python.take_over()

    def _compile(self, source: str, label: str) -> tuple[CodeType | None, CodeType | None]:
        # Not by `ast.parse`, whose frame would be in the traceback of what is no Python.
        tree = cast("ast.Module", compile(source, label, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
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
        """A process that the statement forked, and that came back here, must not go on as a second worker."""
        if own_process.is_own():
            return
        with suppress(BaseException):
            if error is not None:
                sys.stderr.write(describe_failure(error).traceback)
            self._flush()
        os._exit(0 if error is None else 1)

    def _flush(self) -> None:
        # A statement may have closed or replaced any of them.
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
