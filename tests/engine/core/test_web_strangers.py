"""Which connections have to leave while others flood a server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core import web_access
from engine.core.web_access import STRANGER_SECONDS, Strangers


class Timers:
    """Timers that run when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        assert seconds == STRANGER_SECONDS
        self.waiting.append(Timer(self, call))
        return self.waiting[-1]

    def run(self) -> None:
        for timer in list(self.waiting):
            timer.call()


class Timer:
    def __init__(self, timers: Timers, call: Callable[[], None]) -> None:
        self._timers = timers
        self.call = call

    def cancel(self) -> None:
        self._timers.waiting.remove(self)


def test_the_oldest_stranger_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_access, "MOST_STRANGERS", 2)
    strangers, timers, left = Strangers(), Timers(), list[str]()
    for name in ("known", "first", "second", "third", "fourth"):
        strangers.arrived(name, lambda name=name: left.append(name), timers.call_later)
        if name == "known":
            strangers.forget(name)
    assert left == ["first", "second"]
    assert len(timers.waiting) == 2


def test_a_stranger_has_limited_time() -> None:
    strangers, timers, left = Strangers(), Timers(), list[str]()
    for name in ("known", "silent"):
        strangers.arrived(name, lambda name=name: left.append(name), timers.call_later)
    strangers.forget("known")
    timers.run()
    assert left == ["silent"]
