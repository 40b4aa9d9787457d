"""What is said of the sandbox: which rights statements have now, and what asks.

Pure. Used by the feed, and by whoever shows the log or a question to a person.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from ...core.domain import PARTS
from ...core.execution import Display
from ...core.ids import Seq
from ...core.text import cut_line, plural, visible
from ...files.tails import FeedItem, News
from ...log.event_log import event_at
from ...log.events import Event
from ...log.events.execution import ExecutionFinished, StatementRecorded
from ...log.events.going_back import Diverged, HeadMoved, Rewound
from ...log.events.nodes import GroupRecomputed, NodeChanged
from ...log.events.session import DomainEntered, EnvironmentRestored, ServerConnected, ServerLost, WorkStopped
from ...log.facts import READING, Readings
from ...log.file_history import rewound_lines
from ...log.permissions import RebuildSubject
from ...log.rights import Rights
from ...log.timeline import Timeline
from .past_statements import PastStatements
from .standing import DivergedNodes, Standing

_SHOWN: Final = 50
"""Numbers of statements in a question."""
_BEFORE: Final = 3
"""Kinds of rights that are said of statements from before."""
_IN_ASK: Final = (
    "Each other file that their Python code changes, and each command, asks in the mode ask and is refused in plan;"
    " databases, C code and programs that they start do not write elsewhere."
)
_IN_AUTO: Final = "Commands run in there too; bash(command, outside=True) asks to run one without."


def rights_phrase(rights: DomainEntered | RebuildSubject | Rights) -> str:
    """What statements may do by themselves, as the end of "statements run"."""
    if not rights.held:
        return "with your own rights"
    places = ["their scratch directory", *map(visible, rights.writable)]
    network = "with TCP" if rights.network else "without a network"
    beyond = list(_open(rights))
    can = f", and can {_joined(beyond)}" if beyond else ""
    return f"in a sandbox, {network}: by themselves they write only in {_joined(places)}{can}"


def before_phrase(given: Collection[Rights | None]) -> str:
    """The rights with which statements ran, as the end of "they ran"; None: they were imported."""
    held = [rights_phrase(rights) for rights in given if rights is not None]
    imported = ["elsewhere (they were imported, and nothing was allowed to them here)"] if None in given else []
    return "; or ".join([*dict.fromkeys(held), *imported][:_BEFORE])


def entered_sentence(entered: DomainEntered) -> str:
    """The same as a sentence or two, with what asks."""
    if not entered.held:
        return (
            f"There is no sandbox here: {entered.reason}. Statements can do whatever you can, so in the mode ask each "
            "one that a model wrote asks before it runs."
        )
    return f"Statements run {rights_phrase(entered)}. {_IN_AUTO if entered.writable else _IN_ASK}"


def entered_line(entered: DomainEntered) -> str:
    """The same in a few words; `/sandbox` says the rest."""
    if not entered.held:
        return "no sandbox: statements can do whatever you can (/sandbox)"
    places = _joined(["scratch files", *map(_place, entered.writable)])
    network = ", with TCP" if entered.network else ""
    rest = "" if entered.writable else "; other changes ask"
    return f"sandboxed: statements write only {places}{network}{rest} (/sandbox)"


def _place(path: str) -> str:
    return visible(path).rstrip("/").rpartition("/")[2] + "/"


def rebuild_sentence(subject: RebuildSubject) -> str:
    """What is asked about statements that had fewer rights."""
    count = len(subject.statements)
    shown = ", ".join(map(str, subject.statements[:_SHOWN])) + (", ..." if count > _SHOWN else "")
    which = f"{plural(count, 'Statement')} {shown}"
    before = f" Before, they ran {subject.before}." if subject.before else ""
    return (
        f"{which} ran with fewer rights than statements have now: they run {rights_phrase(subject)}.{before} To have"
        " the names that were bound then, they would run again with more rights. Otherwise these names are lost."
    )


def gained_sentence(rights: Rights, before: str) -> str:
    """What is said to the question about one statement that had fewer rights than these, which it ran with `before`."""
    now = rights_phrase(rights)
    return f"It ran with fewer rights than statements have now: they run {now}. Before, they ran {before}."


def _open(rights: DomainEntered | RebuildSubject | Rights) -> Iterator[str]:
    if rights.bare:
        yield "change modes, owners and times of files elsewhere"
    yield from (PARTS[part] for part in rights.lacks or ())


def _joined(places: Sequence[str]) -> str:
    *others, last = places
    return f"{', '.join(others)} and {last}" if others else last


# feed:
# What happened by itself since the model last read, and before that to handles that it still follows: a fold.
#
# Everything that the tail tells as news comes from here: what ticks changed, what failed where no result in the View
# says so, rebuilds and what came out differently. An item is new until a call that carried it began to answer, as
# `log.timeline.readings` has it. What has been read of a handle is kept as its history, because a tail is never part
# of the View: the model was given the content once, and each change since in a tail that is gone. The history ends
# where a statement shows the handle again.
#
# Bounded: of more items than are kept, the oldest are counted. Names, tokens and what is left out for want of room
# are the worker's business (`sections`). Follows a path of events; read by `sessions.projector`.

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


# news:
# All that the log has for a tail: one fold over a path of events, put together from those of its parts.
#
# Read by `sessions.projector`; the worker renders it within the tail's budget.


class LogNews:
    """What a call that is made now has to carry. `apply` is for the log alone; each part is told through it.

    `timeline` follows the same path, and is told of each event before.
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
        """For the log alone: another path follows, from its first event on."""
        self.feed.reset()
        self.past.reset()
        self.standing.reset()
        self.diverged.reset()

    @property
    def position(self) -> int:
        """How many events there are."""
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
