"""Statements and their executions, as positions on the log: a session has many, and holds them for good.

What they hold is read from the log when it is asked for. Must not know which execution counts. Filled by `index`, read
by whoever asks for a statement.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, overload

from msgspec import Struct

from ..core.domain import Layer, is_inside
from ..core.ids import ExecutionId, Seq, StatementId, ToolCallId
from .event_log import Lookup, event_at
from .events import Event
from .events.conversation import ToolCall, ToolResult
from .events.execution import ExecutionFinished, ExecutionStarted, NamesRebound, StatementOmitted, StatementRecorded
from .events.going_back import Diverged, ReplayBegun, ReplayEnded
from .events.session import DomainEntered, PermissionAnswered, PermissionOutcome
from .facts import Provenance

NONE: Final = -1
"""In a column, where there is no position or number."""


class Columns:
    """Statements and executions, numbered as they came, without what the log has of them: some 40 bytes for each."""

    def __init__(self, at: Lookup) -> None:
        self.at = at
        self.recorded = array("q")
        """Of a statement, as the five that follow: where the log has it."""
        self.index = array("q")
        self.is_python = bytearray()
        self.asked = bytearray()
        self.first = array("q")
        """The number of its first execution, NONE for none."""
        self.current = array("q")
        """That of the execution which counts."""
        self.others: dict[int, list[int]] = {}
        """Its executions after the first, where there are any."""
        self.omitted: set[int] = set()
        self.begun = array("q")
        """Of an execution, as the one that follows: where the log has its beginning."""
        self.ended = array("q")
        """Where the log has its record, NONE for nowhere."""
        self.divergences: dict[int, tuple[Diverged, ...]] = {}

    def __len__(self) -> int:
        return len(self.recorded)

    def record(self, place: int, event: StatementRecorded, *, asked: bool) -> None:
        """Takes a statement, a new one or in the place of one that had the same id."""
        if place == len(self):
            for column in (self.recorded, self.index, self.first, self.current):
                column.append(NONE)
            for flags in (self.is_python, self.asked):
                flags.append(False)
        self.recorded[place], self.first[place], self.current[place] = event.seq, NONE, NONE
        self.index[place], self.is_python[place] = event.index, event.statement_kind == "python"
        self.asked[place] = asked
        self.others.pop(place, None)
        self.omitted.discard(place)

    def begin(self, place: int, event: ExecutionStarted) -> int:
        """Takes an execution of the statement. Returns its number."""
        number = len(self.begun)
        self.begun.append(event.seq)
        self.ended.append(NONE)
        if self.first[place] == NONE:
            self.first[place] = number
        else:
            self.others.setdefault(place, []).append(number)
        return number


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """One run of a statement, as it is by now: started, perhaps finished; and in what it came out otherwise than an
    earlier one. Equal to what began at the same place of the same log, whichever path was followed to it."""

    _columns: Columns
    _number: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Execution):
            return NotImplemented
        return self.begun == other.begun and self._columns.at == other._columns.at

    def __hash__(self) -> int:
        return hash(self.begun)

    @property
    def begun(self) -> Seq:
        """Where the log has its beginning."""
        return Seq(self._columns.begun[self._number])

    @property
    def ended(self) -> Seq | None:
        """Where the log has its record, once it has ended."""
        ended = self._columns.ended[self._number]
        return None if ended == NONE else Seq(ended)

    @property
    def divergences(self) -> tuple[Diverged, ...]:
        """What came out otherwise."""
        return self._columns.divergences.get(self._number, ())

    @property
    def started(self) -> ExecutionStarted:
        """Its beginning."""
        return event_at(self._columns.at, self.begun, ExecutionStarted)

    @property
    def finished(self) -> ExecutionFinished | None:
        """Its record, where it has ended."""
        return None if (ended := self.ended) is None else event_at(self._columns.at, ended, ExecutionFinished)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A statement with all its executions, as they are by now. Equal as executions are."""

    _columns: Columns
    _place: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cell):
            return NotImplemented
        return self.recorded == other.recorded and self._columns.at == other._columns.at

    def __hash__(self) -> int:
        return hash(self.recorded)

    @property
    def recorded(self) -> Seq:
        """Where the log has the statement."""
        return Seq(self._columns.recorded[self._place])

    @property
    def index(self) -> int:
        """The number of the statement."""
        return self._columns.index[self._place]

    @property
    def is_python(self) -> bool:
        """It is the user's or a model's, not what the session runs by itself."""
        return bool(self._columns.is_python[self._place])

    @property
    def asked(self) -> bool:
        """It was a model's call, so that the conversation has its result."""
        return bool(self._columns.asked[self._place])

    @property
    def omitted(self) -> bool:
        """The user left it out."""
        return self._place in self._columns.omitted

    @property
    def executions(self) -> tuple[Execution, ...]:
        """The first of them first."""
        columns = self._columns
        first = columns.first[self._place]
        numbers = () if first == NONE else (first, *columns.others.get(self._place, ()))
        return tuple(Execution(columns, number) for number in numbers)

    @property
    def current(self) -> Execution | None:
        """The execution that the namespace goes by: the latest that is no recorded or dry replay's, nor one of a live
        replay that did not come to its end."""
        number = self._columns.current[self._place]
        return None if number == NONE else Execution(self._columns, number)

    @property
    def statement(self) -> StatementRecorded:
        """What is to run."""
        return event_at(self._columns.at, self.recorded, StatementRecorded)

    @property
    def started(self) -> ExecutionStarted | None:
        """The beginning of `current`."""
        return None if (current := self.current) is None else current.started

    @property
    def finished(self) -> ExecutionFinished | None:
        """The record of `current`, where that has ended."""
        return None if (current := self.current) is None else current.finished


