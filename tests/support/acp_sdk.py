"""The Python SDK of ACP, loaded when a test first uses a name of it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("acp"), name)
