"""Which of the payloads that are ready a tick takes: of each node and kind the newest, and not too many.

Pure, and asked twice: by the host, which sends no more, and by the async phase, which takes no more. What is left over
waits for the next tick, in its order, so that no payload waits for ever. A payload for which there is a newer one is
given up together with the tick that takes the newer one, not before: so the same choice comes of what the tick ended
alone, which is what a re-run is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Protocol, TypeVar

from ..core.ids import ObjId
from ..core.text import more
from ..log.events import Event
from ..log.events.nodes import (
    AsyncPayloadApplied,
    AsyncPayloadDropped,
    DropReason,
    FileChanged,
    FileChangeKind,
    GroupRecomputed,
    NodeChanged,
    PayloadKind,
    TickApplied,
    TickKind,
)
from ..log.statements import PAYLOAD_BYTES, UpdatePayload, Want

MOST: Final = 32
"""Payloads that one tick applies."""


class Payload(Protocol):
    """As much of a payload as decides."""

    @property
    def obj_id(self) -> ObjId: ...

    @property
    def payload_kind(self) -> PayloadKind: ...


P = TypeVar("P", bound=Payload)


def chosen(waiting: Iterable[P]) -> tuple[Sequence[P], Sequence[P]]:
    """What a tick takes of the waiting, given oldest first, and what is superseded by that; both in their order."""
    newest: dict[tuple[ObjId, PayloadKind], P] = {}
    superseded: list[P] = []
    for payload in waiting:
        key = (payload.obj_id, payload.payload_kind)
        older = newest.get(key)
        if older is not None:
            superseded.append(older)
        elif len(newest) == MOST:
            continue
        newest[key] = payload
    return tuple(newest.values()), tuple(superseded)


# result:
# What a node must offer to be ticked, and what it answers.
#
# Plain values and one Protocol, so that phases and nodes need not know each other.

Frequency = Literal["Sync", "Async"] | tuple[Literal["Periodic"], float]
"""When a running node is ticked: once per Round; when something was prepared for it; every so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """How the file behind a node changed: absolute path, kind, xxh3 before and after (empty: no content)."""

    path: str
    change: FileChangeKind
    before_digest: str
    after_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """`summary` is one line; `delta` is it and, where there is one, a short diff. Both empty: nothing changed.

    `members` are those of a group that have changed: the ids of nodes, and what stands for globs. `files` is the part
    of `summary` about files of globs.
    """

    summary: str = ""
    delta: str = ""
    members: tuple[str, ...] = ()
    files: str = ""
    source: SourceChange | None = None


UNCHANGED: Final = TickResult()


class Ticking(Protocol):
    """A node, as the phases see it."""

    obj_type: ClassVar[str]

    @property
    def obj_id(self) -> ObjId: ...

    @property
    def called(self) -> str:
        """What the namespace calls it; its id where it has no name."""
        ...

    @property
    def running(self) -> bool: ...

    @property
    def freq(self) -> Frequency | None: ...

    @property
    def min_turn_interval(self) -> int:
        """Rounds between two Sync ticks, at least 1."""
        ...

    @property
    def last_tick_turn(self) -> int:
        """The Round of the last tick; -1 before the first."""
        ...

    @property
    def last_tick_time(self) -> float:
        """The time of the last tick in seconds since the epoch; 0.0 before the first."""
        ...

    def children(self) -> Sequence[Ticking]:
        """The nodes that it holds as a group."""
        ...

    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult: ...

    def foresee(self) -> str:
        """What a tick would bring now by what its source holds, in one line, empty for nothing; changes nothing."""
        ...

    def take_payload(self, payload: UpdatePayload, now: float, turn_id: int) -> TickResult | DropReason:
        """Applies what was prepared for this node; or the reason why it does not, with nothing changed."""
        ...

    def wants(self) -> Iterable[Want]:
        """What could be prepared for ticks to come."""
        ...


# context:
# What a phase of a tick is given: all nodes, the moment, and what was prepared for them.
#
# A plain value. Made by the Board; a phase must change nothing but nodes.


@dataclass(frozen=True, slots=True, kw_only=True)
class TickContext:
    """One tick.

    `nodes` and the `groups` of such are in the order of their creation; `round_id` is the Round, `now` in seconds since
    the epoch. `payloads` were prepared for it, oldest first. `asked`: a statement asked for it, so nodes look that did
    so in this Round already. `told` are the changes of files, by path and digest, of which an event of this tick says
    so.
    """

    nodes: Sequence[Ticking]
    groups: Sequence[Ticking] = ()
    round_id: int
    now: float
    payloads: Sequence[UpdatePayload] = ()
    asked: bool = False
    told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


# told:
# The events of nodes that a phase has ticked: FileChanged (once per file), NodeChanged, TickApplied.
#
# Used by the phases.


