"""One request to a provider through pydantic-ai: signals, or an error.

Makes one attempt; `provider` decides about retries, by `ProviderFailure`. Imports pydantic-ai, so `provider` imports it
late.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable, MutableMapping, Sequence
from functools import partial
from inspect import signature
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urljoin

import anyio
import httpx2
import xxhash
from msgspec.structs import replace
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    StreamedResponse,
    create_async_httpx2_client,
    infer_model,
)
from pydantic_ai.providers import Provider as PydanticProvider
from pydantic_ai.providers import infer_provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ...core.import_path import SYSTEM_PATH
from ...core.text import cut_line
from ..model import (
    ContextTooLongError,
    ModelError,
    ModelSignal,
    ModelUnusableError,
    Patience,
    PictureRefusedError,
    Prompt,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from ..tail.results import STATEMENT_TOOL
from .messages import Dialect, signature_of, to_messages
from .providers import Provider, ProviderFailure, Route, address_shown, how_to_set
from .statement_tool import DESCRIPTION, PARAMETERS, read_call

if TYPE_CHECKING:
    from pydantic_ai.models.anthropic import AnthropicModelSettings
    from pydantic_ai.models.openai import OpenAIResponsesModelSettings

_TRANSIENT: Final = (ModelRateLimitError, ModelServerError, ModelUnavailableError)
_TOO_LONG: Final = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "input token count",
    "exceeds the available context size",
    "request_too_large",
    "when context the overflows",
)
"""Phrases for a prompt that is too long, in lower case.

Of OpenAI, vLLM, Anthropic (three), Gemini, llama.cpp and LM Studio.
"""
_WINDOW: Final = re.compile(
    r"(?:maximum context length is |context length of only |context size \(|n_ctx[\"': =]+"
    r"|maximum number of tokens allowed \(|> )(\d[\d,]{2,11})",
    re.IGNORECASE,
)
"""Where refusals name the window.

Of OpenAI, vLLM and OpenRouter; LM Studio; llama.cpp (two); Gemini; and Anthropic.
"""
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
"""Phrases of servers or models without tools, in lower case and without quotes.

Of Ollama, Bedrock, DeepSeek, OpenRouter, Groq, OpenAI (two), llama.cpp (three), vLLM and Gemini.
"""
_TAKES_NO_PICTURE: Final = (
    "does not support image",
    "not support image",
    "doesnt support image",
    "support image input",
    "image input is not supported",
    "images are not supported",
    "does not support vision",
    "is not a multimodal model",
    "not a vision model",
    "expected text",
    "at most 0 image",
)
"""Phrases of models without pictures, in lower case and without quotes.

Of OpenAI and Mistral, Groq, OpenRouter, llama.cpp, LM Studio, Ollama, vLLM (two) and DeepSeek.
"""
_PICTURE: Final = ("image", "picture", "mmproj")
"""Words of refusals that are about a picture."""
_REFUSALS: Final = (400, 413, 415, 422)
"""Statuses of refusals of a picture. One that says that the model takes none may have any status."""
_NO_SUMMARY: Final = "reasoning summar"
"""Part of OpenAI's refusal of summaries to organizations that are not verified."""
_QUOTES: Final = str.maketrans("", "", "\"'`")

_LONGEST: Final = 500
_LONGEST_SECONDS: Final = 3_600.0
_MOST_CALLS: Final = 8
"""Calls of one reply that are read. Later ones are left out."""
_CONNECT_SECONDS: Final = 10.0


def failure_of(
    error: Exception, name: str, provider: Provider, *, calls_tools: bool = True, address: str = ""
) -> ProviderFailure:
    """Interpret an error.

    Args:
        error: raised while a request was made or its answer read.
        name: the model's name for the user.
        provider: its provider, which may take a key.
        calls_tools: whether the request had tools.
        address: of the server; empty if unknown.
    """
    text = _words(error)
    server = f"{name} at {address}" if address else name
    if calls_tools and _says(error, text, _NO_TOOLS):
        return ProviderFailure(
            ModelUnusableError(
                f"{name}: {text}; to use it anyway, add {name} to models_without_tools "
                "(REWINDOW_MODELS_WITHOUT_TOOLS) and restart the agent"
            )
        )
    if isinstance(error, ModelContextWindowExceededError) or _is_too_long(error, text):
        return ProviderFailure(ContextTooLongError(f"{server}: {text}", _window_in(text)))
    # The provider's message about a key may quote it, so it is not shown.
    if isinstance(error, ModelAuthenticationError):
        return ProviderFailure(ModelUnusableError(f"{server} does not accept the credentials: {_set(provider)}"))
    if isinstance(error, UserError):
        return unusable(error, name, provider)
    if isinstance(error, ModelRequestTimeout):
        late = ModelError(f"{server} did not begin its reply in time")
        return ProviderFailure(late, transient=True, slow=True)
    if isinstance(error, ModelConnectionError):
        silent = isinstance(error, ModelTimeoutError) and error.phase == "read"
        said = "did not respond in time" if silent else f"cannot be reached: {text}"
        return ProviderFailure(ModelError(f"{server} {said}"), transient=True, slow=silent)
    if type(error) is UnexpectedModelBehavior:  # an empty answer, for example; its subclasses are final
        return ProviderFailure(ModelError(f"{server}: {text}"), transient=True, slow=True)
    after = error.retry_after if isinstance(error, ModelAPIError) else None
    return ProviderFailure(ModelError(f"{server}: {text}"), transient=_is_transient(error), after=after)


