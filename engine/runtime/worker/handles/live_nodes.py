"""Which nodes live, and what they need of their board: ids, names, where their events go, who holds them.

Nodes are held weakly: a handle that the namespace cannot reach any more is gone, running or not, because no statement
could pause it any more. Only a pin holds one, a group that has it as a member, and the execution that made or showed it
until that ends. Python notices at once that nothing reaches an object, unless it is in a cycle of references: then it
notices at some later time, another one in each process, and a rebuild would list and tick other handles than there
were. So the Board has garbage collected wherever a handle may be in it. Must not know what nodes show. Used by the
Board and by what makes nodes for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from ....core.ids import ObjId
from ....files.globs import Glob
from ....files.group import GroupHandle
from ....files.node import NodeBase, NodeContext
from ....files.outlines import OutlineOf
from ....files.ticks import TickContext
from ....files.view import ViewHandle
from ....log.events import Event
from ....log.events.nodes import NodeMade
from ....log.statements import UpdatePayload
from .ticking import Ticks

_CELL: Final = "<module>"
"""What Python calls the code of a cell outside its functions."""


class LiveNodes:
    """The nodes of one board. `namespace` and `statement`, a number, are those of the latest execution."""

    def __init__(
        self,
        count: Callable[[str], int],
        outline: OutlineOf,
        glob: Callable[[str], Glob],
        ticks: Ticks,
    ) -> None:
        self.namespace: Mapping[str, object] = {}
        self.context = NodeContext(
            mint=self._mint,
            emit=self.emit,
            count=count,
            outline=outline,
            tells=lambda: ticks.tells,
            statement=lambda: self.statement,
            name=self.name_of,
            knows=lambda node: self.get(node.obj_id) is node,
            admit=ticks.admit,
            glob=glob,
        )
        self.statement = 0
        self._minted = 0
        self._nodes: WeakValueDictionary[str, NodeBase] = WeakValueDictionary()
        self._pins: dict[str, NodeBase] = {}
        self._events: list[Event] = []
        self._naming: Mapping[int, str] | None = None

    # --- which there are ---------------------------------------------------------------------------------------------

    def all(self) -> list[NodeBase]:
        """All nodes, in the order of their creation."""
        return [node for reference in self._nodes.valuerefs() if (node := reference()) is not None]

    def views(self) -> list[ViewHandle]:
        """The windows on documents among them."""
        return [node for node in self.all() if isinstance(node, ViewHandle)]

    def get(self, obj_id: str) -> NodeBase | None:
        """The living node of that id."""
        return self._nodes.get(obj_id)

    def add(self, node: NodeBase) -> None:
        """A statement has made a node."""
        self._nodes[node.obj_id] = node
        self.emit(NodeMade(obj_id=node.obj_id, obj_type=node.obj_type, statement=self.statement, line=self._line()))

    def put_back(self, node: NodeBase) -> None:
        """A node that was made before lives again. Nodes are ticked and listed in the order in which they were made."""
        self._nodes[node.obj_id] = node
        nodes = sorted(self.all(), key=_made_at)
        self._nodes.clear()
        self._nodes.update((each.obj_id, each) for each in nodes)

    def replace(self, node: NodeBase, other: NodeBase) -> None:
        """Puts `other`, which is in no group, in the node's place in every group, and where it is pinned."""
        for holder in node.holders():
            if isinstance(holder, GroupHandle):
                holder.Replace(node, other)
        if node.pinned is not None:
            self.pin(other, node.pinned)
            self.unpin(node)

    def tick_context(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickContext:
        """What the phases of a tick are given."""
        nodes = self.all()
        groups = [node for node in nodes if isinstance(node, GroupHandle)]
        others = [node for node in nodes if not isinstance(node, GroupHandle)]
        return TickContext(nodes=others, groups=groups, round_id=round_id, now=now, payloads=payloads)

    # --- pins --------------------------------------------------------------------------------------------------------

    def pin(self, node: NodeBase, reason: str) -> None:
        """Holds the node, whoever else lets it go, and has it favoured."""
        self._pins[node.obj_id] = node
        node.favour(reason)

    def unpin(self, node: NodeBase) -> None:
        """Ends that."""
        self._pins.pop(node.obj_id, None)
        node.favour(None)

    def made(self) -> list[NodeBase]:
        """Those that this execution has made and that live."""
        last = f"-{self.statement}."
        return [node for node in self.all() if last in node.obj_id] if self._minted else []

    # --- names -------------------------------------------------------------------------------------------------------

    def names(self) -> dict[int, str]:
        """What the namespace calls its nodes, by their identity: the first plain name of each."""
        nodes = {id(node) for node in self.all()}
        names: dict[int, str] = {}
        # Compared by identity, because `isinstance` would run code of the user's own objects.
        for name, value in tuple(self.namespace.items()):
            if id(value) in nodes and _is_name(name):
                names.setdefault(id(value), name)
        return names

    @contextmanager
    def named(self) -> Generator[Mapping[int, str]]:
        """`names`, which within the block every node's name is looked up in: a namespace is gone through once."""
        self._naming = self.names()
        try:
            yield self._naming
        finally:
            self._naming = None

    def name_of(self, node: NodeBase) -> str:
        """The first plain name that the namespace has for the node; its id where there is none."""
        if self._naming is not None:
            return self._naming.get(id(node), node.obj_id)
        for name, value in tuple(self.namespace.items()):
            if value is node and _is_name(name):
                return name
        return node.obj_id

    # --- one execution -----------------------------------------------------------------------------------------------

    def begin(self, index: int, namespace: Mapping[str, object]) -> None:
        """The statement `index` starts in `namespace`; the nodes that it makes are numbered from 1."""
        self.namespace = namespace
        self._events.clear()
        self.statement, self._minted = index, 0

    def take_events(self) -> tuple[Event, ...]:
        """What happened to nodes since this was called last, in order; the nodes made are named as they are now."""
        events, self._events = self._events, []
        return tuple(self._named(event) if isinstance(event, NodeMade) else event for event in events)

    def _named(self, made: NodeMade) -> NodeMade:
        node = self.get(made.obj_id)
        name = made.obj_id if node is None else self.name_of(node)
        return made if name == made.obj_id else replace(made, name=name)

    def emit(self, event: Event) -> None:
        """Something happened to a node."""
        self._events.append(event)

    def _mint(self, obj_type: str) -> ObjId:
        self._minted += 1
        return ObjId(f"{obj_type}-{self.statement}.{self._minted}")

    def _line(self) -> int:
        """The line of the cell that is being executed; 0 where no cell of this namespace called us."""
        frame = inspect.currentframe()
        while frame is not None:
            if frame.f_globals is self.namespace and frame.f_code.co_name == _CELL:
                return frame.f_lineno
            frame = frame.f_back
        return 0


def _made_at(node: NodeBase) -> tuple[int, ...]:
    """What orders nodes by when they were made: the numbers of statement and node."""
    return tuple(int(number) for number in node.obj_id.rpartition("-")[2].split(".") if number.isdecimal())


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and not name.startswith("_")
