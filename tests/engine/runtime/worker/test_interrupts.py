"""Interrupts reach user code alone, once in a statement."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from engine.runtime.worker.interrupts import Interrupts, SignalInterrupts, StatementCancelled, StatementTimeout
from engine.runtime.worker.protocol import Stopping
from tests.support.in_process import ThreadInterrupts

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


def interrupted(interrupts: Interrupts, act: Callable[[], None] = lambda: None) -> bool:
    """Whether user code that does this, and goes on for a while, is interrupted."""
    try:
        with interrupts.armed():
            act()
            for _ in range(10_000):
                pass
    except KeyboardInterrupt:
        return True
    return False


def test_interrupt_in_user_code_is_raised_once(pair: Pair) -> None:
    interrupts, send = pair
    assert interrupted(interrupts, send)
    send()
    assert not interrupted(interrupts, send)


def test_one_outside_of_user_code_is_raised_when_that_begins(pair: Pair) -> None:
    interrupts, send = pair
    began: list[bool] = []
    send()
    assert interrupted(interrupts, lambda: began.append(True))
    assert began == []
    assert not interrupted(interrupts)


def test_held_interrupt_is_raised_afterwards(pair: Pair) -> None:
    interrupts, send = pair
    steps: list[str] = []

    def hold() -> None:
        with interrupts.held():
            send()
            steps.append("whole")
        steps.append("after it")

    assert interrupted(interrupts, hold)
    assert steps == ["whole"]


def test_one_that_came_too_late_is_forgotten(pair: Pair) -> None:
    interrupts, send = pair
    send()
    interrupts.forget()
    interrupts.install()
    assert not interrupted(interrupts)


def test_interrupt_before_its_statement_is_remembered(pair: Pair) -> None:
    interrupts, send = pair
    assert interrupted(interrupts, send)
    interrupts.forget()
    send()
    interrupts.install()
    assert interrupted(interrupts)


def test_a_pause_in_another_thread_changes_nothing(pair: Pair) -> None:
    interrupts, send = pair
    paused: list[bool] = []

    def pause() -> None:
        with interrupts.held():
            paused.append(True)

    def pause_elsewhere_and_send() -> None:
        other = threading.Thread(target=pause)
        other.start()
        other.join()
        send()

    assert interrupted(interrupts, pause_elsewhere_and_send)
    assert paused == [True]


def test_reason_is_for_one_interrupt() -> None:
    before = signal.getsignal(signal.SIGINT)
    reasons = [Stopping(2.5), Stopping()]
    interrupts = SignalInterrupts(lambda: reasons.pop() if reasons else None)
    raised: list[KeyboardInterrupt] = []
    try:
        for _ in range(3):
            interrupts.install()
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt) as caught, interrupts.armed():
                raise AssertionError("the statement must not begin")
            raised.append(caught.value)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [type(each) for each in raised] == [StatementCancelled, StatementTimeout, KeyboardInterrupt]
    assert "2.5 s" in str(raised[1])


def test_late_reason_is_forgotten() -> None:
    reasons = [Stopping()]
    SignalInterrupts(lambda: reasons.pop() if reasons else None).forget()
    assert reasons == []
