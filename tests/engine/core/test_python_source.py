"""Source that is parsed or is not Python, the tags that it sets, and statements that only call tools."""

from __future__ import annotations

import ast

import pytest

from engine.core import python_source
from engine.core.python_source import MOST_TAGS, TAG_CHARS, is_tag, only_calls, parsed, tags_in, without_leading_tags


@pytest.mark.parametrize("source", ["(", "\0", "(" * 1_000 + ")" * 1_000, "-" * 100_000 + "1"])
def test_source_that_cannot_be_parsed_has_no_tree(source: str) -> None:
    assert parsed(source) is None


def test_error_of_concurrent_parsers_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def parse(source: str) -> ast.Module:
        tries.append(source)
        if len(tries) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=189, after=62)")
        return ast.Module([], [])

    monkeypatch.setattr(python_source.ast, "parse", parse)
    assert parsed("x") is not None
    assert tries == ["x", "x"]


LONG = "x" * TAG_CHARS


@pytest.mark.parametrize(
    ("source", "tags"),
    [
        ("# tag: a\nx = 1", ("a",)),
        ("x = 1\nif x:\n    #tag:a b  \n    y = 2\n# tag: c\n# tag: a b\n", ("a b", "c")),
        ("x = 1  # tag: a", ()),
        ("text = '''\n# tag: a\n'''", ()),
        ("# tags: a\n## tag: b\n# a tag: c", ()),
        (f"# tag:\n# tag: {LONG}x\n# tag: a\u200bb\n# tag: {LONG}", (LONG,)),
        ("# tag: a\nx = (", ("a",)),
        ("# tag: a\r\nx = 1\r\n", ("a",)),
        (f"# tag: a{' ' * 200_000}b\n{' ' * 50_000}x", ()),
        (f"# tag: a\n{' ' * (1 << 18)}", ()),
    ],
)
def test_tags_are_comment_lines(source: str, tags: tuple[str, ...]) -> None:
    assert tags_in(source) == tags


def test_tags_of_a_statement_are_limited() -> None:
    names = [f"t{number}" for number in range(MOST_TAGS + 1)]
    assert tags_in("\n".join(f"# tag: {name}" for name in names)) == tuple(names[:-1])


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\u200bb", f"{LONG}x"])
def test_invisible_or_long_text_is_no_tag(name: str) -> None:
    assert not is_tag(name)


@pytest.mark.parametrize(
    ("source", "rest"),
    [
        ("\n# tag: a\n\n#tag:b\n\nx = 1\n# tag: c", "x = 1\n# tag: c"),
        ("# a note\n# tag: a", "# a note\n# tag: a"),
        ("# tag: a\n# tag: b\n", "# tag: a\n# tag: b\n"),
    ],
)
def test_leading_tags_are_left_out_of_a_title(source: str, rest: str) -> None:
    assert without_leading_tags(source) == rest


@pytest.mark.parametrize(
    ("source", "tool"),
    [
        ('edit("a.py", "x", "y")', "edit"),
        ('tests = bash("make test", timeout=300)', "bash"),
        ('print(bash("make test").output)', "bash"),
        ("# A comment.\nread(path)\n", "read"),
        ('write("a.py", f"{text}\\n" + "end")', "write"),
        ('import os\nos.remove("a")', "remove"),
        ("import shutil\nshutil.rmtree(folder)", "rmtree"),
        ('read("a").upper()', None),
        ("write('a', render())", None),
        ("write('a', [x for x in y])", None),
        ('x = 1\nread("a")', None),
        ('read("a"); read("b").upper()', None),
        ('a = b = read("a")', None),
        ('a.b = read("a")', None),
        ('print(read("a"), read("b"))', None),
        ('view("a")', None),
        ('self.read("a")', None),
        ('if True: read("a")', None),
        ("import os", None),
        ("", None),
        ("read(", None),
        ("\0", None),
        (f"read({'(' * 5_000}", None),
        ('"\\d"', None),
        (f"write('a', '{'x' * 200_000}')", None),
    ],
)
def test_only_call(source: str, tool: str | None) -> None:
    assert only_calls(source) == ((tool,) if tool else ())


def test_several_calls() -> None:
    source = 'import os\nx = edit("a.py", "x", "y")\nos.rename("a.py", "b.py")\nprint(read("b.py"))'
    assert only_calls(source) == ("edit", "rename", "read")
