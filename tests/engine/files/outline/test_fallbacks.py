"""Outlines by indentation, comments of declarations, nesting, parser messages, and finding symbols."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.files.outline import extraction, parser_messages
from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.model import SYMBOLS, Declared, Outline, find_symbol, nested
from engine.files.outline.parser_messages import (
    CHUNK,
    LOST,
    NONE,
    Incoming,
    Reply,
    Request,
    framed,
    reply_of,
    request_of,
)


def test_indentation_tells_blocks_and_declarations_and_not_what_functions_do() -> None:
    text = b"server:\n  port: 1\n  hosts:\n    - a\n\nfn main() {\n    if x {\n        y();\n    }\n}\nplain\n"
    outline = outline_by_indentation(text)
    assert [(one.kind, one.qualified, one.first_line, one.last_line) for one in outline.symbols] == [
        ("block", "server", 1, 4),
        ("block", "server.hosts", 3, 4),
        ("function", "main", 6, 10),
    ]
    assert outline.symbols[2].signature == "fn main()"


def test_lines_without_end_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.files.outline.fallbacks.LINES", 3)
    outline = outline_by_indentation(b"def a():\n  b\n" * 3)
    assert (outline.complete, outline.lines, len(outline.symbols)) == (False, 6, 2)


@given(st.binary(max_size=400))
def test_indentation_outlines_anything(text: bytes) -> None:
    outline = outline_by_indentation(text)
    for index, symbol in enumerate(outline.symbols):
        assert 1 <= symbol.first_line <= symbol.last_line <= outline.lines
        assert symbol.parent < index


@pytest.mark.parametrize(
    ("style", "lines", "said"),
    [
        ("#", ["# Says what", "# it does", "def f():"], "Says what it does"),
        ("#", ["# Says what it does, e.g. this.", "# Well: more.", "def f():"], "Says what it does, e.g. this."),
        ("#", ["# Says what it", "# Does: of code that is not prose", "def f():"], "Says what it"),
        ("#", ["# Says what is in the", "# Environment", "def f():"], "Says what is in the Environment"),
        ("#", ["# Says v1.2 of it, of these:", "# - a", "def f():"], "Says v1.2 of it, of these"),
        ("#", ["# Says it:", "def f():"], "Says it"),
        ("#", ["# Registries", "def f():"], ""),
        ("#", ["x = 1  # not about f", "def f():"], ""),
        ("#", ["# far", "", "def f():"], ""),
        ("//", ["/** Says so. */", "@Test", "void f() {"], "Says so."),
        ("//", ["/*", " * Says", " * so", " * @param x more", " */", "#[test]", "fn f() {"], "Says so"),
        ("//", ["/** @param x more */", "void f() {"], ""),
        ("//", ["x(); /* of", "x */", "void f() {"], ""),
        ("//", ["/// Says so", "fn f() {"], "Says so"),
        ("--", ["--- Says so", "function f()"], "Says so"),
        ("/*", ["* { a: b }", "p {"], ""),
        ("", ["# no comment", "# Heading"], ""),
    ],
)
def test_the_comment_above_a_declaration_is_about_it(style: str, lines: list[str], said: str) -> None:
    assert extraction.above(lines, len(lines) - 1, style) == said


def test_a_comment_with_long_lines_is_read_in_part() -> None:
    lines = ["# " + "A word. " * 10_000] * 40
    assert extraction.above([*lines, "def f():"], 40, "#") == "A word."
    assert len(extraction.at_top(lines, "#")) < 41_000
    assert extraction.first_sentence("x" * 5_000) == "x" * 999 + "…"


@pytest.mark.parametrize(
    ("style", "text", "said"),
    [
        ("#", "#!/bin/sh\n# Does it\n# well.\n\nx", "Does it well."),
        ("#", "#!/bin/sh\n\n# Does it\n# well.\n\nx", "Does it well."),
        ("//", "// Copyright 2020 X\n\n// Does it.\n\npackage x", "Does it."),
        ("//", "/* Licensed so */\n\n/**\n * Does it.\n *\n * More.\n */\n", "Does it."),
        ("//", "/*\n * Does it.\n * https://a.b/c\n *\n * Copyright 2020 X\n */\n", "Does it."),
        ("//", "/*\n * a.c\n *\n * Copyright 2020 X\n */\n// Does it.\n", "Does it."),
        ("//", "int x;\n// not at the top\n", ""),
        ("//", "/* without end\n", ""),
    ],
)
def test_the_first_comment_describes_the_text_unless_legal(style: str, text: str, said: str) -> None:
    assert extraction.at_top(text.split("\n"), style) == said


def test_what_is_around_comes_first_and_names_what_is_within() -> None:
    inner = Declared("function", "f", 5, 9, 2, 3)
    symbols = nested([inner, Declared("class", "A", 0, 10, 1, 4, public=False), inner, inner._replace(kind="macro")])
    assert [(one.kind, one.qualified, one.parent, one.depth, one.public) for one in symbols] == [
        ("class", "A", -1, 0, False),
        ("method", "A.f", 0, 1, False),
    ]


def test_symbols_without_end_are_bounded_in_number_and_depth() -> None:
    assert len(nested(Declared("key", str(n), n, n + 1, n, n) for n in range(1, SYMBOLS + 10))) == SYMBOLS
    deep = nested(Declared("class", "A", n, 1000 - n, 1, 1) for n in range(400))
    assert max(one.depth for one in deep) <= 20
    assert max(len(one.qualified) for one in deep) <= 300


MARK = bytes((0xC0, 0xC1, *range(0xF5, 0x100)))
BODIES = st.binary(max_size=40) | st.lists(st.sampled_from([MARK[:1], MARK[:-1], MARK[-1:], MARK, b"\0", b"\1"])).map(
    b"".join
)


def received(incoming: Incoming, data: bytes, size: int = CHUNK) -> list[tuple[int, bytes]]:
    return [found for at in range(0, len(data), size) for found in incoming.feed(data[at : at + size])]


@given(st.lists(BODIES, max_size=4), st.integers(1, 30))
def test_messages_come_through_in_any_pieces(bodies: list[bytes], size: int) -> None:
    sent = [Request("a", body) for body in bodies]
    data = b"".join(framed(number, each) for number, each in enumerate(sent, 1))
    found = received(Incoming(), data + LOST, size)
    assert found.pop() == (NONE, b"")
    assert [(number, request_of(body)) for number, body in found] == list(enumerate(sent, 1))


@given(BODIES, st.integers(0), st.integers(1, 30))
@example(b"", len(MARK) - 1, 1)  # a mark alone, before an END
@example(b"", len(MARK), 99)  # all but the first END
def test_an_incomplete_message_does_not_damage_later_ones(body: bytes, cut: int, size: int) -> None:
    first, second = framed(1, Request("a", body)), framed(2, Request("b", b"x", references=True))
    cut = 1 + cut % (len(first) - len(MARK) - 2)
    # Its sender stopped after so many bytes, or an earlier reader ended when it had read them.
    for left in (first[:cut], first[cut:]):
        found = received(Incoming(), left + second, size)
        assert [(number, request_of(message)) for number, message in found] == [(2, Request("b", b"x", True))]


def test_endless_bytes_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_messages, "LARGEST", 10)
    incoming = Incoming()
    assert received(incoming, framed(1, Request("a", bytes(50))), 5) == []
    assert [number for number, _ in received(incoming, framed(2, Request("a", b"")))] == [2]


def test_an_outline_comes_through_as_it_was() -> None:
    reply = Reply(Outline(tier="indentation", symbols=nested([Declared("key", "ü", 0, 1, 1, 1)]), references={"a": 1}))
    assert [reply_of(body) for _, body in received(Incoming(), framed(7, reply))] == [reply]


SOURCE = b"""\
class Store:
    def open(self):
        return 1

    def close(self):
        return 2

