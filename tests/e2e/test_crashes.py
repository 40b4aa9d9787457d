"""SIGKILL at any instant, of any of the processes: what was seen is kept, nobody is left, and the session goes on."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.agents import SECONDS, Agent, NoAnswerError
from tests.support.scripts import (
    asks_permission,
    assert_gone,
    family,
    kill_each,
    last_value,
    load,
    logged,
    reason,
    runs,
    scripted,
    transcript,
    update_in,
    workers,
)

pytestmark = pytest.mark.slow

WITHOUT_SANDBOX = {"REWINDOW_SANDBOX": "off"}
"""So that each statement asks."""
TARGETS = ("host", "worker", "zygote", "all")

REPLIES: list[dict[str, Any]] = [
    {"reasoning": "First.", "text": "I set x.", "statement": "x = 20\nprint('set', flush=True)"},
    {"statement": "v = view('notes.md')\nv.Run()\nread('notes.md')"},
    {"text": "abcdefghij" * 4, "chunk": 2, "pause": 0.002, "statement": "y = sum(range(400_000)); y"},
    {"text": "Once more.", "statement": "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\nx += 1"},
    {"statement": "for n in range(20):\n    print(n, flush=True)"},
    {"text": "That was all."},
]

LONGEST_SECONDS = 0.45
"""A little longer than the turn takes, so that some instants hit an idle session."""


def killed_after(agent: Agent, target: str, seconds: float) -> list[psutil.Process]:
    """Kills the target so many seconds from now, while everything that comes is read; returns the whole family."""
    host = psutil.Process(agent.process.pid)
    deadline = time.monotonic() + seconds
    with contextlib.suppress(NoAnswerError):
        while (left := deadline - time.monotonic()) > 0:
            agent.next(left)
    everybody = family(host)
    chosen = {
        "host": [host],
        "worker": workers(agent),
        "zygote": host.children(),
        "all": [host, *everybody],
    }[target]
    for process in chosen:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return everybody


def started_in(home: Path) -> list[psutil.Process]:
    """What statements started, whoever is its parent by now: it has the session's HOME."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("HOME") == str(home):
                found.append(process)
    return found


def finish(agent: Agent) -> None:
    """Reads all that was said, until the agent has left by itself or with the end of its input."""
    assert agent.process.stdin
    with contextlib.suppress(BrokenPipeError):
        agent.process.stdin.close()
    while agent.next(SECONDS) is not None:
        pass
    agent.close()


def assert_contained(shown: dict[str, Any], again: dict[str, Any], is_cut: bool) -> None:
    """Whatever an editor held before the crash, it holds again after a load, only further on.

    `is_cut`: the agent was killed, maybe between the commit of a message and the sending of its last pieces.
    """
    assert [entry for entry in again["order"] if entry in shown["order"]] == shown["order"]
    for message, text in shown["messages"].items():
        assert again["messages"][message].startswith(text) if is_cut else again["messages"][message] == text
    for call, fields in shown["calls"].items():
        now = again["calls"][call]
        assert (now["title"], now.get("rawInput")) == (fields["title"], fields.get("rawInput"))
        if fields["status"] in ("completed", "failed"):
            assert now == fields
        assert fields["status"] == "pending" or now["status"] in ("completed", "failed")


