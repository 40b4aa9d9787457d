"""The Board: all views and groups of one session, and the functions with which statements make them.

`Board` reports what an execution did to nodes, performs the tick, and renders the worker's share of a prompt.
`NodeNames` are the injected functions `view`, `show`, `group`, `pin`, `unpin` and `tick`. `LastShown` tells the host
which content of a file the views show, so that it can refuse to overwrite unseen content. `live_nodes` knows which
nodes live. Must not know how statements run. Used by the interpreter alone.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeVar

from ....context.tail.sections import Tail, TailState, assemble
from ....core.domain import is_inside
from ....core.ids import ExecutionId, ObjId
from ....core.text import cut_line, printable
from ....core.toolbox import STALE
from ....files import document
from ....files.buffers import AskEditor, Buffers, nobody
from ....files.changes import describe
from ....files.detail import checked_lod
from ....files.disk import Disk, Sizes
from ....files.document import Document, Documents, Pos
from ....files.globs import Globbing
from ....files.group import GroupHandle
from ....files.looks import Looks
from ....files.node import NodeBase, schedule
from ....files.outline.model import Outliner
from ....files.outlines import Outlines
from ....files.rendered import All, Budget, checked_budget
from ....files.revision import Hide, Revision
from ....files.safe_open import real_path
from ....files.sources import Files
from ....files.tails import FeedItem, HandleRow, Looked, News, Policy
from ....files.ticks import Frequency, foreseen
from ....files.view import ViewHandle
from ....log.events import Event
from ....log.events.nodes import GroupRecomputed, NodeChanged
from ....log.statements import UpdatePayload, Want
from .live_nodes import LiveNodes, Ticks
from .states import (
    BoardReport,
    HandleStates,
    Listing,
    Shown,
    Smaller,
    Surfaces,
    looked_at,
    net,
    reported,
    row,
)
from .trees import DirectTrees, Globs

_LAST_LINE: Final = 10**12
_LONGEST_REASON: Final = 200
Mode = Literal["paused", "running"]
_N = TypeVar("_N", bound=NodeBase)
_DIFFERENCE_CHARS = 2_000


class Board:
    """The nodes of one session.

    Args:
        files: the source of content.
        count: counts tokens exactly; additive as `tokens.cut` says.
        cwd: absolute directory; relative paths start from it, and titles are relative to it.
        directories: absolute roots of the workspace. The title of a file outside is its absolute path.
        now: seconds since the epoch.
        outliner: makes outlines.
        sizes: limits of files in memory; larger ones are read by pages.
        ask_editor: returns the editor's buffers.
        hide: hides secrets in what is displayed.
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
        *,
        hide: Hide,
    ) -> None:
        self.cwd = cwd
        self._count = count
        disk = Disk(files, DirectTrees(now), now, hide, sizes)
        self.looks = Looks(disk, Buffers(files, now, hide, ask_editor), now)
        self._documents = Documents(self.looks)
        self._ticks = Ticks(self.looks, now, self._followed)
        self.outlines = Outlines(outliner)
        self._edited: dict[str, int] = {}
        """The last statement that wrote each file, by the file's real path and its path as named."""
        globs = Globs(Globbing(self.looks, self.outlines.of, count, self._last_edit), (cwd, *directories))
        self._nodes = LiveNodes(count, self.outlines.of, globs.glob, self._ticks, self._last_edit)
        self._states = HandleStates(self._nodes, self._documents, self.looks, globs)
        self._shown: dict[str, Shown] = {}
        self._smaller = Smaller()
        self._is_unread = False
        """Whether no conversation has the result of the running statement."""
        self._known: dict[str, bool] = {}
        """Renders of the statement that the conversation shows, and whether a model has read them."""
        self._names = NodeNames(self._nodes, self._documents, self._show, self._ticks, cwd, directories)

    def _followed(self) -> Iterable[str]:
        return (view.path for view in self._nodes.views() if view.running and view.path is not None)

    def _show(self, shown: Shown) -> None:
        self._shown[shown.node.obj_id] = shown

    def content(self, path: str) -> Revision:
        """The current revision of an absolute path."""
        return self._documents.at(path, document.title_of(path, self.cwd), outside=False).current

    def note_edit(self, *paths: str) -> None:
        """Note that the running statement wrote a file, which has these absolute paths."""
        self._edited |= dict.fromkeys(paths, self._nodes.statement)

    def _last_edit(self, path: str) -> int:
        return self._edited.get(path, 0)

    # --- names and handles -------------------------------------------------------------------------------------------

    def names(self) -> dict[str, object]:
        """See `NodeNames.names`."""
        return self._names.names()

    def ls(self) -> Listing:
        """List the handles with their names in the namespace of this execution."""
        if len(self._nodes.names()) < len(self._nodes.all()):
            gc.collect()  # a running statement may have dropped some
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
        """The views among them."""
        return self._nodes.views()

    # --- one execution -----------------------------------------------------------------------------------------------

    @property
    def statement(self) -> int:
        """The number of the running or latest statement; 0 before the first."""
        return self._nodes.statement

    def begin(
        self,
        index: int,
        namespace: dict[str, object],
        *,
        execution_id: str = "",
        round_id: int = 0,
        times: Sequence[float] = (),
        payloads: Sequence[UpdatePayload] = (),
        unread: bool = False,
        known: Collection[str] = (),
        is_known_read: bool = False,
    ) -> None:
        """Start the statement `index` in `namespace`; its nodes are numbered from 1.

        Nodes that its threads make after its end continue its numbers. In a re-run, its own ticks use these `times`.
        The first of its ticks applies `payloads`.
        """
        self._ticks.begin(ExecutionId(execution_id), round_id, times, payloads)
        self._shown.clear()
        self._nodes.begin(index, namespace)
        self._is_unread = unread
        self._known = dict.fromkeys(known, is_known_read)
        self.looks.begin()

    def finish(self) -> BoardReport:
        """End the execution and report on it. A second call reports nothing."""
        self._ticks.end()
        shown, events = tuple(self._shown.values()), self._nodes.take_events()
        self._shown.clear()
        known = self._known if self._is_unread else None
        reports = [reported(entry, self._nodes.statement, known) for entry in shown]
        return BoardReport(
            displays=tuple(display for display, _ in reports),
            locations=tuple(location for _, location in reports if location is not None),
            events=(*self.looks.take(), *self.outlines.take(), *events),
        )

    # --- between executions ------------------------------------------------------------------------------------------

    def made(self) -> Iterable[int]:
        """The `id()` of each living handle that this execution made."""
        return map(id, self._nodes.made())

    def let_go(self, loose: Collection[int]) -> None:
        """End handles that are unreachable. `loose` are the `id()` of those without a name."""
        if loose and any(id(node) in loose for node in self.handles()):
            gc.collect()

    def tick(
        self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = (), *, tells: bool = True
    ) -> tuple[Event, ...]:
        """Apply prepared updates and tick all nodes once, in the order of their creation.

        With `tells` False, nodes change as usual, but without events or deltas.
        """
        self.looks.begin()
        events = self._ticks.step(self._nodes.tick_context(round_id, now, payloads), tells=tells)
        return (*self.looks.take(), *self.outlines.take(), *events)

    def foresee(self, round_id: int, now: float) -> tuple[FeedItem, ...]:
        """Preview a tick in that Round, with a line for each changed node. Changes nothing."""
        found = foreseen(self._nodes.tick_context(round_id, now))
        return tuple(FeedItem(node.obj_id, line) for node, line in found)

    def wants(self) -> tuple[Want, ...]:
        """Requests of the nodes to prepare updates ahead of their ticks."""
        return tuple(want for node in self._nodes.all() for want in node.wants())

    def tail(self, namespace: dict[str, object], budget: int, news: News) -> tuple[Tail, tuple[HandleRow, ...]]:
        """Render the tail within `budget` tokens, with all rows of the handle table.

        Changes nothing. A row's `tokens` of 0 means All.
        """
        self._nodes.namespace = namespace
        with self._nodes.named() as names:
            rows = self._listed(names)
            surfaces = Surfaces(self._nodes, names, news, self._smaller)
            state = TailState(
                rows=rows,
                news=net(news, {node.obj_id: node for node in self.handles()}, surfaces),
                expansions=surfaces.expansions,
                groups=surfaces.groups,
                pins=surfaces.pins,
                policies=policies_of(_made_in(news), self._nodes, names),
            )
            return assemble(state, budget, self._count), rows

    def look(self, namespace: dict[str, object], names: Collection[str], tokens: int | None) -> Looked:
        """Return all rows of the handle table, and renders and policies of these names or ids. Changes nothing."""
        self._nodes.namespace = namespace
        with self._nodes.named() as known:
            rows = self._listed(known)
        wanted = {name: row.obj_id for row in rows for name in (row.name, row.obj_id) if name in names}
        nodes: dict[str, NodeBase] = {node.obj_id: node for node in self.handles()}
        return Looked(
            rows=rows,
            shown={name: looked_at(nodes[obj_id], tokens) for name, obj_id in wanted.items()},
            policies={name: _policy(nodes[obj_id], known) for name, obj_id in wanted.items()},
        )

    def stale(self) -> tuple[ObjId, ...]:
        """Nodes that a tick would change. Reads the disk, and changes nothing."""
        return tuple(node.obj_id for node in self.handles() if node.is_stale())

    def read(self) -> None:
        """Note that a model has read the handles."""
        for node in self.handles():
            node.mark_projected()

    def _rows(self) -> tuple[HandleRow, ...]:
        with self._nodes.named() as names:
            return self._listed(names)

    def _listed(self, names: Mapping[int, str]) -> tuple[HandleRow, ...]:
        return tuple(row(node, names.get(id(node), node.obj_id)) for node in self.handles())


