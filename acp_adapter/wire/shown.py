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
from engine.events.conversation import ToolCall
from engine.events.nodes import FileChanged


class BegunStatement(Struct, frozen=True):
    """A statement that has not ended: its call, and the source that its content shows, if it does.

    `is_typed`: the user wrote it, so its result is the answer to what the user said. `rest_left_out`: of the model's
    reply, which its content says.
    """

    call: ToolCallId
    source: str | None
    is_typed: bool
    rest_left_out: bool = False


class Shown(Struct, frozen=True, kw_only=True):
    """`Shown()` is right for a new session and for one that is resumed: nothing is under way in either.

    `statements` are those that have not ended; `unannounced` are calls that nothing was said of,
    because a statement or a result is still to come; `changing` are calls that show what they made of a file, which
    their results say once more; `condensing` is the call that shows the condensation under way;
    `changed` is the change of a file that is shown with the event after it.
    """

    statements: Mapping[StatementId, BegunStatement] = field(default_factory=dict[StatementId, BegunStatement])
    unannounced: Mapping[ToolCallId, ToolCall] = field(default_factory=dict[ToolCallId, ToolCall])
    changing: frozenset[ToolCallId] = frozenset()
    changed: FileChanged | None = None
    condensing: str | None = None

    def without(self, ended: StatementId) -> Shown:
        """The same after a statement's end."""
        statements = {other: begun for other, begun in self.statements.items() if other != ended}
        return replace(self, statements=statements)


NOTHING_SHOWN: Final = Shown()