class Cells(Sequence[Cell]):
    """The first statements of a timeline: which they are does not change."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._length = len(columns)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Cell: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Cell]: ...

    def __getitem__(self, place: int | slice) -> Cell | Sequence[Cell]:
        found = range(self._length)[place]
        if isinstance(found, int):
            return Cell(self._columns, found)
        return tuple(Cell(self._columns, each) for each in found)


# index:
# The timeline as a read model: which statements there are, with all executions of each, and which of those counts.
#
# A fold over the log, which keeps positions: what they hold is read from the log when it is asked for. Used by the
# loop (numbers, parents), by every listing, and by read models that follow after it; `replay` has what a rebuild
# needs.


class Timeline:
    """Statements in order. `apply` is for the log alone, whose events `at` finds."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (
            ToolCall,
            ToolResult,
            StatementRecorded,
            ExecutionStarted,
            ExecutionFinished,
            StatementOmitted,
            NamesRebound,
            ReplayBegun,
            Diverged,
            ReplayEnded,
        )
    )

    def __init__(self, at: Lookup) -> None:
        self.at = at
        """For read models that follow after it and keep positions, too."""
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._calls: set[ToolCallId] = set()
        """The model's, as long as they have no statement."""
        self._columns = Columns(self.at)
        self._places: dict[StatementId, int] = {}
        """Of statements in the columns."""
        self._under_way: dict[ExecutionId, tuple[int, int]] = {}
        """The executions that have no record yet, as the place of the statement and their own number."""
        self._last_execution: ExecutionId | None = None
        self._replay: ReplayBegun | None = None
        self._before: dict[int, int] = {}
        """What counted of the statements that a live replay has run again so far."""
        self._last_before: ExecutionId | None = None
        self._names: set[str] = set()
        self._rebound: set[str] = set()

    def apply(self, event: Event) -> None:
        match event:
            case ToolCall(parent_id=None, tool_call_id=call):
                self._calls.add(call)
            case ToolResult(tool_call_id=call):
                self._calls.discard(call)
            case StatementRecorded():
                self._record(event)
            case ExecutionStarted():
                self._start(event)
            case ExecutionFinished():
                self._finish(event)
            case StatementOmitted(statement_id=statement_id, omitted=omitted):
                if (place := self._places.get(statement_id)) is not None:
                    (self._columns.omitted.add if omitted else self._columns.omitted.discard)(place)
            case NamesRebound(names=names):
                self._rebound.update(names)
            case _:
                self._apply_to_replay(event)

    def _apply_to_replay(self, event: Event) -> None:
        match event:
            case ReplayBegun():
                self._replay, self._last_before = event, self._last_execution
            case Diverged(execution_id=execution_id) if execution_id in self._under_way:
                _, number = self._under_way[execution_id]
                divergences = self._columns.divergences
                divergences[number] = (*divergences.get(number, ()), event)
            case ReplayEnded():
                self._end_replay(event)
            case _:
                pass

    def _record(self, event: StatementRecorded) -> None:
        place = self._places.get(event.statement_id)
        if place is None:
            place = self._places[event.statement_id] = len(self._columns)
        self._columns.record(place, event, asked=event.tool_call_id in self._calls)
        self._calls.discard(event.tool_call_id)

    def _start(self, event: ExecutionStarted) -> None:
        place = self._places.get(event.statement_id)
        if place is None:
            return
        number = self._columns.begin(place, event)
        self._under_way[event.execution_id] = place, number
        if event.counts:
            if self._replay is not None:
                self._before.setdefault(place, self._columns.current[place])
            self._columns.current[place] = number
            self._last_execution = event.execution_id

    def _finish(self, event: ExecutionFinished) -> None:
        place, number = self._under_way.pop(event.execution_id, (NONE, NONE))
        if place == NONE:
            return
        self._columns.ended[number] = event.seq
        if event.counts and self._columns.is_python[place]:
            self._names.update(event.diff.added, event.diff.changed)

    def _end_replay(self, event: ReplayEnded) -> None:
        if event.outcome != "completed":
            for place, number in self._before.items():
                self._columns.current[place] = number
            self._last_execution = self._last_before
        self._replay = None
        self._before.clear()

    @property
    def cells(self) -> Sequence[Cell]:
        """Every statement of the branch by now, oldest first. O(1)."""
        return Cells(self._columns)

    def cell(self, statement_id: StatementId) -> Cell | None:
        """The statement of that id, None where the log has none."""
        place = self._places.get(statement_id)
        return None if place is None else Cell(self._columns, place)

    @property
    def replay(self) -> ReplayBegun | None:
        """The replay that is under way."""
        return self._replay

    @property
    def next_index(self) -> int:
        """The number of the next statement, counted from 1."""
        return len(self._columns) + 1

    @property
    def names(self) -> Collection[str]:
        """Every name that a statement of the user's or a model's has bound so far."""
        return frozenset(self._names)

    @property
    def rebound(self) -> Collection[str]:
        """The injected names that a statement has ever bound to something else, given back since or not."""
        return frozenset(self._rebound)

    @property
    def last_statement(self) -> StatementId | None:
        return next(reversed(self._places), None)

    @property
    def last_execution(self) -> ExecutionId | None:
        return self._last_execution


