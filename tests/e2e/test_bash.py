"""`bash` in statements of a real agent: what it may see, that it ends whole, and that a rebuild runs it no more."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil
import pytest

from tests.support.agents import SECONDS, Agent
from tests.support.scripts import workers
from tests.support.workers import processes_in

pytestmark = pytest.mark.slow

STAYS = "(setsid sleep 600 &) ; nohup sleep 600 > /dev/null & touch started; while :; do sleep 0.1; done"


def value(agent: Agent, session: str, source: str) -> str:
    """The text of a statement's result."""
    agent.prompt(session, source)
    *updates, last = agent.updates("tool_call_update")
    assert last["status"] == "completed", last
    if (shown := last.get("content")) is None:  # the command's own card, which has its input first
        shown = next(update["content"] for update in reversed(updates) if update.get("content"))[1:]
    return shown[0]["content"]["text"].strip("`\n")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # because what another process writes cannot be waited for


def assert_left(folder: Path, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while (left := processes_in(folder)) != count:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)  # because the end of a process that is nobody's child cannot be waited for


def test_a_cancelled_command_ends_whole_and_the_names_stay(project: Path, tmp_path: Path) -> None:
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        agent.prompt(session, "kept = 'still there'")
        prompt = agent.begin_prompt(session, f"bash({STAYS!r}, timeout=600)")
        wait_for(project / "started")
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.response(prompt)["result"] == {"stopReason": "cancelled"}
        assert_left(project, 2)  # the worker, and the copy of it from before the command
        assert value(agent, session, "print(kept)") == "still there"


@pytest.mark.parametrize("how", ["close", "host", "worker"])
def test_a_command_ends_with_its_session(project: Path, tmp_path: Path, how: str) -> None:
    agent = Agent(tmp_path / "state")
    with contextlib.suppress(psutil.NoSuchProcess), agent:
        session = agent.open(project)
        agent.begin_prompt(session, f"bash({STAYS!r}, timeout=600)")
        wait_for(project / "started")
        if how == "close":
            agent.close()
        elif how == "host":
            psutil.Process(agent.process.pid).kill()
        else:
            for process in workers(agent):
                process.kill()
            agent.notify("session/cancel", {"sessionId": session})
            agent.close()
        assert_left(project, 0)


PLANT = """
import importlib.util, os, py_compile, sys
os.mkdir("plants"); here = os.path.abspath("plants")
for name in ("git", "ls", "python3"):
    with open(f"plants/{name}", "w") as file: _ = file.write("#!/bin/sh\\necho planted\\n")
    os.chmod(f"plants/{name}", 0o755)
with open("plants/plant.py", "w") as file: _ = file.write("print('planted')\\n")
sys.pycache_prefix = here
import colorsys
how = py_compile.PycInvalidationMode.UNCHECKED_HASH
_ = py_compile.compile("plants/plant.py", importlib.util.cache_from_source(colorsys.__file__), invalidation_mode=how)
os.environ.update(PATH=here, PYTHONPATH=here, PYTHONPYCACHEPREFIX=here, BASH_ENV=f"{here}/ls", LD_LIBRARY_PATH=here)
os.chdir(here)
"""


def test_command_runs_no_program_that_a_statement_planted(project: Path, tmp_path: Path) -> None:
    command = "pwd; ls -d .; git --version; python3 -c 'import colorsys; print(colorsys.__name__)'"
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        before = value(agent, session, f"print(bash({command!r}).output)")
        agent.prompt(session, PLANT)
        assert agent.updates("tool_call_update")[-1]["status"] == "completed"
        assert value(agent, session, f"print(bash({command!r}).output)") == before
        own = "import subprocess, sys; run = lambda *argv: subprocess.run(argv, capture_output=True, text=True).stdout"
        agent.prompt(session, own)
        what = "run('git') + run(sys.executable, '-S', '-c', 'import colorsys') + run('/bin/bash', '-c', '')"
        assert value(agent, session, f"print({what}, end='')") == "planted\n" * 2 + "planted"
