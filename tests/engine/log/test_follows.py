"""What a read model says that it follows: the log tells it of nothing else, and it needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.context.tail.feed import DivergedNodes, LogNews
from engine.context.tail.prompt import Account
from engine.context.tail.sent_prompts import SentProjections
from engine.context.view import ViewFold
from engine.core.ids import BlobDigest, ExecutionId, Seq, StatementId
from engine.log.cycles import CycleFold
from engine.log.event_log import Lookup, lookup_in
from engine.log.events import EVENTS, Event
from engine.log.events.execution import ExecutionStarted
from engine.log.events.nodes import RevisionAdopted
from engine.log.facts import CurrentPlan, Payloads, SessionFacts, Spending
from engine.log.rebuild_plan import History, KeptValues
from engine.log.redaction import Redactor
from engine.log.rights import Domains
from engine.log.store.memory import MemoryStore
from engine.log.timeline import Timeline
from engine.session.guidance import KnownGuidance, KnownSurroundings
from engine.session.policy import Policy
from engine.session.saved_state import Revisions
from engine.session.tools.read import SeenFiles
from tests.support.fixed import FixedClock
from tests.support.rich_log import events_of, rich_items
from tests.support.timelines import timeline_of

IGNORED = ("_at", "at", "_timeline", "_store", "_redactor", "_contents", "_transitions", "_generation")
"""Parts that do not come from the log, and how often it was another one."""


def rich_log() -> list[Event]:
    """A log with every kind of event."""
    log = [
        *events_of(rich_items()),
        ExecutionStarted(execution_id=ExecutionId("x"), statement_id=StatementId("s"), round_id=1000),
        RevisionAdopted(path="a", look=1, state="text", digest="0", content=BlobDigest("b")),
    ]
    return [replace(event, seq=Seq(seq)) for seq, event in enumerate(log)]


AT: Lookup = lookup_in(rich_log())
TIMELINE = timeline_of(rich_log())
OF_A_PATH: tuple[Callable[[], Any], ...] = (
    partial(Timeline, AT), SeenFiles, partial(Account, TIMELINE), partial(CycleFold, AT), Payloads,
    partial(DivergedNodes, TIMELINE), CurrentPlan,
    lambda: Domains(SessionFacts()),
)  # fmt: skip
OF_THE_LOG: tuple[Callable[[], Any], ...] = (
    SessionFacts, Policy, Spending, SentProjections, KeptValues, KnownGuidance, KnownSurroundings,
    lambda: Revisions(MemoryStore(FixedClock()), Redactor([])),
)  # fmt: skip
FOLDS = (*OF_A_PATH, *OF_THE_LOG)


def state(value: object) -> object:
    """What a read model holds, all the way down, as plain values."""
    match value:
        case Mapping():
            return {key: state(each) for key, each in value.items()}
        case set() | frozenset():
            return sorted(map(repr, value))
        case Event() | str() | bytes() | Enum():
            return value
        case Iterable():
            return [state(each) for each in value]
        case _ if type(value).__module__.startswith("engine"):
            names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
            return {
                name: state(getattr(value, name, None))
                for name in (*names, *getattr(value, "__dict__", {}))
                if name not in IGNORED
            }
        case _:
            return value


@pytest.mark.parametrize("make", FOLDS)
def test_read_model_needs_only_the_kinds_it_follows(make: Callable[[], Any]) -> None:
    changing: set[type[Event]] = set()
    log = rich_log()
    fold = make()
    for event in log:
        for each in (fold, make()):  # after all the others, and alone
            before = state(each)
            each.apply(event)
            if state(each) != before:
                changing.add(type(event))
    assert {type(event) for event in log} == set(EVENTS)
    assert changing
    assert changing <= fold.FOLLOWS


@pytest.mark.parametrize("make", [*OF_A_PATH, partial(LogNews, TIMELINE)])
@pytest.mark.parametrize("length", [0, 40, 90, 150])
def test_reset_read_model_equals_a_new_one(make: Callable[[], Any], length: int) -> None:
    log = rich_log()
    reset, fresh = make(), make()
    changed = False
    for event in log:
        reset.apply(event)
        changed = changed or state(reset) != state(fresh)
    assert changed
    reset.reset()
    for event in log[:length]:
        reset.apply(event)
        fresh.apply(event)
    assert state(reset) == state(fresh)


def test_history_of_a_log_equals_an_incremental_one() -> None:
    history, log = History(), rich_log()
    for event in log:
        history.values.apply(event)
        history.apply(event)
    assert state(History.of(log, lambda _: True)) == state(history)
    assert state(History.of(log, lambda _: False)) != state(history)


@pytest.mark.parametrize("length", [0, 40, 90, 150])
def test_reset_view_equals_a_new_one_of_another_generation(length: int) -> None:
    log = rich_log()
    reset, fresh = ViewFold(), ViewFold()
    for event in log:
        reset.apply(event)
    view, before = reset.view, reset.view.generation
    reset.reset()
    assert reset.view is view
    assert view.generation > before
    for event in log[:length]:
        reset.apply(event)
        fresh.apply(event)
    assert reset.warning == fresh.warning
    for reading in ("events", "indices", "batches", "tool_loop_ranges", "unhandled_condensation_request"):
        assert getattr(view, reading) == getattr(fresh.view, reading)
    for open_run in (True, False):
        assert view.enforced(open_run=open_run) == fresh.view.enforced(open_run=open_run)


def test_every_read_model_with_kinds_is_tested() -> None:
    engine = Path(__file__).parents[3] / "engine"
    declared = sum(path.read_text().count("    FOLLOWS: ClassVar") for path in engine.rglob("*.py"))
    assert declared == len(FOLDS)
