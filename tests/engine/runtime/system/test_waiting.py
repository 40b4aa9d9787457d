"""Both implementations of a poller have the same behavior."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Generator
from types import ModuleType
from typing import Any

import pytest

from tests.support.other_system import IMPLEMENTATIONS, implementation


@pytest.fixture(params=IMPLEMENTATIONS)
def waiting(request: pytest.FixtureRequest) -> ModuleType:
    return implementation("engine.runtime.system.waiting", request.param)


@pytest.fixture
def poller(waiting: ModuleType) -> Generator[Any]:
    poller = waiting.Poller()
    yield poller
    poller.close()


@pytest.fixture
def pair() -> Generator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        yield left, right


def _is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_reports_data_until_it_is_read(
    waiting: ModuleType, poller: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), waiting.READABLE)
    assert poller.poll(0) == []
    theirs.send(b"x")
    for _ in range(2):
        [(descriptor, events)] = poller.poll()
        assert descriptor == ours.fileno()
        assert events & ~waiting.WRITABLE
    ours.recv(1)
    assert poller.poll(0) == []


def test_an_end_is_readable(waiting: ModuleType, poller: Any, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), waiting.READABLE)
    theirs.close()
    [(_, events)] = poller.poll(0)
    assert events & ~waiting.WRITABLE


def test_room_is_reported_while_it_is_asked_for(
    waiting: ModuleType, poller: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), waiting.READABLE)
    poller.modify(ours.fileno(), waiting.READABLE | waiting.WRITABLE)
    [(_, events)] = poller.poll(0)
    assert events == waiting.WRITABLE
    theirs.send(b"x")
    [(_, events)] = poller.poll(0)
    assert events == waiting.READABLE | waiting.WRITABLE
    poller.modify(ours.fileno(), waiting.READABLE)
    ours.recv(1)
    assert poller.poll(0) == []


def test_one_descriptor_at_a_time(waiting: ModuleType, poller: Any) -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    for ours, theirs in pairs:
        poller.register(ours.fileno(), waiting.READABLE)
        theirs.send(b"x")
    seen: set[int] = set()
    for _ in pairs:
        [(descriptor, _)] = poller.poll(0, 1)
        seen.add(descriptor)
        os.read(descriptor, 1)
    assert seen == {ours.fileno() for ours, _ in pairs}
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


def test_its_descriptor_is_readable_while_one_is_ready(
    waiting: ModuleType, poller: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), waiting.READABLE)
    assert not _is_readable(poller.fileno())
    theirs.send(b"x")
    assert _is_readable(poller.fileno())
    ours.recv(1)
    assert not _is_readable(poller.fileno())


def test_forgets_what_was_taken_out(
    waiting: ModuleType, poller: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    poller.register(ours.fileno(), waiting.READABLE)
    theirs.send(b"x")
    poller.unregister(ours.fileno())
    assert poller.poll(0) == []
    with pytest.raises(FileNotFoundError):
        poller.unregister(ours.fileno())
    poller.register(ours.fileno(), waiting.READABLE)
    assert len(poller.poll(0)) == 1


def test_forgets_closed_descriptors(waiting: ModuleType, poller: Any) -> None:
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    poller.register(number, waiting.READABLE)
    theirs.send(b"x")
    ours.close()
    theirs.close()
    assert poller.poll(0) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        poller.unregister(number)
    reader, writer = os.pipe()
    if reader != number:
        os.dup2(reader, number)
    poller.register(number, waiting.READABLE)
    os.write(writer, b"x")
    assert [descriptor for descriptor, _ in poller.poll(0)] == [number]
    for each in {reader, writer, number}:
        os.close(each)
