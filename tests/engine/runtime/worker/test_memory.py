"""The size of a scratch directory, and its watch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.core.domain import Domain
from engine.runtime.worker.processes import memory
from engine.runtime.worker.processes.memory import Watch, held

MUCH = 1 << 40
BOUND = 1 << 20


def test_files_of_all_folders_count_and_what_a_link_leads_to_does_not(tmp_path: Path) -> None:
    (tmp_path / "in/side").mkdir(parents=True)
    (tmp_path / "in/side/file").write_bytes(os.urandom(1 << 20))
    (tmp_path / "loop").symlink_to(tmp_path)
    assert 1 << 20 <= held(str(tmp_path), MUCH) <= (1 << 20) + (64 << 10)


def test_a_file_with_holes_counts_what_it_takes_and_an_empty_one_a_block(tmp_path: Path) -> None:
    (tmp_path / "holes").touch()
    os.truncate(tmp_path / "holes", 1 << 30)
    (tmp_path / "empty").touch()
    assert held(str(tmp_path), MUCH) == 2 * 4096


def test_the_count_ends_where_it_is_enough(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).touch()
    assert held(str(tmp_path), 4 * 4096) == 5 * 4096


def test_a_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert held(str(tmp_path / "nowhere"), MUCH) == 0


@pytest.mark.parametrize("enough", [1 << 30, MUCH])
def test_what_is_deeper_than_a_path_can_be_long_is_too_much(tmp_path: Path, enough: int) -> None:
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=place)
        inner = os.open("x" * 200, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    assert held(str(tmp_path), enough) > enough


@contextmanager
def process(*command: str) -> Generator[int]:
    """A process that a statement could be of, with a child if the command starts one."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        try:
            yield started.pid
        finally:
            subprocess.run(["pkill", "-KILL", "-P", str(started.pid)], check=False)
            started.kill()


ALONE = ("sh", "-c", "echo; exec sleep 60")
PARENT = ("sh", "-c", "sleep 60 & echo; wait")


def found(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a look now blames somebody."""
    monkeypatch.setattr(watch, "_next_look", 0.0)
    return bool(watch.look())


@pytest.mark.parametrize("before", [BOUND, 3 * BOUND])
def test_who_begins_near_or_above_the_bound_is_ended_for_real_growth_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    (tmp_path / "before").write_bytes(os.urandom(before))
    monkeypatch.setattr(memory, "LOOK_SECONDS", 0.0)  # the statement begins now
    watch = Watch()
    with process(*ALONE) as pid:
        watch.begin(pid, MUCH, "the statement", Domain(scratch=str(tmp_path), scratch_bytes=BOUND))
        (tmp_path / "cache").touch()  # as Python writes one
        assert not found(watch, monkeypatch)
        (tmp_path / "more").write_bytes(os.urandom(BOUND // 4))
        assert found(watch, monkeypatch)
        (tmp_path / "before").unlink()
        assert not found(watch, monkeypatch)


@pytest.mark.parametrize("command", [ALONE, PARENT], ids=["alone", "leaves a child"])
def test_what_a_statement_left_in_it_is_not_the_fault_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    domain = Domain(scratch=str(tmp_path), scratch_bytes=BOUND)
    watch = Watch()
    with process(*command) as pid:
        watch.begin(pid, MUCH, "the statement", domain)
        assert not found(watch, monkeypatch)
        (tmp_path / "much").write_bytes(os.urandom(3 * BOUND))
        watch.rest(pid, MUCH, domain)  # before the next look
        assert not found(watch, monkeypatch)
        monkeypatch.setattr(memory, "LOOK_SECONDS", 0.0)  # the statement begins now
        watch.begin(pid, MUCH, "the statement", domain)
        assert not found(watch, monkeypatch)


def test_what_a_statement_writes_before_it_is_watched_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LOOK_SECONDS", 60.0)  # since the statement began
    (tmp_path / "much").write_bytes(os.urandom(3 * BOUND))
    watch = Watch()
    with process(*ALONE) as pid:
        watch.begin(pid, MUCH, "the statement", Domain(scratch=str(tmp_path), scratch_bytes=BOUND))
        assert found(watch, monkeypatch)


def test_what_a_child_that_was_left_writes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain(scratch=str(tmp_path), scratch_bytes=BOUND)
    watch = Watch()
    with process(*PARENT) as pid:
        watch.rest(pid, MUCH, domain)
        (tmp_path / "much").write_bytes(os.urandom(3 * BOUND))
        assert found(watch, monkeypatch)


def test_a_directory_that_is_too_deep_to_be_counted_has_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=place)
        inner = os.open("x" * 200, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    watch = Watch()
    with process(*ALONE) as pid:
        watch.begin(pid, MUCH, "the statement", Domain(scratch=str(tmp_path), scratch_bytes=BOUND))
        assert found(watch, monkeypatch)