def unusable(error: Exception, name: str, provider: Provider) -> ProviderFailure:
    """Interpret a failure to make a client: the user has to configure something. Arguments as for `failure_of`."""
    text = _words(error)
    if "API_KEY" in text and provider.variables:
        return ProviderFailure(ModelUnusableError(f"{name} needs credentials: {_set(provider)}"))
    return ProviderFailure(
        ModelUnusableError(f"{name} cannot be used: {text.rstrip('.')}; REWINDOW_MODEL chooses another model")
    )


def _is_transient(error: Exception) -> bool:
    hint = error.provider_retry_hint if isinstance(error, ModelHTTPError) else None
    return hint if hint is not None else isinstance(error, _TRANSIENT)


def _is_too_long(error: Exception, text: str) -> bool:
    return not isinstance(error, _TRANSIENT) and _says(error, text, _TOO_LONG)


def _window_in(text: str) -> int | None:
    """Return the window that a refusal names, in tokens."""
    found = _WINDOW.search(text)
    return int(found[1].replace(",", "")) if found else None


def _says(error: Exception, text: str, phrases: Sequence[str]) -> bool:
    if not isinstance(error, ModelAPIError) or isinstance(error, ModelConnectionError):
        return False
    said = f"{error.provider_error_code} {error.provider_error_type} {text}".lower()
    return any(phrase in said.translate(_QUOTES) for phrase in phrases)


def _set(provider: Provider) -> str:
    return how_to_set(provider) or "see the provider's documentation"


def _words(error: Exception) -> str:
    """Return the provider's own sentence, if there is one, within a limit."""
    said: object = getattr(error, "body", None)
    for key in ("error", "message"):
        if isinstance(said, dict):
            said = cast(dict[str, object], said).get(key, cast(object, said))
    text = said if isinstance(said, str) and said.strip() else str(error) or type(error).__name__
    if isinstance(error, ModelHTTPError):
        text = f"{text} (HTTP {error.status_code})"
    return cut_line(text, _LONGEST)


# --- connections -----------------------------------------------------------------------------------------------------


def _watched(stall: float, redirects: Callable[[str], None]) -> httpx2.AsyncClient:
    """Return connections whose answers fail once they bring nothing for so many seconds.

    They report to `redirects` for each response where it redirects, "" for nowhere.
    """

    async def watch(response: httpx2.Response) -> None:
        is_redirect = response.has_redirect_location
        redirects(urljoin(str(response.url), response.headers["location"]) if is_redirect else "")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _WatchedStream(response.stream, stall, response.request)

    client = create_async_httpx2_client(timeout=httpx2.Timeout(_LONGEST_SECONDS, connect=_CONNECT_SECONDS))
    client.event_hooks = {**client.event_hooks, "response": [watch]}
    return client


class _WatchedStream(httpx2.AsyncByteStream):
    """The bytes of an answer. After the first ones, a pause that is too long is a read timeout."""

    def __init__(self, stream: httpx2.AsyncByteStream, stall: float, request: httpx2.Request) -> None:
        self._stream = stream
        self._stall = stall
        self._request = request

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        pieces = aiter(self._stream)
        seconds = inf  # the first event has a limit of its own
        while True:
            try:
                with anyio.fail_after(seconds):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise httpx2.ReadTimeout(f"no data arrived for {self._stall:g} s", request=self._request) from None
            yield piece
            seconds = self._stall

    async def aclose(self) -> None:
        await self._stream.aclose()


# --- requests --------------------------------------------------------------------------------------------------------


