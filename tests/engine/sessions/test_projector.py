"""What a projection has to look at: a View that grows is read once, however many calls there are."""

from __future__ import annotations

import pytest

from engine.events import Event
from engine.events.conversation import Condensation, UserMessage
from engine.ids import EventId, MessageId, Seq
from engine.projection.prompt import MESSAGE_OVERHEAD
from engine.sessions.projector import Projector
from engine.view.view import View
from tests.support.hollow import HollowEnvironment

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


async def test_whether_a_growing_view_fits_is_found_by_reading_each_entry_once() -> None:
    view, environment = CountingView(), HollowEnvironment()
    projector = Projector(view, "/", 100_000)
    for seq in range(50):
        view.append(message(seq))
        assert await projector.fits(environment)
    assert view.read == 50
    assert environment.requests == []


async def test_a_condensed_view_is_read_anew() -> None:
    view, environment = CountingView(), HollowEnvironment()
    projector = Projector(view, "/", 100_000)
    for seq in range(50):
        view.append(message(seq))
    assert await projector.fits(environment)
    forgotten = tuple(EventId(f"e{seq}") for seq in range(40))
    view.append(Condensation(seq=Seq(50), event_id=EventId("e50"), at=1.0, forgotten=forgotten))
    assert await projector.fits(environment)
    assert view.read == 60


async def test_only_a_view_that_may_not_fit_is_counted() -> None:
    view, environment = CountingView(), HollowEnvironment()
    projector = Projector(view, "/", 9_000)
    view.append(message(0, "é" * 3_900))
    assert await projector.fits(environment)
    assert environment.requests == []
    view.append(message(1, "é" * 200))
    # More bytes than there is room for tokens, but not more tokens.
    assert await projector.fits(environment)
    assert environment.requests == ["project"]
    view.append(message(2, "x" * 30_000))
    assert not await projector.fits(environment)


async def test_a_message_costs_its_text_and_what_an_api_adds_to_each() -> None:
    view, environment = View(), HollowEnvironment()
    for seq, text in enumerate(("four" * 10, "four" * 5)):
        view.append(message(seq, text))
    projection = await Projector(view, "/", 100_000).project(environment)
    assert projection.message_tokens == (10 + MESSAGE_OVERHEAD) + (5 + MESSAGE_OVERHEAD)
    assert projection.used == projection.instruction_tokens + projection.message_tokens + projection.tail_tokens