def crash(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    target, seconds = chance.choice(TARGETS), chance.uniform(0, LONGEST_SECONDS)
    print(f"seed {seed}: {target} after {seconds * 1000:.0f} ms")
    (tmp_path / "notes.md").write_text("# Notes\n")
    state = tmp_path / "state"
    agent = Agent(state, "--model", scripted(tmp_path, *REPLIES), env={"HOME": str(tmp_path)})
    session = agent.open(tmp_path)
    agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
    agent.begin_prompt(session, "go")
    everybody = killed_after(agent, target, seconds)
    finish(agent)
    assert_gone(everybody)
    if target == "all":
        # What a worker started between the look and its own end has nobody left who could end it.
        for process in started_in(tmp_path):
            process.kill()
    assert_gone(started_in(tmp_path))
    # The line about the sandbox is said once, and not again on a load.
    shown = transcript([update for update in agent.updates() if not str(update.get("messageId")).startswith("news_")])
    is_cut = target in ("host", "all")
    # What was streamed of a message that had not ended is the one thing that only the editor has.
    if is_cut:
        kept = {event["message_id"] for event in logged(state, session) if event["kind"].startswith("agent_")}
        lost = [message for message in shown["messages"] if message not in kept]
        assert len(lost) <= 1
        for message in lost:
            del shown["messages"][message]
        shown["order"] = [entry for entry in shown["order"] if entry[1] not in lost]
    with Agent(state) as reopened:
        reopened.initialize()
        load(reopened, session, tmp_path)
        again = transcript(reopened.updates())
        assert_contained(shown, again, is_cut)
        assert all(call["status"] in ("completed", "failed") for call in again["calls"].values()), again["calls"]
        assert reopened.prompt(session, "globals().get('x') in (None, 20, 21) and 1 + 1") == "end_turn"
        assert last_value(reopened) == "2"
        everybody = family(psutil.Process(reopened.process.pid))
    assert_gone(everybody)
    kinds = [event["kind"] for event in logged(state, session)]
    assert kinds.count("user_message") == kinds.count("run_stop")
    assert kinds.count("execution_started") == kinds.count("execution_finished")


@pytest.mark.parametrize("seed", range(10, 110))
def test_crash_at_any_moment_loses_nothing_shown(tmp_path: Path, seed: int) -> None:
    crash(tmp_path, seed)


def test_rebuild_after_a_kill_names_the_interrupted_statement(tmp_path: Path) -> None:
    state = tmp_path / "state"
    agent = Agent(state)
    session = agent.open(tmp_path)
    agent.prompt(session, "x = 1")
    agent.begin_prompt(session, "import time; print('begun', flush=True); time.sleep(600); total = 2")
    agent.until(lambda message: "begun" in str(update_in(message).get("content")))
    everybody = family(psutil.Process(agent.process.pid))
    agent.process.kill()
    finish(agent)
    assert_gone(everybody)
    with Agent(state) as reopened:
        reopened.initialize()
        load(reopened, session, tmp_path)
        reopened.prompt(session, "x")
        assert last_value(reopened) == "1"
        (told,) = [
            call for call in transcript(reopened.updates())["calls"].values() if call["title"].startswith("Rebuild")
        ]
        assert "<statement 2> was interrupted by a crash and not run again" in str(told["content"])


def test_worker_that_dies_during_a_question_is_replaced(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"statement": "x = 20"}, {}, {"statement": "x += 1; x"}, {})
    with Agent(tmp_path / "state", "--model", model, env=WITHOUT_SANDBOX) as agent:
        session = agent.open(tmp_path)
        agent.prompt(session, "begin")
        agent.permission = None
        prompt = agent.begin_prompt(session, "go on")
        agent.until(asks_permission)
        killed = workers(agent)
        kill_each(killed)
        assert_gone(killed)
        agent.answer(agent.received[-1], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        assert reason(agent.response(prompt)) == "end_turn"
        assert last_value(agent) == "21"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_zygote_stopped_or_killed_before_the_first_statement_is_replaced(
    tmp_path: Path, number: signal.Signals
) -> None:
    with Agent(tmp_path / "state") as agent:
        session = agent.open(tmp_path)
        (zygote,) = psutil.Process(agent.process.pid).children()
        zygote.send_signal(number)
        assert agent.prompt(session, "6 * 7") == "end_turn"
        assert last_value(agent) == "42"
        assert [child.pid for child in psutil.Process(agent.process.pid).children()] != [zygote.pid]


def test_a_crash_while_prompts_wait_withdraws_them(tmp_path: Path) -> None:
    first = Agent(tmp_path / "state")
    session = first.open(tmp_path)
    first.begin_prompt(session, "import time; time.sleep(600)")
    first.until(runs)
    for _ in range(3):
        first.begin_prompt(session, "ran = True")
    assert first.prompt(session, "/timeline") == "end_turn"
    first.kill()
    with Agent(tmp_path / "state") as second:
        second.initialize()
        load(second, session, tmp_path)
        assert reason(second.response(second.begin_prompt(session, "'ran' in globals()"))) == "end_turn"
        assert last_value(second) == "False"
    kinds = [event["kind"] for event in logged(tmp_path / "state", session)]
    assert kinds.count("prompt_queued") == kinds.count("prompt_withdrawn") == 3
    assert kinds.count("execution_started") == kinds.count("execution_finished") == 2
    assert kinds.count("user_message") == kinds.count("run_stop") == 2


def test_statement_not_started_before_a_crash_is_shown_as_failed(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"statement": "x = 1"})
    first = Agent(tmp_path / "state", "--model", model, permission=None, env=WITHOUT_SANDBOX)
    session = first.open(tmp_path)
    first.begin_prompt(session, "go")
    first.until(asks_permission)
    first.kill()
    with Agent(tmp_path / "state") as second:
        second.initialize()
        load(second, session, tmp_path)
        (call,) = transcript(second.updates())["calls"].values()
        assert call["status"] == "failed"
