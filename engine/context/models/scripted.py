"""Replies from a file, one per model call: for tests, demonstrations and teaching. Streams like a real model does.

The file holds one JSON object per line with the fields of `Reply`, all optional. After the last line the model ends
every turn at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Literal

import anyio
import msgspec

from ...core.errors import InvalidRequestError
from ..model_protocol import ModelError, ModelSignal, Prompt, ReasoningDelta, ReplyEnded, StatementAsked, TextDelta


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the script.

    `chunk` cuts text and reasoning into deltas of so many characters (0: one delta), `pause` waits so many seconds
    before each; `error` fails the call after what was streamed.
    """

    reasoning: str = ""
    text: str = ""
    statement: str | None = None
    chunk: int = 0
    pause: float = 0.0
    cause: Literal["end", "length", "refusal"] = "end"
    error: str | None = None


class ScriptedModel:
    """Plays `replies` in order, one per call."""

    name = "scripted"
    summarizes = False

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)

    @classmethod
    def from_file(cls, path: str) -> ScriptedModel:
        """Raises InvalidRequestError for a file that cannot be read or a line that is no reply."""
        decoder = msgspec.json.Decoder(Reply)
        try:
            lines = Path(path).expanduser().read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequestError(f"script {path} cannot be read: {error}") from None
        replies: list[Reply] = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    replies.append(decoder.decode(line))
                except msgspec.MsgspecError as error:
                    raise InvalidRequestError(f"script {path} line {number}: {error}") from None
        return cls(replies)

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        reply = self._replies.pop(0) if self._replies else Reply()
        for piece in _pieces(reply.reasoning, reply.chunk):
            await anyio.sleep(reply.pause)
            yield ReasoningDelta(piece)
        for piece in _pieces(reply.text, reply.chunk):
            await anyio.sleep(reply.pause)
            yield TextDelta(piece)
        if reply.error is not None:
            raise ModelError(reply.error)
        if reply.statement is not None:
            yield StatementAsked(reply.statement)
        yield ReplyEnded(reply.cause)

    async def aclose(self) -> None:
        """Nothing is open."""


def _pieces(text: str, size: int) -> list[str]:
    if not text:
        return []
    return [text[start : start + size] for start in range(0, len(text), size)] if size > 0 else [text]