def ticked(nodes: Iterable[Ticking], context: TickContext, kind: TickKind) -> Iterator[Event]:
    """Ticks these nodes, and says of each that changed how, in their order; of a file once in a tick."""
    for node in nodes:
        result = node.Tick(context.now, context.round_id, kind)
        if result is UNCHANGED:
            continue
        yield from changed(node, result, context, kind)


def changed(node: Ticking, result: TickResult, context: TickContext, kind: TickKind) -> Iterator[Event]:
    """Says how one node changed."""
    source = result.source
    if source is not None and (source.path, source.after_digest) not in context.told:
        context.told.add((source.path, source.after_digest))
        yield _file_changed(source, result.summary)
    yield NodeChanged(obj_id=node.obj_id, obj_type=node.obj_type, delta=result.delta)
    yield TickApplied(obj_id=node.obj_id, tick_kind=kind, turn_id=context.round_id, delta=result.summary)


def _file_changed(source: SourceChange, summary: str) -> FileChanged:
    return FileChanged(
        path=source.path,
        change=source.change,
        before_digest=source.before_digest,
        after_digest=source.after_digest,
        delta=summary,
    )


# asynchronous:
# The async phase: what was prepared beside statements and ticks is applied to its nodes, or dropped with the reason.
#
# A payload holds of one state of its node, its basis; the node says whether that is still its own. For each one that
# is applied: AsyncPayloadApplied, and where the node changed by it FileChanged (once per file), NodeChanged,
# TickApplied. Called by `phases`, ahead of what looks at sources, so that nothing is read again that somebody has
# read already.


def asynchronous(context: TickContext) -> Iterator[Event]:
    """Applies the payloads of this tick, in the order in which they were prepared."""
    if not context.payloads:
        return
    taken, superseded = chosen(context.payloads)
    for payload in superseded:
        yield _dropped(payload, "superseded", context)
    nodes = {node.obj_id: node for node in (*context.nodes, *context.groups)} if taken else {}
    for payload in taken:
        node = nodes.get(payload.obj_id)
        outcome = _taken(node, payload, context)
        if node is None or not isinstance(outcome, TickResult):
            yield _dropped(payload, "vanished" if isinstance(outcome, TickResult) else outcome, context)
            continue
        yield AsyncPayloadApplied(
            payload_id=payload.payload_id,
            obj_id=payload.obj_id,
            payload_kind=payload.payload_kind,
            turn_id=context.round_id,
            delta=outcome.summary,
        )
        if outcome is not UNCHANGED:
            yield from changed(node, outcome, context, "async")


def _taken(node: Ticking | None, payload: UpdatePayload, context: TickContext) -> TickResult | DropReason:
    if len(payload.data) > PAYLOAD_BYTES:
        return "too large"
    if node is None:
        return "vanished"
    return node.take_payload(payload, context.now, context.round_id)


def _dropped(payload: UpdatePayload, reason: DropReason, context: TickContext) -> AsyncPayloadDropped:
    return AsyncPayloadDropped(
        payload_id=payload.payload_id,
        obj_id=payload.obj_id,
        payload_kind=payload.payload_kind,
        reason=reason,
        turn_id=context.round_id,
    )


# periodic:
# The periodic phase: running nodes with freq ("Periodic", seconds) look at their sources when that time has passed.
#
# Due is what the clock of the tick says, counted from the last look. So intervals that were missed run once, and a
# clock that was set back neither stops a node for as long as it was ahead nor has it look twice: a last look that
# lies in the future counts as one that is due. Called by `phases`.


def periodic(context: TickContext) -> Iterator[Event]:
    """Ticks the nodes that are due now."""
    return ticked((node for node in context.nodes if is_time(node, context.now)), context, "periodic")


def is_time(node: Ticking, now: float) -> bool:
    """Whether it runs, and its interval has passed since its last tick."""
    freq = node.freq
    if not node.running or not isinstance(freq, tuple):
        return False
    last = node.last_tick_time
    return not last <= now < last + freq[1]


# sync:
# The sync phase: running nodes with freq "Sync" look at their sources, at most once per `min_turn_interval` Rounds.
#
# A tick that a statement asks for is one more in its Round, for nodes whose interval is one Round. Called by
# `phases`.


def sync(context: TickContext) -> Iterator[Event]:
    """Ticks the nodes that are due in this Round."""
    return ticked((node for node in context.nodes if node.freq == "Sync" and is_round(node, context)), context, "sync")


def is_round(node: Ticking, context: TickContext) -> bool:
    """Whether it runs, and its `min_turn_interval` of Rounds has passed since its last tick."""
    if not node.running:
        return False
    last, interval = node.last_tick_turn, node.min_turn_interval
    return last < 0 or context.round_id - last >= interval or (context.asked and interval == 1)


