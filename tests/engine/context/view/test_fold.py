"""The session's View over a real log: bad condensations are refused, and foreign logs are repaired."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.context.view import Correction, EnforcementWarning, ViewFold
from engine.core.errors import InvalidEventError
from engine.core.ids import EventId, Seq, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events import UNSTAMPED, Event
from engine.log.events.conversation import Condensation, ResultRerendered, ToolResult
from tests.engine.context.view.rows import condensation, log_of
from tests.support.view_reference import ids

BATCH = "m a:b1:t1 a:b1:t2 o:t1 o:t2 m"
LOOP = "m a:b1:t1+ o:t1 a:b2:t2 o:t2 m"


class _Clock:
    def now(self) -> float:
        return 0.0


def _session() -> tuple[EventLog, ViewFold, list[Event]]:
    fold, written = ViewFold(), list[Event]()
    return EventLog(_Clock(), written.append, folds=[fold.apply], check=fold.refusal), fold, written


def _appended(words: str) -> tuple[EventLog, ViewFold, list[Event]]:
    log, fold, written = _session()
    for event in log_of(words):
        log.append(replace(event, seq=UNSTAMPED))
    return log, fold, written


def _loaded(words: str, *bad: Event) -> tuple[EventLog, ViewFold]:
    log, fold, _ = _session()
    events = [replace(event, event_id=EventId(f"e{event.seq}")) for event in log_of(words)]
    for event in bad:
        events.append(replace(event, seq=Seq(len(events)), event_id=EventId(f"e{len(events)}")))
    log.load(events)
    return log, fold


BAD = [
    pytest.param(BATCH, condensation("e1 e3"), "cut 1:2", "e0 e5", id="half a batch"),
    pytest.param(BATCH, condensation("e3"), "cut 3:4", "e0 e5", id="one result"),
    pytest.param(LOOP, condensation("e1 e2"), "cut 1:3", "e0 e5", id="the head of a loop"),
    pytest.param(LOOP, condensation("e4"), "cut 4:5", "e0 e5", id="one event of a loop"),
    pytest.param(LOOP, condensation("e3 e4 e5"), "cut 3:6", "e0", id="the tail of a loop"),
]


@pytest.mark.parametrize(("words", "bad", "reason", "kept"), BAD)
def test_a_condensation_that_splits_a_unit_is_refused(words: str, bad: Event, reason: str, kept: str) -> None:
    del kept
    log, fold, written = _appended(words)
    before = (len(log), len(written), fold.view.events, fold.view.indices)
    with pytest.raises(InvalidEventError, match=reason):
        log.append(bad)
    assert (len(log), len(written), fold.view.events, fold.view.indices) == before


@pytest.mark.parametrize(("words", "bad", "reason", "kept"), BAD)
def test_a_bad_condensation_from_elsewhere_gives_one_warning(
    words: str, bad: Condensation, reason: str, kept: str
) -> None:
    del reason
    log, fold = _loaded(words, bad)
    assert len(log) == len(log_of(words)) + 1
    assert ids(fold.view.events) == ids(fold.view.ready()) == tuple(kept.split())
    assert fold.view.indices == tuple(range(len(fold.view) + 1))
    assert isinstance(fold.warning, EnforcementWarning)
    left_out = len(log_of(words)) - len(bad.forgotten) - len(fold.view)
    assert sum(each.count for each in fold.warning.corrections) == left_out > 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (condensation("e9"), "e9 is not in the View"),
        (condensation("e0 e9"), "e9 is not in the View"),
        (condensation("", summary="s", at=2), "summary offset 2 would split"),
        (condensation("e0", summary="s", at=1), "summary offset 1 would split"),
        (condensation("e0", summary="s", at=3), "summary offset 3 is outside 0..2"),
        (condensation("e0", summary="s", at=-1), "summary offset -1 is outside 0..2"),
        (condensation("e0", summary="s"), "give both a summary and its offset"),
        (condensation("e0", at=0), "give both a summary and its offset"),
    ],
)
def test_an_impossible_condensation_is_refused_with_its_reason(bad: Event, reason: str) -> None:
    log, _, written = _appended("m a:b1:t1 o:t1")
    with pytest.raises(InvalidEventError, match=reason):
        log.append(bad)
    assert len(written) == 3


@pytest.mark.parametrize(
    ("words", "at", "kept", "name"),
    [
        ("m a:b1:t1 o:t1 m", 2, "e0 e4-summary e1 e2 e3", "ToolCallMatching"),
        ("m a:b1:t1 o:t1 a:b1:t2 o:t2", 3, "e0 e5-summary e1 e2 e3 e4", "BatchAtomicity"),
        ("m a:b1:t1+ o:t1 a:b2:t2 o:t2", 3, "e0 e5-summary e1 e2 e3 e4", "ToolLoopAtomicity"),
        ("m a:b1:t1", 9, "e0 e2-summary e1", "ToolCallMatching"),
    ],
)
def test_a_foreign_summary_inside_a_unit_moves_before_it(words: str, at: int, kept: str, name: str) -> None:
    _, fold = _loaded(words, condensation("", summary="s", at=at))
    assert ids(fold.view.events) == ids(fold.view.ready(open_run=True)) == tuple(kept.split())
    assert fold.warning == EnforcementWarning((Correction(name, 1),))


def test_foreign_event_with_a_summary_id_is_no_summary() -> None:
    fold = ViewFold()
    impostor, *pair = log_of("m0 a1:b1:t1 o1:t1")
    for event in (replace(impostor, event_id=EventId("c3-summary")), *pair, condensation("", seq=3, summary="s", at=2)):
        fold.apply(event)
    assert [type(event).kind for event in fold.view.events] == ["user_message", "summary", "tool_call", "tool_result"]


def test_only_condensations_are_judged_here() -> None:
    fold = ViewFold()
    assert [fold.refusal(event) for event in log_of("m a:b1:t1 o:t9 x r")] == [None] * 5


def test_the_warning_sums_up_what_several_condensations_cost() -> None:
    _, fold = _loaded("m a:b1:t1 o:t1 m a:b2:t2 o:t2", condensation("e2"), condensation("e4"))
    assert ids(fold.view.events) == ("e0", "e3")
    assert fold.warning == EnforcementWarning((Correction("ToolCallMatching", 2),))


def test_a_loaded_log_warns_of_removed_entries() -> None:
    _, fold = _loaded("m o:t9 a:b1:t1 o:t1 o:t1 x")
    assert ids(fold.view.ready()) == ("e0", "e2", "e3")
    assert fold.warning == EnforcementWarning(
        (Correction("ObservationUniqueness", 1), Correction("ToolCallMatching", 1))
    )
    assert str(fold.warning) == (
        "2 events were left out of the View, or moved, to keep it well-formed: "
        "ObservationUniqueness 1, ToolCallMatching 1"
    )


def test_a_rerendered_result_keeps_its_place_in_its_loop() -> None:
    log, fold, _ = _appended(LOOP)
    generation = fold.view.generation
    indices = fold.view.indices
    log.append(ResultRerendered(tool_call_id=ToolCallId("t1"), statement=1, text="shorter"))
    assert fold.view.generation == generation + 1
    assert fold.view.indices == indices
    assert ids(fold.view.ready()) == ("e0", "e1", "e6", "e3", "e4", "e5")
    assert [entry.text for entry in fold.view.events if isinstance(entry, ToolResult)] == ["shorter", ""]
    with pytest.raises(InvalidEventError, match="e2 is not in the View"):
        log.append(condensation("e1 e2 e3 e4"))
    log.append(condensation("e1 e6 e3 e4"))
    assert ids(fold.view.ready()) == ("e0", "e5")


@pytest.mark.parametrize("words", ["m", BATCH])
def test_a_render_of_no_result_is_refused_or_skipped(words: str) -> None:
    bad = ResultRerendered(tool_call_id=ToolCallId("t9"), statement=1, text="x")
    log, fold, written = _appended(words)
    with pytest.raises(InvalidEventError, match="the View has no result of t9"):
        log.append(bad)
    assert len(written) == len(words.split())
    _, loaded = _loaded(words, bad)
    assert ids(loaded.view.events) == ids(fold.view.events)
    assert loaded.warning is None
