"""Level 3 shows changes since the model last read the node, within its budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.tokens import count
from engine.files.detail.changes import render
from engine.files.detail.scene import Scene
from engine.files.document import Place
from engine.files.rendered import RenderedView
from engine.files.revision import Revision, without_content
from tests.support.boards import Desk
from tests.support.examples import examples
from tests.support.revisions import decoded, from_text

_LINES = st.lists(
    st.one_of(
        st.sampled_from(["", " ", "\t", "}", "/", "\r", "def f():", "    return 1", "漢字" * 9, "x" * 9_000, "\0"]),
        st.text(max_size=30),
    ),
    max_size=60,
)


def _diff(before: Revision | None, after: Revision, budget: int = 2000, line: int = 0, shown_in: int = 12) -> str:
    rendered = _render(before, after, budget, line, shown_in)
    assert rendered.tokens == count(rendered.text) <= budget
    return rendered.text


def _render(before: Revision | None, after: Revision, budget: int, line: int = 0, shown_in: int = 12) -> RenderedView:
    place = Place(min(line, max(len(after.lines) - 1, 0)), 0)
    return render(Scene(revision=after, place=place, budget=budget, count=count, last_shown=before, shown_in=shown_in))


@examples(2)
@given(_LINES, _LINES, _LINES, st.one_of(st.integers(1, 60), st.integers(1, 100_000)), st.integers(0, 90))
def test_a_difference_never_passes_its_budget_and_is_exact(
    shared: list[str], old: list[str], new: list[str], budget: int, line: int
) -> None:
    before = from_text("\n".join((*shared, *old, *shared)))
    after = from_text("\n".join((*shared, *new, *shared)))
    first = _render(before, after, budget, line)
    assert first.tokens == count(first.text) <= budget
    assert first.text == "" or first.text.endswith("\n")
    assert _render(before, after, budget, line) == first


def test_changes_are_a_unified_diff_below_a_count() -> None:
    before = from_text("class Foo:\n    a = 1\n    b = 2\n    c = 3\n    d = 4\n")
    after = from_text("class Foo:\n    a = 1\n    b = 2\n    c = 33\n    d = 4\n    e = 5\n")
    assert _diff(before, after) == (
        "2 changes since statement 12: +2 -1\n"
        "@@ -1,5 +1,6 @@\n"
        " class Foo:\n"
        "     a = 1\n"
        "     b = 2\n"
        "-    c = 3\n"
        "+    c = 33\n"
        "     d = 4\n"
        "+    e = 5\n"
    )


def test_an_unchanged_revision_says_since_which_statement() -> None:
    assert _diff(from_text("a\n"), from_text("a\n")) == "(unchanged since statement 12)\n"
    assert _diff(from_text("a\n"), from_text("a\n"), shown_in=0) == "(unchanged since it was last shown)\n"


def test_what_was_never_shown_says_so_in_one_line() -> None:
    assert _diff(None, from_text("a\nb\n")) == (
        "(not shown before, so there is no difference; lod=0 shows its 2 lines)\n"
    )


def test_changed_line_ends_are_one_sentence() -> None:
    before, after = decoded(b"a\nb\nc\n"), decoded(b"a\r\nb\r\nc\r\n")
    assert _diff(before, after) == "(only the form changed since statement 12: LF became CRLF)\n"
    assert _diff(before, decoded(b"a\r\nB\r\nc")) == (
        "1 change since statement 12: +1 -1, LF became CRLF, the newline at the end was removed\n"
        "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )


def test_a_change_deep_in_a_huge_line_is_seen() -> None:
    line = "".join(f"{number:07d}," for number in range(125_000))
    text = _diff(from_text(line), from_text(line.replace("0060000", "006ABCD")))
    assert "006ABCD" in text
    assert len(text) < 700


def test_content_without_lines_is_one_line_or_all_new() -> None:
    gone = without_content("missing", "(no file x.py; create it and Refresh(), or view another path)")
    assert _diff(from_text("a\n"), gone) == gone.notice + "\n"
    assert _diff(gone, from_text("a\nb\n")) == "1 change since statement 12: +2 -0\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert _diff(from_text("a\n"), from_text("")) == "1 change since statement 12: +0 -1\n@@ -1 +0,0 @@\n-a\n"


def test_without_room_the_nearest_changes_are_shown() -> None:
    lines = [f"this is line number {number}" for number in range(1000)]
    changed = [f"{line} changed" if number % 100 == 50 else line for number, line in enumerate(lines)]
    before, after = from_text("\n".join(lines)), from_text("\n".join(changed))
    text = _diff(before, after, 160, line=449)
    rows = text.splitlines()
    assert rows[0] == "10 changes since statement 12: +10 -10"
    assert rows[1] == "... 4 changes above, the nearest at line 351"
    assert rows[2].startswith("@@ -451 +451 @@")
    assert rows[-1].startswith("... ")
    assert " below, the nearest at line " in rows[-1]
    assert not _render(before, after, 160).whole
    assert _render(before, after, 2000).whole


def test_a_tiny_budget_gives_a_stub() -> None:
    before, after = from_text("word " * 50), from_text("other " * 50)
    assert _diff(before, after, 24).startswith("1 change since statement 12: +1 -1")
    assert _diff(before, after, 3) == "1 change\n"
    assert _diff(before, after, 2) == "...\n"


def test_a_handle_tells_what_changed_since_it_was_last_read(desk: Desk) -> None:
    desk.write("a.py", "one\ntwo\n")
    desk.run("a = view('a.py')")
    desk.tail()
    desk.write("a.py", "one\n2\n")
    assert desk.shown("show(a.Refresh(), lod=3)").splitlines()[0] == "1 change since statement 1: +1 -1"
    desk.tail()
    assert desk.shown("show(a, lod=3)") == "(unchanged since statement 2)\n"


def test_without_any_reading_the_base_is_what_was_displayed_first(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    for text in ("two\n", "three\n"):
        desk.write("a.py", text)
        desk.run("show(a.Refresh())")
    assert desk.shown("show(a, lod=3)").endswith("-one\n+three\n")


def test_a_truncated_diff_is_shown_again_with_more_room(desk: Desk) -> None:
    desk.write("a.py", "".join(f"line {number}\n" for number in range(100)))
    desk.run("a = view('a.py')")
    desk.tail()
    desk.write("a.py", "".join(f"LINE {number}\n" for number in range(100)))
    assert "more lines of this change" in desk.shown("show(a.Refresh(), lod=3, tokens=100)")
    desk.tail()
    assert desk.shown("show(a, lod=3, tokens=All)").count("\n+LINE") == 100


@pytest.mark.parametrize("read", [True, False])
def test_what_was_shown_last_survives_a_rebuild_and_plain_data(desk: Desk, read: bool) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    desk.tail()
    desk.write("a.py", "two\n")
    desk.run("show(a.Refresh())")
    if read:
        desk.tail()
    desk.write("a.py", "three\n")
    desk.run("a.Refresh()")
    handle = desk.get("a")
    again = desk.rebuilt()
    loaded = Desk(desk.root)
    for digest, data in desk.contents.items():
        loaded.board.looks.take_content(digest, data)
    loaded.namespace["a"] = loaded.board.node_from("view-1.1", desk.board.state_of(handle))
    expected = "-two\n+three\n" if read else "-one\n+three\n"
    for each in (desk, again, loaded):
        assert each.shown("show(a, lod=3)").endswith(expected)


def test_a_text_that_was_shown_survives_as_plain_data(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', text='mine\\n')")
    desk.tail()
    desk.run("a.Refresh()")
    handle = desk.get("a")
    loaded = Desk(desk.root)
    loaded.board.looks.take_content(handle.revision.digest, b"one\n")
    loaded.namespace["a"] = loaded.board.node_from("view-1.1", desk.board.state_of(handle))
    assert loaded.shown("show(a, lod=3)").endswith("-mine\n+one\n")