def _made_in(news: News) -> Iterable[str]:
    return (made.obj_id for statement in news.statements for made in statement.made)


class LastShown:
    """The content that the views of a file show."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def ask_to_change(self, ask: Callable[[str, dict[str, object], str | None], object]) -> Callable[..., object]:
        """Wrap `ask` for tools with a path: add the digest that a view shows, and add the difference to a refusal."""

        def asking(operation: str, arguments: dict[str, object], _: str | None = None) -> object:
            shown = self.revision(arguments.get("path"))
            try:
                answer = ask(operation, arguments, shown.digest if shown else None)
                self._note_edit(arguments.get("path"))
                return answer
            except OSError as error:
                if shown is None or STALE not in str(error) or "\n" in str(error):
                    raise
                difference = self._difference(shown, arguments)
                raise type(error)(f"{error}. {difference}" if difference else str(error)) from None

        return asking

    def _note_edit(self, path: object) -> None:
        place = self._place(path)
        if place is not None and isinstance(path, str):
            named = os.path.normpath(os.path.join(self._board.cwd, os.path.expanduser(path)))
            self._board.note_edit(place, named)

    def revision(self, path: object) -> Revision | None:
        """The revision that a view of that path shows: the current one if a view has it, else the newest view's."""
        place = self._place(path)
        if place is None:
            return None
        views = [view for view in self._board.views() if view.path and real_path(view.path) == place]
        # Not the text that a statement passed to `view`, nor the note on an unreadable file.
        shown = [view.revision for view in views if view.revision.digest and view.revision.encoding != "text"]
        if len({revision.digest for revision in shown}) > 1:
            now = self._board.content(place).digest
            shown.sort(key=lambda revision: revision.digest == now)
        return shown[-1] if shown else None

    def _place(self, path: object) -> str | None:
        if not isinstance(path, str):
            return None  # the host reports the error
        with suppress(ValueError, OSError):
            return real_path(os.path.join(self._board.cwd, os.path.expanduser(path)))
        return None

    def _difference(self, shown: Revision, arguments: dict[str, object]) -> str:
        place = self._place(arguments["path"])
        assert place is not None
        if shown.state == "paged":
            return ""
        now = self._board.content(place)
        if now.state == "paged":
            return ""
        return describe(str(arguments["path"]), shown.lines, now.lines, len, _DIFFERENCE_CHARS)[1]


