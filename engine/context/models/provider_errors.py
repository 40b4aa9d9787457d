"""What went wrong at a provider: in words for the user, and whether asking again may help.

Owns the reading of pydantic-ai's errors, which classify those of every provider. Must not know how a retry is done.
Imports pydantic-ai, so it is imported as `library` says. Called by `provider_stream`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelRateLimitError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)

from ...core.cutting import cut_line
from ..model_protocol import ContextTooLongError, ModelError, ModelUnusableError
from .provider_failure import ProviderFailure

_TRANSIENT: Final = (ModelRateLimitError, ModelServerError, ModelUnavailableError)
_TOO_LONG: Final = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "input token count",
    "exceeds the available context size",
    "request_too_large",
)
"""How OpenAI, vLLM, Anthropic (three ways), Gemini and llama.cpp say that a prompt is too long, in lower case."""
_NO_TOOLS: Final = (
    "does not support tool",
    "doesnt support tool",
    "not support function calling",
    "support tool use",
    "tool calling is not supported",
    "tools is not supported",
    "param: tools",
    "param: tool_choice",
    "argument supplied: tools",
    "tools param requires",
    "tool choice requires",
    "function calling is not enabled",
)
"""How servers say that they, or this model, cannot call tools, in lower case and without quotes: Ollama, Bedrock,
DeepSeek, OpenRouter, Groq, OpenAI (two ways), llama.cpp (three ways), vLLM and Gemini."""
_QUOTES: Final = str.maketrans("", "", "\"'`")

_LONGEST: Final = 500


def failure_of(
    error: Exception, name: str, variables: Sequence[str], *, calls_tools: bool = True, address: str = ""
) -> ProviderFailure:
    """What `error` means.

    Args:
        error: raised while a request was made or its answer read.
        name: what the user calls the model.
        variables: the environment variables that hold this provider's credentials.
        calls_tools: whether the request had tools.
        address: of the server; empty where it is unknown.
    """
    text = _words(error)
    server = f"{name} at {address}" if address else name
    if calls_tools and _says(error, text, _NO_TOOLS):
        return ProviderFailure(
            ModelUnusableError(
                f"{name}: {text}; to use it all the same, add {name} to models_without_tools "
                "(REWINDOW_MODELS_WITHOUT_TOOLS) and start the agent again"
            )
        )
    if isinstance(error, ModelContextWindowExceededError) or _is_too_long(error, text):
        return ProviderFailure(ContextTooLongError(f"{server}: {text}"))
    # What a provider says about a key may quote it, so only we speak here.
    if isinstance(error, ModelAuthenticationError):
        return ProviderFailure(ModelUnusableError(f"{server} does not accept the credentials: {_set(variables)}"))
    if isinstance(error, UserError):
        return unusable(error, name, variables)
    if isinstance(error, ModelConnectionError):
        # Who was silent for as long as a read may last is not asked for the same again.
        silent = isinstance(error, ModelTimeoutError) and error.phase == "read"
        said = "did not answer in time" if silent else f"cannot be reached: {text}"
        return ProviderFailure(ModelError(f"{server} {said}"), transient=not silent)
    after = error.retry_after if isinstance(error, ModelAPIError) else None
    return ProviderFailure(ModelError(f"{server}: {text}"), transient=_is_transient(error), after=after)


def unusable(error: Exception, name: str, variables: Sequence[str]) -> ProviderFailure:
    """What it means that a client could not even be made: the user has to set something. Arguments as `failure_of`."""
    text = _words(error)
    if "API_KEY" in text and variables:
        return ProviderFailure(ModelUnusableError(f"{name} needs credentials: {_set(variables)}"))
    return ProviderFailure(
        ModelUnusableError(f"{name} cannot be used: {text.rstrip('.')}; REWINDOW_MODEL chooses another model")
    )


def _is_transient(error: Exception) -> bool:
    hint = error.provider_retry_hint if isinstance(error, ModelHTTPError) else None
    return hint if hint is not None else isinstance(error, _TRANSIENT)


def _is_too_long(error: Exception, text: str) -> bool:
    return not isinstance(error, _TRANSIENT) and _says(error, text, _TOO_LONG)


def _says(error: Exception, text: str, phrases: Sequence[str]) -> bool:
    if not isinstance(error, ModelAPIError) or isinstance(error, ModelConnectionError):
        return False
    said = f"{error.provider_error_code} {error.provider_error_type} {text}".lower()
    return any(phrase in said.translate(_QUOTES) for phrase in phrases)


def _set(variables: Sequence[str]) -> str:
    return f"set {' or '.join(variables)} to a valid key" if variables else "see the provider's documentation"


def _words(error: Exception) -> str:
    """The provider's own sentence where there is one, bounded."""
    said: object = getattr(error, "body", None)
    for key in ("error", "message"):
        if isinstance(said, dict):
            said = cast(dict[str, object], said).get(key, cast(object, said))
    text = said if isinstance(said, str) and said.strip() else str(error) or type(error).__name__
    if isinstance(error, ModelHTTPError):
        text = f"{text} (HTTP {error.status_code})"
    return cut_line(text, _LONGEST)
