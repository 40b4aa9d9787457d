"""What statements start ends with whoever is killed, or at the latest when a command of ours starts next."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.support.agents import SECONDS, Agent, NoAnswerError
from tests.support.scripts import family, kill_each, workers

pytestmark = pytest.mark.slow

BIN: Final = Path(sys.executable).parent
TARGETS: Final = ("host", "worker", "zygote", "all", "host and zygote")
LEFT_TO_THE_NEXT_START: Final = ("all", "host and zygote")
"""The targets after which README promises nothing before one of our commands starts."""

CHAIN = "import os, time; end = time.monotonic() + 60\\nwhile time.monotonic() < end:\\n    if os.fork(): os._exit(0)"
STATEMENT = f"""
import os, subprocess, sys, time
subprocess.Popen(["sleep", "600"])
subprocess.Popen(["env", "-i", "setsid", "sleep", "600"], start_new_session=True)
subprocess.Popen("trap '' TERM INT HUP QUIT; while :; do sleep 1; done", shell=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 1 << 12)
        time.sleep(600)
    os._exit(0)
subprocess.Popen([sys.executable, "-S", "-c", "{CHAIN}"], start_new_session=True)
print("all started", flush=True)
time.sleep(600)
"""
COMMAND = f"""
sleep 600 &
env -i setsid sleep 600 &
(trap '' TERM INT HUP QUIT; while :; do sleep 1; done) &
(setsid setsid sleep 600 < /dev/null > /dev/null 2>&1 &)
setsid {sys.executable} -S -c '{CHAIN.encode().decode("unicode_escape")}' &
sleep 600
"""
LONGEST_SECONDS = 0.5
"""A little longer than the statement takes to start everything."""


def started_in(folder: Path) -> list[int]:
    found: list[int] = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(int(name))
    return found


def assert_nothing_left(folder: Path, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while left := started_in(folder):
        assert time.monotonic() < deadline, [psutil.Process(pid) for pid in left if psutil.pid_exists(pid)]
        time.sleep(0.01)  # because the end of a process that is nobody's child cannot be waited for


def kill(agent: Agent, target: str) -> None:
    host = psutil.Process(agent.process.pid)
    everybody = family(host)
    zygotes = host.children()
    chosen = {
        "host": [host],
        "worker": workers(agent),
        "zygote": zygotes,
        "all": [host, *everybody],
        "host and zygote": [host, *zygotes],
    }[target]
    kill_each(chosen)


def wait(agent: Agent, seconds: float) -> None:
    """So many seconds, in which everything that comes is read."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(NoAnswerError):
        while (left := deadline - time.monotonic()) > 0:
            agent.next(left)


def start_a_command(folder: Path, number: int) -> None:
    """Any of our commands, for a state directory that knows nothing of the killed agent."""
    if number == 0:
        with Agent(folder) as agent:
            agent.initialize()
        return
    command = (BIN / "rewindow", "sessions" if number == 1 else "doctor")
    variables = {**os.environ, "REWINDOW_STATE_DIR": str(folder)}
    subprocess.run(command, env=variables, cwd="/", stdout=subprocess.DEVNULL, timeout=60, check=True)


def crash(tmp_path: Path, seed: int, statement: str = STATEMENT) -> None:
    chance = random.Random(seed)
    target, seconds, command = TARGETS[seed % len(TARGETS)], chance.uniform(0, LONGEST_SECONDS), chance.randrange(3)
    print(f"seed {seed}: {target} after {seconds * 1000:.0f} ms, then command {command}")
    project = tmp_path / "project"
    project.mkdir()
    agent = Agent(tmp_path / "state")
    session = agent.open(project)
    if chance.random() < 0.9:  # or else the kill hits the start of the worker
        agent.prompt(session, "1")
    agent.begin_prompt(session, statement)
    wait(agent, seconds)
    kill(agent, target)
    if target not in LEFT_TO_THE_NEXT_START:
        if target != "host":
            wait(agent, 0.2)
            agent.close()
        assert_nothing_left(project)
    with contextlib.suppress(psutil.NoSuchProcess):
        agent.kill()
    start_a_command(tmp_path / "other", command)
    assert_nothing_left(project)


@pytest.mark.parametrize("seed", range(5, 205))
def test_next_command_ends_leftovers_of_a_kill_at_any_moment(tmp_path: Path, seed: int) -> None:
    crash(tmp_path, seed)


@pytest.mark.parametrize("seed", range(205, 245))
def test_next_command_ends_leftovers_of_a_kill_during_bash(tmp_path: Path, seed: int) -> None:
    crash(tmp_path, seed, f"bash({COMMAND!r}, timeout=600)")


def test_next_command_spares_a_running_agent_and_its_processes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        agent.prompt(session, "import subprocess; child = subprocess.Popen(['sleep', '600'])")
        start_a_command(tmp_path / "other", 1)
        agent.prompt(session, "assert child.poll() is None")
        assert agent.updates("tool_call_update")[-1]["status"] == "completed"