# --- the functions of statements --------------------------------------------------------------------------------------


class NodeNames:
    """The functions that are injected for one board.

    Args:
        show: called with each node that the result will contain.
        cwd: absolute directory that relative paths start from and titles are relative to.
        directories: absolute roots of the workspace; files outside of them are titled by their absolute path.
    """

    def __init__(
        self,
        nodes: LiveNodes,
        documents: Documents,
        show: Callable[[Shown], None],
        ticks: Ticks,
        cwd: str,
        directories: tuple[str, ...],
    ) -> None:
        self._nodes = nodes
        self._documents = documents
        self._shown = show
        self._ticks = ticks
        self._cwd = cwd
        self._directories = directories

    def names(self) -> dict[str, object]:
        """The injected functions by name."""
        return {
            "view": self._view,
            "group": self._group,
            "show": self._show,
            "pin": self._pin,
            "unpin": self._unpin,
            "tick": self._tick,
            "All": All,
        }

    def _view(
        self,
        path: object = None,
        pos: Pos = "0:0",
        tokens: Budget = ViewHandle.default_tokens,
        lod: int = 0,
        mode: Mode | None = None,
        freq: Frequency | Literal["Periodic", "paused"] | None = None,
        *,
        text: str | None = None,
        title: str = "text",
        first_line: int = 1,
        instead: NodeBase | None = None,
    ) -> ViewHandle:
        """A handle on a file (path, Path, open file, file:// URI), or on `text=`; its content is in the result.

            view("src/app.py", pos="120", tokens=800)
            view("src/app.py", "App.run", lod=1)
            view("build.log", freq="Sync")

        With both it shows the text as that file's (from `first_line` on), until Refresh() or Run() takes what is on
        disk. `freq` follows the file: "Sync" before each call of the model, ("Periodic", 5) every 5 seconds, "Async"
        when its new content has been prepared; without one, or with "paused", it changes by its methods alone. A file
        that cannot be read gives a handle that says why. With `instead=` it takes that handle's place in groups and
        pins, and raises OSError for a file that cannot be read.
        """
        follow = schedule(mode, freq)
        if path is None and text is None:
            raise TypeError("view() takes a path or an open file, or text=...")
        if not isinstance(text, str | None) or not isinstance(title, str):  # pyright: ignore[reportUnnecessaryIsInstance] - called by user code
            raise TypeError(f"text= and title= must be strings, not {type(text).__name__} and {type(title).__name__}")
        if isinstance(first_line, bool) or not isinstance(first_line, int) or not 1 <= first_line <= _LAST_LINE:  # pyright: ignore[reportUnnecessaryIsInstance] - called by user code
            raise ValueError(f"first_line={first_line!r}: give a line number, counted from 1")
        if path is not None:
            document = self._file(path, text, first_line)
        else:
            document = self._documents.of_text(text or "", printable(title), first_line=first_line)
        other = None if instead is None else self._node("view", instead)
        if other is not None:
            _check_readable(document)
        made = self._made(ViewHandle(self._nodes.context, document, pos=pos, tokens=tokens, lod=lod, follow=follow))
        if other is not None:
            self._nodes.replace(other, made)
        return made

    def _group(
        self,
        *members: NodeBase | str,
        tokens: Budget = GroupHandle.default_tokens,
        lod: int = 1,
        mode: Mode | None = None,
        freq: Frequency | Literal["Periodic", "paused"] | None = None,
    ) -> GroupHandle:
        """A summary of handles, and of files by path or glob, within one budget; it follows its members.

            group("src/*.py", tokens=2000)
            group(app, tests, lod=2)

        `lod` is the finest level a member may get. Pause() freezes it, Add() and Remove() change its members.
        """
        follow = schedule(mode or ("running" if freq is None else None), freq)
        return self._made(GroupHandle(self._nodes.context, members, tokens=tokens, lod=lod, follow=follow))

    def _tick(self) -> list[NodeBase]:
        """Brings running handles up to date with their sources now, and returns those that changed.

        What was prepared for "Async" handles before this statement is applied first.

        changed = tick()
        """
        changed: set[ObjId] = set()
        for event in self._ticks.asked(self._nodes.tick_context):
            self._nodes.emit(event)
            if isinstance(event, NodeChanged | GroupRecomputed):
                changed.add(event.obj_id)
        return [node for node in self._nodes.all() if node.obj_id in changed]

    def _show(self, obj: object, lod: int | None = None, tokens: Budget | None = None) -> None:
        """Puts a handle's content into this statement's result, at its own policy or the given one.

        show(app)
        show(app, lod=1, tokens=300)
        """
        node = self._node("show", obj)
        lod = None if lod is None else checked_lod(lod)
        tokens = None if tokens is None else checked_budget(tokens)
        self._shown(Shown(node, lod, tokens))

    def _pin(self, obj: _N, reason: str = "") -> _N:
        """Keeps a handle in the tail of every prompt, whatever else there is, until unpin(obj).

        pin(app, "the file to fix")
        """
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance] - called by user code
            raise TypeError(f"reason= must be a string, not {type(reason).__name__}")
        node = self._changed("pin", obj)
        self._nodes.pin(node, cut_line(printable(reason), _LONGEST_REASON))
        return obj

    def _unpin(self, obj: _N) -> _N:
        """Ends pin(obj)."""
        self._nodes.unpin(self._changed("unpin", obj))
        return obj

    def _made(self, node: _N) -> _N:
        self._nodes.add(node)
        self._shown(Shown(node))
        return node

    def _node(self, name: str, obj: object) -> NodeBase:
        if not isinstance(obj, NodeBase):
            raise TypeError(f"{name}() takes a handle made by view() or group(), not {type(obj).__name__}")
        return obj

    for _call in (_view, _group, _show, _pin, _unpin, _tick):
        # Python's errors about wrong arguments contain this name, and so does help().
        _call.__qualname__ = _call.__name__ = _call.__name__.removeprefix("_")
    del _call

    def _changed(self, name: str, obj: object) -> NodeBase:
        node = self._node(name, obj)
        self._nodes.context.admit(name)
        return node

    def _file(self, path: object, text: str | None, first_line: int) -> Document:
        absolute = document.path_of(path, self._cwd)
        title = document.title_of(absolute, self._cwd)
        outside = not is_inside(absolute, (self._cwd, *self._directories))
        if text is not None:
            return self._documents.of_text(text, title, absolute, first_line=first_line, outside=outside)
        return self._documents.at(absolute, title, outside=outside)


