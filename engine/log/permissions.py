"""Questions to the user about permissions, and the answers.

A question shows its subject in full: statement, file change, file tree change, command, server call, web address or
rebuild. Data only, and the Protocol of those that ask. Must not know when a question is due: that is `session.policy`.
"""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from ..core.domain import Layer
from ..core.execution import TextChange
from ..core.ids import Seq, ToolCallId
from ..core.toolbox import ToolKind
from .events.session import PermissionOutcome

ASKED_CHARS: Final = 1_000_000
"""The longest text of a question, which still fits into one message."""


class StatementSubject(Struct, frozen=True):
    """A statement that would run.

    `note` says that it ran with fewer rights before and which ones it would have now. Such a question is always asked:
    remembered answers do not cover it.
    """

    source: str
    note: str = ""


class FileSubject(Struct, frozen=True, kw_only=True):
    """A file that would be written: its real path and its changes, or a note if its content is not text.

    `protected` says why other programs run its content (`Protection.why`). An answer then covers this change alone.
    """

    path: str
    protected: str = ""
    changes: tuple[TextChange, ...] = ()
    note: str = ""


class TreeSubject(Struct, frozen=True, kw_only=True):
    """Names in the file tree that would be made, removed or renamed; `act` describes that.

    `kind` is the call's kind, as editors show it. `paths` are real paths. `changes` and `note` are about the file with
    the last path, as in `FileSubject`; a removed file is shown as becoming empty. `protected` as there.
    """

    act: str
    kind: ToolKind = "edit"
    protected: str = ""
    paths: tuple[str, ...]
    changes: tuple[TextChange, ...] = ()
    note: str = ""


class CommandSubject(Struct, frozen=True, kw_only=True):
    """A shell command that would run in the directory `cwd`; with `outside`, not in the sandbox of the mode."""

    command: str
    cwd: str
    outside: bool = False


READ_RESOURCE: Final = "resources/read"
"""MCP's method, which is asked about like a tool. A remembered answer covers only the same resource."""


class ServerCallSubject(Struct, frozen=True, kw_only=True):
    """A tool of an MCP server that would be called, with its arguments as JSON."""

    server: str
    tool: str
    arguments: str


class SiteSubject(Struct, frozen=True, kw_only=True):
    """A web address that would be fetched, and its site: scheme, host and port. An answer may cover the site."""

    url: str
    site: str


class RebuildSubject(Struct, frozen=True, kw_only=True):
    """Statements, by number, that would run again for their names, with more rights than they had.

    `held`, `writable`, `network`, `bare` and `lacks` are the new rights, as in `DomainEntered`. `before` describes the
    old ones and completes "they ran".
    """

    statements: tuple[int, ...]
    held: bool
    writable: tuple[str, ...] = ()
    network: bool = False
    bare: bool = False
    lacks: tuple[Layer, ...] | None = None
    before: str = ""


PermissionSubject = (
    RebuildSubject | StatementSubject | FileSubject | TreeSubject | CommandSubject | ServerCallSubject | SiteSubject
)
"""The subject of a question."""


def is_protected(subject: PermissionSubject) -> bool:
    """Return whether it is about a file whose content other programs run."""
    return isinstance(subject, FileSubject | TreeSubject) and bool(subject.protected)


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """May this be done? The asker shows all of `subject`, whose texts have at most `ASKED_CHARS` characters.

    A longer change of a file is cut: its `note` and its last `TextChange` say so. `seq` is the event that announced the
    call; the asker first shows everything up to it. `always` says in a few words what a remembered answer would cover;
    if it is empty, the asker must not offer one. `rest`: an answer may also allow all further file changes of the same
    statement.
    """

    tool_call_id: ToolCallId
    subject: PermissionSubject
    seq: Seq
    always: str = ""
    rest: bool = False


class PermissionAnswer(Struct, frozen=True, kw_only=True):
    """The user's answer; any outcome but `allowed` is a no. `asked` is False if there was no user to ask.

    `rest` needs a question that offered it and the outcome `allowed`. `reason` is why the user said no, in their own
    words, for the model; empty if they gave none.
    """

    outcome: PermissionOutcome
    reason: str = ""
    remember: bool = False
    rest: bool = False
    asked: bool = True


class Permissions(Protocol):
    """Asks the user. Cancel a question by cancelling the wait."""

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Ask the question and wait for the answer."""
        ...
