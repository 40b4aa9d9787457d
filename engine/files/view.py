"""The view handle: a window on one document, with a position, a budget and a level of detail.

Made by the Board's `view`. A paused handle keeps its revision, whatever is set on it; Refresh and Run take the current
content, and so do ticks while it runs. The module also has the handle's state as plain data, and the work that the host
can prepare for it. Over 700 lines, because they are the methods of one object and share its private state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar, Final, Literal, NoReturn

import msgspec
import xxhash

from ..core.ids import ObjId
from ..core.levels import LOD, OUTLINED
from ..core.pictures import TOKEN_PIXELS, kind_of
from ..core.text import cut_line
from ..log.events.nodes import DropReason, PayloadBasis, PayloadKind, RevisionState, TickKind
from ..log.statements import UpdatePayload, Want
from .changes import content_of, report
from .detail import CHANGES_LEVEL, SUMMARY_LEVEL, checked_lod, ladder_at, rendered_at
from .detail.scene import LARGEST_WINDOW, Scene, measured
from .document import Document, Place, Pos, Position, checked_pos, is_symbol, position_at
from .group_summary import Part
from .node import Aspect, NodeBase, NodeContext, mutating
from .outline.model import Outline, unpacked
from .outlines import AT_ONCE
from .rendered import All, Budget, DefaultTokens, RenderedView, ShownRevision, ShownRevisions, checked_budget, limit_of
from .revision import Revision
from .ticks import UNCHANGED, Frequency, TickResult

CONTENT: Final = "content"
"""Work: read the file if its content differs. The names are those of the host's table (`session.preparing`)."""
SUMMARY: Final = "summary"
"""Work: let a model summarize the text."""
OUTLINE: Final = "outline"
"""Work: outline a text that is too large to be outlined during a tick."""
KINDS: Final[frozenset[PayloadKind]] = frozenset({"render", "diff", "parse", "other"})
"""Payloads of views: the file's content, the fact that it differs, an outline, a summary."""


def basis_of(revision: Revision, *policy: object) -> PayloadBasis:
    """Return the basis of payloads for a view.

    They are stale once its revision or policy differs.
    """
    policy_hash = xxhash.xxh3_64_hexdigest(msgspec.json.encode(policy))
    return PayloadBasis(obj_digest_hash=revision.mark, policy_hash=policy_hash)


def content_wish(obj_id: ObjId, path: str, title: str, basis: PayloadBasis) -> Want:
    """Ask for the content of the file at `path`, absolute, if it differs from the view's."""
    return Want(obj_id=obj_id, work=CONTENT, payload_kind="render", basis=basis, path=path, title=title)


def outline_wish(obj_id: ObjId, path: str, title: str, revision: Revision, basis: PayloadBasis) -> Want:
    """Ask for the outline of a revision of the file at `path`, absolute."""
    detail: dict[str, str | int] = {"digest": revision.digest}
    return Want(obj_id=obj_id, work=OUTLINE, payload_kind="parse", basis=basis, path=path, title=title, detail=detail)


def summary_wish(obj_id: ObjId, title: str, revision: Revision, basis: PayloadBasis) -> Want:
    """Ask for a summary of a revision."""
    detail: dict[str, str | int] = {"digest": revision.digest}
    return Want(obj_id=obj_id, work=SUMMARY, payload_kind="other", basis=basis, title=title, detail=detail)


# --- the state as plain data -----------------------------------------------------------------------------------------


class ShownState(msgspec.Struct, frozen=True, kw_only=True):
    """A displayed revision as plain data; the fields are those of `ViewState`.

    `is_present`: it is the handle's current revision, and the other fields are empty.
    """

    statement: int
    is_present: bool = False
    text: str | None = None
    first_line: int = 1
    state: RevisionState = "text"
    digest: str = ""
    size: int = 0
    notice: str = ""

    @property
    def lost(self) -> str:
        """See `ViewState.lost`."""
        return ""


