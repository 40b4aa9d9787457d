"""Whoever is asked sees every line of what would run, or is told what is missing, whatever an editor shows of it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import ASKED_CHARS, PermissionQuestion, StatementSubject
from engine.events.conversation import ToolCall
from engine.events.execution import StatementRecorded
from engine.ids import Seq, StatementId, ToolCallId
from tests.support.editors import EDITORS, content_alone, title_alone, title_up_to_a_colon
from tests.support.shown import CODEC, updates_of

GOLDEN: Final = Path(__file__).parent.parent / "data" / "acp" / "editors"
CALL = ToolCallId("c")

# In each, what must not be missed is called danger.
HIDING: Final = {
    "a comment first": "import os  # tidy up\nimport shutil\nshutil.rmtree(danger)",
    "a colon in the first line": "for path in danger: os.remove(path)",
    "a colon and more lines": "if True:\n    danger()",
    "many blank lines": "import os" + "\n" * 500 + "danger()",
    "blank lines with spaces": "import os\n" + "   \t \n" * 300 + "danger()\n\n",
    "far to the right": "x = 1" + " " * 300 + "; danger()",
    "tabs to the right": "x = 1" + "\t" * 60 + "; danger()",
    "a long line": f"x = {'1 + ' * 200}danger()",
    "a fence inside": "x = '''\n```\n````\ntext\n```python\n'''\ndanger()",
    "colours": "x = 1\x1b[8m; danger()\x1b[0m",
    "an erased line": "danger()\x1b[2K\x1b[1G# nothing\nx = 1",
    "overwritten by a carriage return": "danger() #\rx = 1     ",
    "a carriage return that begins a line": "# see above\rdanger()",
    "other line ends": "x = 1  # a\u2028b\x85c\x0bd\x0ce\r\ndanger()",
    "from right to left": "x = '\u202e' # ;'\u2066; danger()",
    "invisible letters": "x\u3164 = 1; x\ufe0f\U000e0041\u200b = danger()",
    "a count that lies": "import os … +0 lines\ndanger()",
    "nothing but space": " \n\t\n",
    "backspaces": "danger()\b\b\b\b\b\b\b\bx = 1   ",
}


def question(source: str) -> dict[str, Any]:
    asked = PermissionQuestion(tool_call_id=CALL, subject=StatementSubject(source), seq=Seq(0))
    return CODEC.permissions.write_question("session", asked)["toolCall"]


def call(source: str) -> dict[str, Any]:
    recorded = StatementRecorded(statement_id=StatementId("s"), index=1, source=source, tool_call_id=CALL)
    (shown,) = updates_of(recorded)
    return shown


def lines_of(source: str) -> list[str]:
    """As Python reads them."""
    return [line.rstrip("\n") for line in io.StringIO(source, newline=None)]


def announced(title: str, noun: str) -> int:
    """How many of them a title says it leaves out."""
    found = re.search(rf"\+([\d,]+) {noun}s?\b", title.rpartition(" … ")[2])
    return int(found[1].replace(",", "")) if found else 0


@pytest.mark.parametrize("editor", EDITORS)
def test_what_each_editor_shows_is_as_recorded(editor: str) -> None:
    drawn = [f"=== {name}\n{EDITORS[editor](question(source))}\n" for name, source in HIDING.items()]
    assert "".join(drawn) == (GOLDEN / f"{editor}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", HIDING)
def test_the_call_shows_what_the_question_shows(name: str) -> None:
    source = HIDING[name]
    assert [draw(call(source)) for draw in EDITORS.values()] == [draw(question(source)) for draw in EDITORS.values()]


@pytest.mark.parametrize("name", HIDING)
def test_a_content_has_every_line_in_its_place_and_nothing_that_moves_it(name: str) -> None:
    source = HIDING[name]
    drawn = content_alone(question(source))
    rows = drawn.split("\n")
    assert all(char.isprintable() for row in rows for char in row)
    assert max(map(len, rows)) <= 122
    assert len(rows) < 30
    assert drawn.count("danger") == source.count("danger")


@pytest.mark.parametrize("name", HIDING)
@pytest.mark.parametrize("draw", [title_alone, title_up_to_a_colon])
def test_a_title_is_the_whole_or_counts_what_is_missing(name: str, draw: Any) -> None:
    source = HIDING[name]
    lines = lines_of(source.strip())
    drawn = draw(question(source)).removeprefix("Execute: ")
    assert announced(drawn, "line") == max(len(lines) - 1, 0)
    assert "danger" in drawn or announced(drawn, "character") or len(lines) != 1
    assert drawn.isprintable()


def test_the_example_of_a_title() -> None:
    assert question(HIDING["a comment first"])["title"] == "import os  # tidy up … +2 lines"
    assert question("x = 1\n")["title"] == "x = 1"


def test_what_was_asked_for_keeps_its_lines_whole() -> None:
    source = "x = [\n" + f"    {'1, ' * 90}\n\n\n\n\n\n" + "]"
    assert question(source)["rawInput"] == {"command": source}


def test_the_longest_source_that_is_asked_about_is_shown_whole() -> None:
    filler = "x = 1\n" * ((ASKED_CHARS - 50) // 6)
    asked = question(f"{filler}danger(){' ' * 40}\nx")
    assert asked["title"].endswith(f" … +{filler.count(chr(10)) + 1:,} lines")
    assert "danger()" in asked["content"][0]["content"]["text"]
    assert "left out" not in asked["content"][0]["content"]["text"]


def test_a_source_that_is_too_long_to_be_shown_says_how_much_is_left_out() -> None:
    shown = call("x = 1\n" * 300_000)
    assert shown["title"] == "x = 1 … +299,999 lines"
    assert "... 800000 characters left out ..." in shown["content"][0]["content"]["text"]
    assert "... 800000 characters left out ..." in shown["rawInput"]["command"]


NASTY = st.text(st.sampled_from("PQ:`\n\r\t \\'#…\x1b\x08\u202e\u2028\u3164+0 lines\N{RIGHTWARDS ARROW WITH HOOK}"))


@given(NASTY)
def test_no_source_loses_a_letter_on_the_way_to_an_editor(source: str) -> None:
    asked = question(source)
    drawn = content_alone(asked)
    assert [char for char in drawn if char in "PQ:"] == [char for char in source if char in "PQ:"]
    assert ":" not in asked["title"]
    assert all(char.isprintable() or char == "\n" for char in drawn)


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("a.py", "read a.py"),
        ("C:/a.py", "read C\N{RATIO}/a.py"),
        ("a.py\n\u202egnp.b", "read a.py\\n\\u202egnp.b"),
        ("x" * 100, f"read {'x' * 75} … +25 characters"),
    ],
)
def test_the_call_of_a_helper_has_its_path_in_the_title_or_counts_what_is_missing(path: str, title: str) -> None:
    helper = ToolCall(tool_call_id=CALL, tool="read", arguments={"path": path}, parent_id=ToolCallId("p"))
    (shown,) = updates_of(helper)
    assert shown["title"] == title
