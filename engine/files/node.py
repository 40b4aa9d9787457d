"""The common part of all nodes: identity, schedule, policy, events.

Methods marked `mutating` emit MethodCalled with the digests before and after, and return the node, so that calls can be
chained. State is read by properties, and only methods change it. Must not know the Board, which gives each node a
`NodeContext`. Base of `view` and `group`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from math import inf
from typing import Any, ClassVar, Concatenate, Final, Literal, NoReturn, ParamSpec, TypeVar
from weakref import ReferenceType, ref

import msgspec
import xxhash
from msgspec import Struct

from ..core.ids import ObjId
from ..core.text import cut_line
from ..log.events import Event
from ..log.events.nodes import DropReason, MethodCalled, RevisionState, TickKind
from ..log.statements import UpdatePayload, Want
from .detail import checked_lod
from .globs import Glob
from .group_summary import Part, Salience
from .outlines import OutlineOf
from .rendered import Budget, DefaultTokens, RenderedView, checked_budget
from .ticks import Frequency, TickResult

Mode = Literal["paused", "running"]
Aspect = Literal["pos", "policy", "source"]
"""Parts of a node that can change."""
_LONGEST_REPR: Final = 80
PAUSED: Final = "paused"
DEFAULT_PERIOD: Final = 10.0
"""Seconds between two ticks for a bare "Periodic"."""
_FREQUENCIES: Final = (
    '"Sync" (before each model call), "Async" (when prepared), "Periodic" (every 10 seconds) or ("Periodic", seconds)'
    " with seconds above 0"
)
_P = ParamSpec("_P")
_N = TypeVar("_N", bound="NodeBase")


class NodeChangeError(RuntimeError):
    """Raised to a statement if a thread, or code outside a statement, would change a node.

    A re-run could not repeat such a change.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}() was called from a thread or outside a statement; call it directly in a statement")


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a node needs from its board.

    `mint` makes an id for a type; `emit` takes events; `count` counts tokens. `outline` outlines a revision; the path
    tells its language. `tells` is False if changes need not be reported. `statement` returns the number of the running
    statement, or the last one. `name` returns the node's name in the namespace, or its id, and is cached within
    `named`; `knows` returns whether a node is the board's. `admit` raises NodeChangeError, with the name of the call,
    if the current thread may not change nodes. `glob` returns the files that a text matches, or raises ValueError.
    `edited` returns the number of the last statement that wrote the file at an absolute path, 0 for none.
    """

    mint: Callable[[str], ObjId]
    emit: Callable[[Event], None]
    count: Callable[[str], int]
    outline: OutlineOf
    tells: Callable[[], bool]
    statement: Callable[[], int]
    name: Callable[[NodeBase], str]
    named: Callable[[], AbstractContextManager[object]]
    knows: Callable[[NodeBase], bool]
    admit: Callable[[str], None]
    glob: Callable[[str], Glob]
    edited: Callable[[str], int]


def checked_freq(freq: object) -> Frequency:
    """Validate a frequency; an interval becomes a float, and a bare "Periodic" has the default one.

    Raises:
        ValueError: there is no such frequency.
    """
    match freq:
        case "Sync":
            return "Sync"
        case "Async":
            return "Async"
        case "Periodic":
            return "Periodic", DEFAULT_PERIOD
        case ("Periodic", float() | int() as seconds) if not isinstance(seconds, bool) and _is_interval(seconds):
            return "Periodic", float(seconds)
        case _:
            raise ValueError(f"freq={cut_line(repr(freq), _LONGEST_REPR)}: give {_FREQUENCIES}")


def schedule(mode: object, freq: object) -> Frequency | None:
    """Return the frequency of a new node, None for a paused one.

    A frequency implies that the node runs, except the frequency "paused".

    Raises:
        ValueError: the mode or frequency does not exist, or they contradict each other.
    """
    if mode not in {None, "paused", "running"}:
        raise ValueError(f'mode={mode!r}: use "paused" or "running"')
    if (mode, freq) == ("running", PAUSED) or (mode == PAUSED and freq not in {None, PAUSED}):
        raise ValueError(f"mode={mode!r} with freq={freq!r}: a frequency makes a handle run; leave out mode or freq")
    return None if freq == PAUSED or (freq is None and mode != "running") else checked_freq(freq or "Sync")


def _is_interval(seconds: float) -> bool:
    try:
        return 0.0 < float(seconds) < inf
    except OverflowError:
        return False


def mutating(method: Callable[Concatenate[_N, _P], None]) -> Callable[Concatenate[_N, _P], _N]:
    """Make a method emit MethodCalled and return its node.

    A method that raises must have changed nothing, and emits nothing. Outside the thread of the statement or tick it
    raises NodeChangeError.
    """

    @wraps(method)
    def call(self: _N, *args: _P.args, **kwargs: _P.kwargs) -> _N:
        self.admit(method.__name__)
        before = self.digest()
        method(self, *args, **kwargs)
        self.note_call(method.__name__, args, kwargs, before)
        return self

    return call


class NodeBase(ABC):
    """A context object.

    `tokens` and `lod` are its policy; `mode`, `freq` and `min_turn_interval` its schedule.

    `last_tick_turn` is the Round of the last tick (-1: none yet), `last_tick_time` its time in seconds since the epoch
    (0.0: none yet). `dirty`: the last render is out of date. `changed`: the node's content differs from the last
    projection. `pinned` is the reason why the session keeps and favours the node, or None. `last_touched` is the number
    of the last statement that called one of its methods.
    """

    __slots__ = (
        "__weakref__",
        "_changed",
        "_context",
        "_freq",
        "_holders",
        "_last_tick_time",
        "_last_tick_turn",
        "_last_touched",
        "_lod",
        "_min_turn_interval",
        "_obj_id",
        "_pinned",
        "_running",
        "_sparing",
        "_tokens",
    )

    obj_type: ClassVar[str]
    default_tokens: ClassVar[DefaultTokens]
    _PUBLIC: ClassVar[tuple[str, ...]] = (
        *("obj_id", "obj_type", "title", "path", "mode", "running", "freq", "min_turn_interval", "lod", "tokens"),
        *("dirty", "changed", "pinned", "rendered", "last_tick_turn", "last_tick_time", "last_touched"),
        *("GetDigest", "Render", "SetTokens", "SetLod", "Run", "Pause", "Refresh"),
    )
    """The names that statements use."""

    def __init__(self, context: NodeContext, *, tokens: Budget, lod: int) -> None:
        self._tokens = checked_budget(tokens)
        self._sparing = isinstance(tokens, DefaultTokens)
        self._lod = checked_lod(lod)
        self._context = context
        self._running = False
        self._freq: Frequency | None = None
        self._min_turn_interval = 1
        self._last_tick_turn = -1
        self._last_tick_time = 0.0
        self._changed = False
        self._holders: tuple[ReferenceType[NodeBase], ...] = ()
        self._pinned: str | None = None
        self._last_touched = context.statement()
        self._obj_id = context.mint(self.obj_type)

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def obj_id(self) -> ObjId:
        return self._obj_id

    @property
    def mode(self) -> Mode:
        return "running" if self._running else "paused"

    @property
    def running(self) -> bool:
        return self._running

    @property
    def idle(self) -> bool:
        """Whether it runs and has nothing to follow."""
        return False

    @property
    def freq(self) -> Frequency | None:
        """When it is ticked while running; None before the first Run."""
        return self._freq

    @property
    def min_turn_interval(self) -> int:
        """Rounds between two Sync ticks, at least 1."""
        return self._min_turn_interval

    @min_turn_interval.setter
    def min_turn_interval(self, rounds: int) -> None:
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - set by user code
            raise ValueError(f"min_turn_interval={rounds!r}: give a number of model calls, at least 1")
        self.admit("min_turn_interval")
        before = self.digest()
        self._min_turn_interval = rounds
        self.note_call("min_turn_interval", (rounds,), {}, before)

    @property
    def called(self) -> str:
        return self._context.name(self)

    @property
    def last_tick_turn(self) -> int:
        return self._last_tick_turn

    @property
    def last_tick_time(self) -> float:
        return self._last_tick_time

    @property
    def tokens(self) -> Budget:
        return self._tokens

    @tokens.setter
    def tokens(self, value: object) -> NoReturn:
        raise AttributeError(
            f"tokens cannot be assigned; call {self.called}.SetTokens({cut_line(repr(value), _LONGEST_REPR)})"
        )

    @property
    def sparing(self) -> bool:
        """Whether nobody chose the budget, so that levels 1 and 2 keep to their shares of a text."""
        return self._sparing

    def at_most(self, tokens: int) -> Budget:
        """Return a smaller budget for `Render`, that nobody chose if nobody chose the node's."""
        return DefaultTokens(tokens) if self._sparing else tokens

    def _is_sparing(self, tokens: Budget | None) -> bool:
        """Return whether a render within this budget, or the node's own, is sparing."""
        return self._sparing if tokens is None else isinstance(tokens, DefaultTokens)

    @property
    def lod(self) -> int:
        return self._lod

    @lod.setter
    def lod(self, value: object) -> NoReturn:
        raise AttributeError(
            f"lod cannot be assigned; call {self.called}.SetLod({cut_line(repr(value), _LONGEST_REPR)})"
        )

    @property
    def changed(self) -> bool:
        return self._changed

    @property
    def pinned(self) -> str | None:
        return self._pinned

    @property
    def last_touched(self) -> int:
        return self._last_touched

    def is_stale(self) -> bool:
        """Return whether a tick would find a change.

        Looks at the disk, but adopts nothing.
        """
        return self._running and bool(self.foresee())

    def mark_displayed(self, statement: int, rendered: RenderedView, lod: int | None = None) -> None:  # noqa: B027 - most nodes keep no note of it
        """Note that the result of a statement, or the tail after it, shows `rendered` at `lod` or its own level."""

    def mark_other(self) -> None:  # noqa: B027 - most nodes keep no note of it
        """Note that the conversation shows other content of the node, which is not known here."""

    def mark_changed(self) -> None:
        """Note that the content differs from what the model has read."""
        self._changed = True

    def mark_projected(self) -> None:
        """Note that the model has read the current state, and all displays so far."""
        self._changed = False

    @property
    @abstractmethod
    def dirty(self) -> bool: ...

    @property
    @abstractmethod
    def title(self) -> str:
        """The node's subject in one line: for a view, the document and the position in it."""

    @property
    def path(self) -> str | None:
        """Absolute path of the node's file; None if it is not about one file."""
        return None

    @property
    def line_count(self) -> int:
        """Number of the last line of the node's document; 0 without a document."""
        return 0

    @property
    def document_state(self) -> RevisionState | Literal[""]:
        """State of the node's document; empty without a document."""
        return ""

    @property
    def reason(self) -> str:
        """Why the node's document has no content, as a clause; empty if it has content, or without a document."""
        return ""

    @property
    def fingerprint(self) -> str:
        """xxh3 hex of the content; empty if it is not one document's."""
        return ""

    @property
    def members(self) -> tuple[object, ...]:
        """The members of a group, as the statement gave them.

        Empty for other nodes.
        """
        return ()

    def children(self) -> tuple[NodeBase, ...]:
        """Return the members that are nodes."""
        return ()

    def holders(self) -> tuple[NodeBase, ...]:
        """Return the groups that have this node as a member."""
        return tuple(holder for each in self._holders if (holder := each()) is not None)

    @property
    def rendered(self) -> RenderedView:
        """The render at the node's own policy; reading it makes the node clean."""
        rendered = self.measure()
        self._clean()
        return rendered

    @abstractmethod
    def measure(self) -> RenderedView:
        """Like `rendered`, but the node stays dirty.

        Cached until something it depends on changes.
        """

    @abstractmethod
    def state(self) -> Struct:
        """Return the node's state without its id and its members."""

    @abstractmethod
    def part(self) -> Part:
        """Return the node's current content for the summary of a group."""

    def salience(self) -> Salience:
        """Return the facts that decide the node's share of a group's budget."""
        edited = 0 if self.path is None else self._context.edited(self.path)
        return Salience(
            pinned=self._pinned is not None, changed=self._changed, touched=self._last_touched, edited=edited
        )

    # --- the DSL -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def GetDigest(self) -> dict[str, object]:
        """Return the node's state as a small dict of plain data."""

    @abstractmethod
    def Render(self, lod: int | None = None, tokens: Budget | None = None) -> RenderedView:
        """Render within the node's own policy or the given one; changes nothing."""

    @abstractmethod
    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult:
        """Adopt changes since the last tick and describe them.

        Called by the phases of a tick.
        """

    def net_change(self, *, since_read: int, told: bool, paths: set[str]) -> str | None:
        """Describe the change from the content that the conversation shows to the present one, with a diff.

        Args:
            since_read: number of ticks that changed the node since a model last read it.
            told: whether a model has read of a change since that content.
            paths: absolute paths of files whose diffs stand elsewhere. A group leaves them out, and adds its own.

        Returns "" if there is nothing to tell, and None if the conversation shows nothing of the node.
        """
        del since_read, told, paths
        return None

    def foresee(self) -> str:
        """Describe, in one line, the change that a tick would report now.

        Returns "" for none. Changes nothing.
        """
        return ""

    def take_payload(self, payload: UpdatePayload, now: float, turn_id: int) -> TickResult | DropReason:
        """Apply a payload, or return the reason why not.

        Called by the async phase.
        """
        del payload, now, turn_id
        return "unusable"

    def wants(self) -> Iterable[Want]:
        """Return the work that would be useful for later ticks."""
        return ()

    @mutating
    def SetTokens(self, tokens: Budget) -> None:
        """Set the budget: a number of tokens, or All."""
        checked = checked_budget(tokens)
        if checked != self._tokens or self._sparing:
            self._tokens, self._sparing = checked, False
            self._touch("policy")

    @mutating
    def SetLod(self, lod: int) -> None:
        """Set the level of detail."""
        checked = checked_lod(lod)
        if checked != self._lod:
            self._lod = checked
            self._touch("policy")

    @mutating
    def Run(self, freq: Frequency = "Sync") -> None:
        """Adopt the current content, then follow it at ticks."""
        self._freq = checked_freq(freq)
        self._running = True
        self._adopt()

    @mutating
    def Pause(self) -> None:
        """Keep the current content until Refresh or Run."""
        self._changed = self._changed or self._running
        self._running = False

    @mutating
    def Refresh(self) -> None:
        """Adopt the current content, and render it."""
        self._adopt()
        self.measure()
        self._clean()

    # --- members, holders, pins ----------------------------------------------------------------------------------

    def OnMemberChanged(self, member: NodeBase) -> bool:
        """Handle a change of a member.

        Return whether this node's content changes with it at once.
        """
        del member
        return False

    def on_member_shown(self) -> bool:
        """Like `OnMemberChanged`, for a member with another revision to compare with, or another pin."""
        return False

    def note_holder(self, holder: NodeBase, *, held: bool) -> None:
        """Add or remove a group that has this node. The reference is weak."""
        others = [each for each in self._holders if each() not in (None, holder)]
        self._holders = (*others, ref(holder)) if held else tuple(others)

    def favour(self, reason: str | None) -> None:
        """Pin the node for a reason, or unpin it with None.

        Called by the Board, which keeps pinned nodes alive.
        """
        if reason != self._pinned:
            self._pinned = reason
            self._notify_of_display()

    # --- for subclasses ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _adopt(self) -> None:
        """Adopt the current content of the source."""

    @abstractmethod
    def _clean(self) -> None:
        """Note that the current render was seen."""

    def _touch(self, what: Aspect) -> None:
        """Note a change of this aspect."""
        self._changed = True
        self._notify_holders()

    def _notify_holders(self) -> None:
        """Tell groups that the content changed."""
        self._notify(lambda holder, member: holder.OnMemberChanged(member))

    def _notify_of_display(self) -> None:
        """Tell groups that the unchanged node may look different: after a display, or a pin."""
        self._notify(lambda holder, _: holder.on_member_shown())

    def _notify(self, notify: Callable[[NodeBase, NodeBase], bool]) -> None:
        """Tell the groups around the node, and as far as they change the groups around them, each once."""
        waiting: list[NodeBase] = [self]
        notified = {id(self)}
        while waiting:
            member = waiting.pop()
            for holder in member.holders():
                if notify(holder, member) and id(holder) not in notified:
                    notified.add(id(holder))
                    waiting.append(holder)

    def admit(self, what: str) -> None:
        """Raise NodeChangeError if the current thread may not change nodes now."""
        self._context.admit(what)

    def digest(self) -> str:
        """xxh3 hex of `GetDigest`."""
        return xxhash.xxh3_64_hexdigest(msgspec.json.encode(self.GetDigest()))

    def note_call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], before: str) -> None:
        """Emit MethodCalled for a call that has taken effect."""
        self._last_touched = self._context.statement()
        self._context.emit(
            MethodCalled(
                obj_id=self._obj_id,
                obj_type=self.obj_type,
                method=method,
                args=tuple(cut_line(repr(value), _LONGEST_REPR) for value in args),
                kwargs={name: cut_line(repr(value), _LONGEST_REPR) for name, value in kwargs.items()},
                before_digest=before,
                after_digest=self.digest(),
            )
        )

    def _schedule_digest(self) -> dict[str, object]:
        """Return the part of `GetDigest` that all nodes share."""
        return {
            "obj_id": self._obj_id,
            "type": self.obj_type,
            "mode": self.mode,
            "freq": self._freq,
            "min_turn_interval": self._min_turn_interval,
            "lod": self._lod,
            "tokens": self._tokens if isinstance(self._tokens, int) else repr(self._tokens),
            # Rendered differently from the default budget, though the number is the same.
            **({"chosen": True} if self._tokens == self.default_tokens and not self._sparing else {}),
            **({} if self._pinned is None else {"pinned": self._pinned}),
        }

    def __copy__(self) -> NoReturn:
        # A copy would have the same id, so the log would confuse the calls of both.
        raise TypeError(f"a handle cannot be copied; call {self.obj_type}() to make another")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __repr__(self) -> str:
        when = f"{self.mode} {shown_frequency(self)}".strip()
        return f"<{self.obj_type} {self.title} {when} lod={self._lod} tokens={self._tokens!r}>"

    def __dir__(self) -> list[str]:
        """List what statements use: completion and `dir(handle)` show no internals."""
        return sorted(self._PUBLIC)


def shown_frequency(node: NodeBase) -> str:
    """How the node follows its source: "Sync", "Periodic 5s"; empty for a paused one."""
    freq = node.freq if node.running else None
    return f"{freq[0]} {freq[1]:g}s" if isinstance(freq, tuple) else freq or ""
