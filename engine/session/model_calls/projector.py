"""Builds what one model call reads within its budget, and renders outdated results again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import xxhash
from msgspec import Struct
from msgspec.structs import replace

from ...context.model import Prompt
from ...context.tail.feed import LogNews
from ...context.tail.prompt import MESSAGE_OVERHEAD, fair_limit, instructions, is_shrinkable, message_text, shortened
from ...context.tail.sent_prompts import SentProjections, shared_length
from ...context.tail.standing import Outdated, Rewrite, Standing, choose_rewrites, referring
from ...context.view.view import Window
from ...core.execution import Display
from ...core.ids import EventId
from ...core.settings import RerenderRule
from ...files.detail import DIFFERENCES
from ...files.tails import HandleRow, ProjectionPart
from ...log.event_log import EventLog
from ...log.events import Event
from ...log.events.conversation import ResultRerendered, ToolResult
from ...log.events.session import GuidanceRead
from ...log.redaction import HIDDEN
from ...runtime.environment import Environment

# Builds what one model call reads: instructions, the View's messages, the worker's tail, with exact token counts.
#
# Owns the budget, and the cache of message counts (a message never changes). The tail and all counting come from the
# worker, because only that side loads the token ranks. Messages that do not fit, and that no condensation took away,
# are shortened for the one call.

TAIL_SHARE: Final = 8
"""The tail may take this fraction of the budget, and at least TAIL_FLOOR tokens, but never more than half of what the
instructions leave, because the messages are to have as much."""
TAIL_FLOOR: Final = 1_024
_NARROWING: Final = 0.75
"""Of what a provider refused, so much is tried next."""
_SHRINK_ATTEMPTS: Final = 4
_TAIL_ATTEMPTS: Final = 3
_NO_GENERATION: Final = -1
"""Of a sum over messages that are not all entries of the View."""


class Projection(Struct, frozen=True, kw_only=True):
    """One prompt with its cost in tokens: `used` of `size`, and how they divide.

    The log had `position` events when it was made. `shortened` are the texts that were sent of messages that had to be
    cut; `counts` has the tokens of whole messages, `shortened_counts` of those.
    """

    prompt: Prompt
    used: int
    size: int
    instruction_tokens: int
    message_tokens: int
    tail_tokens: int
    handles: tuple[HandleRow, ...]
    position: int
    tail_sections: dict[str, int]
    tail_nodes: dict[str, int]
    counts: dict[EventId, int]
    shortened: dict[EventId, str]
    shortened_counts: dict[EventId, int]

    def cost(self, message: Event) -> int:
        """Tokens of one of its messages, as it was sent."""
        shortened = self.shortened_counts.get(message.event_id)
        return self.counts[message.event_id] if shortened is None else shortened


class _Sum(Struct, frozen=True):
    """What the first `length` entries of a View in that generation cost, exactly or at most."""

    generation: int = 0
    length: int = 0
    tokens: int = 0


class Projector:
    """Projects one session within `budget` tokens, for a model that calls tools or for one that writes statements."""

    def __init__(self, view: Window, cwd: str, budget: int, news: LogNews, *, calls_tools: bool = True) -> None:
        self._view = view
        self._news = news
        self._budget = budget
        self._calls_tools = calls_tools
        self._cwd = cwd
        self._guidance: GuidanceRead | None = None
        self._instructions = instructions(cwd, calls_tools=calls_tools)
        self._instruction_tokens: int | None = None
        self._counts: dict[EventId, int] = {}
        self._bound = _Sum()
        self._spent = _Sum()
        self.latest: Projection | None = None

    async def project(
        self, environment: Environment, instead: Mapping[int, Event] = MappingProxyType({})
    ) -> Projection:
        """The projection of this moment, kept as `latest`. Takes nothing from the next one.

        Args:
            environment: renders the tail, and counts.
            instead: messages that are to be in the place of others, by that place; none has the id of an entry.
        """
        position = self._news.position
        messages = self._view.ready(open_run=True)
        known = self._known(messages)
        if instead:
            messages = tuple(instead.get(place, message) for place, message in enumerate(messages))
            known = _Sum(_NO_GENERATION)
        if self._instruction_tokens is None and self._tail_most > self._left(len(self._instructions.encode())) // 2:
            # Because what they take decides what the tail may take. No token is less than a byte.
            await self.costs(environment, ())
        uncounted = self._uncounted(messages[known.length :])
        texts = self._texts(uncounted)
        part = await environment.project(texts, self._tail_budget, self._news.news)
        part = await self._recounted(environment, part)
        self._take(uncounted, part.text_tokens)
        message_tokens = self._spend(known, messages)
        shortened: dict[EventId, tuple[str, int]] = {}
        if message_tokens > self.room:
            messages, shortened = await self._shrunk(environment, messages, self._costs(messages))
            message_tokens += sum(tokens - self._counts[event_id] for event_id, (_, tokens) in shortened.items())
        instruction_tokens = self._instruction_tokens or 0
        self.latest = Projection(
            prompt=Prompt(
                instructions=self._instructions, messages=messages, tail=part.tail, calls_tools=self._calls_tools
            ),
            used=instruction_tokens + message_tokens + part.tail_tokens,
            size=self._budget,
            instruction_tokens=instruction_tokens,
            message_tokens=message_tokens,
            tail_tokens=part.tail_tokens,
            handles=part.handles,
            position=position,
            tail_sections=part.sections,
            tail_nodes=part.nodes,
            counts=self._counts,
            shortened={event_id: text for event_id, (text, _) in shortened.items()},
            shortened_counts={event_id: tokens for event_id, (_, tokens) in shortened.items()},
        )
        return self.latest

    async def _recounted(self, environment: Environment, part: ProjectionPart) -> ProjectionPart:
        """The worker's part with its tail counted again if a secret was taken out of it after the worker had counted.

        What stands for a secret may take more tokens than the secret, so the tail may have to be rendered smaller.
        """
        budget = self._tail_budget
        for _ in range(_TAIL_ATTEMPTS):
            if HIDDEN not in part.tail:
                return part
            tokens = (await environment.project((part.tail,), 0)).text_tokens[0]
            if tokens <= self._tail_budget:
                return replace(part, tail_tokens=tokens, sections=_adding_up_to(tokens, part.sections))
            budget -= 2 * (tokens - self._tail_budget)
            smaller = await environment.project((), max(budget, 1), self._news.news)
            part = replace(smaller, text_tokens=part.text_tokens)
        return replace(part, tail="", tail_tokens=0, sections={}, nodes={})

    @property
    def room(self) -> int:
        """Tokens that messages may cost beside the instructions and a full tail; negative where those are too much."""
        return self._budget - (self._instruction_tokens or 0) - self._tail_budget

    async def fits(self, environment: Environment) -> bool:
        """Whether the messages fit their room. Counts only where they may not."""
        if self._at_most() <= self.room:
            return True
        messages = self._view.ready(open_run=True)
        known = self._known(messages)
        await self.costs(environment, messages[known.length :])
        self._bound = _Sum(self._view.generation, len(self._view), self._spend(known, messages))
        return self._bound.tokens <= self.room

    def _known(self, messages: Sequence[Event]) -> _Sum:
        """What is known of the cost of `messages`, the View's: of so many of them from the first on.

        While its generation stays the same a View grows at its end alone. So does what a model gets of it, where that
        is all of it: before and now.
        """
        spent, generation = self._spent, self._view.generation
        is_whole = len(messages) == len(self._view)
        if not is_whole or spent.generation != generation:
            return _Sum(generation if is_whole else _NO_GENERATION)
        return spent

    def _spend(self, known: _Sum, messages: Sequence[Event]) -> int:
        """Tokens of `messages`, all of which have been counted; remembered for those that will be added to them."""
        tokens = known.tokens + sum(self._costs(messages[known.length :]))
        self._spent = _Sum(known.generation, len(messages), tokens)
        return tokens

    def _at_most(self) -> int:
        """Tokens that the View's messages cannot exceed. O(messages that are new since the last call)."""
        bound = self._bound if self._bound.generation == self._view.generation else _Sum(self._view.generation)
        new = self._view.since(bound.length)
        # No token is less than a byte.
        bytes_at_most = (
            self._counts.get(event.event_id) or MESSAGE_OVERHEAD + len(self._sent(event).encode("utf-8", "replace"))
            for event in new
        )
        self._bound = _Sum(bound.generation, bound.length + len(new), bound.tokens + sum(bytes_at_most))
        return self._bound.tokens

    async def costs(self, environment: Environment, messages: Sequence[Event]) -> list[int]:
        """Exact tokens of each of the messages."""
        uncounted = self._uncounted(messages)
        texts = self._texts(uncounted)
        if texts:
            self._take(uncounted, (await environment.project(texts, 0)).text_tokens)
        return self._costs(messages)

    async def measured(self, environment: Environment, messages: Sequence[Event]) -> list[int]:
        """The same of messages that are no entries of the View, and of which no count is kept."""
        counts = (await environment.project([self._sent(message) for message in messages], 0)).text_tokens
        return [tokens + MESSAGE_OVERHEAD for tokens in counts]

    def guide(self, guidance: GuidanceRead | None) -> None:
        """Let prompts begin with these files with instructions from now on."""
        if guidance is not self._guidance:
            self._guidance = guidance
            self._instructions = instructions(self._cwd, calls_tools=self._calls_tools, guidance=guidance)
            self._instruction_tokens = None

    def narrow(self) -> None:
        """The provider refused the latest projection as too long: the budget is smaller than was thought."""
        if self.latest is not None:
            self._budget = min(self._budget, int(self.latest.used * _NARROWING))

    @property
    def _tail_budget(self) -> int:
        return max(min(self._tail_most, self._left(self._instruction_tokens or 0) // 2), 1)

    @property
    def _tail_most(self) -> int:
        """What the tail may take where there is room for the messages, too."""
        return max(TAIL_FLOOR, self._budget // TAIL_SHARE)

    def _left(self, instruction_tokens: int) -> int:
        return self._budget - instruction_tokens

    def _costs(self, messages: Sequence[Event]) -> list[int]:
        return [self._counts[message.event_id] for message in messages]

    def _uncounted(self, messages: Sequence[Event]) -> list[Event]:
        return [message for message in messages if message.event_id not in self._counts]

    def _texts(self, uncounted: Sequence[Event]) -> list[str]:
        """What to count: the messages, and before them the instructions if they have not been counted."""
        texts = [self._sent(message) for message in uncounted]
        return [self._instructions, *texts] if self._instruction_tokens is None else texts

    def _sent(self, message: Event) -> str:
        return message_text(message, calls_tools=self._calls_tools)

    def _take(self, uncounted: Sequence[Event], counts: Sequence[int]) -> None:
        """Keeps the counts of `_texts(uncounted)`."""
        waiting = list(counts)
        if self._instruction_tokens is None:
            self._instruction_tokens = waiting.pop(0)
        for message, count in zip(uncounted, waiting, strict=True):
            self._counts[message.event_id] = count + MESSAGE_OVERHEAD

    async def _shrunk(
        self, environment: Environment, messages: tuple[Event, ...], costs: list[int]
    ) -> tuple[tuple[Event, ...], dict[EventId, tuple[str, int]]]:
        """The messages with long outputs shortened, for this call alone, and of those the texts with their costs."""
        long = [cost for message, cost in zip(messages, costs, strict=True) if is_shrinkable(message)]
        limit = fair_limit(long, self.room - (sum(costs) - sum(long)))
        shares = {
            position: limit / cost
            for position, (message, cost) in enumerate(zip(messages, costs, strict=True))
            if cost > limit and is_shrinkable(message)
        }
        shrunk = list(messages)
        cut: dict[EventId, tuple[str, int]] = {}
        for _ in range(_SHRINK_ATTEMPTS):
            if not shares:
                break
            for position, share in shares.items():
                text = shortened(message_text(messages[position]), share)
                shrunk[position] = replace(messages[position], text=text)
                cut[messages[position].event_id] = (text, 0)
            part = await environment.project(tuple(self._sent(shrunk[position]) for position in shares), 0)
            for position, count in zip(shares, part.text_tokens, strict=True):
                costs[position] = count + MESSAGE_OVERHEAD
                event_id = messages[position].event_id
                cut[event_id] = (cut[event_id][0], costs[position])
            shares = {position: shares[position] * 0.8 for position in shares if costs[position] > limit}
        return tuple(shrunk), cut


def _adding_up_to(tokens: int, sections: dict[str, int]) -> dict[str, int]:
    """The sections with what redaction has changed counted in the largest."""
    if not sections:
        return {}
    largest = max(sections, key=lambda name: sections[name])
    return {**sections, largest: sections[largest] + tokens - sum(sections.values())}


# rerendering:
# Renders results of the View anew whose handles have another policy now, where that pays: before each model call.
#
# Owns what is appended for it. What is out of date is known to `context.tail.standing`, what pays to
# `context.tail.rerender`; the worker renders, and nothing about a handle changes. Called by the agent loop.


@dataclass(frozen=True, slots=True)
class _Planned:
    """A result as it could be, at its place in the prompt."""

    place: int
    event: ResultRerendered
    message: ToolResult


class ResultRerenderer:
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
