"""All that the log has for a tail: one fold over a path of events, put together from those of its parts.

Read by `sessions.projector`; the worker renders it within the tail's budget.
"""

from __future__ import annotations

from msgspec.structs import replace

from ...files.tails import News
from ...log.events import Event
from ...log.timeline.index import Timeline
from .diverged import DivergedNodes
from .feed import Feed
from .past_statements import PastStatements
from .standing import Standing


class LogNews:
    """What a call that is made now has to carry. `apply` is for the log alone; each part is told through it.

    `timeline` follows the same path, and is told of each event before.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.feed = Feed(timeline)
        self.past = PastStatements(timeline)
        self.standing = Standing()
        self.diverged = DivergedNodes(timeline)

    def apply(self, event: Event) -> None:
        self.feed.apply(event)
        self.past.apply(event)
        self.standing.apply(event)
        if type(event) in DivergedNodes.FOLLOWS:
            self.diverged.apply(event)

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self.feed.reset()
        self.past.reset()
        self.standing.reset()
        self.diverged.reset()

    @property
    def position(self) -> int:
        """How many events there are."""
        return self.feed.position

    @property
    def news(self) -> News:
        statements = self.past.newest()
        return replace(
            self.feed.news,
            statements=statements,
            statements_left_out=len(self.past) - len(statements),
            standing=self.standing.renders,
            diverged=dict(self.diverged.nodes),
        )
