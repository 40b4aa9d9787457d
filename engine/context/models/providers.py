"""The providers of language models: a row each, what a spec means, what a user has to set up, and pictures.

A row has the names that users write, and the properties of each API. A provider without a row works too if pydantic-ai
knows it. No list of models says reliably before the first call which of them take pictures, so a table of names
decides; if a provider refuses one, the session tells the user and goes on without (`session.agent_loop`). Must not
import a provider's library, because an editor waits for this with its first answer. Read by the other modules of
models, and by `Host` (`setup_of`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from typing import Final

from msgspec import Struct

from ...core.errors import InvalidRequestError
from ...core.links import web_address
from ...core.pictures import PictureRule
from ...core.settings import SERVED
from ..model import ModelError


class Address(Struct, frozen=True, kw_only=True):
    """A provider's servers: at `host` or below, unless the environment's `variable` names another server.

    That server imitates the API of the provider `otherwise`.
    """

    variable: str
    host: str
    otherwise: str


class Listing(Struct, frozen=True, kw_only=True):
    """How a provider is asked for its models: GET `path` below `base`, or below the environment's `variable`.

    The key is sent in `header`, with `headers` beside it. `proof` is a path that needs a key, if `path` needs none.
    """

    base: str
    variable: str = ""
    path: str = "/models"
    header: str = "authorization"
    headers: tuple[tuple[str, str], ...] = ()
    proof: str = ""


class Provider(Struct, frozen=True, kw_only=True):
    """A provider with one API.

    Args:
        name: the name that users write, and pydantic-ai's.
        kind: pydantic-ai's name for the API, which is called at the address of `listing`.
        is_local: a server that users run themselves; it may need no key.
        aliases: other names for users.
        address: decides what an alias means; the provider's own name means this provider at any address.
        variables: environment variables for a key, the preferred one first.
        signs_thinking: accepts its signed (or encrypted) thinking back.
        signs_calls: also signs a call rather than the thinking before it.
        one_call: can be told to make one call at a time.
        cache_points: requires a mark at the end of what will be sent again.
        hides_thinking: shows its thinking only if it is asked to think.
        stores: keeps replies, and shows no summary of its thinking, unless it is told otherwise.
        modules: its own modules for a reply, its SDK first, to load ahead.
        listing: how it is asked for its models; None if it is not.
        known: models to choose from until it has answered.
        starts_programs: its library runs programs for credentials.
    """

    name: str
    kind: str = ""
    is_local: bool = False
    aliases: tuple[str, ...] = ()
    address: Address | None = None
    variables: tuple[str, ...] = ()
    signs_thinking: bool = False
    signs_calls: bool = False
    one_call: bool = False
    cache_points: bool = False
    hides_thinking: bool = False
    stores: bool = False
    modules: tuple[str, ...] = ()
    listing: Listing | None = None
    known: tuple[str, ...] = ()
    starts_programs: bool = False

    def key(self, environ: Mapping[str, str]) -> str:
        """Return its key, without white space around it; "" without one."""
        return next((key for variable in self.variables if (key := environ.get(variable, "").strip())), "")

    @property
    def signer(self) -> str | None:
        """Who signs its thinking; None if nothing signed is sent back."""
        return self.name if self.signs_thinking else None


_OPENAI: Final = ("openai", "openai.types.responses", "pydantic_ai.models.openai")
_GOOGLE: Final = ("google.genai", "pydantic_ai.models.google")
_OPENAI_LISTING: Final = Listing(base="https://api.openai.com/v1", variable="OPENAI_BASE_URL")


def _local(name: str, port: int, kind: str = "openai-chat") -> Provider:
    stem = name.upper().replace("-", "_")
    return Provider(
        name=name,
        kind=kind,
        is_local=True,
        variables=(f"{stem}_API_KEY",),
        one_call=True,
        modules=_OPENAI,
        listing=Listing(base=f"http://127.0.0.1:{port}/v1", variable=f"{stem}_BASE_URL"),
    )


PROVIDERS: Final = (
    Provider(
        name="anthropic",
        variables=("ANTHROPIC_API_KEY",),
        signs_thinking=True,
        one_call=True,
        cache_points=True,
        modules=("anthropic", "pydantic_ai.models.anthropic"),
        listing=Listing(
            base="https://api.anthropic.com",
            variable="ANTHROPIC_BASE_URL",
            path="/v1/models?limit=1000",
            header="x-api-key",
            headers=(("anthropic-version", "2023-06-01"),),
        ),
        known=("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"),
    ),
    Provider(
        name="google",
        hides_thinking=True,
        aliases=("google-gla", "gemini"),
        variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        signs_thinking=True,
        signs_calls=True,
        modules=_GOOGLE,
        listing=Listing(
            base="https://generativelanguage.googleapis.com",
            variable="GOOGLE_GEMINI_BASE_URL",
            path="/v1beta/models?pageSize=1000",
            header="x-goog-api-key",
        ),
        known=("gemini-4-carbon", "gemini-4-argon", "gemini-3.8-flash"),
    ),
    Provider(
        name="google-cloud",
        hides_thinking=True,
        aliases=("google-vertex",),
        signs_thinking=True,
        signs_calls=True,
        modules=_GOOGLE,
        starts_programs=True,
    ),
    Provider(
        name="groq",
        kind="openai-chat",
        variables=("GROQ_API_KEY",),
        one_call=True,
        modules=_OPENAI,
        listing=Listing(base="https://api.groq.com/openai/v1", variable="GROQ_BASE_URL"),
        known=("openai/gpt-oss-120b", "qwen/qwen3.8-27b"),
    ),
    Provider(
        name="mistral",
        kind="mistral",
        variables=("MISTRAL_API_KEY",),
        one_call=True,
        modules=("mistralai", "pydantic_ai.models.mistral"),
        listing=Listing(base="https://api.mistral.ai", variable="MISTRAL_BASE_URL", path="/v1/models"),
        known=("mistral-large-latest", "mistral-medium-latest", "codestral-latest"),
    ),
    _local("llama-cpp", 8080),
    _local("lm-studio", 1234),
    _local("ollama", 11434, kind="ollama"),
    _local("vllm", 8000, kind="vllm"),
    Provider(
        name="openai-chat",
        variables=("OPENAI_API_KEY",),
        one_call=True,
        modules=_OPENAI,
        listing=_OPENAI_LISTING,
    ),
    Provider(
        name="openai-responses",
        stores=True,
        aliases=("openai",),
        address=Address(variable="OPENAI_BASE_URL", host="openai.com", otherwise="openai-chat"),
        variables=("OPENAI_API_KEY",),
        signs_thinking=True,
        one_call=True,
        modules=_OPENAI,
        listing=_OPENAI_LISTING,
        known=("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna"),
    ),
    Provider(
        name="openrouter",
        variables=("OPENROUTER_API_KEY",),
        one_call=True,
        modules=_OPENAI,
        listing=Listing(base="https://openrouter.ai/api/v1", proof="/key"),
    ),
)

_KIND: Final = "provider:"
NO_ADDRESS: Final = "{variable} must be a web address without blanks and control characters, such as {example}"
NO_PROVIDER: Final = "there is no provider {name!r}; write PROVIDER:MODEL, with a provider such as {names}"
NOT_SERVED: Final = (
    "the provider {name!r} is not offered here, because its library reads the user's files while it has the server's "
    "keys; if users may decide where these keys are sent, the administrator can name it in `models`"
)
_OF_MODELS: Final = ("REWINDOW_MODEL", "REWINDOW_MODELS", "REWINDOW_FALLBACK_MODELS")
"""The settings with names of models. For the user of a server these variables are the server's."""
NAMED: Final = {provider.name: provider for provider in PROVIDERS}
ALIASED: Final = {alias: provider for provider in PROVIDERS for alias in provider.aliases}


