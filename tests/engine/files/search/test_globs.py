"""Globs: their matches, and equal rules for both search programs."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.search.globs import MAX_CHARS, read_glob


def matches(glob: str, path: str) -> bool:
    return re.fullmatch(read_glob(glob).expression, path) is not None


@pytest.mark.parametrize(
    ("glob", "inside", "outside"),
    [
        ("*.py", ["a.py", "src/a.py", ".py", "a/b/c.py"], ["a.pyc", "py", "a.py/b"]),
        ("Makefile", ["Makefile", "src/Makefile"], ["makefile", "Makefile.am"]),
        ("./Makefile", ["Makefile"], ["src/Makefile"]),
        ("src/*.py", ["src/a.py"], ["src/b/a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/b/c/a.py"], ["a.py", "srcs/a.py"]),
        ("**/*.py", ["a.py", "b/a.py"], ["a.pyi"]),
        ("**/test/**/x*y", ["test/xy", "a/test/b/c/x.y", "test/test/xy"], ["test", "a/xy", "test/x"]),
        ("src/", ["src/a", "src/b/c"], ["src", "a/src/b"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "b"]),
        ("**", ["a", "b/c"], []),
        ("a?c", ["abc", "aéc", "x/a.c"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "d/bx"], ["dx", "/x"]),
        ("[!a-c]x", ["dx", "-x"], ["ax", "a/x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["bx"]),
        ("[a&&b]x", ["ax", "&x", "bx"], ["cx"]),
        ("*.{ts,tsx}", ["a.ts", "b/a.tsx"], ["a.t", "a.ts,tsx"]),
        ("{src,lib}/{a,b{1,2}}.c", ["src/a.c", "lib/b2.c"], ["src/b.c"]),
        ("{a}", ["a"], ["{a}"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        (r"\{a\}", ["{a}"], ["a"]),
        ("a*b*c", ["abc", "axbxc", "abbcc"], ["ab", "acb", "abcd"]),
        ("a\nb", ["a\nb"], ["ab"]),
    ],
)
def test_a_glob_matches_whole_paths(glob: str, inside: list[str], outside: list[str]) -> None:
    assert [path for path in inside if not matches(glob, path)] == []
    assert [path for path in outside if matches(glob, path)] == []


@pytest.mark.parametrize(
    ("glob", "says"),
    [
        ("", "is empty"),
        ("./", "is empty"),
        ("{,a}", "is empty"),
        ("/etc/*", "must stay below `path`"),
        ("../*.py", "must stay below `path`"),
        ("a/../../b", "must stay below `path`"),
        ("{a,../b}", "must stay below `path`"),
        ("~/x", "must stay below `path`"),
        ("a[", r"has a \[ without its \]"),
        ("a/[b/c]", r"has a \[ without its \]"),
        ("{a,b", r"has a \{ without its \}"),
        ("a\\", "ends in a backslash"),
        ("[z-a]", "cannot be read: bad character range"),
        ("{a,b}" * 9, "200 alternatives at most"),
        ("x" * (MAX_CHARS + 1), "1000 characters at most, and this one has 1001"),
    ],
)
def test_an_invalid_glob_is_refused_with_a_sentence(glob: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_glob(glob)


def test_a_glob_of_many_stars_takes_no_time() -> None:
    expression = re.compile(read_glob("**/" + "*a" * 30 + "/**/" * 10 + "*a" * 30 + "b").expression)
    begun = time.process_time()
    assert expression.fullmatch("/".join(["a" * 200] * 15)) is None
    assert time.process_time() - begun < 5


@given(st.text(alphabet="a*?[]{},!\\/.-é\n", max_size=12))
def test_every_text_is_a_glob_or_is_refused(text: str) -> None:
    try:
        glob = read_glob(text)
    except ValueError:
        return
    assert all("\n" not in line for line in glob.ignore_lines)
    re.compile(glob.expression)
