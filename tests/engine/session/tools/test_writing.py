"""`write` and `edit`: what a file would hold, every refusal and its hint, and what is shown of a change."""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.execution import TextChange
from engine.files.revision import show_all
from engine.log.redaction import Redactor
from engine.runtime.results import Written
from engine.session.tools import edit
from engine.session.tools.change import ENCODED, SHORT_CHARS, SHORT_LINES, Change, changes_of
from engine.session.tools.edit import nearest
from engine.session.tools.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "project").mkdir()
    return Workspace(str(tmp_path / "project"))


def written(workspace: Workspace, existing: bytes | None, text: object) -> bytes:
    if existing is not None:
        Path(workspace.cwd, "a").write_bytes(existing)
    change = edit.write(workspace, edit.WriteArguments(path="a", text=text))
    assert (change.path, change.before) == (os.path.join(os.path.realpath(workspace.cwd), "a"), existing)
    return change.after


def edited(workspace: Workspace, existing: bytes, old: str, new: str, count: int | None = 1) -> bytes:
    Path(workspace.cwd, "a").write_bytes(existing)
    return edit.edit(workspace, edit.EditArguments(path="a", old=old, new=new, count=count)).after


def told(change: Change) -> Written:
    value: Any = change.value
    return Written(**value)


# --- write ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("existing", "text", "after"),
    [
        (None, "é\r\n", "é\r\n".encode()),
        (None, b"\xff\0", b"\xff\0"),
        (b"old\n", "new", b"new\n"),
        (b"old", "new\n", b"new"),
        (b"old\n", "", b""),
        (b"", "new", b"new"),
        (b"a\r\nb\r\n", "c\nd\r\ne", b"c\r\nd\r\ne\r\n"),
        (b"a\nb\n", "c\r\nd\n", b"c\nd\n"),
        (b"a\r\nb\n", "c\r\nd\n", b"c\r\nd\n"),
        (b"\xef\xbb\xbfa\n", "é\n", "\ufeffé\n".encode()),
        (b"caf\xe9\n", "né\n", b"n\xe9\n"),
        ("a\r\n".encode("utf-16-le"), "b", b"b"),
        (b"\xff\xfe" + "a\r\n".encode("utf-16-le"), "é€", b"\xff\xfe" + "é€\r\n".encode("utf-16-le")),
        (b"\xfe\xff" + "a\n".encode("utf-16-be"), "b\n", b"\xfe\xff" + "b\n".encode("utf-16-be")),
        (b"\0binary", "text", b"text"),
    ],
)
def test_text_takes_the_files_own_style_and_bytes_stay(
    workspace: Workspace, existing: bytes | None, text: object, after: bytes
) -> None:
    assert written(workspace, existing, text) == after


def test_unencodable_character_is_refused_with_its_line(workspace: Workspace) -> None:
    with pytest.raises(ValueError, match=r"a is in Latin-1 .* cannot encode '€' in line 2; remove this text"):
        written(workspace, b"caf\xe9\n", "a\n€\n")
    with pytest.raises(ValueError, match=r"a is in UTF-8, which cannot encode '\\udc80' in line 1"):
        written(workspace, b"", "\udc80")


@pytest.mark.parametrize("text", [3, None, ["a"]])
def test_what_is_no_text_is_a_type_error(workspace: Workspace, text: object) -> None:
    with pytest.raises(TypeError, match="text is a string or bytes, not"):
        written(workspace, None, text)


def test_nothing_is_touched_before_it_lands(workspace: Workspace) -> None:
    edit.write(workspace, edit.WriteArguments(path="new/folder/file", text="x"))
    assert os.listdir(workspace.cwd) == []


