"""The interface of language models: a prompt, and the signals of a reply.

Implemented in `models`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from ..core.ids import BlobDigest
from ..core.pictures import PictureContent, PictureRule
from ..log.events import Event

Thinking = Literal["default", "off", "low", "medium", "high", "max"]
"""How much a model thinks before it answers. `default`: as its provider sets it."""


class Patience(Struct, frozen=True, kw_only=True):
    """How many seconds a call may take.

    Args:
        first_byte: to the first piece of a reply.
        stall: between two pieces of it, whatever they are.
        retry: of the longest pause before the call is made again that a provider may ask for.
    """

    first_byte: float = 300.0
    stall: float = 60.0
    retry: float = 60.0


PATIENCE: Final = Patience()


class Prompt(Struct, frozen=True, kw_only=True):
    """One model call: stable instructions, the View's events, and the tail block that is never stored.

    `statements`: the reply may ask for one; a summary may not. With `calls_tools` a model asks by calling the tool
    `python`; without, the prompt mentions no tool, and statements and results are text. `typed` is the last user
    message as it was typed: a model that runs it must not run its redacted text. Providers never get it.
    `thinking` is how much the model shall think. `pictures` are the contents of the messages' pictures; a picture
    without one is its description alone.
    """

    instructions: str
    messages: tuple[Event, ...]
    tail: str
    typed: str | None = None
    statements: bool = True
    calls_tools: bool = True
    thinking: Thinking = "default"
    pictures: Mapping[BlobDigest, PictureContent] = field(default_factory=dict[BlobDigest, PictureContent])


class TextDelta(Struct, frozen=True):
    """A piece of the reply's text."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    """A piece of reasoning. Only its `provider` can use a `signature`."""

    text: str
    signature: str | None = None
    provider: str | None = None


class StatementAsked(Struct, frozen=True):
    """The model asks to run a cell of Python; the first one of a reply counts.

    Statements that the user `typed` run without a question. `rest_left_out`: the reply had more than its text and this,
    which is not recorded.
    """

    source: str
    tool_call_id: str | None = None
    typed: bool = False
    rest_left_out: bool = False


class CallRefused(Struct, frozen=True):
    """The model made a call that cannot be run: the model is told the `reason` as the call's failed result."""

    tool: str
    arguments: dict[str, object]
    reason: str
    tool_call_id: str | None = None


class ReplyEnded(Struct, frozen=True):
    """The reply is complete, was truncated for its length, or was refused."""

    cause: Literal["end", "length", "refusal"] = "end"


class TokensUsed(Struct, frozen=True):
    """The provider's count for this call, in its own tokens.

    The last signal of a reply counts.

    `cached_tokens` of the `input_tokens` came from its cache; None if it does not say. `dollars` is the list price;
    None if it is unknown.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    dollars: float | None = None


class CallRetried(Struct, frozen=True):
    """The call failed and is repeated: attempt 2 of 5, after a pause of `seconds`.

    `withdrawn`: it had streamed a part of the reply, which does not count. `instead` is the name of another model that
    is asked now; attempts then count models.
    """

    attempt: int
    attempts: int
    seconds: float
    reason: str
    withdrawn: bool = False
    instead: str = ""


class CallDelayed(Struct, frozen=True):
    """The call waits for something on this machine, such as "loading the library for openai:gpt-5"."""

    reason: str


DELAY_SECONDS: Final = 0.5
"""A shorter wait is no CallDelayed."""

ModelSignal = (
    TextDelta | ReasoningDelta | StatementAsked | CallRefused | TokensUsed | CallRetried | CallDelayed | ReplyEnded
)
"""The parts of a reply, in order."""


class Model(Protocol):
    """Streams replies.

    Closing the generator cancels a reply at any point; failures are ModelError.
    """

    @property
    def name(self) -> str: ...

    @property
    def summarizes(self) -> bool:
        """Whether it can summarize a conversation; if not, the host does."""
        ...

    def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """Stream one reply. Raises ModelError, ContextTooLongError."""
        ...

    async def aclose(self) -> None:
        """Close connections and the like; called when the session is closed."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """A model that knows how much it can read."""

    @property
    def window(self) -> int | None:
        """The tokens of its window; None as long as it does not know."""
        ...


@runtime_checkable
class Seeing(Protocol):
    """A model that knows whether it takes pictures. Others take none."""

    @property
    def picture_rule(self) -> PictureRule | None:
        """How its provider counts pictures; None if it takes none."""
        ...


class ModelError(Exception):
    """Raised for a failure of the provider or script.

    Shown to the user unchanged.
    """


class ModelUnusableError(ModelError):
    """Raised if the user must change something first: a missing or refused key, an unknown provider."""


class ContextTooLongError(ModelError):
    """Raised if the prompt is too long for the provider. `window` is what the provider says it can read, in tokens."""

    def __init__(self, message: str, window: int | None = None) -> None:
        super().__init__(message)
        self.window = window


class PictureRefusedError(ModelError):
    """Raised if the provider refuses the prompt because of a picture; `takes_none`: because the model takes none."""

    def __init__(self, message: str, *, takes_none: bool = False) -> None:
        super().__init__(message)
        self.takes_none = takes_none
