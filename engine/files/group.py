"""The group handle: a summary of its members within one budget.

Made by the Board's `group`. A running group summarizes the current content of its members. A paused one keeps the parts
that it was made of, so its content stays the same, at another budget or level too. A group keeps its members alive. It
looks for files of globs, and reads them, in methods and at ticks, never in a render. 680 lines, because all methods
keep members, parts and changed members in step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Literal

import msgspec
from msgspec.structs import asdict

from ..core.text import more, plural
from ..log.events.nodes import DropReason, RevisionState, TickKind
from ..log.statements import UpdatePayload, Want
from .changes import report
from .detail import CHANGES_LEVEL, checked_lod
from .globs import OVERVIEW, Glob
from .group_summary import RULES, Part, Rules, checked_rules, need_of, summarize
from .manifest import ManifestChange
from .node import Aspect, NodeBase, NodeContext, mutating
from .rendered import All, Budget, DefaultTokens, RenderedView, ShownRevisions, checked_budget, limit_of
from .revision import Revision, without_content
from .ticks import UNCHANGED, FileDiff, Frequency, TickResult, bottom_up

Member = NodeBase | Glob


class GroupCycleError(ValueError):
    """Raised if a group would contain itself, directly or through a member."""


class ForeignMemberError(TypeError):
    """Raised for a member that is not a node of this session."""


def member_of(context: NodeContext, member: object) -> Member:
    """Return the member for an argument of a statement.

    Raises:
        ForeignMemberError: it is neither a node of this session nor a text.
        ValueError: the text is not a path or glob of the workspace.
    """
    if isinstance(member, str):
        return context.glob(member)
    if not isinstance(member, NodeBase) or not context.knows(member):
        raise ForeignMemberError(
            f"{type(member).__name__} cannot be in a group; members are handles from view() or group(), paths and globs"
        )
    return member


def key_of(member: Member) -> str:
    """Return the key of a member, so that a group has no member twice."""
    return member.key if isinstance(member, Glob) else member.obj_id


def identity_of(member: Member) -> str:
    """Return a member's part of the digest.

    For a glob it depends on which files there are.
    """
    return f"{member.text} {member.manifest.digest}" if isinstance(member, Glob) else member.obj_id


def below(holder: NodeBase) -> list[NodeBase]:
    """Return all nodes in a group, directly or through a member, each once."""
    found: dict[int, NodeBase] = {}
    waiting = [holder]
    while waiting:
        fresh = {id(child): child for child in waiting.pop().children() if id(child) not in found}
        found |= fresh
        waiting += fresh.values()
    return list(found.values())


def holds(holder: NodeBase, node: NodeBase) -> bool:
    """Return whether `node` is below `holder`."""
    return any(each is node for each in below(holder))


# --- the state as plain data -----------------------------------------------------------------------------------------


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a group as plain data; it outlives the handle's process.

    Members are not part of it: each has a state of its own. `tokens` of None are All. The others are the handle's
    attributes of that name.
    """

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
    sparing: bool = False
    salience: dict[str, float] = msgspec.field(default_factory=dict[str, float])


def group_state(plain: object) -> GroupState:
    """Convert plain data to a state. Raises ValueError for anything else."""
    try:
        return msgspec.convert(plain, GroupState)
    except msgspec.ValidationError as error:
        raise ValueError(f"not the state of a group: {error}") from None


class SeenState(msgspec.Struct, frozen=True, kw_only=True):
    """The revision that a glob saw of a file, with its `path` and `mark` in the manifest, or of the manifest itself."""

    path: str = ""
    mark: str = ""
    state: RevisionState
    digest: str
    size: int
    notice: str

    @property
    def lost(self) -> str:
        """Empty, because a state does not know why a content is lost (see `SeenRevision`)."""
        return ""


class ShownFileState(SeenState, frozen=True, kw_only=True):
    """A display of a file by a statement's result, and whether a model has read it."""

    statement: int
    is_read: bool


class GlobState(msgspec.Struct, frozen=True, kw_only=True):
    """A glob in a group. The contents of its files are named by digests."""

    type: Literal["glob"] = "glob"
    root: str
    pattern: str
    text: str
    manifest: SeenState
    contents: list[SeenState]
    shown: list[ShownFileState] = msgspec.field(default_factory=list[ShownFileState])


def glob_state(glob: Glob) -> GlobState:
    """Return the state of a glob that has looked for its files."""
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
    """Convert plain data to a glob's state.

    Raises ValueError for anything else.
    """
    try:
        return msgspec.convert(plain, GlobState)
    except msgspec.ValidationError as error:
        raise ValueError(f"not the state of a glob: {error}") from None


