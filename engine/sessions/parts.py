"""What a session is made of, as one value: put together by the composition, read by the session and its commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ..ids import SessionId
from ..log import EventLog
from ..minter import Minter
from ..ports import Store
from ..timeline.index import Timeline
from ..view import EnforcementWarning, Window
from .journal import Journal
from .live_environment import LiveEnvironment
from .policy import Policy
from .projector import Projector

if TYPE_CHECKING:
    from ..cycles import CycleFold
    from .agent_loop import AgentLoop


class SessionParts(Struct, frozen=True, kw_only=True):
    """What a session is made of; put together by `Sessions`."""

    session_id: SessionId
    cwd: str
    store: Store
    log: EventLog
    journal: Journal
    timeline: Timeline
    policy: Policy
    environment: LiveEnvironment
    projector: Projector
    view: Window
    warning: Callable[[], EnforcementWarning | None]
    """What is amiss with the log as the View sees it."""
    cycles: Callable[[], CycleFold]
    """Made when it is first needed, and kept up to date from then on."""
    loop: Callable[[], AgentLoop]
    """Made when it is first needed, which is later than a session is wanted."""
    minter: Minter
    note: str = ""
