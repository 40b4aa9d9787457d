"""A session that an earlier program wrote, gone on with over ACP by this one."""

from __future__ import annotations

import gzip
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.scripts import last_value, load, logged
from tests.support.stores import ROOT

SESSIONS = ROOT / "tests" / "data" / "sessions"

UNKNOWN = [
    "<statement 2> looked at a.py, but its earlier content is not recorded: the view shows the current content;"
    " no copy of v NONE",
    "<statement 3> looked at notes.txt, but its earlier content is not recorded: the view shows the current content;"
    " no copy of still NONE",
    "<statement 7> was not allowed to call open q.txt; ended with error (ReplayEffect) instead of ok;"
    " did not bind _, n; no copy of _, n NONE",
    "<statement 8> left another value in drawn; no copy of drawn NONE",
    "<statement 9> was stopped (cancelled), and is not run again; no copy of steps NONE",
    "<statement 10> was stopped (timeout), and is not run again; no copy of late NONE",
]
"""What is said of a session that recorded neither what views saw nor copies of values."""


@pytest.mark.slow
def test_session_of_an_earlier_version_loads_with_its_names(tmp_path: Path) -> None:
    state = _state("direct", tmp_path)
    with Agent(state) as agent:
        agent.initialize()
        (listed,) = agent.call("session/list", {})["sessions"]
        session = listed["sessionId"]
        load(agent, session, tmp_path)
        assert last_value(agent) == "6"
        assert agent.prompt(session, "sum(x) * 7") == "end_turn"
        assert last_value(agent) == "42"
    kinds = [event["kind"] for event in logged(state, session)]
    assert kinds.count("session_opened") == 1
    assert kinds[-1] == "run_stop"


@pytest.mark.slow
def test_session_without_recorded_past_loads_and_names_the_gaps(tmp_path: Path) -> None:
    state = _state("before_past", tmp_path)
    (tmp_path / "a.py").write_text("def first():\n    return 3\n")
    (tmp_path / "notes.txt").write_text("today\n")
    before = sorted(tmp_path.iterdir())
    with Agent(state) as agent:
        agent.initialize()
        (listed,) = agent.call("session/list", {})["sessions"]
        session = listed["sessionId"]
        load(agent, session, tmp_path)
        # What the tools answered is on its log, and what depends on nothing else comes out again.
        assert agent.prompt(session, "xs, label, text, out.output, total, last, twice(4)") == "end_turn"
        assert last_value(agent) == r"([1, 2, 3], 'kept', 'after\n', 'hello\n', 12, 24, 8)"
        assert agent.prompt(session, "[name in globals() for name in ('n', 'steps', 'late', 'drawn')]") == "end_turn"
        assert last_value(agent) == "[False, False, False, True]"
    assert [path for path in sorted(tmp_path.iterdir()) if path not in before] == []
    said = [event["divergences"] for event in logged(state, session) if event["kind"] == "environment_restored"]
    sentences = [re.sub(r" \(0\.[^)]*\)", "", sentence) for sentence in said[-1]]
    assert sentences == [
        sentence.replace("NONE", "(the log is from an earlier version, which saved no copies)") for sentence in UNKNOWN
    ]
    # It goes on as any other: from now on its past is recorded.
    kinds = {event["kind"] for event in logged(state, session)}
    assert {"revision_adopted", "nodes_ticked"} <= kinds


def _state(name: str, cwd: Path) -> Path:
    """A state directory with the database of that name, whose session belongs to `cwd`."""
    state = cwd / "state"
    state.mkdir()
    (state / "sessions.db").write_bytes(gzip.decompress((SESSIONS / f"{name}.db.gz").read_bytes()))
    _move(state / "sessions.db", cwd)
    return state


def _move(database: Path, cwd: Path) -> None:
    """Has the session belong to a directory of this machine, as it did to one of the machine that wrote it."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE sessions SET cwd = ?", (os.fsencode(cwd),))
        connection.commit()


@pytest.mark.slow
def test_each_kind_of_saved_value_loads_from_earlier_versions(tmp_path: Path) -> None:
    """Each holds a number drawn by chance, so that only its copy can be what it was: modules may have moved since."""
    state = _state("kept_values", tmp_path)
    (tmp_path / "a.py").write_text("def first():\n    return 3\n")
    with Agent(state) as agent:
        agent.initialize()
        (listed,) = agent.call("session/list", {})["sessions"]
        session = listed["sessionId"]
        events = logged(state, session)
        sources = {event["statement_id"]: event["source"] for event in events if event["kind"] == "statement_recorded"}
        shown = {
            sources[event["statement_id"]]: event["value"]
            for event in events
            if event["kind"] == "execution_finished"
            and event["value"] is not None
            and "\n" not in sources[event["statement_id"]]
        }
        assert len(shown) == 8
        load(agent, session, tmp_path)
        for source, value in shown.items():
            assert agent.prompt(session, source, seconds=60) == "end_turn"
            assert last_value(agent) == value, source
