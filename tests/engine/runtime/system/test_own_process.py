"""What a process sets about itself, and what another system leaves out."""

from __future__ import annotations

import os
import signal
from types import ModuleType

import pytest

from tests.support.other_system import IMPLEMENTATIONS, implementation


@pytest.fixture(params=IMPLEMENTATIONS)
def own(request: pytest.FixtureRequest) -> ModuleType:
    return implementation("engine.runtime.system.own_process", request.param)


def test_a_pending_signal_is_dropped(own: ModuleType) -> None:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(1))
        blocked = own.block_signals()
        own.drop_pending(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        own.drop_pending(signal.SIGUSR1)
        own.set_blocked(blocked)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_process_knows_whether_its_parent_is_there(own: ModuleType) -> None:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        own.become_subreaper()
        own.take_precedence()
        own.become_unreadable()
        is_right = own.die_with_parent(signal.SIGKILL, parent) and not own.die_with_parent(signal.SIGKILL, 1)
        os._exit(0 if is_right else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_processors(own: ModuleType) -> None:
    assert 1 <= own.usable_processors() <= (os.cpu_count() or 1)


def test_another_system_stops_no_threads_and_makes_no_calls_of_linux() -> None:
    own = implementation("engine.runtime.system.own_process", "other")
    for act in (lambda: own.seize(1), lambda: own.set_free(1, 0)):
        with pytest.raises(OSError, match="not implemented"):
            act()
    assert own.stop_of(1) is None
    kernel = implementation("engine.runtime.system.kernel", "other")
    for act in (
        lambda: kernel.prctl(kernel.PR_SET_DUMPABLE, 1),
        lambda: kernel.system_call(kernel.LANDLOCK_CREATE_RULESET, None, 0, 1),
        lambda: kernel.mount("", "", "", 0, ""),
    ):
        with pytest.raises(OSError, match="not implemented"):
            act()


def test_forks_are_never_quiet_elsewhere() -> None:
    quiet = implementation("engine.runtime.system.quiet_fork", "other")
    assert not quiet.is_quiet()
    assert not quiet.can_be_beside()
    with pytest.raises(OSError, match="not implemented"):
        quiet.fork_beside(lambda: None)
    pid = quiet.fork()
    if pid == 0:
        os._exit(3)
    assert os.waitstatus_to_exitcode(quiet.wait(pid)) == 3
