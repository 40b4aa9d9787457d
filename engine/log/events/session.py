"""The life of a session: how it was opened, what waits in its queue, what its View and context cost."""

# A little over 300 lines, because each event says what older logs lack.

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from ...core.domain import Layer
from ...core.ids import BlobDigest, EventId, MessageId, ObjId, ToolCallId
from ...core.text import Exact
from .base import Event

Mode = Literal["ask", "auto", "plan"]
Author = Literal["model", "client", "import"]
"""Who writes statements beside the user: a model, the client of a server, or whoever wrote a log that was imported."""
PermissionOutcome = Literal["allowed", "rejected", "cancelled"]
RoundCause = Literal["call", "tick", "cell", "replay"]
"""What a Round is opened for: a model call, a tick that somebody asked for, a statement from outside a Turn."""


class SessionOpened(Event, frozen=True, kw_only=True):
    """The first event of every log. `packages` are `name-version` of the project's environment, sorted.

    `client` is the program that opened it, as that calls itself, empty where it is not known. A `confined` session has
    shown nothing from outside of its directories. `real` are `cwd` and `directories` with links resolved.
    """

    kind: ClassVar[str] = "session_opened"

    cwd: Exact
    directories: tuple[Exact, ...] = ()
    client: str = ""
    confined: bool = False
    python: Exact = ""
    packages: tuple[Exact, ...] = ()
    real: tuple[Exact, ...] = ()


class SessionMoved(Event, frozen=True, kw_only=True):
    """From here on the session works in other directories, or is confined to them or not: who loaded it chose that.

    `real` as in `SessionOpened`.
    """

    kind: ClassVar[str] = "session_moved"

    cwd: str
    directories: tuple[str, ...] = ()
    confined: bool = False
    python: str = ""
    packages: tuple[str, ...] = ()
    real: tuple[str, ...] = ()


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

    @property
    def waits(self) -> bool:
        return True


class UsageReported(Event, frozen=True, kw_only=True):
    """In logs of earlier versions, in the place of ProjectionSent: exact tokens of what a model call was sent (`used`),
    and the budget they had to fit (`size`)."""

    kind: ClassVar[str] = "usage_reported"

    used: int
    size: int


class ProjectionSent(Event, frozen=True, kw_only=True):
    """What one model call is sent, and what that costs; appended before the request leaves.

    So what a model read is on the log, however the call ends and whatever becomes of this program meanwhile; how it
    ended is what ModelCallEnded says. `position`: the log had so many events when the prompt was made. `instructions`
    and `tail` are texts as blobs, None for an empty one. The messages are the first `kept` of the projection sent
    before, then those of `messages`, by the ids of their events; of `shortened` ones other texts were sent, as blobs.

    Tokens are exact ones of o200k: `sections` adds up to what was sent, of at most `size`; `nodes` has what the renders
    of each handle take of it, the largest alone. `shared` are the tokens, from the first on, that the call before had
    too. Logs of version 1 have it at the end of the call, with `answered` and the provider's counts of ModelCallEnded,
    which is not on them.
    """

    kind: ClassVar[str] = "projection_sent"
    v: ClassVar[int] = 2

    round_id: int
    position: int
    size: int
    instructions: BlobDigest | None = None
    tail: BlobDigest | None = None
    calls_tools: bool = True
    kept: int = 0
    messages: tuple[EventId, ...] = ()
    shortened: dict[EventId, BlobDigest] = field(default_factory=dict[EventId, BlobDigest])
    sections: dict[str, int] = field(default_factory=dict[str, int])
    nodes: dict[ObjId, int] = field(default_factory=dict[ObjId, int])
    shared: int = 0
    answered: bool | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def used(self) -> int:
        """Tokens of all that was sent."""
        return sum(self.sections.values())

    @property
    def waits(self) -> bool:
        # Whoever makes the call begins the commit.
        return True


class ModelCallEnded(Event, frozen=True, kw_only=True):
    """The call of the last ProjectionSent has ended, however it did; `used` and `size` are as there.

    `answered`: it began to answer, so the model has read what it was sent; None where that is not known, because this
    program ended first. `input_tokens`, of which `cached_tokens` came from its cache, and `output_tokens` are what the
    provider counted, None where it did not say.
    """

    kind: ClassVar[str] = "model_call_ended"

    round_id: int
    used: int
    size: int
    answered: bool | None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def waits(self) -> bool:
        return True


class ContextMeasured(Event, frozen=True, kw_only=True):
    """A model would now be sent `used` tokens, of at most `size`; a summary has changed that, and no call."""

    kind: ClassVar[str] = "context_measured"

    used: int
    size: int


class ViewEnforced(Event, frozen=True, kw_only=True):
    """A property of the View had to remove events: the log came from elsewhere or held a bad condensation."""

    kind: ClassVar[str] = "view_enforced"

    property_name: Exact
    count: int


