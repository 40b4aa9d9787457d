"""What a projection has to look at: a View that grows is read once, however many calls there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from engine.context.tail.feed import LogNews
from engine.context.tail.prompt import MESSAGE_OVERHEAD
from engine.context.view.view import View
from engine.core.ids import EventId, MessageId, Seq, ToolCallId
from engine.files.tails import News, ProjectionPart
from engine.log.events import Event
from engine.log.events.conversation import Condensation, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.facts import SessionFacts
from engine.log.redaction import HIDDEN
from engine.session.model_calls.projector import TAIL_FLOOR, Projector
from tests.support.hollow import HollowEnvironment
from tests.support.models import Reads
from tests.support.timelines import timeline_of

pytestmark = pytest.mark.anyio


class CountingView(View):
    """Counts the entries that are read from it."""

    read = 0

    @property
    def events(self) -> tuple[Event, ...]:
        return self._counted(super().events)

    def since(self, position: int) -> tuple[Event, ...]:
        return self._counted(super().since(position))

    def ready(self, *, open_run: bool = False) -> tuple[Event, ...]:
        return self._counted(super().ready(open_run=open_run))

    def _counted(self, entries: tuple[Event, ...]) -> tuple[Event, ...]:
        self.read += len(entries)
        return entries


def message(seq: int, text: str = "hello") -> UserMessage:
    return UserMessage(seq=Seq(seq), event_id=EventId(f"e{seq}"), at=1.0, message_id=MessageId(f"m{seq}"), text=text)


async def test_growing_view_is_read_once_to_see_if_it_fits() -> None:
    view, environment = CountingView(), HollowEnvironment()
    projector = Projector(view, "/", 100_000, LogNews(timeline_of()), Reads(), SessionFacts())
    for seq in range(50):
        view.append(message(seq))
        assert await projector.fits(environment)
    assert view.read == 50
    assert environment.requests == []


async def test_a_condensed_view_is_read_anew() -> None:
    view, environment = CountingView(), HollowEnvironment()
    projector = Projector(view, "/", 100_000, LogNews(timeline_of()), Reads(), SessionFacts())
    for seq in range(50):
        view.append(message(seq))
    assert await projector.fits(environment)
    forgotten = tuple(EventId(f"e{seq}") for seq in range(40))
    view.append(Condensation(seq=Seq(50), event_id=EventId("e50"), at=1.0, forgotten=forgotten))
    assert await projector.fits(environment)
    assert view.read == 60


async def test_only_a_view_that_may_not_fit_is_counted() -> None:
    view, environment = CountingView(), HollowEnvironment()
    projector = Projector(view, "/", 9_000, LogNews(timeline_of()), Reads(), SessionFacts())
    view.append(message(0, "é" * 3_900))
    assert await projector.fits(environment)
    assert environment.requests == []
    view.append(message(1, "é" * 200))
    # More bytes than there is room for tokens, but not more tokens.
    assert await projector.fits(environment)
    assert environment.requests == ["project"]
    view.append(message(2, "x" * 30_000))
    assert not await projector.fits(environment)


async def test_message_costs_its_text_and_an_overhead() -> None:
    view, environment = View(), HollowEnvironment()
    for seq, text in enumerate(("four" * 10, "four" * 5)):
        view.append(message(seq, text))
    projection = await Projector(view, "/", 100_000, LogNews(timeline_of()), Reads(), SessionFacts()).project(
        environment
    )
    assert projection.message_tokens == (10 + MESSAGE_OVERHEAD) + (5 + MESSAGE_OVERHEAD)
    assert projection.used == projection.instruction_tokens + projection.message_tokens + projection.tail_tokens


class Looked(tuple[Event, ...]):
    """Counts how many of its events are looked at."""

    count = 0

    def __iter__(self) -> Iterator[Event]:
        Looked.count += len(self)
        return super().__iter__()

    def __getitem__(self, which: Any) -> Any:
        found = super().__getitem__(which)
        Looked.count += len(found) if isinstance(which, slice) else 1
        return found


class LookedAtView(View):
    def ready(self, *, open_run: bool = False) -> tuple[Event, ...]:
        return Looked(super().ready(open_run=open_run))


async def test_projection_of_a_grown_view_reads_only_new_entries() -> None:
    view, environment = LookedAtView(), HollowEnvironment()
    projector, tokens = Projector(view, "/", 100_000, LogNews(timeline_of()), Reads(), SessionFacts()), 0
    for seq in range(200):
        view.append(message(seq))
        tokens += len("hello") // 4 + MESSAGE_OVERHEAD
        Looked.count = 0
        assert (await projector.project(environment)).message_tokens == tokens
        assert Looked.count <= 2, seq
    view.append(Condensation(seq=Seq(200), event_id=EventId("e200"), at=1.0, forgotten=(EventId("e3"),)))
    assert (await projector.project(environment)).message_tokens == tokens // 200 * 199


async def test_omitted_entries_are_not_counted_and_none_twice() -> None:
    view, environment = View(), HollowEnvironment()
    projector = Projector(view, "/", 100_000, LogNews(timeline_of()), Reads(), SessionFacts())
    call = ToolCall(seq=Seq(1), event_id=EventId("e1"), at=1.0, tool_call_id=ToolCallId("c"), tool="python")
    result = ToolResult(
        seq=Seq(5), event_id=EventId("e5"), at=1.0, tool_call_id=ToolCallId("d"), status="ok", text="lost"
    )
    stop = RunStop(seq=Seq(3), event_id=EventId("e3"), at=1.0, reason="error", cause="error")
    for event, messages in ((message(0), 1), (call, 2), (message(2), 3), (stop, 2), (message(4), 3), (result, 3)):
        view.append(event)
        projection = await projector.project(environment)
        assert len(projection.prompt.messages) == messages
        alone = await Projector(view, "/", 100_000, LogNews(timeline_of()), Reads(), SessionFacts()).project(
            environment
        )
        assert projection.message_tokens == alone.message_tokens


class Wordy(HollowEnvironment):
    """Its tails hold a secret for every ten tokens, and what stands for one counts twenty."""

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        secrets = budget // 10
        return ProjectionPart(
            tail=f"{HIDDEN} " * secrets,
            tail_tokens=10 * secrets,
            text_tokens=tuple(20 * text.count(HIDDEN) for text in texts),
            sections={"handles": 10 * secrets} if secrets else {},
        )


async def test_tail_with_hidden_secrets_stays_within_budget() -> None:
    view = View()
    view.append(message(0))
    projection = await Projector(view, "/", 8_000, LogNews(timeline_of()), Reads(), SessionFacts()).project(Wordy())
    assert projection.tail_tokens <= TAIL_FLOOR
    assert sum(projection.tail_sections.values()) == projection.tail_tokens
    assert projection.used <= projection.size


class Filling(HollowEnvironment):
    """Its tails take all that they may; a text counts a token for each four characters."""

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        return ProjectionPart(
            tail="x", tail_tokens=budget, text_tokens=tuple(-(-len(text) // 4) for text in texts), sections={}
        )


@pytest.mark.parametrize("budget", [1_200, 2_000, 3_000, 8_000, 128_000])
async def test_full_tail_leaves_room_in_a_small_budget(budget: int) -> None:
    view = View()
    view.append(message(0))
    projector = Projector(view, "/", budget, LogNews(timeline_of()), Reads(), SessionFacts())
    projections = [await projector.project(Filling()) for _ in range(2)]
    assert [projection.used <= projection.size for projection in projections] == [True, True]
    assert [projection.tail_tokens for projection in projections] == [projections[0].tail_tokens] * 2
    assert projections[0].tail_tokens >= min(TAIL_FLOOR, (budget - projections[0].instruction_tokens) // 2)
