"""What a person has to do before the configured model can be used: one sentence, and whether it looks done.

Pure; asks no provider, so a key may be there and be refused. Must not import a provider's library, because an editor
that waits for its first answer waits for this. Called by `Host`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ...core.errors import InvalidRequestError
from .providers import PROVIDERS, Provider
from .routes import route_to

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
