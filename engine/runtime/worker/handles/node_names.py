"""The names by which statements make, show, hold and tick nodes: `view`, `show`, `group`, `pin` and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeVar

from ....context.tail.timeline import Policy
from ....core.domain import is_inside
from ....core.ids import ObjId
from ....core.text import cut_line, printable
from ....files import document
from ....files.detail import checked_lod
from ....files.document import Document, Documents, Pos
from ....files.group import GroupHandle
from ....files.node import NodeBase, checked_freq
from ....files.rendered import All, Budget, checked_budget
from ....files.ticks import Frequency
from ....files.view import ViewHandle
from ....log.events.nodes import GroupRecomputed, NodeChanged
from .live_nodes import LiveNodes, Ticks
from .states import Shown

# The names by which statements make, show, hold and tick nodes: `view`, `show`, `group`, `pin`, `unpin`, `tick`.
#
# Owns what their arguments may be. Must not know what becomes of the nodes. Made by the Board.

_LAST_LINE: Final = 10**12
_LONGEST_REASON: Final = 200
Mode = Literal["paused", "running"]
_N = TypeVar("_N", bound=NodeBase)


class NodeNames:
    """What is injected for one board.

    Args:
        show: told of each node that a result is to hold.
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
        """What statements find in their namespace."""
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
        tokens: Budget = 2000,
        lod: int = 0,
        mode: Mode = "paused",
        freq: Frequency | None = None,
        *,
        text: str | None = None,
        title: str = "text",
        first_line: int = 1,
        instead: NodeBase | None = None,
    ) -> ViewHandle:
        """A handle on a file (path, Path, open file, file:// URI), or on `text=`; its content is in the result.

        With both it shows the text as that file's (from `first_line` on), until Refresh() or Run() takes what is on
        disk. `freq` follows the file: "Sync" before each call of the model, ("Periodic", 5) every 5 seconds, "Async"
        when its new content has been prepared. A file that cannot be read gives a handle that says why. With `instead=`
        it takes that handle's place in groups and pins, and raises OSError for a file that cannot be read.
        """
        follow = _schedule(mode, freq)
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
        tokens: Budget = 4000,
        lod: int = 1,
        mode: Mode = "running",
        freq: Frequency | None = None,
    ) -> GroupHandle:
        """A summary of handles, and of files by path or glob, within one budget; it follows what it is made of.

        `lod` is the finest level a member may get. Pause() freezes it, Add() and Remove() change what it holds.
        """
        follow = _schedule(mode, freq)
        return self._made(GroupHandle(self._nodes.context, members, tokens=tokens, lod=lod, follow=follow))

    def _tick(self) -> list[NodeBase]:
        """Has running handles catch up with their sources now; those that changed."""
        changed: set[ObjId] = set()
        for event in self._ticks.asked(self._nodes.tick_context):
            self._nodes.emit(event)
            if isinstance(event, NodeChanged | GroupRecomputed):
                changed.add(event.obj_id)
        return [node for node in self._nodes.all() if node.obj_id in changed]

    def _show(self, obj: object, lod: int | None = None, tokens: Budget | None = None) -> None:
        """Puts a handle's content into this statement's result, at its own policy or the given one."""
        node = self._node("show", obj)
        lod = None if lod is None else checked_lod(lod)
        tokens = None if tokens is None else checked_budget(tokens)
        self._shown(Shown(node, lod, tokens))

    def _pin(self, obj: _N, reason: str = "") -> _N:
        """Keeps a handle in the tail of every prompt, whatever else there is, until unpin(obj)."""
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance] - called by user code
            raise TypeError(f"reason= is a string, not {type(reason).__name__}")
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
        # Because Python's own errors on wrong arguments name a function so, and statements know it by this name.
        _call.__qualname__ = _call.__name__.removeprefix("_")
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
    """Raises OSError where there is nothing to show, with the reason that a view of it would show."""
    revision = document.current
    if not revision.has_content:
        raise OSError(revision.notice.strip("()").partition(";")[0])


def _schedule(mode: object, freq: object) -> Frequency | None:
    """How often a new node is ticked; None for a paused one.

    Raises:
        ValueError: there is no such mode or frequency.
    """
    if mode not in {"paused", "running"}:
        raise ValueError(f'mode={mode!r}: "paused" or "running"')
    return None if freq is None and mode == "paused" else checked_freq(freq or "Sync")


# policies:
# Handles as arguments of what would make them so: what the timeline section writes in the place of superseded calls.
#
# Must not know which statements made them. Used by the Board.


def policies_of(ids: Iterable[str], nodes: LiveNodes, names: Mapping[int, str]) -> dict[str, Policy]:
    """Those of the handles with these ids that live, by their ids; `names` as the namespace has them."""
    found = ((obj_id, nodes.get(obj_id)) for obj_id in ids)
    return {obj_id: _policy(node, names) for obj_id, node in found if node is not None}


def _policy(node: NodeBase, names: Mapping[int, str]) -> Policy:
    members = _members(node, names) if isinstance(node, GroupHandle) else None
    pos = {"pos": _written(node.pos)} if isinstance(node, ViewHandle) else {}
    return Policy(
        name=names.get(id(node), ""),
        arguments={**pos, "tokens": repr(node.tokens), "lod": str(node.lod), **_policies_schedule(node)},
        members=members,
    )


def _policies_schedule(node: NodeBase) -> dict[str, str | None]:
    """A frequency has a handle run, and each kind of handle has a mode that needs no argument."""
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
    """As Python, where that is possible in the quotes that the instructions have."""
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text
