"""The life of a session: opening, queue, Rounds and model calls, permissions, sandbox and MCP servers."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct, field

from ...core.domain import Layer
from ...core.ids import BlobDigest, EventId, MessageId, ObjId, ToolCallId
from ...core.text import Exact
from .base import Event

Mode = Literal["ask", "auto", "plan"]
Author = Literal["model", "client", "import"]
"""An author of statements other than the user: a model, an MCP client, or the author of an imported log."""
PermissionOutcome = Literal["allowed", "rejected", "cancelled"]
RoundCause = Literal["call", "tick", "cell", "replay"]
"""The reason for a Round: a model call, a requested tick, a statement from outside a Turn, or a replay."""


class SessionOpened(Event, frozen=True, kw_only=True):
    """The first event of every log. `packages` are `name-version` of the project's environment, sorted.

    `client` is the program that opened it, by its own name, empty if unknown. A `confined` session shows nothing from
    outside its directories. `real` are `cwd` and `directories` with links resolved.
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
    """From here on the session has other directories, or another confinement, as the client that loaded it chose.

    `real` as in `SessionOpened`.
    """

    kind: ClassVar[str] = "session_moved"

    cwd: str
    directories: tuple[str, ...] = ()
    confined: bool = False
    python: str = ""
    packages: tuple[str, ...] = ()
    real: tuple[str, ...] = ()


class WorkspaceCloned(Event, frozen=True, kw_only=True):
    """The session got a clone of the git repository at `address`, in the real path `directory`.

    `commit` was checked out, on `branch` unless that is empty. `again`: an earlier clone was not there any more. Then
    `files` were put back, with the last contents that the log has, but not those in `left`.
    """

    kind: ClassVar[str] = "workspace_cloned"

    address: str
    commit: Exact
    directory: Exact
    branch: Exact = ""
    again: bool = False
    files: int = 0
    left: tuple[str, ...] = ()


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
    """The Round `round_id` began. No number is used twice on a log.

    The events of a Round follow, until the next one is opened.
    """

    kind: ClassVar[str] = "round_opened"

    round_id: int
    cause: RoundCause

    @property
    def waits(self) -> bool:
        return True


class UsageReported(Event, frozen=True, kw_only=True):
    """A model call in logs of earlier versions: tokens sent (`used`), and the budget (`size`). Now ProjectionSent."""

    kind: ClassVar[str] = "usage_reported"

    used: int
    size: int


class ProjectionSent(Event, frozen=True, kw_only=True):
    """The content of one model call and its size, appended before the request is sent.

    So the log has what a model read, however the call ends and even if this program dies. `position` is the number of
    events on the log when the prompt was made. `instructions` and `tail` are texts as blobs, None if empty. The
    messages are the first `kept` of the projection sent before, then `messages`, by the ids of their events. For
    `shortened` ones other texts were sent, as blobs.

    Tokens are exact o200k counts. `sections` adds up to what was sent, at most `size`; `nodes` is the part of each
    handle's renders, the largest handles only. `shared` counts the tokens, from the first on, that equal the call
    before. Logs of version 1 have this event at the end of the call, with `answered` and the provider's counts, and no
    ModelCallEnded.
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
        # The caller of the model starts the commit.
        return True


class ModelCallEnded(Event, frozen=True, kw_only=True):
    """The call of the last ProjectionSent has ended. `used` and `size` are those of that prompt, in tokens.

    `answered`: the model began to answer, so it has read what it was sent; None if this program died first. The
    provider counted `input_tokens`, of which `cached_tokens` came from its cache, and `output_tokens`; None if it did
    not say. `model` is the name of the model that was called. `dollars` is what the call cost by list price; None if
    that is unknown.
    """

    kind: ClassVar[str] = "model_call_ended"

    round_id: int
    used: int
    size: int
    answered: bool | None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    model: str = ""
    dollars: float | None = None

    @property
    def waits(self) -> bool:
        return True


class ContextMeasured(Event, frozen=True, kw_only=True):
    """The next model call would have `used` tokens, of at most `size`, because a summary shortened the View."""

    kind: ClassVar[str] = "context_measured"

    used: int
    size: int


class ViewEnforced(Event, frozen=True, kw_only=True):
    """A property of the View had to remove events: the log was imported or has a bad condensation."""

    kind: ClassVar[str] = "view_enforced"

    property_name: Exact
    count: int


class EnvironmentRestored(Event, frozen=True, kw_only=True):
    """The namespace was rebuilt by running `executions` statements again; a divergence is a sentence on a difference.

    The names in `anew` had no copy and have the values of the re-run; those in `absent` had no copy and are unbound.
    Copies of `anew` follow as ValuesKept, of the execution `event_id`. `loss` is a clause that says why the names were
    lost, if no earlier event does. `healed` are the divergences of statements whose names all have their recorded
    values again, from copies; older logs lack it.
    """

    kind: ClassVar[str] = "environment_restored"

    executions: int
    divergences: tuple[str, ...] = ()
    healed: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    loss: str | None = None

    @property
    def lost(self) -> str:
        """The loss as a sentence; empty if there is none."""
        return "" if self.loss is None else f"the variables were lost: {self.loss}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The loss and the divergences."""
        return (self.lost, *self.divergences) if self.lost else self.divergences