_TOOL: Final = ToolDefinition(name=STATEMENT_TOOL, description=DESCRIPTION, parameters_json_schema=PARAMETERS)


class ProviderClient:
    """A provider's model with its connections.

    Raises:
        ProviderFailure: the model is unknown, or there is no key for it.
    """

    def __init__(self, route: Route, patience: Patience, key: str = "") -> None:
        """Connect with this key, or if it is empty, with those that the library finds in the environment."""
        self._route = route
        self._key = key
        self._patience = patience
        self._http = _watched(patience.stall, self._note_redirect)
        self._redirected = ""
        """Where the server redirected the last request, which is not followed: it has the key and the conversation."""
        self._provider = route.provider
        self._summarizes = True
        """Whether the provider may summarize its thinking for this account."""
        if self._provider.starts_programs:
            start_only_installed_programs(os.environ)
        try:
            self._model: Model = infer_model(route.model, self._provider_of)
        except ImportError:
            raise
        except Exception as error:
            raise unusable(error, route.name, self._provider) from None

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """Stream the answer to one request.

        Raises:
            ProviderFailure: for any failure, at any point.
        """
        self._redirected = ""
        dialect = Dialect(self._provider, self._model.system, prompt.calls_tools)
        messages = to_messages(
            prompt.messages, dialect, instructions=prompt.instructions, tail=prompt.tail, pictures=prompt.pictures
        )
        parameters = ModelRequestParameters(function_tools=[_TOOL] if prompt.calls_tools else [])
        answer = _Answer(self._provider.signer, self._server)
        try:
            async with model_request_stream(
                self._model, messages, model_settings=self._settings(prompt), model_request_parameters=parameters
            ) as response:
                async for event in response:
                    for signal in answer.read(event):
                        yield signal
                for signal in answer.finish(response, prompt.statements):
                    yield signal
        except ProviderFailure:
            raise
        except ModelError as error:
            raise ProviderFailure(error) from None
        except Exception as error:
            # The only boundary to foreign code: an invalid answer must not look like a bug of Rewindow.
            raise self._failure(error, prompt) from error

    def _provider_of(self, name: str) -> PydanticProvider[Any]:
        """Make the provider with our connections; those that have their own kind keep it."""
        known: dict[str, object] = {"http_client": self._http, **({"api_key": self._key} if self._key else {})}
        kind: Any = infer_provider_class(name)
        if self._route.address:
            known["base_url"] = self._route.address
            if name == "openai-chat":
                from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

                kind = partial(OpenAICompatibleProvider, self._provider.name)
        taken = {each: value for each, value in known.items() if each in signature(kind).parameters}
        made: PydanticProvider[Any] = kind(**taken) if taken else infer_provider(name)
        return made

    @property
    def _server(self) -> str:
        address = address_shown(self._model.base_url)
        return f"{self._route.name} at {address}" if address else self._route.name

    @property
    def window(self) -> int | None:
        """The tokens that the model can read and write in one call, if the library knows them."""
        return self._model.context_window

    async def aclose(self) -> None:
        """Close the connections."""
        async with self._model:
            pass
        await self._http.aclose()

    def _note_redirect(self, url: str) -> None:
        self._redirected = url

    def _failure(self, error: Exception, prompt: Prompt) -> ProviderFailure:
        if self._redirected:
            place = cut_line(address_shown(self._redirected) or "another address", _LONGEST)
            words = f"{self._server} redirects to {place}; redirects are not followed, so set that address"
            return ProviderFailure(ModelUnusableError(words))
        if self._summarizes and isinstance(error, ModelHTTPError) and _NO_SUMMARY in _words(error).lower():
            self._summarizes = False  # some accounts get no summaries of thinking
            return ProviderFailure(ModelError(f"{self._server}: {_words(error)}"), transient=True)
        if prompt.pictures and isinstance(error, ModelHTTPError):
            text = _words(error)
            takes_none = _says(error, text, _TAKES_NO_PICTURE)
            if takes_none or (error.status_code in _REFUSALS and _says(error, text, _PICTURE)):
                return ProviderFailure(PictureRefusedError(f"{self._server}: {text}", takes_none=takes_none))
        return failure_of(
            error,
            self._route.name,
            self._provider,
            calls_tools=prompt.calls_tools,
            address=address_shown(self._model.base_url),
        )

    def _settings(self, prompt: Prompt) -> ModelSettings:
        settings: AnthropicModelSettings = {"max_retries": 0, "first_event_timeout": self._patience.first_byte}
        if self._provider.one_call:
            settings["parallel_tool_calls"] = False
        if prompt.thinking != "default":
            settings["thinking"] = False if prompt.thinking == "off" else prompt.thinking
        elif self._provider.hides_thinking:
            settings["thinking"] = True
        if not prompt.statements:
            # The tool stays declared, because Anthropic requires it as long as the conversation has calls of it.
            settings["tool_choice"] = "none"
        if self._provider.cache_points:
            settings["anthropic_cache_instructions"] = True
        profile = self._model.profile
        can_be_off = prompt.thinking == "off" and not profile.get("thinking_always_enabled")
        if profile.get("anthropic_binds_thinking_blocks") and not can_be_off:
            # The tail is never sent twice in one place, so thinking after it refers to a prefix that is gone.
            settings["anthropic_thinking"] = {
                "type": "adaptive",
                "block_binding": {"prefix_mismatch_behavior": "drop_block"},
            }
        if self._provider.stores:
            return cast(ModelSettings, {**settings, **self._settings_of_responses(prompt)})
        return settings

    def _settings_of_responses(self, prompt: Prompt) -> OpenAIResponsesModelSettings:
        settings: OpenAIResponsesModelSettings = {
            "openai_store": False,
            "openai_prompt_cache_key": xxhash.xxh3_64_hexdigest(prompt.instructions.encode()),
        }
        if self._summarizes and prompt.thinking != "off" and self._model.profile.get("supports_thinking"):
            settings["openai_reasoning_summary"] = "auto"
        return settings


