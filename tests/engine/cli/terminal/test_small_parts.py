"""Pasted texts, mentions, and the keys of questions."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from engine.cli.terminal.line_editor import Pastes
from engine.cli.terminal.mentions import with_mentions
from engine.cli.terminal.questions import answered, asked, chosen, options
from engine.cli.terminal.rendering import HIGHLIGHTED_CHARS, indented, painted, python
from engine.core.ids import Seq, ToolCallId
from engine.log.events.conversation import Attachment
from engine.log.permissions import CommandSubject, PermissionQuestion, StatementSubject


def test_a_long_paste_is_a_label_until_it_is_sent() -> None:
    pastes = Pastes()
    text = "\n".join(map(str, range(100)))
    assert pastes.insert("a\r\nb\rc") == "a\nb\nc"
    label = pastes.insert(text.replace("\n", "\r\n"))
    assert label == "[pasted text 1: 100 lines]"
    assert pastes.insert("x" * 5_000) == "[pasted text 2: 1 line]"
    assert pastes.expanded(f"see {label}, [pasted text 7: 3 lines] and {label}") == (
        f"see {text}, [pasted text 7: 3 lines] and {text}"
    )


def test_what_is_there_is_mentioned_and_everything_else_is_text(tmp_path: Path) -> None:
    (tmp_path / "a b.md").touch()
    (tmp_path / "x.py").touch()
    cwd = str(tmp_path)
    mention = Attachment(uri=(tmp_path / "x.py").as_uri(), name="x.py")
    assert with_mentions("no mention, me@x.py, @nothing", cwd) == ["no mention, me@x.py, @nothing"]
    assert with_mentions("look at @x.py, then (@x.py)", cwd) == ["look at ", mention, ", then (@x.py)"]
    assert with_mentions("@x.py", cwd) == [mention]
    assert with_mentions("@x\x00", cwd) == ["@x\x00"]


def test_only_what_can_be_remembered_is_offered_for_always() -> None:
    once = PermissionQuestion(tool_call_id=ToolCallId("c"), subject=StatementSubject("1"), seq=Seq(0))
    subject = CommandSubject(command="git status", cwd="/p")
    ever = PermissionQuestion(tool_call_id=ToolCallId("c"), subject=subject, seq=Seq(0), always="`git status`")
    assert [option.key for option in options(once)] == ["y", "n"]
    assert [(option.key, option.answer.outcome, option.answer.remember) for option in options(ever)] == [
        ("y", "allowed", False),
        ("a", "allowed", True),
        ("n", "rejected", False),
        ("N", "rejected", True),
    ]
    assert chosen(once, "a") is None
    assert [option.key for option in options(replace(once, rest=True))] == ["y", "s", "n"]
    (rest,) = (option.answer for option in options(replace(ever, rest=True)) if option.key == "s")
    assert (rest.outcome, rest.rest, rest.remember) == ("allowed", True, False)
    assert "  a    always allow `git status`\n" in painted(asked(ever), in_colour=False)
    assert painted(answered(chosen(ever, "N")), in_colour=False) == "  N: never allow `git status`\n"


def test_colours_change_no_character_of_a_source() -> None:
    source = "@d\nclass A:\n\t'''doc'''\n\n\n    def f(self): return 0x1f if not 'a\\'' else None  # é\n\n"
    for text in (source, "not python ' at all\n\n", "", "x" * (HIGHLIGHTED_CHARS + 1)):
        assert "".join(piece for _, piece in python(text)) == text
    assert {style for style, _ in python(source)} > {"keyword", "string", "number", "comment", "defined"}


def test_an_indent_stands_before_each_line_that_holds_something() -> None:
    assert painted(indented([("", "a\n\nb"), ("quiet", "c\nd")], "  ", True), in_colour=False) == "  a\n\n  bc\n  d"
    assert painted(indented([("", "a\nb")], "  ", False), in_colour=False) == "a\n  b"
