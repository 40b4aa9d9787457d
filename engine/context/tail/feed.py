"""The news of a tail: what the model has not read yet, each thing once.

`LogNews` is the fold over a path of events that the session's projector reads; the worker renders it. Its largest part
is `Feed`: what ticks changed, failures that no result in the View tells, rebuilds and their differences. An item is new
until a call that carried it began to answer (`log.facts.Readings`). Items about one thing are one item: a statement
that ran again twice differs from what it was at first. A replay that was only a report, or was cut short, leaves none.

A tail is never part of the View, so changes of a handle's source stay listed once they are read. The worker decides
which of them still tell something, and replaces their texts by the net change (`runtime.worker.handles.states`).

Bounded: beyond the limits the oldest items are only counted. Names, tokens and budgets are the worker's (`sections`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar, Final, Generic, TypeVar

from msgspec.structs import replace

from ...core.execution import Display, ReplayMode
from ...core.ids import Seq
from ...core.text import cut_line, legible_line, plural
from ...files.tails import Expansion, FeedItem, News
from ...log.event_log import event_at
from ...log.events import Event
from ...log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ...log.events.going_back import Diverged, HeadMoved, ReplayBegun, ReplayEnded, Rewound
from ...log.events.nodes import GroupRecomputed, MethodCalled, NodeChanged, NodeMade
from ...log.events.session import (
    DomainEntered,
    EnvironmentRestored,
    GuidanceChanged,
    PlanEntry,
    PlanStatus,
    ServerConnected,
    ServerLost,
    WorkStopped,
)
from ...log.facts import READING, CurrentPlan, Readings
from ...log.file_history import rewound_lines
from ...log.timeline import Timeline
from .past_statements import PastStatements
from .rights import entered_sentence
from .standing import Standing

KEPT_ITEMS: Final = 256
KEPT_HANDLES: Final = 64
"""Number of handles whose changes stay listed."""
KEPT_EXPANSIONS: Final = 64
_FOLLOWED: Final = frozenset(
    (
        ExecutionFinished,
        NodeChanged,
        GroupRecomputed,
        WorkStopped,
        DomainEntered,
        EnvironmentRestored,
        Diverged,
        ReplayBegun,
        ReplayEnded,
        ServerConnected,
        ServerLost,
        Rewound,
        HeadMoved,
        GuidanceChanged,
    )
)
_FAILED: Final = FeedItem("", "")
"""Replaces the failure of a statement, which is read from the log when it is reported."""
REBUILT: Final = "rebuilt in a new worker"
DIFFERED: Final = "ran again with a different result"
_LONGEST_SOURCE: Final = 80
_LONGEST_REASON: Final = 300
_LONGEST_ENTRY: Final = 200
_T = TypeVar("_T")


class Feed:
    """The new items, oldest first. Only the log calls `apply` and `reset`.

    `timeline` follows the same path, and gets each event first.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """Start again: another path follows, from its first event."""
        self._readings = Readings()
        self._items: _Unread[FeedItem | Diverged] = _Unread(KEPT_ITEMS)
        self._earlier: OrderedDict[str, FeedItem] = OrderedDict()
        self._expansions: _Unread[Expansion] = _Unread(KEPT_EXPANSIONS)
        self._replay: ReplayMode | None = None
        """The mode of the replay that runs."""
        self._set_aside: list[Event] = []
        """What a live replay did so far, which counts once it has completed."""
        self._is_rebuild_known = False
        """Whether the model learns of the next rebuild from its cause, or had no reason to be told."""
        self.position = 0
        """Number of events so far."""

    def apply(self, event: Event) -> None:
        self.position = event.seq + 1
        kind = type(event)
        if kind in READING:
            count = self._readings.count
            self._readings.apply(event)
            if self._readings.count > count:
                self._take_read()
        # By kind first: a log has hundreds of thousands of events, and most are of these kinds.
        if kind in _FOLLOWED:
            self._follow(event)

    def _follow(self, event: Event) -> None:
        match event:
            case ReplayBegun(mode=mode):
                self._replay, self._set_aside, self._is_rebuild_known = mode, [], True
            case ReplayEnded(outcome=outcome):
                done, self._replay, self._set_aside = self._set_aside, None, []
                for each in done if outcome == "completed" else ():
                    self._tell(each)
            case ExecutionFinished() | Diverged() if self._replay is not None:
                if self._replay == "live":
                    self._set_aside.append(event)
            case _:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        match event:
            case ExecutionFinished():
                self._finish(event)
            case Diverged(statement=statement, aspect=aspect):
                self._diverge(("ran again", statement, aspect), event)
            case EnvironmentRestored():
                self._restore(event)
            case _:
                self._is_rebuild_known |= isinstance(event, HeadMoved)
                for item in changes_of(event):
                    self._items.add(event.seq, item, _subject(event) or _said(item))

    @property
    def news(self) -> News:
        """Return the items that the next call has to carry."""
        return News(
            items=tuple(self._told(seq, item) for seq, item in self._items.placed),
            left_out=self._items.left_out,
            earlier=tuple(self._earlier.values()),
            expansions=self._expansions.kept,
            expansions_left_out=self._expansions.left_out,
        )

    def _told(self, seq: int, item: FeedItem | Diverged) -> FeedItem:
        if isinstance(item, Diverged):
            return FeedItem("", diverged_sentence(item))
        if item is not _FAILED:
            return item
        finished = event_at(self._timeline.at, Seq(seq), ExecutionFinished)
        cell = self._timeline.cell(finished.statement_id)
        assert cell is not None  # it existed when this item was noted
        return FeedItem("", _failure(cell.statement, finished))

    def _take_read(self) -> None:
        self._expansions.take(self._readings.until)
        for item in self._items.take(self._readings.until):
            if isinstance(item, FeedItem) and item.is_source:
                self._earlier[item.obj_id] = item
                self._earlier.move_to_end(item.obj_id)
                if len(self._earlier) > KEPT_HANDLES:
                    self._earlier.popitem(last=False)

    def _finish(self, event: ExecutionFinished) -> None:
        if event.mode is None:
            self._is_rebuild_known = False
        cell = self._timeline.cell(event.statement_id)
        if cell is None or cell.asked or not event.counts:  # the View has the result of a model's statement
            return
        key = ("failed", event.statement_id)
        if event.status == "ok":
            self._items.drop(key)
        elif event.mode is None:  # what a replay changed in that is a difference
            self._items.add(event.seq, _FAILED, key)
        # Statements that the session runs open attachments, which the model reads if it wants to.
        if cell.is_python and event.mode is None:
            for each in map(_expansion, event.displays):
                self._expansions.add(event.seq, each, each)

    def _diverge(self, key: tuple[str, int, str], event: Diverged) -> None:
        known = self._items.drop(key)
        if isinstance(known, Diverged):
            event = replace(event, before=known.before)
        if event.before != event.after:
            self._items.add(event.seq, event, key)

    def _restore(self, event: EnvironmentRestored) -> None:
        is_known, self._is_rebuild_known = self._is_rebuild_known, self._replay is not None
        for sentence in told_of_rebuild(event):
            item = FeedItem("", sentence)
            self._items.add(event.seq, item, _said(item))
        if not is_known:
            noun = plural(event.executions, "statement")
            text = f"{REBUILT}: {event.executions} {noun} ran again"
            self._items.add(event.seq, FeedItem("", text), ("rebuilt",))


