"""The Python SDK of ACP, loaded when a test first uses a name of it.

Because its schema takes 0.8 s to load, which each process that only collects these tests would spend.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("acp"), name)
