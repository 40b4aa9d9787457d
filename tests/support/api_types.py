"""Whether the body of a request is of the type that the provider's own SDK declares for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.alias_generators import to_camel

Body = Mapping[str, Any]


def complaints(path: str, body: Body) -> list[str]:
    """What the SDK's type for the API at `path` has against `body`; empty if it accepts it."""
    return list(next(check for mark, check in _CHECKS.items() if mark in path)(body))


def _typed(module: str, name: str) -> Callable[[Body], Iterable[str]]:
    kind = cache(lambda: getattr(import_module(module), name))  # each SDK takes half a second
    adapter = cache(lambda: TypeAdapter[Any](kind()))

    def check(body: Body) -> Iterable[str]:
        known: set[str] = set(kind().__annotations__)
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


@cache
def _gemini_body() -> type[BaseModel]:
    """The body of `streamGenerateContent`; its parts forbid unknown fields too."""
    types = import_module("google.genai.types")
    return create_model(
        "GeminiBody",
        __config__=ConfigDict(extra="forbid", alias_generator=to_camel),
        contents=(list[types.Content], ...),
        system_instruction=(types.Content | None, None),
        tools=(list[types.Tool] | None, None),
        tool_config=(types.ToolConfig | None, None),
        generation_config=(types.GenerationConfig | None, None),
    )


def _of_gemini(body: Body) -> Iterable[str]:
    try:
        _gemini_body().model_validate(body)
    except ValidationError as error:
        yield str(error)


_CHECKS: Final[dict[str, Callable[[Body], Iterable[str]]]] = {
    "chat/completions": _typed("openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming"),
    "responses": _typed("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming"),
    "messages": _typed("anthropic.types.beta.message_create_params", "MessageCreateParamsStreaming"),
    "Content": _of_gemini,
}
