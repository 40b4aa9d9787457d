"""The interpreter, every option with where its value comes from, the model, and the secrets in the environment."""

from __future__ import annotations

import os
import platform
import sys
import tomllib
from collections.abc import Iterable, Iterator
from typing import cast

from ...context.models import make_model
from ...core.settings import SETTINGS, config_path
from ...log.redaction import SHORTEST
from ...log.secrets import find_secrets
from ..output.opened import settings
from ..output.printing import shown
from .finding import Finding


def python() -> Iterable[Finding]:
    return [
        Finding("ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {sys.prefix}")
    ]


def configuration() -> Iterator[Finding]:
    values = settings()  # which also checks every one of them
    path = config_path(os.environ)
    from_file = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    yield Finding("ok", f"{'config file' if path.exists() else 'no config file at'} {shown(str(path))}")
    unset = 0
    for option in SETTINGS:
        if os.environ.get(option.variable):
            origin = f"from {option.variable}"
        elif from_file.get(option.name):
            origin = "from the config file"
        else:
            unset += 1
            continue
        value: object = getattr(values, option.name)
        yield Finding("ok", f"{option.name} = {shown(_text(value))}  ({origin})")
    which = "the other" if unset < len(SETTINGS) else "all"
    yield Finding("ok", f"{which} {unset} settings have their defaults (`rewindow help configuration`)")


def _text(value: object) -> str:
    """As it can be set."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        value = ", ".join(map(str, cast("tuple[object, ...]", value))) or None
    return "not set" if value is None else str(value)


def model() -> Iterable[Finding]:
    chosen = make_model(settings().model)
    if chosen.name == "direct":
        return [Finding("note", "no language model is configured: what you type runs as Python (model `direct`)")]
    form = "" if settings().calls_tools else ", which writes statements as text (models_without_tools)"
    return [Finding("ok", f"model {shown(settings().model)}{form}")]


def secrets() -> Iterator[Finding]:
    found = find_secrets(os.environ, settings().hidden_names)
    if found.names:
        names = ", ".join(map(shown, found.names))
        yield Finding("ok", f"hidden from statements and taken out of texts, as their names look secret: {names}")
    else:
        yield Finding("ok", "no variable of the environment looks like a secret")
    if found.short:
        names = ", ".join(map(shown, found.short))
        yield Finding("note", f"shown where they occur, as they are shorter than {SHORTEST} characters: {names}")
    if found.words:
        names = ", ".join(map(shown, found.words))
        yield Finding(
            "note",
            f"read like words, which are taken out of all texts, also of files that a model reads: {names}; "
            "give those that are no secret to the option hidden_names, each after a `!`",
        )