def _seen(revision: Revision, path: str = "", mark: str = "") -> SeenState:
    return SeenState(
        path=path,
        mark=mark,
        state=revision.state,
        digest=revision.digest,
        size=revision.size,
        notice=revision.notice,
    )


# --- the handle ------------------------------------------------------------------------------------------------------


_NAMED: Final = 3
"""Number of members that a title or a delta names."""
_DELTA_PART: Final = 8
"""A report about changed files may take one of so many parts of the group's budget, and so many tokens:"""
_DELTA_TOKENS: Final = 300
INDEX: Final = "index"
"""Work: rank the files of a glob; also the kind of its payloads."""


class GroupHandle(NodeBase):
    """A summary of nodes. `summary_rendered` is the render at its own policy."""

    __slots__ = ("_dirty", "_members", "_moved", "_names", "_parts", "_rendered", "_rules", "_stale")

    obj_type: ClassVar[str] = "group"
    default_tokens: ClassVar[DefaultTokens] = DefaultTokens(4000)
    _PUBLIC: ClassVar[tuple[str, ...]] = (
        *NodeBase._PUBLIC,
        *("members", "summary_rendered", "summary_policy", "Add", "Remove", "Replace", "SetSalience"),
    )

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
        self._names: list[str] = []
        """The names in `_rendered`."""
        self._moved: dict[str, NodeBase] = {}
        self._stale = True
        self._dirty = True
        super().__init__(context, tokens=tokens, lod=lod)
        self._freq = follow
        self._running = follow is not None
        self._rules: Rules = RULES
        self._hold_all(held)
        self._take_parts()

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def members(self) -> tuple[object, ...]:
        return tuple(member.text if isinstance(member, Glob) else member for member in self.held())

    def children(self) -> tuple[NodeBase, ...]:
        return tuple(member for member in self.held() if not isinstance(member, Glob))

    def held(self) -> tuple[Member, ...]:
        """Return the nodes and globs in the group, in order."""
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
    def summary_policy(self) -> dict[str, object]:
        """The budget, the finest level of a member, and what decides the members' shares of the budget."""
        return {"tokens": self._tokens, "lod": self._lod, "salience_rules": dict(self._rules)}

    @property
    def summary_rendered(self) -> RenderedView:
        return self.rendered

    def measure(self) -> RenderedView:
        self._catch_up()
        with self._context.named():
            names = [self._context.name(node) for node in below(self)]
            if self._rendered is None or names != self._names:
                self._rendered, self._names = self.Render(), names
        return self._rendered

    def mark_displayed(self, statement: int, rendered: RenderedView, lod: int | None = None) -> None:
        """Note a display of the files of globs.

        Displays of a node count for the node alone.
        """
        level = self._lod if lod is None else lod
        if rendered.whole or level != CHANGES_LEVEL:
            for glob in self._globs():
                glob.mark_displayed(statement)
            self._forget_differences()

    def mark_projected(self) -> None:
        """Note that the model has read the current state."""
        super().mark_projected()
        marked = [glob.mark_projected() for glob in self._globs()]
        if any(marked):
            self._forget_differences()
        self._clean()

    def _forget_differences(self) -> None:
        if self.on_member_shown():
            self._notify_of_display()

    def _clean(self) -> None:
        self._dirty = False

    # --- the DSL -----------------------------------------------------------------------------------------------------

    def GetDigest(self) -> dict[str, object]:
        members = [identity_of(member) for member in self.held()]
        rules = {} if self._rules == RULES else {"salience_rules": dict(self._rules)}
        return self._schedule_digest() | {"members": members} | rules

    def Render(self, lod: int | None = None, tokens: Budget | None = None) -> RenderedView:
        self._catch_up()
        level = self._lod if lod is None else checked_lod(lod)
        limit = limit_of(self._tokens if tokens is None else checked_budget(tokens))
        parts, sparing = tuple(self._parts.values()), self._is_sparing(tokens)
        with self._context.named():
            renamed, rules = self._renaming(), self._rules
            return summarize(parts, limit, level, self._context.count, sparing=sparing, renamed=renamed, rules=rules)

    def _renaming(self) -> Callable[[Part], Part]:
        """Return a function that gives a part its handle's present name: a statement may bind names anew."""
        nodes: dict[str, NodeBase] = {node.obj_id: node for node in below(self)}

        def renamed(part: Part) -> Part:
            node = nodes.get(part.key)
            if node is None:
                return part
            is_as_then = isinstance(node, GroupHandle) and [each.key for each in part.parts] == list(node._members)
            title = node._part_title if isinstance(node, GroupHandle) and is_as_then else part.title
            return replace(part, name=self._context.name(node), title=title)

        return renamed

    @property
    def _part_title(self) -> str:
        return f"group of {self.title}"

    @mutating
    def Add(self, *members: NodeBase | str) -> None:
        """Add nodes, paths and globs to the group.

        Members that it has keep their places.
        """
        self._take_in([self.check(member) for member in members])
        self._touch("source")

    @mutating
    def Remove(self, *members: NodeBase | str) -> None:
        """Remove nodes, paths and globs from the group.

        Raises:
            ValueError: one is not a member; the group is unchanged.
        """
        keys = [self._key_of(member) for member in members]
        for key in keys:
            self._let_go(key)
        self._touch("source")

    @mutating
    def Replace(self, member: NodeBase | str, other: NodeBase | str) -> None:
        """Put another node, path or glob in the place of a member.

        Raises:
            ValueError: the first is not a member; the group is unchanged.
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

    @mutating
    def SetSalience(self, **rules: float) -> None:
        """Set what decides the members' shares of the budget, a number from 0 to 1,000 for each rule.

            SetSalience(edited=8, size=0)

        The rules are `pinned`, `changed` (a change that no model has read), `touched` (a statement used the member),
        `edited` (a statement wrote its file), `size` and `name`. Rules that are not given have their defaults.

        Raises:
            ValueError: there is no such rule, or it cannot have this value.
        """
        checked = checked_rules(rules)
        if checked != self._rules:
            self._rules = checked
            self._touch("policy")

    def _key_of(self, member: object) -> str:
        for key, held in self._members.items():
            if held is member or (isinstance(held, Glob) and held.text == member):
                return key
        raise ValueError(f"{member!r} is not a member of {self._context.name(self)}; its .members lists the members")

    def check(self, member: object) -> Member:
        """Validate a member.

        Raises:
            ForeignMemberError: it is neither a node of this session nor a text.
            GroupCycleError: it is this group, or contains it.
            ValueError: the text is not a path or glob of the workspace.
        """
        node = member_of(self._context, member)
        if isinstance(node, NodeBase) and (node is self or holds(node, self)):
            name = self._context.name(self)
            raise GroupCycleError(
                f"{name} cannot contain {self._context.name(node)}: a group may not contain itself, "
                "directly or indirectly"
            )
        return node

    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult:
        self.admit("Tick")
        self._last_tick_time = now
        self._last_tick_turn = turn_id
        moved, self._moved = self._moved, {}
        before = {glob.key: glob.contents for glob in self._globs()}
        changes = [(glob, glob.refresh()) for glob in self._globs()]
        if any(change for _, change in changes):
            self._read_files()
            self._stale = True
            changes = [(glob, glob.without_equal(change, before[glob.key])) for glob, change in changes]
        if self._stale:
            self._take_parts()
        descriptions = {glob.key: glob.describe(change) for glob, change in changes if change}
        changed = tuple(key for key in self._members if key in moved or key in descriptions)
        if not changed:
            return UNCHANGED
        self._changed = True
        if not self._context.tells():
            return UNCHANGED
        # A group that contains this one is ticked later, and then shows the new content.
        self._notify_holders()
        files = "; ".join(descriptions.values())
        summary = "; ".join(filter(None, (*self._said(moved), files)))
        diffs = tuple(self._diffs(changes, before))
        return TickResult(summary=summary, delta=summary, members=changed, files=files, file_diffs=diffs)

    def _diffs(
        self, changes: Sequence[tuple[Glob, ManifestChange]], before: Mapping[str, Mapping[str, tuple[str, Revision]]]
    ) -> Iterator[FileDiff]:
        """Yield the changes of files that the group shows one by one, within a share of its budget."""
        count, room = self._context.count, min(limit_of(self._tokens) // _DELTA_PART, _DELTA_TOKENS)
        for glob, change in changes:
            old, new = before[glob.key], glob.contents
            for path in change.changed:
                if path not in old or path not in new:
                    continue
                was, now = old[path][1], new[path][1]
                place = glob.path_of(path)
                text = report(path, place, was, now, count, budget=room).delta
                room -= count(f"{text}\n")
                if room < 0:
                    return
                yield FileDiff(place, now.digest, text)

    def net_change(self, *, since_read: int, told: bool, paths: set[str]) -> str | None:
        """As `NodeBase.net_change`; only since the last reading, because each tail has the summary as it is now."""
        del told
        if not since_read:
            return ""
        if since_read == 1:
            return None
        changes = [(glob, glob.net_change()) for glob in self._globs()]
        moved = {key: node for key, node in self._members.items() if isinstance(node, NodeBase) and node.changed}
        files = [glob.describe(change) for glob, change in changes if change]
        before = {glob.key: glob.contents_read for glob, _ in changes}
        diffs = [each for each in self._diffs(changes, before) if each.path not in paths]
        paths.update(each.path for each in diffs)
        summary = "; ".join((*self._said(moved), *files))
        return "\n".join((summary, *(each.text for each in diffs))) if summary else ""

    def foresee(self) -> str:
        changes = [(glob, glob.foresee()) for glob in self._globs()]
        return "; ".join(glob.describe(change) for glob, change in changes if change)

    def _said(self, moved: Mapping[str, NodeBase]) -> list[str]:
        if not moved:
            return []
        count = len(self._members)
        named = self._named([node for key, node in self._members.items() if key in moved])
        return [f"{len(moved)} of {count} {plural(count, 'member')} changed: {named}"]

    # --- payloads ----------------------------------------------------------------------------------------------------

    def wants(self) -> Iterator[Want]:
        """Ask for an overview of the first large glob, if the group shows one."""
        glob = self._ranking()
        basis = None if glob is None else glob.basis()
        if glob is not None and basis is not None:
            yield Want(obj_id=self._obj_id, work=INDEX, payload_kind=INDEX, basis=basis, path=glob.key, title=glob.text)

    def take_payload(self, payload: UpdatePayload, now: float, turn_id: int) -> TickResult | DropReason:
        """Apply a prepared overview."""
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
        summary = f"files of {glob.text}: the overview is ready, most referenced files first"
        return TickResult(summary=summary, delta=summary) if self._context.tells() else UNCHANGED

    def _ranking(self) -> Glob | None:
        if not self._running or self._lod > OVERVIEW:
            return None
        return next((glob for glob in self._globs() if glob.is_large), None)

    # --- members -----------------------------------------------------------------------------------------------------

    def OnMemberChanged(self, member: NodeBase) -> bool:
        """Note a changed member.

        This is not a change yet: the group phase of the tick reports it.
        """
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
        """Return whether the group changes whenever a member does, and not only at some ticks."""
        return self._running and self._freq == "Sync" and self._min_turn_interval == 1

    @property
    def idle(self) -> bool:
        """Whether it runs and no node below it does, so that no tick changes it."""
        seen: set[int] = set()
        waiting: list[NodeBase] = [self]
        while waiting:
            node = waiting.pop()
            if id(node) in seen or not node.running:  # changes below a paused group do not reach this one
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
        """Read the files of globs that a summary shows."""
        for glob in self._globs():
            glob.read_files()

    def _catch_up(self) -> None:
        """Take the current parts of members if the group follows them, inner groups first."""
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
            title=self._part_title,
            lod=self._lod,
            need=min(limit_of(self._tokens), need_of(parts)),
            ladder=None,
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
            sparing=self._sparing,
            salience={} if self._rules == RULES else dict(self._rules),
        )

    def restore(self, state: GroupState, members: Sequence[Member]) -> None:
        """Apply a state, with its members; emits no event.

        Raises:
            ValueError: the state is impossible; nothing was changed.
        """
        tokens, lod, rules = checked_budget(state.tokens or All), checked_lod(state.lod), checked_rules(state.salience)
        for member in members:
            if isinstance(member, NodeBase):
                self.check(member)
        for child in self.children():
            child.note_holder(self, held=False)
        self._members = {key_of(member): member for member in members}
        for child in self.children():
            child.note_holder(self, held=True)
        self._tokens, self._lod, self._sparing, self._rules = tokens, lod, state.sparing, rules
        self._running, self._freq = state.running, state.freq
        self._min_turn_interval = max(state.min_turn_interval, 1)
        self._last_tick_turn, self._last_tick_time = state.last_tick_turn, state.last_tick_time
        # Parts are taken on first use, because not all names may have been restored yet.
        self._moved, self._parts, self._stale, self._rendered = {}, {}, True, None
        self._changed, self._dirty, self._last_touched = state.changed, state.dirty, state.last_touched
        self.favour(state.pinned)
