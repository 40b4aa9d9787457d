"""Who decides what to do next. One file per kind of model, one row per name; each is imported when it is chosen,
because a provider takes seconds to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..errors import InvalidRequestError
from ..ports import Model


def _direct(argument: str) -> Model:
    from .direct import DirectModel

    if argument:
        raise InvalidRequestError("model `direct` takes no argument")
    return DirectModel()


def _scripted(argument: str) -> Model:
    from .scripted import ScriptedModel

    if not argument:
        raise InvalidRequestError("model `scripted` needs a file: scripted:REPLIES.jsonl")
    return ScriptedModel.from_file(argument)


def _provider(argument: str) -> Model:
    from .provider import ProviderModel

    return ProviderModel.from_spec(argument)


MODELS: Final[dict[str, Callable[[str], Model]]] = {"direct": _direct, "scripted": _scripted, "provider": _provider}


def make_model(spec: str) -> Model:
    """The model that `spec` names: `<kind>` or `<kind>:<argument>`.

    Raises:
        InvalidRequestError: there is no such kind, or its argument cannot be used.
    """
    kind, _, argument = spec.partition(":")
    make = MODELS.get(kind)
    if make is None:
        raise InvalidRequestError(f"no model {kind!r}; there is {', '.join(MODELS)}")
    return make(argument)
