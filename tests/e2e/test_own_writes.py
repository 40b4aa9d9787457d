"""Files that statements write by their own code, as an editor is shown them, and after a kill in the middle."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.agents import SECONDS, Agent
from tests.support.past import until_committed
from tests.support.scripts import Gate, family, load, logged, runs, transcript

pytestmark = pytest.mark.slow

WRITING = "from pathlib import Path; import os\nn = Path('a.txt').write_text('two\\n'); os.rename('b.txt', 'c.txt')"
DIFFS = {
    ("a.txt", "one\n", "two\n"),
    ("b.txt", "other\n", ""),
    ("c.txt", None, "other\n"),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    (project / "b.txt").write_text("other\n")
    return project


def diffs(agent: Agent) -> set[tuple[str, str | None, str]]:
    """What the calls within statements show by now, by file, each of which has ended."""
    calls = [call for call in transcript(agent.updates())["calls"].values() if call["kind"] in ("edit", "delete")]
    assert all(call["status"] == "completed" for call in calls), calls
    assert [call["title"] for call in calls if call["kind"] == "delete"] == ["Remove b.txt (-1)"]
    shown = [each for call in calls for each in call["content"] if each["type"] == "diff"]
    return {(Path(each["path"]).name, each.get("oldText"), each["newText"]) for each in shown}


def of_kind(state: Path, session: str, kind: str) -> list[dict[str, Any]]:
    return [event for event in logged(state, session) if event["kind"] == kind]


def test_editor_shows_each_file_diff_live_and_after_load(tmp_path: Path, project: Path) -> None:
    state = tmp_path / "state"
    with Agent(state) as agent:
        session = agent.open(project)
        assert agent.prompt(session, WRITING) == "end_turn"
        assert diffs(agent) == DIFFS
    with Agent(state) as again:
        again.initialize()
        load(again, session, project)
        assert diffs(again) == DIFFS
        assert again.prompt(session, "n") == "end_turn"
        assert diffs(again) == DIFFS
    assert len(of_kind(state, session, "file_touched")) == 3
    assert (project / "c.txt").exists()


@pytest.mark.parametrize("everybody", [False, True])
def test_load_after_a_kill_shows_written_files(tmp_path: Path, project: Path, everybody: bool) -> None:
    state, gate = tmp_path / "state", Gate(tmp_path / "gate")
    agent = Agent(state)
    session = agent.open(project)
    agent.begin(
        "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": f"{WRITING}\n{gate.source}"}]}
    )
    agent.until(runs)
    gate.reached()
    until_committed(state, session, "file_touched", 3)
    host = psutil.Process(agent.process.pid)
    below = family(host) if everybody else []
    for process in (*below, host):
        os.kill(process.pid, signal.SIGKILL)
    agent.kill()
    gate.release()
    psutil.wait_procs(below, SECONDS)
    assert not of_kind(state, session, "file_written")
    with Agent(state) as again:
        again.initialize()
        load(again, session, project)
        assert diffs(again) == DIFFS
        (finished,) = of_kind(state, session, "execution_finished")
        assert finished["status"] == "cancelled"
        assert len(finished["artifacts"]) == 3
        assert again.prompt(session, "1 + 1") == "end_turn"
    with Agent(state) as third:
        third.initialize()
        load(third, session, project)
    assert len(of_kind(state, session, "file_written")) == 3