class EnvironmentRestored(Event, frozen=True, kw_only=True):
    """The namespace was rebuilt by running `executions` again; each divergence is a sentence on one that differed.

    Of the names in `anew` there was no copy, so that they are what they came to this time; those in `absent` are bound
    to nothing for want of one. What is kept of `anew` follows as ValuesKept, of the execution `event_id`. `loss` says
    why the names before were lost, as a clause, where nothing on the log before it does.
    """

    kind: ClassVar[str] = "environment_restored"

    executions: int
    divergences: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    loss: str | None = None

    @property
    def lost(self) -> str:
        """The loss as a sentence; empty where there is none."""
        return "" if self.loss is None else f"the names were lost: {self.loss}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that a reader has to know beside the number."""
        return (self.lost, *self.divergences) if self.lost else self.divergences


class WorkStopped(Event, frozen=True, kw_only=True):
    """What a rebuilt namespace's statements left at work was kept from acting outside since; each a sentence."""

    kind: ClassVar[str] = "work_stopped"

    sentences: tuple[str, ...]


class PermissionAsked(Event, frozen=True, kw_only=True):
    """The user was asked whether something may be done. `scope` says what a remembered answer would cover."""

    kind: ClassVar[str] = "permission_asked"

    tool_call_id: ToolCallId
    scope: Exact


class PermissionAnswered(Event, frozen=True, kw_only=True):
    """What was decided, and whether it counts for the rest of the session within the scope.

    With `rest` it counts for all further changes of files by the same statement, too.
    """

    kind: ClassVar[str] = "permission_answered"

    tool_call_id: ToolCallId
    scope: Exact
    outcome: PermissionOutcome
    remembered: bool = False
    rest: bool = False


class ModeChanged(Event, frozen=True, kw_only=True):
    """From now on effects are asked about (`ask`), made without asking (`auto`), or refused (`plan`)."""

    kind: ClassVar[str] = "mode_changed"

    mode: Mode


class ConfigChanged(Event, frozen=True, kw_only=True):
    """An option of the session got another value."""

    kind: ClassVar[str] = "config_changed"

    option: Exact
    value: Exact


class OthersWrote(Event, frozen=True, kw_only=True):
    """From here on not only the user writes statements in this session; for an `import`, all before it is of others."""

    kind: ClassVar[str] = "others_wrote"

    by: Author

    @property
    def waits(self) -> bool:
        return True


class DomainEntered(Event, frozen=True, kw_only=True):
    """From here on statements run in a fresh worker with these rights: held by the kernel, or with the user's own.

    What is held may write in its scratch directory and below `writable`, and has TCP with `network`; where it has no
    file tree of its own, it is `bare`: modes, owners and times of files elsewhere are not held. It `lacks` parts of the
    layers (`domain.PARTS`) that the kernel is too old for; None is what logs of before say. `reason` says why one is
    not held. So many `statements` have run with fewer rights; what they bound is there again only where the user
    has allowed, as the answer to `call`, that they run again with these.
    """

    kind: ClassVar[str] = "domain_entered"
    CALLED: ClassVar[str] = "domain-"
    """How each `call` begins, and no other one."""

    held: bool
    writable: tuple[Exact, ...] = ()
    network: bool = False
    bare: bool = False
    lacks: tuple[Layer, ...] | None = None
    reason: str = ""
    statements: int = 0

    @property
    def call(self) -> ToolCallId:
        """What it is shown as, and asked about."""
        return ToolCallId(f"{self.CALLED}{self.event_id}")


class TitleChanged(Event, frozen=True, kw_only=True):
    """What a listing calls the session."""

    kind: ClassVar[str] = "title_changed"

    title: str


class ServersNamed(Event, frozen=True, kw_only=True):
    """Who opened the session named these MCP servers; `modules` has, by their names, those of their modules.

    A server keeps its module for the life of the session. Of what a server is given nothing is recorded.
    """

    kind: ClassVar[str] = "servers_named"

    modules: dict[str, Exact]


class ServerConnected(Event, frozen=True, kw_only=True):
    """An MCP server was connected, or offers another number of tools than it did."""

    kind: ClassVar[str] = "server_connected"

    server: str
    module: Exact
    tools: int
    resources: int = 0


class ServerLost(Event, frozen=True, kw_only=True):
    """An MCP server could not be connected, or its connection ended; told once each time the session is opened.

    `again`: it is tried again.
    """

    kind: ClassVar[str] = "server_lost"

    server: str
    module: Exact
    reason: str
    again: bool = False


SessionEvent = (
    SessionOpened
    | SessionMoved
    | PromptQueued
    | PromptWithdrawn
    | RoundOpened
    | UsageReported
    | ProjectionSent
    | ModelCallEnded
    | ContextMeasured
    | ViewEnforced
    | EnvironmentRestored
    | WorkStopped
    | PermissionAsked
    | PermissionAnswered
    | ModeChanged
    | ConfigChanged
    | OthersWrote
    | DomainEntered
    | TitleChanged
    | ServersNamed
    | ServerConnected
    | ServerLost
)
