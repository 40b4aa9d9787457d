"""Handles in other forms: plain data and back, rows of a list, renders, and surfaces in the tail.

`HandleStates` has one row for each type of node. A file's content is named by its digest and taken from the record of a
replay. If the record has lost it, the handle says so. Renders are those of handles that an execution made or showed.
Surfaces are groups and pinned handles in the tail, most important first: pinned, then changed since a model read it,
then most recently used. Must not know which handles exist, nor how much room the tail has. Used by the Board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import msgspec
from msgspec import structs

from ....context.tail.section_parts import Block, Surface, as_shown_by, line
from ....core.execution import Display, Location
from ....core.ids import ObjId
from ....core.text import more
from ....files.document import Document, Documents
from ....files.globs import Glob
from ....files.group import GroupHandle, glob_state, glob_state_from, group_state
from ....files.looks import Looks
from ....files.node import NodeBase, NodeContext, shown_frequency
from ....files.rendered import All, Budget, RenderedView, ShownRevision, ShownRevisions, limit_of
from ....files.revision import Revision
from ....files.tails import Expansion, FeedItem, HandleRow, News, StandingRender
from ....files.view import ShownState, ViewHandle, ViewState, view_state
from ....log.events import Event
from .live_nodes import LiveNodes
from .trees import Globs

_TYPE: Final = "type"
_MEMBERS: Final = "members"
_SCHEDULE: Final = ("mode", "freq", "min_turn_interval", "pinned")
"""Fields of a digest that do not change what the node shows. A node that becomes paused counts as changed anyway."""
_LISTED: Final = 20
_KEPT: Final = 4
"""Cached smaller renders of one node."""
DIFFERING: Final = "gave different results when run again"
_NAMED: Final = 8
"""The most handles of diverged statements in one heading."""
Diverged = Mapping[str, tuple[int, ...]]
"""The numbers of statements whose re-run differed, by the ids of their handles."""


class HandleStates:
    """Makes the nodes of one board from their states."""

    def __init__(self, nodes: LiveNodes, documents: Documents, looks: Looks, globs: Globs) -> None:
        self._nodes = nodes
        self._documents = documents
        self._looks = looks
        self._globs = globs
        self._makers: dict[str, Callable[[str, dict[str, Any]], NodeBase]] = {
            ViewHandle.obj_type: self._view,
            GroupHandle.obj_type: self._group,
        }

    def state_of(self, node: NodeBase) -> dict[str, object]:
        """The whole state of a node except its id; a group's members are in it as nodes."""
        state = cast("dict[str, object]", msgspec.to_builtins(node.state()))
        if not isinstance(node, GroupHandle):
            return state
        members = [msgspec.to_builtins(glob_state(each)) if isinstance(each, Glob) else each for each in node.held()]
        return {**state, _MEMBERS: members}

    def node_from(self, obj_id: str, state: object) -> NodeBase:
        """Set the living node of that id to a state from `state_of`; make one if none lives.

        Raises:
            ValueError: it is not a state; nothing was changed.
        """
        try:
            known = msgspec.convert(state, dict[str, Any])
        except msgspec.ValidationError as error:
            raise ValueError(f"not the state of a handle: {error}") from None
        make = self._makers.get(str(known.get(_TYPE)))
        if make is None:
            raise ValueError("not the state of a handle: unknown type")
        before = self._nodes.get(obj_id)
        seen = None if before is None else (before.changed, before.running, _shown(before))
        node = make(obj_id, known)
        if seen is not None and node is before:
            was_changed, was_running, shown = seen
            # The state is from another time, so it does not tell what was read since.
            if was_changed or (was_running and not node.running) or shown != _shown(node):
                node.mark_changed()
        if node.pinned is not None:
            self._nodes.pin(node, node.pinned)
        if self._nodes.get(obj_id) is not node:
            self._nodes.put_back(node)
        return node

    def _context(self, obj_id: str) -> NodeContext:
        return replace(self._nodes.context, mint=partial(_given, ObjId(obj_id)))

    def _view(self, obj_id: str, state: dict[str, Any]) -> NodeBase:
        wanted = view_state(state)
        document, revision = self._document_of(wanted)
        node = self._nodes.get(obj_id)
        if not isinstance(node, ViewHandle):
            node = ViewHandle(self._context(obj_id), document, pos="0:0", tokens=All, lod=wanted.lod)
        read = None if wanted.read is None else self._shown_of(wanted, wanted.read, revision)
        unread = tuple(self._shown_of(wanted, shown, revision) for shown in wanted.unread[-2:])
        node.restore(wanted, document, revision, ShownRevisions(read, unread, is_other=wanted.shows_other))
        return node

    def _group(self, obj_id: str, state: dict[str, Any]) -> NodeBase:
        wanted = group_state({key: value for key, value in state.items() if key != _MEMBERS})
        if not isinstance(state.get(_MEMBERS), list):
            raise ValueError("not the state of a group: it has no members")
        node = self._nodes.get(obj_id)
        if not isinstance(node, GroupHandle):
            node = GroupHandle(self._context(obj_id), (), tokens=All, lod=wanted.lod, follow=None)
        node.restore(wanted, [each if isinstance(each, NodeBase) else self._glob(each) for each in state[_MEMBERS]])
        return node

    def _glob(self, state: object) -> Glob:
        wanted = glob_state_from(state)
        glob = self._globs.known(wanted.root, wanted.pattern, wanted.text)
        contents = {
            each.path: (each.mark, self._looks.known(glob.path_of(each.path), each.path, each))
            for each in wanted.contents
        }
        shown: dict[str, ShownRevisions] = {}
        for each in wanted.shown:
            revision = self._looks.known(glob.path_of(each.path), each.path, each)
            of_file = shown.setdefault(each.path, ShownRevisions())
            of_file.displayed(ShownRevision(revision, each.statement))
            if each.is_read:
                of_file.mark_read()
        glob.take(self._looks.known(glob.key, wanted.text, wanted.manifest), contents, shown)
        return glob

    def _document_of(self, state: ViewState) -> tuple[Document, Revision]:
        if state.text is not None or state.path is None:
            document = self._documents.of_text(
                state.text or "", state.title, state.path, first_line=state.first_line, outside=state.outside
            )
            return document, document.current
        revision = self._looks.known(state.path, state.title, state)
        document = self._documents.held(state.path, state.title, revision, outside=state.outside)
        # Because views of one file share its revisions: another object would count as another content.
        return document, document.current if revision.same_as(document.current) else revision

    def _shown_of(self, state: ViewState, shown: ShownState, present: Revision) -> ShownRevision:
        if shown.is_present:
            return ShownRevision(present, shown.statement)
        if shown.text is not None or state.path is None:
            return ShownRevision(self._looks.text(shown.text or "", shown.first_line), shown.statement)
        return ShownRevision(self._looks.known(state.path, state.title, shown), shown.statement)


