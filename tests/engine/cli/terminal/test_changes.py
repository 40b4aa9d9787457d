"""A changed file as a diff: every line that differs, with its number and its mark."""

from __future__ import annotations

from engine.cli.terminal.rendering import diff, painted
from engine.core.execution import TextChange


def text(*changes: TextChange, note: str = "") -> str:
    return painted(diff("a.py", changes, note), in_colour=False)


def test_a_file_shown_whole_is_reduced_to_what_differs_and_three_lines_around() -> None:
    old = "".join(f"line {number}\n" for number in range(1, 31))
    new = old.replace("line 10\n", "line ten\nand more\n").replace("line 25\n", "")
    assert text(TextChange(line=1, old=old, new=new)) == (
        "a.py  +2 -2\n"
        " 7   line 7\n 8   line 8\n 9   line 9\n10 - line 10\n10 + line ten\n11 + and more\n"
        "12   line 11\n13   line 12\n14   line 13\n"
        "...\n"
        "23   line 22\n24   line 23\n25   line 24\n25 - line 25\n26   line 26\n27   line 27\n28   line 28\n"
    )


def test_lines_of_later_regions_are_counted_as_they_are_now() -> None:
    first = TextChange(line=3, old="a\n", new="a\nb\nc\n")
    second = TextChange(line=50, old="x\n", new="y\n")
    assert text(first, second) == "a.py  +3 -1\n 3   a\n 4 + b\n 5 + c\n...\n50 - x\n52 + y\n"


def test_a_new_file_an_emptied_one_and_one_that_is_no_text() -> None:
    assert text(TextChange(line=1, old=None, new="a\nb\n")) == "a.py (new file)  +2 -0\n1 + a\n2 + b\n"
    assert text(TextChange(line=1, old="a\n", new="")) == "a.py  +0 -1\n1 - a\n"
    assert text(note="binary, 4 bytes -> binary, 8 bytes") == "a.py\nbinary, 4 bytes -> binary, 8 bytes\n"


def test_what_a_line_ends_with_is_seen_where_it_is_what_differs() -> None:
    assert text(TextChange(line=1, old="a\n", new="a\r\n")) == "a.py  +1 -1\n1 - a\n1 + a\\r\n"
    assert text(TextChange(line=1, old="a\n", new="a")) == "a.py  +1 -1\n1 - a\n1 + a (no newline at the end)\n"


def test_line_ends_that_are_the_files_own_are_no_change() -> None:
    assert text(TextChange(line=1, old="a\r\nb\r\n", new="a\r\nc\r\n")) == "a.py  +1 -1\n1   a\n2 - b\n2 + c\n"
    assert "a\\r" in text(TextChange(line=1, old="a\r\nb\r\n", new="a\r\nb\n"))


def test_lines_are_coloured_by_what_became_of_them() -> None:
    styles = [style for style, _ in diff("a.py", [TextChange(line=1, old="a\nb\n", new="a\nc\n")])]
    assert styles == ["strong", "", "removed", "added"]
    assert painted([("added", "1 + c\n")], in_colour=True) == "\x1b[32m1 + c\x1b[0m\n"
