"""A language model, or what stands in for one. Implemented by `models`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, Protocol

from msgspec import Struct

from ..log.events import Event


class Prompt(Struct, frozen=True, kw_only=True):
    """One model call: stable instructions, the View's events, and the tail block that is never stored.

    `statements` says whether the reply may ask for one; a summary may not. With `calls_tools` a model asks by calling
    the tool `python`; without, no tool is mentioned to it, and statements and results are text. `typed` is the text of
    the user's message that is last, as it was typed: what runs it as it is must not run what redaction has made of it.
    It is for no provider.
    """

    instructions: str
    messages: tuple[Event, ...]
    tail: str
    typed: str | None = None
    statements: bool = True
    calls_tools: bool = True


class TextDelta(Struct, frozen=True):
    """A piece of the reply's text."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    """A piece of reasoning. A `signature` is `provider`'s, and worth something to that provider alone."""

    text: str
    signature: str | None = None
    provider: str | None = None


class StatementAsked(Struct, frozen=True):
    """The model wants one cell of Python to be run; of several in a reply the first counts.

    What the user `typed` is never asked. `rest_left_out`: the reply held more than its text before this, and that is
    not recorded.
    """

    source: str
    tool_call_id: str | None = None
    typed: bool = False
    rest_left_out: bool = False


class ReplyEnded(Struct, frozen=True):
    """The reply is complete, was cut for its length, or was refused."""

    cause: Literal["end", "length", "refusal"] = "end"


class TokensUsed(Struct, frozen=True):
    """What the provider counted for this call, in its own tokens; the last word of a reply counts.

    Of `input_tokens` so many are `cached_tokens`, which it had seen before; None where it does not say.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None


class CallRetried(Struct, frozen=True):
    """The call failed before it streamed anything, and is made again: attempt 2 of 5, after a pause of `seconds`."""

    attempt: int
    attempts: int
    seconds: float
    reason: str


ModelSignal = TextDelta | ReasoningDelta | StatementAsked | TokensUsed | CallRetried | ReplyEnded
"""What a model's reply consists of, in the order in which it comes."""


class Model(Protocol):
    """Streams one reply. Cancelled by closing the generator, at any point; a failure is raised as ModelError."""

    @property
    def name(self) -> str: ...

    @property
    def summarizes(self) -> bool:
        """Whether it can be asked to sum up a conversation; where it cannot, the host does."""
        ...

    def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """One reply, as it comes. Raises ModelError, ContextTooLongError."""
        ...

    async def aclose(self) -> None:
        """Closes what replies have opened, such as connections; called when the session that has it is closed."""
        ...


class ModelError(Exception):
    """Raised by a model for what its provider or its script did wrong; shown to the user as it is."""


class ModelUnusableError(ModelError):
    """The model cannot be used before the user changes something: no key or one that is refused, no such provider."""


class ContextTooLongError(ModelError):
    """The provider takes no prompt of this length."""
