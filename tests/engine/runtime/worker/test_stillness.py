"""Threads that cannot be stopped in time are still released, however often the others are."""

from __future__ import annotations

import select
import socket

import pytest

from engine.runtime.worker.forking import realm

THREAD = 4_194_304
"""No thread has that id."""


def test_a_thread_that_stops_late_is_released_after_the_host_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[int] = []
    running = {THREAD}

    def set_free(thread: int, _pending: int) -> None:
        if thread in running:
            raise OSError
        released.append(thread)

    def hold(still: realm.Stillness) -> bool:
        still._held[THREAD] = 0  # pyright: ignore[reportPrivateUsage]
        return False

    monkeypatch.setattr(realm, "set_free", set_free)
    monkeypatch.setattr(realm, "_state", lambda _: b"R")
    monkeypatch.setattr(realm.Stillness, "_hold", hold)
    with select.epoll() as poll:
        still = realm.Stillness(poll)
        ours, theirs = socket.socketpair()
        with ours:
            descriptor = theirs.detach()
            still.begin(descriptor)
            assert ours.recv(100) == realm.NOT_STILL
        still.end(descriptor)
        assert still.has_late
        running.clear()
        still.free_late()
    assert released == [THREAD]
    assert not still.has_late
