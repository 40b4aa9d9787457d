"""Both implementations of a hold on a process have the same behavior."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Generator
from types import ModuleType

import pytest

from tests.support.environments import PATIENCE
from tests.support.other_system import IMPLEMENTATIONS, implementation


@pytest.fixture(params=IMPLEMENTATIONS)
def processes(request: pytest.FixtureRequest) -> ModuleType:
    return implementation("engine.runtime.system.processes", request.param)


@pytest.fixture
def child() -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as child:
        yield child
        child.kill()


def test_a_signal_ends_it_and_the_handle_becomes_readable(
    processes: ModuleType, child: subprocess.Popen[bytes]
) -> None:
    with processes.ProcessHandle(child.pid) as handle:
        assert not handle.ended_within(0)
        assert not select.select([handle], [], [], 0)[0]
        handle.send(signal.SIGTERM)
        assert handle.ended_within(PATIENCE)
        assert select.select([handle], [], [], 0)[0]
        assert child.wait() == -signal.SIGTERM
        assert handle.ended_within(None)


def test_no_signal_goes_to_a_process_that_got_the_id(
    processes: ModuleType, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with processes.ProcessHandle(child.pid) as handle:
        child.kill()
        child.wait()
        monkeypatch.setattr(processes.os, "kill", lambda *sent: pytest.fail(f"sent {sent}"))
        with pytest.raises(ProcessLookupError):
            handle.send(signal.SIGKILL)


def test_a_process_that_is_gone_has_no_handle(processes: ModuleType) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ProcessLookupError):
        processes.ProcessHandle(gone.pid)
    assert os.listdir("/proc/self/fd") == before


def test_closing_returns_the_descriptor(processes: ModuleType, child: subprocess.Popen[bytes]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    processes.ProcessHandle(child.pid).close()
    assert len(os.listdir("/proc/self/fd")) == before
