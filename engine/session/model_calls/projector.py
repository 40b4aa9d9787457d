"""Builds the prompt of one model call within its budget, and renders outdated results again.

A prompt has the instructions, the View's messages and the worker's tail, with exact token counts. This module owns the
budget and a cache of message counts, because a message never changes. The worker makes the tail and counts, because
only workers load the token ranks. Messages that still do not fit after a condensation are shortened for the one call.

Called by the agent loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

import xxhash
from msgspec import Struct
from msgspec.structs import replace

from ...context.model import Prompt
from ...context.tail.feed import LogNews
from ...context.tail.past_statements import PastStatements
from ...context.tail.prompt import (
    MESSAGE_OVERHEAD,
    NO_NOTES,
    ProjectNotes,
    fair_limit,
    instructions,
    is_shrinkable,
    message_text,
    shortened,
)
from ...context.tail.sent_prompts import SentProjections, shared_length
from ...context.tail.standing import Outdated, Rewrite, Standing, choose_rewrites, referring
from ...context.tail.timeline import calls_now
from ...context.view.view import Window
from ...core.execution import Display
from ...core.ids import BlobDigest, EventId
from ...core.pictures import PictureRule
from ...core.settings import RerenderRule
from ...files.detail import CHANGES_LEVEL
from ...files.tails import HandleRow, Looked, ProjectionPart
from ...log.event_log import EventLog
from ...log.events import Event
from ...log.events.conversation import ResultRerendered, ToolResult
from ...log.redaction import HIDDEN
from ...runtime.environment import Environment
from ..pictures import choose, pictures_of, tokens_of

TAIL_SHARE: Final = 8
"""The tail may take one part in TAIL_SHARE of the budget, or TAIL_FLOOR tokens if that is more. It never takes more
than half of what the instructions leave, so that messages have the other half."""
TAIL_FLOOR: Final = 1_024
_NARROWING: Final = 0.75
"""The fraction of a refused size that is tried next."""
_WIDENING: Final = 2
_MOST_RATE: Final = 4.0
"""How many times as many tokens as we a provider may count; more is no count of this prompt."""
"""By how much each answered call widens a room that a refusal narrowed."""
_REPLY_TOKENS: Final = 16_384
_REPLY_SHARE: Final = 4
"""What a window keeps for a reply: so many tokens, or one part in this many of a small one."""
_SHRINK_ATTEMPTS: Final = 4
_TAIL_ATTEMPTS: Final = 3
_PICTURE_SHARE: Final = 2
"""Pictures take at most one part in so many of the budget."""
_NO_GENERATION: Final = -1
"""The generation of a sum over messages that are not exactly the View's entries."""


class Projection(Struct, frozen=True, kw_only=True):
    """One prompt and its tokens: `used` of `size`, by part.

    `position` is the length of the log when it was made. `shortened` has the sent texts of messages that were cut.
    `counts` has the tokens of whole messages, `shortened_counts` those of the cut ones.
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
        """The tokens of a message, as sent."""
        shortened = self.shortened_counts.get(message.event_id)
        return self.counts[message.event_id] if shortened is None else shortened


class _Sum(Struct, frozen=True):
    """The tokens of the first `length` entries of a View's generation: exact, or an upper bound."""

    generation: int = 0
    length: int = 0
    tokens: int = 0


class Reader(Protocol):
    """What a prompt depends on in the model that reads it."""

    @property
    def spec(self) -> str:
        """Its name."""
        ...

    @property
    def calls_tools(self) -> bool:
        """Whether it asks for statements by calling a tool."""
        ...

    @property
    def window(self) -> int | None:
        """The tokens that it can read and write in one call, if that is known."""
        ...

    @property
    def picture_rule(self) -> PictureRule | None:
        """How its provider counts pictures; None if it takes none."""
        ...


class Withdrawn(Protocol):
    """The pictures that providers refused. The session's facts are one."""

    @property
    def withdrawn(self) -> Collection[BlobDigest]:
        """Contents that are not sent again."""
        ...

    @property
    def without_pictures(self) -> Collection[str]:
        """Names of models that take none."""
        ...


