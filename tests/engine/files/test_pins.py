"""Both implementations of pins have the same behavior."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.other_system import IMPLEMENTATIONS, implementation


@pytest.fixture(params=IMPLEMENTATIONS)
def pins(request: pytest.FixtureRequest) -> ModuleType:
    return implementation("engine.files.pins", request.param)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    return file


@pytest.fixture
def pin(pins: ModuleType, file: Path) -> Generator[int]:
    descriptor = os.open(file, pins.PIN | os.O_CLOEXEC)
    yield descriptor
    os.close(descriptor)


def test_a_pin_tells_where_the_file_is(pins: ModuleType, file: Path, pin: int) -> None:
    assert pins.path_of(pin) == str(file)
    file.rename(file.with_name("moved"))
    assert pins.path_of(pin) == str(file.with_name("moved"))


def test_a_pinned_file_is_opened_wherever_it_is(pins: ModuleType, file: Path, pin: int) -> None:
    file.rename(file.with_name("moved"))
    file.write_bytes(b"another")
    descriptor = pins.opened_again(pin, os.O_RDONLY)
    assert os.read(descriptor, 100) == b"content"
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_opening_again_has_its_own_position_and_flags(pins: ModuleType, pin: int) -> None:
    reader, writer = pins.opened_again(pin, os.O_RDONLY), pins.opened_again(pin, os.O_RDWR | os.O_TRUNC)
    os.write(writer, b"new")
    assert os.read(reader, 100) == b"new"
    again = pins.opened_again(reader, os.O_RDONLY)
    assert os.read(again, 100) == b"new"
    for each in (reader, writer, again):
        os.close(each)


def test_a_pipe_does_not_block(pins: ModuleType, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", pins.PIN)
    assert stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    os.close(descriptor)


def test_an_open_file_is_pinned_again(pins: ModuleType, file: Path) -> None:
    with file.open("rb") as opened:
        again = pins.pinned_again(opened.fileno())
    assert pins.path_of(again) == str(file)
    os.close(again)


def test_rights_modes_and_times(pins: ModuleType, file: Path, pin: int) -> None:
    pins.set_mode(pin, 0o640)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert pins.may(pin, os.R_OK | os.W_OK)
    assert not pins.may(pin, os.X_OK)
    pins.set_times(pin, (10**18, 2 * 10**18))
    assert (file.stat().st_atime_ns, file.stat().st_mtime_ns) == (10**18, 2 * 10**18)
    pins.set_times(pin, None)
    assert file.stat().st_mtime_ns != 2 * 10**18


def test_a_file_that_took_the_place_is_neither_opened_nor_emptied(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pins = implementation("engine.files.pins", "other")
    pin = os.open(file, pins.PIN)
    other = file.with_name("other")
    other.write_bytes(b"precious")
    monkeypatch.setattr(pins, "path_of", lambda _: str(other))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="replaced"):
        pins.opened_again(pin, os.O_RDWR | os.O_TRUNC)
    assert other.read_bytes() == b"precious"
    assert os.listdir("/proc/self/fd") == before
    os.close(pin)


def test_files_without_a_name_are_made_on_linux_alone() -> None:
    flags = os.O_TMPFILE | os.O_RDWR
    assert implementation("engine.files.pins", "linux").is_nameless(flags)
    assert not implementation("engine.files.pins", "linux").is_nameless(os.O_DIRECTORY)
    assert not implementation("engine.files.pins", "other").is_nameless(flags)
