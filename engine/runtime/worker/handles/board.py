"""The Board: all nodes of one session, the tick, and the worker's share of a prompt."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from ....context.tail.sections import Tail, TailState, assemble, expansions
from ....core.execution import Display
from ....core.ids import ExecutionId, ObjId
from ....core.toolbox import STALE
from ....files import document
from ....files.buffers import AskEditor, Buffers, nobody
from ....files.changes import describe
from ....files.disk import Disk, Sizes
from ....files.document import Documents
from ....files.globs import Globbing
from ....files.looks import Looks
from ....files.node import NodeBase
from ....files.outline.model import Outliner
from ....files.outlines import Outlines
from ....files.revision import Revision
from ....files.sources import Files
from ....files.tails import FeedItem, HandleRow, News
from ....files.ticks import foreseen
from ....files.view import ViewHandle
from ....log.events import Event
from ....log.statements import UpdatePayload, Want
from .live_nodes import LiveNodes, Ticks
from .node_names import NodeNames, policies_of
from .states import (
    BoardReport,
    HandleStates,
    Listing,
    Shown,
    Smaller,
    group_surfaces,
    looked_at,
    pin_surfaces,
    reported,
    row,
)
from .trees import DirectTrees, Globs

# The Board: all nodes of one session, what an execution did to them, the tick, and the worker's share of a
# projection.
#
# Which nodes live is known to `live_nodes`, how statements make them to `node_names`. Called by the worker alone.


class Board:
    """The nodes of one session.

    Args:
        files: where content comes from.
        count: exact tokens; additive as `tokens.cut` says.
        cwd: absolute directory that relative paths start from and titles are relative to.
        directories: absolute roots of the workspace; files outside of them are titled by their absolute path.
        now: seconds since the epoch.
        outliner: what outlines contents.
        sizes: which files are held, and which are read by pages.
        ask_editor: gives the texts that the user's editor holds.
    """

    def __init__(
        self,
        files: Files,
        count: Callable[[str], int],
        cwd: str,
        directories: tuple[str, ...],
        now: Callable[[], float],
        outliner: Outliner,
        sizes: Sizes = Sizes(),  # noqa: B008 - it is immutable
        ask_editor: AskEditor = nobody,
    ) -> None:
        self.cwd = cwd
        self._count = count
        disk = Disk(files, DirectTrees(now), now, sizes)
        self.looks = Looks(disk, Buffers(files, now, ask_editor), now)
        self._documents = Documents(self.looks)
        self._ticks = Ticks(self.looks, now, self._followed)
        self.outlines = Outlines(outliner)
        globs = Globs(Globbing(self.looks, self.outlines.of, count), (cwd, *directories))
        self._nodes = LiveNodes(count, self.outlines.of, globs.glob, self._ticks)
        self._states = HandleStates(self._nodes, self._documents, self.looks, globs)
        self._shown: dict[str, Shown] = {}
        self._smaller = Smaller()
        self._names = NodeNames(self._nodes, self._documents, self._show, self._ticks, cwd, directories)

    def _followed(self) -> Iterable[str]:
        return (view.path for view in self._nodes.views() if view.running and view.path is not None)

    def _show(self, shown: Shown) -> None:
        self._shown[shown.node.obj_id] = shown

    def content(self, path: str) -> Revision:
        """What is at an absolute path now."""
        return self._documents.at(path, document.title_of(path, self.cwd), outside=False).current

    # --- names and handles -------------------------------------------------------------------------------------------

    def names(self) -> dict[str, object]:
        """What statements find in their namespace."""
        return self._names.names()

    def ls(self) -> Listing:
        """The handles there are, by the names that they have in the namespace of this execution."""
        if len(self._nodes.names()) < len(self._nodes.all()):
            gc.collect()  # because nobody knows yet what a statement that still runs has let go
        return Listing(self._rows())

    def state_of(self, node: NodeBase) -> dict[str, object]:
        """As `HandleStates.state_of`."""
        return self._states.state_of(node)

    def node_from(self, obj_id: str, state: object) -> NodeBase:
        """As `HandleStates.node_from`."""
        return self._states.node_from(obj_id, state)

    def handles(self) -> list[NodeBase]:
        """All nodes, in the order of their creation."""
        return self._nodes.all()

    def views(self) -> list[ViewHandle]:
        """The windows on documents among them."""
        return self._nodes.views()

    # --- one execution -----------------------------------------------------------------------------------------------

    @property
    def statement(self) -> int:
        """The number of the statement that runs, or ran last; 0 before the first."""
        return self._nodes.statement

    def begin(
        self,
        index: int,
        namespace: Mapping[str, object],
        *,
        execution_id: str = "",
        round_id: int = 0,
        times: Sequence[float] = (),
    ) -> None:
        """The statement `index` starts in `namespace`; the nodes that it makes are numbered from 1.

        Those that a thread of its makes when it has ended go on from its last number. In a re-run the ticks that it
        asks for took place at these `times`.
        """
        self._ticks.begin(ExecutionId(execution_id), round_id, times)
        self._shown.clear()
        self._nodes.begin(index, namespace)
        self.looks.begin()

    def finish(self) -> BoardReport:
        """The execution ended, however it did. A second call reports nothing."""
        self._ticks.end()
        shown, events = tuple(self._shown.values()), self._nodes.take_events()
        self._shown.clear()
        is_as_then = self.looks.are_as_then
        reports = [reported(entry, self._nodes.statement, is_as_then=is_as_then) for entry in shown]
        return BoardReport(
            displays=tuple(display for display, _ in reports),
            locations=tuple(location for _, location in reports if location is not None),
            events=(*self.looks.take(), *self.outlines.take(), *events),
        )

    # --- between executions ------------------------------------------------------------------------------------------

    def made(self) -> Iterable[int]:
        """Ids, as of `id()`, of the handles that this execution has made and that live."""
        return map(id, self._nodes.made())

    def let_go(self, loose: Collection[int]) -> None:
        """Ends those handles, by their `id()`, that nothing reaches; no name holds any of them."""
        if loose and any(id(node) in loose for node in self.handles()):
            gc.collect()

    def tick(
        self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = (), *, tells: bool = True
    ) -> tuple[Event, ...]:
        """Applies what was prepared and ticks all nodes once, in the order of their creation.

        Where nobody `tells`, nodes change alike, and no event and no delta says so.
        """
        self.looks.begin()
        events = self._ticks.step(self._nodes.tick_context(round_id, now, payloads), tells=tells)
        return (*self.looks.take(), *self.outlines.take(), *events)

    def foresee(self, round_id: int, now: float) -> tuple[FeedItem, ...]:
        """What a tick in that Round would find now, in the words of its nodes. Changes nothing."""
        found = foreseen(self._nodes.tick_context(round_id, now))
        return tuple(FeedItem(node.obj_id, line) for node, line in found)

    def wants(self) -> tuple[Want, ...]:
        """What could be prepared for ticks to come, of the nodes as they are."""
        return tuple(want for node in self._nodes.all() for want in node.wants())

    def tail(self, namespace: Mapping[str, object], budget: int, news: News) -> tuple[Tail, tuple[HandleRow, ...]]:
        """The tail block within `budget` tokens, and all rows of the handle table.

        Changes nothing. A row's `tokens` of 0 means All.
        """
        self._nodes.namespace = namespace
        standing = {render.obj_id: render for render in news.standing}
        with self._nodes.named() as names:
            rows = self._listed(names)
            state = TailState(
                rows=rows,
                news=news,
                expansions=expansions(news, rows),
                groups=group_surfaces(self._nodes, names, standing, news.diverged, self._smaller),
                pins=pin_surfaces(self._nodes, names, standing, self._smaller),
                policies=policies_of(_made_in(news), self._nodes, names),
            )
            return assemble(state, budget, self._count), rows

    def look(
        self, namespace: Mapping[str, object], names: Collection[str], tokens: int | None
    ) -> tuple[tuple[HandleRow, ...], dict[str, Display]]:
        """All rows of the handle table, and what the handles of these names, or ids, show. Changes nothing."""
        self._nodes.namespace = namespace
        with self._nodes.named() as known:
            rows = self._listed(known)
        wanted = {name: row.obj_id for row in rows for name in (row.name, row.obj_id) if name in names}
        nodes: dict[str, NodeBase] = {node.obj_id: node for node in self.handles()}
        return rows, {name: looked_at(nodes[obj_id], tokens) for name, obj_id in wanted.items()}

    def stale(self) -> tuple[ObjId, ...]:
        """Which nodes a tick would find changed. Asks the disk, and adopts nothing."""
        return tuple(node.obj_id for node in self.handles() if node.is_stale())

    def read(self) -> None:
        """A model has read the handles as they are."""
        for node in self.handles():
            node.mark_projected()

    def _rows(self) -> tuple[HandleRow, ...]:
        with self._nodes.named() as names:
            return self._listed(names)

    def _listed(self, names: Mapping[int, str]) -> tuple[HandleRow, ...]:
        return tuple(row(node, names.get(id(node), node.obj_id)) for node in self.handles())


def _made_in(news: News) -> Iterable[str]:
    return (made.obj_id for statement in news.statements for made in statement.made)


# last shown:
# What views have shown of a file that is about to be changed: the host refuses to overwrite what nobody has seen.
#
# The host knows what tools have read and written; which content a view shows is known here alone, and what that was.
# Used by `names`, around the tools that change files.

_MOST_CHARS = 2_000


class LastShown:
    """The content that each file's views show. `board` has the views."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def ask_to_change(self, ask: Callable[[str, dict[str, object], str | None], object]) -> Callable[..., object]:
        """`ask`, for tools with a path, with what a view has shown there; its refusals say what differs from that."""

        def asking(operation: str, arguments: dict[str, object], _: str | None = None) -> object:
            shown = self.revision(arguments.get("path"))
            try:
                return ask(operation, arguments, shown.digest if shown else None)
            except OSError as error:
                if shown is None or STALE not in str(error) or "\n" in str(error):
                    raise
                difference = self._difference(shown, arguments)
                raise type(error)(f"{error}. {difference}" if difference else str(error)) from None

        return asking

    def revision(self, path: object) -> Revision | None:
        """What a view shows of the file at that path: the one that is as the file is now, else the newest view's."""
        place = self._place(path)
        if place is None:
            return None
        views = [view for view in self._board.views() if view.path and os.path.realpath(view.path) == place]
        # A text that was given to a view is not the file's, and neither is what stands for one that cannot be read.
        shown = [view.revision for view in views if view.revision.digest and view.revision.encoding != "text"]
        if len({revision.digest for revision in shown}) > 1:
            now = self._board.content(place).digest
            shown.sort(key=lambda revision: revision.digest == now)
        return shown[-1] if shown else None

    def _place(self, path: object) -> str | None:
        if not isinstance(path, str):
            return None  # the host says what is wrong with it
        with suppress(ValueError, OSError):
            return os.path.realpath(os.path.join(self._board.cwd, os.path.expanduser(path)))
        return None

    def _difference(self, shown: Revision, arguments: dict[str, object]) -> str:
        place = self._place(arguments["path"])
        assert place is not None
        if shown.state == "paged":
            return ""
        now = self._board.content(place)
        if now.state == "paged":
            return ""
        return describe(str(arguments["path"]), shown.lines, now.lines, len, _MOST_CHARS)[1]
