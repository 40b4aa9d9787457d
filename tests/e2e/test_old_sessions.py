"""A session that an earlier program wrote, gone on with over ACP by this one."""

from __future__ import annotations

import gzip
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.agents import Agent
from tests.support.scripts import last_value, load, logged
from tests.support.stores import ROOT

KEPT = ROOT / "tests" / "data" / "sessions" / "direct.db.gz"


def test_a_session_of_an_earlier_program_is_loaded_and_its_names_are_back(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "sessions.db").write_bytes(gzip.decompress(KEPT.read_bytes()))
    _move(state / "sessions.db", tmp_path)
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


def _move(database: Path, cwd: Path) -> None:
    """Has the session belong to a directory of this machine, as it did to one of the machine that wrote it."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE sessions SET cwd = ?", (os.fsencode(cwd),))
        connection.commit()
