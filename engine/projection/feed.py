"""What happened to the namespace since the model last read: a fold over the log, in sentences for the tail's feed.

The model has read what a call carried as soon as that call began to answer, so an event of its reply clears the feed; a
call that failed before that, and whoever only looks, leave it as it is. Changes of nodes are not here: the worker knows
them. Followed by the log, read by `sessions.projector`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..cutting import plural
from ..events import Event
from ..events.conversation import AgentReasoning, AgentText, ToolCall
from ..events.session import EnvironmentRestored


class Feed:
    """What is new to the model, in the order in which it happened."""

    def __init__(self) -> None:
        self._news: list[str] = []

    def apply(self, event: Event) -> None:
        """For the log alone."""
        match event:
            case EnvironmentRestored():
                self._news += event.divergences
                # Last, because where there is no room for all, the first are left out.
                self._news.append(
                    f"rebuilt in a new worker: {event.executions} {plural(event.executions, 'statement')} ran again"
                )
            case AgentText(aside=False) | AgentReasoning() | ToolCall(parent_id=None):
                self._news.clear()
            case _:
                pass

    @property
    def news(self) -> Sequence[str]:
        return tuple(self._news)
