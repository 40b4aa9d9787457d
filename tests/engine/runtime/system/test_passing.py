"""Both implementations keep descriptors with their record, and lose none, whichever end is closed."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType

import pytest

from tests.support.other_system import IMPLEMENTATIONS, implementation


@pytest.fixture(params=IMPLEMENTATIONS)
def passing(request: pytest.FixtureRequest) -> ModuleType:
    return implementation("engine.runtime.system.passing", request.param)


@pytest.fixture
def other() -> ModuleType:
    return implementation("engine.runtime.system.passing", "other")


@pytest.fixture
def ends(passing: ModuleType) -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = passing.pair()
    with left, right:
        yield left, right


def pipe_with(data: bytes) -> int:
    """The reading end of a pipe that contains this."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return reader


def content(descriptors: list[int]) -> list[bytes]:
    found: list[bytes] = []
    for each in descriptors:
        assert not os.get_inheritable(each)
        found.append(os.read(each, 9))
        os.close(each)
    return found


def open_count() -> int:
    return len(os.listdir("/proc/self/fd"))


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def test_descriptors_stay_with_their_record(passing: ModuleType, ends: tuple[socket.socket, socket.socket]) -> None:
    left, right = ends
    for record, names in ((b"F", [b"1", b"2"]), (b"W", []), (b"O", [b"3"]), (b"N", [b"4", b"5", b"6"])):
        pipes = list(map(pipe_with, names))
        if pipes:
            passing.send(left, record, pipes)
        else:
            left.send(record)
        for each in pipes:
            os.close(each)
    found = [(record, content(passed)) for record, passed in (passing.receive(right, 3) for _ in range(4))]
    assert found == [(b"F", [b"1", b"2"]), (b"W", []), (b"O", [b"3"]), (b"N", [b"4", b"5", b"6"])]


def test_the_end_comes_after_the_records(passing: ModuleType, ends: tuple[socket.socket, socket.socket]) -> None:
    left, right = ends
    reader = pipe_with(b"x")
    passing.send(left, b"F", [reader])
    os.close(reader)
    left.close()
    record, passed = passing.receive(right, 1)
    assert (record, content(passed)) == (b"F", [b"x"])
    assert passing.receive(right, 1) == (b"", [])


def test_a_missing_receiver_is_an_error_and_leaves_nothing_open(
    passing: ModuleType, ends: tuple[socket.socket, socket.socket]
) -> None:
    left, right = ends
    right.close()
    before = open_count()
    with pytest.raises(BrokenPipeError):
        passing.send(left, b"F", [0])
    assert open_count() == before


def test_nothing_to_receive_and_no_room_are_told(
    passing: ModuleType, ends: tuple[socket.socket, socket.socket]
) -> None:
    left, right = ends
    with pytest.raises(BlockingIOError):
        passing.receive(right, 1, socket.MSG_DONTWAIT)
    left.setblocking(False)
    with suppress(BlockingIOError):
        for _ in range(10_000):
            left.send(b"W")
    with pytest.raises(BlockingIOError):
        passing.send(left, b"F", [0])
    assert passing.receive(right, 1) == (b"W", [])


def test_a_received_socket_works_in_a_forked_process(
    passing: ModuleType, ends: tuple[socket.socket, socket.socket]
) -> None:
    left, right = ends
    ours, theirs = passing.pair()
    with ours:
        passing.send(left, b"F", [theirs.fileno()])
        theirs.close()
        pid = os.fork()
        if pid == 0:
            try:
                _, (descriptor,) = passing.receive(right, 1)
                passing.adopted(descriptor).send(b"x")
            finally:
                os._exit(0)
        right.close()
        assert ours.recv(1) == b"x"
        os.waitpid(pid, 0)
        assert ours.recv(1) == b""


def test_elsewhere_what_is_on_its_way_stays_open_here(other: ModuleType) -> None:
    left, right = other.pair()
    ours, theirs = other.pair()
    with left, right, ours:
        before = open_count()
        other.send(left, b"F", [theirs.fileno()])
        theirs.close()
        assert open_count() == before + 1  # a copy and the reading end of a pipe, without the closed one
        _, (descriptor,) = other.receive(right, 1)
        eventually(lambda: open_count() == before)
        os.close(descriptor)
        assert select.select([ours], [], [], 10)[0]
        assert ours.recv(1) == b""


def test_elsewhere_a_receiver_that_ends_first_leaves_nothing_open(other: ModuleType) -> None:
    left, right = other.pair()
    ours, theirs = other.pair()
    with left, ours:
        other.send(left, b"F", [theirs.fileno()])
        theirs.close()
        right.close()
        assert select.select([ours], [], [], 10)[0]
        assert ours.recv(1) == b""