@pytest.mark.parametrize(
    ("make", "path", "error"),
    [
        (lambda root: os.mkdir(root / "a"), "a", IsADirectoryError),
        (lambda root: None, ".", IsADirectoryError),
        (lambda root: None, "new/", IsADirectoryError),
        (lambda root: None, "", IsADirectoryError),
        (lambda root: None, "missing/../a", FileNotFoundError),
        (lambda root: None, "../a", PermissionError),
        (lambda root: None, "/etc/hosts", PermissionError),
        (lambda root: (root / "a").touch(), "a/b", NotADirectoryError),
        (lambda root: os.mkfifo(root / "a"), "a", OSError),
        (lambda root: os.symlink("/dev/null", root / "a"), "a", PermissionError),
        (lambda root: os.symlink("a", root / "a"), "a", OSError),
        (lambda root: os.symlink("../nothing", root / "a"), "a", PermissionError),
        (lambda root: None, "a\0b", ValueError),
        (lambda root: None, "x" * 300, OSError),
    ],
)
def test_unwritable_place_is_refused_before_anybody_is_asked(
    workspace: Workspace, make: Any, path: str, error: type[Exception]
) -> None:
    make(Path(workspace.cwd))
    for perform in (
        lambda: edit.write(workspace, edit.WriteArguments(path=path, text="x")),
        lambda: edit.edit(workspace, edit.EditArguments(path=path, old="x", new="y")),
    ):
        with pytest.raises(error):
            perform()


def test_links_that_stay_inside_are_written_through_to_their_target(workspace: Workspace) -> None:
    root = Path(os.path.realpath(workspace.cwd))
    (root / "folder").mkdir()
    (root / "folder" / "target").write_bytes(b"old\n")
    (root / "link").symlink_to("folder/target")
    (root / "again").symlink_to("link")
    (root / "to-be").symlink_to("folder/new")
    for name, place in (("again", "folder/target"), ("to-be", "folder/new"), ("folder/../link", "folder/target")):
        change = edit.write(workspace, edit.WriteArguments(path=name, text="new\n"))
        assert change.path == str(root / place)


def test_oversized_file_is_refused_without_being_read(workspace: Workspace) -> None:
    Path(workspace.cwd, "a").touch()
    os.truncate(Path(workspace.cwd, "a"), 1 << 40)
    with pytest.raises(OSError, match="do not change files of more than 64 MiB") as refused:
        edit.write(workspace, edit.WriteArguments(path="a", text="x"))
    assert refused.value.errno == errno.EFBIG


# --- edit -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("existing", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b", "x", b"a\nx\nc\n"),
        (b"a\r\nb\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"a\r\nb\nc", "c", "x\ny", b"a\r\nb\nx\ny"),
        (b"a\rb\r\nc\r\n", "a\rb", "x", b"x\r\nc\r\n"),
        (b"caf\xe9\n", "é", "è", b"caf\xe8\n"),
        (b"\xff\xfe" + "a\r\nb".encode("utf-16-le"), "a\n", "c\n", b"\xff\xfe" + "c\r\nb".encode("utf-16-le")),
    ],
)
def test_the_text_is_replaced_whatever_the_lines_end_in(
    workspace: Workspace, existing: bytes, old: str, new: str, after: bytes
) -> None:
    assert edited(workspace, existing, old, new) == after


def test_as_many_places_as_are_said_are_replaced(workspace: Workspace) -> None:
    assert edited(workspace, b"a a a", "a", "b", 3) == b"b b b"
    assert edited(workspace, b"a a a", "a", "b", None) == b"b b b"
    assert edited(workspace, b"a a\r\na\n", "a", "b", None) == b"b b\r\nb\n"