def _check_readable(document: Document) -> None:
    """Raises OSError if there is no content, with the reason that a view would show."""
    revision = document.current
    if not revision.has_content:
        raise OSError(revision.notice.strip("()").partition(";")[0])


# --- policies ---------------------------------------------------------------------------------------------------------


def policies_of(ids: Iterable[str], nodes: LiveNodes, names: Mapping[int, str]) -> dict[str, Policy]:
    """The policies of living handles, by id, as arguments of the calls that would make them.

    The timeline section shows them in place of superseded calls. `names` are the handles' variables by `id()`.
    """
    found = ((obj_id, nodes.get(obj_id)) for obj_id in ids)
    return {obj_id: _policy(node, names) for obj_id, node in found if node is not None}


def _policy(node: NodeBase, names: Mapping[int, str]) -> Policy:
    members = _members(node, names) if isinstance(node, GroupHandle) else None
    pos = {"pos": _written(node.pos)} if isinstance(node, ViewHandle) else {}
    return Policy(
        name=names.get(id(node), ""),
        arguments={**pos, "tokens": repr(node.tokens), "lod": str(node.lod), **_schedule_of(node)},
        members=members,
    )


def _schedule_of(node: NodeBase) -> dict[str, str | None]:
    """Its mode and frequency; None for a default. A frequency implies that the handle runs."""
    if not node.running:
        return {"mode": '"paused"' if isinstance(node, GroupHandle) else None, "freq": None}
    freq = f'("Periodic", {node.freq[1]:g})' if isinstance(node.freq, tuple) else _written(node.freq or "Sync")
    return {"mode": None, "freq": freq}


def _members(group: GroupHandle, names: Mapping[int, str]) -> tuple[str, ...] | None:
    written = [_member(each, names) for each in group.members]
    return None if None in written else tuple(each for each in written if each is not None)


def _member(member: object, names: Mapping[int, str]) -> str | None:
    return _written(member) if isinstance(member, str) else names.get(id(member))


def _written(value: str | int) -> str:
    """As Python source, in double quotes if possible, like the instructions."""
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text
