"""What a worker sends of one step: the contents that its nodes saw, which come ahead of the step's result.

Owns their bound. A worker of ours keeps to it, but statements run there, and what they could send would be held in the
host's memory. Used by `statement_run` and `connected_environment`.
"""

from __future__ import annotations

from ..log.statements import STEP_CONTENT_BYTES
from .connection import Connection
from .worker.protocol import Content


class SentContents:
    """The contents of one step, by digest."""

    def __init__(self, worker: Connection) -> None:
        self._worker = worker
        self._contents: dict[str, bytes] = {}
        self._size = 0

    @property
    def contents(self) -> dict[str, bytes]:
        return self._contents

    def take(self, content: Content) -> None:
        """One more. With more than a step may send the worker is ended."""
        self._size += len(content.data)
        if self._size > STEP_CONTENT_BYTES:
            self._contents.clear()
            self._worker.violate(f"more than {STEP_CONTENT_BYTES >> 20} MiB of contents for one step")
        else:
            self._contents[content.digest] = content.data
