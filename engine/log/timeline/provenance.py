"""Whether somebody else than the user has written statements in a session: a fold over its whole log.

What a model or a client wrote, or whoever wrote a log that was imported, leaves things behind in the namespace, and
what is typed later meets them. So all of the session is held from then on. It cannot be taken back: not by another
branch, a rewind or a load, nor by a fork, which takes `OthersWrote` along. Logs of earlier versions do not have that
event, and what they say of their calls tells the same. Pure. Followed by the log; asked by `session.confining`.
"""

from __future__ import annotations

from typing import ClassVar

from ...core.ids import ToolCallId
from ..events import UNSTAMPED, Event
from ..events.conversation import ToolCall
from ..events.execution import StatementRecorded
from ..events.session import DomainEntered, OthersWrote


class Provenance:
    """`is_foreign`: not all statements are the user's. `apply` is for the whole log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((OthersWrote, DomainEntered, ToolCall, StatementRecorded))

    def __init__(self) -> None:
        self.is_foreign = False
        self.imported_at: int = UNSTAMPED
        """The position up to which the log came from elsewhere; -1 where all of it was made here."""
        self.written: dict[str, None] = {}
        """The directories in which statements that were held could write, whatever the branch."""
        self._asked: set[ToolCallId] = set()
        """The calls that a model made, as long as no statement is known to be one's."""

    def apply(self, event: Event) -> None:
        match event:
            case OthersWrote(by=by):
                self.is_foreign = True
                self.imported_at = event.seq if by == "import" else self.imported_at
            case DomainEntered(held=True, writable=writable):
                self.written |= dict.fromkeys(writable)
            case ToolCall(parent_id=None, typed=False, tool_call_id=call) if not self.is_foreign:
                self._asked.add(call)
            case StatementRecorded(tool_call_id=call) if call in self._asked:
                self.is_foreign = True
                self._asked.clear()
            case _:
                pass
