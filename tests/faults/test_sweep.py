"""The points of a sweep, what it leaves out of the story, and a short sweep of real programs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.filesystem import why_not
from tests.faults.judge import Message
from tests.faults.power import Loss, Recording
from tests.faults.sweep import SCENARIO, Point, lose, measured, points, rounds_of, sweep
from tests.faults.world import Told, World, updates_of


def test_points_are_spread_over_each_act() -> None:
    found = points("kill", 10 * 3 * 15, seed=1)
    times = Counter((point.act, point.what) for point in found)
    assert {act for act, _ in times} == set(SCENARIO)
    keeper = [point.progress for point in found if (point.act, point.what) == ("fork", "keeper")]
    assert len({int(progress * len(keeper)) for progress in keeper}) == len(keeper) > 1
    assert points("kill", 30, seed=1) == points("kill", 30, seed=1) != points("kill", 30, seed=2)


def test_rounds_take_the_kinds_in_turn() -> None:
    rounds = rounds_of(("disk", "kill"), 40, seed=1)
    assert [kind for kind, _ in rounds[:3]] == ["disk", "kill", "disk"]
    assert Counter(kind for kind, each in rounds for _ in each) == {"disk": 40, "kill": 40}


def test_progress_of_statements_that_run_again_is_not_part_of_the_story() -> None:
    def update(call: str, **fields: str) -> Message:
        params = {"sessionId": "ses", "update": {"sessionUpdate": "tool_call", "toolCallId": call, **fields}}
        return {"method": "session/update", "params": params}

    messages = [
        update("call_1", title="Run statement 1 again (1 of 9)", status="in_progress"),
        update("call_1", status="completed"),
        update("call_2", title="Run statement 1", status="completed"),
    ]
    assert [each["toolCallId"] for each in updates_of("ses", messages)] == ["call_2"]


def chunk(message: str) -> Message:
    return {"sessionUpdate": "agent_message_chunk", "messageId": message}


def test_only_the_message_that_was_arriving_may_be_lost(tmp_path: Path) -> None:
    world = World(tmp_path, random.Random(0), None)
    shown = [chunk("msg_1"), chunk("msg_2")]
    assert world.without_lost(shown, []) == shown
    later = [*shown, chunk("msg_3")]
    assert world.without_lost(later, [{"message_id": "msg_3"}]) == [chunk("msg_1"), chunk("msg_3")]


def test_a_power_loss_has_not_taken_what_a_kill_before_had_cut_off() -> None:
    def told(count: int, message: str) -> Told:
        params = {"sessionId": "ses", "update": chunk(message)}
        return Told(count, {"method": "session/update", "params": params})

    all_told = [told(1, "msg_1"), told(2, "msg_2"), told(3, "msg_3"), told(9, "msg_4")]
    recording = Recording([], all_told, [], [], 0, "ses", frozenset({"msg_2"}))
    assert recording.shown_before(Loss(5, "ext4", 0)) == [chunk("msg_1"), chunk("msg_3")]


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    if reason := why_not():
        pytest.skip(reason)
    return measured(tmp_path_factory.mktemp("measured"))


@pytest.mark.slow
def test_session_survives_one_fault_of_each_kind(tmp_path: Path, sizes: dict[str, int]) -> None:
    faults = [Point("new", "host", 0.5), Point("rewind", "fail ENOSPC", 0.5), Point("own", "_half", 0.5)]
    result = sweep(tmp_path, "disk", 1, sizes, faults)
    assert result.wrong == []
    assert (result.counts.kills, result.counts.failed_operations, result.counts.wire) == (1, 1, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("sizes")
def test_confirmed_writes_survive_failures_and_power_losses(tmp_path: Path) -> None:
    result = sweep(tmp_path / "files", "files", 1, {}, [Point("all", "fail EIO", 0.1)])
    assert result.wrong == []
    assert result.counts.failed_operations > 1
    result = lose(tmp_path / "power", 1, [Point("all", "posix", 0.4), Point("all", "ext4", 0.9)])
    assert result.wrong == []
    assert result.counts.power_losses == 2
