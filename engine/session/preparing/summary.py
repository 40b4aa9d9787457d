"""The work "summary": a model writes in a few lines what is in a text, where it can and its allowance lasts.

Tokens are those that the provider counts. Where it counts none each byte is taken for one, because no token is less.
For the same reason a text is cut to as many bytes as there are tokens left: only an answer can pass the allowance.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import Final

import anyio.to_thread

from ...context.model import ModelError, Prompt, TextDelta, TokensUsed
from ...core.encodings import decode
from ...core.ids import MessageId
from ...log.events.conversation import UserMessage
from ...log.statements import Want
from .sources import Made, Sources

logger = logging.getLogger(__name__)
_LONGEST: Final = 60_000
"""Characters of a text that a model is given: its beginning."""
_LEAST: Final = 1_000
"""With fewer tokens left no summary is begun."""
_INSTRUCTIONS: Final = """\
You are given the text of one file. Say in at most 12 short lines, as a plain list, what it is responsible for, what it
offers by name, and what whoever changes it must keep true. No introduction, no quotation of code.
"""


async def summary(want: Want, sources: Sources) -> Made | None:
    """A summary of the revision with the digest `want.detail["digest"]`; None where no model may write one."""
    if not sources.model.summarizes or sources.allowance() < _LEAST:
        return None
    data = await anyio.to_thread.run_sync(sources.kept, str(want.detail.get("digest", "")))
    found = None if data is None else decode(data)
    if found is None:
        return None
    text = sources.redactor.redact(f"{want.title}\n\n{found.text[:_LONGEST]}")
    text = text.encode("utf-8", "replace")[: sources.allowance()].decode("utf-8", "ignore")
    try:
        return await _written(text, sources)
    except ModelError as error:
        logger.warning("the model could not sum up %s: %s", want.title, error)
        return None


async def _written(text: str, sources: Sources) -> Made | None:
    prompt = Prompt(
        instructions=_INSTRUCTIONS,
        messages=(UserMessage(message_id=MessageId("summary"), text=text),),
        tail="",
        statements=False,
        calls_tools=sources.calls_tools,
    )
    pieces: list[str] = []
    used: TokensUsed | None = None
    async with aclosing(sources.model.reply(prompt)) as signals:
        async for signal in signals:
            match signal:
                case TextDelta():
                    pieces.append(signal.text)
                case TokensUsed():
                    used = signal
                case _:
                    pass
    written = sources.redactor.redact("".join(pieces).strip())
    if not written:
        return None
    counted = 0 if used is None else used.input_tokens + used.output_tokens
    data = written.encode("utf-8", "replace")
    return Made(payload_kind="other", data=data, tokens=counted or len(text.encode()) + len(data))
