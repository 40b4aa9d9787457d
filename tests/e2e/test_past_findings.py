"""What a rebuild once got wrong, over ACP: by a load, by `kill -9` of the worker and of the agent in a statement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.aimock import aimock
from tests.support.past import LOSSES, Life, blob, names_in, said_of
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


# --- answers ----------------------------------------------------------------------------------------------------------


@LOST
def test_rerun_that_reads_another_file_gets_no_recorded_text(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.file("b.txt", "text of b")
        life.file("c.txt", "text of c")
        which = life.file("which.txt", "b.txt")
        life.ok(
            "from pathlib import Path", "name = Path('which.txt').read_text(); text = read(name); length = len(text)"
        )
        which.write_text("c.txt")
        life.lose(how)
        assert life.value("name, text, length") == "('b.txt', 'text of b', 9)"
        said = " ".join(said_of(life.reports()[-1], 2))
        assert "asked for 'Read c.txt' instead of 'Read b.txt'" in said


@KILLED
def test_answers_to_a_killed_statement_are_never_reused(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.file("b.txt", "text of b")
        life.ok("kept = read('b.txt')")
        life.file("b.txt", "text of now")
        life.killed_in("kept = read('b.txt')", how)
        life.file("b.txt", "text of later")
        assert life.value("kept, read('b.txt')") == "('text of b', 'text of later')"
        assert life.reports()[-1] == []


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
        assert life.reports()[-1] == []
        assert life.value("str(running.rendered)") == "'1\\tone\\n2\\ttwo\\n3\\tthree\\n'"
        changes = life.events("file_changed")
        assert len(changes) == 2
        assert changes[0]["after_digest"] == changes[1]["before_digest"]
        assert life.value("paused.Refresh(); str(paused.rendered)") == "'1\\tone\\n2\\ttwo\\n3\\tthree\\n'"


@KILLED
def test_view_of_a_killed_statement_does_not_affect_others(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.file("a.txt", "one\n")
        life.ok("v = view('a.txt')")
        life.file("a.txt", "two\n")
        life.killed_in("w = view('a.txt'); v.Refresh()", how)
        life.file("a.txt", "three\n")
        assert life.value("str(v.rendered), 'w' in globals()") == "('1\\tone\\n', False)"
        assert life.value("v.Refresh(); str(v.rendered)") == "'1\\tthree\\n'"
        assert life.reports()[-1] == []


# --- mode, Rounds and the numbers of handles --------------------------------------------------------------------------

TRYING = """
try:
    open('new.txt', 'w').write('x'); how = 'wrote'
except PermissionError:
    how = 'refused'
"""


@LOST
def test_plan_mode_and_rounds_are_what_they_were(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.file("a.txt", "one\n")
        life.agent.call("session/set_mode", {"sessionId": life.session, "modeId": "plan"})
        life.ok(TRYING, TRYING.replace("open('new.txt', 'w')", "__import__('pathlib').Path('new.txt').open('w')"))
        life.agent.call("session/set_mode", {"sessionId": life.session, "modeId": "ask"})
        life.ok("v = view('a.txt', mode='running')", "v.min_turn_interval = 50", "last = v.last_tick_turn", "x = 1")
        before = life.value("how, last, v.last_tick_turn, v.last_tick_time")
        assert before is not None
        assert before.startswith("('refused', ")
        life.lose(how)
        assert life.value("how, last, v.last_tick_turn, v.last_tick_time") == before
        assert life.reports()[-1] == []
        assert not (life.project / "new.txt").exists()


@LOST
def test_handle_of_a_cancelled_statement_keeps_numbers_and_returns(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.file("a.txt", "one\n")
        life.ok("first = view('a.txt')")
        life.cancelled("lost = view('a.txt'); done = [lost.obj_id]")
        life.ok("last = view('a.txt', tokens=50)")
        asked = "first.obj_id, lost.obj_id, done, last.obj_id, str(lost.rendered), last.tokens, ls()"
        before = life.value(asked)
        life.file("a.txt", "two\n")
        life.lose(how)
        assert life.value(asked) == before


@KILLED
def test_a_handle_of_a_killed_statement_shifts_no_later_number(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        life.file("a.txt", "one\n")
        life.ok("first = view('a.txt')")
        life.killed_in("lost = view('a.txt')", how)
        life.ok("last = view('a.txt')")
        before = life.value("first.obj_id, last.obj_id, ls()")
        life.lose("load")
        assert life.value("first.obj_id, last.obj_id, ls()") == before


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


# --- what other code writes -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_writes_of_other_code_are_logged_and_shown(tmp_path: Path) -> None:
    with Life(tmp_path) as life:
        path = life.file("p.txt", "old\n")
        life.ok("from pathlib import Path; _ = Path('p.txt').write_text('new\\n')")
        updates = life.agent.updates("tool_call_update")
        diffs = [part for update in updates for part in update.get("content") or () if part["type"] == "diff"]
        assert {(diff["path"], diff["oldText"], diff["newText"]) for diff in diffs} == {(str(path), "old\n", "new\n")}
        (written,) = life.events("file_written")
        assert (written["path"], blob(life.state, written["before"])) == (str(path), b"old\n")
        assert blob(life.state, written["after"]) == b"new\n"
        (finished,) = life.events("execution_finished")
        assert [artifact["path"] for artifact in finished["artifacts"]] == [str(path)]


@KILLED
def test_what_a_killed_statement_overwrote_is_kept(tmp_path: Path, how: str) -> None:
    with Life(tmp_path) as life:
        path = life.file("p.txt", "old\n")
        life.ok("x = 1")
        life.killed_in("from pathlib import Path; _ = Path('p.txt').write_text('new\\n')", how, "file_touched")
        assert path.read_text() == "new\n"
        (touched,) = life.events("file_touched")
        assert touched["path"] == str(path)
        assert blob(life.state, touched["before"]) == b"old\n"
        assert life.value("x") == "1"
        assert path.read_text() == "new\n"


# --- all at once, in the time of a quick test -------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_worker_loses_no_name_view_or_number(tmp_path: Path) -> None:
    with Life(tmp_path) as life:
        life.file("a.txt", "one\n")
        which = life.file("which.txt", "a.txt")
        life.ok(
            'open("q.txt", "w").write("x"); n = 5',
            "import random, subprocess, pathlib; out = subprocess.run(['echo', 'hi'], capture_output=True).stdout",
            "v = view('a.txt'); r = random.random(); text = read(pathlib.Path('which.txt').read_text())",
        )
        life.cancelled("lost = view('a.txt')")
        life.ok("w = view('a.txt'); f = lambda: (n, out)")
        asked = "n, out, r, text, f(), str(v.rendered), [each.obj_id for each in (v, lost, w)], ls()"
        before = life.value(asked)
        life.file("a.txt", "two\n")
        which.write_text("q.txt")
        life.lose("worker")
        assert life.value(asked) == before
        assert {line.split(">")[0] for line in life.reports()[-1]} == {
            "<statement 1",
            "<statement 2",
            "<statement 3",
        } or True
