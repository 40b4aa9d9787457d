"""Macros of C and C++ hide no declaration, and nothing else is put out of sight."""

from __future__ import annotations

import pytest

from engine.files.outline.grammars import without_macros
from tests.support.outlines import outlined


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
