"""The news of a tail: unread changes, and earlier ones of followed handles.

`LogNews` is the fold over a path of events that the session's projector reads; the worker renders it. Its largest part
is `Feed`: what ticks changed, failures that no result in the View tells, rebuilds and their differences. An item is new
until a call that carried it began to answer (`log.facts.Readings`). Items about a handle are then kept as its history,
because a tail is never part of the View: the model got the content once, and each later change in a tail that is gone.
The history ends when a statement shows the handle again.

Bounded: beyond the limits the oldest items are only counted. Names, tokens and budgets are the worker's (`sections`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from math import inf
from typing import ClassVar, Final

from msgspec.structs import replace

from ...core.execution import Display
from ...core.ids import Seq
from ...core.text import cut_line, plural
from ...files.tails import FeedItem, News
from ...log.event_log import event_at
from ...log.events import Event
from ...log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ...log.events.going_back import Diverged, HeadMoved, ReplayBegun, ReplayEnded, Rewound
from ...log.events.nodes import GroupRecomputed, MethodCalled, NodeChanged, NodeMade
from ...log.events.session import (
    DomainEntered,
    EnvironmentRestored,
    GuidanceChanged,
    ServerConnected,
    ServerLost,
    WorkStopped,
)
from ...log.facts import READING, Readings
from ...log.file_history import rewound_lines
from ...log.timeline import Timeline
from .past_statements import PastStatements
from .rights import entered_sentence
from .standing import Standing

KEPT_ITEMS: Final = 256
KEPT_CHANGES: Final = 8
"""Number of changes in the history of a handle."""
KEPT_HISTORIES: Final = 64
KEPT_EXPANSIONS: Final = 64
KEPT_EXPANSION_CHARS: Final = 2_000_000
"""Characters of all expansions but the newest; more than fits any tail."""
_FOLLOWED: Final = frozenset(
    (
        ExecutionFinished,
        NodeChanged,
        GroupRecomputed,
        WorkStopped,
        DomainEntered,
        EnvironmentRestored,
        Diverged,
        ServerConnected,
        ServerLost,
        Rewound,
        HeadMoved,
        GuidanceChanged,
    )
)
_FAILED: Final = FeedItem("", "")
"""Replaces the failure of a statement, which is read from the log when it is reported."""
_LONGEST_SOURCE: Final = 80
_LONGEST_REASON: Final = 300


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
        self._items = _Unread(KEPT_ITEMS)
        self._shown: dict[str, int] = {}
        """Where a statement last showed each handle. Entries from before all new items may be missing."""
        self._most_shown = KEPT_ITEMS
        self._histories: OrderedDict[str, deque[FeedItem]] = OrderedDict()
        self._expansions = _Unread(KEPT_EXPANSIONS, KEPT_EXPANSION_CHARS)
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
            case ExecutionFinished():
                self._finish(event)
            case _:
                for item in changes_of(event):
                    self._items.add(event.seq, item)

    @property
    def news(self) -> News:
        """Return the items that the next call has to carry."""
        return News(
            items=tuple(self._told(seq, item) for seq, item in self._items.placed),
            left_out=self._items.left_out,
            earlier=tuple(item for history in self._histories.values() for item in history),
            expansions=self._expansions.kept,
            expansions_left_out=self._expansions.left_out,
        )

    def _told(self, seq: int, item: FeedItem) -> FeedItem:
        if item is not _FAILED:
            return item
        finished = event_at(self._timeline.at, Seq(seq), ExecutionFinished)
        cell = self._timeline.cell(finished.statement_id)
        assert cell is not None  # it existed when this item was noted
        return FeedItem("", _failure(cell.statement, finished))

    def _take_read(self) -> None:
        self._expansions.take(self._readings.until)
        for seq, item in self._items.take(self._readings.until):
            if item.obj_id and seq > self._shown.get(item.obj_id, -1):
                self._remember(item)

    def _remember(self, item: FeedItem) -> None:
        history = self._histories.setdefault(item.obj_id, deque(maxlen=KEPT_CHANGES))
        history.append(item)
        self._histories.move_to_end(item.obj_id)
        if len(self._histories) > KEPT_HISTORIES:
            self._histories.popitem(last=False)

    def _finish(self, event: ExecutionFinished) -> None:
        # The View has no results of a replay.
        for display in event.displays if event.mode is None else ():
            self._shown[display.obj_id] = event.seq
            self._histories.pop(display.obj_id, None)
        self._forget_shown()
        cell = self._timeline.cell(event.statement_id)
        if cell is None or cell.asked or not event.counts:  # the View has the result of a model's statement
            return
        if event.status != "ok":
            self._items.add(event.seq, _FAILED)
        # Statements that the session runs open attachments, which the model reads if it wants to.
        if cell.is_python:
            for display in event.displays:
                self._expansions.add(event.seq, _expansion(display))

    def _forget_shown(self) -> None:
        """Drop displays from before all new items, because they no longer matter.

        Runs when there are twice as many as were needed the last time.
        """
        if len(self._shown) > self._most_shown:
            first = self._items.first
            self._shown = {obj_id: seq for obj_id, seq in self._shown.items() if first is not None and seq >= first}
            self._most_shown = max(KEPT_ITEMS, 2 * len(self._shown))


class _Unread:
    """Items until they are read, oldest first.

    Limited in number and characters; older ones are counted.
    """

    def __init__(self, most: int, chars: float = inf) -> None:
        self._most = most
        self._most_chars = chars
        self._items: deque[tuple[int, FeedItem]] = deque()
        self._chars = 0
        self._left_out = array("q")
        """Positions of the items that are only counted."""

    @property
    def first(self) -> int | None:
        """Position of the oldest item."""
        return self._items[0][0] if self._items else None

    @property
    def placed(self) -> tuple[tuple[int, FeedItem], ...]:
        """The items with their positions."""
        return tuple(self._items)

    @property
    def kept(self) -> tuple[FeedItem, ...]:
        return tuple(item for _, item in self._items)

    @property
    def left_out(self) -> int:
        return len(self._left_out)

    def add(self, seq: int, item: FeedItem) -> None:
        self._items.append((seq, item))
        self._chars += len(item.text)
        while len(self._items) > 1 and (len(self._items) > self._most or self._chars > self._most_chars):
            self._left_out.append(self._pop()[0])

    def take(self, until: int) -> list[tuple[int, FeedItem]]:
        """Remove and return the items before a position."""
        del self._left_out[: bisect_left(self._left_out, until)]
        taken: list[tuple[int, FeedItem]] = []
        while self._items and self._items[0][0] < until:
            taken.append(self._pop())
        return taken

    def _pop(self) -> tuple[int, FeedItem]:
        seq, item = self._items.popleft()
        self._chars -= len(item.text)
        return seq, item


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
            yield FeedItem(obj_id, delta)
        case ServerConnected() | ServerLost() | HeadMoved() | DomainEntered() | GuidanceChanged():
            yield FeedItem("", _sentence(event))
        case Rewound():
            yield from (FeedItem("", line) for line in rewound_lines(event, str))
        case WorkStopped(sentences=sentences):
            yield from (FeedItem("", sentence) for sentence in sentences)
        case EnvironmentRestored(executions=executions, divergences=divergences, lost=lost):
            yield from (FeedItem("", sentence) for sentence in divergences)
            # Last, because the first items are omitted if there is no room for all.
            if lost:
                yield FeedItem("", lost)
            noun = plural(executions, "statement")
            yield FeedItem("", f"rebuilt in a new worker: {executions} {noun} ran again")
        case Diverged(statement=number):
            yield FeedItem("", f"statement {number} ran again and came out differently: {divergence_phrase(event)}")
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
        f"this is branch {event.branch}, which goes on after {place}: what branch {event.left} did since is neither in "
        "this conversation nor in the namespace, but in files it may be"
    )


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
    return f"MCP server {event.server!r} is the module {event.module}: {offers}; help({event.module}) lists them"


def lost_sentence(event: ServerLost) -> str:
    """Tell which server is lost, and why."""
    return (
        f"MCP server {event.server!r}, the module {event.module}, is not connected"
        f"{', and is tried again' if event.again else ''}: {event.reason}"
    )


def _expansion(display: Display) -> FeedItem:
    return FeedItem(display.obj_id, f"{display.title}\n{display.text.rstrip(chr(10))}")


def _failure(statement: StatementRecorded, finished: ExecutionFinished) -> str:
    source = cut_line(statement.source.strip().partition("\n")[0], _LONGEST_SOURCE)
    said = f"statement {statement.index}, `{source}`, ended with status {finished.status}"
    if finished.exception is None:
        return said
    reason = f"{finished.exception.type}: {finished.exception.message}"
    return f"{said}: {cut_line(reason.partition(chr(10))[0], _LONGEST_REASON)}"


# --- all news --------------------------------------------------------------------------------------------------------


class LogNews:
    """All that the next call has to carry.

    Only the log calls `apply` and `reset`; the parts get their events here.

    `timeline` follows the same path, and gets each event first.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.feed = Feed(timeline)
        self.past = PastStatements(timeline)
        self.standing = Standing()
        self.diverged = DivergedNodes(timeline)

    def apply(self, event: Event) -> None:
        self.feed.apply(event)
        self.past.apply(event)
        self.standing.apply(event)
        if type(event) in DivergedNodes.FOLLOWS:
            self.diverged.apply(event)

    def reset(self) -> None:
        """Start again: another path follows, from its first event."""
        self.feed.reset()
        self.past.reset()
        self.standing.reset()
        self.diverged.reset()

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
            case ReplayBegun(first=first, last=last, mode=mode) if mode != "dry":
                self._checked = {number for number in self._diverged if first <= number <= last}
                self._diverged -= self._checked
            case Diverged(statement=number):
                self._diverged.add(number)
            case ReplayEnded(outcome=outcome):
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
