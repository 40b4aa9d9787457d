"""What is counted of a scratch directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.worker.processes.scratch_size import held

MUCH = 1 << 40


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
