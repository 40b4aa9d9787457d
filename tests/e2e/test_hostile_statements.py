"""Statements that attack their process or start others: each is recorded, and the next prompt works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.runtime.checkpoints import MOST
from engine.session.saved_state import LEAST_SECONDS
from tests.support.agents import Agent
from tests.support.scripts import assert_at_rest, assert_cancelled, family, last_value, logged, update_in

pytestmark = pytest.mark.slow

SLOWLY = f"import time; time.sleep({LEAST_SECONDS})\n"
"""Begins a statement that a checkpoint follows."""
WAITING = (
    "subprocess.run(['sleep', '600'])",
    "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\nsum(range(10**13))",
)


@pytest.fixture(params=["re-execution", "checkpoints"])
def restore(request: pytest.FixtureRequest) -> dict[str, str]:
    """How names come back, as the environment of an agent says it."""
    return {"REWINDOW_RESTORE_BY": request.param}


def at_most(restore: dict[str, str]) -> int:
    """How many processes a session that is at rest has: its worker, and the copies that it keeps."""
    return 1 + MOST if "checkpoints" in restore.values() else 1


@pytest.fixture
def agent(tmp_path: Path, restore: dict[str, str]) -> Iterator[Agent]:
    with Agent(tmp_path / "state", env=restore) as running:
        yield running


def finished(tmp_path: Path, session: str) -> list[dict[str, Any]]:
    return [event for event in logged(tmp_path / "state", session) if event["kind"] == "execution_finished"]


# --- a process that is attacked from within ---------------------------------------------------------------------------


FATAL = (
    ("import os; os._exit(7)", "exited with code 7"),
    ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    ("import os; os.closerange(0, 1024)", "closed the connection"),
)


def test_fatal_statements_are_recorded_and_names_are_rebuilt(
    agent: Agent, tmp_path: Path, restore: dict[str, str]
) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, f"{SLOWLY}kept = [1]; also = kept")
    for source, words in FATAL:
        assert agent.prompt(session, f"print('before', flush=True)\n{source}") == "end_turn"
        shown = [update for update in agent.updates("tool_call_update") if update.get("status") == "failed"][-1]
        text = shown["content"][0]["content"]["text"]
        assert [word in text for word in ("before", "WorkerDied", words)] == [True] * 3, text
        assert agent.prompt(session, "kept.append(1); kept is also") == "end_turn"
        assert last_value(agent) == "True"
    assert agent.prompt(session, "kept") == "end_turn"
    assert last_value(agent) == "[1, 1, 1, 1]"
    recorded = [event["exception"] and event["exception"]["type"] for event in finished(tmp_path, session)]
    assert recorded == [None, *["WorkerDied", None] * 3, None]
    assert_at_rest(agent, at_most(restore))


ACTS = """\
import os, random, subprocess
kept = [random.random()]
with open('made', 'a') as file: n = file.write('once')
clock = subprocess.run(['date', '+%N'], capture_output=True, text=True).stdout
key = os.urandom(8)
"""


def test_names_survive_every_attack_and_no_act_is_repeated(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, SLOWLY + ACTS)
    agent.prompt(session, "kept.append(n)")
    agent.prompt(session, "kept, clock, key")
    before = last_value(agent)
    for source, _ in FATAL:
        agent.prompt(session, f"kept.append(0); {source}")
        assert agent.prompt(session, "kept[:2], clock, key") == "end_turn"
        assert last_value(agent) == before
    assert (tmp_path / "made").read_text() == "once"


def test_cancelled_statements_take_the_processes_they_wait_for_with_them(
    agent: Agent, tmp_path: Path, restore: dict[str, str]
) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, f"{SLOWLY}import os, subprocess; kept = 41")
    for number, source in enumerate(WAITING):
        prompt = agent.begin_prompt(session, f"print('go {number}', flush=True)\n{source}")
        agent.until(lambda message, said=f"go {number}": said in str(update_in(message).get("content")))
        agent.notify("session/cancel", {"sessionId": session})
        assert_cancelled(agent, prompt, sessions=at_most(restore))
        assert "sleep" not in [process.name() for process in family(psutil.Process(agent.process.pid))]
    assert agent.prompt(session, "kept + 1") == "end_turn"
    assert last_value(agent) == "42"
