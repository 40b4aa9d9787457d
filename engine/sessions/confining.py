"""Which domain the worker of a session is to be in now. A pure function of settings, log and place.

Statements that a model or a client writes are held; what the user types has the user's own rights, as long as nobody
else has written in the session. `ask` and `plan` allow a scratch directory alone, because all else is asked for; `auto`
also allows the session's directories, but for what would make git run a program later. Must not know how a domain is
held, nor start a worker. Read by `live_environment`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from ..domain import Domain
from ..events.session import Mode
from ..timeline.domains import Rights

_RUN_BY_GIT: Final = ("config", "hooks")
"""What in a repository names programs that git runs."""


def domain_of(mode: Mode, *, network: bool, roots: Sequence[str], scratch: str, state: str) -> Domain:
    """What statements of a session may change by themselves.

    Args:
        mode: of the session.
        network: whether they may use TCP.
        roots: the absolute directories of the session.
        scratch: its directory for files that nobody misses.
        state: where sessions are kept.
    """
    writable = tuple(roots) if mode == "auto" else ()
    return Domain(
        scratch=scratch,
        writable=writable,
        read_only=tuple(os.path.join(root, ".git", name) for root in writable for name in _RUN_BY_GIT),
        hidden=(state,),
        network=network,
    )


def rights_in(domain: Domain) -> Rights:
    """What a log says of a domain."""
    return Rights(writable=domain.writable, network=domain.network)
