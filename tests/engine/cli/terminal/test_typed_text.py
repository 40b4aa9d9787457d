"""What a typed text means: Enter, mentions, local commands, completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from engine.cli.terminal.typed_text import (
    LOCAL_COMMANDS,
    after_enter,
    common_start,
    completions,
    local_command_in,
    with_mentions,
)
from engine.core.ids import BranchId, ExecutionId, StatementId, ToolCallId
from engine.log.branches import BranchRow
from engine.log.event_log import EventLog
from engine.log.events.conversation import Attachment
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.timeline import Cell, Timeline
from engine.session.journal import CommandRow
from engine.session.session import Session
from tests.support.fixed import FixedClock

SENT = None


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("1 + 1", SENT),
        ("x = (1,", "x = (1,\n"),
        ("def f():\n    if x:  # why:", "def f():\n    if x:  # why:\n        "),
        ("def f():\n    return 1", "def f():\n    return 1\n    "),
        ("def f():\n    return 1\n    ", SENT),
        ("for i in range(3): print(i)", SENT),
        ("@cache", "@cache\n"),
        ("'''a", "'''a\n"),
        ("x = 1 + \\", "x = 1 + \\\n"),
        ("hello, what is this?", SENT),
        ("x = '\x00'", SENT),
        ("", SENT),
    ],
)
def test_complete_python_runs_as_in_a_python_shell(text: str, then: str | None) -> None:
    assert after_enter(text, is_python=True) == then


@pytest.mark.parametrize(
    ("text", "then"), [("def f():", SENT), ("fix (this", SENT), ("first\\", "first\n"), ("a path: C:\\\\", SENT)]
)
def test_prompt_ends_with_enter_unless_a_backslash_precedes(text: str, then: str | None) -> None:
    assert after_enter(text, is_python=False) == then


LONG = "\n".join(f"line {number}" for number in range(100))


def session(*values: str | None) -> Session:
    """What the commands look at of a session."""
    cells = [
        SimpleNamespace(
            index=number,
            finished=ExecutionFinished(
                execution_id=ExecutionId("e"),
                statement_id=StatementId(f"s{number}"),
                status="ok",
                started_at=0.0,
                ended_at=1.0,
                value=value,
            ),
        )
        for number, value in enumerate(values, 1)
    ]
    return cast("Session", SimpleNamespace(cells=cells))


def answer(line: str, of: Session) -> str | None:
    command, argument = local_command_in(line)
    assert command is not None
    return command.run(of, argument)


def test_open_shows_the_whole_result_of_a_statement() -> None:
    of = session("first", LONG, None)
    assert answer("/open 2", of) == f"Statement 2:\n```\n{LONG}\n```"
    assert answer("/open", of) == "Statement 3 has no output."
    assert answer("/open 9", of) == "Statement `9` has no result."
    assert answer("/open", session()) == "No statement has run yet."


@pytest.mark.parametrize("word", ["exit", "quit", "exit()", "quit()", "/exit", " quit "])
def test_the_usual_words_leave(word: str) -> None:
    assert local_command_in(word) == (LOCAL_COMMANDS["exit"], "")
    assert answer(word, session()) is None


@dataclass(frozen=True)
class Facts:
    cwd: str = "/nowhere"
    names: tuple[str, ...] = ("readme", "result", "_hidden")
    cells: Sequence[Cell] = ()
    branches: Sequence[BranchRow] = ()
    custom_commands: Sequence[CommandRow] = ()


def offered(before: str, facts: Facts | None = None, *, is_python: bool = True) -> list[str]:
    return [each.text for each in completions(before, facts or Facts(), is_python)]


def test_names_of_the_session_of_the_tools_and_of_python() -> None:
    assert offered("x = rea") == ["read", "readme"]
    assert offered("isin") == ["isinstance"]
    assert offered("isin", is_python=False) == []
    assert offered("readme.re") == []
    assert offered("_h") == ["_hidden"]
    assert "_hidden" not in offered("")
    assert offered("1re") == []


def test_commands_and_their_arguments() -> None:
    log = EventLog(FixedClock(), lambda event: None)
    timeline = Timeline(log.at)
    log.follow_path(timeline, Timeline.FOLLOWS)
    for index, source in enumerate(["a = 1", "b = 2\nc"], 1):
        statement = StatementId(f"stm_{index}")
        log.append(
            StatementRecorded(statement_id=statement, index=index, source=source, tool_call_id=ToolCallId("call"))
        )
    cells = timeline.cells
    assert offered("/ti") == ["timeline", "tick"]
    assert offered("/mo") == ["model", "mode"]
    assert offered("/mode a") == ["ask", "auto"]
    others = (CommandRow("git:commit", "MESSAGE", "Commit."), CommandRow("git:push", "", "Push."))
    assert offered("/git:c", Facts(custom_commands=others)) == ["git:commit"]
    found = completions("/timeline ", Facts(cells=cells), True)
    assert [(each.text, each.about) for each in found] == [("2", "b = 2"), ("1", "a = 1")]
    assert offered("/replay 1 ", Facts(cells=cells)) == ["2", "1"]
    assert offered("/replay 1 2 ", Facts(cells=cells)) == offered("/timeline 1 ", Facts(cells=cells)) == []
    assert offered("/timeline --") == ["--tag"]
    assert offered("/replay 1 --") == ["--live", "--dry"]
    assert offered("/replay --live ", Facts(cells=cells)) == ["2", "1"]
    assert offered("/rewind 1 --keep-files --") == ["--keep-conversation", "--dry-run"]
    assert offered("/edit ", Facts(cells=cells)) == ["2", "1"]
    assert offered("/edit 1\nx = rea") == ["read", "readme"]
    assert offered("/context ") == offered("/context t") == ["tail"]
    assert offered("/context 1") == offered("/views x") == offered("/nothing x") == []
    assert offered("/run a = islice; vie", Facts(names=("views",))) == ["view", "views"]
    assert offered("/help x") == []
    assert offered("/nothing x") == []


def test_names_of_branches() -> None:
    main = BranchRow(BranchId("main"), None, 0, 4, is_active=False)
    facts = Facts(branches=[main, BranchRow(BranchId("b1"), BranchId("main"), 1, 1, is_active=True)])
    found = completions("/branch ", facts, True)
    assert [(each.text, each.about) for each in found] == [("main", "4 statements"), ("b1", "1 statement, active")]
    assert offered("/branch m", facts) == offered("/diff b1 m", facts) == ["main"]
    assert offered("/diff main b1 ", facts) == offered("/branch main ", facts) == []
    assert offered("/branch main --k", facts) == ["--keep-files"]


def test_paths_within_quotes_and_behind_an_at_sign(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    (tmp_path / "setup.cfg").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "bad\x1bname").touch()
    facts = Facts(cwd=str(tmp_path))
    assert offered("view('s", facts) == ["setup.cfg", "src/"]
    assert offered('view("src/', facts) == ["main.py"]
    assert offered("view('", facts) == ["setup.cfg", "src/"]
    assert offered("view('.h", facts) == [".hidden"]
    assert offered("read @src/m", facts, is_python=False) == ["main.py"]
    assert offered("me@se", facts, is_python=False) == []
    assert offered("@src/m", facts, is_python=True) == ["main.py"]
    assert offered("x @src/m", facts, is_python=True) == ["main.py"]
    assert "property" in offered("@prop", facts, is_python=True)
    assert offered("view('nowhere/", facts) == []
    assert offered("view('\x00/", facts) == []
    assert offered(f"view('{tmp_path}/se") == ["setup.cfg"]


def test_what_several_have_in_common() -> None:
    assert common_start(["readme", "read", "reading"]) == "read"
    assert common_start(["one"]) == "one"
    assert common_start([]) == ""


def test_what_is_there_is_mentioned_and_everything_else_is_text(tmp_path: Path) -> None:
    (tmp_path / "a b.md").touch()
    (tmp_path / "x.py").touch()
    cwd = str(tmp_path)
    mention = Attachment(uri=(tmp_path / "x.py").as_uri(), name="x.py")
    assert with_mentions("no mention, me@x.py, @nothing", cwd) == ["no mention, me@x.py, @nothing"]
    assert with_mentions("look at @x.py, then (@x.py)", cwd) == ["look at ", mention, ", then (@x.py)"]
    assert with_mentions("@x.py", cwd) == [mention]
    assert with_mentions("@x\x00", cwd) == ["@x\x00"]
