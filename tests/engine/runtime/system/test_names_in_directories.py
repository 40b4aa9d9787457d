"""Both implementations rename without replacing, and know when an entry was made."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.other_system import IMPLEMENTATIONS, implementation


@pytest.fixture(params=IMPLEMENTATIONS)
def names(request: pytest.FixtureRequest) -> ModuleType:
    return implementation("engine.runtime.system.names", request.param)


def renamed(names: ModuleType, folder: Path) -> bool:
    directory = os.open(folder, os.O_RDONLY)
    try:
        return names.rename_to_nothing(directory, "from", "to")
    finally:
        os.close(directory)


def test_a_file_gets_a_name_that_is_free(names: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "from").write_text("1")
    assert renamed(names, tmp_path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"to": "1"}


def test_a_name_that_is_taken_stays(names: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "from").write_text("1")
    (tmp_path / "to").write_text("2")
    with pytest.raises(FileExistsError):
        renamed(names, tmp_path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"from": "1", "to": "2"}


def test_a_missing_source_is_told(names: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        renamed(names, tmp_path)


def test_a_birth_is_known_and_not_that_of_a_link_target(names: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    os.utime(path, (1, 1))
    birth = names.birth_of(str(path))
    if not birth:
        pytest.skip("this file system keeps no times of birth")
    assert abs(birth - time.time_ns()) < 60 * 10**9
    time.sleep(0.03)
    (tmp_path / "link").symlink_to(path)
    assert names.birth_of(str(tmp_path / "link")) > birth
    assert names.birth_of(str(tmp_path / "gone")) == 0


def test_without_the_call_the_caller_must_rename(
    names: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {"_RENAMEAT2", "_RENAMEATX"} & vars(names).keys():
        monkeypatch.setattr(names, name, None)
    (tmp_path / "from").write_text("1")
    assert not renamed(names, tmp_path)
    assert (tmp_path / "from").exists()
