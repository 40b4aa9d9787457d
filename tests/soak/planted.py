"""A product with a leak, which shows that a run notices it: `python -m tests.soak.planted LEAK PROGRAM ARGUMENT...`.

The leak grows with each event of the log. `list` keeps 20 kB, `descriptor` leaves a file open, `thread` starts a thread
that never ends.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

_KEPT: Final[list[bytes]] = []
LEAKS: Final[dict[str, Callable[[], object]]] = {
    "list": lambda: _KEPT.append(os.urandom(20_000)),
    "descriptor": lambda: os.open(os.devnull, os.O_RDONLY),
    "thread": lambda: threading.Thread(target=threading.Event().wait, daemon=True).start(),
}


def main() -> int:
    leak, program, *arguments = sys.argv[1:]
    import rewindow_startup  # noqa: PLC0415 -- it hides the process, before the engine is loaded

    sys.argv = [program, *arguments]
    from engine.log.event_log import EventLog  # noqa: PLC0415 -- as above

    append = EventLog.append

    def leaking(self: EventLog, *events: Any, **named: Any) -> Any:
        LEAKS[leak]()
        return append(self, *events, **named)

    EventLog.append = leaking
    return getattr(rewindow_startup, program.replace("-", "_"))()


if __name__ == "__main__":
    sys.exit(main())