# domains:
# With which rights the statements of a path have run, and whether they may run again with others: a fold.
#
# A rebuild runs statements again and loads what they left, which runs their code too. What was refused to a statement
# then must not be done by that: with more rights than it had, it runs again only where the user has agreed.
# `DomainEntered` says from where on which rights held, and the answer to its question whether all that came before
# may run with them. A log that was imported may say anything; to what it has run nothing was allowed here. Statements
# from before a first `DomainEntered` had the user's own rights, so they may run again with any. Pure. Used by
# `replay`, `session.confining`.


class Rights(Struct, frozen=True):
    """What statements may do outside beside what they ask for: nothing is in their way, or where they may write.

    `writable` are absolute, without the scratch directory, which every session has of its own. `bare`: metadata of
    files is not held, wherever they are. It `lacks` these parts of the layers; None: whatever a kernel lacks, which is
    what there is to say of statements of others and of logs that do not say it.
    """

    held: bool = True
    writable: tuple[str, ...] = ()
    network: bool = False
    bare: bool = False
    lacks: tuple[Layer, ...] | None = None

    def within(self, other: Rights) -> bool:
        """Whether they allow nothing that `other` does not allow."""
        if not other.held:
            return True
        places = all(is_inside(path, other.writable) for path in self.writable)
        parts = other.lacks is None or set(self.lacks or ()) <= set(other.lacks)
        return self.held and places and parts and self.network <= other.network and self.bare <= other.bare


UNHELD: Final = Rights(held=False)
"""The user's own."""
LEAST: Final = Rights()
"""Those of the modes `ask` and `plan`, without a network."""
_DECIDED: Final = ("allowed", "rejected")


class Domains:
    """The rights along the active path. `provenance` follows the same log. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((DomainEntered, PermissionAnswered))

    def __init__(self, provenance: Provenance) -> None:
        self._provenance = provenance
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._entered: list[DomainEntered] = []
        self._answers: dict[ToolCallId, PermissionOutcome] = {}

    def apply(self, event: Event) -> None:
        match event:
            case DomainEntered():
                self._entered.append(event)
            case PermissionAnswered(tool_call_id=call, outcome=outcome) if self._entered:
                if call == self._entered[-1].call:
                    self._answers[call] = outcome
            case _:
                pass

    @property
    def latest(self) -> DomainEntered | None:
        """What was entered last, here; None where nothing was yet."""
        here = bool(self._entered) and self._entered[-1].seq > self._provenance.imported_at
        return self._entered[-1] if here else None

    @property
    def asks(self) -> bool:
        """Whether a question is open: what was entered last has more rights than statements had, and nobody has said
        whether these may run again with them."""
        latest = self.latest
        return latest is not None and bool(latest.statements) and self._answers.get(latest.call) not in _DECIDED

    def allows(self, seq: int, rights: Rights) -> bool:
        """Whether what ran at that position may run again with these rights."""
        return any(map(rights.within, self.given_to(seq)))

    def ran_with(self, seq: int) -> Rights | None:
        """The rights that what is at that position of the path had when it ran; None where it was imported."""
        return None if seq <= self._provenance.imported_at else next(self.given_to(seq))

    def given_to(self, seq: int) -> Iterator[Rights]:
        """The rights that were given to what ran at that position of the path: when it ran, and by the user since."""
        imported = self._provenance.imported_at
        before = [event for event in self._entered if imported < event.seq < seq]
        if seq <= imported:
            yield LEAST
        else:
            yield rights_of(before[-1]) if before else UNHELD
        for event in self._entered:
            if event.seq > max(seq, imported) and self._answers.get(event.call) == "allowed":
                yield rights_of(event)


def rights_of(event: DomainEntered) -> Rights:
    """What the event says was entered."""
    return Rights(held=event.held, writable=event.writable, network=event.network, bare=event.bare, lacks=event.lacks)
