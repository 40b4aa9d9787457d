"""A store whose calls wait for a network, and that notes those for which an event loop would wait."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from engine.log.store_protocol import Store
from tests.support.sessions import LentStore

AT_ONCE: Final = frozenset({"submit", "flush", "retitle", "move", "blob_put"})
"""The methods that return at once, as `Store` says."""
_TESTS: Final = str(Path(__file__).resolve().parents[1])


class RemoteStore(LentStore):
    """A lent store. `waits` has the caller of each call that an event loop waited for, but for tests' own calls."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.waits: list[str] = []

    @property
    def is_remote(self) -> bool:
        return True

    def __getattr__(self, name: str) -> object:
        found = super().__getattr__(name)
        return found if name in AT_ONCE else self._noting(name, cast("Callable[..., object]", found))

    def _noting(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def noted(*arguments: Any, **options: Any) -> object:
            if _is_on_loop() and not sys._getframe(1).f_code.co_filename.startswith(_TESTS):
                self.waits.append(f"{name}, called by\n{''.join(traceback.format_stack(limit=4)[:-1])}")
            return call(*arguments, **options)

        return noted


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
