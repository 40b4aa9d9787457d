"""Ticks: running nodes look at their sources, in four phases, and report what changed as events.

The Board calls `phases_of` for each tick. Phases see nodes only through the Protocol `Ticking`, and change nothing but
nodes. Payloads prepared between ticks come first, so that no node reads what another process has read already; groups
come last, because they summarize changes of the earlier phases.

Which payloads a tick takes (`chosen`) is decided twice: by the host, which sends no others, and by the async phase,
which applies no others. The rest waits, in order, so no payload waits forever. A payload is superseded in the tick that
takes the newer one and not before. So a re-run, which gets the payloads of that tick alone, makes the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, NamedTuple, Protocol, TypeVar

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
"""Largest number of payloads that a tick applies."""


# --- what a node offers ----------------------------------------------------------------------------------------------


Frequency = Literal["Sync", "Async"] | tuple[Literal["Periodic"], float]
"""When a running node is ticked: once a Round, when a payload is ready, or after a number of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """A change of the file behind a node: absolute path, kind, xxh3 before and after (empty: no content)."""

    path: str
    change: FileChangeKind
    before_digest: str
    after_digest: str


class FileDiff(NamedTuple):
    """How the file at an absolute path became the content with this digest: a line, and a short diff."""

    path: str
    digest: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """The change of a node: `summary` is one line, `delta` adds a short diff if there is one. Empty: no change.

    `members` are the changed members of a group: node ids, and paths of globs. `files` is the part of `summary` about
    the files of globs, and `file_diffs` are the diffs of these.
    """

    summary: str = ""
    delta: str = ""
    members: tuple[str, ...] = ()
    files: str = ""
    file_diffs: tuple[FileDiff, ...] = ()
    source: SourceChange | None = None


UNCHANGED: Final = TickResult()


