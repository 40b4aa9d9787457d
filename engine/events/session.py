"""The life of a session: how it was opened, what waits in its queue, what its View and context cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..ids import MessageId
from .base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Event):
    """The first event of every log. `packages` are `name-version` of the project's environment, sorted."""

    kind: ClassVar[str] = "session_opened"

    cwd: str
    directories: tuple[str, ...] = ()
    python: str = ""
    packages: tuple[str, ...] = ()
    hash_seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptQueued(Event):
    """A prompt came while a turn was running and waits for its own."""

    kind: ClassVar[str] = "prompt_queued"

    message_id: MessageId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptWithdrawn(Event):
    """A queued prompt will not run: the user cancelled, or the session was closed."""

    kind: ClassVar[str] = "prompt_withdrawn"

    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported(Event):
    """Exact tokens of the projection of one model call (`used`), and the budget they had to fit (`size`)."""

    kind: ClassVar[str] = "usage_reported"

    used: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewEnforced(Event):
    """A property of the View had to remove events: the log came from elsewhere or held a bad condensation."""

    kind: ClassVar[str] = "view_enforced"

    property_name: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRestored(Event):
    """The namespace was rebuilt by running `executions` again; each divergence is a sentence on one that differed."""

    kind: ClassVar[str] = "environment_restored"

    executions: int
    divergences: tuple[str, ...] = ()
