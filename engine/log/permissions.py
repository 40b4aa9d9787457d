"""What a user is asked about, and what they answer."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from ..core.domain import Layer
from ..core.execution import TextChange
from ..core.ids import Seq, ToolCallId
from ..core.toolbox import ToolKind
from .events.session import PermissionOutcome

ASKED_CHARS: Final = 1_000_000
"""The longest text that a user is shown when they are asked; one of that length can be in one message."""


class StatementSubject(Struct, frozen=True):
    """A statement that would run.

    `note` says that it ran with fewer rights before, and which it would have. No remembered answer is one to that.
    """

    source: str
    note: str = ""


class FileSubject(Struct, frozen=True, kw_only=True):
    """A file that would be written: where it really is, and its changes, or a note where its content is no text.

    `protected` is why other programs run what is in it (`Protection.why`): then no answer covers more than this change.
    """

    path: str
    protected: str = ""
    changes: tuple[TextChange, ...] = ()
    note: str = ""


class TreeSubject(Struct, frozen=True, kw_only=True):
    """Names in the file tree that would be made, removed or given to something else: `act` says that in words.

    `kind` is that of the act's call, as editors show it. `paths` are where they really are. `changes` and `note` are
    about the file that has the last of them, as in `FileSubject`; a file that is removed holds nothing afterwards.
    `protected` as there.
    """

    act: str
    kind: ToolKind = "edit"
    protected: str = ""
    paths: tuple[str, ...]
    changes: tuple[TextChange, ...] = ()
    note: str = ""


class CommandSubject(Struct, frozen=True, kw_only=True):
    """A shell command that would run in the directory `cwd`; `outside` of the sandbox that the mode has it run in."""

    command: str
    cwd: str
    outside: bool = False


class ServerCallSubject(Struct, frozen=True, kw_only=True):
    """A tool of an MCP server that would be called, with its arguments as JSON."""

    server: str
    tool: str
    arguments: str


class RebuildSubject(Struct, frozen=True, kw_only=True):
    """Statements by their numbers, which are to run again for the names they bound, with more rights than they had.

    These are the user's own where they are not `held`; else they may write below `writable`, have TCP with `network`,
    change modes, owners and times of all files where they are `bare`, and do what parts of the sandbox would hold that
    the kernel `lacks`. `before` says which they had, as the end of "they ran".
    """

    statements: tuple[int, ...]
    held: bool
    writable: tuple[str, ...] = ()
    network: bool = False
    bare: bool = False
    lacks: tuple[Layer, ...] | None = None
    before: str = ""


PermissionSubject = RebuildSubject | StatementSubject | FileSubject | TreeSubject | CommandSubject | ServerCallSubject
"""What a user may be asked about."""


def is_protected(subject: PermissionSubject) -> bool:
    """Whether it is about a file that other programs run by themselves."""
    return isinstance(subject, FileSubject | TreeSubject) and bool(subject.protected)


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """May this be done? Whoever asks shows all of `subject`, whose texts have at most `ASKED_CHARS` characters: of a
    longer change of a file the beginning, which its `note` says, and its last `TextChange`.

    `seq` is the event that announced the call; whoever asks shows everything up to it first. `always` says in a few
    words what a remembered answer would cover; where it is empty, none may be offered. `rest`: an answer may allow all
    further changes of files by the same statement, too.
    """

    tool_call_id: ToolCallId
    subject: PermissionSubject
    seq: Seq
    always: str = ""
    rest: bool = False


class PermissionAnswer(Struct, frozen=True, kw_only=True):
    """The user's word. Whatever is not clearly `allowed` is not. `asked` is False where there was nobody to ask.

    `rest` is for a question that offered it, and for `allowed` alone. `reason` is why the user said no, in their own
    words, for the model; empty where they gave none.
    """

    outcome: PermissionOutcome
    reason: str = ""
    remember: bool = False
    rest: bool = False
    asked: bool = True


class Permissions(Protocol):
    """Somebody to ask. Cancelled by cancelling the wait."""

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """The user's answer, whenever it comes."""
        ...