def _subject(event: Event) -> Hashable:
    """Return what the items of an event are about, if a later event about it replaces them; None otherwise."""
    match event:
        case HeadMoved(left=left):
            return "head", left
        case DomainEntered():
            return ("rights",)
        case ServerConnected(module=module) | ServerLost(module=module):
            return "server", module
        case _:
            return None


def _said(item: FeedItem) -> Hashable:
    """Return the key of an item about no handle, which is told once, however often it happened; None for others."""
    return None if item.obj_id else ("said", item.text)


class _Unread(Generic[_T]):
    """Items until they are read, oldest first. Beyond `most` the oldest are only counted.

    An item replaces an earlier one with the same key.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: OrderedDict[Hashable, tuple[int, _T]] = OrderedDict()
        self._added = 0
        self._left_out = array("q")
        """Positions of the items that are only counted."""

    @property
    def placed(self) -> tuple[tuple[int, _T], ...]:
        """The items with their positions."""
        return tuple(self._items.values())

    @property
    def kept(self) -> tuple[_T, ...]:
        return tuple(item for _, item in self._items.values())

    @property
    def left_out(self) -> int:
        return len(self._left_out)

    def add(self, seq: int, item: _T, key: Hashable = None) -> None:
        self._added += 1
        key = self._added if key is None else key
        self._items.pop(key, None)
        self._items[key] = seq, item
        if len(self._items) > self._most:
            self._left_out.append(self._items.popitem(last=False)[1][0])

    def drop(self, key: Hashable) -> _T | None:
        """Remove and return the item with that key."""
        known = self._items.pop(key, None)
        return None if known is None else known[1]

    def take(self, until: int) -> list[_T]:
        """Remove and return the items before a position."""
        del self._left_out[: bisect_left(self._left_out, until)]
        taken = {key: item for key, (seq, item) in self._items.items() if seq < until}
        for key in taken:
            del self._items[key]
        return list(taken.values())


def changes_of(event: Event) -> Iterable[FeedItem]:
    """Return the items that an event reports, about a node or the namespace.

    Returns None for most kinds.
    """
    match event:
        case GroupRecomputed(delta=""):
            pass
        case NodeChanged(obj_id=obj_id, delta=delta, is_source=is_source):
            yield FeedItem(obj_id, delta, is_source)
        case GroupRecomputed(obj_id=obj_id, delta=delta):
            yield FeedItem(obj_id, delta, is_source=True)
        case ServerConnected() | ServerLost() | HeadMoved() | DomainEntered() | GuidanceChanged():
            yield FeedItem("", _sentence(event))
        case Rewound():
            yield from (FeedItem("", line) for line in rewound_lines(event, str))
        case WorkStopped(sentences=sentences):
            yield from (FeedItem("", sentence) for sentence in sentences)
        case _:
            pass


def _sentence(event: ServerConnected | ServerLost | HeadMoved | DomainEntered | GuidanceChanged) -> str:
    match event:
        case GuidanceChanged(told=told):
            return told
        case ServerConnected():
            return connected_sentence(event)
        case ServerLost():
            return lost_sentence(event)
        case HeadMoved():
            return moved_sentence(event)
        case DomainEntered():
            return entered_sentence(event)


def moved_sentence(event: HeadMoved) -> str:
    """Tell where the session continues, and what did not move with it."""
    place = f"statement {event.statement}" if event.statement else "the beginning"
    return (
        f"this is branch {event.branch}, which continues after {place}. The later work of branch {event.left} is not "
        "in this conversation or namespace, but its file changes may remain"
    )


def told_of_rebuild(event: EnvironmentRestored) -> Iterable[str]:
    """Yield the sentences of a rebuild that tell of a namespace that is another one now.

    A statement that ran again and differed is none of them if its names were set from copies.
    """
    yield from (sentence for sentence in event.divergences if sentence not in event.healed)
    # Last, because the first items are omitted if there is no room for all.
    if event.lost:
        yield event.lost


def diverged_sentence(event: Diverged) -> str:
    """Tell how a statement differed when it ran again."""
    return f"statement {event.statement} {DIFFERED}: {divergence_phrase(event)}"


def divergence_phrase(event: Diverged) -> str:
    """Describe how an execution differed from its record."""
    return f"{event.aspect}: {event.after or 'nothing'} instead of {event.before or 'nothing'}"


def connected_sentence(event: ServerConnected) -> str:
    """Tell the name of a connected server and how to learn more.

    Quotes nothing from the server.
    """
    offers = f"{event.tools} {plural(event.tools, 'tool')}"
    if event.resources:
        offers = f"{offers}, {event.resources} {plural(event.resources, 'resource')}"
    return (
        f"MCP server {event.server!r} is available as module {event.module} ({offers}); help({event.module}) lists them"
    )


def lost_sentence(event: ServerLost) -> str:
    """Tell which server is lost, and why."""
    return (
        f"MCP server {event.server!r} (module {event.module}) is not connected"
        f"{'; Rewindow will try again' if event.again else ''}: {event.reason}"
    )


def _expansion(display: Display) -> Expansion:
    if not display.given:
        return Expansion(display.obj_id)
    return Expansion(display.obj_id, display.lod, display.budget, is_own=False)


def _failure(statement: StatementRecorded, finished: ExecutionFinished) -> str:
    source = cut_line(statement.source.strip().partition("\n")[0], _LONGEST_SOURCE)
    said = f"statement {statement.index}, `{source}`, ended with status {finished.status}"
    if finished.exception is None:
        return said
    reason = f"{finished.exception.type}: {finished.exception.message}"
    return f"{said}: {cut_line(reason.partition(chr(10))[0], _LONGEST_REASON)}"


_MARKS: Final[dict[PlanStatus, str]] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


def plan_lines(entries: Iterable[PlanEntry]) -> Iterable[str]:
    """Yield a plan as lines, for the model and the terminal."""
    for entry in entries:
        priority = "" if entry.priority == "medium" else f" ({entry.priority} priority)"
        yield f"{_MARKS.get(entry.status, '[?]')} {cut_line(legible_line(entry.content), _LONGEST_ENTRY)}{priority}"


# --- all news --------------------------------------------------------------------------------------------------------


class LogNews:
    """The news that the next model call must contain.

    Only the log calls `apply` and `reset`; the parts get their events here.

    `timeline` follows the same path, and gets each event first.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.feed = Feed(timeline)
        self.past = PastStatements(timeline)
        self.standing = Standing()
        self.diverged = DivergedNodes(timeline)
        self.plan = CurrentPlan()

    def apply(self, event: Event) -> None:
        self.feed.apply(event)
        self.past.apply(event)
        self.standing.apply(event)
        self.plan.apply(event)
        if type(event) in DivergedNodes.FOLLOWS:
            self.diverged.apply(event)

    def reset(self) -> None:
        """Start again: another path follows, from its first event."""
        self.feed.reset()
        self.past.reset()
        self.standing.reset()
        self.diverged.reset()
        self.plan.reset()

    @property
    def position(self) -> int:
        """Number of events so far."""
        return self.feed.position

    @property
    def news(self) -> News:
        statements = self.past.newest()
        return replace(
            self.feed.news,
            statements=statements,
            statements_left_out=len(self.past) - len(statements),
            standing=self.standing.renders,
            diverged=dict(self.diverged.nodes),
            plan=tuple(plan_lines(self.plan.entries[:KEPT_ITEMS])),
        )


