"""What an editor has been shown that later updates refer to: the state between two events of one session.

A frozen value, the same for every version of the protocol. The functions that translate an event
take one and give the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from engine import StatementId, ToolCallId
from engine.log.events.conversation import ToolCall
from engine.log.events.execution import CommandEnded, FileWritten
from engine.log.events.nodes import FileChanged


class BegunStatement(Struct, frozen=True):
    """A statement that has not ended: its call, and the source that its content shows, if it does.

    `is_typed`: the user wrote it, so its result is the answer to what the user said. `rest_left_out`: of the model's
    reply, which its content says. `divergences` are phrases on what came out differently, where it runs again.
    """

    call: ToolCallId
    source: str | None
    is_typed: bool
    rest_left_out: bool = False
    divergences: tuple[str, ...] = ()


class BegunCall(Struct, frozen=True):
    """A helper's call that has not ended, and what it has done by now, which its result says once more."""

    call: ToolCall
    done: FileWritten | CommandEnded | None = None


class BegunReplay(Struct, frozen=True):
    """A replay or an edit that has not ended: how many statements it runs, and how many of them have begun.

    `is_edit`: they are statements of their own.
    """

    statements: int
    begun: int = 0
    is_edit: bool = False

    def next(self) -> BegunReplay:
        """The same when one more has begun."""
        return replace(self, begun=self.begun + 1)

    def numbered(self, title: str) -> str:
        """The title of the statement that began last."""
        return f"{title} ({self.begun} of {max(self.statements, self.begun)})"


class Shown(Struct, frozen=True, kw_only=True):
    """`Shown()` is right for a new session and for one that is resumed: nothing is under way in either.

    `statements` are those that have not ended, `helpers` the calls inside of them; `unannounced` are calls that nothing
    was said of, because a statement or a result is still to come; `condensing` is the call that shows the condensation
    under way; `replay` is the one under way; `changed` is the change of a file that is shown with the event after it.
    `terminals` is of the editor: it draws terminals that it does not run.
    """

    statements: Mapping[StatementId, BegunStatement] = field(default_factory=dict[StatementId, BegunStatement])
    helpers: Mapping[ToolCallId, BegunCall] = field(default_factory=dict[ToolCallId, BegunCall])
    unannounced: Mapping[ToolCallId, ToolCall] = field(default_factory=dict[ToolCallId, ToolCall])
    terminals: bool = False
    changed: FileChanged | None = None
    condensing: str | None = None
    replay: BegunReplay | None = None

    def without(self, ended: StatementId) -> Shown:
        """The same after a statement's end."""
        statements = {other: begun for other, begun in self.statements.items() if other != ended}
        return replace(self, statements=statements)

    def with_helper(self, helper: BegunCall) -> Shown:
        """The same with a helper's call as it is by now."""
        return replace(self, helpers={**self.helpers, helper.call.tool_call_id: helper})

    def without_helper(self, ended: ToolCallId) -> Shown:
        """The same after the end of a helper's call."""
        return replace(self, helpers={call: helper for call, helper in self.helpers.items() if call != ended})


NOTHING_SHOWN: Final = Shown()
