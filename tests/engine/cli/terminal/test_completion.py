"""What Tab offers: names, commands with their arguments, paths; the text before the cursor decides which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.cli.terminal.line_editor import common_start, completions
from engine.core.ids import BranchId, StatementId, ToolCallId
from engine.log.branches import BranchRow
from engine.log.event_log import EventLog
from engine.log.events.execution import StatementRecorded
from engine.log.timeline import Cell, Timeline
from tests.support.fixed import FixedClock


@dataclass(frozen=True)
class Facts:
    cwd: str = "/nowhere"
    names: tuple[str, ...] = ("readme", "result", "_hidden")
    cells: Sequence[Cell] = ()
    branches: Sequence[BranchRow] = ()


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
    assert offered("/mo") == ["mode"]
    assert offered("/mode a") == ["ask", "auto"]
    found = completions("/timeline ", Facts(cells=cells), True)
    assert [(each.text, each.about) for each in found] == [("2", "b = 2"), ("1", "a = 1")]
    assert offered("/replay 1 ", Facts(cells=cells)) == ["2", "1"]
    assert offered("/replay 1 2 ", Facts(cells=cells)) == offered("/timeline 1 ", Facts(cells=cells)) == []
    assert offered("/replay 1 --") == ["--live", "--dry"]
    assert offered("/replay --live ", Facts(cells=cells)) == ["2", "1"]
    assert offered("/rewind 1 --keep-files --") == ["--keep-conversation"]
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
