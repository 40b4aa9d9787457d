"""One request to a provider through pydantic-ai, and its answer as signals. Makes one attempt; must not retry.

Imports pydantic-ai, so it is imported as `library` says. Called by `provider`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from pydantic_ai.direct import model_request_stream
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
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ..model_protocol import (
    ModelError,
    ModelSignal,
    Prompt,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from ..tail.written import STATEMENT_TOOL
from .messages import Dialect, signature_of, to_messages
from .provider_errors import failure_of, unusable
from .provider_failure import ProviderFailure
from .routes import Route, address_shown
from .statement_tool import DESCRIPTION, PARAMETERS, source_of

if TYPE_CHECKING:
    from pydantic_ai.models.anthropic import AnthropicModelSettings

_TOOL: Final = ToolDefinition(name=STATEMENT_TOOL, description=DESCRIPTION, parameters_json_schema=PARAMETERS)


class ProviderClient:
    """A provider's model with its connections, which live as long as this does.

    Raises:
        ProviderFailure: there is no such model, or no key for it.
    """

    def __init__(self, route: Route) -> None:
        self._route = route
        try:
            self._model: Model = infer_model(route.model)
        except ImportError:
            raise
        except Exception as error:
            raise unusable(error, route.name, route.provider.variables) from None
        self._provider = route.provider

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """The answer to one request.

        Raises:
            ProviderFailure: whatever went wrong, at any point.
        """
        dialect = Dialect(self._provider, self._model.system, prompt.calls_tools)
        messages = to_messages(prompt.messages, dialect, instructions=prompt.instructions, tail=prompt.tail)
        parameters = ModelRequestParameters(function_tools=[_TOOL] if prompt.calls_tools else [])
        answer = _Answer(self._provider.signer)
        try:
            async with model_request_stream(
                self._model, messages, model_settings=self._settings(prompt), model_request_parameters=parameters
            ) as response:
                async for event in response:
                    for signal in answer.read(event):
                        yield signal
                for signal in answer.finish(response, prompt.statements):
                    yield signal
        except ModelError as error:
            raise ProviderFailure(error) from None
        except Exception as error:
            # The one boundary to foreign code: a server that talks nonsense must not look like a defect of ours.
            raise self._failure(error, prompt) from error

    async def aclose(self) -> None:
        """Closes the connections."""
        async with self._model:
            pass

    def _failure(self, error: Exception, prompt: Prompt) -> ProviderFailure:
        return failure_of(
            error,
            self._route.name,
            self._provider.variables,
            calls_tools=prompt.calls_tools,
            address=address_shown(self._model.base_url),
        )

    def _settings(self, prompt: Prompt) -> ModelSettings:
        settings: AnthropicModelSettings = {"max_retries": 0}
        if self._provider.one_call:
            settings["parallel_tool_calls"] = False
        if not prompt.statements:
            # The tool stays declared, because Anthropic wants it as long as the conversation has calls of it.
            settings["tool_choice"] = "none"
        if self._provider.cache_points:
            settings["anthropic_cache_instructions"] = True
        if self._model.profile.get("anthropic_binds_thinking_blocks"):
            # The tail is never sent twice at one place, so what was thought after it is bound to a prefix that is gone.
            settings["anthropic_thinking"] = {
                "type": "adaptive",
                "block_binding": {"prefix_mismatch_behavior": "drop_block"},
            }
        return settings


class _Answer:
    """Reads the events of one answer. The first call is the reply's statement; a second one is left out."""

    def __init__(self, signer: str | None) -> None:
        self._signer = signer
        self._call: ToolCallPart | None = None
        self._has_more_calls = False

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
                self._has_more_calls = self._call is not None
                self._call = self._call or part
                return []
            case _:
                return []

    def finish(self, response: StreamedResponse, statements: bool) -> list[ModelSignal]:
        """What is known at the end only. Raises ModelError for an answer that broke off."""
        used = response.usage
        signals: list[ModelSignal] = []
        details = response.provider_details or {}
        if isinstance(refusal := details.get("refusal"), str) and refusal:
            signals.append(TextDelta(refusal))
        if used.input_tokens or used.output_tokens:
            signals.append(TokensUsed(used.input_tokens, used.output_tokens, used.cache_read_tokens))
        match response.finish_reason:
            case "length":
                return [*signals, ReplyEnded("length")]
            case "content_filter":
                return [*signals, ReplyEnded("refusal")]
            case "error":
                raise ModelError(f"the provider ended the reply with an error: {details.get('finish_reason')}")
            case None if self._call is None:
                raise ModelError("the reply broke off before its end")
            case _:
                asked = self._asked(self._call) if self._call is not None and statements else []
                return [*signals, *asked, ReplyEnded()]

    def _asked(self, call: ToolCallPart) -> list[ModelSignal]:
        signals: list[ModelSignal] = []
        signature = (call.provider_details or {}).get("thought_signature")
        if self._signer and isinstance(signature, str):
            signals.append(ReasoningDelta("", signature, self._signer))
        source = source_of(call.tool_name, call.args)
        asked = StatementAsked(source, tool_call_id=call.tool_call_id, rest_left_out=self._has_more_calls)
        return [*signals, asked]
