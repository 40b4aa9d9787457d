"""What may be in a group, and what it may not: the errors, and how a member is known by.

Used by GroupHandle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Literal

import msgspec
from msgspec.structs import asdict

from ..core.text import more, plural
from ..log.events.nodes import DropReason, RevisionState, TickKind
from ..log.statements import UpdatePayload, Want
from .detail import DIFFERENCES, LEVELS, checked_lod
from .globs import OVERVIEW, Glob
from .group_summary import Part, need_of, summarize
from .node import Aspect, NodeBase, NodeContext, mutating
from .rendered import All, Budget, RenderedView, ShownRevisions, checked_budget, limit_of
from .revision import Revision, without_content
from .ticks import UNCHANGED, Frequency, TickResult, bottom_up

Member = NodeBase | Glob


class GroupCycleError(ValueError):
    """Raised where a group would come to hold itself, directly or in one of its members."""


class ForeignMemberError(TypeError):
    """Raised for a member that is no node of this session."""


def member_of(context: NodeContext, member: object) -> Member:
    """What a group holds for what a statement gave it.

    Raises:
        ForeignMemberError: it is no node of this session, and no text.
        ValueError: the text is no path or glob of the workspace.
    """
    if isinstance(member, str):
        return context.glob(member)
    if not isinstance(member, NodeBase) or not context.knows(member):
        raise ForeignMemberError(
            f"{type(member).__name__} cannot be in a group: its members are handles made by view() or group(), and"
            " texts that are paths or globs"
        )
    return member


def key_of(member: Member) -> str:
    """By what a group knows a member, so that none is in it twice."""
    return member.key if isinstance(member, Glob) else member.obj_id


def identity_of(member: Member) -> str:
    """What a digest has of a member: of a glob also which files there are."""
    return f"{member.text} {member.manifest.digest}" if isinstance(member, Glob) else member.obj_id


def below(holder: NodeBase) -> list[NodeBase]:
    """All nodes that it holds, directly or in one of its members, each once."""
    found: dict[int, NodeBase] = {}
    waiting = [holder]
    while waiting:
        fresh = {id(child): child for child in waiting.pop().children() if id(child) not in found}
        found |= fresh
        waiting += fresh.values()
    return list(found.values())


def holds(holder: NodeBase, node: NodeBase) -> bool:
    """Whether `node` is below `holder`."""
    return any(each is node for each in below(holder))


# group state:
# The states of groups and of their globs as plain data, which outlive the process of the handle.
#
# Its members are not in it but beside it, as the nodes that they are, each with a state of its own. Called by
# GroupHandle and by who keeps handles.


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group. `tokens` of None are All. The others are as the handle's attributes of that name."""

    type: Literal["group"] = "group"
    tokens: int | None
    lod: int
    running: bool
    freq: Frequency | None
    min_turn_interval: int
    last_tick_turn: int
    last_tick_time: float
    changed: bool
    dirty: bool
    last_touched: int = 0
    pinned: str | None = None


def group_state(plain: object) -> GroupState:
    """The state that is this plain data. Raises ValueError for anything else."""
    try:
        return msgspec.convert(plain, GroupState)
    except msgspec.ValidationError as error:
        raise ValueError(f"no state of a group: {error}") from None


class SeenState(msgspec.Struct, frozen=True, kw_only=True):
    """What a glob has seen of a file, with its `path` and `mark` in the manifest, or of the manifest itself."""

    path: str = ""
    mark: str = ""
    state: RevisionState
    digest: str
    size: int
    notice: str

    @property
    def lost(self) -> str:
        """As `SeenRevision` has it: why a content cannot be had is not known here."""
        return ""


class ShownFileState(SeenState, frozen=True, kw_only=True):
    """What was displayed of a file by the statement of that index, and whether a model has read it."""

    statement: int
    is_read: bool


class GlobState(msgspec.Struct, frozen=True, kw_only=True):
    """A glob that is a member of a group. What its files held is named by digests."""

    type: Literal["glob"] = "glob"
    root: str
    pattern: str
    text: str
    manifest: SeenState
    contents: list[SeenState]
    shown: list[ShownFileState] = msgspec.field(default_factory=list[ShownFileState])


def glob_state(glob: Glob) -> GlobState:
    """The state of a glob that has been looked at."""
    contents = [_seen(revision, path, mark) for path, (mark, revision) in glob.contents.items()]
    manifest = _seen(glob.revision or without_content("missing", ""))
    shown = [state for path, revisions in glob.shown.items() for state in _shown(path, revisions)]
    return GlobState(
        root=glob.root, pattern=glob.pattern, text=glob.text, manifest=manifest, contents=contents, shown=shown
    )


