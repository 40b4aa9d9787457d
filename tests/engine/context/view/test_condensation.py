"""A chosen cut is safe for any View, minimal, and keeps what must stay."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.context.view import View, ViewFold
from engine.context.view.condensation import SUMMARY_FLOOR, SUMMARY_TOKENS, Cut, choose_cut, current_request, unread
from engine.core.ids import EventId, Seq
from engine.log.events import Event
from engine.log.events.conversation import Condensation
from tests.engine.context.view.logs import answers_follow, random_log
from tests.engine.context.view.rows import log_of
from tests.support.examples import examples


def whole(log: list[Event]) -> ViewFold:
    """A fold of the log whose View is well-formed, as a session's is."""
    fold = ViewFold()
    for event in log:
        fold.apply(event)
    fold.apply(Condensation(seq=Seq(len(log)), event_id=EventId("settled"), forgotten=()))
    return fold


@examples(1.5)
@given(seed=st.integers(0, 2**64 - 1), target=st.integers(0, 40_000), is_open=st.booleans())
def test_the_log_takes_every_cut_that_is_chosen(seed: int, target: int, is_open: bool) -> None:
    random = Random(seed)
    fold = whole(random_log(random, 60))
    events = fold.view.events
    assume(answers_follow(events))
    costs = [random.randrange(1_000) for _ in events]
    keep, end = (current_request(events), unread(events)) if is_open else (None, None)
    cut = choose_cut(fold.view.indices, costs, target, keep=keep, end=end)
    if cut is None:
        return
    assert cut.tokens == sum(costs[position] for position in cut.positions) > cut.summary_tokens
    condensation = Condensation(
        forgotten=tuple(events[position].event_id for position in cut.positions), summary="s", summary_offset=0
    )
    assert fold.refusal(condensation) is None
    fold.apply(replace(condensation, seq=Seq(1_000), event_id=EventId("c")))
    assert fold.view.ready(open_run=True) == fold.view.events
    if is_open:
        kept = fold.view.events
        assert keep is None or events[keep] in kept
        assert all(event in kept for event in events[unread(events) :])


@examples(1.5)
@given(seed=st.integers(0, 2**64 - 1), target=st.integers(0, 40_000))
def test_no_smaller_prefix_would_do(seed: int, target: int) -> None:
    random = Random(seed)
    view = View.from_events(random_log(random, 60))
    costs = [random.randrange(1_000) for _ in view.events]
    left = {gap: sum(costs) - freed + allowance(freed) for gap in view.indices if (freed := sum(costs[:gap])) >= 0}
    helping = {gap: rest for gap, rest in left.items() if rest < sum(costs)}
    cut = choose_cut(view.indices, costs, target)
    if not helping:
        assert cut is None
        return
    reaching = [gap for gap, rest in helping.items() if rest <= target]
    expected = min(reaching) if reaching else min(helping, key=lambda gap: (helping[gap], gap))
    assert cut == Cut(tuple(range(expected)), sum(costs[:expected]))


def test_what_leaves_exactly_the_target_is_enough() -> None:
    costs = [1_000] * 4
    assert choose_cut(range(5), costs, 3_000 + allowance(1_000)) == Cut((0,), 1_000)
    assert choose_cut(range(5), costs, 3_000 + allowance(1_000) - 1) == Cut((0, 1), 2_000)


def test_what_frees_no_more_than_a_summary_may_cost_is_no_cut() -> None:
    assert choose_cut(range(2), [SUMMARY_FLOOR], 0) is None
    assert choose_cut(range(2), [SUMMARY_FLOOR + 1], 0) == Cut((0,), SUMMARY_FLOOR + 1)


def test_a_cut_may_reach_its_end() -> None:
    assert choose_cut(range(5), [1_000] * 4, 0, end=2) == Cut((0, 1), 2_000)


def allowance(freed: int) -> int:
    return Cut((), freed).summary_tokens


@pytest.mark.parametrize(("freed", "tokens"), [(0, SUMMARY_FLOOR), (4_000, 1_000), (10**9, SUMMARY_TOKENS)])
def test_a_summary_may_cost_a_quarter_within_bounds(freed: int, tokens: int) -> None:
    assert allowance(freed) == tokens


@pytest.mark.parametrize(
    ("words", "request_at", "unread_from"),
    [
        ("", None, 0),
        ("m1", 0, 0),
        ("m1 a1:b:c o1:c", 0, 1),
        ("m1 a1:b:c o1:c m2", 3, 3),
        ("m1 a1:b:c o1:c a2:d:e o2:e", 0, 3),
        ("m1 a1:b:c a2:b:d o1:c o2:d", 0, 1),
    ],
)
def test_what_no_model_has_read_begins_with_the_newest_reply(
    words: str, request_at: int | None, unread_from: int
) -> None:
    events = View.from_events(log_of(words)).events
    assert current_request(events) == request_at
    assert unread(events) == unread_from


def test_a_steer_is_no_request_of_its_own() -> None:
    root, steer = log_of("m1 m2")
    events = (root, replace(steer, prompt_kind="steer"))
    assert current_request(events) == unread(events) == 0
