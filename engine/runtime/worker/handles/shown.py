"""What one execution is reported to have shown: renders of the handles that it made or called for, and their places.

Must not know which handles there are. Used by the Board, which has them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....core.execution import Display, Location
from ....files.node import NodeBase
from ....files.rendered import Budget, RenderedView
from ....log.events import Event
from .listing import shown_frequency


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardReport:
    """What one execution did to nodes: renders for its result, places it looked at, and events, all in order.

    Renders are at the nodes' final states. Locations are absolute paths with the first line shown, counted from 1.
    """

    displays: tuple[Display, ...] = ()
    locations: tuple[Location, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A handle that this execution made or showed, and the policy that `show` asked for."""

    node: NodeBase
    lod: int | None = None
    tokens: Budget | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is shown at its own policy."""
        return self.lod is None and self.tokens is None


def reported(entry: Shown, statement: int, *, is_as_then: bool) -> tuple[Display, Location | None]:
    """What the result of that statement holds of it, and the place in a file that it shows, where it does.

    `is_as_then` is False in a re-run that may see other contents than the statement did: nobody was shown those.
    """
    node = entry.node
    render = node.rendered if entry.is_own else node.Render(entry.lod, entry.tokens)
    if is_as_then:
        node.mark_displayed(statement, render, entry.lod)
    budget, lod = node.tokens if entry.tokens is None else entry.tokens, node.lod if entry.lod is None else entry.lod
    display = _display(node, render, budget, lod, is_own=entry.is_own)
    if node.path is None or render.first_line is None:
        return display, None
    return display, Location(path=node.path, line=render.first_line)


def looked_at(node: NodeBase, tokens: int | None) -> Display:
    """What the node shows at its own policy, within `tokens`; nothing about it changes."""
    own = node.measure()
    if tokens is None or own.tokens <= tokens:
        return _display(node, own, node.tokens, node.lod, is_own=True)
    return _display(node, node.Render(None, tokens), tokens, node.lod, is_own=False)


def _display(node: NodeBase, render: RenderedView, budget: Budget, lod: int, *, is_own: bool) -> Display:
    return Display(
        obj_id=node.obj_id,
        title=node.title,
        text=render.text,
        tokens=render.tokens,
        budget=budget if isinstance(budget, int) else 0,
        lod=lod,
        first_line=render.first_line,
        last_line=render.last_line,
        lines=node.line_count,
        state=node.document_state,
        freq="" if node.idle else shown_frequency(node),
        revision=node.fingerprint,
        digest=render.digest,
        given=not is_own,
    )
