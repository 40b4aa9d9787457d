"""What makes the environments of a host's sessions: always workers of its zygote, whatever a user configures.

Imports nothing heavy, because a host makes its factory while it starts. The other implementation is `in_process`, for
tests and for programs that embed the engine; they pass it in their own code. Called by `host`.
"""

from __future__ import annotations

from collections.abc import Callable

from .environment import Environment
from .zygote import Zygote


def workers(zygote: Zygote) -> Callable[[], Environment]:
    """Makes an environment for each session, each with a worker process of its own once it is started."""

    def make() -> Environment:
        from .worker_environment import WorkerEnvironment  # of the prompt stage

        return WorkerEnvironment(zygote)

    return make
