"""What all nodes have in common: identity, schedule, policy, and the events of the methods that change them.

Methods marked `mutating` emit MethodCalled with the digests before and after, and return the node, so that calls chain.
State can be read but only methods change it. Must not know the Board, which gives each a `NodeContext`.
One file in spite of its length, because it is the one surface that all nodes have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
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
from .rendered import Budget, RenderedView, checked_budget
from .ticks import Frequency, TickResult

Mode = Literal["paused", "running"]
Aspect = Literal["pos", "policy", "source"]
"""The parts of a node that can change."""
_LONGEST_REPR: Final = 80
_FREQUENCIES: Final = (
    '"Sync" (before each model call), "Async" (when prepared) or ("Periodic", seconds) with seconds above 0'
)
_P = ParamSpec("_P")
_N = TypeVar("_N", bound="NodeBase")


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a node needs from its board: a new id for its type, where events go, how tokens are counted.

    `outline` gives what a revision declares, by a path that tells its language. `tells` says whether anybody is told of
    what a tick changes. `statement` gives the number of the one that runs, or ran last; `name` what a node is called in
    the namespace, its id where it has no name; `knows` whether it is one of the board's; `admit` raises
    NodeChangeError, with the name of what was called, where the calling thread may not change nodes now; `glob` gives
    the files that such a text stands for, or raises ValueError.
    """

    mint: Callable[[str], ObjId]
    emit: Callable[[Event], None]
    count: Callable[[str], int]
    outline: OutlineOf
    tells: Callable[[], bool]
    statement: Callable[[], int]
    name: Callable[[NodeBase], str]
    knows: Callable[[NodeBase], bool]
    admit: Callable[[str], None]
    glob: Callable[[str], Glob]


def checked_freq(freq: object) -> Frequency:
    """`freq`, if nodes can be ticked so; an interval as a float.

    Raises:
        ValueError: it does not.
    """
    match freq:
        case "Sync":
            return "Sync"
        case "Async":
            return "Async"
        case ("Periodic", float() | int() as seconds) if not isinstance(seconds, bool) and _is_interval(seconds):
            return "Periodic", float(seconds)
        case _:
            raise ValueError(f"freq={cut_line(repr(freq), _LONGEST_REPR)}: give {_FREQUENCIES}")


def _is_interval(seconds: float) -> bool:
    try:
        return 0.0 < float(seconds) < inf
    except OverflowError:
        return False


