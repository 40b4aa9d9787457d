"""Outlines by grammars: a real text in each language, broken texts, and macros of C and C++."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.files.outline import extraction
from engine.files.outline.grammars import GrammarError, missing, outline_by_grammar, without_macros
from engine.files.outline.languages import LANGUAGES, language_of
from engine.files.outline.model import TOP, Outline
from tests.support.outlines import KEPT, outlined, readable, samples

CONFLICT = b"<<<<<<< ours\n%s=======\n%s>>>>>>> theirs\n"


def consistent(outline: Outline) -> None:
    """What must hold for any outline."""
    for index, symbol in enumerate(outline.symbols):
        assert 1 <= symbol.first_line <= symbol.last_line <= max(outline.lines, 1)
        assert TOP <= symbol.parent < index
        if symbol.parent != TOP:
            around = outline.symbols[symbol.parent]
            assert symbol.depth == around.depth + 1
            assert around.first_line <= symbol.first_line
            assert symbol.last_line <= around.last_line
            assert symbol.qualified == f"{around.qualified}.{symbol.name}" or len(symbol.qualified) == 300
        assert "\n" not in symbol.signature + symbol.name + symbol.doc


@pytest.mark.parametrize("path", samples(), ids=lambda path: path.name)
def test_the_outline_of_a_real_text_is_as_reviewed(path: Path) -> None:
    outline = outlined(path.read_bytes(), path.name)
    consistent(outline)
    assert readable(outline) == path.with_name(path.name + KEPT).read_text()


def test_every_language_has_a_sample_and_its_grammar() -> None:
    found = {language_of(path.name, path.read_bytes()) for path in samples()}
    assert found == set(LANGUAGES.values())
    assert missing() == []


@pytest.mark.parametrize("path", samples(), ids=lambda path: path.name)
def test_a_broken_text_has_an_outline_of_what_is_left(path: Path) -> None:
    text = path.read_bytes()
    whole = {symbol.name for symbol in outlined(text, path.name).symbols}
    lines = text.splitlines(keepends=True)
    half = len(lines) // 2
    ours = b"".join(lines[half : half + 5])
    for broken in (text[: len(text) // 2], b"".join([*lines[:half], CONFLICT % (ours, ours), *lines[half + 5 :]])):
        outline = outlined(broken, path.name)
        consistent(outline)
        if whole:
            assert whole & {symbol.name for symbol in outline.symbols}


def test_a_grammar_that_is_told_to_stop_makes_no_outline() -> None:
    with pytest.raises(GrammarError):
        outline_by_grammar(b"x = 1\n" * 20_000, LANGUAGES["python"], "a.py", lambda: True)


def test_a_long_text_is_outlined_up_to_a_line() -> None:
    text = "def first(): pass\ndef ünicode(): pass\ndef third(): pass\n".encode()
    outline = outline_by_grammar(text, LANGUAGES["python"], "a.py", lambda: False, most=30)
    assert [symbol.name for symbol in outline.symbols] == ["first"]
    assert (outline.complete, outline.lines, outline.has_errors) == (False, 3, False)


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("src/a.PY", b"", "python"),
        ("Rakefile", b"", "ruby"),
        ("tool", b"#!/usr/bin/env -S python3.11 -u\n", "python"),
        ("tool", b"#!/bin/sh\n", "bash"),
        ("a.h", b"int f(void);\n", "c"),
        ("a.h", b"#pragma once\nnamespace a {\n", "cpp"),
        ("a\\b\\c.tsx", b"", "tsx"),
    ],
)
def test_names_and_first_lines_tell_the_language(path: str, text: bytes, name: str) -> None:
    assert language_of(path, text) == LANGUAGES[name]


@pytest.mark.parametrize("path", ["LICENSE", ".py", "a.unknown", "py", "", "a.b/c"])
def test_of_other_texts_no_language_is_known(path: str) -> None:
    assert language_of(path, b"text\n") is None


def test_own_and_standard_imports_are_told_from_others() -> None:
    text = b"import os, acme.core\nfrom . import a\nfrom ..b import c\nfrom rich.text import Text\nimport acme_other\n"
    outline = outlined(text, "src/acme/views/page.py")
    assert outline.imports == ("os", "acme.core", ".", "..b", "rich.text", "acme_other")
    assert outline.from_outside == ("rich.text", "acme_other")


@pytest.mark.parametrize(
    ("language", "own", "others"),
    [
        ("python", ["os", "os.path", "collections.abc"], ["osmium", "anyio.abc"]),
        ("typescript", ["node:fs", "fs/promises", "path"], ["pathe", "@scope/fs", "nodemailer"]),
        ("go", ["fmt", "net/http"], ["golang.org/x/net", "github.com/a/b"]),
        ("rust", ["std::path::Path", "core"], ["stdx::a", "serde"]),
        ("java", ["java.util.Objects"], ["javax.inject.Inject", "android.content.Context"]),
        ("csharp", ["System", "System.Text"], ["Systematic", "Newtonsoft.Json"]),
        ("c", ["<stdio.h>", "<sys/types.h>"], ["<zlib.h>", "<yoga/Yoga.h>"]),
        ("cpp", ["<vector>", "<string.h>"], ["<boost/asio.hpp>", "<fmt.h>"]),
        ("php", [], ["System"]),
    ],
)
def test_what_comes_with_a_language_is_not_from_outside(language: str, own: list[str], others: list[str]) -> None:
    told = tuple(name.strip("<>") for name in others)
    assert extraction.outside([*own, *others], language, "a/b.x", "") == told


def test_methods_of_anonymous_classes_are_omitted() -> None:
    text = b"class A {\n  R r = new R() { void run() {} };\n  R f() {\n    return new R() { void run() {} };\n  }\n}\n"
    assert [symbol.qualified for symbol in outlined(text, "A.java").symbols] == ["A", "A.r", "A.f"]


def test_what_a_text_uses_and_does_not_declare_is_counted() -> None:
    outline = outlined(b"def load(path):\n    return Store(path).load(Store)\n", "a.py")
    assert outline.references == {"path": 2, "Store": 2}


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("# Name\n\n[![build](x.svg)](y) [docs](z)\n\nIt parses.\n", "It parses."),
        ("# Name\n\n> It parses,\n> and writes.\n\nMore.\n", "It parses, and writes."),
        ("# Name\n\n<p align=center>\n\n- [a](b)\n\nSee [docs](z) first.\n", "See [docs](z) first."),
        ("# Name\n\n[a](b) | [c](d)\n", ""),
    ],
)
def test_a_page_is_described_by_its_first_paragraph_of_text(text: str, about: str) -> None:
    assert outlined(text.encode(), "a.md").doc == about


def test_what_a_manifest_is_about_is_its_description() -> None:
    text = b'{"name": "a", "x": {"description": "no"}, "description": "It parses."}'
    assert outlined(text, "a.json").doc == "It parses."
    assert outlined(rb'{"description": "Its \"name\" too"}', "a.json").doc == r"Its \"name\" too"
    assert outlined(b'{"description": 3}', "a.json").doc == ""
    text = b"[project]\nname = 'a'\ndescription = 'It parses.'\n[b]\ndescription = 'no'\n"
    assert outlined(text, "a.toml").doc == "It parses."


def test_what_documents_a_function_is_the_first_sentence() -> None:
    text = b'def f():\n    """Parses what\n    it reads. And more.\n\n    Args: none.\n    """\n'
    assert outlined(text, "a.py").symbols[0].doc == "Parses what it reads."
    assert outlined(b'class A:\n    """--all of it"""\n', "a.py").symbols[0].doc == "--all of it"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("class API_EXPORT Foo : public Bar {\n public:\n  void run();\n};\n", ["Foo", "run"]),
        ("struct ALIGNED(16) Row {\n  int at();\n};\n", ["Row", "at"]),
        ("class API_EXPORT Foo final {\n};\n", ["Foo"]),
        ("enum class API_EXPORT Kind { A, B };\n", ["Kind"]),
        ("EXTERN_C_BEGIN\n\nAPI_EXPORT void open(int fd);\n\nEXTERN_C_END\n", ["open"]),
        ("API_EXPORT const_t *find(int key);\nint close(int fd);\n", ["find", "close"]),
    ],
)
def test_a_macro_in_front_of_a_name_hides_no_declaration(text: str, names: list[str]) -> None:
    outline = outlined(text.encode(), "a.hpp")
    assert [symbol.name for symbol in outline.symbols] == names
    assert not outline.has_errors


@pytest.mark.parametrize(
    "text",
    [
        "struct STAT found;\n",
        "class Foo {\n};\n",
        "enum {\n  FIRST,\n  SECOND\n};\n",
        "BOOL open(int fd);\n",
        "  LOG(INFO) << x;\n",
        "x = CONST_A +\n  CONST_B;\n",
    ],
)
def test_what_is_no_such_macro_stays(text: str) -> None:
    assert without_macros(text.encode(), "cpp") == text.encode()


def test_lines_and_places_stay_and_other_languages_are_left_alone() -> None:
    text = b"BEGIN_C\r\nclass API_EXPORT Foo {\n};\n"
    seen = without_macros(text, "c")
    assert (len(seen), seen.count(b"\n"), seen.index(b"Foo")) == (len(text), 3, text.index(b"Foo"))
    assert without_macros(text, "java") == text


@pytest.mark.parametrize("sign", ["&", "=", "/", "+", "$", "%"])
@pytest.mark.parametrize(("name", "line"), [("a.sh", "export K={}\n"), ("a.yaml", "k: {}\n"), ("a.toml", "k = {}\n")])
def test_the_text_of_a_value_ends_with_a_word(name: str, line: str, sign: str) -> None:
    key = f"Qw2eRt4yUi{sign}zXc5vBn6m"
    shown = [each.signature for each in outlined(line.format(key).encode(), name).symbols]
    assert [each for each in shown if key[:10] in each and key not in each] == []