class DivergedNodes:
    """The handles of statements that diverged when they ran again.

    A handle belongs to the statement that made it, and to those that called its methods. A statement counts until it
    runs again in a completed replay with the same result. Only the log calls `apply` and `reset`. `timeline` follows
    the same path, and gets each event first.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (
            ExecutionStarted,
            ExecutionFinished,
            NodeMade,
            MethodCalled,
            ReplayBegun,
            Diverged,
            ReplayEnded,
        )
    )

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """Start again: another path follows, from its first event."""
        self._running = 0
        """Number of the running statement; 0 for none."""
        self._numbers = array("q")
        """Numbers of statements that made a handle or called its method, with repetitions.

        The next list has the position of the event, which takes less memory than the handle's id.
        """
        self._places = array("q")
        self._diverged: set[int] = set()
        self._checked: set[int] = set()
        """Statements that had diverged, and may not in the current replay."""
        self._is_report = False
        """Whether the replay that runs changes nothing."""
        self._nodes: Mapping[str, tuple[int, ...]] | None = None
        """The result, until something changes."""

    def apply(self, event: Event) -> None:
        match event:
            case ExecutionStarted(statement_id=statement_id) if event.counts:
                cell = self._timeline.cell(statement_id)
                self._running = 0 if cell is None else cell.index
            case ExecutionFinished() if event.counts:
                self._running = 0
            case NodeMade(statement=number):
                self._note(number, event)
            case MethodCalled() if self._running:
                self._note(self._running, event)
            case _:
                self._follow(event)

    def _note(self, number: int, event: Event) -> None:
        self._numbers.append(number)
        self._places.append(event.seq)
        if number in self._diverged:
            self._nodes = None

    def _follow(self, event: Event) -> None:
        self._nodes = None
        match event:
            case ReplayBegun(mode=mode) if mode != "live":
                self._is_report = True
            case ReplayBegun(first=first, last=last):
                self._checked = {number for number in self._diverged if first <= number <= last}
                self._diverged -= self._checked
            case Diverged(statement=number):
                if not self._is_report:
                    self._diverged.add(number)
            case ReplayEnded(outcome=outcome):
                self._is_report = False
                if outcome != "completed":
                    self._diverged |= self._checked
                self._checked = set()
            case _:
                pass

    @property
    def nodes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the numbers of diverged statements, by handle id.

        Cached until something changes.
        """
        if self._nodes is None:
            found = dict[str, set[int]]()
            for number, place in zip(self._numbers, self._places, strict=True) if self._diverged else ():
                if number in self._diverged:
                    event = self._timeline.at(Seq(place))
                    assert isinstance(event, NodeMade | MethodCalled)
                    found.setdefault(event.obj_id, set()).add(number)
            self._nodes = {obj_id: tuple(sorted(numbers)) for obj_id, numbers in found.items()}
        return self._nodes