class ViewState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a view handle as plain data.

    It outlives the handle's process.

    The content of a file is only named by its digest; the loader finds it in the record. `text` is a document that is
    not a file, from `first_line` on, else None. `path`, `title` and `outside` are the document's; `state` to `notice`
    are the revision's, as in RevisionAdopted. `tokens` of None are All. `read` is the revision that a model read last,
    `unread` the first and the last that were displayed since, and `shows_other` is `ShownRevisions.is_other`.
    `symbol_line` is the line of the symbol in `pos`, counted from 0, and `symbol_gone` tells that the symbol is gone.
    The others are the handle's attributes of that name.
    """

    type: Literal["view"] = "view"
    path: str | None
    title: str
    outside: bool
    text: str | None
    first_line: int
    state: RevisionState
    digest: str
    size: int
    notice: str
    pos: Pos
    symbol_line: int = 0
    symbol_gone: bool = False
    tokens: int | None
    lod: int
    running: bool
    freq: Frequency | None
    min_turn_interval: int
    last_tick_turn: int
    last_tick_time: float
    changed: bool
    dirty: list[Literal["pos", "policy", "source"]]
    summary: str = ""
    read: ShownState | None = None
    unread: list[ShownState] = msgspec.field(default_factory=list[ShownState])
    shows_other: bool = False
    last_touched: int = 0
    pinned: str | None = None
    sparing: bool = False

    @property
    def lost(self) -> str:
        """Empty, because a state does not know why a content is lost (see `SeenRevision`)."""
        return ""


def plain(state: ViewState) -> dict[str, object]:
    """Convert a state to a dict of plain values."""
    return msgspec.to_builtins(state)


def view_state(plain: object) -> ViewState:
    """Convert plain data to a state. Raises ValueError for anything else."""
    try:
        return msgspec.convert(plain, ViewState)
    except msgspec.ValidationError as error:
        raise ValueError(f"not the state of a handle: {error}") from None


def shown_state(shown: ShownRevision, present: Revision) -> ShownState:
    """Convert a displayed revision to plain data, for a handle whose current revision is `present`."""
    revision = shown.revision
    if revision.same_as(present) and revision.first_line == present.first_line:
        return ShownState(statement=shown.statement, is_present=True)
    return ShownState(
        statement=shown.statement,
        text=text_of(revision),
        first_line=revision.first_line,
        state=revision.state,
        digest=revision.digest,
        size=revision.size,
        notice=revision.notice,
    )


def text_of(revision: Revision) -> str | None:
    """Return the text of a revision that is not a file's; None for a file."""
    if revision.encoding != "text":
        return None
    end = "\n" if revision.final_newline and revision.lines else ""
    return "\n".join(revision.lines) + end


# --- the handle ------------------------------------------------------------------------------------------------------


AS_SHOWN: Final = "again has the content that is shown"
"""Follows the title of a view whose change, of which a model has read, was undone."""
_LONGEST_POS: Final = 80
_LINE_TOKENS: Final = 4
"""At least the tokens of a line number; every byte of a line is at most one token."""


