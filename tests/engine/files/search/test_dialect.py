"""Our own search accepts ripgrep's regular expressions, and says why it refuses others."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from engine.files.search.commands import read_files
from engine.files.search.walk.dialect import NotInDialectError, compiled
from engine.files.search.walk.search import Searcher
from tests.support.searching import RIPGREP

LINES = (
    "foo bar", "foobar", "Foo", "a.b", "a+b", "x{2}", "xx", "aXb", "  indented", "tab\there", "é accent", "ß", "SS ss",
    "αβγ", "٣ digit", "über", "_under_score", "end foo", "[br]", "{a}", "back\\slash", 'quote "q"', "", "ﬁ", "\u017f",
    "\u212a", "k", "a-b", "a]b", "^caret", "$dollar", "combining e\u0301", "zero\u200dwidth", "日本語", "12", "1",
    "a1b2", "word word", "cat", "cot", "cut", "foo\x0bvt", "foo\x0cff", "a|b", "tail ",
)  # fmt: skip
TEXT = "\r\n".join(LINES[:10]) + "\r\n" + "\n".join(LINES[10:])

BOTH = (
    "foo", "^foo", "foo$", "^$", "(?i)foo", "f(?i)oo", r"\bfoo\b", r"\Bbar", r"a\.b", r"a\+b", r"x\{2\}", "x{2}",
    "x{2,}", "x{1,1}$", r"\{a\}", "a}", "[a-c]", "[^a-z]+$", r"[[:alpha:]]+\d", "[[:^space:]]", r"[\w--_]+$",
    "[a-z&&[^aeiou]]{3}", "[]a]b", "[^]]$", r"\[br\]", r"\w+$", r"^\w+$", r"^\s", r"\s\S", r"\d", r"\D$",
    r"\p{Greek}", r"\p{Lu}", r"\pL\pN", r"\P{L}$", r"^\p{L}+$", r"\x41|\x{3b1}", r"\u00e9", r"\u{e9}", r"\xe9",
    "(?:a|b)+", "(?P<n>o)o", "(?:a+)+b", r"\Alast", r"\Aend", r"(?x)f\x6f o", "(?s).+", "(?u)é", "(?im)^FOO$",
    "(?-i:foo)", "(?-m)^foo", "|", "a||b", "a|", "|foo", "()", r"\t", r"\v", r"\f", "é", "(?i)É", "(?i)ss",
    "(?i)ß", "(?i)k", "(?i)\u212a", "(?i)\u017f", "ﬁ", "(?i)FI", "^..$", "日.語", r"\-", ".", ".*", "a.*?b", "c[aou]t",
    r"\p{sc=Greek}", r"\d{2}", "[a-zA-Z_][a-zA-Z0-9_]*", r"[\s\S]", "(?i:FOO)b", r"[\]\[]", r"[\^a]", r"[a\-c]",
    "[a~~b]", "[a||b]", r"[\d\-x]", "[:alpha:]", r"foo\b bar", "^^foo", "foo$$", r"\$d", r"\^c", "(foo|bar)$",
    "(?:)", "x*", "a{0}", r"\w\u{301}", r"[\u{e0}-\u{ff}]", "[é-ü]", "(?i)[k]", "[[:word:]]+$", "[^[:^ascii:]]$",
)  # fmt: skip
"""What every version of ripgrep from 13 takes."""
NEITHER = (
    "(", ")", "(?", "(?P<", "[", "[a", "[[]", "[z-a]", r"[a-\d]", "*a", "+", "?", "\\", "{a}", "x{,2}", r"(a)\1",
    "(?=a)", "(?!a)b", "(?<=a)b", "(?<!a)b", "(?>a)", r"\h", r"\R", r"\X", r"\K", r"\G", r"\Q.\E", r"\Z", r"\é",
    r"\1", "(?P=n)", "(?#c)a", "(?i", "[[:alpha:]", r"\p{Foo}", r"\p{L", r"a\nb", r"\n", r"\r", r"\x0a", "a{2,1}",
    r"\u{d800}", r"\x{110000}", "(?P<a>x)(?P<a>y)", "(?<n",
)  # fmt: skip
RIPGREP_ALONE = {
    r"\<foo": "unrecognized escape sequence",
    r"\b{start}foo": "must begin a count",
    "(?U)o+": "unrecognized group or flag",
    "(?R)foo$": "unrecognized group or flag",
    r"(?-u)\w": "unrecognized group or flag",
    "a++": "a repetition of a repetition",
    "a{1}{2}": "a repetition of a repetition",
    "a)(b": "unbalanced parenthesis",
    "[[:foo:]]": "unrecognized character class",
}


def theirs(pattern: str, directory: Path) -> list[int] | None:
    (directory / "text").write_bytes(TEXT.encode())
    arguments = ["--no-config", "--null", "--heading", "--with-filename", "--line-number", "--crlf", "-e", pattern]
    done = subprocess.run([RIPGREP, *arguments, "--", "./text"], cwd=directory, capture_output=True)
    return None if done.returncode == 2 else [line for file in read_files(done.stdout) for line in file.read().matches]


def ours(pattern: str) -> list[int] | None:
    try:
        searcher = Searcher(*compiled(pattern), context=0, longest=1_000)
    except NotInDialectError:
        return None
    return [
        line
        for file in read_files(b"text\0" + searcher.search(io.BytesIO(TEXT.encode())))
        for line in file.read().matches
    ]


@pytest.mark.slow
def test_our_search_finds_the_lines_that_ripgrep_finds(tmp_path: Path) -> None:
    found = {pattern: (ours(pattern), theirs(pattern, tmp_path)) for pattern in BOTH}
    assert {pattern: both for pattern, both in found.items() if both[0] != both[1] or both[0] is None} == {}


def test_what_ripgrep_refuses_our_own_search_refuses(tmp_path: Path) -> None:
    found = {pattern: (ours(pattern), theirs(pattern, tmp_path)) for pattern in NEITHER}
    assert {pattern: both for pattern, both in found.items() if both != (None, None)} == {}


@pytest.mark.parametrize(("pattern", "says"), RIPGREP_ALONE.items())
def test_what_newer_ripgreps_alone_know_is_refused_by_name(pattern: str, says: str) -> None:
    with pytest.raises(NotInDialectError, match=says):
        compiled(pattern)


def test_a_message_names_the_place_in_the_pattern() -> None:
    with pytest.raises(NotInDialectError, match=r"missing \) at position 2$"):
        compiled("(a")