class WorkStopped(Event, frozen=True, kw_only=True):
    """Work that a rebuilt namespace's statements left running was stopped from acting outside; each a sentence."""

    kind: ClassVar[str] = "work_stopped"

    sentences: tuple[str, ...]


class PermissionAsked(Event, frozen=True, kw_only=True):
    """The user was asked for a permission. `scope` says what a remembered answer would cover."""

    kind: ClassVar[str] = "permission_asked"

    tool_call_id: ToolCallId
    scope: str


class PermissionAnswered(Event, frozen=True, kw_only=True):
    """A permission was decided; `remembered` decisions hold for the rest of the session within the scope.

    With `rest` it covers all further file changes of the same statement.
    """

    kind: ClassVar[str] = "permission_answered"

    tool_call_id: ToolCallId
    scope: str
    outcome: PermissionOutcome
    remembered: bool = False
    rest: bool = False


class ModeChanged(Event, frozen=True, kw_only=True):
    """From now on effects need a question (`ask`), need none (`auto`), or are refused (`plan`)."""

    kind: ClassVar[str] = "mode_changed"

    mode: Mode


class ConfigChanged(Event, frozen=True, kw_only=True):
    """An option of the session got another value."""

    kind: ClassVar[str] = "config_changed"

    option: Exact
    value: Exact


class OthersWrote(Event, frozen=True, kw_only=True):
    """From here on others than the user write statements in this session; an `import` marks everything before it.

    In a fork `writable` are directories in which statements of branches that it leaves behind could write.
    """

    kind: ClassVar[str] = "others_wrote"

    by: Author
    writable: tuple[Exact, ...] = ()

    @property
    def waits(self) -> bool:
        return True


class DomainEntered(Event, frozen=True, kw_only=True):
    """From here on statements run in a new worker with these rights: sandboxed (`held`), or with the user's own.

    Sandboxed statements may write in their scratch directory and below `writable`, and have TCP with `network`. Without
    their own file tree they are `bare`: modes, owners and times of other files are not protected. `lacks` are the parts
    of the sandbox (`domain.PARTS`) for which the kernel is too old; None in older logs. `reason` says why they are not
    sandboxed. `statements` have run with fewer rights so far. Their names come back only if the user has allowed, in
    answer to `call`, that they run again with these.
    """

    kind: ClassVar[str] = "domain_entered"
    CALLED: ClassVar[str] = "domain-"
    """The prefix of each `call`, and of no other call."""

    held: bool
    writable: tuple[Exact, ...] = ()
    network: bool = False
    bare: bool = False
    lacks: tuple[Layer, ...] | None = None
    reason: str = ""
    statements: int = 0

    @property
    def call(self) -> ToolCallId:
        """The id of the call that shows it and asks about it."""
        return ToolCallId(f"{self.CALLED}{self.event_id}")


