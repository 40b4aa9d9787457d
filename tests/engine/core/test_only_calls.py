"""Which statements only call tools, by their source."""

from __future__ import annotations

import pytest

from engine.core.only_calls import only_calls


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