def _shown(node: NodeBase) -> dict[str, object]:
    """The part of a state that a reader can see. The frequency is not part of it."""
    return {key: value for key, value in node.GetDigest().items() if key not in _SCHEDULE}


def _given(obj_id: ObjId, _: str) -> ObjId:
    return obj_id


# --- rows of a list ---------------------------------------------------------------------------------------------------


def row(node: NodeBase, name: str) -> HandleRow:
    """The row of a handle under that name. Changes nothing."""
    return HandleRow(
        name=name,
        obj_id=node.obj_id,
        obj_type=node.obj_type,
        mode=node.mode,
        freq=shown_frequency(node),
        lod=node.lod,
        tokens=node.tokens if isinstance(node.tokens, int) else 0,
        used_tokens=node.measure().tokens,
        changed=node.changed,
        title=node.title,
        path=node.path or "",
        pinned=node.pinned is not None,
        idle=node.idle,
        children=tuple(child.obj_id for child in node.children()),
    )


@dataclass(frozen=True, slots=True, repr=False)
class Listing:
    """The result of `ls()`: its repr is the listing."""

    rows: tuple[HandleRow, ...]

    def __repr__(self) -> str:
        if not self.rows:
            return "no handles; view(path) makes one"
        left = len(self.rows) - _LISTED
        rest = more(left, "handle") if left > 0 else ""
        return ("".join(map(line, self.rows[:_LISTED])) + rest).rstrip("\n")


