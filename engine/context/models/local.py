"""Models without a provider: the user's Python, a script, or a failure.

`direct` is used when no model is configured: a REPL in the editor on the same machinery. It answers prose with how to
configure a model. `scripted` streams replies from a file, for tests, demonstrations and teaching. `UnusableModel`
replaces a configured model that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec

from ...core.errors import InvalidRequestError
from ...core.python_source import parsed
from ...log.events.conversation import ToolResult, UserMessage
from ...log.user_message import MAX_TEXT_CHARS, is_long_text
from ..model import (
    ModelError,
    ModelSignal,
    ModelUnusableError,
    Prompt,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
)
from ..tail.results import CLOSING, OPENING

_FENCE: Final = re.compile(r"\A\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)

_HELP: Final = """\
That is not Python. No language model is configured, so your input runs as a statement.

    readme = view("README.md", tokens=800)      a window on a file
    readme.SetPos("40").SetTokens(2000)         move it, resize it
    readme.Run(freq="Sync")                     follow changes of the file
    ls()                                        every handle; ls("src") lists a directory
    read("pyproject.toml")                      a whole file as text

Everything you run is on a timeline: /timeline. What a model would read: /context. More: /help.
For a language model: `rewindow auth add anthropic` (or openai, google), then choose it with /model.{extra}
To script replies: REWINDOW_MODEL=scripted:REPLIES.jsonl."""


OPENED: Final = "Opened as a view. /views lists all open views."
UNSEEN_PICTURE: Final = """\
No language model is configured, so nothing looks at pictures. For a language model: `rewindow auth add anthropic` (or \
openai, google), then choose it with /model. To open a picture's file here: view("picture.png")."""


def _help() -> str:
    """Explain the direct model, and how to configure another."""
    if find_spec("pydantic_ai") is not None:
        return _HELP.format(extra="")
    from ...core.installation import extra_command  # because this is rare, and it reads files

    return _HELP.format(extra=f"\nFirst install the packages for models: {extra_command('providers')}")


def statement_in(text: str) -> str | None:
    """Return the Python cell in `text`: all of it, a fenced block, or a `<script>` block; None without one."""
    _, found, rest = text.partition(OPENING)
    source, closed, _ = rest.partition(CLOSING)
    if found and closed:
        return source.removeprefix("\n")
    fence = _FENCE.match(text)
    source = fence.group(1) if fence else text
    tree = parsed(source)
    if tree is None:
        return source if fence else None
    return source if tree.body else None


class DirectModel:
    """Turns the prompt into a statement, whose result is the answer."""

    name = "direct"
    summarizes = False

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        last = prompt.messages[-1] if prompt.messages else None
        match last:
            case ToolResult():
                pass  # the result of a typed statement is the answer, and is shown already
            case UserMessage(attachments=attachments) if any(map(is_long_text, attachments)):
                yield TextDelta(f"A statement may have at most {MAX_TEXT_CHARS:,} characters.")
            case UserMessage(text=text, attachments=attachments) if attachments and not text.strip():
                is_picture = all(attachment.picture is not None for attachment in attachments)
                yield TextDelta(UNSEEN_PICTURE if is_picture else OPENED)
            case UserMessage(text=text):
                source = statement_in(text if prompt.typed is None else prompt.typed)
                yield StatementAsked(source, typed=True) if source is not None else TextDelta(_help())
            case _:
                yield TextDelta(_help())
        yield ReplyEnded()

    async def aclose(self) -> None:
        """Do nothing."""


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the script.

    `chunk` splits text and reasoning into deltas of this many characters (0: one delta), with a `pause` in seconds
    before each. `error` fails the call after what was streamed.
    """

    reasoning: str = ""
    text: str = ""
    statement: str | None = None
    chunk: int = 0
    pause: float = 0.0
    cause: Literal["end", "length", "refusal"] = "end"
    error: str | None = None


class ScriptedModel:
    """Streams `replies` in order, one for each call.

    Then ends every turn at once.
    """

    name = "scripted"
    summarizes = False

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)

    @classmethod
    def from_file(cls, path: str) -> ScriptedModel:
        """Read a script: a JSON object on each line with fields of `Reply`, all optional.

        Raises InvalidRequestError for an unreadable file or an invalid line.
        """
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
        """Do nothing."""


def _pieces(text: str, size: int) -> list[str]:
    if not text:
        return []
    return [text[start : start + size] for start in range(0, len(text), size)] if size > 0 else [text]


class UnusableModel:
    """Replaces a configured model that does not exist: every reply fails with the reason, everything else works."""

    summarizes = False

    def __init__(self, name: str, sentence: str) -> None:
        self.name = name
        self._sentence = sentence

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """Raise ModelUnusableError."""
        raise ModelUnusableError(self._sentence)
        yield  # makes it a generator

    async def aclose(self) -> None:
        """Do nothing."""