def _shown(path: str, shown: ShownRevisions) -> Iterator[ShownFileState]:
    for each, is_read in ((shown.read, True), *((each, False) for each in shown.unread)):
        if each is not None:
            seen = asdict(_seen(each.revision, path))
            yield ShownFileState(**seen, statement=each.statement, is_read=is_read)


def glob_state_from(plain: object) -> GlobState:
    """The state that is this plain data. Raises ValueError for anything else."""
    try:
        return msgspec.convert(plain, GlobState)
    except msgspec.ValidationError as error:
        raise ValueError(f"no state of a glob: {error}") from None


def _seen(revision: Revision, path: str = "", mark: str = "") -> SeenState:
    return SeenState(
        path=path,
        mark=mark,
        state=revision.state,
        digest=revision.digest,
        size=revision.size,
        notice=revision.notice,
    )


# group handle:
# The group handle: a summary of its members within one budget, made anew whenever one of them changes.
#
# A running group is always a summary of what its members are now; a paused one keeps the parts that it was made of,
# and so shows what it showed, also at another budget or level. Members live as long as the group holds them. Files of
# globs are looked for and read in methods and at ticks, and never by a mere render. Made by `group`. One file in
# spite of its length, because every method keeps members, parts and what has moved in step.

_NAMED: Final = 3
"""Members that a title or a delta names."""
INDEX: Final = "index"
"""The work that ranks the files of a glob, and the kind of its payloads."""


