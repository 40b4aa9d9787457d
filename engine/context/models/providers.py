"""The providers of language models, one row each: the names that users write, and what is particular to each API.

Must not know pydantic-ai beyond the spelling of its providers. A provider without a row works too, where pydantic-ai
knows it: nothing particular is then asked of it. Read by `routes`, `messages` and `provider_stream`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from ...core.errors import InvalidRequestError
from ..model import ModelError


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


# routes:
# Which provider and which model a spec means. Knows providers by their rows alone.
#
# Used by `provider` and `provider_stream`.


class Route(Struct, frozen=True, kw_only=True):
    """A model to call: `name` as the user wrote it, its provider, `model` pydantic-ai's string."""

    name: str
    provider: Provider
    model: str


def route_to(spec: str, environ: Mapping[str, str]) -> Route:
    """The route to `<provider>:<model>`.

    `openai` means OpenAI's Responses API, and where OPENAI_BASE_URL names another server, the chat completions that
    compatible servers have; `openai-responses` and `openai-chat` choose.

    Raises:
        InvalidRequestError: `spec` names no provider or no model.
    """
    name, _, model = spec.partition(":")
    if not name or not model:
        raise InvalidRequestError(
            "model `provider` needs a provider and a model: provider:openai:MODEL, provider:anthropic:MODEL, "
            "provider:google:MODEL"
        )
    provider = _provider(name, environ)
    return Route(name=spec, provider=provider, model=f"{provider.name}:{model}")


def address_shown(url: str | None) -> str:
    """The address of a server as an error names it: without user, password and query; empty where there is none."""
    parts = urlsplit(url or "")
    if not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.netloc.rpartition(":")[2]
    place = f"{host}:{port}" if port.isdecimal() else host
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}"


def _provider(name: str, environ: Mapping[str, str]) -> Provider:
    meant = ALIASED.get(name)
    if meant is None:
        return NAMED.get(name) or Provider(name=name)
    if meant.address is not None and _elsewhere(meant.address, environ):
        return NAMED[meant.address.otherwise]
    return meant


def _elsewhere(address: Address, environ: Mapping[str, str]) -> bool:
    host = urlsplit(environ.get(address.variable, "")).hostname
    return host is not None and host != address.host and not host.endswith(f".{address.host}")


# setup:
# What a person has to do before the configured model can be used: one sentence, and whether it looks done.
#
# Pure; asks no provider, so a key may be there and be refused. Must not import a provider's library, because an
# editor that waits for its first answer waits for this. Called by `Host`.

_KIND: Final = "provider:"


class ModelSetup(Struct, frozen=True):
    """`todo` is what to do, `sentence` says it with the model's name; `is_done` is False where it surely is not.

    `failure` is one sentence for a command that cannot go on without the model.
    """

    todo: str
    sentence: str
    is_done: bool
    failure: str = ""


def setup_of(spec: str, environ: Mapping[str, str]) -> ModelSetup | None:
    """What the model `spec` needs; None for one that needs nothing but itself."""
    if not spec.startswith(_KIND):
        return None
    try:
        route = route_to(spec.removeprefix(_KIND), environ)
    except InvalidRequestError as error:
        return unusable(str(error))
    provider = route.provider
    if not provider.variables:
        return ModelSetup(
            f"Set up {provider.name}",
            f"{route.name} needs what the documentation of {provider.name} says; REWINDOW_MODEL chooses another model.",
            is_done=True,
        )
    names = " or ".join(provider.variables)
    return ModelSetup(
        f"Set {names}",
        f"{route.name} needs a key: set {names} in the environment in which your editor starts this agent, and start "
        "the agent again.",
        failure=f"{route.name} needs a key; set {names}",
        is_done=any(environ.get(variable) for variable in (*provider.variables, *_addresses(provider))),
    )


def _addresses(provider: Provider) -> list[str]:
    """The variables that name another server with this provider's API, which may need no key."""
    addresses = [row.address for row in PROVIDERS if row.address is not None]
    return [address.variable for address in addresses if address.otherwise == provider.name]


def unusable(sentence: str) -> ModelSetup:
    """For a model that there is not."""
    again = f"{sentence}; set REWINDOW_MODEL, and start the agent again."
    return ModelSetup("Choose another model", again, is_done=False, failure=sentence)


# provider failure:
# A call to a provider that failed, as the value that says whether to make it again. Raised by `provider_stream` and
# caught by `provider`; it never leaves this package.


class ProviderFailure(Exception):  # noqa: N818 -- it carries the error that is shown, and is none itself
    """One attempt failed: `error` is for the user. `after` is how many seconds the provider asks to be left alone."""

    def __init__(self, error: ModelError, *, transient: bool = False, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.transient = transient
        self.after = after
