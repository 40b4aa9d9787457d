"""Enforcement is complete, linear, and names the violated property; new properties join in one place."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import pytest

from engine.context.view import BoundaryRule, Correction, View
from engine.context.view import view as views
from engine.context.view.properties import (
    PROPERTIES,
    Closed,
    Closer,
    Enforcement,
    Property,
    QuietUntil,
    Recorder,
    Watch,
)
from engine.context.view.well_formed import enforce
from engine.core.ids import EventId, MessageId, Seq
from engine.log.events import Event
from engine.log.events.conversation import AgentText, ToolCall, UserMessage
from tests.engine.context.view.rows import condensation, log_of
from tests.support.view_reference import ids


def _cascade(batches: int) -> list[Event]:
    """Batches of which each shares a thinking loop with the next, so that one loss takes all of them."""
    words = " ".join(f"a{n}x:r{n}:x{n} a{n}y:r{n}:y{n}+ o{n}x:x{n} o{n}y:y{n}" for n in range(batches))
    log = log_of("m0 " + words + " m1")
    return [*log, condensation("a0x", seq=len(log))]


def test_a_cascade_of_1600_events_takes_them_all_without_recursion() -> None:
    view = View.from_events(_cascade(400))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        kept = view.ready()
    finally:
        sys.setrecursionlimit(limit)
    assert ids(kept) == ("m0", "m1")


class Counting:
    """A property that always holds, and counts what it is asked."""

    name: ClassVar[str] = "Counting"
    asked: ClassVar[list[int]] = []

    def __init__(self, rule: BoundaryRule) -> None:
        del rule

    def recorders(self) -> Mapping[type[Event], Recorder]:
        return {}

    def closers(self) -> Mapping[type[Event], Closer]:
        return {}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        del entries, open_run
        self.asked.clear()
        return self

    def watch(self) -> Watch:
        return QuietUntil({})

    def offending(self) -> Iterable[int]:
        return ()

    def after(self, position: int) -> Iterable[int]:
        self.asked.append(position)
        return ()


@pytest.mark.parametrize("batches", [400, pytest.param(25_000, marks=pytest.mark.slow)])
def test_a_cascade_asks_about_each_event_exactly_once(batches: int) -> None:
    view = View(properties=(*PROPERTIES, Counting))
    for event in _cascade(batches):
        view.append(event)
    assert ids(view.ready()) == ("m0", "m1")
    assert sorted(Counting.asked) == list(range(1, len(view) - 1))


def test_every_removal_is_counted_for_the_property_that_asked_first() -> None:
    log = log_of("m0 a1:b1:t1 a2:b1:t2 o1:t1 o2:t2 o3:t2 m4 a5:b5:t5+ o5:t5 a6:b6:t6 o6:t6 m7")
    view = View.from_events([*log, condensation("a1 o5", seq=len(log))])
    enforced = view.enforced()
    assert ids(enforced.events) == ("m0", "m4", "m7")
    assert enforced.corrections == (
        Correction("ObservationUniqueness", 1),
        Correction("BatchAtomicity", 1),
        Correction("ToolCallMatching", 3),
        Correction("ToolLoopAtomicity", 2),
    )


def test_nothing_is_counted_where_everything_holds() -> None:
    view = View.from_events(log_of("m0 a1:b1:t1+ a2:b1:t2 o2:t2 o1:t1 m3"))
    assert view.enforced().corrections == ()
    assert view.ready() == view.events


@pytest.mark.parametrize(
    ("words", "open_run", "kept"),
    [
        ("m0 a1:b1:t1", True, "m0 a1"),
        ("m0 a1:b1:t1", False, "m0"),
        ("m0 a1:b1:t1 x2", True, "m0"),
        ("m0 a1:b1:t1 x2 m3 a4:b4:t4", True, "m0 m3 a4"),
        ("m0 a1:b1:t1 a2:b1:t2 o1:t1", True, "m0 a1 a2 o1"),
        ("m0 a1:b1:t1 a2:b1:t2 o1:t1", False, "m0"),
    ],
)
def test_calls_that_the_open_run_waits_for_count_as_answered(words: str, open_run: bool, kept: str) -> None:
    assert ids(View.from_events(log_of(words)).ready(open_run=open_run)) == tuple(kept.split())


def test_a_call_whose_result_was_forgotten_is_not_waited_for() -> None:
    log = [*log_of("m0 a1:b1:t1 o1:t1"), condensation("o1", seq=3)]
    assert ids(View.from_events(log).ready(open_run=True)) == ("m0",)


class QuestionsAreAnswered:
    """A property no other part knows: a message that ends in `?` stays with the agent's text after it, or goes."""

    name: ClassVar[str] = "QuestionsAreAnswered"

    def __init__(self, rule: BoundaryRule) -> None:
        del rule

    def recorders(self) -> Mapping[type[Event], Recorder]:
        return {}

    def closers(self) -> Mapping[type[Event], Closer]:
        asked: list[int] = []

        def ask(position: int, message: UserMessage) -> Closed | None:
            if message.text.endswith("?"):
                asked.append(position)
            return None

        def answer(position: int, text: AgentText) -> Closed | None:
            del text
            return (asked.pop() + 1, position) if asked else None

        return {UserMessage: ask, AgentText: answer}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        del open_run
        return _Questions(entries)

    def watch(self) -> Watch:
        return QuietUntil({UserMessage: lambda message: message.text.endswith("?")})  # which may well be answered


