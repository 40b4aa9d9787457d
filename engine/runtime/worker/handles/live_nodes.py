"""The living nodes: their ids and names, the variables that hold them, and when they may change.

`LiveNodes` refers to nodes weakly. A handle that the namespace cannot reach is gone, running or not, because no
statement could pause it. Only a pin, a group with it as a member, and the execution that made or showed it keep it
alive. Python notices unreachable objects at once unless they are in a cycle. Then it notices later, at another time in
each process, and a rebuild would list and tick other handles. So the Board collects garbage wherever a handle may be in
a cycle.

`Ticks` decides when nodes may change: in the thread of the running statement, or in a tick. The log has changes of
nodes as results of statements and ticks, and a re-run repeats those. A re-run cannot repeat the moment at which another
thread acts, so other threads may look and not change. It also has the times of ticks, which a re-run takes from the
record.

`Holding` knows which names hold handles, and held them before: these handles may have become unreachable. Must not know
what nodes show, nor phases of ticks. Used by the Board; `namespace` owns the `Holding`.
"""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace as with_fields

from ....core.ids import ExecutionId, ObjId
from ....files.globs import Glob
from ....files.group import GroupHandle
from ....files.looks import Looks
from ....files.node import NodeBase, NodeChangeError, NodeContext
from ....files.outlines import OutlineOf
from ....files.ticks import TickContext, phases_of
from ....files.view import ViewHandle
from ....log.events import Event
from ....log.events.nodes import NodeMade, StatementTicked
from ....log.statements import UpdatePayload
from ..contents import Contents

_CELL: Final = "<module>"
"""Python's name for a cell's code outside of functions."""


