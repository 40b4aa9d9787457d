"""How each provider is reached: the names that users write, and what is particular to each API, as data.

Must not know pydantic-ai beyond the spelling of its model strings. Used by `provider` and `provider_stream`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from ..errors import InvalidRequestError

ALIASES: Final[Mapping[str, str]] = {"google-gla": "google", "gemini": "google", "google-vertex": "google-cloud"}
SIGNING: Final = frozenset(("anthropic", "google", "google-cloud", "openai-responses"))
"""Whose APIs take their signed (or encrypted) thinking back."""
SIGNING_CALLS: Final = frozenset(("google", "google-cloud"))
"""Of these, whose APIs sign a call rather than the thinking before it."""
ONE_CALL: Final = frozenset(("anthropic", "openai-responses", "openai-chat", "openrouter", "groq", "mistral"))
"""Whose APIs can be told to ask for one call at a time."""
VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
}
"""The environment variables that hold a key, by provider."""
_OPENAI: Final = "openai.com"


class Route(Struct, frozen=True, kw_only=True):
    """A model to call: `name` as the user wrote it, `kind` the provider and its API, `model` pydantic-ai's string."""

    name: str
    kind: str
    model: str

    @property
    def signs(self) -> bool:
        return self.kind in SIGNING

    @property
    def signs_calls(self) -> bool:
        return self.kind in SIGNING_CALLS

    @property
    def parallel_can_be_off(self) -> bool:
        return self.kind in ONE_CALL

    @property
    def variables(self) -> tuple[str, ...]:
        return VARIABLES.get(self.kind, ())


def route_to(spec: str, environ: Mapping[str, str]) -> Route:
    """The route to `<provider>:<model>`.

    `openai` means OpenAI's Responses API, and where OPENAI_BASE_URL names another server, the chat completions that
    compatible servers have; `openai-responses` and `openai-chat` choose.

    Raises:
        InvalidRequestError: `spec` names no provider or no model.
    """
    kind, _, model = spec.partition(":")
    if not kind or not model:
        raise InvalidRequestError(
            "model `provider` needs a provider and a model: provider:openai:MODEL, provider:anthropic:MODEL, "
            "provider:google:MODEL"
        )
    kind = ALIASES.get(kind, kind)
    if kind == "openai":
        host = urlsplit(environ.get("OPENAI_BASE_URL", "")).hostname
        compatible = host is not None and host != _OPENAI and not host.endswith(f".{_OPENAI}")
        kind = "openai-chat" if compatible else "openai-responses"
    return Route(name=spec, kind=kind, model=f"{kind}:{model}")
