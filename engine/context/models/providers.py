"""The providers of language models, one row each: the names that users write, and what is particular to each API.

Must not know pydantic-ai beyond the spelling of its providers. A provider without a row works too, where pydantic-ai
knows it: nothing particular is then asked of it. Read by `routes`, `messages` and `provider_stream`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Address(Struct, frozen=True, kw_only=True):
    """Where a provider's servers are: at `host` or below, unless the environment's `variable` names another server.

    Such a server imitates the API of the provider `otherwise`.
    """

    variable: str
    host: str
    otherwise: str


class Provider(Struct, frozen=True, kw_only=True):
    """One provider with one API of its.

    Args:
        name: pydantic-ai's.
        aliases: other names that users may write.
        address: what an alias depends on; the provider's own name means this provider wherever it is.
        variables: environment variables that hold a key, the preferred one first.
        signs_thinking: takes its signed (or encrypted) thinking back.
        signs_calls: of these, signs a call rather than the thinking before it.
        one_call: can be told to ask for one call at a time.
        cache_points: wants the end of what will be sent again to be marked.
        modules: of its own that a reply needs, its SDK first; for loading them ahead of need.
    """

    name: str
    aliases: tuple[str, ...] = ()
    address: Address | None = None
    variables: tuple[str, ...] = ()
    signs_thinking: bool = False
    signs_calls: bool = False
    one_call: bool = False
    cache_points: bool = False
    modules: tuple[str, ...] = ()

    @property
    def signer(self) -> str | None:
        """Who signs its thinking; None where nothing signed goes back."""
        return self.name if self.signs_thinking else None


_OPENAI: Final = ("openai", "openai.types.responses", "pydantic_ai.models.openai")
_GOOGLE: Final = ("google.genai", "pydantic_ai.models.google")

PROVIDERS: Final = (
    Provider(
        name="anthropic",
        variables=("ANTHROPIC_API_KEY",),
        signs_thinking=True,
        one_call=True,
        cache_points=True,
        modules=("anthropic", "pydantic_ai.models.anthropic"),
    ),
    Provider(
        name="google",
        aliases=("google-gla", "gemini"),
        variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        signs_thinking=True,
        signs_calls=True,
        modules=_GOOGLE,
    ),
    Provider(name="google-cloud", aliases=("google-vertex",), signs_thinking=True, signs_calls=True, modules=_GOOGLE),
    Provider(name="groq", variables=("GROQ_API_KEY",), one_call=True),
    Provider(name="mistral", variables=("MISTRAL_API_KEY",), one_call=True),
    Provider(name="openai-chat", variables=("OPENAI_API_KEY",), one_call=True, modules=_OPENAI),
    Provider(
        name="openai-responses",
        aliases=("openai",),
        address=Address(variable="OPENAI_BASE_URL", host="openai.com", otherwise="openai-chat"),
        variables=("OPENAI_API_KEY",),
        signs_thinking=True,
        one_call=True,
        modules=_OPENAI,
    ),
    Provider(name="openrouter", variables=("OPENROUTER_API_KEY",), one_call=True, modules=_OPENAI),
)

NAMED: Final = {provider.name: provider for provider in PROVIDERS}
ALIASED: Final = {alias: provider for provider in PROVIDERS for alias in provider.aliases}
