"""Which provider and which model a spec means. Knows providers by their rows alone.

Used by `provider` and `provider_stream`.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from ...core.errors import InvalidRequestError
from .providers import ALIASED, NAMED, Address, Provider


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
