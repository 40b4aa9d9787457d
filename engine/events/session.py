"""The life of a session: how it was opened, what waits in its queue, what its View and context cost."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..ids import MessageId, ToolCallId
from ..text import Exact
from .base import Event

Mode = Literal["ask", "auto", "plan"]
PermissionOutcome = Literal["allowed", "rejected", "cancelled"]
RoundCause = Literal["call", "tick", "cell"]
"""What a Round is opened for: a model call, a tick that somebody asked for, a statement from outside a Turn."""


class SessionOpened(Event, frozen=True, kw_only=True):
    """The first event of every log. `packages` are `name-version` of the project's environment, sorted."""

    kind: ClassVar[str] = "session_opened"

    cwd: Exact
    directories: tuple[Exact, ...] = ()
    python: Exact = ""
    packages: tuple[Exact, ...] = ()


class SessionMoved(Event, frozen=True, kw_only=True):
    """From here on the session works in other directories: a client that loaded it chose them."""

    kind: ClassVar[str] = "session_moved"

    cwd: str
    directories: tuple[str, ...] = ()
    python: str = ""
    packages: tuple[str, ...] = ()


class PromptQueued(Event, frozen=True, kw_only=True):
    """A prompt came while a turn was running and waits for its own."""

    kind: ClassVar[str] = "prompt_queued"

    message_id: MessageId
    text: str


class PromptWithdrawn(Event, frozen=True, kw_only=True):
    """A queued prompt will not run: the user cancelled, or the session was closed."""

    kind: ClassVar[str] = "prompt_withdrawn"

    message_id: MessageId


class RoundOpened(Event, frozen=True, kw_only=True):
    """The Round `round_id` began: for a model call, with its tick; for a tick that was asked for; for a cell.

    No number is used twice on a log. What belongs to a Round follows it, until the next one is opened.
    """

    kind: ClassVar[str] = "round_opened"

    round_id: int
    cause: RoundCause


class UsageReported(Event, frozen=True, kw_only=True):
    """Exact tokens of the projection of one model call (`used`), and the budget they had to fit (`size`)."""

    kind: ClassVar[str] = "usage_reported"

    used: int
    size: int


class ViewEnforced(Event, frozen=True, kw_only=True):
    """A property of the View had to remove events: the log came from elsewhere or held a bad condensation."""

    kind: ClassVar[str] = "view_enforced"

    property_name: Exact
    count: int


class EnvironmentRestored(Event, frozen=True, kw_only=True):
    """The namespace was rebuilt by running `executions` again; each divergence is a sentence on one that differed."""

    kind: ClassVar[str] = "environment_restored"

    executions: int
    divergences: tuple[str, ...] = ()


class PermissionAsked(Event, frozen=True, kw_only=True):
    """The user was asked whether something may be done. `scope` says what a remembered answer would cover."""

    kind: ClassVar[str] = "permission_asked"

    tool_call_id: ToolCallId
    scope: Exact


class PermissionAnswered(Event, frozen=True, kw_only=True):
    """What was decided, and whether it counts for the rest of the session within the scope."""

    kind: ClassVar[str] = "permission_answered"

    tool_call_id: ToolCallId
    scope: Exact
    outcome: PermissionOutcome
    remembered: bool = False


class ModeChanged(Event, frozen=True, kw_only=True):
    """From now on effects are asked about (`ask`), made without asking (`auto`), or refused (`plan`)."""

    kind: ClassVar[str] = "mode_changed"

    mode: Mode


class ConfigChanged(Event, frozen=True, kw_only=True):
    """An option of the session got another value."""

    kind: ClassVar[str] = "config_changed"

    option: Exact
    value: Exact


class TitleChanged(Event, frozen=True, kw_only=True):
    """What a listing calls the session."""

    kind: ClassVar[str] = "title_changed"

    title: str


SessionEvent = (
    SessionOpened
    | SessionMoved
    | PromptQueued
    | PromptWithdrawn
    | RoundOpened
    | UsageReported
    | ViewEnforced
    | EnvironmentRestored
    | PermissionAsked
    | PermissionAnswered
    | ModeChanged
    | ConfigChanged
    | TitleChanged
)