class ViewHandle(NodeBase):
    """A window on a document.

    `source_fingerprint` is the xxh3 of its content, empty without content.

    `dirty_flags` tells which of position, policy and source changed since the last render.
    """

    __slots__ = (
        "_awaits_outline",
        "_dirty",
        "_document",
        "_outlined",
        "_placed",
        "_position",
        "_rendered",
        "_revision",
        "_shown",
        "_summary",
    )

    obj_type: ClassVar[str] = "view"
    default_tokens: ClassVar[DefaultTokens] = DefaultTokens(2000)
    _PUBLIC: ClassVar[tuple[str, ...]] = (
        *NodeBase._PUBLIC,
        *("pos", "place", "window_spec", "source_fingerprint", "dirty_flags", "revision", "SetPos", "Scroll"),
    )

    def __init__(
        self,
        context: NodeContext,
        document: Document,
        *,
        pos: Pos,
        tokens: Budget,
        lod: int,
        follow: Frequency | None = None,
    ) -> None:
        self._document = document
        self._revision = document.current
        self._context = context
        self._placed: tuple[Revision, Position, Place] | None = None
        """The last place, with the revision and position that it is computed from."""
        self._outlined: Outline | None = None
        """A prepared outline, used in place of the context's."""
        self._awaits_outline = False
        self._position = position_at(pos, self._revision, self._outline_now, document.title)
        self._rendered: RenderedView | None = None
        self._shown = ShownRevisions()
        self._summary = ""
        """A model's summary of the revision."""
        self._dirty: dict[Aspect, bool] = {"pos": True, "policy": True, "source": True}
        super().__init__(context, tokens=tokens, lod=lod)
        self._freq = follow
        self._running = follow is not None

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str | None:
        """Absolute path of the document; None for a text."""
        return self._document.path

    @property
    def pos(self) -> Pos:
        return self._position.pos

    @pos.setter
    def pos(self, value: object) -> NoReturn:
        raise AttributeError(
            f"pos cannot be assigned; call {self.called}.SetPos({cut_line(repr(value), _LONGEST_POS)})"
        )

    @property
    def source_fingerprint(self) -> str:
        return self.fingerprint

    @property
    def fingerprint(self) -> str:
        return self._revision.digest

    @property
    def document_state(self) -> RevisionState:
        return self._revision.state

    @property
    def reason(self) -> str:
        return self._revision.reason

    @property
    def line_count(self) -> int:
        return self._revision.first_line - 1 + len(self._revision.lines)

    @property
    def dirty_flags(self) -> dict[Aspect, bool]:
        return dict(self._dirty)

    @property
    def dirty(self) -> bool:
        return any(self._dirty.values())

    @property
    def revision(self) -> Revision:
        """The content that the handle shows."""
        return self._revision

    @property
    def place(self) -> Place:
        """Line and column of the position in the revision, counted from 0."""
        placed = self._placed
        if placed is None or placed[0] is not self._revision or placed[1] is not self._position:
            place = self._position.place(self._revision)
            placed = self._placed = self._revision, self._position, place
        return placed[2]

    @property
    def window_spec(self) -> dict[str, object]:
        """The window as plain data.

        `range_lines` are the first and last line shown, from 1, or None. `range_tokens` are the tokens used and
        allowed, the latter None for All. `anchors` are the position and its line.
        """
        shown = self.measure()
        lines = None if shown.first_line is None else [shown.first_line, shown.last_line]
        allowed = self._tokens if isinstance(self._tokens, int) else None
        line = self.place.line + self._revision.first_line
        return {"range_lines": lines, "range_tokens": [shown.tokens, allowed], "anchors": [self.pos, line]}

    @property
    def title(self) -> str:
        number = self.place.line + self._revision.first_line
        where = f"{self._document.title}:{number}" if number > 1 else self._document.title
        where += self._position.note_in(self._revision)
        return f"{where} (outside the workspace)" if self._document.outside else where

    @property
    def picture_pixels(self) -> int:
        """The most pixels of a picture that the budget pays for; 0 for All."""
        return self._tokens * TOKEN_PIXELS if isinstance(self._tokens, int) else 0

    def _repr_mimebundle_(self, **_: object) -> dict[str, bytes]:
        """Return the file as a picture, if it is one and the level is text, for a statement whose last value it is."""
        if self._revision.state != "binary" or self._lod != LOD["text"]:
            return {}
        data = self._document.content(self._revision)
        kind = None if data is None else kind_of(data)
        return {} if data is None or kind is None else {kind: data}

    def measure(self) -> RenderedView:
        """Like `rendered`, but the handle stays dirty.

        Cached until something it depends on changes.
        """
        # A paused view is outlined at once, because no outline is prepared for it.
        if self._rendered is None or (self._awaits_outline and not self._running):
            self._rendered = self.Render()
        return self._rendered

    @property
    def last_shown(self) -> Revision | None:
        """The revision that a model read last, else the first that was displayed.

        Returns None for neither.
        """
        last = self._shown.last
        return last.revision if last else None

    @property
    def shown_in(self) -> int:
        """The index of the statement that displayed `last_shown`; 0 for none."""
        last = self._shown.last
        return last.statement if last else 0

    def mark_displayed(self, statement: int, rendered: RenderedView, lod: int | None = None) -> None:
        """Note a display.

        A truncated diff does not count, so that a larger budget shows the rest of it.
        """
        level = self._lod if lod is None else lod
        if rendered.whole or level != CHANGES_LEVEL:
            self._shown.displayed(ShownRevision(self._revision, statement))
            self._forget_differences()

    def mark_other(self) -> None:
        self._shown.is_other = True
        self._forget_differences()

    def mark_projected(self) -> None:
        """Note that the model has read the view.

        Later differences start from this revision.
        """
        super().mark_projected()
        if self._shown.mark_read():
            self._forget_differences()
        self._clean()

    def _forget_differences(self) -> None:
        # Other levels do not depend on earlier displays. A group with this view may use another level, so notify it.
        if self._lod == CHANGES_LEVEL:
            self._rendered = None
        self._notify_of_display()

    def _clean(self) -> None:
        self._dirty = dict.fromkeys(self._dirty, False)

    # --- the DSL -----------------------------------------------------------------------------------------------------

    def GetDigest(self) -> dict[str, object]:
        revision = self._revision
        return self._schedule_digest() | {
            "title": self.title,
            "pos": self.pos,
            "state": revision.state,
            "lines": len(revision.lines),
            "size": revision.size,
            "encoding": revision.encoding,
            "line_ends": revision.line_ends,
            "final_newline": revision.final_newline,
            "revision": revision.digest,
        }

    def Render(self, lod: int | None = None, tokens: Budget | None = None) -> RenderedView:
        level = self._lod if lod is None else checked_lod(lod)
        limit = limit_of(self._tokens if tokens is None else checked_budget(tokens))
        scene = replace(self._scene(limit), sparing=self._is_sparing(tokens))
        return rendered_at(scene, level, self._outlining())

    def _outlining(self) -> Callable[[Revision], Outline]:
        """Return a function that outlines a revision.

        A running view does not wait for a large outline.
        """
        known, digest, at_once = self._outlined, self._revision.digest, not self._running or self.path is None

        def outline(revision: Revision) -> Outline:
            if known is not None and revision.digest == digest:
                return known
            made = self._outline_now(revision, at_once=at_once)
            self._awaits_outline = made.is_provisional or (self._awaits_outline and not at_once)
            return made

        return outline

    def _outline_now(self, revision: Revision, *, at_once: bool = True) -> Outline:
        return self._context.outline(revision, self._document.path or self._document.title, at_once=at_once)

    def _scene(self, budget: int) -> Scene:
        return Scene(
            revision=self._revision,
            place=self.place,
            budget=budget,
            count=self._context.count,
            title=self.title,
            last_shown=self.last_shown,
            shown_in=self.shown_in,
            summary=self._summary,
        )

    @mutating
    def SetPos(self, pos: Pos) -> None:
        """Move to "line:col", "line", a character offset, or a symbol such as "class Foo" or "Foo.bar".

        Raises:
            ValueError: it is none of these, or the symbol is not declared; the message has names that may be meant.
        """
        self._move(position_at(pos, self._revision, self._outline_now, self._document.title))

    @mutating
    def Scroll(
        self,
        delta_lines: int | None = None,
        *,
        delta_tokens: int | None = None,
        n: int | None = None,
        tokens: int | None = None,
    ) -> None:
        """Move by `delta_lines` lines, or by the lines that `delta_tokens` tokens hold (at least one).

        Negative is up. `n` and `tokens` are their former names.

        Raises:
            ValueError: none or several were given, or not an int.
        """
        lines, by_tokens = (
            (n if delta_lines is None else delta_lines),
            (tokens if delta_tokens is None else delta_tokens),
        )
        steps = [step for step in (delta_lines, delta_tokens, n, tokens) if step is not None]
        if len(steps) != 1 or not isinstance(steps[0], int) or isinstance(steps[0], bool):  # pyright: ignore[reportUnnecessaryIsInstance] - user code
            raise ValueError("use Scroll(delta_lines=n) or Scroll(delta_tokens=n), with a whole number n")
        line = self.place.line
        target = self._line_after(line, by_tokens) if by_tokens is not None else line + (lines or 0)
        last = max(len(self._revision.lines) - 1, 0)
        self._move(Position(f"{min(max(target, 0), last) + self._revision.first_line}:0"))

    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult:
        self.admit("Tick")
        self._last_tick_time = now
        self._last_tick_turn = turn_id
        return self._follow(self._document.refresh_at_tick())

    def foresee(self) -> str:
        before, found = self._revision, self._document.peek()
        if found.same_as(before):
            return ""
        if (before.state, found.state) == ("paged", "too large"):
            return f"{self._document.title} has changed"
        return report(self._document.title, self.path or "", before, found, self._context.count).summary

    def net_change(self, *, since_read: int, told: bool, paths: set[str]) -> str | None:
        del since_read, paths
        before, now = self.last_shown, self._revision
        if before is None:
            return None
        if now.same_as(before):
            return f"{self._document.title} {AS_SHOWN}" if told else ""
        # A model that has read of another change since then must know what the lines are compared with.
        note = f"compared with the text in statement {self.shown_in}" if told and self.shown_in else ""
        return report(self._document.title, self.path or "", before, now, self._context.count, note).delta

    def _follow(self, revision: Revision) -> TickResult:
        before, old_position = self._revision, self._position
        if revision is before or revision.same_as(before):
            return UNCHANGED
        self._take(revision)
        if not self._context.tells():
            return UNCHANGED
        return report(
            self._document.title, self.path or "", before, revision, self._context.count, self._moved(old_position)
        )

    def _moved(self, old_position: Position) -> str:
        """Describe the new position if its symbol disappeared or came back."""
        if old_position.is_gone == self._position.is_gone or not is_symbol(self.pos):
            return ""  # or the symbol was replaced by its line, because the text is read by pages now
        line = self.place.line + self._revision.first_line
        if self._position.is_gone:
            return f"{self.pos} is gone, so the view stays at line {line}"
        return f"{self.pos} is back at line {line}"

    def part(self) -> Part:
        revision, own = self._revision, limit_of(self._tokens)
        scene, outline = self._scene(own), self._outlining()
        return Part(
            key=self._obj_id,
            name=self._context.name(self),
            title=f"{self.title}{content_of(revision)}",
            lod=self._lod,
            need=min(own, revision.size + _LINE_TOKENS * (len(revision.lines) + 2)),
            ladder=lambda lod, limit, sparing: ladder_at(
                replace(scene, budget=min(limit, own), sparing=sparing), lod, outline
            ),
            salience=self.salience(),
        )

    # --- payloads ----------------------------------------------------------------------------------------------------

    def wants(self) -> Iterator[Want]:
        """Ask for a missing outline of a large text.

        For an Async view also for content and summary.
        """
        if self._running and self.path is not None and self._lacks_outline():
            yield outline_wish(self._obj_id, self.path, self._document.title, self._revision, self._basis("parse"))
        if self._running and self._freq == "Async" and self.path is not None:
            yield content_wish(self._obj_id, self.path, self._document.title, self._basis("render"))
            has_lines = self._revision.state == "text" and self._revision.lines
            if self._lod == SUMMARY_LEVEL and has_lines and not self._summary:
                yield summary_wish(self._obj_id, self._document.title, self._revision, self._basis("other"))

    def _lacks_outline(self) -> bool:
        needs_one = self._awaits_outline or self._lod in OUTLINED or is_symbol(self.pos)
        is_large = self._revision.state == "text" and self._revision.size > AT_ONCE
        return needs_one and is_large and self._outlined is None

    def _basis(self, kind: PayloadKind) -> PayloadBasis:
        level = (self._lod,) if kind == "other" else ()
        return basis_of(self._revision, self._running, self._freq, *level)

    def take_payload(self, payload: UpdatePayload, now: float, turn_id: int) -> TickResult | DropReason:
        """Apply the file's new content, its change, an outline, or a summary."""
        self.admit("take_payload")
        kind, before = payload.payload_kind, self._revision
        if kind not in KINDS:
            return "unusable"
        # Another view may have read newer content of the file than the prepared one.
        is_older = kind == "render" and self._document.current.digest not in (before.digest, payload.payload_hash)
        if payload.basis != self._basis(kind) or is_older:
            return "stale"
        if kind == "parse":
            return self._take_outline(payload.data)
        self._last_tick_time, self._last_tick_turn = now, turn_id
        if kind == "other":
            return self._take_summary(payload.data.decode("utf-8", "replace"))
        return self._follow(
            self._document.bring(payload.data) if kind == "render" else self._document.refresh_at_tick()
        )

    def _take_outline(self, data: bytes) -> TickResult | DropReason:
        """Apply an outline.

        It is not a look at the file, so the next tick still looks.
        """
        try:
            self._outlined = unpacked(data)
        except ValueError:
            return "unusable"
        self._position = self._position.followed(self._revision, self._outlining())
        self._touch("source")
        summary = f"{self._document.title}: the outline is ready; levels 1 and 2 show it"
        return TickResult(summary=summary, delta=summary) if self._context.tells() else UNCHANGED

    def _take_summary(self, text: str) -> TickResult:
        self._summary = text
        self._touch("source")
        summary = f"{self._document.title}: the summary by a model is ready"
        return TickResult(summary=summary, delta=summary) if self._context.tells() else UNCHANGED

    # --- as plain data -----------------------------------------------------------------------------------------------

    def state(self) -> ViewState:
        """Return the handle's state without its id."""
        revision = self._revision
        return ViewState(
            path=self.path,
            title=self._document.title,
            outside=self._document.outside,
            text=text_of(revision),
            first_line=revision.first_line,
            state=revision.state,
            digest=revision.digest,
            size=revision.size,
            notice=revision.notice,
            pos=self.pos,
            symbol_line=self._position.line,
            symbol_gone=self._position.is_gone,
            tokens=self._tokens if isinstance(self._tokens, int) else None,
            lod=self._lod,
            running=self._running,
            freq=self._freq,
            min_turn_interval=self._min_turn_interval,
            last_tick_turn=self._last_tick_turn,
            last_tick_time=self._last_tick_time,
            changed=self._changed,
            summary=self._summary,
            dirty=[what for what, is_dirty in self._dirty.items() if is_dirty],
            read=None if self._shown.read is None else shown_state(self._shown.read, revision),
            unread=[shown_state(shown, revision) for shown in self._shown.unread],
            shows_other=self._shown.is_other,
            last_touched=self._last_touched,
            pinned=self._pinned,
            sparing=self._sparing,
        )

    def restore(self, state: ViewState, document: Document, revision: Revision, shown: ShownRevisions) -> None:
        """Apply a state, with its document and revisions; emits no event.

        Raises:
            ValueError: the state is impossible; nothing was changed.
        """
        position = Position(checked_pos(state.pos), max(state.symbol_line, 0), state.symbol_gone)
        tokens, lod = checked_budget(state.tokens or All), checked_lod(state.lod)
        if not revision.same_as(self._revision):
            self._outlined, self._awaits_outline = None, False
        self._document, self._revision, self._rendered = document, revision, None
        self._position, self._tokens, self._lod = position, tokens, lod
        self._sparing = state.sparing
        self._running, self._freq = state.running, state.freq
        self._min_turn_interval = max(state.min_turn_interval, 1)
        self._last_tick_turn, self._last_tick_time = state.last_tick_turn, state.last_tick_time
        self._changed = state.changed
        self._shown = shown
        self._summary = state.summary
        self._last_touched = state.last_touched
        self._dirty = {what: what in state.dirty for what in self._dirty}
        self.favour(state.pinned)
        self._notify_holders()

    # --- content -----------------------------------------------------------------------------------------------------

    def _adopt(self) -> None:
        self._take(self._document.refresh())

    def _take(self, revision: Revision) -> None:
        before, self._revision = self._revision, revision
        if revision is not before and not revision.same_as(before):
            self._outlined, self._awaits_outline = None, False
            self._position = self._position.followed(revision, self._outlining())
            self._summary = ""
            self._touch("source")

    def _touch(self, what: Aspect) -> None:
        super()._touch(what)
        self._dirty[what] = True
        self._rendered = None

    def _move(self, position: Position) -> None:
        if position != self._position:
            self._position = position
            self._touch("pos")

    def _line_after(self, line: int, tokens: int) -> int:
        if self._revision.state == "paged" and abs(tokens) > LARGEST_WINDOW:
            raise ValueError(
                f"Scroll(delta_tokens=n) moves at most {LARGEST_WINDOW:,} tokens in a file of this "
                "size; Scroll(n) moves by n lines"
            )
        _, ruler = measured(self._revision, self._context.count)
        if tokens > 0:
            return max(ruler.down(line, tokens), line + 1)
        return min(ruler.up(line, -tokens), line - 1) if tokens else line
