"""`rewindow rewind`, `branches` and `diff`: a session that nobody has open goes back, and what came of it is listed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.store import open_store
from tests.support.commands import Home
from tests.support.sessions import sessions_of


def session_of(home: Home, project: Path) -> str:
    """A session of three statements, each of which binds `x` and writes it."""
    project.mkdir()
    return anyio.run(_session_of, home, str(project))


async def _session_of(home: Home, project: str) -> str:
    store = open_store(home.state, SystemClock())
    async with sessions_of(home.state, store) as sessions:
        session = await sessions.create(project)
        for x in (1, 2, 3):
            finished = await session.cell(f"x = {x}\nw = write('x.txt', f'{{x}}\\n')\nw = write(f'only-{{x}}', '')")
            assert finished.exception is None, finished.exception
    store.close()
    return session.session_id


PAGE = (Path(__file__).parents[3] / "docs" / "timeline.md").read_text(encoding="utf-8")


def is_documented(command: str, printed: dict[str, Any]) -> bool:
    """Whether the page has a table of the command with these fields, and no others."""
    table = PAGE.partition("## For programs")[2]
    table = table.partition(f"\n`rewindow {command}`")[2].partition("| --- | --- |\n")[2].partition("\n\n")[0]
    fields = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    return fields == set(printed)


def test_a_session_goes_back_and_its_branches_are_listed_and_compared(empty: Home, tmp_path: Path) -> None:
    project = tmp_path / "project"
    session = session_of(empty, project)
    (project / "only-3").write_text("by hand")
    done = empty.run("rewind", session[:12], "--to", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "The session is now at the end of statement 2, on branch b1.",
        "Restored 1 file to what was there after statement 2: x.txt.",
        "only-3 is left as it is: it has changed since the session last wrote it.",
    ]
    assert (project / "x.txt").read_text() == "2\n"
    back = empty.run("rewind", session, "--to", "0", "--json", "--keep-files")
    assert json.loads(back.stdout) == {"branch": "b2", "statement": 0, "restored": [], "left": {}}
    assert is_documented("rewind", json.loads(back.stdout))
    assert empty.run("branches", session).stdout.splitlines() == [
        "branch  from          statements",
        "main                  3",
        "b1      main after 2  2",
        "b2      main          0           active",
    ]
    rows = [json.loads(line) for line in empty.run("branches", session, "--jsonl").stdout.splitlines()]
    assert rows[1] == {"branch": "b1", "parent": "main", "shared": 2, "statements": 2, "active": False}
    assert is_documented("branches", rows[1])
    lines = empty.run("diff", session, "main", "b1").stdout.splitlines()
    assert lines[:3:2] == ["`main` and `b1` have statements 1 to 2 in common.", "On `main` alone:"]
    assert lines[4].startswith("- statement 3. `x = 3 …` (ok, ")
    found = json.loads(empty.run("diff", session, "main", "b1", "--json").stdout)
    assert found["shared"] == 2
    assert is_documented("diff", found)
    assert [each["statement"] for each in found["left"]["statements"]] == [3]
    assert (found["right"]["statements"], found["names"]["x"]) == ([], {"left": "3", "right": "2"})
    assert [Path(each["path"]).name for each in found["files"]] == ["x.txt"]


@pytest.mark.slow
def test_statements_run_again_and_what_differs_is_said(empty: Home, tmp_path: Path) -> None:
    session = session_of(empty, tmp_path / "project")
    done = empty.run("replay", session, "--from", "1", "--to", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "1 statement ran again, with the recorded answers to what they ask for: none differs."
        " The namespace is unchanged.\n"
    )
    found = json.loads(empty.run("replay", session, "--from", "1", "--to", "1", "--json").stdout)
    assert (found["outcome"], found["divergences"], len(found["executions"])) == ("completed", [], 1)
    assert is_documented("replay", found)
    assert empty.run("replay", session, "--from", "1", "--mode", "never").returncode == 2
    (tmp_path / "new.py").write_text("y = 5\n")
    edited = ("replay", session, "--from", "3", "--edit", str(tmp_path / "new.py"), "--json")
    assert json.loads(empty.run(*edited).stdout)["branch"] == "b1"
    assert empty.run(*edited, "--mode", "dry").returncode == 2
    missing = empty.run("replay", session, "--from", "9")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "There is no statement 9" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rewind", "ses_", "--to", "4"], "There is no statement 4; they are numbered from 1 to 3"),
        (["rewind", "ses_x", "--to", "1"], "no session ses_x"),
        (["diff", "ses_", "b7"], "There is no branch b7; the session has main"),
        (["diff", "ses_", "main", "main"], "main cannot be compared with itself; name another branch"),
        (["rewind", "s" * 500, "--to", "1"], f"no session {'s' * 79}…; list"),
        (["rewind", "", "--to", "1"], "the session's id is empty"),
        (["delete", "", "--yes"], "the session's id is empty"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_not_there_is_said_in_one_sentence_and_changes_nothing(
    empty: Home, tmp_path: Path, arguments: list[str], said: str
) -> None:
    session_of(empty, tmp_path / "project")
    done = empty.run(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert said.lower() in done.stderr.lower()
    assert (tmp_path / "project" / "x.txt").read_text() == "3\n"
    assert len(empty.run("branches", "ses_").stdout.splitlines()) == 2


@pytest.mark.slow
def test_a_session_that_is_in_use_is_not_rewound(empty: Home, tmp_path: Path) -> None:
    session = SessionId(session_of(empty, tmp_path / "project"))
    store = open_store(empty.state, SystemClock())
    store.acquire(session, lambda seq, error: None)
    done = empty.run("rewind", session, "--to", "1")
    store.close()
    assert done.returncode == 1
    assert "in use" in done.stderr


@pytest.mark.parametrize(
    "content", [b"x = '\xff'", *(pytest.param(each, marks=pytest.mark.slow) for each in (b"\0", b"x = (", b" \n"))]
)
def test_a_file_that_is_no_statement_changes_nothing(empty: Home, tmp_path: Path, content: bytes) -> None:
    session = session_of(empty, tmp_path / "project")
    (tmp_path / "new.py").write_bytes(content)
    done = empty.run("replay", session, "--from", "3", "--edit", str(tmp_path / "new.py"))
    assert (done.returncode, done.stdout) == (2 if b"\xff" in content else 1, "")
    assert len(done.stderr.splitlines()) <= 4
    assert "Traceback" not in done.stderr
    assert len(empty.run("branches", session).stdout.splitlines()) == 2


def test_a_rewind_without_a_statement_is_a_wrong_usage(empty: Home) -> None:
    for arguments in (("rewind", "ses_a"), ("rewind", "ses_a", "--to", "-1"), ("rewind", "ses_a", "--to", "x")):
        assert empty.run(*arguments).returncode == 2
