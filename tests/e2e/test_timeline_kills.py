"""SIGKILL at any instant of a rewind, a replay, an edit or a checkpoint, of any of the processes."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.branches import branches_of
from engine.log.cycles import cycles_of
from engine.log.events import Event
from engine.log.events.conversation import RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished, ExecutionStarted
from engine.log.events.going_back import ReplayBegun, ReplayEnded, RewindBegun, Rewound
from engine.log.store import open_store
from engine.session.saved_state import LEAST_SECONDS
from tests.e2e.test_crashes import finish, started_in
from tests.support.agents import Agent, NoAnswerError
from tests.support.scripts import assert_gone, family, kill_each, last_value, load, transcript, workers

pytestmark = pytest.mark.slow

_OF_EVENT = re.compile(r"^[a-z]+[_-](?=e\d+$|ex_)")
"""What stands before the id of an event, or of an execution, in that of a call or message which shows it."""
LONGEST_SECONDS = 0.35
"""A little longer than what is asked for takes, so that some instants hit an idle session."""
LARGE, SMALL = 300_000, 1_000
STATEMENTS = (
    f"n = 1; w = write('a', 'A' * {LARGE})",
    f"n = 2; w = write('b', 'B' * {LARGE}); w = write('a', 'C' * {LARGE})",
    f"for k in range(20): w = write(f'many-{{k}}', 'M' * {SMALL})",
    f"with open('c', 'w') as _: n = 3; w = _.write('D' * {LARGE})",
    f"n = 4; w = write('b', 'E' * {LARGE})",
)
MANY = {f"many-{k}": "M" for k in range(20)}
SLOWLY = f"import time; time.sleep({LEAST_SECONDS})\n"
"""Begins a statement that a checkpoint follows."""
BEFORE = {"a": "C", "b": "E", "c": "D", **MANY}
REWINDS = {"/rewind 0": {}, "/rewind 1": {"a": "A"}, "/rewind 3": {"a": "C", "b": "B", **MANY}}
COMMANDS = (
    *REWINDS,
    "/replay 1",
    "/replay 2 --live",
    f"/edit 2 --live\nn = 5; w = write('a', 'F' * {LARGE})",
    "/edit 1\nn = 6",
    f"n = 7; w = write('a', 'G' * {LARGE})",
)
PAIRS: tuple[tuple[type[Event], type[Event]], ...] = (
    (ExecutionStarted, ExecutionFinished),
    (ReplayBegun, ReplayEnded),
    (ToolCall, ToolResult),
    (UserMessage, RunStop),
)
"""As many of the one as of the other are on the active path; an edit that was given up leaves its branch as it is."""
TARGETS = ("host", "one below", "all below", "zygote", "all")
"""Below the zygote are the worker and its checkpoints."""


def files(project: Path) -> dict[str, str]:
    """The letter that each file consists of, in its whole length."""
    found: dict[str, str] = {}
    for path in project.iterdir():
        text = path.read_text()
        assert text in (text[:1] * LARGE, text[:1] * SMALL), (path.name, len(text), sorted(set(text)))
        found[path.name] = text[0]
    return found


def kill(agent: Agent, target: str, seconds: float, chance: random.Random) -> Sequence[psutil.Process]:
    """Kills the target so many seconds from now, while everything that comes is read; returns the whole family."""
    host, deadline = psutil.Process(agent.process.pid), time.monotonic() + seconds
    with contextlib.suppress(NoAnswerError):
        while (left := deadline - time.monotonic()) > 0:
            agent.next(left)
    everybody, below = family(host), workers(agent)
    chosen = {
        "host": [host],
        "one below": chance.sample(below, min(1, len(below))),
        "all below": below,
        "zygote": [process for process in everybody if process not in below],
        "all": [host, *everybody],
    }[target]
    kill_each(chosen)
    return everybody


def crash(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    command, target, seconds = chance.choice(COMMANDS), chance.choice(TARGETS), chance.uniform(0, LONGEST_SECONDS)
    print(f"seed {seed}: {command!r}, {target} after {seconds * 1000:.0f} ms")
    project, state = tmp_path / "project", tmp_path / "state"
    project.mkdir()
    environ = {"HOME": str(tmp_path), "REWINDOW_RESTORE_BY": "checkpoints" if seed % 2 else "re-execution"}
    agent = Agent(state, env=environ)
    session = agent.open(project)
    for source in STATEMENTS:
        assert agent.prompt(session, f"{SLOWLY}{source}" if seed % 2 else source) == "end_turn"
    if seed % 2:
        assert len(workers(agent)) > 1
    assert files(project) == BEFORE
    agent.begin_prompt(session, command)
    everybody = kill(agent, target, seconds, chance)
    finish(agent)
    assert_gone(everybody)
    for process in started_in(tmp_path) if target == "all" else ():
        process.kill()  # what a zygote made between the look and its own end has nobody left who could end it
    assert_gone(started_in(tmp_path))
    if target not in ("host", "all"):
        assert_whole(state, session)
    files(project)  # are whole
    shown = transcript(agent.updates())
    with Agent(state, env=environ) as reopened:
        reopened.initialize()
        load(reopened, session, project)
        source = "globals().get('n', 0) in range(8) and 'alive'"
        assert reopened.prompt(session, source) == "end_turn"
        assert last_value(reopened) == "'alive'"
        everybody = family(psutil.Process(reopened.process.pid))
    assert_gone([*everybody, *started_in(tmp_path)])
    events = assert_whole(state, session)
    assert_shown_is_kept(shown, events)
    if command in REWINDS:
        done = any(isinstance(event, Rewound) and not event.cancelled for event in events)
        assert files(project) == (REWINDS[command] if done else BEFORE)
    elif command in ("/replay 1", "/edit 1\nn = 6"):
        assert files(project) == BEFORE


def assert_whole(state: Path, session: str) -> Sequence[Event]:
    """Nothing is open on the log, and no path of it is out of order; its events."""
    store = open_store(state, SystemClock())
    try:
        events = store.load(SessionId(session))
    finally:
        store.close()
    assert [event.seq for event in events] == list(range(len(events)))
    branches = branches_of(events)
    for branch in branches.all:
        assert not cycles_of(branches.path(events, branch.name)).anomalies, branch
    path = branches.path(events)
    for begun, ended in PAIRS:
        counts = [sum(isinstance(event, kind) for event in path) for kind in (begun, ended)]
        assert counts[0] == counts[1], (begun, counts)
    rewinds = [event for event in events if isinstance(event, RewindBegun) and not event.cancelled]
    assert len(rewinds) == sum(isinstance(event, Rewound) for event in events)
    return events


def assert_shown_is_kept(shown: dict[str, dict[str, object]], events: Sequence[Event]) -> None:
    known = repr(events)
    for call in shown["calls"]:
        assert _OF_EVENT.sub("", str(call)) in known, call
    lost = [message for message in shown["messages"] if _OF_EVENT.sub("", message) not in known]
    assert len(lost) <= 1, lost


@pytest.mark.parametrize("seed", range(2 * settings().max_examples))
def test_a_kill_at_any_instant_leaves_a_timeline_whole(tmp_path: Path, seed: int) -> None:
    crash(tmp_path, seed)
