"""Names that a conversation uses more than once, made unique: on a log a tool call and a reply have theirs alone.

Some servers give every reply the same id, and some programs count their calls anew after each message. Must not know
any format. Used by `writer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from ....core.ids import LlmResponseId, ToolCallId


class UniqueNames:
    """Gives each name once as it is, then as `name#2`, `name#3`, whatever names there are besides."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._uses: Counter[str] = Counter()

    def take(self, name: str) -> str:
        """The name, or the first of its variants that is free."""
        free = name
        while free in self._taken:
            self._uses[name] += 1
            free = f"{name}#{self._uses[name] + 1}"
        self._taken.add(free)
        return free


class Batches:
    """Which replies are one batch: those of one id, as long as nothing ends it.

    A batch ends when something other than the model's output comes and none of its calls waits for its result. An id
    that is used again afterwards is another batch, and gets a name of its own: the View keeps what has one name
    together, so that with a server whose ids are all the same nothing could ever be condensed.
    """

    def __init__(self) -> None:
        self._names = UniqueNames()
        self._given: str | None = None
        self._named = LlmResponseId("")
        self._calls: set[ToolCallId] = set()
        self._is_interrupted = False

    def name(self, given: str, open_calls: Container[ToolCallId]) -> LlmResponseId:
        """The name of the batch that a reply with the id `given` belongs to."""
        waits = any(call in open_calls for call in self._calls)
        if given != self._given or (self._is_interrupted and not waits):
            self.end()
            self._given, self._named = given, LlmResponseId(self._names.take(given))
        return self._named

    def called(self, call: ToolCallId) -> None:
        """A reply of the batch made this call."""
        self._calls.add(call)

    def interrupt(self) -> None:
        """Something other than the model's output came."""
        self._is_interrupted = True

    def end(self) -> None:
        """A reply came that belongs to no batch so far."""
        self._given, self._is_interrupted = None, False
        self._calls.clear()
