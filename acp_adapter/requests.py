"""Params and results of the methods as plain values, independent of the protocol version.

`v1` reads params into these values and writes results from them; `methods` has the handlers that take and return them.
A method whose result is empty returns None. Knows nothing of JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

if TYPE_CHECKING:  # loaded in the session stage
    from collections.abc import Sequence

    from engine import CommandRow, McpServer, OptionValues, SessionRow, Spent
    from engine.core.pictures import GivenPicture
    from engine.log.events.conversation import Attachment, PromptKind

RESOURCE_NOT_FOUND: Final = -32002
AUTH_REQUIRED: Final = -32000
"""Error codes of ACP, in addition to those of JSON-RPC."""
FAILED: Final = "the turn failed"
"""Said of a turn that failed without a reason."""

# --- params -----------------------------------------------------------------------------------------------------------


class Initialize(Struct, frozen=True):
    """The protocol's version, and the client's capabilities.

    `version` is the one to speak. `terminals`: the client draws terminals for commands that the agent runs.
    `reads_files`, `writes_files`: the agent may ask it for the text of a file, or to write one. `notices`,
    `condensations`, `forms`: it shows these. `runs_setup`: it can run this program with other arguments in a terminal,
    to sign in. `runs_commands`: it runs a command in a terminal for that, as clients do that are older than
    `runs_setup`. `booleans`: it shows options that are on or off as such.
    """

    version: int = 1
    terminals: bool = False
    notices: bool = False
    condensations: bool = False
    reads_files: bool = False
    writes_files: bool = False
    forms: bool = False
    runs_setup: bool = False
    runs_commands: bool = False
    booleans: bool = False


class Authenticate(Struct, frozen=True):
    method_id: str


class NewSession(Struct, frozen=True):
    """A new session in `cwd`, with these MCP servers. `instructions` are added to those of the agent."""

    cwd: str
    directories: tuple[str, ...] = ()
    servers: tuple[McpServer, ...] = ()
    instructions: str = ""


class OpenSession(Struct, frozen=True):
    """A stored session to continue in these directories, with these MCP servers.

    `is_replayed`: the client wants its history. With `instructions` it goes on with these, else with those it had.
    """

    session_id: str
    cwd: str
    directories: tuple[str, ...] = ()
    servers: tuple[McpServer, ...] = ()
    is_replayed: bool = False
    instructions: str = ""


class SessionRef(Struct, frozen=True):
    """The params of methods that name a session and nothing else."""

    session_id: str


class ListSessions(Struct, frozen=True):
    """The sessions in `cwd`, or all; `cursor` is the end of the previous page. `archived` as in `Sessions.rows`."""

    cwd: str | None = None
    cursor: str | None = None
    archived: bool | None = False


class SetTitle(Struct, frozen=True):
    session_id: str
    title: str


class SetMode(Struct, frozen=True):
    session_id: str
    mode: str


MODE: Final = "mode"
"""Id of the option that is the session's mode; the only id that the protocol defines."""


def option_id(name: str, category: str | None = None) -> str:
    """Return the id of an option by the engine's name for it: without a category it starts with an underscore."""
    return name if name == MODE or category is not None else f"_{name}"


class SetOption(Struct, frozen=True):
    """`option` is an id as the client sent it, `value` any value that it sent."""

    session_id: str
    option: str
    value: str | bool


class Prompt(Struct, frozen=True):
    """A prompt: texts, attachments and pictures in order. `kind` is the client's choice for a prompt during a turn."""

    session_id: str
    content: tuple[str | Attachment | GivenPicture, ...]
    kind: PromptKind | None = None


class Position(Struct, frozen=True):
    """A position in a document: line, and UTF-16 code units within it, both from 0."""

    line: int
    character: int


class DocumentChange(Struct, frozen=True):
    """New text for the range from `start` to `end`, or for the whole document."""

    text: str
    start: Position | None = None
    end: Position | None = None

    @property
    def is_whole(self) -> bool:
        return self.start is None


class DocumentOpened(Struct, frozen=True):
    uri: str
    version: int
    text: str


class DocumentChanged(Struct, frozen=True):
    """Each change applies to the result of the changes before it."""

    uri: str
    version: int
    changes: tuple[DocumentChange, ...]


class DocumentRef(Struct, frozen=True):
    """The params of methods that name a document and nothing else."""

    uri: str


class DocumentFocused(Struct, frozen=True):
    uri: str
    version: int


# --- results ----------------------------------------------------------------------------------------------------------


class SetupCommand(Struct, frozen=True):
    """A command that signs in, in a terminal: `arguments` is all of it, of which `added` follow the agent's own.

    `variables` are those that it needs from this process's environment.
    """

    arguments: tuple[str, ...]
    added: tuple[str, ...]
    variables: dict[str, str]


class SignIn(Struct, frozen=True):
    """A way to give the agent keys; `description` is a sentence.

    With a `command` the client runs it in a terminal. Without one, the agent reads keys when it is asked to.
    `is_terminal`: the client never asks the agent for it; see `Initialize.runs_setup`. `shows_command`: it gets the
    whole command; see `Initialize.runs_commands`.
    """

    method_id: str
    name: str
    description: str
    command: SetupCommand | None = None
    is_terminal: bool = False
    shows_command: bool = False


class Initialized(Struct, frozen=True):
    """`agent_version` is this program's version; `sign_in` is empty if the agent needs no keys."""

    agent_version: str
    sign_in: tuple[SignIn, ...] = ()


AuthState = Literal["authenticated", "unauthenticated", "not_required", "unknown"]


class AuthStatus(Struct, frozen=True):
    """Whether the model has a key, and each key by what it is and whether the model uses it."""

    state: AuthState
    accounts: tuple[tuple[str, bool], ...] = ()


class SessionOptions(Struct, frozen=True):
    """The options of a session with their values. `booleans`: the client shows what is on or off as such."""

    values: OptionValues
    booleans: bool = False


class OpenedSession(Struct, frozen=True):
    """`commands` are the slash commands of files and servers that are known so far."""

    session_id: str
    options: SessionOptions
    commands: Sequence[CommandRow] = ()


class SessionPage(Struct, frozen=True):
    """One page of sessions, and the cursor of the next page, if there is one."""

    rows: tuple[SessionRow, ...]
    next_cursor: str | None = None


class SessionTitle(Struct, frozen=True):
    """The title of a session as it is stored."""

    title: str


class SessionStatus(Struct, frozen=True):
    """Whether a session is open in this process, or only stored."""

    status: Literal["open", "saved"]


StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
"""The protocol's stop reasons. A failed turn has none: its prompt is answered with an error."""


class PromptEnded(Struct, frozen=True):
    reason: StopReason
    spent: Spent


class PromptInserted(Struct, frozen=True):
    """The answer to a prompt that has its place in the conversation, for versions that tell its end by an update."""

    message_id: str


class Activity(Struct, frozen=True):
    """Whether a session works on a request: `running`, waiting for the user (`requires_action`), or `idle`.

    `reason` says why the work ended, and `error` has the code and the sentence of a failure. An idle session that has
    done nothing since it was opened has no reason.
    """

    state: Literal["running", "requires_action", "idle"]
    reason: StopReason | Literal["error"] | None = None
    error: tuple[int, str] | None = None
