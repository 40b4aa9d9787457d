"""Questions and calls show every line or count what is missing, whatever part an editor shows."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_adapter import v1
from engine import PermissionQuestion
from engine.core.execution import LeftOut, TextChange
from engine.core.ids import ExecutionId, Seq, StatementId, ToolCallId
from engine.files.revision import show_all
from engine.log.events.conversation import ToolCall
from engine.log.events.execution import FileWritten, StatementRecorded
from engine.log.events.session import PermissionAsked
from engine.log.permissions import (
    ASKED_CHARS,
    CommandSubject,
    FileSubject,
    PermissionSubject,
    StatementSubject,
    TreeSubject,
)
from engine.session.tools.change import changes_of
from tests.support.editors import EDITORS, content_alone, title_alone
from tests.support.shown import LoggedFacts, updates_of

GOLDEN: Final = Path(__file__).parents[2] / "data" / "acp" / "editors"
CALL = ToolCallId("c")

# In each source, the part that users must not miss is called `danger`.
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


def asked(subject: PermissionSubject) -> dict[str, Any]:
    question = PermissionQuestion(tool_call_id=CALL, subject=subject, seq=Seq(0))
    return v1.client.permission_params("session", question, LoggedFacts())["toolCall"]


def question(source: str) -> dict[str, Any]:
    return asked(StatementSubject(source))


def call(source: str) -> dict[str, Any]:
    recorded = StatementRecorded(statement_id=StatementId("s"), index=1, source=source, tool_call_id=CALL)
    (shown,) = updates_of(recorded, PermissionAsked(tool_call_id=CALL, scope=""))
    return shown


def lines_of(source: str) -> list[str]:
    """The lines as Python reads them."""
    return [line.rstrip("\n") for line in io.StringIO(source, newline=None)]


def announced(title: str, noun: str) -> int:
    """The number of lines that a title counts as missing."""
    found = re.search(rf"\+([\d,]+) {noun}s?\b", title.rpartition(" … ")[2])
    return int(found[1].replace(",", "")) if found else 0


def test_question_shows_the_note_on_permissions() -> None:
    shown = asked(StatementSubject("x", "It had fewer rights."))
    assert [each["content"]["text"] for each in shown["content"]][1:] == ["```\nIt had fewer rights.\n```"]
    assert len(question("x")["content"]) == 1


@pytest.mark.parametrize("editor", EDITORS)
def test_golden_statement_questions(editor: str) -> None:
    drawn = [f"=== {name}\n{EDITORS[editor](question(source))}\n" for name, source in HIDING.items()]
    assert "".join(drawn) == (GOLDEN / f"{editor}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", HIDING)
def test_call_shows_the_same_as_the_question(name: str) -> None:
    source = HIDING[name]
    assert [draw(call(source)) for draw in EDITORS.values()] == [draw(question(source)) for draw in EDITORS.values()]


@pytest.mark.parametrize("name", HIDING)
def test_content_has_every_line_unmoved(name: str) -> None:
    source = HIDING[name]
    drawn = content_alone(question(source))
    rows = drawn.split("\n")
    assert all(char.isprintable() for row in rows for char in row)
    assert max(map(len, rows)) <= 122
    assert len(rows) < 30
    assert drawn.count("danger") == source.count("danger")


@pytest.mark.parametrize("name", HIDING)
def test_title_is_complete_or_counts_the_rest(name: str) -> None:
    source = HIDING[name]
    lines = lines_of(source.strip())
    drawn = title_alone(question(source))
    assert announced(drawn, "line") == max(len(lines) - 1, 0)
    assert "danger" in drawn or announced(drawn, "character") or len(lines) != 1
    assert drawn.isprintable()


def test_example_of_a_title() -> None:
    assert question(HIDING["a comment first"])["title"] == "import os  # tidy up … +2 lines"
    assert question("x = 1\n")["title"] == "x = 1"


@pytest.mark.parametrize("before", range(0, 120, 7))
def test_a_title_has_no_part_of_a_word_that_may_be_a_key(before: int) -> None:
    key = "sk-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo"
    line = f"{'x ' * (before // 2)}{key} and {'more ' * 20}"
    title = question(line)["title"]
    assert key in title or not any(key[at : at + 4] in title for at in range(len(key) - 3))
    assert announced(title, "character") >= len(line.strip()) - 80


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=80))
def test_title_keeps_the_characters_of_the_code(line: str) -> None:
    assert question(line)["title"] == (line.strip() or "(empty)")


def test_raw_input_keeps_whole_lines() -> None:
    source = "x = [\n" + f"    {'1, ' * 90}\n\n\n\n\n\n" + "]"
    assert question(source)["rawInput"] == {"command": source}


def test_longest_source_is_shown_whole() -> None:
    filler = "x = 1\n" * ((ASKED_CHARS - 50) // 6)
    shown = question(f"{filler}danger(){' ' * 40}\nx")
    assert shown["title"].endswith(f" … +{filler.count(chr(10)) + 1:,} lines")
    assert "danger()" in shown["content"][0]["content"]["text"]
    assert "left out" not in shown["content"][0]["content"]["text"]


def test_longer_source_counts_the_rest() -> None:
    shown = call("x = 1\n" * 300_000)
    assert shown["title"] == "x = 1 … +299,999 lines"
    assert "... 800000 characters left out ..." in shown["content"][0]["content"]["text"]
    assert "... 800000 characters left out ..." in shown["rawInput"]["command"]


# --- changes of files -------------------------------------------------------------------------------------------------

EDITED: Final = {
    "one line": ("/w/src/a.py", "a\nb\nc\n", "a\nB\nc\n"),
    "a new file": ("/w/new.py", None, "danger()\n"),
    "a file that is emptied": ("/w/a.py", "a\nb\n", ""),
    "far below": ("/w/a.py", "x = 1\n" * 500, "x = 1\n" * 499 + "danger()\n"),
    "two places": ("/w/a.py", "x = 1\n" * 500, "y\n" + "x = 1\n" * 498 + "danger()\n"),
    "from right to left": ("/w/a.py", "x = 1\n", "x = '\u202e' # ;'\u2066; danger()\n"),
    "invisible letters": ("/w/a.py", "x = 1\n", "x\u3164 = 1; x\ufe0f\U000e0041\u200b = danger()\n"),
    "an invisible letter alone": ("/w/a.py", "user = 1\n", "us\u200ber = 1\n"),
    "a carriage return": ("/w/a.py", "x = 1\n", "# see above\rdanger()\n"),
    "line ends of the file": ("/w/a.bat", "a\r\nb\r\n", "a\r\nc\r\n"),
    "other line ends": ("/w/a.sh", "a\nb\n", "a\r\nb\r\n"),
    "colours": ("/w/a.py", "x = 1\n", "x = 1\x1b[8m; danger()\x1b[0m\n"),
    "far to the right": ("/w/a.py", "x = 1\n", "x = 1" + " " * 300 + "; danger()\n"),
    "an invisible letter far to the right": ("/w/a.js", "x\n", "x" * 5_000 + "\u200b" + "y" * 5_000 + "\n"),
    "the last newline": ("/w/a.py", "a\n", "a"),
    "many invisible letters": ("/w/a.py", None, "x\u200b\n" * 3),
    "a fence inside": ("/w/a.md", "```\n", "````\n\u200b```\n"),
    "no text": ("/w/a.png", "\0", "\0\1"),
    "outside": ("/w-else/a.py", "a\n", "b\n"),
    "as if at home": ("/w/~/.bashrc", "a\n", "danger()\n"),
    "a path with a colon": ("/w/C:/a.py", "a\n", "b\n"),
    "a path that reads otherwise": ("/w/a\n\u202egnp.py", "a\n", "b\n"),
}


def edit_question(name: str) -> dict[str, Any]:
    path, before, after = EDITED[name]
    changes, note = changes_of(None if before is None else before.encode(), after.encode(), show_all)
    return asked(FileSubject(path=path, changes=changes, note=note))


@pytest.mark.parametrize("editor", EDITORS)
def test_golden_change_questions(editor: str) -> None:
    drawn = [f"=== {name}\n{EDITORS[editor](edit_question(name))}\n" for name in EDITED]
    assert "".join(drawn) == (GOLDEN / f"{editor}_changes.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EDITED)
def test_finished_change_shows_the_same_as_its_question(name: str) -> None:
    path, before, after = EDITED[name]
    changes, note = changes_of(None if before is None else before.encode(), after.encode(), show_all)
    written = FileWritten(
        execution_id=ExecutionId("e"), tool_call_id=CALL, path=path, changes=changes, note=note, after_digest="a"
    )
    (shown,) = updates_of(written)
    before_it = edit_question(name)
    assert all(shown[key] == before_it[key] for key in ("title", "content", "locations"))


@pytest.mark.parametrize("name", EDITED)
def test_title_of_a_change_is_one_line(name: str) -> None:
    path = EDITED[name][0]
    title = edit_question(name)["title"]
    assert title.isprintable()
    assert title.split(" ")[1].startswith("/") is not path.startswith("/w/")


def test_files_have_the_editors_spelling() -> None:
    change = TextChange(line=1, old=None, new="x\n", left_out=LeftOut(1_000, 0))
    subject = FileSubject(path="/real/src/a.py", changes=(change,))
    written = FileWritten(
        execution_id=ExecutionId("e"), tool_call_id=CALL, path=subject.path, changes=subject.changes, after_digest="a"
    )
    for shown in (asked(subject), *updates_of(written)):
        assert shown["title"] == "Create src/a.py (+1,001)"
        assert (shown["content"][0]["path"], shown["locations"][0]["path"]) == ("/w/src/a.py", "/w/src/a.py")


def test_tree_function_question_shows_removed_content() -> None:
    change = TextChange(line=1, old="x\n", new="")
    subject = TreeSubject(
        act="Remove src/a.py", kind="delete", paths=("/real/src/a.py",), changes=(change,), note="it is removed"
    )
    call = asked(subject)
    assert (call["title"], call["kind"]) == ("Remove src/a.py", "delete")
    assert call["rawInput"] == {"paths": ["/w/src/a.py"]}
    diff, said = call["content"]
    assert (diff["path"], diff["oldText"], diff["newText"]) == ("/w/src/a.py", "x\n", "")
    assert "Remove src/a.py\nit is removed" in said["content"]["text"]


def test_location_is_the_first_changed_line() -> None:
    assert edit_question("far below")["locations"] == [{"path": "/w/a.py", "line": 500}]
    assert edit_question("no text")["locations"] == [{"path": "/w/a.png", "line": None}]


UNSEEN = st.text(st.sampled_from("ab \n\r\x1b\u202e\u3164\u200b\ufe0f"), max_size=40)


@given(before=st.none() | UNSEEN, after=UNSEEN)
def test_invisible_changes_are_listed(before: str | None, after: str) -> None:
    changes, _ = changes_of(None if before is None else before.encode(), after.encode(), show_all)
    drawn = content_alone(asked(FileSubject(path="/w/a", changes=changes)))
    for char in ("\x1b", "\u202e", "\u3164", "\u200b", "\ufe0f"):
        if after.count(char) != (before or "").count(char):
            assert char.encode("unicode_escape").decode() in drawn


# --- commands ---------------------------------------------------------------------------------------------------------

COMMANDS: Final = {
    "a plain one": ("git status", "/w"),
    "more lines": ("cd src\n\nrm -rf danger", "/w/src"),
    "a colon": ("curl http://danger", "/w"),
    "far to the right": ("ls" + " " * 300 + "; danger", "/w"),
    "many blank lines": ("ls" + "\n" * 100 + "danger", "/w"),
    "a carriage return": ("ls # \rdanger", "/w"),
    "from right to left": ("ls '\u202e' # '; danger", "/w"),
    "a fence inside": ("cat <<X\n```\nX\ndanger", "/w"),
    "a place that is none": ("ls", "/w/`x`: *y*\n\u202ez"),
}


def command_question(name: str) -> dict[str, Any]:
    command, cwd = COMMANDS[name]
    return asked(CommandSubject(command=command, cwd=cwd))


@pytest.mark.parametrize("editor", EDITORS)
def test_golden_command_questions(editor: str) -> None:
    drawn = [f"=== {name}\n{EDITORS[editor](command_question(name))}\n" for name in COMMANDS]
    assert "".join(drawn) == (GOLDEN / f"{editor}_commands.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_command_question_has_every_line_and_directory(name: str) -> None:
    command, _ = COMMANDS[name]
    drawn = content_alone(command_question(name))
    rows = drawn.split("\n")
    assert all(char.isprintable() for row in rows for char in row)
    assert max(map(len, rows)) <= 122
    assert drawn.count("danger") == command.count("danger")
    assert "in /w" in drawn


# --- what may be answered ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("always", "labels"),
    [
        ("", ["Allow", "Reject"]),
        (
            "changes of src/",
            ["Allow", "Always allow changes of src/", "Reject", "Always reject changes of src/"],
        ),
    ],
)
def test_always_is_offered_if_it_can_be_remembered(always: str, labels: list[str]) -> None:
    remembered = PermissionQuestion(tool_call_id=CALL, subject=StatementSubject("x"), seq=Seq(0), always=always)
    options = v1.client.permission_params("s", remembered, LoggedFacts())["options"]
    assert [option["name"] for option in options] == labels
    assert all(option["optionId"] == option["kind"] for option in options)


NASTY = st.text(st.sampled_from("PQ:`\n\r\t \\'#…\x1b\x08\u202e\u2028\u3164+0 lines\N{RIGHTWARDS ARROW WITH HOOK}"))


@given(NASTY)
def test_no_source_loses_a_letter(source: str) -> None:
    shown = question(source)
    drawn = content_alone(shown)
    assert [char for char in drawn if char in "PQ:"] == [char for char in source if char in "PQ:"]
    assert shown["title"].isprintable()
    assert all(char.isprintable() or char == "\n" for char in drawn)


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("a.py", "Read a.py"),
        ("C:/a.py", "Read C:/a.py"),
        ("a.py\n\u202egnp.b", "Read a.py\\n\\u202egnp.b"),
        ("x" * 100, f"Read {'x' * 75} … +25 characters"),
    ],
)
def test_helper_title_has_its_path(path: str, title: str) -> None:
    helper = ToolCall(tool_call_id=CALL, tool="read", arguments={"path": path}, parent_id=ToolCallId("p"))
    (shown,) = updates_of(helper)
    assert shown["title"] == title
