"""Faults that the random sessions found, each at its moment."""

from __future__ import annotations

import itertools
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.faults.disk import PROFILES, after_power_loss
from tests.faults.filesystem import Fault
from tests.faults.world import SECONDS, Act, World, opened
from tests.support.scripts import family


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    try:
        with opened(tmp_path, random.Random(0)) as made:
            yield made
    except OSError as error:
        pytest.skip(f"no file system can be mounted here: {error}")


def test_file_that_a_killed_statement_left_alone_is_as_soft_as_before() -> None:
    act = Act("", steps=({"a": b"1"}, {"b": b"1"}, {"c": None}))
    assert act.written({"a": b"1", "b": b"0", "c": b"0"}) == {"a"}
    assert act.written({"a": b"1", "b": b"1"}) == {"a", "b", "c"}


def project(world: World) -> dict[str, bytes]:
    return {path: data for path, data in world.files().items() if path != ".gitignore"}


def kill_when_a_name_has_changed(world: World, source: str) -> None:
    assert world.disk is not None
    assert world.perform(Act("r = read('a.txt')")) == []
    world.disk.arm(Fault("announce", 1, ("name",), below="/project"))
    request = world.start(Act(source))
    assert world.disk.reached(SECONDS)
    everybody = family(psutil.Process(world.agent.process.pid))
    world.agent.process.send_signal(signal.SIGKILL)
    world.disk.go()
    assert world.end(everybody, is_orderly=False) == []
    assert request not in [message.get("id") for message in world.agent.received]


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("w = write('b.txt', 'new')", {"a.txt": b"first\n", "b.txt": b"new"}),
        ("w = edit('a.txt', 'first', 'second')", {"a.txt": b"second\n"}),
        ("import os; os.remove('a.txt')", {}),
    ],
)
def test_rewind_knows_the_change_of_a_tool_that_was_killed(world: World, source: str, files: dict[str, bytes]) -> None:
    """The host dies when the name has changed, and before the change is on the log."""
    kill_when_a_name_has_changed(world, source)
    assert world.restart() == []
    assert project(world) == files
    assert world.wait(world.start(Act("/rewind 1", "rewind", target=1))).reason == "end_turn"
    assert project(world) == {"a.txt": b"first\n"}
    assert world.end() == []


def test_what_a_load_finds_of_a_killed_tool_survives_a_power_loss(world: World, tmp_path: Path) -> None:
    """The host dies between the rename and the fsync of the directory; then the power fails after the load."""
    kill_when_a_name_has_changed(world, "w = write('b.txt', 'new')")
    assert world.restart() == []
    operations = world.record(tmp_path / "operations")
    assert world.end() == []
    for seed, profile in itertools.product(range(20), PROFILES):
        saved = tmp_path / f"{profile}{seed}"
        saved.mkdir()
        after_power_loss(operations, profile, seed, world.settled).save(saved)
        assert (saved / "project" / "b.txt").read_bytes() == b"new", profile