# --- renders of an execution ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardReport:
    """What one execution did to nodes: renders for its result, places it looked at, and events, all in order.

    Renders are at the nodes' final states. Locations are absolute paths with the first line shown, counted from 1.
    """

    displays: tuple[Display, ...] = ()
    locations: tuple[Location, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A handle that this execution made or showed, and the policy that `show` asked for."""

    node: NodeBase
    lod: int | None = None
    tokens: Budget | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is shown with its own policy."""
        return self.lod is None and self.tokens is None

    @property
    def policy(self) -> tuple[int, Budget]:
        """The level of detail and the budget."""
        node = self.node
        return node.lod if self.lod is None else self.lod, node.tokens if self.tokens is None else self.tokens

    @property
    def render(self) -> RenderedView:
        """The render at that policy; nothing changes."""
        return self.node.measure() if self.is_own else self.node.Render(self.lod, self.tokens)


def reported(entry: Shown, statement: int, known: Mapping[str, bool] | None) -> tuple[Display, Location | None]:
    """The render for the result of that statement, and the place in a file that it shows, if any.

    Nobody reads the result of a re-run: of what it shows, those renders that are `known` stand in the conversation, and
    the value says whether they were read. `known` is None in a first run.
    """
    node = entry.node
    render = node.rendered if entry.is_own else node.Render(entry.lod, entry.tokens)
    lod, budget = entry.policy
    display = _display(node, render, budget, lod, is_own=entry.is_own)
    if known is None or display.identity in known:
        node.mark_displayed(statement, render, entry.lod)
        if known is not None and known[display.identity]:
            node.mark_projected()
    elif any(each.startswith(f"{node.obj_id} ") for each in known):
        node.mark_other()
    if node.path is None or render.first_line is None:
        return display, None
    return display, Location(path=node.path, line=render.first_line)


def looked_at(node: NodeBase, tokens: int | None) -> Display:
    """The node's render with its own policy, within `tokens`. Changes nothing."""
    own = node.measure()
    if tokens is None or own.tokens <= tokens:
        return _display(node, own, node.tokens, node.lod, is_own=True)
    return _display(node, node.Render(None, node.at_most(tokens)), tokens, node.lod, is_own=False)


def _display(node: NodeBase, render: RenderedView, budget: Budget, lod: int, *, is_own: bool) -> Display:
    return Display(
        obj_id=node.obj_id,
        title=node.title,
        text=render.text,
        tokens=render.tokens,
        budget=budget if isinstance(budget, int) else 0,
        lod=lod,
        first_line=render.first_line,
        last_line=render.last_line,
        lines=node.line_count,
        state=node.document_state,
        reason=node.reason,
        freq="" if node.idle else shown_frequency(node),
        revision=node.fingerprint,
        digest=render.digest,
        given=not is_own,
    )


# --- news ------------------------------------------------------------------------------------------------------------


def net(news: News, nodes: Mapping[str, NodeBase], surfaces: Surfaces) -> News:
    """Replace the changes of each handle by one: from the content that the conversation shows to the present content.

    A diff for each change would show lines of versions that are gone. The net change takes the place of the last one. A
    content that is again as it was shown is not a change, unless the model has read about another one in between.
    Changes of handles that are gone are left out, and earlier changes of handles on a surface. Of two
    views of one file, the second refers to the first.
    """
    told = {item.obj_id for item in news.earlier}
    number = Counter(item.obj_id for item in news.items if item.is_source)
    places = (nodes[obj_id].path for obj_id in (*number, *told) if obj_id in nodes)
    paths = {path for path in places if path is not None}
    written: set[str] = set()

    def kept(items: Sequence[FeedItem], *, new: bool) -> tuple[FeedItem, ...]:
        found: list[FeedItem] = []
        for item in reversed(items):
            node = nodes.get(item.obj_id)
            if not item.obj_id or (node is not None and not item.is_source):
                found.append(item)
            elif node is None or item.obj_id in written:
                continue
            else:
                written.add(item.obj_id)
                is_told = item.obj_id in told and new
                text = node.net_change(since_read=number[item.obj_id], told=is_told, paths=paths)
                if text is None and new:
                    # Lines of a content that nobody was shown would tell nothing.
                    text = item.text if isinstance(node, GroupHandle) else item.text.partition("\n")[0]
                if text:
                    found.append(structs.replace(item, text=text))
        return tuple(reversed(found))

    items = kept(news.items, new=True)
    earlier = kept([item for item in news.earlier if item.obj_id not in surfaces.shown], new=False)
    first: dict[str, str] = {}
    for item in (*items, *earlier):
        first.setdefault(item.text, item.obj_id)

    def short(item: FeedItem) -> FeedItem:
        line, _, diff = item.text.partition("\n")
        obj_id = first[item.text]
        is_first = not diff or obj_id == item.obj_id
        return (
            item
            if is_first
            else structs.replace(
                item, text=f"{line}; the changed lines are the same as for {surfaces.name(nodes[obj_id])}"
            )
        )

    return structs.replace(news, items=tuple(map(short, items)), earlier=tuple(map(short, earlier)))


# --- surfaces in the tail ---------------------------------------------------------------------------------------------


class Smaller:
    """Renders of nodes below their own budgets, for tails that are short of room.

    The latest few of each node are cached until its content changes.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[NodeBase, tuple[RenderedView, dict[tuple[int, int], str]]] = WeakKeyDictionary()

    def within(self, shown: Shown, render: RenderedView) -> Callable[[int], str]:
        """Return a function that renders a node, which now shows `render`, within so many tokens."""
        node = shown.node
        lod, tokens = shown.policy
        kept = self._kept.get(node)
        if kept is None or kept[0].text != render.text:
            kept = self._kept[node] = render, {}
        texts = kept[1]

        def smaller(room: int) -> str:
            limit = min(room, limit_of(tokens))
            if (lod, limit) not in texts:
                if len(texts) == _KEPT:
                    texts.clear()
                budget = node.at_most(limit) if shown.tokens is None else limit
                texts[lod, limit] = node.Render(lod, budget).text
            return texts[lod, limit]

        return smaller


class Surfaces:
    """The surfaces of one tail, most important first. Each handle is on at most one of them, once.

    Statements from outside the model's turns may have shown a handle with several policies. The most detailed one is
    used: the finest level, then the largest budget, then one that somebody chose. For a pinned handle or a group, its
    own policy is one of them.
    """

    def __init__(self, nodes: LiveNodes, names: Mapping[int, str], news: News, smaller: Smaller) -> None:
        self._names = names
        self._standing = {render.obj_id: render for render in news.standing}
        self._smaller = smaller
        living: dict[str, NodeBase] = {node.obj_id: node for node in nodes.all()}
        self._asked = dict[str, list[Shown]]()
        for each in reversed(news.expansions):
            if (node := living.get(each.obj_id)) is not None:
                self._asked.setdefault(each.obj_id, []).append(_asked_for(node, each))
        groups = _outer_groups(living.values())
        pinned = [node for node in living.values() if node.pinned is not None and not isinstance(node, GroupHandle)]
        pinned.sort(key=lambda node: node.last_touched, reverse=True)
        elsewhere = {node.obj_id for node in (*groups, *pinned)}
        self.shown = elsewhere.union(self._asked)
        """The ids of all handles on surfaces."""
        self.groups = tuple(self._group(group, news.diverged) for group in groups)
        self.pins = tuple(self._surface(node, "") for node in pinned)
        self.expansions = tuple(self._block(living[each]) for each in self._asked if each not in elsewhere)

    def _group(self, group: GroupHandle, diverged: Diverged) -> Surface:
        surface = self._surface(group, "group of ")
        differing = self._differing(group, diverged)
        if not differing:
            return surface
        return replace(surface, heading=f"{surface.heading[:-1]}; {differing})", shown_in=0)

    def _differing(self, group: GroupHandle, diverged: Diverged) -> str:
        """Return the group's handles of diverged statements, as a phrase; empty if there are none."""
        if not diverged:
            return ""
        found: dict[str, str] = {}
        waiting: list[NodeBase] = [group]
        while waiting:
            node = waiting.pop()
            if node.obj_id not in found:
                numbers = diverged.get(node.obj_id, ())
                said = f"{self.name(node)} of statement {', '.join(map(str, numbers))}"
                found[node.obj_id] = said if numbers else ""
                waiting += reversed(node.children())
        named = [text for text in found.values() if text]
        rest = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        return f"{DIFFERING}: {', '.join(named[:_NAMED])}{rest}" if named else ""

    def _surface(self, node: NodeBase, what: str) -> Surface:
        shown = _most_detailed([Shown(node), *self._asked.get(node.obj_id, ())])
        render = shown.render
        reason = "" if node.pinned is None else f"; pinned: {node.pinned}" if node.pinned else "; pinned"
        return Surface(
            obj_id=node.obj_id,
            name=self.name(node),
            heading=f"{self.name(node)} ({what}{node.title}{reason})",
            text=render.text,
            render=self._smaller.within(shown, render),
            shown_in=_shown_in(render, self._standing.get(node.obj_id)),
        )

    def _block(self, node: NodeBase) -> Block:
        render = _most_detailed(self._asked[node.obj_id]).render
        name, heading = self.name(node), f"{self.name(node)}: {node.title}"
        statement = _shown_in(render, self._standing.get(node.obj_id))
        text = f"{heading}, {as_shown_by(statement)}\n" if statement else f"{heading}\n{render.text}"
        return Block(node.obj_id, name, text)

    def name(self, node: NodeBase) -> str:
        """Return the node's name in the namespace, or its id."""
        return self._names.get(id(node), node.obj_id)


def _outer_groups(nodes: Iterable[NodeBase]) -> list[GroupHandle]:
    """Return the groups that no other group shows, and those that are pinned."""
    found = [node for node in nodes if isinstance(node, GroupHandle)]
    inner = {id(child) for group in found for child in group.children()}
    shown = [group for group in found if id(group) not in inner or group.pinned is not None]
    return sorted(shown, key=lambda group: (group.pinned is not None, group.changed, group.last_touched), reverse=True)


def _asked_for(node: NodeBase, expansion: Expansion) -> Shown:
    return Shown(node) if expansion.is_own else Shown(node, expansion.lod, expansion.tokens or All)


def _most_detailed(ways: Sequence[Shown]) -> Shown:
    def detail(shown: Shown) -> tuple[int, int, bool]:
        lod, tokens = shown.policy
        return -lod, limit_of(tokens), shown.tokens is not None or not shown.node.sparing

    return max(ways, key=detail)


def _shown_in(own: RenderedView, standing: StandingRender | None) -> int:
    """The number of the statement whose result shows the node; 0 for none.

    A render of the same content with another policy counts if it is not smaller. So reducing a node's tokens costs no
    second render as long as the first one is in the View.
    """
    if standing is None:
        return 0
    is_enough = standing.is_old_policy and own.tokens <= standing.tokens
    return standing.statement if is_enough or standing.digest == own.digest else 0
