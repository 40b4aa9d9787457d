"""A stretch of a history, run again without a word from the host as long as it comes out as it was recorded.

Each statement is compared with its record where it ran, by the same function with which the host would (`divergence`).
The first that came out differently goes to the host, which names the difference and goes on from there, and so does one
that has written anything: what was written, only the host has read. A statement that was kept from an act always comes
out differently, and there is nothing to ask: the names that differ are set from its copies, if those came along.

An interrupt ends the stretch with the statement that it was meant for, also where that has caught it: whether it was
stopped is the host's to say. Must not know how a statement is run. Made by `interpreter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ....core.execution import Ending
from ....log.comparison import bound_names, differences
from ....log.past import ValueGroup
from ..framing import to_step
from ..interrupts import Interrupts
from ..protocol import Began, BroughtBack, Content, FromWorker, Known, Ran, Repeat, Replay, Replayed, Run, Tick
from .effects import Transport
from .executed import Executed


class Runner(Protocol):
    """`interpreter.Interpreter`, as far as it is needed here."""

    def answer(self, request: Tick | Known | Content) -> FromWorker | None: ...
    def execute(self, request: Run) -> Executed: ...
    def ran(self, request: Run, executed: Executed) -> Ran: ...
    def put(self, groups: Sequence[ValueGroup], delete: Sequence[str]) -> dict[str, str]: ...


class Output(Protocol):
    """Where statements write to."""

    def begin(self) -> None:
        """A replay begins, and the host has read all that was written before."""
        ...

    @property
    def silent(self) -> bool:
        """Whether nothing was written in the replay."""
        ...


class Rerun:
    """What goes through a `Replay`."""

    def __init__(self, runner: Runner, transport: Transport, interrupts: Interrupts, output: Output) -> None:
        self._runner = runner
        self._transport = transport
        self._interrupts = interrupts
        self._output = output

    def conduct(self, request: Replay) -> Ran | Replayed:
        """The answer to it."""
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
        """The statement's record, where the host has to look at it."""
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
        """Sets what the statement has left otherwise, and what shares objects with that, as `KeptValues` would."""
        wanted = frozenset(bound_names(step.record.diff)).difference(differences(step.record, came).same)
        groups = [group for group in copies if not wanted.isdisjoint(group.names)]
        failures: dict[str, str] = {}
        if groups or step.record.diff.deleted:
            self._transport.send(Began(number, loading=True))
            failures = self._runner.put(groups, step.record.diff.deleted)
        self._transport.send(BroughtBack(self._runner.ran(step.run, executed), failures))


def _prints(record: Ending) -> bool:
    return bool(record.stdout.total_bytes or record.stderr.total_bytes)


def _ending(executed: Executed, record: Ending) -> Ending:
    """What a statement came to that has written nothing, as the one of the record."""
    result = executed.result
    return Ending(
        status=result.status,
        value=result.value,
        exception=result.exception,
        stdout=record.stdout,  # an empty one has a digest, and the two are to be equal as they are
        stderr=record.stderr,
        diff=result.diff,
    )


def _has_bound_no_more(record: Ending, came: Ending) -> bool:
    """Whether it touched no names but those of the record, of which alone there are copies here."""
    touched = {*bound_names(came.diff), *came.diff.deleted}
    return touched.issubset((*bound_names(record.diff), *record.diff.deleted))
