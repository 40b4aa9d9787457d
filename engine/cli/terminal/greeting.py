"""The first screen: which model is set, or that none is and what that means. Pure. Called by `interaction`."""

from __future__ import annotations

import os.path
from typing import Final

from ...core.settings import DEFAULT_MODEL
from ..output.printing import shown
from .fragments import Fragment

_KEYS: Final = "Enter sends, Meta-Enter adds a line, Ctrl-C cancels, Ctrl-D leaves: /help"
_NO_MODEL: Final = "No model is set, so what you type runs as Python. --model sets one."
_MODEL: Final = "what you type is a task for it."


def model_name(model: str) -> str:
    """What the model is called in a line: without the kind that all providers have, a script without its folder."""
    kind, _, name = model.partition(":")
    if kind == "scripted":
        name = os.path.basename(name)
    return "no model" if model == DEFAULT_MODEL else shown(name or model)


def greeting(model: str) -> list[Fragment]:
    """Two lines."""
    first = _NO_MODEL if model == DEFAULT_MODEL else f"Model {model_name(model)}: {_MODEL}"
    return [("", f"{first}\n"), ("quiet", f"{_KEYS}\n")]
