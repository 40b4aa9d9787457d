"""What a rebuild once got wrong, over ACP: by a load, by `kill -9` of the worker and of the agent in a statement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.aimock import aimock
from tests.support.past import LOSSES, Life, names_in, said_of
from tests.support.scripts import workers

LOST = pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.slow) for how in LOSSES])
KILLED = pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.slow) for how in ("worker", "agent")])

STATEMENTS = (
    ("import os, random, shutil, subprocess, time, uuid\nfrom pathlib import Path", "", False),
    ('open("q.txt", "w").write("x"); n = 5', "n", False),
    ('said = bash("echo from bash"); text = str(said)', "text", False),
    ('out = subprocess.run(["echo", "said"], capture_output=True, text=True)', "out.stdout", True),
    ('size = Path("p.txt").write_text("abc"); after = [size]', "size, after", True),
    ("r, t, token, name = random.random(), time.time(), os.urandom(8), uuid.uuid4()", "t, token, name", True),
    ('import io; f = io.open("log.txt", "a"); _ = f.write("line"); f.close(); lines = 1', "lines", True),
    ('os.mkdir("made"); made = sorted(os.listdir("."))', "made", True),
    ('after.append(shutil.copy("p.txt", "made/p.txt")); alias = after', "after, alias is after", True),
    (
        'def shout(word): return word.upper() + out.stdout\nos.rename("p.txt", "p2.txt"); loud = shout("a")',
        "loud",
        True,
    ),
    ("shout('b')", "shout('b')", False),
    ('del r; os.remove("p2.txt"); gone = True', "gone, 'r' in globals()", True),
)
"""Statements, most of which act outside or see what no second run sees; what shows their names; whether a rebuild has
something to say of them, because their answers are no recorded effects."""


def shown(life: Life) -> list[str | None]:
    return [life.value(names) for _, names, _ in STATEMENTS if names]


@LOST
def test_names_bound_with_a_write_or_process_are_restored(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.ok(*(source for source, _, _ in STATEMENTS))
        before = shown(life)
        files = {path: path.stat().st_mtime_ns for path in life.project.rglob("*")}
        life.lose(how)
        assert shown(life) == before
        assert {path: path.stat().st_mtime_ns for path in life.project.rglob("*")} == files
        (report,) = life.reports()
    for number, (source, _, told) in enumerate(STATEMENTS, 1):
        assert bool(said_of(report, number)) == told, (source, report)
    assert "f" in names_in(said_of(report, 7)), report


@KILLED
def test_statement_killed_after_a_write_does_not_run_again(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.ok("kept = [1]; from pathlib import Path")
        life.killed_in('with open("q.txt", "w") as f: f.write("x")\n_ = Path("p.txt").write_text("y"); n = 5', how)
        assert [path.name for path in sorted(life.project.iterdir())] == ["p.txt", "q.txt"]
        for path in life.project.iterdir():
            path.unlink()
        assert life.value("kept, 'n' in globals()") == "([1], False)"
        assert list(life.project.iterdir()) == []
        life.ok("n = 6; kept.append(n)")
        life.lose("load")
        assert life.value("kept, n") == "([1, 6], 6)"


# --- what views saw ---------------------------------------------------------------------------------------------------


@LOST
def test_rebuilt_view_is_unchanged_until_the_next_tick(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.file("a.txt", "one\n")
        gone = life.file("gone.txt", "was here\n")
        life.ok("paused = view('a.txt'); going = view('gone.txt')", "running = view('a.txt', mode='running')")
        life.file("a.txt", "one\ntwo\n")
        life.ok("at_two = view('a.txt')")
        texts = "str(paused.rendered), str(at_two.rendered), str(going.rendered)"
        before = life.value(texts)
        assert before == "('1\\tone\\n', '1\\tone\\n2\\ttwo\\n', '1\\twas here\\n')"
        assert life.value("str(running.rendered)") == "'1\\tone\\n2\\ttwo\\n'"
        life.file("a.txt", "one\ntwo\nthree\n")
        gone.unlink()
        life.lose(how)
        assert life.value(texts) == before
        assert not any(life.reports())
        assert life.value("str(running.rendered)") == "'1\\tone\\n2\\ttwo\\n3\\tthree\\n'"
        changes = life.events("file_changed")
        assert len(changes) == 2
        assert changes[0]["after_digest"] == changes[1]["before_digest"]
        assert life.value("paused.Refresh(); str(paused.rendered)") == "'1\\tone\\n2\\ttwo\\n3\\tthree\\n'"


# --- mode, Rounds and the numbers of handles --------------------------------------------------------------------------


def asks_for(source: str) -> list[dict[str, Any]]:
    return [{"id": f"call_{hash(source)}", "name": "python", "arguments": {"source": source}}]


@KILLED
def test_next_model_call_reports_the_rebuild_and_its_losses(tmp_path: Path, how: str) -> None:
    acting = "import io, os; f = io.open('f.txt', 'w'); n = 5"
    replies = ({"toolCalls": asks_for(acting)}, {"content": "Written."}, {"content": "I see."}, {"content": "Again."})
    turns = [{"match": {"turnIndex": number}, "response": reply} for number, reply in enumerate(replies)]
    settings = {"REWINDOW_SANDBOX": "off"}  # within it the file is a recorded answer, and comes back
    with (
        aimock(tmp_path, turns) as mock,
        Life(tmp_path, "--model", "provider:openai:gpt-5", **settings, **mock.openai) as life,
    ):
        assert life.agent.prompt(life.session, "write it") == "end_turn"
        if how == "worker":
            for worker in workers(life.agent):
                worker.kill()
        else:
            life.agent.kill()
            life.reopen()
        assert life.agent.prompt(life.session, "go on") == "end_turn"
        assert life.agent.prompt(life.session, "and on") == "end_turn"
        *_, told, later = (json.dumps(asked["body"]["messages"][-1]) for asked in mock.journal())
    assert "rebuilt in a new worker" in told
    assert "f" in names_in(line for line in told.split("\\n") if "<statement 1>" in line)
    assert "rebuilt" not in later