class LiveNodes:
    """The nodes of one board. `namespace` and `statement`, a number, are those of the latest execution."""

    def __init__(
        self,
        count: Callable[[str], int],
        outline: OutlineOf,
        glob: Callable[[str], Glob],
        ticks: Ticks,
        edited: Callable[[str], int],
    ) -> None:
        self.namespace: dict[str, object] = {}
        self.context = NodeContext(
            mint=self._mint,
            emit=self.emit,
            count=count,
            outline=outline,
            tells=lambda: ticks.tells,
            statement=lambda: self.statement,
            name=self.name_of,
            named=self.named,
            knows=lambda node: self.get(node.obj_id) is node,
            admit=ticks.admit,
            glob=glob,
            edited=edited,
        )
        self.statement = 0
        self._minted = 0
        self._nodes: WeakValueDictionary[str, NodeBase] = WeakValueDictionary()
        self._pins: dict[str, NodeBase] = {}
        self._events: list[Event] = []
        self._naming: Mapping[int, str] | None = None

    # --- the nodes ----------------------------------------------------------------------------------------------------

    def all(self) -> list[NodeBase]:
        """All nodes, in the order of their creation."""
        return [node for reference in self._nodes.valuerefs() if (node := reference()) is not None]

    def views(self) -> list[ViewHandle]:
        """The views among them."""
        return [node for node in self.all() if isinstance(node, ViewHandle)]

    def get(self, obj_id: str) -> NodeBase | None:
        """The living node of that id, or None."""
        return self._nodes.get(obj_id)

    def add(self, node: NodeBase) -> None:
        """Add a node that a statement has made."""
        self._nodes[node.obj_id] = node
        self.emit(NodeMade(obj_id=node.obj_id, obj_type=node.obj_type, statement=self.statement, line=self._line()))

    def put_back(self, node: NodeBase) -> None:
        """Add a restored node at its place, because nodes are ticked and listed in the order of their creation."""
        self._nodes[node.obj_id] = node
        nodes = sorted(self.all(), key=_made_at)
        self._nodes.clear()
        self._nodes.update((each.obj_id, each) for each in nodes)

    def replace(self, node: NodeBase, other: NodeBase) -> None:
        """Replace the node in every group, and its pin, by `other`, which is in no group."""
        for holder in node.holders():
            if isinstance(holder, GroupHandle):
                holder.Replace(node, other)
        if node.pinned is not None:
            self.pin(other, node.pinned)
            self.unpin(node)

    def tick_context(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickContext:
        """The context for the phases of a tick."""
        nodes = self.all()
        groups = [node for node in nodes if isinstance(node, GroupHandle)]
        others = [node for node in nodes if not isinstance(node, GroupHandle)]
        return TickContext(nodes=others, groups=groups, round_id=round_id, now=now, payloads=payloads)

    # --- pins --------------------------------------------------------------------------------------------------------

    def pin(self, node: NodeBase, reason: str) -> None:
        """Keep the node alive, and give it priority in the tail."""
        self._pins[node.obj_id] = node
        node.favour(reason)

    def unpin(self, node: NodeBase) -> None:
        """Undo `pin`."""
        self._pins.pop(node.obj_id, None)
        node.favour(None)

    def made(self) -> list[NodeBase]:
        """The living nodes that this execution made."""
        last = f"-{self.statement}."
        return [node for node in self.all() if last in node.obj_id] if self._minted else []

    # --- names -------------------------------------------------------------------------------------------------------

    def names(self) -> dict[int, str]:
        """The first plain name of each node in the namespace, by the node's `id()`."""
        nodes = {id(node) for node in self.all()}
        names: dict[int, str] = {}
        # Compared by identity, because `isinstance` may run code of user objects.
        for name, value in self.namespace.copy().items():
            if id(value) in nodes and _is_name(name):
                names.setdefault(id(value), name)
        return names

    @contextmanager
    def named(self) -> Generator[Mapping[int, str]]:
        """Search the namespace once for `names`, and use them for all names in the block."""
        outer = self._naming
        self._naming = self.names() if outer is None else outer
        try:
            yield self._naming
        finally:
            self._naming = outer

    def name_of(self, node: NodeBase) -> str:
        """The first plain name of the node in the namespace, else its id."""
        if self._naming is not None:
            return self._naming.get(id(node), node.obj_id)
        for name, value in self.namespace.copy().items():
            if value is node and _is_name(name):
                return name
        return node.obj_id

    # --- one execution -----------------------------------------------------------------------------------------------

    def begin(self, index: int, namespace: dict[str, object]) -> None:
        """Start the statement `index` in `namespace`; its nodes are numbered from 1."""
        self.namespace = namespace
        self._events.clear()
        self.statement, self._minted = index, 0

    def take_events(self) -> tuple[Event, ...]:
        """The events of nodes since the last call, in order; new nodes have their current names."""
        events, self._events = self._events, []
        return tuple(self._named(event) if isinstance(event, NodeMade) else event for event in events)

    def _named(self, made: NodeMade) -> NodeMade:
        node = self.get(made.obj_id)
        name = made.obj_id if node is None else self.name_of(node)
        return made if name == made.obj_id else with_fields(made, name=name)

    def emit(self, event: Event) -> None:
        """Record an event of a node."""
        self._events.append(event)

    def _mint(self, obj_type: str) -> ObjId:
        self._minted += 1
        return ObjId(f"{obj_type}-{self.statement}.{self._minted}")

    def _line(self) -> int:
        """The current line of the running cell; 0 if no cell of this namespace is on the stack."""
        frame = inspect.currentframe()
        while frame is not None:
            if frame.f_globals is self.namespace and frame.f_code.co_name == _CELL:
                return frame.f_lineno
            frame = frame.f_back
        return 0


def _made_at(node: NodeBase) -> tuple[int, ...]:
    """The order of creation: the numbers of statement and node."""
    return tuple(int(number) for number in node.obj_id.rpartition("-")[2].split(".") if number.isdecimal())


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and not name.startswith("_")


class Ticks:
    """The ticks of one board. `now` is in seconds since the epoch; `paths` gives the files that a tick will read."""

    def __init__(self, looks: Looks, now: Callable[[], float], paths: Callable[[], Iterable[str]]) -> None:
        self._looks = looks
        self._now = now
        self._paths = paths
        self._thread: int | None = None
        self._execution_id = ExecutionId("")
        self._round_id = 0
        self._times: deque[float] = deque()
        self._payloads: Sequence[UpdatePayload] = ()
        self.tells = True
        """Whether changes in the current step are reported."""

    def admit(self, what: str) -> None:
        """Raise NodeChangeError unless the calling thread may change nodes now."""
        if self._thread != threading.get_ident():
            raise NodeChangeError(what)

    def begin(
        self, execution_id: ExecutionId, round_id: int, times: Iterable[float], payloads: Sequence[UpdatePayload]
    ) -> None:
        """Begin a statement in the calling thread; in a re-run its ticks use these `times`.

        The first of them applies `payloads`.
        """
        self._thread = threading.get_ident()
        self._execution_id, self._round_id = execution_id, round_id
        self._times = deque(times)
        self._payloads = payloads
        self.tells = True

    def end(self) -> None:
        """End the statement."""
        self._thread = None
        self._payloads = ()

    def step(self, context: TickContext, *, tells: bool) -> tuple[Event, ...]:
        """A tick between statements, in the calling thread. Without `tells`, nodes change without reports."""
        self.tells = tells
        self._thread = threading.get_ident()
        try:
            return tuple(self._run(context))
        finally:
            self._thread = None

    def asked(self, context_at: Callable[[int, float], TickContext]) -> Iterator[Event]:
        """A tick that a running statement requests; yields events. Raises NodeChangeError outside of one.

        `context_at` returns the context of a tick in a Round at a time.
        """
        self.admit("tick")
        now = self._times.popleft() if self._times else self._now()
        payloads, self._payloads = self._payloads, ()
        context = replace(context_at(self._round_id, now), payloads=payloads, asked=True)
        yield StatementTicked(
            execution_id=self._execution_id,
            round_id=self._round_id,
            now=now,
            nodes=sum(node.running for node in (*context.nodes, *context.groups)),
        )
        yield from self._run(context)

    def _run(self, context: TickContext) -> Iterator[Event]:
        self._looks.begin_tick(self._paths)
        try:
            yield from phases_of(context)
        finally:
            self._looks.end_tick()


class Holding:
    """The names of one namespace that contain handles now (`names`). `shares` has the parts of all names."""

    def __init__(self, shares: Mapping[str, frozenset[int]]) -> None:
        self._shares = shares
        self.names: set[str] = set()
        self._lost: set[int] = set()

    def note(self, name: str, before: frozenset[int], now: Contents) -> None:
        """Note the contents of a name, and its parts before."""
        if name in self.names:
            self._lost |= before - now.parts
        (self.names.add if now.handles else self.names.discard)(name)

    def forget(self, name: str, before: frozenset[int]) -> None:
        """Note that a name is gone, and the parts that it had."""
        if name in self.names:
            self._lost |= before
            self.names.discard(name)

    def unheld(self, made: Iterable[int]) -> set[int]:
        """The objects that names have lost since the last call, and those in `made`, except what names contain now.

        A handle among them is unreachable from the namespace, or held in an unknown way: under a name with two
        underscores, by a thread, by a library.
        """
        lost, self._lost = self._lost.union(made), set()
        if lost:
            for name in self.names:
                lost -= lost & self._shares.get(name, frozenset())
        return lost