class Room:
    """How many tokens a prompt may have: at most `most`, and what the model's window leaves beside a reply.

    Providers count differently, and may know better how long a window is. So a refusal narrows the room, to the window
    that it names or to less than the refused prompt. Each call that is answered widens it again, except a window that a
    refusal named and nothing else contradicts.
    """

    def __init__(self, most: int, model: Reader) -> None:
        self._most = most
        self._model = model
        self._spec = model.spec
        self._limit: int | None = None
        self._named: int | None = None
        self._rate = 1.0

    def _follow_model(self) -> None:
        if self._model.spec != self._spec:
            self._spec, self._limit, self._named, self._rate = self._model.spec, None, None, 1.0

    @property
    def window(self) -> int | None:
        """The model's window, if it or a refusal named it."""
        self._follow_model()
        known = [window for window in (self._model.window, self._named) if window is not None]
        return min(known, default=None)

    @property
    def budget(self) -> int:
        """The tokens of a prompt."""
        window = self.window
        budget = self._most if window is None else min(self._most, window - min(_REPLY_TOKENS, window // _REPLY_SHARE))
        return budget if self._limit is None else min(budget, self._limit)

    def narrow(self, used: int, window: int | None) -> bool:
        """Take note of a refusal; return whether a smaller prompt is worth a try.

        Args:
            used: our count of the refused prompt.
            window: what the refusal names, in the provider's tokens.
        """
        budget, rate = self.budget, max(self._rate, 1.0)
        if window is not None and window < used * rate * 2:
            # The provider may count more than we do; in our tokens its window is at most what it refused.
            self._named = max(int(min(window / rate, used)), 1)
            return True
        if used * rate * 2 < (self.window or self._most):
            return False  # a prompt of this length cannot be too long
        self._limit = min(budget, int(used * _NARROWING))
        return True

    def answered(self, used: int, counted: int | None) -> None:
        """Take note of an answer to a prompt of `used` tokens by our count, `counted` by the provider's."""
        if counted is not None and used > 0:
            self._rate = min(max(counted / used, 1 / _MOST_RATE), _MOST_RATE)
        if self._limit is not None:
            self._limit *= _WIDENING
        if self._named is not None and self._model.window is not None:
            self._named *= _WIDENING  # the refusal and the provider's list contradict each other
        if self._named is not None and counted is not None and counted > self._named:
            self._named = None


class Projector:
    """Builds one session's prompts for a model, within their room."""

    def __init__(self, view: Window, cwd: str, budget: int, news: LogNews, model: Reader, withdrawn: Withdrawn) -> None:
        self._view = view
        self._news = news
        self._model = model
        self._withdrawn = withdrawn
        self._rule: PictureRule | None = None
        self._pictured: dict[EventId, Event] = {}
        """The entries of the View that have pictures, among those that were looked at in this generation of it."""
        self._looked_at: int = _NO_GENERATION
        self._described: Mapping[EventId, Event] = {}
        """The messages with pictures that are not sent, as they are sent."""
        self._room = Room(budget, model)
        self._calls_tools = model.calls_tools
        self._cwd = cwd
        self._notes: ProjectNotes = NO_NOTES
        self._instructions = instructions(cwd, calls_tools=self._calls_tools)
        self._instruction_tokens: int | None = None
        self._counts: dict[EventId, int] = {}
        self._bound = _Sum()
        self._spent = _Sum()
        self.latest: Projection | None = None

    async def project(
        self, environment: Environment, instead: Mapping[int, Event] = MappingProxyType({})
    ) -> Projection:
        """Build the current projection, and keep it as `latest`. It does not affect the next one.

        Args:
            environment: renders the tail, and counts.
            instead: messages that replace others, by position. Their ids differ from those of all entries.
        """
        self._follow_model()
        position = self._news.position
        messages = self._view.ready(open_run=True)
        if instead:
            messages = tuple(instead.get(place, message) for place, message in enumerate(messages))
        known = _Sum(_NO_GENERATION) if instead else self._known(messages)
        new = messages[known.length :]
        if self._choose_pictures(new, instead.values()):
            known, new = _Sum(_NO_GENERATION), messages
        if self._instruction_tokens is None and self._tail_most > self._left(len(self._instructions.encode())) // 2:
            # Because the tail's budget depends on their tokens. A token has at least one byte.
            await self.costs(environment, ())
        uncounted = self._uncounted(new)
        texts = self._texts(uncounted)
        part = await environment.project(texts, self._tail_budget, self._news.news)
        part = await self._recounted(environment, part)
        self._take(uncounted, part.text_tokens)
        message_tokens = self._spend(known, messages)
        shortened: dict[EventId, tuple[str, int]] = {}
        if self._described:
            messages = tuple(map(self._as_sent, messages))
        if message_tokens > self.room:
            messages, shortened = await self._shrunk(environment, messages, self._costs(messages))
            message_tokens += sum(tokens - self._counts[event_id] for event_id, (_, tokens) in shortened.items())
        instruction_tokens = self._instruction_tokens or 0
        self.latest = Projection(
            prompt=Prompt(
                instructions=self._instructions, messages=messages, tail=part.tail, calls_tools=self._calls_tools
            ),
            used=instruction_tokens + message_tokens + part.tail_tokens,
            size=self._room.window or self._budget,
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
        """Count the tail again if a secret was removed from it after the worker counted.

        The placeholder can take more tokens than the secret, so the tail may have to be rendered smaller.
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
        """The tokens left for messages beside the instructions and a full tail; negative if these exceed the budget."""
        return self._budget - (self._instruction_tokens or 0) - self._tail_budget

    async def fits(self, environment: Environment) -> bool:
        """Whether the messages fit in `room`. Counts only if an upper bound does not already decide it."""
        self._follow_model()
        if self._at_most() <= self.room:
            return True
        messages = self._view.ready(open_run=True)
        known = self._known(messages)
        await self.costs(environment, messages[known.length :])
        self._bound = _Sum(self._view.generation, len(self._view), self._spend(known, messages))
        return self._bound.tokens <= self.room

    def _known(self, messages: Sequence[Event]) -> _Sum:
        """The known sum of the first of `messages`, the View's.

        In one generation a View only grows at its end. The same is true of a model's messages if they are the whole
        View, then and now.
        """
        spent, generation = self._spent, self._view.generation
        is_whole = len(messages) == len(self._view)
        if not is_whole or spent.generation != generation:
            return _Sum(generation if is_whole else _NO_GENERATION)
        return spent

    def _spend(self, known: _Sum, messages: Sequence[Event]) -> int:
        """Sum the tokens of `messages`, all counted already, and remember the sum for later calls."""
        tokens = known.tokens + sum(self._costs(messages[known.length :]))
        self._spent = _Sum(known.generation, len(messages), tokens)
        return tokens

    def _at_most(self) -> int:
        """An upper bound of the tokens of the View's messages. O(new messages since the last call)."""
        bound = self._bound if self._bound.generation == self._view.generation else _Sum(self._view.generation)
        new = self._view.since(bound.length)
        if self._choose_pictures(new):
            bound, new = _Sum(self._view.generation), self._view.since(0)
        # A token has at least one byte.
        bytes_at_most = (
            self._counts.get(event.event_id)
            or MESSAGE_OVERHEAD + len(self._sent(event).encode("utf-8", "replace")) + self._seen_tokens(event)
            for event in new
        )
        self._bound = _Sum(bound.generation, bound.length + len(new), bound.tokens + sum(bytes_at_most))
        return self._bound.tokens

    async def costs(self, environment: Environment, messages: Sequence[Event]) -> list[int]:
        """The exact tokens of each message."""
        uncounted = self._uncounted(messages)
        texts = self._texts(uncounted)
        if texts:
            self._take(uncounted, (await environment.project(texts, 0)).text_tokens)
        return self._costs(messages)

    async def measured(self, environment: Environment, messages: Sequence[Event]) -> list[int]:
        """The exact tokens of messages that are not entries of the View. The counts are not kept."""
        counts = (await environment.project([self._sent(message) for message in messages], 0)).text_tokens
        return [
            tokens + MESSAGE_OVERHEAD + self._seen_tokens(message)
            for message, tokens in zip(messages, counts, strict=True)
        ]

    def guide(self, notes: ProjectNotes) -> None:
        """From now on, begin prompts with these notes on the project."""
        if notes != self._notes:
            self._notes = notes
            self._instructions = instructions(self._cwd, calls_tools=self._calls_tools, notes=notes)
            self._instruction_tokens = None

    def narrow(self, window: int | None) -> bool:
        """Reduce the budget, because the provider refused the latest projection as too long; see `Room.narrow`."""
        return self.latest is not None and self._room.narrow(self.latest.used, window)

    def answered(self, counted: int | None) -> None:
        """Take note of the answer to the latest projection, with the provider's count of it."""
        if self.latest is not None:
            self._room.answered(self.latest.used, counted)

    def _follow_model(self) -> None:
        """Write everything for the model that is chosen now."""
        if self._model.calls_tools == self._calls_tools:
            return
        self._calls_tools = self._model.calls_tools
        self._instructions = instructions(self._cwd, calls_tools=self._calls_tools, notes=self._notes)
        self._instruction_tokens = None
        self._counts = {}
        self._bound = self._spent = _Sum(_NO_GENERATION)

    @property
    def _budget(self) -> int:
        return self._room.budget

    @property
    def _tail_budget(self) -> int:
        return max(min(self._tail_most, self._left(self._instruction_tokens or 0) // 2), 1)

    @property
    def _tail_most(self) -> int:
        """The tail's largest budget, if the messages have enough room."""
        return max(TAIL_FLOOR, self._budget // TAIL_SHARE)

    def _left(self, instruction_tokens: int) -> int:
        return self._budget - instruction_tokens

    def _costs(self, messages: Sequence[Event]) -> list[int]:
        return [self._counts[message.event_id] for message in messages]

    def _uncounted(self, messages: Sequence[Event]) -> list[Event]:
        return [message for message in messages if message.event_id not in self._counts]

    def _texts(self, uncounted: Sequence[Event]) -> list[str]:
        """The texts to count: the messages, and first the instructions if they are not counted yet."""
        texts = [self._sent(message) for message in uncounted]
        return [self._instructions, *texts] if self._instruction_tokens is None else texts

    def _sent(self, message: Event) -> str:
        return message_text(self._as_sent(message), calls_tools=self._calls_tools)

    def _as_sent(self, message: Event) -> Event:
        """The message without the pictures that are not sent."""
        return self._described.get(message.event_id, message) if self._described else message

    def _seen_tokens(self, message: Event) -> int:
        """The tokens of its pictures that are sent."""
        return tokens_of(self._as_sent(message), self._rule) if self._rule is not None else 0

    def _choose_pictures(self, new: Sequence[Event], instead: Iterable[Event] = ()) -> bool:
        """Choose the pictures to send; return whether counts were forgotten, because another choice was made.

        Args:
            new: the entries of the View that may not have been looked at in its present generation.
            instead: messages that replace entries for one call.
        """
        if self._view.generation != self._looked_at:
            self._looked_at, self._pictured = self._view.generation, {}
        self._pictured.update((event.event_id, event) for event in new if pictures_of(event))
        messages = [*self._pictured.values(), *(event for event in instead if pictures_of(event))]
        if not messages and not self._described:
            return False
        rule = None if self._model.spec in self._withdrawn.without_pictures else self._model.picture_rule
        described = choose(messages, rule, self._withdrawn.withdrawn, self._budget // _PICTURE_SHARE)
        if rule == self._rule and described == self._described:
            return False
        self._rule, self._described = rule, described
        for message in messages:
            self._counts.pop(message.event_id, None)
        self._bound = self._spent = _Sum(_NO_GENERATION)
        return True

    def _take(self, uncounted: Sequence[Event], counts: Sequence[int]) -> None:
        """Keep the counts of `_texts(uncounted)`."""
        waiting = list(counts)
        if self._instruction_tokens is None:
            self._instruction_tokens = waiting.pop(0)
        for message, count in zip(uncounted, waiting, strict=True):
            self._counts[message.event_id] = count + MESSAGE_OVERHEAD + self._seen_tokens(message)

    async def _shrunk(
        self, environment: Environment, messages: tuple[Event, ...], costs: list[int]
    ) -> tuple[tuple[Event, ...], dict[EventId, tuple[str, int]]]:
        """Shorten long outputs for this call. Returns the messages, and the text and tokens of each shortened one."""
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
                text = shortened(_own_text(messages[position]), share)
                shrunk[position] = replace(messages[position], text=text)
                cut[messages[position].event_id] = (text, 0)
            part = await environment.project(tuple(self._sent(shrunk[position]) for position in shares), 0)
            for position, count in zip(shares, part.text_tokens, strict=True):
                costs[position] = count + MESSAGE_OVERHEAD + self._seen_tokens(messages[position])
                event_id = messages[position].event_id
                cut[event_id] = (cut[event_id][0], costs[position])
            shares = {position: shares[position] * 0.8 for position in shares if costs[position] > limit}
        return tuple(shrunk), cut


def _own_text(message: Event) -> str:
    """Return the text that can be shortened: that of a result without the lines about its pictures."""
    return message.text if isinstance(message, ToolResult) else message_text(message)


def _adding_up_to(tokens: int, sections: dict[str, int]) -> dict[str, int]:
    """Adjust the largest section so that all add up to `tokens`, because redaction changed the total."""
    if not sections:
        return {}
    largest = max(sections, key=lambda name: sections[name])
    return {**sections, largest: sections[largest] + tokens - sum(sections.values())}


# --- results whose handles have changed their policy ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Planned:
    """The new text of a result, and its position in the prompt."""

    place: int
    event: ResultRerendered
    message: ToolResult


class ResultRerenderer:
    """Renders results again, before a model call, if their handles have another policy now and the change pays.

    `context.tail.standing` knows which results are outdated, and which changes pay. The worker renders; no handle
    changes.
    """

    def __init__(
        self,
        *,
        log: EventLog,
        view: Window,
        standing: Standing,
        statements: PastStatements,
        sent: SentProjections,
        projector: Projector,
        rule: RerenderRule,
    ) -> None:
        self._log = log
        self._view = view
        self._standing = standing
        self._statements = statements
        self._sent = sent
        self._projector = projector
        self._rule: RerenderRule = rule

    @property
    def is_wanted(self) -> bool:
        """Whether a result is outdated, and the rule permits changing it."""
        return self._rule != "never" and bool(self._standing.outdated())

    async def rerender(self, environment: Environment) -> None:
        """Append a ResultRerendered for each result that pays.

        Raises:
            EnvironmentUnavailableError: there is no worker to render them.
        """
        for each in await self._chosen(environment):
            self._log.append(each.event)

    async def project(self, environment: Environment) -> Projection:
        """The projection of a model call now, with the renders that the call would append. Appends nothing.

        Raises:
            EnvironmentUnavailableError: there is no worker to render them.
        """
        chosen = await self._chosen(environment) if self.is_wanted else ()
        return await self._projector.project(environment, {each.place: each.message for each in chosen})

    async def _chosen(self, environment: Environment) -> Sequence[_Planned]:
        """The changes that pay, by position."""
        messages = self._view.ready(open_run=True)
        planned = await self._planned(environment, messages)
        if not planned:
            return ()
        fits = await self._projector.fits(environment)
        costs = await self._projector.costs(environment, messages)
        now = await self._projector.measured(environment, [each.message for each in planned])
        latest = self._sent.latest
        # Messages that do not fit are condensed, and then no cache applies.
        kept = shared_length(self._sent.latest_messages, messages) if fits and latest is not None else 0
        rewrites = [Rewrite(each.place, tokens) for each, tokens in zip(planned, now, strict=True)]
        is_immediate = self._rule == "immediate"
        chosen = choose_rewrites(rewrites, costs, kept, self._projector.room, at_any_price=is_immediate)
        places = {rewrite.place for rewrite in chosen}
        return [each for each in planned if each.place in places]

    async def _planned(self, environment: Environment, messages: Sequence[Event]) -> list[_Planned]:
        """The results whose new text would differ, by position."""
        outdated = self._standing.outdated()
        ids = {each.result.finished.displays[place].obj_id for each in outdated for place in each.places}
        looked = await environment.look(sorted(ids))
        places = {message.event_id: place for place, message in enumerate(messages)}
        found = (
            _rendered(each, looked, self._statements, messages[places[each.result.entry]], places[each.result.entry])
            for each in outdated
            if each.result.entry in places
        )
        return sorted((each for each in found if each is not None), key=lambda each: each.place)


def _rendered(
    outdated: Outdated, looked: Looked, statements: PastStatements, message: Event, place: int
) -> _Planned | None:
    """The result with its current renders, below the calls that have their effect now; None if nothing would change.

    A result whose text does not agree with its execution, as in an imported log, stays unchanged.
    """
    result = outdated.result
    if not isinstance(message, ToolResult) or message.text != result.text:
        return None
    displays = [
        _display(display, outdated.places.get(position), looked.shown)
        for position, display in enumerate(result.finished.displays)
    ]
    if tuple(displays) == result.finished.displays:
        return None
    statement = statements.statement(result.statement)
    now = {
        display.obj_id: policy
        for position, display in enumerate(result.finished.displays)
        if outdated.places.get(position) == 0 and (policy := looked.policies.get(display.obj_id)) is not None
    }
    calls = "" if statement is None else calls_now(statement, now)
    text = result.with_displays(displays, calls)
    if text == message.text:
        return None
    event = ResultRerendered(
        tool_call_id=result.call, statement=result.statement, text=text, displays=tuple(displays), calls=calls
    )
    # Counts are cached by event id. This message has no event yet, so its id is made from its text.
    name = EventId(f"{message.event_id}-{xxhash.xxh3_64_hexdigest(text.encode('utf-8', 'surrogatepass'))}")
    return _Planned(place, event, replace(message, event_id=name, text=text))


def _display(before: Display, later: int | None, shown: Mapping[str, Display]) -> Display:
    """The render to show: the earlier one, the handle's current one, or a reference to a later one.

    The render of a handle that is gone stays. So does that of a handle that now shows differences: they are relative
    to it.
    """
    if later is None:
        return before
    if later:
        return referring(before, later)
    now = shown.get(before.obj_id)
    return before if now is None or now.lod == CHANGES_LEVEL else now
