"""Random logs: safe cuts, greatest and order-independent enforcement, and the reference."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from engine.context.view import View, ViewFold
from engine.context.view.properties import PROPERTIES
from engine.context.view.well_formed import indices_of
from engine.core.ids import EventId, MessageId, Seq
from engine.log.events import Event
from engine.log.events.conversation import Condensation, RunStop, UserMessage
from tests.engine.context.view.logs import Readings, answers_follow, difference, random_log
from tests.support import view_reference as reference
from tests.support.examples import examples
from tests.support.view_reference import ids

ORDERS = tuple(permutations(PROPERTIES))


def logs(longest: int) -> st.SearchStrategy[list[Event]]:
    """Stamped logs of at most `longest` events."""
    return st.integers(0, 2**64 - 1).map(lambda seed: random_log(Random(seed), longest))


FOREIGN = UserMessage(event_id=EventId("foreign"), message_id=MessageId("foreign"), text="")


@examples(1.2)
@given(logs(60))
def test_every_reading_equals_the_reference_after_every_event(log: list[Event]) -> None:
    assert difference(log, range(len(log))) is None


@examples(1.2)
@given(logs(24))
def test_cuts_and_insertions_at_indices_keep_every_property(log: list[Event]) -> None:
    before = View.from_events(log).ready()
    assume(answers_follow(before))
    indices = indices_of(before)
    assert all(reference.holds([*before[:gap], FOREIGN, *before[gap:]], before) for gap in indices)
    for low, high in combinations_with_replacement(indices, 2):
        after = [*before[:low], *before[high:]]
        assert reference.holds(after, before)
        assert reference.holds([*before[:low], FOREIGN, *before[high:]], before)


@examples(1.2)
@given(logs(24))
def test_no_gap_is_closed_without_need(log: list[Event]) -> None:
    before = View.from_events(log).ready()
    assume(answers_follow(before))
    for gap in set(range(len(before) + 1)) - set(indices_of(before)):
        assert not reference.holds([*before[:gap], FOREIGN, *before[gap:]], before)


@examples(1.2)
@given(logs(14), st.booleans())
def test_ready_entries_are_the_greatest_valid_set(log: list[Event], open_run: bool) -> None:
    view = View.from_events(log)
    assert ids(view.ready(open_run=open_run)) == ids(reference.greatest(view.events, log, open_run))


@examples(1.2)
@given(logs(60), st.booleans())
def test_enforcement_does_not_depend_on_the_order_of_the_properties(log: list[Event], open_run: bool) -> None:
    expected = View.from_events(log).enforced(open_run=open_run)
    for order in ORDERS:
        view = View(properties=order)
        for event in log:
            view.append(event)
        enforced = view.enforced(open_run=open_run)
        assert enforced.events == expected.events
        assert sum(each.count for each in enforced.corrections) == len(view) - len(expected.events)


@examples(1.2)
@given(logs(60))
def test_enforcing_what_is_enforced_changes_nothing(log: list[Event]) -> None:
    fold = ViewFold()
    for event in log:
        fold.apply(event)
        if isinstance(event, Condensation):
            assert fold.view.enforced(open_run=True).corrections == ()
    view = View.from_events(log)
    ready = view.ready()
    gone = tuple(entry.event_id for entry in view.events if entry not in ready)
    view.append(Condensation(seq=Seq(len(log)), event_id=EventId("all"), forgotten=gone))
    assert view.ready() == tuple(entry for entry in ready if entry.event_id not in gone)


@examples(1.2)
@given(logs(60))
def test_the_incremental_view_equals_the_rebuilt_one_after_every_event(log: list[Event]) -> None:
    live = Readings()
    for number, event in enumerate(log, 1):
        live.append(event)
        rebuilt = View.from_events(log[:number])
        assert (live.view.events, live.view.indices) == (rebuilt.events, rebuilt.indices)
        assert live.view.enforced(open_run=True) == rebuilt.enforced(open_run=True)
        assert live.view.indices == indices_of(live.view.events)
        assert live.fold.view.indices == indices_of(live.fold.view.events)


@examples(1.2)
@given(logs(60))
def test_appending_anything_but_a_condensation_never_removes(log: list[Event]) -> None:
    readings = Readings()
    for event in log:
        before, settled = readings.view.events, readings.fold.view.events
        readings.append(event)
        if not isinstance(event, Condensation):
            # A new render changes a text and the id that it is known by.
            assert [event.seq for event in readings.view.events[: len(before)]] == [each.seq for each in before]
            assert [event.seq for event in readings.fold.view.events[: len(settled)]] == [each.seq for each in settled]


@examples(1.2)
@given(logs(60))
def test_a_closed_index_is_never_opened_again(log: list[Event]) -> None:
    view = View()
    for event in log:
        length, before = len(view), view.indices
        view.append(event)
        if not isinstance(event, Condensation):
            assert {gap for gap in view.indices if gap <= length} <= set(before)


@examples(1.2)
@given(logs(60), st.randoms(use_true_random=False))
def test_an_accepted_condensation_keeps_the_view_well_formed(log: list[Event], random: Random) -> None:
    fold = ViewFold()
    for event in log:
        fold.apply(event)
    stop = RunStop(seq=Seq(len(log)), event_id=EventId("stop"), reason="completed", cause="end_turn")
    settle = Condensation(seq=Seq(len(log) + 1), event_id=EventId("settle"), forgotten=())
    fold.apply(stop)
    fold.apply(settle)
    before = fold.view.events
    assume(answers_follow(before))
    low, high = sorted(random.choices(fold.view.indices if random.random() < 0.7 else range(len(before) + 1), k=2))
    wanted = Condensation(
        seq=Seq(len(log) + 2),
        event_id=EventId("cut"),
        forgotten=tuple(entry.event_id for entry in before[low:high]),
        summary="s",
        summary_offset=random.choice((low, random.randrange(len(before) + 1))),
    )
    refused = fold.refusal(wanted)
    warned = fold.warning
    fold.apply(wanted)
    if refused is None:
        assert fold.warning == warned
        assert fold.view.ready() == fold.view.events
        assert reference.holds(fold.view.events, before)
    if {low, high} <= set(indices_of(before)) and wanted.summary_offset == low:
        assert refused is None
