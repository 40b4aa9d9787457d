"""Whether somebody else than the user has written statements in a session: a fold over its whole log.

What a model or a client wrote, or whoever wrote a log that was imported, leaves things behind in the namespace, and
what is typed later meets them. So all of the session is held from then on. It cannot be taken back: not by another
branch, a rewind or a load, nor by a fork, which takes `OthersWrote` along. Logs of earlier versions do not have that
event, and what they say of their calls tells the same. Pure. Followed by the log; asked by `session.confining`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from ..core.ids import ToolCallId
from .events import UNSTAMPED, Event
from .events.conversation import AgentReasoning, AgentText, RunStop, ToolCall
from .events.execution import ExecutionStarted, StatementRecorded
from .events.nodes import NodesTicked, TickApplied
from .events.session import (
    DomainEntered,
    ModelCallEnded,
    OthersWrote,
    ProjectionSent,
    RoundCause,
    RoundOpened,
    ServerConnected,
    ServersNamed,
    UsageReported,
)


class Provenance:
    """`is_foreign`: not all statements are the user's. `apply` is for the whole log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((OthersWrote, DomainEntered, ToolCall, StatementRecorded))

    def __init__(self) -> None:
        self.is_foreign = False
        self.imported_at: int = UNSTAMPED
        """The position up to which the log came from elsewhere; -1 where all of it was made here."""
        self.written: dict[str, None] = {}
        """The directories in which statements that were held could write, whatever the branch."""
        self._asked: set[ToolCallId] = set()
        """The calls that a model made, as long as no statement is known to be one's."""

    def apply(self, event: Event) -> None:
        match event:
            case OthersWrote(by=by):
                self.is_foreign = True
                self.imported_at = event.seq if by == "import" else self.imported_at
            case DomainEntered(held=True, writable=writable):
                self.written |= dict.fromkeys(writable)
            case ToolCall(parent_id=None, typed=False, tool_call_id=call) if not self.is_foreign:
                self._asked.add(call)
            case StatementRecorded(tool_call_id=call) if call in self._asked:
                self.is_foreign = True
                self._asked.clear()
            case _:
                pass


# rounds:
# How many Rounds a session has had, as a fold over its whole log, whatever path of it is active.
#
# Nodes compare the numbers of Rounds, so none may come twice: not on another branch, nor in a log of an earlier
# version, which counted model calls and did not say when a Round began. What such a log numbers counts as used. Must
# not know what a Round is opened for. Followed by the log; asked by whoever opens Rounds.


class Rounds:
    """`next` is the number of the Round that will be opened next. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (RoundOpened, UsageReported, NodesTicked, TickApplied, ExecutionStarted)
    )

    def __init__(self) -> None:
        self.next = 0
        self._calls = 0
        self._says_when = False

    def apply(self, event: Event) -> None:
        match event:
            case RoundOpened(round_id=round_id):
                self._says_when = True
                self._use(round_id)
            case UsageReported() if not self._says_when:
                self._calls += 1
                self._use(self._calls - 1)
            case NodesTicked(round_id=round_id) | TickApplied(turn_id=round_id):
                self._use(round_id)
            case ExecutionStarted(round_id=int(round_id)):
                self._use(round_id)
            case _:
                pass

    def opening(self, cause: RoundCause) -> RoundOpened:
        """The event with which the next Round begins, to be appended."""
        return RoundOpened(round_id=self.next, cause=cause)

    def _use(self, round_id: int) -> None:
        self.next = max(self.next, round_id + 1)


# readings:
# What a model has read, as one fact: a fold over the log that says up to which position, and how often it read.
#
# A model has read what a call carried as soon as that call began to answer. A call that failed, was refused or was
# cancelled before that has read nothing, and neither has whoever looks. Each call leaves a ProjectionSent that says
# at which position of the log its prompt was made, and a ModelCallEnded that says whether it was answered: what
# happened after that position, while the model was answering, it has not read. Where the host was lost during a call,
# the repair of the log ends it, as answered where the log has something of the answer. In logs of earlier versions
# one event says both, at the end of the call, and a RunStop closes what a lost host left open; or UsageReported does,
# where each call counted.
#
# Followed by `context.tail.feed` and by `replay`, so that what a tail tells and what handles take for read are never
# two opinions.

READING: Final = frozenset(
    (AgentText, AgentReasoning, ToolCall, RunStop, ProjectionSent, ModelCallEnded, UsageReported)
)
"""The kinds of event that say something about readings."""


class Readings:
    """`count` grows with each reading. The events before position `until` are read."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self.count = 0
        self.until = 0
        self._begun: int | None = None
        """Where an answer began whose call has not ended."""
        self._position = 0
        """Of the prompt of the call that has not ended."""

    def apply(self, event: Event) -> None:
        """For the log alone."""
        # By kind first, because a log has hundreds of thousands of events, and most are of no other kind here.
        if type(event) in READING:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case AgentText(aside=False) | AgentReasoning() | ToolCall(parent_id=None):
                self._begun = event.seq if self._begun is None else self._begun
            case ProjectionSent(answered=answered, position=position):
                self._begun, self._position = None, position
                if answered:
                    self._read(position)
            case ModelCallEnded(answered=answered):
                self._begun = None
                if answered:
                    self._read(self._position)
            case UsageReported():
                self._begun = None
                self._read(event.seq)
            case RunStop() if self._begun is not None:
                begun, self._begun = self._begun, None
                self._read(begun)
            case _:
                pass

    def _read(self, until: int) -> None:
        self.count += 1
        self.until = max(self.until, until)


# server modules:
# Which MCP servers a session has had: their modules, and what each offered when that was told last. A fold.
#
# Follows the log. Read where servers are named, and by `session.servers`.


class ServerModules:
    """`modules` by the names of servers; `offers`, tools and resources, by those of modules. `apply` is for the log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ServersNamed, ServerConnected))

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self.offers: dict[str, tuple[int, int]] = {}

    def apply(self, event: Event) -> None:
        match event:
            case ServersNamed(modules=modules):
                self.modules.update(modules)
            case ServerConnected(module=module, tools=tools, resources=resources):
                self.offers[module] = tools, resources
            case _:
                pass
