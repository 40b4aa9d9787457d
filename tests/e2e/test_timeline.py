"""An editor edits an earlier statement, rewinds, switches branches, and loads after kills: names, views and files."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.support.agents import Agent
from tests.support.scripts import assert_gone, family, last_value, load

STATEMENTS = (
    "base = 'one'",
    "write('kept.txt', base)",
    "word = 'two'",
    "write('made.txt', f'{base} {word}\\n')",
    "made = view('made.txt'); made.Run()",
    "edit('made.txt', word, word * 2)",
    "from pathlib import Path; size = Path('own.txt').write_text(word)",
    "size, word",
)
STATE = "word, 'size' in dir(), 'made' in dir() and made.Render().text.splitlines()[-1:]"


def files(project: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(project.iterdir())}


def state(agent: Agent, session: str) -> str | None:
    assert agent.prompt(session, STATE) == "end_turn"
    return last_value(agent)


MAIN = {"kept.txt": "one", "made.txt": "one twotwo\n", "own.txt": "two"}
EDITED = {"kept.txt": "one", "made.txt": "one threethree\n", "own.txt": "three"}
STEPS = (
    (f"/edit 3 {len(STATEMENTS)} --live\nword = 'three'", "('three', True, ['1\\tone threethree'])", EDITED),
    # An edit puts no files back, so what was there when statement 7 ran again comes back.
    ("/rewind 5", "('three', False, ['1\\tone three'])", EDITED | {"made.txt": "one three\n", "own.txt": "two"}),
    ("/branch main", "('two', True, ['1\\tone twotwo'])", MAIN),
    ("/rewind 3", "('two', False, False)", {"kept.txt": "one"}),
    ("/branch b1", "('three', True, ['1\\tone threethree'])", EDITED),
)
"""What is asked of the session, the names and the view afterwards, and the files."""


@pytest.mark.slow
@pytest.mark.parametrize("kills", [False, True], ids=["in one process", "killed after each step"])
def test_edit_rewind_and_switch_restore_names_views_and_files(tmp_path: Path, project: Path, kills: bool) -> None:
    agent = Agent(tmp_path / "state")
    try:
        session = agent.open(project)
        for source in STATEMENTS:
            assert agent.prompt(session, source) == "end_turn"
        assert (state(agent, session), files(project)) == ("('two', True, ['1\\tone twotwo'])", MAIN)
        for command, names, left in STEPS:
            assert agent.prompt(session, command) == "end_turn"
            if kills:
                everybody = family(psutil.Process(agent.process.pid))
                agent.kill()
                assert_gone(everybody)
                agent = Agent(tmp_path / "state")
                agent.initialize()
                load(agent, session, project)
            assert (state(agent, session), files(project)) == (names, left), command
    finally:
        agent.close()