# --- routes ----------------------------------------------------------------------------------------------------------


class Route(Struct, frozen=True, kw_only=True):
    """A model to call: `name` as the user wrote it, its provider, and `model`, pydantic-ai's string.

    `address` is where, if the library does not know it.
    """

    name: str
    provider: Provider
    model: str
    address: str = ""


def route_to(spec: str, environ: Mapping[str, str]) -> Route:
    """Return the route of `<provider>:<model>`.

    `openai` means OpenAI's Responses API; if OPENAI_BASE_URL names another server, it means chat completions, which
    compatible servers have. `openai-responses` and `openai-chat` choose.

    Raises:
        InvalidRequestError: `spec` names no provider or no model, or the environment no address.
    """
    name, _, model = spec.partition(":")
    if not name or not model:
        raise InvalidRequestError(
            "model `provider` needs a provider and a model: provider:openai:MODEL, provider:anthropic:MODEL, "
            "provider:google:MODEL"
        )
    provider = provider_of(name, environ)
    # The library reads the others itself, but not each failure of its own is a sentence.
    address = "" if provider.listing is None else address_of(provider, environ)
    return Route(
        name=spec,
        provider=provider,
        model=f"{provider.kind or provider.name}:{model}",
        address=address if provider.kind else "",
    )


def configured(environ: Mapping[str, str], named: Collection[str] = ()) -> dict[str, Provider]:
    """Return the providers that can be asked for their models, by the name that users write.

    These have a key, or an address of their own; or they run locally, and the settings name one of their models.
    """
    otherwise = {row.address.otherwise for row in PROVIDERS if row.address is not None}
    found: dict[str, Provider] = {}
    for row in PROVIDERS:
        if row.name in otherwise:
            continue
        name = row.aliases[0] if row.address is not None else row.name
        provider = provider_of(name, environ)
        listing = provider.listing
        is_used = provider.is_local and any(spec.startswith(f"{_KIND}{name}:") for spec in named)
        has_address = listing is not None and bool(listing.variable and environ.get(listing.variable))
        if listing is not None and (provider.key(environ) or has_address or is_used):
            found[name] = provider
    return found