class TitleChanged(Event, frozen=True, kw_only=True):
    """The session has another title in lists."""

    kind: ClassVar[str] = "title_changed"

    title: str


PlanPriority = Literal["high", "medium", "low"]
PlanStatus = Literal["pending", "in_progress", "completed"]


class PlanEntry(Struct, frozen=True, kw_only=True):
    """One piece of work."""

    content: str
    priority: PlanPriority = "medium"
    status: PlanStatus = "pending"


class PlanChanged(Event, frozen=True, kw_only=True):
    """A statement told the user its plan, which replaces the last one; empty if there is none any more."""

    kind: ClassVar[str] = "plan_changed"

    entries: tuple[PlanEntry, ...] = ()


class GuidanceFile(Struct, frozen=True):
    """A file with instructions for agents (https://agents.md): its absolute path, and its text as prompts have it."""

    path: str
    text: str


class GuidanceRead(Event, frozen=True, kw_only=True):
    """Prompts have these files with instructions from here on, the nearest to the session's directory last."""

    kind: ClassVar[str] = "guidance_read"

    files: tuple[GuidanceFile, ...] = ()


class GuidanceChanged(Event, frozen=True, kw_only=True):
    """A file with instructions changed, or was found beside a path that the session used.

    `text` is what later prompts have of it, empty if it is gone. `told` is the news for the model: the whole text of a
    new file, else the difference.
    """

    kind: ClassVar[str] = "guidance_changed"

    path: str
    text: str = ""
    told: str = ""


class SurroundingsRead(Event, frozen=True, kw_only=True):
    """Prompts have this account of date, system, git and Python from here on, as it was when the session began.

    `cwd` is the directory that it is about. It is read again only if the session moves to another one.
    """

    kind: ClassVar[str] = "surroundings_read"

    cwd: Exact
    text: str


class Skill(Struct, frozen=True):
    """A skill (https://agentskills.io) as prompts name it. `path` is that of its `SKILL.md`, absolute."""

    name: str
    description: str
    path: str


class SkillsRead(Event, frozen=True, kw_only=True):
    """Prompts name these skills from here on, and say that they leave out `more`."""

    kind: ClassVar[str] = "skills_read"

    skills: tuple[Skill, ...] = ()
    more: int = 0


class InstructionsGiven(Event, frozen=True, kw_only=True):
    """The client that opened the session gave these instructions, which prompts have from here on."""

    kind: ClassVar[str] = "instructions_given"

    text: str


class ServersNamed(Event, frozen=True, kw_only=True):
    """The client that opened the session named these MCP servers; `modules` are their Python modules, by server name.

    A server keeps its module for the life of the session. Its configuration is never recorded.
    """

    kind: ClassVar[str] = "servers_named"

    modules: dict[str, Exact]


class ServerConnected(Event, frozen=True, kw_only=True):
    """An MCP server was connected, or its number of tools or resources changed."""

    kind: ClassVar[str] = "server_connected"

    server: str
    module: Exact
    tools: int
    resources: int = 0


class ServerLost(Event, frozen=True, kw_only=True):
    """An MCP server could not be connected, or its connection ended; recorded once each time the session is opened.

    `again`: the connection is tried again.
    """

    kind: ClassVar[str] = "server_lost"

    server: str
    module: Exact
    reason: str
    again: bool = False


class PicturesWithdrawn(Event, frozen=True, kw_only=True):
    """The provider of `model` refused a request because of a picture, for this `reason`.

    The `pictures`, by their contents, are not sent to any model again. Without `pictures`, the model takes none.
    """

    kind: ClassVar[str] = "pictures_withdrawn"

    model: str
    reason: str
    pictures: tuple[BlobDigest, ...] = ()


SessionEvent = (
    SessionOpened
    | SessionMoved
    | WorkspaceCloned
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
    | PlanChanged
    | GuidanceRead
    | GuidanceChanged
    | SurroundingsRead
    | SkillsRead
    | InstructionsGiven
    | ServersNamed
    | ServerConnected
    | ServerLost
    | PicturesWithdrawn
)