@pytest.mark.parametrize(
    ("existing", "arguments", "sentence"),
    [
        (
            b"a\na\nb\na",
            ("a", "x"),
            "a contains the text `old` 3 times, at lines 1, 2, 4; add surrounding lines",
        ),
        (b"a\na", ("a", "x", 3), "a contains the text `old` 2 times, not 3, at lines 1, 2"),
        (b"a" * 50, ("a", "x"), "50 times, at lines " + "1, " * 20 + r"\.\.\.; add"),
        (b"b", ("a", "x"), "a does not contain the text `old`, or similar text"),
        (b"b", ("", "x"), "old is empty; give the text to replace"),
        (b"b", ("b", "b"), "old and new are the same text"),
        (b"b", ("b", "x", 0), "count=0 must be 1 or more"),
        (b"\0b", ("b", "x"), "a is binary, 2 bytes"),
        (b"\xe9", ("\xe9", "€"), "a is in Latin-1"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(
    workspace: Workspace, existing: bytes, arguments: tuple[Any, ...], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        edited(workspace, existing, *arguments)


def test_there_is_no_edit_without_a_file(workspace: Workspace) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no such file; write\(\) creates it") as refused:
        edit.edit(workspace, edit.EditArguments(path="a", old="x", new="y"))
    assert refused.value.errno == errno.ENOENT


def test_miss_names_the_same_lines_with_other_white_space(workspace: Workspace) -> None:
    text = b"def first():\r\n    pass\r\n\r\ndef second(a):\r\n\tif a:\r\n\t\treturn 1\r\n"
    with pytest.raises(ValueError, match=r"only white space differs from:\n     5  \tif a:\n     6  \t\treturn 1$"):
        edited(workspace, text, "    if a:\n        return 1\n", "x")


def test_a_miss_is_answered_with_the_nearest_lines(workspace: Workspace) -> None:
    text = "".join(f"value_{number} = compute(number={number})\n" for number in range(500))
    text += "def total_of(values: list[int]) -> int:\n"
    with pytest.raises(ValueError, match=r"the nearest.*:\n   501  def total_of\(values: list\[int\]\) -> int:"):
        edited(workspace, text.encode(), "def total_of(values: List[int]) -> float:", "x")
    with pytest.raises(ValueError, match=r"the nearest line is:\n     1  colour = 1"):
        edited(workspace, b"colour = 1\nother\n", "color = 1", "x")


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("existing", "text", "shown"),
    [
        (None, "a\nb\n", "created a: 2 lines"),
        (None, "", "created a: 0 bytes"),
        (None, b"\0\0", "created a: 2 bytes"),
        (b"a\nb\nc\n", "a\nx\ny\nc\n", "wrote a: +2 -1 at line 2"),
        (b"a\nb\n", "a\n", "wrote a: +0 -1 at line 2"),
        (b"a\n", "a\n", "wrote a: 2 bytes"),
    ],
)
def test_a_statement_is_told_what_was_written_and_where(
    workspace: Workspace, existing: bytes | None, text: object, shown: str
) -> None:
    if existing is not None:
        Path(workspace.cwd, "a").write_bytes(existing)
    assert repr(told(edit.write(workspace, edit.WriteArguments(path="a", text=text)))) == shown


def test_edit_that_would_make_a_file_too_large_is_refused(workspace: Workspace) -> None:
    Path(workspace.cwd, "a").write_bytes(b"a" * (1 << 20))
    for ends in (b"", b"\r\n\n"):
        Path(workspace.cwd, "a").write_bytes(b"a" * (1 << 20) + ends)
        with pytest.raises(OSError, match="more than 64 MiB") as refused:
            edit.edit(workspace, edit.EditArguments(path="a", old="a", new="\n" * (1 << 20), count=None))
        assert refused.value.errno == errno.EFBIG


@pytest.mark.slow
def test_mixed_line_ends_are_edited_in_linear_time(workspace: Workspace) -> None:
    # To look for the end of the one long line from each of its places took minutes.
    line = b"a" + b" " * 319
    result = edited(workspace, b"x\r\ny\n" + line * 100_000, "a", "b\n", None)
    assert result == b"x\r\ny\n" + (b"b\n" + b" " * 319) * 100_000


@given(st.text("ab\r\n", max_size=12), st.text("ab\r\n", min_size=1, max_size=3), st.text("c\n", max_size=3))
def test_edit_equals_an_expression_for_either_line_end(start: str, old: str, new: str) -> None:
    text = start + "\r\nab\n"
    old_lines, new_lines = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    pieces = {"\n": "\r?\n", "\r": "\r(?!\n)"}
    pattern = re.compile("".join(pieces.get(char, char) for char in old_lines))

    def put(match: re.Match[str]) -> str:
        line = text[: text.find("\n", match.start()) + 1]
        return new_lines.replace("\n", "\r\n") if line.endswith("\r\n") else new_lines

    arguments = edit.EditArguments(path="a", old=old, new=new, count=None)
    if pattern.search(text) is None:
        with pytest.raises(ValueError, match="does not contain"):
            edit.replaced(text, arguments, show_all)
    else:
        assert edit.replaced(text, arguments, show_all) == pattern.sub(put, text)


CODE = "class A:\n    def one(self):\n        return 1\n\n    def two(self, value):\n        return value\n"


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ("def two(self, value):\n    return value", [5, 6]),
        ("class  A:\n\tdef one(self):", [1, 2]),
        ("def two(self, values):", [5]),
        ("        return valu", [6, 3]),
        ("zebra", []),
        ("\n\n", []),
    ],
)
def test_the_lines_that_are_meant_are_named(wanted: str, numbers: list[int]) -> None:
    hint = nearest(CODE, wanted, show_all)
    assert [int(line.split()[0]) for line in hint.split("\n")[1:]][: len(numbers)] == numbers
    assert bool(hint) == bool(numbers)


HOSTILE = {
    "one line": ("word " * 400_000, "word " * 1_000 + "x"),
    "the same line": ("    pass\n" * 100_000, "pass\n" * 2_000 + "x"),
    "the same word": ("word other\n" * 100_000, "word another thing"),
    "no word": ("+-*/ \n" * 100_000, "+-*/+-*/+-*/"),
    "blank lines": ("\n" * 400_000, "\n \nx"),
    "a long text": ("short\n", "long " * 200_000),
    "nothing": ("", "x"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_makes_the_hint_long_or_slow(name: str) -> None:
    text, wanted = HOSTILE[name]
    start = time.process_time()
    assert len(nearest(text, wanted, show_all)) < 1_500
    assert time.process_time() - start < 5  # some 0.1 s; an unbounded search takes minutes


FILLER = [f"line {number}\n" for number in range(SHORT_LINES + 100)]


def done(before: str, changes: tuple[TextChange, ...]) -> str:
    """The text after, from what is shown alone."""
    text = before
    for change in reversed(changes):
        assert change.old is not None
        lines = text.split("\n")
        start = len("\n".join(lines[: change.line - 1])) + (change.line > 1)
        assert text[start : start + len(change.old)] == change.old
        text = text[:start] + change.new + text[start + len(change.old) :]
    return text


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\r\n", "\n", "é\u2028\n", "c\x0c\n"]), max_size=12)


@given(st.lists(st.tuples(st.integers(0, len(FILLER)), st.integers(0, 9), LINES), max_size=4), st.booleans())
def test_new_text_follows_from_old_text_and_the_changes(edits: list[tuple[int, int, list[str]]], newline: bool) -> None:
    old = list(FILLER)
    new = list(FILLER)
    for at, removed, put in sorted(edits, reverse=True):
        new[at : at + removed] = put
    before, after = "".join(old), "".join(new).removesuffix("" if newline else "\n")
    changes, note = changes_of(before.encode(), after.encode(), show_all)
    assert note == ""
    assert done(before, changes) == after


@given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=30))
def test_every_pair_of_ends_is_trimmed_rightly(old: str, new: str) -> None:
    around = "x\n" * (SHORT_LINES + 1)
    changes, _ = changes_of((around + old + around).encode(), (around + new + around).encode(), show_all)
    assert done(around + old + around, changes) == around + new + around


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), LINES), max_size=4), st.sets(st.integers(0, 60)))
def test_no_region_cuts_a_run_of_lines_with_secrets(edits: list[tuple[int, int, list[str]]], secret: set[int]) -> None:
    old = [f"{'secret' if number in secret else 'line'} {number}\n" for number in range(len(FILLER))]
    new = list(old)
    for at, removed, put in sorted(edits, reverse=True):
        new[at : at + removed] = put

    def hide(text: str) -> dict[int, str]:
        return {number: "***" for number, line in enumerate(text.split("\n")) if line.startswith("secret")}

    before, after = "".join(old), "".join(new)
    changes, _ = changes_of(before.encode(), after.encode(), hide)
    assert done(before, changes) == after
    for change in changes:
        first = change.line - 1
        last = first + (change.old or "").count("\n") - 1
        for inside, beside in ((first, first - 1), (last, last + 1)):
            assert last < first or not {inside, beside} <= secret


