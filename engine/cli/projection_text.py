"""`rewindow show --projection N`: the prompt that model call N was sent, made again from log and store.

As text for people, and as one JSON object for programs, whose fields docs/context.md describes. Pure but for the store
it is given. Called by `show`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..context.model import Prompt
from ..context.tail.prompt import Account, message_text
from ..context.tail.standing import SentProjections, prompt_of
from ..context.view.entries import Summary
from ..core.errors import InvalidRequestError, StoreError
from ..core.ids import BlobDigest
from ..log.branches import branches_of
from ..log.event_log import lookup_in
from ..log.events import Event
from ..log.events.conversation import AgentReasoning, AgentText, ToolCall, ToolResult, UserMessage
from ..log.timeline import Timeline
from ..session.model_calls.context_text import breakdown_text
from ..session.model_calls.sent import breakdown_of
from .terminal.fragments import painted
from .terminal.markdown import shown_markdown


class PastCall:
    """The call of that number, from 1 on, with its prompt.

    Raises:
        InvalidRequestError: there is no such call, or what its prompt was made of is not kept any more.
    """

    def __init__(
        self, log: Sequence[Event], number: int, content: Callable[[BlobDigest], bytes], hide: Callable[[str], str]
    ) -> None:
        sent = SentProjections()
        for event in log:
            sent.apply(event)
        call = sent.numbered(str(number))
        if call is None:
            raise InvalidRequestError(sent.without(str(number)))
        path = branches_of(log).path(log, call.branch_id)  # ids name handles of their branch alone
        timeline = Timeline(lookup_in(path))
        self._account = Account(timeline)
        for event in path:
            timeline.apply(event)
            self._account.apply(event)
        self._number = number
        self._call = call
        try:
            prompt = prompt_of(call, sent.messages_of(call), log, content)
        except KeyError as error:
            raise InvalidRequestError(
                f"model call {number} cannot be shown: {error.args[0]}, which it was made of, is missing in the store"
            ) from None
        except StoreError as error:
            raise InvalidRequestError(f"model call {number} cannot be shown: {error}") from None
        self._prompt = Prompt(
            instructions=hide(prompt.instructions),
            messages=prompt.messages,
            tail=hide(prompt.tail),
            calls_tools=prompt.calls_tools,
        )

    def blocks(self, width: int | None) -> Iterable[str]:
        """Where the tokens went, in lines of `width` cells; then every text in the order in which it was sent."""
        breakdown = breakdown_of(self._call, self._account, is_first=self._number == 1)
        text = breakdown_text(f"Model call {self._number} was sent", breakdown)
        yield painted(shown_markdown(text, width), in_colour=False).removesuffix("\n")
        yield _block("instructions", self._prompt.instructions)
        for message in self._prompt.messages:
            cut = ", shortened" if message.event_id in self._call.shortened else ""
            yield _block(f"{_role(message)} ({message.event_id}{cut})", self._text(message))
        yield _block("end of the newest message", self._prompt.tail)

    def to_json(self) -> bytes:
        """One JSON object."""
        call = self._call
        return msgspec.json.encode(
            {
                "call": self._number,
                "round": call.round_id,
                "answered": call.answered,
                "tokens": {
                    "used": call.used,
                    "size": call.size,
                    "shared": call.shared,
                    "sections": call.sections,
                    "handles": {self._account.name(obj_id): tokens for obj_id, tokens in call.nodes.items()},
                },
                "provider": {
                    "input": call.input_tokens,
                    "cached": call.cached_tokens,
                    "output": call.output_tokens,
                },
                "instructions": self._prompt.instructions,
                "messages": [
                    {
                        "event": message.event_id,
                        "role": _role(message),
                        "shortened": message.event_id in call.shortened,
                        "text": self._text(message),
                    }
                    for message in self._prompt.messages
                ],
                "tail": self._prompt.tail,
            }
        )

    def _text(self, message: Event) -> str:
        return message_text(message, calls_tools=self._prompt.calls_tools)


def _role(message: Event) -> str:
    match message:
        case UserMessage():
            return "user"
        case AgentText():
            return "reply"
        case AgentReasoning():
            return "reasoning"
        case ToolCall(tool=tool):
            return f"call of {tool}"
        case ToolResult(status=status):
            return "result" if status == "ok" else f"result, {status}"
        case Summary():
            return "summary"
        case _:
            return message.kind


def _block(title: str, text: str) -> str:
    line = "\u2500" * 4
    return f"{line} {title} {line}\n{text.rstrip(chr(10))}" if text else f"{line} {title}: nothing {line}"
