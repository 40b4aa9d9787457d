"""A condensation that is cancelled, at each of the things that it waits for."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest

from engine.context.model import Model, ModelSignal, Prompt, TextDelta
from engine.context.tail.feed import LogNews
from engine.context.view.view import ViewFold
from engine.core.ids import MessageId
from engine.log.cycles import CycleFold
from engine.log.event_log import EventLog
from engine.log.events.conversation import AgentText, Condensation, CondensationRequest, RunStop, UserMessage
from engine.log.timeline import Timeline
from engine.session.cancellation import Cancellation, WorkCancelledError
from engine.session.model_calls.condenser import Condenser
from engine.session.model_calls.projector import Projector
from tests.support.fixed import FixedClock
from tests.support.hollow import HollowEnvironment, Moment
from tests.support.models import AnsweringModel, says

pytestmark = pytest.mark.anyio
SECONDS = 5.0


def condenser_of(model: Model) -> tuple[Condenser, EventLog]:
    """Of a session with one long conversation, which is over."""
    fold = ViewFold()
    log = EventLog(FixedClock(), lambda event: None, check=fold.refusal)
    timeline, cycles = Timeline(log.at), CycleFold(log.at)
    news = LogNews(timeline)
    for each in (timeline, news, fold, cycles):
        log.follow_path(each)
    log.append(UserMessage(message_id=MessageId("m1"), text="word " * 2_000))
    log.append(AgentText(message_id=MessageId("m2"), text="word " * 2_000))
    log.append(RunStop(reason="completed", cause="end_turn"))
    projector = Projector(fold.view, "/", 100_000, news)
    condenser = Condenser(log=log, view=fold.view, projector=projector, past=news.past, cycles=cycles, model=model)
    return condenser, log


async def test_a_condensation_that_nobody_cancels_leaves_the_models_summary() -> None:
    model = AnsweringModel(says("Yes."), says("Words were exchanged."))
    condenser, log = condenser_of(model)
    cut = await condenser.condense(HollowEnvironment(), "asked", Cancellation(), open_run=False)
    assert cut is not None
    assert cut.positions == (0, 1)
    (condensation,) = [event for event in log.events if isinstance(event, Condensation)]
    assert condensation.summary == "Summary of what came before:\nWords were exchanged."


async def test_a_cancel_while_tokens_are_counted_asks_no_model_for_a_summary() -> None:
    model, cancellation = AnsweringModel(says("Yes."), says("Words were exchanged.")), Cancellation()

    async def cancel(_: Moment) -> None:
        cancellation.cancel()

    condenser, log = condenser_of(model)
    with pytest.raises(WorkCancelledError):
        await condenser.condense(HollowEnvironment(cancel), "asked", cancellation, open_run=False)
    assert model.summary_prompts == []
    assert isinstance(log.events[-1], CondensationRequest)


async def test_a_cancel_while_the_model_sums_up_condenses_nothing() -> None:
    cancellation, closed = Cancellation(), list[str]()

    class Slow(AnsweringModel):
        async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
            try:
                yield TextDelta("Words were")
                cancellation.cancel()
                await anyio.sleep_forever()
            finally:
                closed.append("closed")

    condenser, log = condenser_of(Slow(says("Yes."), says("")))
    with anyio.fail_after(SECONDS), pytest.raises(WorkCancelledError):
        await condenser.condense(HollowEnvironment(), "asked", cancellation, open_run=False)
    assert closed == ["closed"]
    assert isinstance(log.events[-1], CondensationRequest)