def test_hint_has_no_part_of_a_secret_on_several_lines() -> None:
    key = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4w"
    text = "\n".join(["a = 1", *(key[at : at + 12] for at in range(0, len(key), 12)), "b = 2"])
    for wanted in (key[:10] + "zz", key[:12] + " \n" + key[12:24]):
        assert "***" in (hint := nearest(text, wanted, Redactor([key]).hidden_lines))
        assert key[:8] not in hint


def test_region_has_three_lines_around_and_its_first_line() -> None:
    before = "".join(FILLER)
    after = before.replace("line 100\n", "100\n").replace("line 250\n", "")
    first, second = changes_of(before.encode(), after.encode(), show_all)[0]
    assert first.line == 98
    assert first.old == "".join(FILLER[97:104])
    assert first.new == first.old.replace("line 100\n", "100\n")
    assert (second.line, second.old) == (248, "".join(FILLER[247:254]))


def test_short_file_is_shown_whole_and_new_one_without_old() -> None:
    assert changes_of(b"a\nb\n", b"a\nc\n", show_all) == ((TextChange(line=1, old="a\nb\n", new="a\nc\n"),), "")
    assert changes_of(None, b"a\n", show_all) == ((TextChange(line=1, old=None, new="a\n"),), "")
    assert changes_of(None, b"", show_all) == ((TextChange(line=1, old=None, new=""),), "")
    large = "a\n" * SHORT_CHARS
    assert changes_of(None, large.encode(), show_all)[0][0].new == large