def keyed() -> dict[str, Provider]:
    """Return the providers that take a key, by the name that users write; those with a common key once."""
    otherwise = {row.address.otherwise for row in PROVIDERS if row.address is not None}
    rows = (row for row in PROVIDERS if row.variables and not row.is_local and row.name not in otherwise)
    return {row.aliases[0] if row.address is not None else row.name: row for row in rows}


def key_name(name: str) -> str:
    """Return the name under which a provider's key is stored; "" if it takes none, or is unknown."""
    meant = ALIASED.get(name) or NAMED.get(name)
    if meant is None or not meant.variables or meant.is_local:
        return ""
    return next(each for each, row in keyed().items() if row.variables == meant.variables)


def how_to_set(provider: Provider) -> str:
    """Return how a user gives Rewindow the provider's key, as the end of a sentence; "" if it takes none."""
    if not provider.variables:
        return ""
    if provider.is_local:
        return f"set {provider.variables[0]}"
    return f"run `rewindow auth add {key_name(provider.name)}` in a terminal, or set {' or '.join(provider.variables)}"


def address_of(provider: Provider, environ: Mapping[str, str]) -> str:
    """Return where a provider that has a listing is, without a slash at the end.

    Raises:
        InvalidRequestError: the environment names no web address. The message does not contain it.
    """
    listing = provider.listing
    assert listing is not None
    url = environ.get(listing.variable) or listing.base
    if web_address(url) is None:
        raise InvalidRequestError(NO_ADDRESS.format(variable=listing.variable, example=listing.base))
    return url.rstrip("/")


def address_shown(url: str | None) -> str:
    """Return a server's address for errors, without user, password and query.

    Returns "" for none.
    """
    parts = web_address(url or "")
    if parts is None:
        return ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    place = host if parts.port is None else f"{host}:{parts.port}"
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}"


def provider_of(name: str, environ: Mapping[str, str]) -> Provider:
    """Return the provider that a name or alias means."""
    meant = ALIASED.get(name)
    if meant is None:
        return NAMED.get(name) or Provider(name=name)
    if meant.address is not None and _elsewhere(meant.address, environ):
        return NAMED[meant.address.otherwise]
    return meant


_LIBRARY: Final = "pydantic_ai"
_WITHOUT_MODULE: Final = ("azure-responses", "google-decisions", "openai-decisions")
"""Providers of the library that share the module of another one."""
_GATEWAY: Final = "gateway/"


def check_provider(name: str) -> None:
    """Check that there is a provider of this name. Without the library any name passes, because no model works yet.

    A provider has a module in the library, which is looked up but not imported.

    Raises:
        InvalidRequestError: there is none.
    """
    library = find_spec(_LIBRARY)
    if name in NAMED or name in ALIASED or name in _WITHOUT_MODULE or name.startswith(_GATEWAY) or library is None:
        return
    module = name.replace("-", "_")
    folders = (library.submodule_search_locations or ()) if module.isidentifier() else ()
    if not any(os.path.exists(os.path.join(folder, "providers", f"{module}.py")) for folder in folders):
        raise InvalidRequestError(NO_PROVIDER.format(name=name, names=", ".join(NAMED)))


def check_served(name: str, environ: Mapping[str, str]) -> None:
    """Check that the user of a server may choose this provider.

    The library of a provider without a row, or of one that starts programs, may read any files in the user's home, and
    these decide about the server's keys. So the server's own settings must name it.

    Raises:
        InvalidRequestError: they do not.
    """
    provider = provider_of(name, environ)
    if SERVED not in environ or (provider.name in NAMED and not provider.starts_programs):
        return
    specs = [each.strip() for variable in _OF_MODELS for each in environ.get(variable, "").split(",")]
    names = {each.removeprefix(_KIND).partition(":")[0] for each in specs if each.startswith(_KIND)}
    if not any(provider_of(each, environ) == provider for each in names):
        raise InvalidRequestError(NOT_SERVED.format(name=name))


def _elsewhere(address: Address, environ: Mapping[str, str]) -> bool:
    """Return whether the environment names another server, or something that is no address."""
    url = environ.get(address.variable)
    if not url:
        return False
    parts = web_address(url)
    host = "" if parts is None else parts.hostname or ""
    return host != address.host and not host.endswith(f".{address.host}")


