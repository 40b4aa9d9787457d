"""Whether the body of a request is of the type that the provider's own SDK declares for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from google.genai import types as gemini
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

Body = Mapping[str, Any]


class _GeminiBody(BaseModel, extra="forbid", alias_generator=to_camel):
    """The body of `streamGenerateContent`; its parts forbid unknown fields too."""

    contents: list[gemini.Content]
    system_instruction: gemini.Content | None = None
    tools: list[gemini.Tool] | None = None
    tool_config: gemini.ToolConfig | None = None
    generation_config: gemini.GenerationConfig | None = None


def complaints(path: str, body: Body) -> list[str]:
    """What the SDK's type for the API at `path` has against `body`; empty if it accepts it."""
    return list(next(check for mark, check in _CHECKS.items() if mark in path)(body))


def _typed(kind: Any) -> Callable[[Body], Iterable[str]]:
    adapter = cache(lambda: TypeAdapter[Any](kind))  # takes a second for some

    def check(body: Body) -> Iterable[str]:
        known: set[str] = set(kind.__annotations__)
        yield from (f"{name} is unknown" for name in {*body} - known)
        try:
            _read(adapter().validate_python(body))
        except ValidationError as error:
            yield str(error)

    return check


def _read(value: Any) -> None:
    """Read all of a value, because iterables are validated when they are read."""
    if isinstance(value, Mapping):
        for each in value.values():
            _read(each)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes | BaseModel):
        for each in value:
            _read(each)


def _of_gemini(body: Body) -> Iterable[str]:
    try:
        _GeminiBody.model_validate(body)
    except ValidationError as error:
        yield str(error)


_CHECKS: Final[dict[str, Callable[[Body], Iterable[str]]]] = {
    "chat/completions": _typed(CompletionCreateParamsStreaming),
    "responses": _typed(ResponseCreateParamsStreaming),
    "messages": _typed(MessageCreateParamsStreaming),
    "Content": _of_gemini,
}
