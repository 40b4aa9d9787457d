"""What is loaded when: the plan of start-up as one table, from the stages of a process to the modules they need.

An editor waits for the answer to its first request and then for its first session, so modules are loaded in the order
in which they are needed, and ahead of need while nobody waits. Everything that is not in this table is an ordinary
import of a module that is. Called through `Host.prepare`; the few imports inside functions name the stage they are of.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, Literal

Stage = Literal["answering", "session", "prompt"]

STAGES: Final[dict[Stage, tuple[str, ...]]] = {
    "answering": ("log.event_log", "context.view"),
    "session": (
        "session.lifecycle.registry",
        "log.store.sqlite",
        "log.store.writer",
        "log.store.locks",
        "files.safe_open",
    ),
    "prompt": ("session.serving", "session.lifecycle.reopening", "runtime.worker_environment", "context.models.local"),
}
"""By stage, in the order of a process's life: what is loaded before a first request is read, while its answer is on
its way, and while a new session is being shown. A provider's library comes last, on a thread:
`Host.warm_up`."""


def load(stage: Stage) -> None:
    """Imports what the stage needs; what is loaded already costs nothing."""
    package = __name__.removesuffix(".session.stages")
    for name in STAGES[stage]:
        import_module(f"{package}.{name}")