# --- setup -----------------------------------------------------------------------------------------------------------


class ModelSetup(Struct, frozen=True):
    """What a user has to do for a model: `todo`, and `sentence` with the model's name.

    `is_done` is False if it surely is not; a key may exist and be refused. `failure` is a sentence for a command that
    needs the model.
    """

    todo: str
    sentence: str
    is_done: bool
    failure: str = ""


def setup_of(spec: str, environ: Mapping[str, str]) -> ModelSetup | None:
    """Return the setup of the model `spec`; None if it needs none.

    Asks no provider.
    """
    if not spec.startswith(_KIND):
        return None
    try:
        route = route_to(spec.removeprefix(_KIND), environ)
    except InvalidRequestError as error:
        return unusable(str(error))
    provider = route.provider
    if provider.is_local:
        assert provider.listing is not None
        return ModelSetup(
            f"Start the server for {route.name}",
            f"{route.name} must answer at {address_shown(route.address)}; set "
            f"{provider.listing.variable} to use another address.",
            is_done=True,
        )
    if not provider.variables:
        return ModelSetup(
            f"Set up {provider.name}",
            f"{route.name} must be set up as in the documentation of {provider.name}; REWINDOW_MODEL "
            "chooses another model.",
            is_done=True,
        )
    how = how_to_set(provider)
    return ModelSetup(
        f"{how[0].upper()}{how[1:]}",
        f"{route.name} needs a key: {how} in the environment in which your editor starts this agent.",
        failure=f"{route.name} needs a key; {how}",
        is_done=any(environ.get(variable) for variable in (*provider.variables, *_addresses(provider))),
    )


def _addresses(provider: Provider) -> list[str]:
    """Return the variables that name another server with this API, which may need no key."""
    addresses = [row.address for row in PROVIDERS if row.address is not None]
    return [address.variable for address in addresses if address.otherwise == provider.name]


def unusable(sentence: str) -> ModelSetup:
    """Return the setup for a model that does not exist."""
    again = f"{sentence}; set REWINDOW_MODEL, and restart the agent."
    return ModelSetup("Choose another model", again, is_done=False, failure=sentence)


# --- failures --------------------------------------------------------------------------------------------------------


class ProviderFailure(Exception):  # noqa: N818 -- it carries the error that is shown, and is none itself
    """A failed attempt: `error` is for the user, `after` the pause in seconds that the provider asks for.

    `slow`: it took longer than it may, or broke off.

    Raised by `provider_stream` and caught by `provider`, which decides about a retry.
    """

    def __init__(
        self, error: ModelError, *, transient: bool = False, after: float | None = None, slow: bool = False
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.transient = transient
        self.after = after
        self.slow = slow


_WITHOUT: Final = re.compile(
    r"gpt-3\.5|gpt-4-(?:0|1106|32k)|gpt-4$|o1-mini|o1-preview|o3-mini|gpt-oss|claude-(?:2|instant)|codestral|devstral"
    r"|magistral|deepseek|qwen(?!.*(?:vl|3\.[5-9]))|kimi-k2(?!\.5)|glm-\d[^v]*$|llama-?3(?!\.2.*vision)|phi-?[234](?!.*vision)"
    r"|gemma-?[12]|mixtral|mistral-(?:7b|nemo)|command-r|starcoder|codellama",
    re.IGNORECASE,
)
"""Names of models that read text alone."""
_PATCHES: Final = re.compile(r"(?:gpt-\d[\w.]*|o\d)-(?:mini|nano)", re.IGNORECASE)
"""Names of OpenAI's models that count patches. `gpt-4o-mini` counts tiles, at a price that makes it a large count."""
_BY_NAME: Final[dict[str, PictureRule]] = {"claude": "anthropic", "gemini": "google", "gemma": "google"}
_BY_PROVIDER: Final[dict[str, PictureRule]] = {
    "anthropic": "anthropic",
    "google": "google",
    "google-cloud": "google",
    "openai-responses": "openai-tiles",
    "openai-chat": "openai-tiles",
}
_OTHERWISE: Final[PictureRule] = "anthropic"


def picture_rule(route: Route) -> PictureRule | None:
    """Return how the provider of a model counts pictures; None if the model takes none.

    A provider without a rule of its own is counted as Anthropic, whose count is about the size of the others'.
    """
    model = route.model.partition(":")[2]
    if _WITHOUT.search(model):
        return None
    for part, named in _BY_NAME.items():
        if part in model.lower():
            return named
    rule = _BY_PROVIDER.get(route.provider.name, _OTHERWISE)
    return "openai-patches" if rule == "openai-tiles" and _PATCHES.search(model) else rule
