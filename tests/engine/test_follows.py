"""What a read model says that it follows: the log tells it of nothing else, and it needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from engine.cycles import CycleFold
from engine.events import EVENTS, Event
from engine.events.execution import ExecutionStarted
from engine.events.nodes import RevisionAdopted
from engine.ids import BlobDigest, ExecutionId, StatementId
from engine.projection.account import Account
from engine.projection.sent import SentProjections
from engine.redaction import Redactor
from engine.sessions.policy import Policy
from engine.sessions.revisions import Revisions
from engine.store.memory import MemoryStore
from engine.timeline.index import Timeline
from engine.timeline.payloads import Payloads
from engine.timeline.replay import History
from engine.timeline.rounds import Rounds
from engine.timeline.server_modules import ServerModules
from engine.tools.seen import Seen
from tests.support.fixed import FixedClock
from tests.support.rich_log import events_of, rich_items

FOLDS: tuple[Callable[[], Any], ...] = (
    Timeline, Rounds, Policy, Seen, History, SentProjections, Account, CycleFold, Payloads, ServerModules,
    lambda: Revisions(MemoryStore(FixedClock()), Redactor([])),
)  # fmt: skip
IGNORED = ("_store", "_redactor", "_contents", "_transitions")
"""Parts that do not come from the log."""


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
def test_a_read_model_is_the_same_without_what_it_does_not_follow(make: Callable[[], Any]) -> None:
    changing: set[type[Event]] = set()
    log = [
        *events_of(rich_items()),
        ExecutionStarted(execution_id=ExecutionId("x"), statement_id=StatementId("s"), round_id=1000),
        RevisionAdopted(path="a", look=1, state="text", digest="0", content=BlobDigest("b")),
    ]
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


def test_every_read_model_that_says_what_it_follows_is_looked_at() -> None:
    engine = Path(__file__).parents[2] / "engine"
    declared = [path for path in engine.rglob("*.py") if "    FOLLOWS: ClassVar" in path.read_text()]
    assert len(declared) == len(FOLDS)
