"""What `worker.interrupts.Interrupts` promises, by signal and by thread: once in a statement, within user code alone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from engine.environment.thread_interrupts import ThreadInterrupts
from engine.worker.interrupts import Interrupts, SignalInterrupts

Pair = tuple[Interrupts, Callable[[], None]]


def by_signal() -> Pair:
    return SignalInterrupts(), lambda: os.kill(os.getpid(), signal.SIGINT)


def by_thread() -> Pair:
    interrupts = ThreadInterrupts()

    def send() -> None:
        other = threading.Thread(target=interrupts.interrupt)
        other.start()
        other.join()

    return interrupts, send


@pytest.fixture(params=[by_signal, by_thread])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Interrupts that were installed, and what sends one."""
    before = signal.getsignal(signal.SIGINT)
    interrupts, send = request.param()
    interrupts.install()
    try:
        yield interrupts, send
    finally:
        signal.signal(signal.SIGINT, before)


def test_one_within_user_code_is_raised_there_and_a_second_is_ignored(pair: Pair) -> None:
    interrupts, send = pair
    with pytest.raises(KeyboardInterrupt), interrupts.armed():
        send()
        for _ in range(10_000):
            pass
        raise AssertionError
    send()
    with interrupts.armed():
        send()


def test_one_outside_of_user_code_is_raised_when_that_begins(pair: Pair) -> None:
    interrupts, send = pair
    send()
    with pytest.raises(KeyboardInterrupt), interrupts.armed():
        raise AssertionError
    with interrupts.armed():
        pass


def test_one_during_what_must_not_be_torn_is_raised_after_it(pair: Pair) -> None:
    interrupts, send = pair
    whole = False
    with pytest.raises(KeyboardInterrupt), interrupts.armed():
        with interrupts.held():
            send()
            whole = True
        raise AssertionError
    assert whole


def test_one_that_came_too_late_is_forgotten(pair: Pair) -> None:
    interrupts, send = pair
    send()
    interrupts.forget()
    interrupts.install()
    with interrupts.armed():
        pass


def test_one_that_comes_before_its_statement_is_installed_is_remembered(pair: Pair) -> None:
    interrupts, send = pair
    send()
    with pytest.raises(KeyboardInterrupt), interrupts.armed():
        raise AssertionError
    interrupts.forget()
    send()
    interrupts.install()
    with pytest.raises(KeyboardInterrupt), interrupts.armed():
        raise AssertionError


def test_a_pause_in_another_thread_holds_nothing_up(pair: Pair) -> None:
    interrupts, send = pair
    paused: list[bool] = []

    def pause() -> None:
        with interrupts.held():
            paused.append(True)

    with pytest.raises(KeyboardInterrupt), interrupts.armed():
        other = threading.Thread(target=pause)
        other.start()
        other.join()
        send()
        for _ in range(10_000):
            pass
    assert paused == [True]