@pytest.mark.parametrize(
    ("data", "name"),
    [(b"\xff\xfe\n\ntouch x;", "UTF-16"), (b"\xef\xbb\xbfa", "UTF-8 with byte order mark"), (b"\xe4", "Latin-1")],
)
def test_the_encoding_of_a_new_file_is_named_unless_it_is_utf_8(data: bytes, name: str) -> None:
    _, note = changes_of(None, data, show_all)
    assert note.startswith(ENCODED.partition("{}")[0] + name)


def test_what_is_the_same_shows_nothing() -> None:
    assert changes_of(b"a\n", b"a\n", show_all) == ((), "")


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (b"\0" * 12_288, b"\0" * 12_300, "binary, 12,288 bytes -> binary, 12,300 bytes"),
        (None, b"\0", "binary, 1 byte"),
        (b"text", b"\0", "text, 4 bytes -> binary, 1 byte"),
    ],
)
def test_of_binary_content_the_sizes_are_said(before: bytes | None, after: bytes, note: str) -> None:
    assert changes_of(before, after, show_all) == ((), note)


def test_a_text_in_place_of_binary_content_is_shown_whole() -> None:
    changes, note = changes_of(b"\0", b"text\n", show_all)
    assert changes == (TextChange(line=1, old="", new="text\n"),)
    assert note == "binary, 1 byte -> text, 5 bytes"


def test_another_encoding_of_the_same_text_is_said() -> None:
    assert changes_of(b"a\n", b"\xef\xbb\xbfa\n", show_all) == ((), "UTF-8 -> UTF-8 with byte order mark")
