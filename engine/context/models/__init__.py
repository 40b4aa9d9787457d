"""The kinds of models: a module for each, and a row for each name.

A module is imported when its kind is chosen, because a provider takes seconds to import.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio

from ...core.errors import InvalidRequestError
from ..model import PATIENCE, Model, Patience

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 5.0


def _direct(argument: str, _patience: Patience, _environ: Mapping[str, str]) -> Model:
    from .local import DirectModel

    if argument:
        raise InvalidRequestError("model `direct` takes no argument")
    return DirectModel()


def _scripted(argument: str, _patience: Patience, _environ: Mapping[str, str]) -> Model:
    from .local import ScriptedModel

    if not argument:
        raise InvalidRequestError("model `scripted` needs a file: scripted:REPLIES.jsonl")
    return ScriptedModel.from_file(argument)


def _provider(argument: str, patience: Patience, environ: Mapping[str, str]) -> Model:
    from .provider import ProviderModel
    from .providers import check_provider, check_served

    name, _, model = argument.partition(":")
    if name and model:
        check_provider(name)
        check_served(name, environ)
    return ProviderModel.from_spec(argument, environ, patience)


MODELS: Final[dict[str, Callable[[str, Patience, Mapping[str, str]], Model]]] = {
    "direct": _direct,
    "scripted": _scripted,
    "provider": _provider,
}


def make_model(spec: str, patience: Patience = PATIENCE, environ: Mapping[str, str] = os.environ) -> Model:
    """Make the model of `spec`: `<kind>` or `<kind>:<argument>`.

    Args:
        spec: the name.
        patience: how long a provider may take.
        environ: with keys and addresses of providers.

    Raises:
        InvalidRequestError: the kind is unknown, or its argument invalid.
    """
    kind, _, argument = spec.partition(":")
    make = MODELS.get(kind)
    if make is None:
        raise InvalidRequestError(f"unknown model {kind!r}; use one of {', '.join(MODELS)}")
    return make(argument, patience, environ)


def loading_steps(spec: str) -> Sequence[Callable[[], None]]:
    """Return functions that load all that the first reply of `spec`'s model needs, to be called in order on any thread.

    Empty if nothing must be loaded. Raises InvalidRequestError like `make_model`, for a provider.
    """
    kind, _, argument = spec.partition(":")
    if kind != "provider":
        return ()
    from .provider import loading_steps as provider_steps

    return provider_steps(argument)


async def close_model(model: Model, seconds: float = CLOSE_SECONDS) -> None:
    """Close the model within some seconds; a failure is only logged.

    The session does not depend on it, and its close must neither fail nor wait for a server.
    """
    with anyio.move_on_after(seconds, shield=True) as limit:
        try:
            await model.aclose()
        except Exception:
            logger.warning("the connections of model %s could not be closed", model.name, exc_info=True)
    if limit.cancelled_caught:
        logger.warning("the connections of model %s were not closed within %g s", model.name, seconds)