def start_only_installed_programs(environ: MutableMapping[str, str]) -> None:
    """Let the provider's library find no program that a statement may have written.

    Google's looks for `gcloud` in PATH, and runs a program that a file in the home directory names.
    """
    environ["PATH"] = SYSTEM_PATH
    environ.setdefault("GOOGLE_API_USE_CLIENT_CERTIFICATE", "false")


def _price(response: StreamedResponse) -> float | None:
    """Return the list price of an answer in US dollars; None if the library does not know it."""
    try:
        return float(response.get().cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


class _Answer:
    """Reads the events of an answer."""

    def __init__(self, signer: str | None, server: str) -> None:
        """`server` names it in errors."""
        self._signer = signer
        self._server = server
        self._calls: list[ToolCallPart] = []
        self._has_more = False

    def read(self, event: ModelResponseStreamEvent) -> list[ModelSignal]:
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                return [TextDelta(text)]
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                return [TextDelta(text)]
            case PartStartEvent(part=ThinkingPart(content=text)) if text:
                return [ReasoningDelta(text, provider=self._signer)]
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
                return [ReasoningDelta(text, provider=self._signer)]
            case PartEndEvent(part=ThinkingPart() as part) if self._signer and part.signature:
                return [ReasoningDelta("", signature_of(part), self._signer)]
            case PartEndEvent(part=ToolCallPart() as part):
                self._has_more = len(self._calls) >= _MOST_CALLS
                self._calls += [] if self._has_more else [part]
                return []
            case _:
                return []

    def finish(self, response: StreamedResponse, statements: bool) -> list[ModelSignal]:
        """Return the signals at the end.

        Raises ProviderFailure for an incomplete answer, ModelError for a failed one.
        """
        used = response.usage
        signals: list[ModelSignal] = []
        details = response.provider_details or {}
        if isinstance(refusal := details.get("refusal"), str) and refusal:
            signals.append(TextDelta(refusal))
        if used.input_tokens or used.output_tokens:
            signals.append(TokensUsed(used.input_tokens, used.output_tokens, used.cache_read_tokens, _price(response)))
        match response.finish_reason:
            case "length":
                return [*signals, ReplyEnded("length")]
            case "content_filter":
                return [*signals, ReplyEnded("refusal")]
            case "error":
                raise ModelError(f"{self._server} ended the reply with an error: {details.get('finish_reason')}")
            case None if not self._calls and "finish_reason" not in details:
                raise ProviderFailure(ModelError(f"{self._server}: the reply ended early"), transient=True, slow=True)
            case _:
                return [*signals, *(self._asked() if statements else ()), ReplyEnded()]

    def _asked(self) -> list[ModelSignal]:
        signals: list[ModelSignal] = []
        for part in self._calls:
            signature = (part.provider_details or {}).get("thought_signature")
            if self._signer and isinstance(signature, str):
                signals.append(ReasoningDelta("", signature, self._signer))
            call = read_call(part.tool_name, part.args, part.tool_call_id)
            is_cut = self._has_more and isinstance(call, StatementAsked)
            signals.append(replace(call, rest_left_out=True) if is_cut else call)
        return signals
