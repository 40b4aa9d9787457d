"""Works without a language model: what the user types is the statement. A REPL in the editor over the same machinery.

Prose is answered with what this is and how to configure a model. Chosen when nothing is configured.
"""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncGenerator
from importlib.util import find_spec
from typing import Final

from ...log.events.conversation import ToolResult, UserMessage
from ...log.user_message import MAX_TEXT_CHARS, is_long_text
from ..model_protocol import ModelSignal, Prompt, ReplyEnded, StatementAsked, TextDelta
from ..tail.written import CLOSING, OPENING

_FENCE: Final = re.compile(r"\A\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)

_HELP: Final = """\
That is not Python, and no language model is configured, so what you type runs as a statement.

    readme = view("README.md", tokens=800)      a window on a file
    readme.SetPos("40").SetTokens(2000)         move it, resize it
    readme.Run(freq="Sync")                     follow changes of the file
    ls()                                        every handle; ls("src") lists a directory
    read("pyproject.toml")                      a whole file as text

Everything you run is on a timeline: /timeline. What a model would read: /context. More: /help.
For a language model: its key, and REWINDOW_MODEL=provider:anthropic:MODEL (or openai, google).{extra}
To script replies: REWINDOW_MODEL=scripted:REPLIES.jsonl."""


def _help() -> str:
    """What this is, and how to configure a model."""
    if find_spec("pydantic_ai") is not None:
        return _HELP.format(extra="")
    from ...core.installation import extra_command  # because hardly anybody gets here, and it reads files

    return _HELP.format(extra=f"\nFirst install what it needs: {extra_command('providers')}")


def statement_in(text: str) -> str | None:
    """The Python cell in `text`: all of it, a fenced block, or a `<script>` form; None where there is none."""
    _, found, rest = text.partition(OPENING)
    source, closed, _ = rest.partition(CLOSING)
    if found and closed:
        return source.removeprefix("\n")
    fence = _FENCE.match(text)
    source = fence.group(1) if fence else text
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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
                pass  # because what the user typed was answered when it ended, by whoever shows the session
            case UserMessage(attachments=attachments) if any(map(is_long_text, attachments)):
                yield TextDelta(f"That is longer than a statement may be ({MAX_TEXT_CHARS:,} characters).")
            case UserMessage(text=text, attachments=attachments) if attachments and not text.strip():
                yield TextDelta("/views lists what is open.")
            case UserMessage(text=text):
                source = statement_in(text if prompt.typed is None else prompt.typed)
                yield StatementAsked(source, typed=True) if source is not None else TextDelta(_help())
            case _:
                yield TextDelta(_help())
        yield ReplyEnded()

    async def aclose(self) -> None:
        """Nothing is open."""
