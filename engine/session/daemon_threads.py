"""Steps on daemon threads: a process that ends does not wait for them, unlike for those of `anyio.to_thread`.

For what may take long and leaves nothing half done: imports, requests to providers and to the keyring. Used by `host`
and `model_choice`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import anyio


async def on_daemon_thread(step: Callable[[], None]) -> None:
    """Run the step, which reports its own failures, on a daemon thread; a cancelled caller leaves it running."""
    loop, done = asyncio.get_running_loop(), anyio.Event()

    def perform() -> None:
        try:
            step()
        finally:
            with suppress(RuntimeError):  # because the loop may be closed by now
                loop.call_soon_threadsafe(done.set)

    threading.Thread(target=perform, name="rewindow-loading", daemon=True).start()
    await done.wait()