class _Questions:
    def __init__(self, entries: Sequence[Event]) -> None:
        self.answer_of: dict[int, int] = {}
        self.unanswered: list[int] = []
        for position, entry in enumerate(entries):
            if isinstance(entry, UserMessage) and entry.text.endswith("?"):
                self.unanswered.append(position)
            if isinstance(entry, AgentText) and self.unanswered:
                self.answer_of[position] = self.unanswered.pop()

    def offending(self) -> Iterable[int]:
        return self.unanswered

    def after(self, position: int) -> Iterable[int]:
        return [self.answer_of[position]] if position in self.answer_of else []


def _conversation() -> list[Event]:
    question = UserMessage(seq=Seq(0), event_id=EventId("q"), message_id=MessageId("q"), text="why?")
    answer = AgentText(seq=Seq(4), event_id=EventId("t"), message_id=MessageId("t"), text="because")
    return [question, *log_of("a1:b1:t1 o1:t1 m2", start=1), answer]


def test_a_fifth_property_is_one_class_and_one_line() -> None:
    five: tuple[type[Property], ...] = (*PROPERTIES, QuestionsAreAnswered)
    four_only, with_fifth = View(), View(properties=five)
    for event in _conversation():
        four_only.append(event)
        with_fifth.append(event)
    assert four_only.indices == (0, 1, 3, 4, 5)
    assert with_fifth.indices == (0, 5)
    bad = condensation("t", seq=5)
    four_only.append(bad)
    with_fifth.append(bad)
    assert ids(four_only.ready()) == ("q", "a1", "o1", "m2")
    assert ids(with_fifth.ready()) == ("a1", "o1", "m2")
    assert with_fifth.enforced().corrections == (Correction("QuestionsAreAnswered", 1),)


def test_an_orderly_view_is_read_without_enforcement(monkeypatch: pytest.MonkeyPatch) -> None:
    enforced = list[int]()
    monkeypatch.setattr(views, "enforce", lambda *given: enforced.append(len(given[0])) or enforce(*given))
    watched: list[EventId] = []
    monkeypatch.setattr(
        Counting, "watch", lambda _self: QuietUntil({ToolCall: lambda call: watched.append(call.event_id)})
    )
    view = View(properties=(*PROPERTIES, Counting))
    rounds = 50
    log = log_of(" ".join(f"m{n}m a{n}x:b{n}:x{n}+ a{n}y:b{n}:y{n} o{n}y:y{n} o{n}x:x{n} m{n}n" for n in range(rounds)))
    for event in log:
        view.append(event)
        assert view.ready(open_run=True) == view.events
    assert enforced == []
    assert len(watched) == 2 * rounds
    view.append(condensation("o7x", seq=len(log)))
    assert ids(view.ready(open_run=True)) == tuple(each for each in ids(log) if not each.startswith(("a7", "o7")))
    assert len(enforced) == 1