# group:
# The group phase: groups sum up what the phases before it have made of their members. Bottom-up, once each, last.
#
# A group is due as a node of its frequency is. For each whose members have changed: GroupRecomputed, TickApplied. A
# change in a leaf of nested groups makes all of them anew, and is to be told once. So a group between says nothing:
# one of which only groups changed, which this tick has made anew, inside of another one that it makes anew. The
# innermost group has said which member changed, and the outermost says in which group. Called by `phases`.

_NAMED: Final = 3


def group(context: TickContext) -> Iterator[Event]:
    """Ticks the groups that are due."""
    changes = _Changes(context)
    for node in bottom_up(context.groups):
        if is_group_due(node, context):
            result = node.Tick(context.now, context.round_id, "group")
            if result is not UNCHANGED:
                yield from changes.add(node, result)
    yield from changes.rest()


class _Changes:
    """The groups that one tick has made anew, as they are told."""

    def __init__(self, context: TickContext) -> None:
        self._context = context
        self._groups = {group.obj_id: group for group in context.groups}
        self._sources: dict[str, tuple[str, ...]] = {}
        """Of each group, those in it, or itself, of which more than groups changed."""
        self._waiting: dict[str, str] = {}
        """What the groups would say of which only groups changed, until it is known whether one around them does."""

    def add(self, node: Ticking, result: TickResult) -> Iterator[Event]:
        summary, members = result.summary, result.members
        inner = [member for member in members if member in self._sources]
        for member in inner:
            if self._waiting.pop(member, None) is not None:
                yield from self._told(member, "")
        sources = dict.fromkeys(source for member in inner for source in self._sources[member])
        deeper = [source for source in sources if source not in members]
        if deeper:
            named = [self._groups[ObjId(source)].called for source in deeper[:_NAMED]]
            rest = [more(len(deeper) - _NAMED)] if len(deeper) > _NAMED else []
            summary = f"{summary} (in it: {', '.join((*named, *rest))})"
        if len(inner) == len(members):
            self._sources[node.obj_id] = tuple(sources)
            self._waiting[node.obj_id] = summary
        else:
            self._sources[node.obj_id] = (node.obj_id,)
            yield from self._told(node.obj_id, summary, result.files)

    def rest(self) -> Iterator[Event]:
        for obj_id, summary in self._waiting.items():
            yield from self._told(obj_id, summary)

    def _told(self, group: str, delta: str, files: str = "") -> Iterator[Event]:
        obj_id = ObjId(group)
        yield GroupRecomputed(obj_id=obj_id, delta=delta, files=files)
        yield TickApplied(obj_id=obj_id, tick_kind="group", turn_id=self._context.round_id, delta=delta)


_G = TypeVar("_G", bound=Ticking)


def bottom_up(groups: Sequence[_G]) -> list[_G]:
    """Each group after all that it holds, and otherwise in their order; one that holds another is no member of it."""
    known = {group.obj_id: group for group in groups}
    ordered: dict[str, _G] = {}
    waiting = list(reversed(groups))
    while waiting:
        below = [each for each in waiting[-1].children() if each.obj_id in known and each.obj_id not in ordered]
        if below:
            waiting += [known[each.obj_id] for each in reversed(below)]
        else:
            ordered.setdefault(waiting[-1].obj_id, waiting[-1])
            waiting.pop()
    return list(ordered.values())


def is_group_due(node: Ticking, context: TickContext) -> bool:
    """Whether it runs, and its interval has passed."""
    if not node.running:
        return False
    # What is prepared for an "Async" group was applied by now, and so were the changes of its members.
    return is_round(node, context) if isinstance(node.freq, str) else is_time(node, context.now)


# foreseen:
# What a tick would find now, for whoever only looks: no node changes, and nothing counts as told.
#
# A node that is due says in one line what it would adopt. What is prepared beside ticks (`Async`) is not known before
# it is there. Called by the Board.


def foreseen(context: TickContext) -> Iterator[tuple[Ticking, str]]:
    """The nodes that would change in such a tick by what their sources hold now, each with the line."""
    for node in context.nodes:
        is_due = is_round(node, context) if node.freq == "Sync" else is_time(node, context.now)
        if is_due and (line := node.foresee()):
            yield node, line
    for group in context.groups:
        if is_group_due(group, context) and (line := group.foresee()):
            yield group, line


# phases:
# The phases of a tick in their declared order. A phase goes from the tick's context to events.
#
# Adding one is a file and a row in `PHASES`. Called by the Board.

Phase = Callable[[TickContext], Iterator[Event]]

PHASES: Final[tuple[tuple[str, Phase], ...]] = (
    ("async", asynchronous),
    ("sync", sync),
    ("periodic", periodic),
    ("group", group),
)
"""What was prepared comes first, so that nothing is looked at for which it is there; groups last, over what came of it
all."""


def phases_of(context: TickContext) -> Iterator[Event]:
    """Ticks the nodes once, as far as the events are taken; they come in the order in which things happen."""
    for _, phase in PHASES:
        yield from phase(context)
