"""The interpreter, every option with where its value comes from, the model, and the secrets in the environment."""

from __future__ import annotations

import os
import platform
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping

from ...config.secrets import HIDDEN, Redactor
from ...config.settings import SETTINGS, config_path
from ...models import make_model
from ...terminal.opened import settings
from ...terminal.printing import shown
from .finding import Finding


def python() -> Iterable[Finding]:
    return [
        Finding("ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {sys.prefix}")
    ]


def configuration() -> Iterator[Finding]:
    values = settings()  # which also checks every one of them
    path = config_path(os.environ)
    from_file = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    yield Finding("ok", f"configuration: {shown(str(path))}" if path.exists() else f"no {shown(str(path))}")
    for option in SETTINGS:
        if os.environ.get(option.variable):
            origin = f"from {option.variable}"
        elif from_file.get(option.name):
            origin = "from the config file"
        else:
            origin = "by default"
        value: object = getattr(values, option.name)
        yield Finding("ok", f"{option.name} = {'not set' if value is None else shown(str(value))}  ({origin})")


def model() -> Iterable[Finding]:
    chosen = make_model(settings().model)
    if chosen.name == "direct":
        return [Finding("note", "no language model is configured: what you type runs as Python (model `direct`)")]
    return [Finding("ok", f"model {shown(settings().model)}")]


def secrets() -> Iterable[Finding]:
    names = secret_names(os.environ)
    if not names:
        return [Finding("ok", "no variable of the environment looks like a secret")]
    return [Finding("ok", f"hidden from statements, as their names look secret: {', '.join(map(shown, names))}")]


def secret_names(environ: Mapping[str, str]) -> list[str]:
    """The variables whose names look secret, sorted; asked of the redactor, so that the two cannot disagree."""
    sample = "a value to be hidden"
    return sorted(name for name in environ if Redactor.of({name: sample}).redact(sample) == HIDDEN)
