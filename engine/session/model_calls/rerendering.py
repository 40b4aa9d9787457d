"""Renders results of the View anew whose handles have another policy now, where that pays: before each model call.

Owns what is appended for it. What is out of date is known to `context.tail.standing`, what pays to
`context.tail.rerender`; the worker renders, and nothing about a handle changes. Called by the agent loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import xxhash
from msgspec.structs import replace

from ...context.tail.prompt import Rewrite, choose_rewrites
from ...context.tail.standing import Outdated, SentProjections, Standing, referring, shared_length
from ...context.view.view import Window
from ...core.execution import Display
from ...core.ids import EventId
from ...core.settings import RerenderRule
from ...files.detail import DIFFERENCES
from ...log.event_log import EventLog
from ...log.events import Event
from ...log.events.conversation import ResultRerendered, ToolResult
from ...runtime.environment import Environment
from .projector import Projection, Projector


@dataclass(frozen=True, slots=True)
class _Planned:
    """A result as it could be, at its place in the prompt."""

    place: int
    event: ResultRerendered
    message: ToolResult


class Rerendering:
    """One session's."""

    def __init__(
        self,
        *,
        log: EventLog,
        view: Window,
        standing: Standing,
        sent: SentProjections,
        projector: Projector,
        rule: RerenderRule,
    ) -> None:
        self._log = log
        self._view = view
        self._standing = standing
        self._sent = sent
        self._projector = projector
        self._rule: RerenderRule = rule

    @property
    def is_wanted(self) -> bool:
        """Whether any result is out of date, and may change at all."""
        return self._rule != "never" and bool(self._standing.outdated())

    async def rerender(self, environment: Environment) -> None:
        """Appends a ResultRerendered for each result that it pays for.

        Raises:
            EnvironmentUnavailableError: there is no worker to render them.
        """
        for each in await self._chosen(environment):
            self._log.append(each.event)

    async def project(self, environment: Environment) -> Projection:
        """What a model would read now, with the new renders that a call would bring about. Appends nothing.

        Raises:
            EnvironmentUnavailableError: there is no worker to render them.
        """
        chosen = await self._chosen(environment) if self.is_wanted else ()
        return await self._projector.project(environment, {each.place: each.message for each in chosen})

    async def _chosen(self, environment: Environment) -> Sequence[_Planned]:
        """What pays, by its place."""
        messages = self._view.ready(open_run=True)
        planned = await self._planned(environment, messages)
        if not planned:
            return ()
        fits = await self._projector.fits(environment)
        costs = await self._projector.costs(environment, messages)
        now = await self._projector.measured(environment, [each.message for each in planned])
        latest = self._sent.latest
        # What does not fit is condensed, and then nothing of it is read from a cache.
        kept = shared_length(self._sent.latest_messages, messages) if fits and latest is not None else 0
        rewrites = [Rewrite(each.place, tokens) for each, tokens in zip(planned, now, strict=True)]
        is_immediate = self._rule == "immediate"
        chosen = choose_rewrites(rewrites, costs, kept, self._projector.room, at_any_price=is_immediate)
        places = {rewrite.place for rewrite in chosen}
        return [each for each in planned if each.place in places]

    async def _planned(self, environment: Environment, messages: Sequence[Event]) -> list[_Planned]:
        """What could be rendered anew and would read otherwise, by its place."""
        outdated = self._standing.outdated()
        ids = {each.result.finished.displays[place].obj_id for each in outdated for place in each.places}
        shown = (await environment.look(sorted(ids))).shown
        places = {message.event_id: place for place, message in enumerate(messages)}
        found = (
            _rendered(each, shown, messages[places[each.result.entry]], places[each.result.entry])
            for each in outdated
            if each.result.entry in places
        )
        return sorted((each for each in found if each is not None), key=lambda each: each.place)


def _rendered(outdated: Outdated, shown: Mapping[str, Display], message: Event, place: int) -> _Planned | None:
    """The result with its renders as they are now; None where it would read as it does.

    What a statement gave is left alone where its text is not what its execution says, as in a log from elsewhere.
    """
    result = outdated.result
    if not isinstance(message, ToolResult) or message.text != result.text:
        return None
    displays = [
        _display(display, outdated.places.get(position), shown)
        for position, display in enumerate(result.finished.displays)
    ]
    text = result.with_displays(displays)
    if text == message.text:
        return None
    event = ResultRerendered(tool_call_id=result.call, statement=result.statement, text=text, displays=tuple(displays))
    # Known by its text, as long as no event has made it: counts are kept by the ids of entries.
    name = EventId(f"{message.event_id}-{xxhash.xxh3_64_hexdigest(text.encode('utf-8', 'surrogatepass'))}")
    return _Planned(place, event, replace(message, event_id=name, text=text))


def _display(before: Display, later: int | None, shown: Mapping[str, Display]) -> Display:
    """A render as it is to stand: as before, as the handle is now, or as a reference to a later one.

    A handle that is gone leaves its render. Differences are told against what was shown, so that has to stand.
    """
    if later is None:
        return before
    if later:
        return referring(before, later)
    now = shown.get(before.obj_id)
    return before if now is None or now.lod == DIFFERENCES else now
