"""What a remembered answer covers: never more than its words say."""

from __future__ import annotations

import pytest

from engine.core.ids import ToolCallId
from engine.log.events.session import PermissionAnswered, PermissionAsked
from engine.log.permissions import CommandSubject, FileSubject, PermissionSubject, StatementSubject, TreeSubject
from engine.log.redaction import Redactor, redact_struct
from engine.session.policy import covers, phrase, scope_of, words_of

ROOTS = ("/work", "/else")


def command(text: str, cwd: str = "/work") -> CommandSubject:
    return CommandSubject(command=text, cwd=cwd)


def file(path: str) -> FileSubject:
    return FileSubject(path=path)


def names(*paths: str) -> TreeSubject:
    return TreeSubject(act="Rename it", paths=paths)


def test_a_secret_that_becomes_known_later_is_not_shown_in_a_scope() -> None:
    key = "sk-Zq7RkW3xYb9TfLm2"
    scope = scope_of(command(f"curl -H {key} x"), ROOTS)
    redactor = Redactor([key])
    for event in (
        PermissionAsked(tool_call_id=ToolCallId("call_1"), scope=scope),
        PermissionAnswered(tool_call_id=ToolCallId("call_1"), scope=scope, outcome="allowed"),
    ):
        assert key in event.scope
        assert key not in redact_struct(redactor, event).scope


@pytest.mark.parametrize(
    ("remembered", "other", "covered"),
    [
        (StatementSubject("x = 1"), StatementSubject("y = 2"), True),
        (StatementSubject("x = 1"), StatementSubject("x = 1", note="It ran"), False),
        (StatementSubject("x = 1", note="It ran"), StatementSubject("x = 1"), False),
        (StatementSubject("x = 1"), StatementSubject("x = 1", "It ran with fewer rights."), False),
        (file("/work/src/a.py"), file("/work/src/b.py"), True),
        (file("/work/src/a.py"), file("/work/source.py"), False),
        (file("/work/src/a.py"), file("/work/src2/a.py"), False),
        (file("/work/README.md"), file("/work/README.md"), True),
        (file("/work/src"), file("/work/src.bak"), False),
        (file("/work/src/a.py"), command("/work/src/a.py"), False),
        (file("/work/src/a.py"), names("/work/src/b.py"), True),
        (file("/work/src/a.py"), names("/work/src/b.py", "/work/c.py"), False),
        (names("/work/src/a.py", "/work/src/b.py"), names("/work/src/c.py"), True),
        (names("/work/src/a.py", "/work/b.py"), names("/work/src/a.py", "/work/b.py"), False),
        (command("git status"), command("git  'status'"), True),
        (command("git status"), command("git status -s docs"), True),
        (command("git status"), command("git stash"), False),
        (command("git status"), command("git statusx"), False),
        (command("git status"), file("git status"), False),
        (command("git status"), command("git status", "/work/src"), False),
        (command("./check"), command(".//./check -q"), True),
        (command("./check"), command("./check", "/work/src"), False),
        (command("./src/check"), command("./check", "/work/src"), False),
        (command("../check", "/work/src"), command("./check"), False),
        (command("pytest -q tests/a.py"), command("pytest -q"), False),
    ],
)
def test_an_answer_covers_what_it_names_and_no_more(
    remembered: PermissionSubject, other: PermissionSubject, covered: bool
) -> None:
    assert covers(scope_of(remembered, ROOTS), other) is covered


@pytest.mark.parametrize(
    "text",
    [
        "git status; rm -rf .",
        "git status | sh",
        "git status\nrm x",
        "git status $(rm x)",
        "git status > x",
        "git status $HOME",
        'git status "$(rm x)"',
        "git status *",
        "git status #",
        "git status \\; rm",
        "git status 'open",
        "PATH=. git status",
        "! git status",
        "",
        " ",
    ],
)
def test_ambiguous_command_is_covered_by_the_same_text_alone(text: str) -> None:
    assert words_of(text) is None
    scope = scope_of(command(text), ROOTS)
    assert bool(scope) == bool(text.strip())
    assert covers(scope, command(text)) == bool(text.strip())
    for other in (command(f"{text} -x"), command(text, "/work/src"), command("git status")):
        assert not covers(scope, other)
    outside = CommandSubject(command=text, cwd="/work", outside=True)
    assert not covers(scope, outside)
    assert not covers(scope_of(command("git status"), ROOTS), command(text))


def test_overlong_command_is_judged_quickly() -> None:
    assert words_of("x" * 2_000) is not None
    assert words_of("x " * 1_000_000) is None


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (StatementSubject("x"), "all statements of this session"),
        (file("/work/src/a.py"), "changes of src/"),
        (file("/else/lib/a.py"), "changes of /else/lib/"),
        (command("git commit -m 'two words'"), "commands that begin with git commit -m 'two words'"),
        (command("./check", "/work/src"), "commands that begin with ./src/check in src"),
        (command("./check", "/else"), "commands that begin with /else/check in /else"),
        (command("a | b"), "exactly this command: a | b"),
        (command(""), ""),
    ],
)
def test_a_scope_is_said_in_words(subject: PermissionSubject, words: str) -> None:
    assert phrase(scope_of(subject, ROOTS), "/work") == words
