"""The Board: all nodes of one session, the names injected for them, the tick, and the worker's share of a projection.

Nodes are held weakly: a handle that the namespace cannot reach any more is gone, running or not, because no statement
could pause it any more. Only the execution that made or showed a handle holds it, until `finish`. Python notices at
once that nothing reaches an object, unless it is in a cycle of references: then it notices at some later time, another
one in each process, and a rebuild would list and tick other handles than there were. So garbage is collected wherever a
handle may be in it (`let_go`, `ls`). Called by the worker alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal
from weakref import WeakValueDictionary

from ..events import Event
from ..events.nodes import NodeChanged
from ..ids import ObjId
from ..nodes import source
from ..nodes.base import NodeContext, checked_freq
from ..nodes.budget import All, Budget, checked_budget
from ..nodes.disk import Disk
from ..nodes.document import Document, Documents
from ..nodes.lod import checked_lod
from ..nodes.looks import Looks
from ..nodes.position import Pos
from ..nodes.revision import Revision, from_text
from ..nodes.view_handle import ViewHandle
from ..nodes.view_state import ShownRevision, ShownState, ViewState, plain, view_state
from ..ports import Files, HandleRow
from ..projection.deltas import Delta, DeltaFeed
from ..projection.tail import assemble
from ..text import printable
from ..ticks import TickContext, run
from ..ticks.result import Frequency
from .listing import Listing, row
from .shown import BoardReport, Shown, reported

_NAMESPACE: Final = "namespace"
"""What stands in the feed for the name of a node, of what is about none."""
_LAST_LINE: Final = 10**12


class Board:
    """The nodes of one session.

    Args:
        files: where content comes from.
        count: exact tokens; additive as `tokens.cut` says.
        cwd: absolute directory that relative paths start from and titles are relative to.
        directories: absolute roots of the workspace; files outside of them are titled by their absolute path.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        files: Files,
        count: Callable[[str], int],
        cwd: str,
        directories: tuple[str, ...],
        now: Callable[[], float],
    ) -> None:
        self.cwd = cwd
        self._directories = directories
        self._count = count
        self.looks = Looks(Disk(files, now))
        self._documents = Documents(self.looks)
        self._index = 0
        self._minted = 0
        self._tells = True
        self._nodes: WeakValueDictionary[str, ViewHandle] = WeakValueDictionary()
        self._events: list[Event] = []
        self._shown: dict[str, Shown] = {}
        self._feed = DeltaFeed()
        self._namespace: Mapping[str, object] = {}
        self._context = NodeContext(mint=self._mint, emit=self._events.append, count=count, tells=lambda: self._tells)

    def _mint(self, obj_type: str) -> ObjId:
        self._minted += 1
        return ObjId(f"{obj_type}-{self._index}.{self._minted}")

    def content(self, path: str) -> Revision:
        """What is at an absolute path now."""
        return self._documents.at(path, source.title_of(path, self.cwd), outside=False).current

    # --- injected names ----------------------------------------------------------------------------------------------

    def names(self) -> dict[str, object]:
        """What statements find in their namespace."""
        return {"view": self._view, "show": self._show, "All": All}

    def _view(
        self,
        path: object = None,
        pos: Pos = "0:0",
        tokens: Budget = 2000,
        lod: int = 0,
        mode: Literal["paused", "running"] = "paused",
        freq: Frequency | None = None,
        *,
        text: str | None = None,
        title: str = "text",
        first_line: int = 1,
    ) -> ViewHandle:
        """A handle on a file (path, Path, open file, file:// URI), or on `text=`; its content is in the result.

        With both it shows the text as that file's (from `first_line` on), until Refresh() or Run() takes what is on
        disk. `freq` follows the file: "Sync" once per Round, ("Periodic", 5) every 5 seconds, "Async" when its new
        content has been prepared. A file that cannot be read gives a handle that says why.
        """
        if mode not in {"paused", "running"}:
            raise ValueError(f'mode={mode!r}: "paused" or "running"')
        follow = None if freq is None and mode == "paused" else checked_freq(freq or "Sync")
        if path is None and text is None:
            raise TypeError("view() takes a path or an open file, or text=...")
        if not isinstance(text, str | None) or not isinstance(title, str):  # pyright: ignore[reportUnnecessaryIsInstance] - called by user code
            raise TypeError(f"text= and title= are strings, not {type(text).__name__} and {type(title).__name__}")
        if isinstance(first_line, bool) or not isinstance(first_line, int) or not 1 <= first_line <= _LAST_LINE:  # pyright: ignore[reportUnnecessaryIsInstance] - called by user code
            raise ValueError(f"first_line={first_line!r}: the number of a line, counted from 1")
        if path is not None:
            document = self._file(path, text, first_line)
        else:
            document = self._documents.of_text(text or "", printable(title), first_line=first_line)
        node = ViewHandle(self._context, document, pos=pos, tokens=tokens, lod=lod, follow=follow)
        self._nodes[node.obj_id] = node
        self._shown[node.obj_id] = Shown(node)
        return node

    def _show(self, obj: object, lod: int | None = None, tokens: Budget | None = None) -> None:
        """Puts a handle's content into this statement's result, at its own policy or the given one."""
        if not isinstance(obj, ViewHandle):
            raise TypeError(f"show() takes a handle made by view(), not {type(obj).__name__}")
        lod = None if lod is None else checked_lod(lod)
        tokens = None if tokens is None else checked_budget(tokens)
        self._shown[obj.obj_id] = Shown(obj, lod, tokens)

    def _file(self, path: object, text: str | None, first_line: int) -> Document:
        absolute = source.path_of(path, self.cwd)
        title = source.title_of(absolute, self.cwd)
        outside = not source.is_inside(absolute, (self.cwd, *self._directories))
        if text is not None:
            return self._documents.of_text(text, title, absolute, first_line=first_line, outside=outside)
        return self._documents.at(absolute, title, outside=outside)

    def ls(self) -> Listing:
        """The handles there are, by the names that they have in the namespace of this execution."""
        if len(self._names(self._namespace)) < len(self._nodes):
            gc.collect()  # because nobody knows yet what a statement that still runs has let go
        return Listing(self._rows(self._namespace))

    # --- handles as plain data ---------------------------------------------------------------------------------------

    def state_of(self, node: ViewHandle) -> dict[str, object]:
        """All that there is to the handle but its id, as plain data; what a file held is named by its digest."""
        return plain(node.state())

    def node_from(self, obj_id: str, state: object) -> ViewHandle:
        """The living handle of that id in that state, which `state_of` gave; a new one where none lives.

        What the file held is taken from the record of a replay. Where that has it no more, the handle says so.

        Raises:
            ValueError: it is no state; nothing was changed.
        """
        wanted = view_state(state)
        document, revision = self._document_of(wanted)
        node = self._nodes.get(obj_id)
        if node is None:
            context = replace(self._context, mint=partial(_given, ObjId(obj_id)))
            node = ViewHandle(context, document, pos="0:0", tokens=All, lod=wanted.lod)
        read = None if wanted.read is None else self._shown_of(wanted, wanted.read, revision)
        unread = tuple(self._shown_of(wanted, shown, revision) for shown in wanted.unread[-2:])
        node.restore(wanted, document, revision, read, unread)
        if obj_id not in self._nodes:
            self._nodes[obj_id] = node
            # Handles are ticked and listed in the order in which statements made them.
            nodes = sorted(self.handles(), key=_made_at)
            self._nodes.clear()
            self._nodes.update((each.obj_id, each) for each in nodes)
        return node

    def _document_of(self, state: ViewState) -> tuple[Document, Revision]:
        if state.text is not None or state.path is None:
            document = self._documents.of_text(
                state.text or "", state.title, state.path, first_line=state.first_line, outside=state.outside
            )
            return document, document.current
        revision = self.looks.known(state.path, state.title, state)
        document = self._documents.held(state.path, state.title, revision, outside=state.outside)
        # Views of one file share its revisions; another object would count as another content when it is adopted.
        return document, document.current if revision.same_as(document.current) else revision

    def _shown_of(self, state: ViewState, shown: ShownState, present: Revision) -> ShownRevision:
        if shown.is_present:
            return ShownRevision(present, shown.statement)
        if shown.text is not None or state.path is None:
            return ShownRevision(from_text(shown.text or "", shown.first_line), shown.statement)
        return ShownRevision(self.looks.known(state.path, state.title, shown), shown.statement)

    # --- one execution -----------------------------------------------------------------------------------------------

    def begin(self, index: int, namespace: Mapping[str, object]) -> None:
        """The statement `index` starts in `namespace`; the nodes that it makes are numbered from 1.

        Those that a thread of its makes when it has ended go on from its last number.
        """
        self._namespace = namespace
        self._shown.clear()
        self._events.clear()
        self._index, self._minted = index, 0
        self.looks.begin()

    def finish(self) -> BoardReport:
        """The execution ended, however it did. A second call reports nothing."""
        shown, events = tuple(self._shown.values()), tuple(self._events)
        self._shown.clear()
        self._events.clear()
        reports = [reported(entry, self._index) for entry in shown]
        return BoardReport(
            displays=tuple(display for display, _ in reports),
            locations=tuple(location for _, location in reports if location is not None),
            events=(*self.looks.take(), *events),
        )

    # --- between executions ------------------------------------------------------------------------------------------

    def made(self) -> Iterable[int]:
        """Ids, as of `id()`, of the handles that this execution has made and that live."""
        last = f"-{self._index}."
        return [id(node) for node in self.handles() if last in node.obj_id] if self._minted else ()

    def let_go(self, loose: Collection[int]) -> None:
        """Ends those handles, by their `id()`, that nothing reaches; no name holds any of them."""
        if loose and any(id(node) in loose for node in self.handles()):
            gc.collect()

    def tick(self, round_id: int, now: float, *, tells: bool = True) -> tuple[Event, ...]:
        """Ticks all nodes once, in the order of their creation, and feeds what changed to the next `tail`.

        Where nobody `tells`, nodes change alike, and no event and no delta says so.
        """
        self.looks.begin()
        self.looks.begin_tick()
        self._tells = tells
        events = run(TickContext(nodes=self.handles(), round_id=round_id, now=now))
        for event in events:
            if isinstance(event, NodeChanged):
                self._feed.add(Delta(event.obj_id, event.delta))
        return (*self.looks.take(), *events)

    def note(self, sentence: str) -> None:
        """Feeds something that is about no node to the next `tail`."""
        self._feed.add(Delta(_NAMESPACE, sentence))

    def tail(
        self, namespace: Mapping[str, object], budget: int, news: Sequence[str] = ()
    ) -> tuple[str, int, tuple[HandleRow, ...]]:
        """The tail block within `budget` tokens, its exact tokens, and all rows of the handle table.

        `news` are sentences for this tail alone. Whoever looks at it takes nothing: `read` does. A row's `tokens` of 0
        means All.
        """
        self._namespace = namespace
        rows = self._rows(namespace)
        deltas, dropped = self._feed.waiting
        told = (*deltas, *(Delta(_NAMESPACE, sentence) for sentence in news))
        text, tokens = assemble(rows, (told, dropped), budget, self._count)
        return text, tokens, rows

    def read(self) -> None:
        """A model has read the tail: what it told is not told again."""
        self._feed.clear()
        for node in self.handles():
            node.mark_projected()

    def handles(self) -> list[ViewHandle]:
        """All nodes, in the order of their creation."""
        return [node for reference in self._nodes.valuerefs() if (node := reference()) is not None]

    def _rows(self, namespace: Mapping[str, object]) -> tuple[HandleRow, ...]:
        names = self._names(namespace)
        return tuple(row(node, names.get(id(node), node.obj_id)) for node in self.handles())

    def _names(self, namespace: Mapping[str, object]) -> Mapping[int, str]:
        """The first name of each handle that has one, by its `id()`."""
        nodes = {id(node) for node in self.handles()}
        names: dict[int, str] = {}
        # Compared by identity, because `isinstance` would run code of the user's own objects.
        for name, value in tuple(namespace.items()):
            if id(value) in nodes and _is_name(name):
                names.setdefault(id(value), name)
        return names


def _given(obj_id: ObjId, _: str) -> ObjId:
    return obj_id


def _made_at(node: ViewHandle) -> tuple[int, ...]:
    """What orders handles by when they were made: the numbers of statement and handle."""
    return tuple(int(number) for number in node.obj_id.rpartition("-")[2].split(".") if number.isdecimal())


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and not name.startswith("_")
