"""`write` and `edit`: what a file would hold, and every way in which they refuse."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.runtime.results import Written
from engine.session.tools import edit
from engine.session.tools.change import Change
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
        (b"old\n", "new\n", b"new\n"),
        (b"old\n", "new", b"new\n"),
        (b"old", "new\n", b"new"),
        (b"old", "a\nb\n", b"a\nb"),
        (b"old\n", "", b""),
        (b"", "new", b"new"),
        (b"a\r\nb\r\n", "c\nd\r\ne", b"c\r\nd\r\ne\r\n"),
        (b"a\nb\n", "c\r\nd\n", b"c\nd\n"),
        (b"a\r\nb\n", "c\r\nd\n", b"c\r\nd\n"),
        (b"a\r\nb", "c\r\n", b"c"),
        (b"\xef\xbb\xbfa\n", "é\n", "\ufeffé\n".encode()),
        (b"caf\xe9\n", "né\n", b"n\xe9\n"),
        ("a\r\n".encode("utf-16-le"), "b", b"b"),
        (b"\xff\xfe" + "a\r\n".encode("utf-16-le"), "é€", b"\xff\xfe" + "é€\r\n".encode("utf-16-le")),
        (b"\xfe\xff" + "a\n".encode("utf-16-be"), "b\n", b"\xfe\xff" + "b\n".encode("utf-16-be")),
        (b"\xef\xbb\xbf", "a", b"\xef\xbb\xbfa"),
        (b"\0binary", "text", b"text"),
        (b"a\r\n", b"b\n", b"b\n"),
    ],
)
def test_text_is_written_as_the_file_writes_its_own_and_bytes_as_they_are(
    workspace: Workspace, existing: bytes | None, text: object, after: bytes
) -> None:
    assert written(workspace, existing, text) == after


def test_what_the_encoding_of_the_file_cannot_hold_is_refused_with_its_line(workspace: Workspace) -> None:
    with pytest.raises(ValueError, match=r"a is in Latin-1 .* cannot encode '€' in line 2; leave it out"):
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
        (lambda root: None, "new/..", IsADirectoryError),
        (lambda root: None, "", IsADirectoryError),
        (lambda root: None, "missing/../a", FileNotFoundError),
        (lambda root: None, "../a", PermissionError),
        (lambda root: None, "/etc/hosts", PermissionError),
        (lambda root: None, "/proc/self/comm", PermissionError),
        (lambda root: (root / "a").touch(), "a/b", NotADirectoryError),
        (lambda root: (root / "a").touch(), "a/b/c", NotADirectoryError),
        (lambda root: os.mkfifo(root / "a"), "a", OSError),
        (lambda root: os.symlink("/dev/null", root / "a"), "a", PermissionError),
        (lambda root: os.symlink("a", root / "a"), "a", OSError),
        (lambda root: os.symlink("../nothing", root / "a"), "a", PermissionError),
        (lambda root: os.symlink("..", root / "a"), "a/b", PermissionError),
        (lambda root: None, "a\0b", ValueError),
        (lambda root: None, "a\0b/c", ValueError),
        (lambda root: None, "x" * 300, OSError),
        (lambda root: None, "x" * 5_000, OSError),
    ],
)
def test_every_place_that_cannot_be_written_is_refused_before_anybody_is_asked(
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


def test_a_file_too_large_to_be_kept_is_refused_without_being_read(workspace: Workspace) -> None:
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
        (b"a\nb\nc\n", "a\nb", "", b"\nc\n"),
        (b"a\r\nb\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x", b"x\r\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"a\r\nb\nc", "c", "x\ny", b"a\r\nb\nx\ny"),
        (b"a\rb\r\nc\r\n", "a\rb", "x", b"x\r\nc\r\n"),
        (b"caf\xe9\n", "é", "è", b"caf\xe8\n"),
        (b"\xef\xbb\xbfa", "a", "b", b"\xef\xbb\xbfb"),
        (b"\xff\xfe" + "a\r\nb".encode("utf-16-le"), "a\n", "c\n", b"\xff\xfe" + "c\r\nb".encode("utf-16-le")),
        (b"no newline", "newline", "end", b"no end"),
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
        (b"a\na\nb\na", ("a", "x"), "a contains that text 3 times, at lines 1, 2, 4; give more of the lines around it"),
        (b"a\r\na\nb\na", ("a", "x"), "a contains that text 3 times, at lines 1, 2, 4; give more of the lines around"),
        (b"a\na", ("a", "x", 3), "a contains that text 2 times, not 3, at lines 1, 2"),
        (b"a" * 50, ("a", "x"), "50 times, at lines " + "1, " * 20 + r"\.\.\.; give"),
        (b"b", ("a", "x"), "a does not contain that text, or anything like it"),
        (b"b", ("a", "x", None), "a does not contain that text"),
        (b"b", ("", "x"), "old is empty; give the text to replace"),
        (b"b", ("b", "b"), "old and new are the same text"),
        (b"b", ("b", "x", 0), "count=0; it must be 1 or more"),
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
    with pytest.raises(FileNotFoundError, match=r"there is no such file; write\(\) creates it"):
        edit.edit(workspace, edit.EditArguments(path="a", old="x", new="y"))


def test_a_miss_is_answered_with_the_same_lines_in_other_white_space(workspace: Workspace) -> None:
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


@given(st.text("ab \n\r", max_size=12), st.text("ab\n", min_size=1, max_size=3), st.text("xy\n", max_size=3))
def test_edit_replaces_as_str_does_where_lines_end_in_one_manner(text: str, old: str, new: str) -> None:
    plain = text.replace("\r", "")
    expected = plain.replace(old, new)
    for ends in ("\n", "\r\n"):
        arguments = edit.EditArguments(path="a", old=old, new=new, count=None)
        if old in plain:
            assert edit.replaced(plain.replace("\n", ends), arguments) == expected.replace(
                "\n", ends if "\n" in plain else "\n"
            )


@given(st.text("ab \n\r", max_size=12), st.text("ab\n\r", min_size=1, max_size=3))
def test_in_a_mixture_nothing_is_changed_but_what_was_found(text: str, old: str) -> None:
    arguments = edit.EditArguments(path="a", old=old, new="X", count=None)
    try:
        after = edit.replaced(text, arguments)
    except ValueError:
        assert old.replace("\r\n", "\n") not in text.replace("\r\n", "\n")
    else:
        assert after.replace("\r\n", "\n") == text.replace("\r\n", "\n").replace(old.replace("\r\n", "\n"), "X")


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
        (b"\0", b"\0\0", "wrote a: 2 bytes"),
    ],
)
def test_a_statement_is_told_what_was_written_and_where(
    workspace: Workspace, existing: bytes | None, text: object, shown: str
) -> None:
    if existing is not None:
        Path(workspace.cwd, "a").write_bytes(existing)
    assert repr(told(edit.write(workspace, edit.WriteArguments(path="a", text=text)))) == shown


def test_an_edit_that_would_make_a_file_too_large_is_refused_before_it_is_made(workspace: Workspace) -> None:
    Path(workspace.cwd, "a").write_bytes(b"a" * (1 << 20))
    for ends in (b"", b"\r\n\n"):
        Path(workspace.cwd, "a").write_bytes(b"a" * (1 << 20) + ends)
        with pytest.raises(OSError, match="more than 64 MiB") as refused:
            edit.edit(workspace, edit.EditArguments(path="a", old="a", new="\n" * (1 << 20), count=None))
        assert refused.value.errno == errno.EFBIG


@pytest.mark.slow
def test_lines_that_end_in_both_manners_are_edited_in_linear_time(workspace: Workspace) -> None:
    # To look for the end of the one long line from each of its places took minutes.
    line = b"a" + b" " * 319
    result = edited(workspace, b"x\r\ny\n" + line * 100_000, "a", "b\n", None)
    assert result == b"x\r\ny\n" + (b"b\n" + b" " * 319) * 100_000


@given(
    st.text("ab\r\n", max_size=12),
    st.text("ab\r\n", min_size=1, max_size=3),
    st.text("c\n", max_size=3),
)
def test_a_text_is_replaced_as_an_expression_for_either_manner_says(start: str, old: str, new: str) -> None:
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
            edit.replaced(text, arguments)
    else:
        assert edit.replaced(text, arguments) == pattern.sub(put, text)