class Ticking(Protocol):
    """A node, as the phases see it."""

    obj_type: ClassVar[str]

    @property
    def obj_id(self) -> ObjId: ...

    @property
    def called(self) -> str:
        """The node's name in the namespace, or its id."""
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
        """The time of the last tick in seconds since the epoch.

        0.0 before the first.
        """
        ...

    def children(self) -> Sequence[Ticking]:
        """Return the members of a group that are nodes."""
        ...

    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult: ...

    def foresee(self) -> str:
        """Describe, in one line, the change that a tick would report now.

        Returns "" for none. Changes nothing.
        """
        ...

    def take_payload(self, payload: UpdatePayload, now: float, turn_id: int) -> TickResult | DropReason:
        """Apply a payload, or return the reason why not; then nothing has changed."""
        ...

    def wants(self) -> Iterable[Want]:
        """Return the work that would be useful for later ticks."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TickContext:
    """The input of one tick.

    `nodes` and `groups` are in the order of creation; `round_id` is the Round, `now` is in seconds since the epoch.
    `payloads` are sorted oldest first. `asked`: a statement called for this tick, so nodes look again even if they did
    in this Round. `reported` are the file changes, by path and digest, that events of this tick have reported.
    """

    nodes: Sequence[Ticking]
    groups: Sequence[Ticking] = ()
    round_id: int
    now: float
    payloads: Sequence[UpdatePayload] = ()
    asked: bool = False
    reported: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


def ticked(nodes: Iterable[Ticking], context: TickContext, kind: TickKind) -> Iterator[Event]:
    """Tick these nodes in order, and report the ones that changed."""
    for node in nodes:
        result = node.Tick(context.now, context.round_id, kind)
        if result is UNCHANGED:
            continue
        yield from changed(node, result, context, kind)


def changed(node: Ticking, result: TickResult, context: TickContext, kind: TickKind) -> Iterator[Event]:
    """Report the change of a node; the change of a file only once in a tick."""
    source = result.source
    if source is not None and (source.path, source.after_digest) not in context.reported:
        context.reported.add((source.path, source.after_digest))
        yield _file_changed(source, result.summary)
    yield NodeChanged(obj_id=node.obj_id, obj_type=node.obj_type, delta=result.delta, is_source=source is not None)
    yield TickApplied(obj_id=node.obj_id, tick_kind=kind, turn_id=context.round_id, delta=result.summary)


def _file_changed(source: SourceChange, summary: str) -> FileChanged:
    return FileChanged(
        path=source.path,
        change=source.change,
        before_digest=source.before_digest,
        after_digest=source.after_digest,
        delta=summary,
    )


# --- the async phase -------------------------------------------------------------------------------------------------


class Payload(Protocol):
    """The part of a payload that the choice depends on."""

    @property
    def obj_id(self) -> ObjId: ...

    @property
    def payload_kind(self) -> PayloadKind: ...


P = TypeVar("P", bound=Payload)


def chosen(waiting: Iterable[P]) -> tuple[Sequence[P], Sequence[P]]:
    """Choose the newest payload of each node and kind, at most `MOST`.

    Returns the chosen and the superseded ones of `waiting`, which is sorted oldest first; both keep that order.
    """
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


def asynchronous(context: TickContext) -> Iterator[Event]:
    """Apply the payloads of this tick, oldest first, or drop them with the reason.

    A payload is valid for one state of its node, its basis; the node decides whether it still is in that state. A
    statement that calls for a tick wants the present content, so Async nodes then look themselves.
    """
    if context.payloads:
        yield from _prepared(context)
    if context.asked:
        yield from ticked((node for node in context.nodes if _looks(node, context)), context, "async")


def _prepared(context: TickContext) -> Iterator[Event]:
    taken, superseded = chosen(context.payloads)
    for payload in superseded:
        yield _dropped(payload, "superseded", context)
    nodes = {node.obj_id: node for node in (*context.nodes, *context.groups)}
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


def _looks(node: Ticking, context: TickContext) -> bool:
    return node.freq == "Async" and is_round(node, context)


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


# --- the periodic phase ----------------------------------------------------------------------------------------------


def periodic(context: TickContext) -> Iterator[Event]:
    """Tick the nodes whose interval has passed by the clock of the tick.

    Intervals are counted from the last look, so missed ones run once.
    """
    return ticked((node for node in context.nodes if is_time(node, context.now)), context, "periodic")


def is_time(node: Ticking, now: float) -> bool:
    """Return whether a node runs, and its interval has passed.

    A last tick in the future counts as due: then the clock was set back, and the node would wait for that long.
    """
    freq = node.freq
    if not node.running or not isinstance(freq, tuple):
        return False
    last = node.last_tick_time
    return not last <= now < last + freq[1]


# --- the sync phase --------------------------------------------------------------------------------------------------


def sync(context: TickContext) -> Iterator[Event]:
    """Tick the Sync nodes that are due in this Round."""
    return ticked((node for node in context.nodes if node.freq == "Sync" and is_round(node, context)), context, "sync")


def is_round(node: Ticking, context: TickContext) -> bool:
    """Return whether a node runs, and its `min_turn_interval` of Rounds has passed.

    A tick that a statement calls for is an extra one, for nodes whose interval is one Round.
    """
    if not node.running:
        return False
    last, interval = node.last_tick_turn, node.min_turn_interval
    return last < 0 or context.round_id - last >= interval or (context.asked and interval == 1)


# --- the group phase -------------------------------------------------------------------------------------------------


_NAMED: Final = 3
"""Number of inner groups that a line names."""


def group(context: TickContext) -> Iterator[Event]:
    """Tick the groups that are due, inner ones first.

    A change in a leaf of nested groups recomputes all of them, and should be reported once. So a group reports nothing
    if only groups changed in it and a group around it is recomputed, too: the innermost group names the changed member,
    and the outermost names the group.
    """
    changes = _Changes(context)
    for node in bottom_up(context.groups):
        if is_group_due(node, context):
            result = node.Tick(context.now, context.round_id, "group")
            if result is not UNCHANGED:
                yield from changes.add(node, result)
    yield from changes.rest()


class _Changes:
    """The groups that a tick has recomputed, and which of them report it."""

    def __init__(self, context: TickContext) -> None:
        self._context = context
        self._groups = {group.obj_id: group for group in context.groups}
        self._sources: dict[str, tuple[str, ...]] = {}
        """For each group, the groups in it (or itself) with changed members that are not groups."""
        self._waiting: dict[str, str] = {}
        """Lines of groups with only groups changed, until it is known whether a group around them changed."""

    def add(self, node: Ticking, result: TickResult) -> Iterator[Event]:
        summary, members = result.summary, result.members
        inner = [member for member in members if member in self._sources]
        for member in inner:
            if self._waiting.pop(member, None) is not None:
                yield from self._reported(member, "")
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
            diffs = [f"\n{each.text}" for each in result.file_diffs if self._is_new(each)]
            yield from self._reported(node.obj_id, summary, result.files, "".join(diffs))

    def _is_new(self, diff: FileDiff) -> bool:
        """Note the change of a file; return False if a view or another group has reported it."""
        key = diff.path, diff.digest
        is_new = key not in self._context.reported
        self._context.reported.add(key)
        return is_new

    def rest(self) -> Iterator[Event]:
        for obj_id, summary in self._waiting.items():
            yield from self._reported(obj_id, summary)

    def _reported(self, group: str, summary: str, files: str = "", diff: str = "") -> Iterator[Event]:
        obj_id = ObjId(group)
        yield GroupRecomputed(obj_id=obj_id, delta=summary + diff, files=files)
        yield TickApplied(obj_id=obj_id, tick_kind="group", turn_id=self._context.round_id, delta=summary)


_G = TypeVar("_G", bound=Ticking)


def bottom_up(groups: Sequence[_G]) -> list[_G]:
    """Sort groups so that each follows all its members; else in their order.

    Membership has no cycles.
    """
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
    """Return whether a group runs, and its interval has passed."""
    if not node.running:
        return False
    # Payloads of an "Async" group, and the changes of its members, have been applied by now.
    return is_round(node, context) if isinstance(node.freq, str) else is_time(node, context.now)


# --- previews --------------------------------------------------------------------------------------------------------


def foreseen(context: TickContext) -> Iterator[tuple[Ticking, str]]:
    """Yield the nodes that a tick would change now, with a line on each.

    Nothing changes.

    Payloads that are still being prepared are unknown and not included.
    """
    for node in context.nodes:
        is_due = is_round(node, context) if node.freq == "Sync" else is_time(node, context.now)
        if is_due and (line := node.foresee()):
            yield node, line
    for group in context.groups:
        if is_group_due(group, context) and (line := group.foresee()):
            yield group, line


# --- all phases ------------------------------------------------------------------------------------------------------


Phase = Callable[[TickContext], Iterator[Event]]

PHASES: Final[tuple[tuple[str, Phase], ...]] = (
    ("async", asynchronous),
    ("sync", sync),
    ("periodic", periodic),
    ("group", group),
)
"""In their order."""


def phases_of(context: TickContext) -> Iterator[Event]:
    """Run the phases; nodes are ticked while the caller takes the events."""
    for _, phase in PHASES:
        yield from phase(context)
