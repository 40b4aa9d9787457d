"""Branches: which events are on the path, whatever order branches were made and visited in."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from engine.core.errors import InvalidEventError
from engine.core.ids import MAIN_BRANCH, BranchId, EventId, MessageId, Seq, ToolCallId
from engine.log.branches import Branch, branches_of, path_of
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.going_back import BranchCreated, HeadMoved
from tests.support.fixed import FixedClock

B1, B2 = BranchId("b1"), BranchId("b2")


def message(text: str) -> UserMessage:
    return UserMessage(message_id=MessageId(text), text=text)


def made(branch: BranchId, before: int, parent: BranchId = MAIN_BRANCH) -> BranchCreated:
    return BranchCreated(branch=branch, parent=parent, before=Seq(before))


def moved(branch: BranchId, left: BranchId = MAIN_BRANCH) -> HeadMoved:
    return HeadMoved(branch=branch, left=left, statement=0)


def log_of(*events: Event) -> EventLog:
    log = EventLog(FixedClock(), lambda _: None)
    for event in events:
        log.append(event)
    return log


def texts(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, UserMessage))


def test_branch_shares_its_parents_path_before_it() -> None:
    log = log_of(message("a"), message("b"), message("c"), made(B1, 2))
    assert texts(log.path) == "abc"
    log.append(moved(B1))
    log.append(message("d"))
    assert texts(log.path) == "abd"
    assert [event.branch_id for event in log.events[3:]] == ["main", "b1", "b1"]
    log.append(moved(MAIN_BRANCH, B1))
    log.append(message("e"))
    assert texts(log.path) == "abce"
    assert texts(log.events) == "abcde"


def test_branch_from_before_its_parent_shares_nothing_with_it() -> None:
    log = log_of(message("a"), message("b"), made(B1, 2), moved(B1), message("c"), made(B2, 1, B1), moved(B2, B1))
    assert texts(log.path) == "a"
    assert log.branches.all == (Branch(MAIN_BRANCH), Branch(B1, MAIN_BRANCH, Seq(2)), Branch(B2, B1, Seq(1)))
    assert log.branches.next_name == "b3"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (made(MAIN_BRANCH, 0), "there is a branch main already"),
        (made(B1, 0, B2), "there is no branch b2"),
        (made(B1, -1), "no branch can begin at -1"),
        (moved(B1), "there is no branch b1"),
        (moved(MAIN_BRANCH), "branch main is active already"),
    ],
)
def test_what_names_no_path_is_refused(event: Event, reason: str) -> None:
    log = log_of(message("a"))
    with pytest.raises(InvalidEventError, match=reason):
        log.append(event)
    assert len(log) == 1
    assert log.branches.active == MAIN_BRANCH


def test_call_is_open_on_branches_without_its_result() -> None:
    call, answered = (
        ToolCall(tool_call_id=ToolCallId("c"), tool="t"),
        ToolResult(tool_call_id=ToolCallId("c"), status="ok", text=""),
    )
    log = log_of(message("a"), call, answered, made(B1, 2), moved(B1))
    assert [each.tool_call_id for each in log.open_calls] == ["c"]
    with pytest.raises(InvalidEventError, match="is on the log already"):
        log.append(call)
    log.append(answered)
    assert not log.open_calls
    log.append(made(B2, 1))
    log.append(moved(B2, B1))
    with pytest.raises(InvalidEventError, match="not on this branch"):
        log.append(answered)


def test_undeclared_branch_continues_the_active_one() -> None:
    events = [
        UserMessage(
            seq=Seq(seq), event_id=EventId(f"e{seq}"), branch_id=BranchId(name), message_id=MessageId(name), text=name
        )
        for seq, name in enumerate("xxyx")
    ]
    assert texts(path_of(events[:3])) == "xxy"
    assert texts(path_of(events)) == "xxx"


class Told:
    """A read model that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.resets = 0

    def apply(self, event: Event) -> None:
        self.events.append(event)

    def reset(self) -> None:
        self.events.clear()
        self.resets += 1


def walk(random: Random, steps: int) -> tuple[EventLog, Told, list[Event], dict[BranchId, list[int]]]:
    """A log with branches made and visited at random, who followed its path, all of it, and each branch's path."""
    log, told, everything = EventLog(FixedClock(), lambda _: None), Told(), list[Event]()
    log.follow_path(told)
    log.follow(everything.append)
    paths: dict[BranchId, list[int]] = {MAIN_BRANCH: []}
    for _ in range(steps):
        active = log.branches.active
        match random.choice(("append", "append", "make", "move")):
            case "make":
                parent, name = random.choice(list(paths)), log.branches.next_name
                before = random.randrange(len(log) + 1)
                paths[active].append(log.append(made(name, before, parent)))
                paths[name] = [seq for seq in paths[parent] if seq < before]
            case "move" if len(paths) > 1:
                other = random.choice([name for name in paths if name != active])
                paths[other].append(log.append(moved(other, active)))
            case _:
                paths[active].append(log.append(message("m")))
        assert [event.seq for event in told.events] == paths[log.branches.active]
    return log, told, everything, paths


@pytest.mark.parametrize("seed", range(20))
def test_every_path_is_shared_then_own_events(seed: int) -> None:
    log, told, everything, paths = walk(Random(seed), 80)
    assert [event.seq for event in everything] == list(range(len(log)))
    for name, path in paths.items():
        assert [event.seq for event in log.branches.path(log.events, name)] == path
    assert branches_of(log.events).all == log.branches.all
    assert tuple(path_of(log.events)) == log.path == tuple(told.events)
    assert all(log.branches.holds(event) == (event.seq in paths[log.branches.active]) for event in log.events)


@pytest.mark.parametrize("seed", range(5))
def test_loaded_log_tells_its_last_path_once(seed: int) -> None:
    log, _, _, _ = walk(Random(seed), 80)
    again, told, everything = EventLog(FixedClock(), lambda _: None), Told(), list[Event]()
    again.follow_path(told, (UserMessage,))
    again.follow(everything.append, (BranchCreated, UserMessage))
    again.load(log.events)
    assert told.events == [event for event in log.path if isinstance(event, UserMessage)]
    assert told.resets == 0
    assert everything == [event for event in log.events if not isinstance(event, HeadMoved)]
    again.append(RunStop(reason="completed", cause="end_turn"))
    assert again.path[:-1] == log.path
    late = Told()
    again.follow_path(late)
    assert tuple(late.events) == again.path