class Cache:
    class Entry:
        def open(self):
            return 3

def open(path):
    return 4

def Cached():
    return 5
"""


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ("class Store", 1),
        ("Store", 1),
        ("Store.open", 2),
        ("Store::close", 5),
        ("Store#close", 5),
        ("def Store.close(self):", 5),
        ("close()", 5),
        ("Entry.open", 10),
        ("Cache.Entry.open", 10),
        ("open", 13),
        ("async def open(path) -> None:", 13),
        ("cached", 16),
        ("class store", 1),
    ],
)
def test_a_symbol_is_found_by_what_is_written_for_it(wanted: str, line: int) -> None:
    found = find_symbol(outline_by_indentation(SOURCE), wanted).symbol
    assert found.first_line == line


def test_where_none_fits_the_names_inside_its_beginning_are_told_else_the_outermost() -> None:
    outline = outline_by_indentation(SOURCE)
    assert find_symbol(outline, "Store.opn").symbol is None
    assert {name.partition(".")[0] for name in find_symbol(outline, "Store.opn").suggested} == {"Store"}
    assert "." not in find_symbol(outline, "zzzzzz").suggested[0]
    assert find_symbol(outline_by_indentation(b"\n"), "zzzzzz") == (None, ())
    assert find_symbol(outline, " ") == (None, ())


@pytest.mark.parametrize("key", ["3f8a9c2e7b1d4056a8e1f2c3b4d5e6f7", "correct_horse_battery", "glacier.museum/velvet"])
def test_the_names_that_are_told_do_not_depend_on_a_part_of_a_word(key: str) -> None:
    outline = outline_by_indentation(f"def first:\n  a\nclass Staging_key_{key}:\n  b\n".encode())
    told = {
        find_symbol(outline, f"{key[start:end]}{more}").suggested
        for start in (0, 1)
        for end in range(2, 31)
        for more in ("", "_x", ".y")
    }
    assert told == {find_symbol(outline, "zzzzzz").suggested}


def test_a_kind_chooses_between_symbols_of_one_name() -> None:
    outline = outline_by_indentation(b"def run():\n    pass\n\nclass run:\n    pass\n")
    assert find_symbol(outline, "class run").symbol == outline.symbols[1]
    assert find_symbol(outline, "def run").symbol == outline.symbols[0]
    assert find_symbol(outline, "struct run").symbol == outline.symbols[1]


@pytest.mark.parametrize("key", ["00Zq7RkW3xYb9TfLm2Pc", "q83v+/8gh/IjKl", "Mm01Qw7xLk9->Tz5", "4x$k9!m2@q7#z5"])
@pytest.mark.parametrize("line", ["{}", "use {}", "type {}", "class {} begins"])
def test_a_name_is_a_whole_word(key: str, line: str) -> None:
    (symbol,) = outline_by_indentation(f"{line.format(key)}\n  inner\n".encode()).symbols
    word = re.split("[>]", key)[0]
    assert symbol.name.strip("-") in (word.strip("-"), "use")
