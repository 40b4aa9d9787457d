"""The file of keys: what it holds, who may read it, and what is left of it by a failure."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from engine.core.errors import InvalidRequestError
from engine.core.key_file import (
    FileValues,
    StoredKeys,
    change_keys,
    file_values,
    key_path,
    mark_of,
    read_keys,
    warning_about,
)

KEY = "sk-of-the-file-0123456789"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def test_file_of_its_owner_keeps_keys(home: dict[str, str]) -> None:
    assert read_keys(home) == StoredKeys()
    assert mark_of(home) is None
    change_keys(home, lambda _: StoredKeys({"openai": KEY}, ("anthropic",)))
    assert read_keys(home) == StoredKeys({"openai": KEY}, ("anthropic",))
    assert file_values(home) == (KEY,)
    path = key_path(home)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert warning_about(home) == ""


def test_mark_changes_with_each_change(home: dict[str, str]) -> None:
    values = FileValues(home)
    marks = [values.mark()]
    for change in (
        lambda: change_keys(home, lambda _: StoredKeys({"openai": KEY})),
        lambda: change_keys(home, lambda _: StoredKeys({"openai": KEY[::-1]})),
        lambda: os.utime(key_path(home), ns=(1, 1)),
        lambda: key_path(home).chmod(0o400),
        lambda: key_path(home).unlink(),
    ):
        time.sleep(0.01)  # times of files are not exact
        change()
        marks.append(values.mark())
    assert all(before != after for before, after in pairwise(marks)), marks
    assert marks[0] is marks[-1] is None


def test_file_that_others_may_read_is_reported(home: dict[str, str]) -> None:
    change_keys(home, lambda _: StoredKeys({"openai": KEY}))
    key_path(home).chmod(0o644)
    assert f"chmod 600 {key_path(home)}" in warning_about(home)
    change_keys(home, lambda stored: stored)
    assert warning_about(home) == ""


@pytest.mark.parametrize("content", [b"not json", b'{"keys": ["a"]}', b"\xff\xfe", b"[" * 100_000, b""])
def test_invalid_file_is_named_and_stays(home: dict[str, str], content: bytes) -> None:
    path = key_path(home)
    path.parent.mkdir(parents=True)
    path.write_bytes(content + KEY.encode())
    for use in (lambda: read_keys(home), lambda: change_keys(home, lambda _: StoredKeys())):
        with pytest.raises(InvalidRequestError, match="repair or remove") as raised:
            use()
        assert KEY not in str(raised.value)
    assert file_values(home) == ()
    assert path.read_bytes() == content + KEY.encode()


def test_pipe_or_directory_is_refused_at_once(home: dict[str, str]) -> None:
    path = key_path(home)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(InvalidRequestError, match="not a regular file"):
        read_keys(home)
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        read_keys(home)


def test_full_disk_leaves_the_file_unchanged(home: dict[str, str]) -> None:
    change_keys(home, lambda _: StoredKeys({"openai": KEY}))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(InvalidRequestError, match="cannot be written"):
            change_keys(home, lambda _: StoredKeys({"openai": KEY * 10}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert read_keys(home) == StoredKeys({"openai": KEY})
    assert {each.name for each in key_path(home).parent.iterdir()} == {"keys.json", ".keys.json.lock"}


_ADDING = """
import sys, time
from msgspec.structs import replace
from engine.core.key_file import change_keys
def change(stored):
    time.sleep(0.3)
    return replace(stored, keys={**stored.keys, sys.argv[2]: "k"})
change_keys({"HOME": sys.argv[1]}, change)
"""


def test_two_changes_at_once_both_last(home: dict[str, str]) -> None:
    commands = [[sys.executable, "-c", _ADDING, home["HOME"], name] for name in ("openai", "google")]
    started = [subprocess.Popen(command, cwd=Path(__file__).parents[3]) for command in commands]
    assert [process.wait(60) for process in started] == [0, 0]
    assert read_keys(home).keys == {"openai": "k", "google": "k"}
