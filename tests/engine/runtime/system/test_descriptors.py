"""Both implementations make descriptors that do the same; only Linux names senders and has flags."""

from __future__ import annotations

import fcntl
import os
import select
import socket
from pathlib import Path
from types import ModuleType

import pytest

from engine.runtime.system import descriptors as linux
from tests.support.other_system import IMPLEMENTATIONS, implementation


@pytest.fixture(params=IMPLEMENTATIONS)
def descriptors(request: pytest.FixtureRequest) -> ModuleType:
    return implementation("engine.runtime.system.descriptors", request.param)


@pytest.fixture
def pins(descriptors: ModuleType) -> ModuleType:
    """The pins of the same system."""
    return implementation("engine.files.pins", "linux" if descriptors is linux else "other")


def test_a_memory_file_is_empty_private_and_has_no_path(
    descriptors: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    descriptor = descriptors.memory_file("name")
    try:
        state = os.fstat(descriptor)
        assert (state.st_size, state.st_nlink) == (0, 0)
        assert not os.get_inheritable(descriptor)
        assert os.pwrite(descriptor, b"abc", 0) == 3
        assert os.pread(descriptor, 10, 1) == b"bc"
        os.ftruncate(descriptor, 0)
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(descriptor)


def test_a_memory_file_needs_a_temporary_directory_on_other_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        implementation("engine.runtime.system.descriptors", "other").memory_file("name")


def test_a_memory_file_that_is_opened_again_leaves_nothing(
    descriptors: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    descriptor = descriptors.memory_file("name", again=True)
    os.write(descriptor, b"abc")
    again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    assert os.read(again, 9) == b"abc"
    os.close(again)
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 200)
    os.close(descriptor)
    descriptors.close_memory_file(high)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(high)


def test_a_memory_file_is_known_by_the_path_that_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, descriptors: ModuleType, pins: ModuleType
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "link"))
    opened: list[str] = []
    monkeypatch.setattr(pins, "_open", lambda path, *rest: (opened.append(path), os.open(path, *rest))[1])
    memory, plain = descriptors.memory_file("name", again=True), os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    for each in (memory, plain):
        os.close(pins.opened_again(each, os.O_RDWR))
    assert [descriptors.is_memory_file(path) for path in opened] == [True, False]
    assert not descriptors.is_memory_file(str(tmp_path / "real" / ".name-0123456789abcdef"))
    descriptors.close_memory_file(memory)
    os.close(plain)
    assert not any(map(descriptors.is_memory_file, opened))


def test_all_but_these_are_closed(descriptors: ModuleType) -> None:
    kept, lost = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            descriptors.close_all_but(kept)
            os.fstat(kept)
            is_closed = False
            try:
                os.fstat(lost)
            except OSError:
                is_closed = True
            os._exit(0 if is_closed else 1)
        finally:
            os._exit(2)
    os.close(kept)
    os.close(lost)
    assert os.waitpid(pid, 0)[1] == 0


def test_open_descriptors_are_listed(descriptors: ModuleType) -> None:
    ends = os.pipe()
    assert set(ends) <= set(descriptors.open_descriptors())
    for each in ends:
        os.close(each)
    assert not set(ends) <= set(descriptors.open_descriptors())


def test_the_kernel_names_a_sender_on_linux_alone() -> None:
    for which, sender in (("linux", os.getpid()), ("other", 0)):
        descriptors = implementation("engine.runtime.system.descriptors", which)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            descriptors.name_senders(ours)
            theirs.send(b"x")
            assert descriptors.receive_named(ours) == (b"x", sender)
            with pytest.raises(BlockingIOError):
                descriptors.receive_named(ours, socket.MSG_DONTWAIT)


def test_a_flag_is_readable_once_it_is_set() -> None:
    flag = linux.new_flag()
    assert not select.select([flag], [], [], 0)[0]
    pid = os.fork()
    if pid == 0:
        linux.set_flag(flag)
        os._exit(0)
    assert select.select([flag], [], [], 10)[0]
    os.waitpid(pid, 0)
    os.close(flag)


def test_there_are_no_flags_elsewhere() -> None:
    with pytest.raises(OSError, match="not implemented"):
        implementation("engine.runtime.system.descriptors", "other").new_flag()


def test_a_pipe_takes_more_on_linux() -> None:
    sizes: list[int] = []
    for which in IMPLEMENTATIONS:
        reader, writer = os.pipe()
        before = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
        implementation("engine.runtime.system.descriptors", which).widen(writer, 2 * before)
        sizes.append(fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) // before)
        os.close(reader)
        os.close(writer)
    assert sizes == [2, 1]


def test_the_rest_of_a_file_is_copied(descriptors: ModuleType, tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "from").write_bytes(content)
    with (tmp_path / "from").open("rb", 0) as source, (tmp_path / "to").open("wb", 0) as target:
        source.seek(5)
        descriptors.copy_rest(source.fileno(), target.fileno())
    assert (tmp_path / "to").read_bytes() == content[5:]
