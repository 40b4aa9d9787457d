"""What a session's document knows so far: for each entry the events that it is made of.

Values alone. `document` fills them in, `entries` reads them.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from ...core.execution import Display
from ...core.ids import BlobDigest, EventId, ExecutionId, ToolCallId
from ...log.cycles import RequestCycle
from ...log.events import Event
from ...log.events.conversation import (
    ToolCall,
)
from ...log.events.execution import (
    CommandEnded,
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    StatementRecorded,
)
from ...log.events.going_back import (
    Diverged,
    FileToRestore,
)
from ...log.events.nodes import (
    NodeMade,
)
from ...log.events.session import (
    ModelCallEnded,
    PermissionAnswered,
    PermissionAsked,
    ProjectionSent,
    SessionMoved,
    SessionOpened,
)
from . import shapes


class Run(Struct):
    """An execution so far."""

    started: ExecutionStarted
    statement: int
    finished: ExecutionFinished | None = None
    effects: dict[int, tuple[EffectRequested | None, EffectAnswered | None]] = field(default_factory=dict[int, Any])
    commands: list[CommandEnded] = field(default_factory=list[CommandEnded])
    files: list[str] = field(default_factory=list[str])
    divergences: list[Diverged] = field(default_factory=list[Diverged])
    checkpoint: bool = False


class Told(Struct):
    """A statement so far."""

    event: StatementRecorded
    call: ToolCall | None
    before: tuple[int, ...]
    after: list[int] = field(default_factory=list[int])
    runs: list[int] = field(default_factory=list[int])
    omitted: dict[str, bool] = field(default_factory=dict[str, bool])


class Sent(Struct):
    """A model call so far. `messages` are keys of messages."""

    number: int
    event: ProjectionSent
    kept: int
    messages: tuple[int, ...]
    handles: tuple[shapes.HandleTokens, ...] = ()
    ended: ModelCallEnded | None = None


class Held(Struct):
    """A handle so far."""

    made: NodeMade
    changes: list[tuple[Event, str, str]] = field(default_factory=list[tuple[Event, str, str]])
    shown: Display | None = None
    shown_at: int | None = None
    unread: int = 0


class Move(Struct):
    """A move in time so far: the event that began it, and the one that ended it."""

    begun: Event
    ended: Event | None = None


class Drafts:
    """The entries so far, by their keys."""

    def __init__(self) -> None:
        self.opened: SessionOpened | None = None
        self.moved: SessionMoved | None = None
        self.calls_made: dict[ToolCallId, ToolCall] = {}
        self.statements: dict[int, Told] = {}
        self.runs: dict[int, Run] = {}
        self.run_of: dict[ExecutionId, int] = {}
        self.files: dict[str, list[tuple[str, Event, FileToRestore | None]]] = {}
        """By path: the key of each change, its event, and the file if a rewind restored it."""
        self.items: dict[int, Event] = {}
        self.sent: list[Sent] = []
        self.messages: list[tuple[EventId, bool, BlobDigest | None]] = []
        """The event of each message, whether its model calls tools, and the shortened text."""
        self.handles: dict[int, Held] = {}
        self.questions: dict[int, tuple[PermissionAsked | PermissionAnswered, PermissionAnswered | None]] = {}
        self.moves: dict[int, Move] = {}
        self.notes: dict[int, Event] = {}
        self.cycles: dict[str, RequestCycle] = {}