def mutating(method: Callable[Concatenate[_N, _P], None]) -> Callable[Concatenate[_N, _P], _N]:
    """Makes a method emit MethodCalled and return its node. One that raises has changed nothing and emits nothing.

    From any thread but that of the statement or the tick it raises NodeChangeError.
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
    """A context object. `tokens` and `lod` are its policy; `mode`, `freq` and `min_turn_interval` its schedule.

    `last_tick_turn` is the Round of the last tick (-1: none yet), `last_tick_time` its time in seconds since the
    epoch (0.0: none yet). `dirty` says that the last render is out of date. `changed` says that the node shows
    something else than at the last projection, or than when it was made after that. `pinned` is the reason for which
    the session holds and favours the node, None where it does not; `last_touched` the number of the statement that last
    called one of its methods.
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
        "_tokens",
    )

    obj_type: ClassVar[str]

    def __init__(self, context: NodeContext, *, tokens: Budget, lod: int) -> None:
        self._tokens = checked_budget(tokens)
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
        """How often ticks come while running; None before the first Run."""
        return self._freq

    @property
    def min_turn_interval(self) -> int:
        """Rounds between two Sync ticks, at least 1."""
        return self._min_turn_interval

    @min_turn_interval.setter
    def min_turn_interval(self, rounds: int) -> None:
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - set by user code
            raise ValueError(f"min_turn_interval={rounds!r}: give a number of ticks from 1 on")
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

    @property
    def lod(self) -> int:
        return self._lod

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
        """Whether a tick would find a change of what it follows; nothing is adopted. Asks the disk."""
        return self._running and bool(self.foresee())

    def mark_displayed(self, statement: int, rendered: RenderedView, lod: int | None = None) -> None:  # noqa: B027 - most nodes keep no note of it
        """The result of statement number `statement`, or the tail after it, shows `rendered` at `lod` or its own."""

    def mark_changed(self) -> None:
        """It shows something else than the model has read."""
        self._changed = True

    def mark_projected(self) -> None:
        """The model has read the present state, and all that was displayed until now."""
        self._changed = False

    @property
    @abstractmethod
    def dirty(self) -> bool: ...

    @property
    @abstractmethod
    def title(self) -> str:
        """What the node is about, on one line: for a view, where it stands in which document."""

    @property
    def path(self) -> str | None:
        """Absolute path of the one file that it is about; None where there is no such file."""
        return None

    @property
    def line_count(self) -> int:
        """The number of the last line of the document that it is about; 0 where there is none."""
        return 0

    @property
    def document_state(self) -> RevisionState | Literal[""]:
        """What the document that it is about is found to be; empty where there is none."""
        return ""

    @property
    def fingerprint(self) -> str:
        """xxh3 hex of the content that it shows; empty where that is not one document's."""
        return ""

    @property
    def members(self) -> tuple[object, ...]:
        """What it was made to hold, in order; empty for a node that holds nothing."""
        return ()

    def children(self) -> tuple[NodeBase, ...]:
        """The nodes among its members."""
        return ()

    def holders(self) -> tuple[NodeBase, ...]:
        """The nodes that have it as a member."""
        return tuple(holder for each in self._holders if (holder := each()) is not None)

    @property
    def rendered(self) -> RenderedView:
        """The render at the node's own policy. Whoever asks for it has it: the node is dirty no more."""
        rendered = self.measure()
        self._clean()
        return rendered

    @abstractmethod
    def measure(self) -> RenderedView:
        """The same, for whoever only looks. Kept until something it depends on changes."""

    @abstractmethod
    def state(self) -> Struct:
        """All that there is to the node but its id and its members."""

    @abstractmethod
    def part(self) -> Part:
        """The node as it is now, for the summary of a group that holds it."""

    def salience(self) -> Salience:
        """What it has for itself when a group divides its budget."""
        return Salience(pinned=self._pinned is not None, changed=self._changed, touched=self._last_touched)

    # --- the DSL -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def GetDigest(self) -> dict[str, object]:
        """The node's state as a small dict of plain data."""

    @abstractmethod
    def Render(self, lod: int | None = None, tokens: Budget | None = None) -> RenderedView:
        """The node's text within its own policy or the given one; changes nothing."""

    @abstractmethod
    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult:
        """Adopts what changed since the last tick and says how. Called by the tick's phases."""

    def foresee(self) -> str:
        """What a tick would bring now, in one line; empty for nothing. Nothing changes, and nothing counts as told."""
        return ""

    def take_payload(self, payload: UpdatePayload, now: float, turn_id: int) -> TickResult | DropReason:
        """Applies what was prepared for this node, or says why not; called by the tick's phases. None is by default."""
        del payload, now, turn_id
        return "unusable"

    def wants(self) -> Iterable[Want]:
        """What could be prepared for this node, for ticks to come. Nothing, by default."""
        return ()

    @mutating
    def SetTokens(self, tokens: Budget) -> None:
        """Sets the budget: a number of tokens, or All."""
        checked = checked_budget(tokens)
        if checked != self._tokens:
            self._tokens = checked
            self._touch("policy")

    @mutating
    def SetLod(self, lod: int) -> None:
        """Sets the level of detail."""
        checked = checked_lod(lod)
        if checked != self._lod:
            self._lod = checked
            self._touch("policy")

    @mutating
    def Run(self, freq: Frequency = "Sync") -> None:
        """Adopts the present content, then follows it at ticks."""
        self._freq = checked_freq(freq)
        self._running = True
        self._adopt()

    @mutating
    def Pause(self) -> None:
        """Keeps the present content until Refresh or Run."""
        self._changed = self._changed or self._running
        self._running = False

    @mutating
    def Refresh(self) -> None:
        """Adopts the present content now."""
        self._adopt()

    # --- members, holders, pins ----------------------------------------------------------------------------------

    def OnMemberChanged(self, member: NodeBase) -> bool:
        """A member shows something else now. Called on its behalf; returns whether this node does so too, with that."""
        del member
        return False

    def on_member_shown(self) -> bool:
        """As `OnMemberChanged`, where what was shown last of a member is another now."""
        return False

    def note_holder(self, holder: NodeBase, *, held: bool) -> None:
        """A node holds this one from now on, or no longer does. Who holds it is not kept alive by it."""
        others = [each for each in self._holders if each() not in (None, holder)]
        self._holders = (*others, ref(holder)) if held else tuple(others)

    def favour(self, reason: str | None) -> None:
        """Pins the node for that reason, or ends it with None. Called by the Board, which holds what is pinned."""
        if reason != self._pinned:
            self._pinned = reason
            self._tell_of_showing()

    # --- for subclasses ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _adopt(self) -> None:
        """Takes over what the source holds now."""

    @abstractmethod
    def _clean(self) -> None:
        """The present render has been seen."""

    def _touch(self, what: Aspect) -> None:
        """Notes that `what` changed."""
        self._changed = True
        self._tell_holders()

    def _tell_holders(self) -> None:
        """It shows something else now."""
        self._tell(lambda holder, member: holder.OnMemberChanged(member))

    def _tell_of_showing(self) -> None:
        """It is what it was, and a group may show it otherwise: another text of it was shown last, or it is pinned."""
        self._tell(lambda holder, _: holder.on_member_shown())

    def _tell(self, tell: Callable[[NodeBase, NodeBase], bool]) -> None:
        """Tells those that hold it, and as far as that changes them, those that hold them; each of these once."""
        waiting: list[NodeBase] = [self]
        told = {id(self)}
        while waiting:
            member = waiting.pop()
            for holder in member.holders():
                if tell(holder, member) and id(holder) not in told:
                    told.add(id(holder))
                    waiting.append(holder)

    def admit(self, what: str) -> None:
        """Raises NodeChangeError where the calling thread may not change nodes now."""
        self._context.admit(what)

    def digest(self) -> str:
        """xxh3 hex of `GetDigest`."""
        return xxhash.xxh3_64_hexdigest(msgspec.json.encode(self.GetDigest()))

    def note_call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], before: str) -> None:
        """Emits MethodCalled for a call that has just taken effect."""
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
        """The part of `GetDigest` that all nodes share."""
        return {
            "obj_id": self._obj_id,
            "type": self.obj_type,
            "mode": self.mode,
            "freq": self._freq,
            "min_turn_interval": self._min_turn_interval,
            "lod": self._lod,
            "tokens": self._tokens if isinstance(self._tokens, int) else repr(self._tokens),
            **({} if self._pinned is None else {"pinned": self._pinned}),
        }

    def __copy__(self) -> NoReturn:
        # Because a copy would have the same id, and the log would take its calls for those of this one.
        raise TypeError(f"a handle cannot be copied; {self.obj_type}() makes another")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __repr__(self) -> str:
        return f"<{self.obj_type} {self.title} {self.mode} tokens={self._tokens!r}>"