class GroupHandle(NodeBase):
    """A summary of nodes. `summary_rendered` is the render at its own policy."""

    __slots__ = ("_dirty", "_members", "_moved", "_parts", "_rendered", "_stale")

    obj_type: ClassVar[str] = "group"

    def __init__(
        self,
        context: NodeContext,
        members: Sequence[NodeBase | str],
        *,
        tokens: Budget,
        lod: int,
        follow: Frequency | None,
    ) -> None:
        held = [member_of(context, member) for member in members]
        self._members: dict[str, Member] = {}
        self._parts: dict[str, Part] = {}
        self._rendered: RenderedView | None = None
        self._moved: dict[str, NodeBase] = {}
        self._stale = True
        self._dirty = True
        super().__init__(context, tokens=tokens, lod=lod)
        self._freq = follow
        self._running = follow is not None
        self._hold_all(held)
        self._take_parts()

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def members(self) -> tuple[object, ...]:
        return tuple(member.text if isinstance(member, Glob) else member for member in self.held())

    def children(self) -> tuple[NodeBase, ...]:
        return tuple(member for member in self.held() if not isinstance(member, Glob))

    def held(self) -> tuple[Member, ...]:
        """The nodes and the globs that it holds, in order."""
        return tuple(self._members.values())

    def _globs(self) -> list[Glob]:
        return [member for member in self.held() if isinstance(member, Glob)]

    @property
    def dirty(self) -> bool:
        return self._dirty

    @property
    def title(self) -> str:
        return self._named(self.held()) or "no members"

    def _named(self, members: Sequence[Member]) -> str:
        named = [each.text if isinstance(each, Glob) else self._context.name(each) for each in members[:_NAMED]]
        rest = [more(len(members) - _NAMED)] if len(members) > _NAMED else []
        return ", ".join((*named, *rest))

    @property
    def summary_rendered(self) -> RenderedView:
        return self.rendered

    def measure(self) -> RenderedView:
        self._catch_up()
        if self._rendered is None:
            self._rendered = self.Render()
        return self._rendered

    def mark_displayed(self, statement: int, rendered: RenderedView, lod: int | None = None) -> None:
        """As for all nodes, of the files of its globs: of a node a group shows what that showed by itself."""
        level = self._lod if lod is None else lod
        if rendered.whole or level != DIFFERENCES:
            for glob in self._globs():
                glob.mark_displayed(statement)
            self._forget_differences()

    def mark_projected(self) -> None:
        """The model has read the present state."""
        super().mark_projected()
        marked = [glob.mark_projected() for glob in self._globs()]
        if any(marked):
            self._forget_differences()
        self._clean()

    def _forget_differences(self) -> None:
        if self.on_member_shown():
            self._tell_of_showing()

    def _clean(self) -> None:
        self._dirty = False

    # --- the DSL -----------------------------------------------------------------------------------------------------

    def GetDigest(self) -> dict[str, object]:
        members = [identity_of(member) for member in self.held()]
        return self._schedule_digest() | {"members": members}

    def Render(self, lod: int | None = None, tokens: Budget | None = None) -> RenderedView:
        self._catch_up()
        level = self._lod if lod is None else checked_lod(lod)
        limit = limit_of(self._tokens if tokens is None else checked_budget(tokens))
        return summarize(tuple(self._parts.values()), limit, level, tuple(LEVELS), self._context.count)

    @mutating
    def Add(self, *members: NodeBase | str) -> None:
        """Takes nodes, paths and globs into the group; those that it has already stay where they are."""
        self._take_in([self.check(member) for member in members])
        self._touch("source")

    @mutating
    def Remove(self, *members: NodeBase | str) -> None:
        """Takes nodes, paths and globs out of the group.

        Raises:
            ValueError: one is no member; the group is as it was.
        """
        keys = [self._key_of(member) for member in members]
        for key in keys:
            self._let_go(key)
        self._touch("source")

    @mutating
    def Replace(self, member: NodeBase | str, other: NodeBase | str) -> None:
        """Has another node, path or glob in a member's place.

        Raises:
            ValueError: the first is no member; the group is as it was.
        """
        old, held = self._key_of(member), self.check(other)
        new = key_of(held)
        if new == old:
            return
        order = dict.fromkeys(new if key == old else key for key in self._members)
        self._take_in([held])
        self._let_go(old)
        self._members = {key: self._members[key] for key in order}
        self._parts = {key: self._parts[key] for key in order if key in self._parts}
        self._touch("source")

    def _key_of(self, member: object) -> str:
        for key, held in self._members.items():
            if held is member or (isinstance(held, Glob) and held.text == member):
                return key
        raise ValueError(f"{member!r} is no member of {self._context.name(self)}; its .members are those it has")

    def check(self, member: object) -> Member:
        """What may be a member, as the group holds it.

        Raises:
            ForeignMemberError: it is no node of this session, and no text.
            GroupCycleError: it is this group, or holds it.
            ValueError: the text is no path or glob of the workspace.
        """
        node = member_of(self._context, member)
        if isinstance(node, NodeBase) and (node is self or holds(node, self)):
            name = self._context.name(self)
            raise GroupCycleError(f"{name} cannot hold {self._context.name(node)}, which is or holds {name} itself")
        return node

    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult:
        self.admit("Tick")
        self._last_tick_time = now
        self._last_tick_turn = turn_id
        moved, self._moved = self._moved, {}
        changes = [(glob, glob.refresh()) for glob in self._globs()]
        if any(change for _, change in changes):
            self._read_files()
            self._stale = True
        if self._stale:
            self._take_parts()
        said = {glob.key: glob.said(change) for glob, change in changes if change}
        changed = tuple(key for key in self._members if key in moved or key in said)
        if not changed:
            return UNCHANGED
        self._changed = True
        if not self._context.tells():
            return UNCHANGED
        # A group that holds this one comes after it, and shows it as it is now.
        self._tell_holders()
        files = "; ".join(said.values())
        summary = "; ".join(filter(None, (*self._said(moved), files)))
        return TickResult(summary=summary, delta=summary, members=changed, files=files)

    def foresee(self) -> str:
        changes = [(glob, glob.foresee()) for glob in self._globs()]
        return "; ".join(glob.said(change) for glob, change in changes if change)

    def _said(self, moved: dict[str, NodeBase]) -> list[str]:
        if not moved:
            return []
        count = len(self._members)
        named = self._named([node for key, node in self._members.items() if key in moved])
        return [f"{len(moved)} of {count} {plural(count, 'member')} changed: {named}"]

    # --- what is prepared beside -------------------------------------------------------------------------------------

    def wants(self) -> Iterator[Want]:
        """An overview of the files of its first large glob, where it shows one."""
        glob = self._ranking()
        basis = None if glob is None else glob.basis()
        if glob is not None and basis is not None:
            yield Want(obj_id=self._obj_id, work=INDEX, payload_kind=INDEX, basis=basis, path=glob.key, title=glob.text)

    def take_payload(self, payload: UpdatePayload, now: float, turn_id: int) -> TickResult | DropReason:
        """As for all nodes: an overview that was prepared."""
        self.admit("take_payload")
        glob = self._ranking()
        if payload.payload_kind != INDEX or glob is None:
            return "unusable"
        if payload.basis != glob.basis():
            return "stale"
        try:
            glob.take_overview(payload.data)
        except ValueError:
            return "unusable"
        self._stale = True
        self._touch("source")
        said = f"files of {glob.text}: an overview is ready, the files first that others refer to most"
        return TickResult(summary=said, delta=said) if self._context.tells() else UNCHANGED

    def _ranking(self) -> Glob | None:
        if not self._running or self._lod > OVERVIEW:
            return None
        return next((glob for glob in self._globs() if not glob.contents and glob.manifest.number), None)

    # --- members -----------------------------------------------------------------------------------------------------

    def OnMemberChanged(self, member: NodeBase) -> bool:
        """As for all nodes. It is no change of its own: the group phase says what has become of it."""
        self._moved[member.obj_id] = member
        self._stale = True
        if self._follows():
            self._rendered = None
            self._dirty = True
        return self._follows()

    def on_member_shown(self) -> bool:
        self._stale = True
        if self._follows():
            self._rendered = None
        return self._follows()

    def _follows(self) -> bool:
        """Whether it changes with its members, and not at some ticks alone."""
        return self._running and self._freq == "Sync" and self._min_turn_interval == 1

    @property
    def idle(self) -> bool:
        """Whether it runs and nothing below it does, so that no tick changes it."""
        seen: set[int] = set()
        waiting: list[NodeBase] = [self]
        while waiting:
            node = waiting.pop()
            if id(node) in seen or not node.running:  # what a paused group holds does not reach this one
                continue
            if not isinstance(node, GroupHandle) or node._globs():
                return False
            seen.add(id(node))
            waiting += node.children()
        return self._running

    def _take_in(self, members: Sequence[Member]) -> None:
        self._hold_all(members)
        for member in members:
            self._parts.setdefault(key_of(member), member.part())

    def _let_go(self, key: str) -> None:
        member = self._members.pop(key, None)
        if isinstance(member, NodeBase):
            member.note_holder(self, held=False)
        self._parts.pop(key, None)
        self._moved.pop(key, None)

    def _hold_all(self, members: Sequence[Member]) -> None:
        fresh = {key_of(member): member for member in members if key_of(member) not in self._members}
        self._members |= fresh
        for member in fresh.values():
            if isinstance(member, Glob):
                if member.revision is None:
                    member.refresh()
            else:
                member.note_holder(self, held=True)
        self._read_files()

    def _read_files(self) -> None:
        """Reads what a summary at the group's own budget shows of globs."""
        for glob in self._globs():
            glob.read_files(limit_of(self._tokens))

    def _catch_up(self) -> None:
        """Takes the parts that its members are now, if it is to; inner groups first, so that none asks its own."""
        if self._is_behind():
            for group in bottom_up([self, *(each for each in below(self) if isinstance(each, GroupHandle))]):
                if group._is_behind():
                    group._take_parts()

    def _is_behind(self) -> bool:
        return self._stale and (self._follows() or not self._parts)

    def _take_parts(self) -> None:
        self._parts = {key: member.part() for key, member in self._members.items()}
        self._rendered = None
        self._stale = False

    def part(self) -> Part:
        self._catch_up()
        parts = tuple(self._parts.values())
        return Part(
            key=self._obj_id,
            name=self._context.name(self),
            title=f"group of {self.title}",
            lod=self._lod,
            need=min(limit_of(self._tokens), need_of(parts)),
            render=None,
            salience=self.salience(),
            parts=parts,
        )

    def _adopt(self) -> None:
        for glob in self._globs():
            glob.refresh()
        self._read_files()
        self._take_parts()
        self._touch("source")

    def _touch(self, what: Aspect) -> None:
        super()._touch(what)
        if what == "policy" and self._running:
            self._read_files()
            self._stale = True
        self._dirty = True
        self._rendered = None

    # --- as plain data -----------------------------------------------------------------------------------------------

    def state(self) -> GroupState:
        return GroupState(
            tokens=self._tokens if isinstance(self._tokens, int) else None,
            lod=self._lod,
            running=self._running,
            freq=self._freq,
            min_turn_interval=self._min_turn_interval,
            last_tick_turn=self._last_tick_turn,
            last_tick_time=self._last_tick_time,
            changed=self._changed,
            dirty=self._dirty,
            last_touched=self._last_touched,
            pinned=self._pinned,
        )

    def restore(self, state: GroupState, members: Sequence[Member]) -> None:
        """Takes a state over, with the members that belong to it; says nothing about it.

        Raises:
            ValueError: no group can be in that state; nothing was changed.
        """
        tokens, lod = checked_budget(state.tokens or All), checked_lod(state.lod)
        for member in members:
            if isinstance(member, NodeBase):
                self.check(member)
        for child in self.children():
            child.note_holder(self, held=False)
        self._members = {key_of(member): member for member in members}
        for child in self.children():
            child.note_holder(self, held=True)
        self._tokens, self._lod = tokens, lod
        self._running, self._freq = state.running, state.freq
        self._min_turn_interval = max(state.min_turn_interval, 1)
        self._last_tick_turn, self._last_tick_time = state.last_tick_turn, state.last_tick_time
        # Taken when they are first asked for: by then the names that are being set are there, too.
        self._moved, self._parts, self._stale, self._rendered = {}, {}, True, None
        self._changed, self._dirty, self._last_touched = state.changed, state.dirty, state.last_touched
        self.favour(state.pinned)
