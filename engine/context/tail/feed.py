"""What happened by itself since the model last read, and before that to handles that it still follows: a fold.

Everything that the tail tells as news comes from here: what ticks changed, what failed where no result in the View says
so, rebuilds and what came out differently. An item is new until a call that carried it began to answer, as
`log.timeline.readings` has it. What has been read of a handle is kept as its history, because a tail is never part of
the View: the model was given the content once, and each change since in a tail that is gone. The history ends where a
statement shows the handle again.

Bounded: of more items than are kept, the oldest are counted. Names, tokens and what is left out for want of room are
the worker's business (`sections`). Follows a path of events; read by `sessions.projector`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable
from math import inf
from typing import Final

from ...core.cutting import cut_line, plural
from ...core.execution import Display
from ...core.ids import Seq
from ...files.tails import FeedItem, News
from ...log.event_list import event_at
from ...log.events import Event
from ...log.events.branches import HeadMoved
from ...log.events.execution import ExecutionFinished, StatementRecorded
from ...log.events.nodes import GroupRecomputed, NodeChanged
from ...log.events.replays import Diverged
from ...log.events.rewinding import Rewound
from ...log.events.session import DomainEntered, EnvironmentRestored, ServerConnected, ServerLost, WorkStopped
from ...log.timeline.index import Timeline
from ...log.timeline.readings import READING, Readings
from ...log.timeline.rewound import rewound_lines
from .entered import entered_sentence

KEPT_ITEMS: Final = 256
KEPT_CHANGES: Final = 8
"""Of each handle, in its history."""
KEPT_HISTORIES: Final = 64
KEPT_EXPANSIONS: Final = 64
KEPT_EXPANSION_CHARS: Final = 2_000_000
"""Of all of them, but for the newest; more than the tail of any model has room for."""
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
    )
)
_FAILED: Final = FeedItem("", "")
"""In the place of a statement's failure, which is read on the log when it is told."""
_LONGEST_SOURCE: Final = 80
_LONGEST_REASON: Final = 300


class Feed:
    """What is new to the model, in the order in which it happened. `apply` is for the log alone.

    `timeline` follows the same path, and is told of each event before.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._readings = Readings()
        self._items = _Unread(KEPT_ITEMS)
        self._shown: dict[str, int] = {}
        """Where a statement last showed each handle; of those before all that is new, some are not there any more."""
        self._most_shown = KEPT_ITEMS
        self._histories: OrderedDict[str, deque[FeedItem]] = OrderedDict()
        self._expansions = _Unread(KEPT_EXPANSIONS, KEPT_EXPANSION_CHARS)
        self.position = 0
        """How many events there are."""

    def apply(self, event: Event) -> None:
        self.position = event.seq + 1
        kind = type(event)
        if kind in READING:
            count = self._readings.count
            self._readings.apply(event)
            if self._readings.count > count:
                self._take_read()
        # By kind first, because a log has hundreds of thousands of events, and most are of no other kind here.
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
        """What a call that is made now has to carry."""
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
        assert cell is not None  # because it was there when this was noted
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
        # What a replay shows is in no result of the View.
        for display in event.displays if event.mode is None else ():
            self._shown[display.obj_id] = event.seq
            self._histories.pop(display.obj_id, None)
        self._forget_shown()
        cell = self._timeline.cell(event.statement_id)
        if cell is None or cell.asked or not event.counts:  # of what was asked for the View has the result
            return
        if event.status != "ok":
            self._items.add(event.seq, _FAILED)
        # What the session runs by itself opens attachments, which a model looks at as far as it wants to.
        if cell.is_python:
            for display in event.displays:
                self._expansions.add(event.seq, _expansion(display))

    def _forget_shown(self) -> None:
        """What is new counts only where it came after the handle was shown, so what was shown before all of it says
        nothing. Looked through when there is twice as much as was needed the last time."""
        if len(self._shown) > self._most_shown:
            first = self._items.first
            self._shown = {obj_id: seq for obj_id, seq in self._shown.items() if first is not None and seq >= first}
            self._most_shown = max(KEPT_ITEMS, 2 * len(self._shown))


class _Unread:
    """Items until they are read, oldest first: at most so many, of so many characters; older ones are counted."""

    def __init__(self, most: int, chars: float = inf) -> None:
        self._most = most
        self._most_chars = chars
        self._items: deque[tuple[int, FeedItem]] = deque()
        self._chars = 0
        self._left_out = array("q")
        """Where those happened that are only counted."""

    @property
    def first(self) -> int | None:
        """Where the oldest that is kept happened."""
        return self._items[0][0] if self._items else None

    @property
    def placed(self) -> tuple[tuple[int, FeedItem], ...]:
        """Those that are kept, each with where it happened."""
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
        """Those that happened before a position, which are here no longer."""
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
    """What happened by itself, as the event says: of a node, or of the namespace. Nothing for most kinds."""
    match event:
        case GroupRecomputed(delta=""):
            pass
        case NodeChanged(obj_id=obj_id, delta=delta) | GroupRecomputed(obj_id=obj_id, delta=delta):
            yield FeedItem(obj_id, delta)
        case ServerConnected() | ServerLost() | HeadMoved() | DomainEntered():
            yield FeedItem("", _sentence(event))
        case Rewound():
            yield from (FeedItem("", line) for line in rewound_lines(event, str))
        case WorkStopped(sentences=sentences):
            yield from (FeedItem("", sentence) for sentence in sentences)
        case EnvironmentRestored(executions=executions, divergences=divergences, lost=lost):
            yield from (FeedItem("", sentence) for sentence in divergences)
            # Last, because where there is no room for all, the first are left out.
            if lost:
                yield FeedItem("", lost)
            noun = plural(executions, "statement")
            yield FeedItem("", f"rebuilt in a new worker: {executions} {noun} ran again")
        case Diverged(statement=number):
            yield FeedItem("", f"statement {number} ran again and came out differently: {divergence_phrase(event)}")
        case _:
            pass


def _sentence(event: ServerConnected | ServerLost | HeadMoved | DomainEntered) -> str:
    match event:
        case ServerConnected():
            return connected_sentence(event)
        case ServerLost():
            return lost_sentence(event)
        case HeadMoved():
            return moved_sentence(event)
        case DomainEntered():
            return entered_sentence(event)


def moved_sentence(event: HeadMoved) -> str:
    """Where the session goes on, and what did not move along."""
    place = f"statement {event.statement}" if event.statement else "the beginning"
    return (
        f"this is branch {event.branch}, which goes on after {place}: what branch {event.left} did since is neither in "
        "this conversation nor in the namespace, but in files it may be"
    )


def divergence_phrase(event: Diverged) -> str:
    """In what an execution came out differently, and how."""
    return f"{event.aspect}: {event.after or 'nothing'} instead of {event.before or 'nothing'}"


def connected_sentence(event: ServerConnected) -> str:
    """That a server is there, under which name, and how to learn more; nothing of its own words."""
    offers = f"{event.tools} {plural(event.tools, 'tool')}"
    if event.resources:
        offers = f"{offers}, {event.resources} {plural(event.resources, 'resource')}"
    return f"MCP server {event.server!r} is the module {event.module}: {offers}; help({event.module}) lists them"


def lost_sentence(event: ServerLost) -> str:
    """That a server is not there, and why."""
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
