"""Views of texts that are read by pages, with small limits; an index of pages agrees with the whole text."""

from __future__ import annotations

import os
import random
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.detail import LEVELS
from engine.files.disk import Sizes
from engine.files.document import resolve
from engine.files.paging import (
    PagedLines,
    PageIndex,
    PageLostError,
    is_page,
    page_path,
    page_place,
    page_revision,
    scan,
    unpacked,
)
from engine.log.events.nodes import ContentsAdopted
from engine.runtime.worker.handles.board import LastShown
from tests.support.boards import Desk, deltas
from tests.support.examples import examples
from tests.support.revisions import decoded, paged_lines

SIZES = Sizes(held=20_000, paged=1_000_000, page=4_096)
LOG = "".join(f"{number:04} this is a line of a log {number:04}\n" for number in range(1, 2_001))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, sizes=SIZES)
    desk.write("big.log", LOG)
    return desk


def _states(desk: Desk) -> list[tuple[str, str]]:
    """Of the looks of the last step: what a path ends with, and the state."""
    return [(look.path.rpartition("/")[2].partition(":")[0], look.state) for look in desk.steps[-1].looks]


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40))])
def test_a_window_equals_that_of_a_text_in_memory(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    lines = dice.choices(
        ["", "x = 1", "日本語 é 😀", "a" * 300, "漢 " * 5_000, "\t\r", "def f():"], k=dice.randint(40, 120)
    )
    ends = dice.choice(["\n", "\r\n"])
    data = ends.join(lines).encode(dice.choice(["utf-8", "utf-16"])) + dice.choice([b"", b"\n\0", b"\n"])
    by_pages, held = Desk(tmp_path, sizes=Sizes(held=100, paged=1 << 20, page=256)), Desk(tmp_path)
    by_pages.write("f", data)
    for number in range(8):
        pos = dice.choice([f'"{dice.randint(0, 130)}"', f'"{dice.randint(0, 130)}:{dice.randint(0, 6_000)}"', "1000"])
        step = (
            "v = view('f')" if number == 0 else dice.choice(["v.Scroll(7)", "v.Scroll(tokens=-90)", f"v.SetPos({pos})"])
        )
        source = f"{step}; v.SetTokens({dice.choice([1, 9, 40, 300, 2_000])}); show(v)"
        assert by_pages.run(source).displays[0].text == held.run(source).displays[0].text
    states = by_pages.get("v").revision.state, held.get("v").revision.state
    assert states in {("paged", "text"), ("binary", "binary")}
    known = ("lines", "encoding", "line_ends", "final_newline", "size", "revision")
    digests = [each.get("v").GetDigest() for each in (by_pages, held)]
    assert [digests[0][each] for each in known] == [digests[1][each] for each in known]


def test_a_file_is_streamed_once_then_read_by_pages(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=100)")
    opened, desk.files.reads = desk.files.opens, 0
    assert desk.contents.keys() >= {desk.get("v").source_fingerprint}
    assert desk.shown("show(v.SetPos('150'))").splitlines()[2].startswith("150\t0150 this is")
    assert desk.files.opens - opened <= 4
    assert desk.files.reads == 0
    assert {state for _, state in _states(desk)} == {"paged"}
    opened = desk.files.opens
    desk.run("show(v.SetPos('151')); w = view('big.log', '150', tokens=90)")
    assert desk.files.opens == opened


def test_positions_are_lines_columns_and_offsets_and_no_symbols(desk: Desk) -> None:
    desk.run(f"v = view('big.log', {LOG.index('0123 this') + 5})")
    assert desk.get("v").pos == "123:5"
    desk.run("v.SetPos('7:3')")
    assert desk.get("v").window_spec["anchors"] == ["7:3", 7]
    desk.run("v.SetPos('9999')")
    assert desk.get("v").place.line == 1_999
    with pytest.raises(ValueError, match=r"is too large to look for symbols .68,000 bytes.; give .line:col.,"):
        desk.run("v.SetPos('class Foo')")
    assert desk.get("v").pos == "9999"


def test_levels_that_need_the_whole_text_say_alternatives(desk: Desk) -> None:
    desk.run("v = view('big.log')")
    for lod in (1, 2):
        said = "(2,000 lines, 68,000 bytes, too large for an outline; SetLod(0) shows its lines)\n"
        assert desk.shown(f"show(v, lod={lod})") == said
    assert desk.shown("show(v, lod=3)") == "(unchanged since statement 1)\n"
    said = "(2,000 lines, 68,000 bytes, too large to be shown whole; SetTokens(2000) shows a part)\n"
    assert desk.shown("show(v, tokens=All)") == said
    with pytest.raises(
        ValueError, match=r"Scroll\(delta_tokens=n\) moves at most 1,000,000 tokens in a file of this size"
    ):
        desk.run("v.Scroll(tokens=2_000_000)")
    assert desk.shown("w = view('big.log', lod=3)").startswith("(not shown before")
    for budget in range(1, 30):
        for lod in LEVELS:
            assert desk.run(f"show(v, lod={lod}, tokens={budget})").displays[0].tokens <= budget


def test_groups_show_one_line_and_globs_do_not_read_it(desk: Desk) -> None:
    desk.write("small.py", "x = 1\n")
    desk.run("v = view('big.log'); g = group(v, lod=1)")
    assert "too large for an outline" in desk.run("show(g)").displays[0].text
    opened, desk.files.reads = desk.files.opens, 0
    text = desk.shown("h = group('*.*')")
    assert "big.log" in text
    assert "0001 this is" not in text
    assert (desk.files.opens, desk.files.reads) == (opened, 1)
    (adopted,) = (event for event in desk.steps[-1].report.events if isinstance(event, ContentsAdopted))
    assert [(Path(file.path).name, file.state) for file in adopted.files] == [
        ("big.log", "too large"),
        ("small.py", "text"),
    ]


def test_binary_empty_and_larger_files_are_one_line(desk: Desk) -> None:
    desk.write("image", b"\x89PNG\0" * 5_000)
    assert desk.shown("a = view('image')") == "(binary, 25,000 bytes, beginning with 89 50 4e 47)\n"
    desk.write("larger", "x" * 1_000_001)
    opened = desk.files.opens
    assert desk.shown("b = view('larger')").startswith(
        "(larger has 1,000,001 bytes; views read files up to 1,000,000 bytes; "
    )
    assert desk.files.opens == opened
    with open(desk.root / "sparse", "wb") as file:
        file.truncate(50_000)
    assert desk.shown("c = view('sparse')") == "(binary, 50,000 bytes, beginning with 00 00 00 00)\n"


def _meanwhile(desk: Desk, act: Callable[[str, int], None]) -> None:
    """Calls `act` with path and offset before each page is read."""
    opening = desk.files.opened

    @contextmanager
    def opened(path: str) -> Iterator[SimpleNamespace]:
        with opening(path) as file:

            def read(offset: int, size: int) -> bytes:
                act(path, offset)
                return file.read(offset, size)

            yield SimpleNamespace(stamp=file.stamp, read=read)

    desk.files.opened = opened


def _fail(error: BaseException) -> None:
    raise error


CHANGES: dict[str, tuple[Callable[[str], object], int]] = {
    "truncated": (lambda path: os.truncate(path, 6_800), 200),
    "appended": (lambda path: Path(path).write_text(LOG + "more\n"), 2_000),
    "emptied": (lambda path: os.truncate(path, 0), 120),
    "locked": (lambda path: _fail(PermissionError(13, "Permission denied", path)), 0),
    "stopped": (lambda path: _fail(KeyboardInterrupt()), 0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_changed_during_the_scan_is_shown_as_read(desk: Desk, change: str) -> None:
    opening, (alter, lines) = desk.files.opened, CHANGES[change]
    pending = [alter]
    _meanwhile(desk, lambda path, offset: pending.pop()(path) if offset and pending else None)
    with suppress(KeyboardInterrupt):
        desk.run("v = view('big.log', tokens=50, freq='Sync')")
    desk.files.opened = opening
    if change == "stopped":
        assert "v" not in desk.namespace
        assert desk.shown("v = view('big.log', tokens=50)").startswith("1\t0001")
        return
    if change == "locked":
        assert "cannot be read: Permission denied" in desk.get("v").rendered.text
    else:
        assert len(desk.get("v").revision.lines) == lines
    desk.tick()
    assert desk.get("v").revision.size == (desk.root / "big.log").stat().st_size


def test_tick_gives_up_slow_file_and_refresh_reads_it(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=50).Run()")
    desk.write("big.log", LOG + LOG)
    _meanwhile(desk, lambda path, offset: setattr(desk, "seconds", desk.seconds + 0.5))
    assert deltas(desk.tick())[0] == "reading big.log takes too long for an automatic update; Refresh() waits for it"
    opened = desk.files.stamps
    assert desk.tick() == ()
    assert desk.files.stamps == opened + 1
    assert desk.shown("show(v.Refresh())").startswith("1\t0001")


def test_an_unchanged_file_costs_one_stat_for_each_tick(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=50).Run(); w = view('big.log', '900', tokens=50).Run()")
    opened, stamps = desk.files.opens, desk.files.stamps
    assert desk.tick() == ()
    assert (desk.files.opens, desk.files.stamps) == (opened, stamps + 1)
    desk.write("big.log", LOG.replace("log 0090\n", "log 90\n"))
    told = deltas(desk.tick())
    assert told[0] == "big.log changed: 2,000 lines became 2,000, the first change at or after line 1"
    assert desk.files.opens == opened + 1
    assert desk.get("v").revision is desk.get("w").revision


def test_a_difference_is_noticed_without_reading(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=50).Run()")
    opened = desk.files.opens
    assert not desk.get("v").is_stale()
    desk.write("big.log", LOG.replace("this", "That"))
    assert desk.get("v").is_stale()
    assert desk.files.opens == opened
    desk.write("young.log", LOG, age_ns=int(desk.seconds * 1e9) + 10**9)
    desk.run("v = view('young.log', tokens=50).Run()")
    assert not desk.get("v").is_stale()
    desk.write("young.log", LOG + "more\n")
    assert desk.get("v").is_stale()


def test_what_is_appended_is_told_with_its_lines(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=50).Run()")
    desk.write("big.log", LOG + "one more\nand half a")
    told = "big.log changed: 2 lines added at the end, from line 2,001 on"
    file_changed, node_changed, _ = deltas(desk.tick())
    assert (file_changed, node_changed) == (told, f"{told}\n+one more\n+and half a")
    desk.write("big.log", LOG + "one more\nand half a line\nend\n")
    assert deltas(desk.tick())[1] == (
        "big.log changed: 1 line added at the end, from line 2,002 on\n+and half a line\n+end"
    )
    assert desk.shown("show(v, lod=3)") == (
        "(changed since statement 1: 3 lines added at the end, from line 2,001 on)\n"
    )


def test_a_restarted_log_did_not_grow(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=50).Run()")
    desk.write("big.log", LOG.replace("this is", "that was") * 2)
    assert deltas(desk.tick())[0] == "big.log changed: 2,000 lines became 4,000, the first change at or after line 1"
    desk.write("big.log", LOG)
    desk.tick()
    desk.run("show(v.SetPos('2000'))")
    desk.write("big.log", LOG.replace("1999 this", "1999 that") + "more\n")
    told = deltas(desk.tick())[0]
    assert told == "big.log changed: 2,000 lines became 2,001, the first change at or after line 1,921"


def test_a_text_that_crosses_the_limit_is_read_accordingly(desk: Desk) -> None:
    desk.write("a.py", "class Foo:\n    x = 1\n")
    desk.run("v = view('a.py', 'class Foo').Run(); w = view('a.py', 12).Run()")
    desk.write("a.py", "# more\n" * 5_000 + "class Foo:\n    x = 1\n")
    assert deltas(desk.tick())[0] == "a.py changed: 2 lines became 5,002"
    assert (desk.get("v").pos, desk.get("w").pos) == ("1:0", "2:5")
    assert desk.shown("show(v, lod=3)") == "(changed since statement 1: 2 lines became 5,002)\n"
    desk.tail()
    desk.write("a.py", "class Foo:\n    x = 2\n")
    assert deltas(desk.tick())[0] == "a.py changed: 5,002 lines became 2"
    assert desk.shown("show(v, lod=3)") == "(changed since statement 2: 5,002 lines became 2)\n"
    assert desk.shown("show(v.SetPos('class Foo'), tokens=30)").startswith("1\tclass Foo:")
    desk.write("a.py", "one\n")
    assert deltas(desk.tick())[0].splitlines()[0].endswith("class Foo is gone, so the view stays at line 1")
    desk.write("a.py", "# more\n" * 5_000)
    assert deltas(desk.tick())[0] == "a.py changed: 1 line became 5,000"


def test_a_shown_page_stays_and_others_are_lost(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    desk.write("big.log", LOG.replace("a line", "A LINE"))
    assert "101\t0101 this is a line" in desk.shown("show(v.SetPos('101'))")
    lost = desk.shown("show(v.SetPos('500'))")
    assert lost == (
        "(lines 481 to 600 of big.log cannot be read any more: the file has changed since; "
        "Refresh() shows the current content)\n"
    )
    with pytest.raises(ValueError, match="cannot be read any more"):
        desk.run("v.SetPos(30_000)")
    with pytest.raises(ValueError, match="cannot be read any more"):
        desk.run("v.Scroll(tokens=100)")
    assert desk.get("v").pos == "500"
    assert desk.tail()
    assert desk.tick() == ()
    assert "500\t0500 this is A LINE" in desk.shown("show(v.Refresh())")


def test_pages_of_an_appended_file_are_still_read(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    with open(desk.root / "big.log", "a") as file:
        file.write("more\n")
    assert desk.shown("show(v.SetPos('2000'))").endswith("2000\t2000 this is a line of a log 2000\n")
    (desk.root / "big.log").unlink()
    assert "No such file or directory; Refresh()" in desk.shown("show(v.SetPos('1000'))")


def test_a_record_of_pages_that_are_none_is_not_believed(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    page = desk.steps[0].looks[1]
    state = desk.board.state_of(desk.get("v"))
    other = Desk(desk.root, sizes=SIZES)
    for digest, data in {**desk.contents, page.digest: b"something else\n"}.items():
        other.board.looks.take_content(digest, data)
    other.board.looks.replay(())
    forged = (
        replace(page, path=f"{desk.root}/../etc/passwd"),
        replace(page, path="/../"),
        desk.steps[0].looks[0],
        page,
    )
    other.board.looks.know(forged)
    node = other.board.node_from("view-1.1", state)
    (desk.root / "big.log").unlink()
    other.board.looks.settle()
    assert "cannot be read any more" in node.rendered.text


def test_an_index_that_is_lost_leaves_what_says_so(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    desk.contents[desk.get("v").source_fingerprint] = b"damaged"
    assert "the earlier content of big.log is no longer stored" in desk.rebuilt().get("v").rendered.text
    desk.contents.clear()
    assert "100\t0100 this is" in desk.rebuilt().get("v").rendered.text
    desk.write("big.log", "other\n" * 9_000)
    assert "the earlier content of big.log is not kept" in desk.rebuilt().get("v").rendered.text


_PIECES = st.sampled_from(
    [
        "\n",
        "\u0a05\u0100",
        "\u0100\u0a05",
        "\r\n",
        "\r",
        "a",
        "xyz",
        "é",
        "日本",
        "😀",
        " " * 9,
        "l" * 40,
        "日" * 15,
        "\0",
    ]
)
"""Two of them hold the bytes of a newline in UTF-16, at a place where they are none."""
_ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1"])
_MARKS = {"utf-16-be": b"\xfe\xff"}


@st.composite
def _contents(draw: st.DrawFn) -> bytes:
    text = "".join(draw(st.lists(_PIECES, max_size=40)))
    encoding = draw(_ENCODINGS)
    data = _MARKS.get(encoding, b"") + text.encode(encoding, "replace")
    end = draw(st.binary(max_size=2))
    return data + end


def _lines(data: bytes, page: int) -> PagedLines:
    index = scan(lambda offset, size: data[offset : offset + size], len(data), page).pages
    return paged_lines(unpacked(index.packed()), lambda path, _: _page(data, path))


def _page(data: bytes, path: str) -> bytes:
    place = page_place(path)
    revision = page_revision(path, data[place.start : place.start + place.size])
    return revision.page


@examples(2)
@given(_contents(), st.integers(4, 64))
def test_it_is_the_same_text_as_when_it_is_held(data: bytes, page: int) -> None:
    held = decoded(data)
    found = scan(lambda offset, size: data[offset : offset + size], len(data), page)
    assert (found.digest, found.size) == (held.digest, held.size)
    assert (found.pages is None) == (held.state == "binary")
    if found.pages is None:
        return
    index = found.pages
    lines = _lines(data, page)
    assert list(lines) == held.lines
    assert (index.encoding, index.line_ends) == (held.encoding, held.line_ends)
    assert index.final_newline == held.final_newline
    assert max(map(int.__sub__, index.starts[1:], index.starts), default=0) <= page


@examples(2)
@given(_contents(), st.integers(4, 64), st.integers(0, 60), st.integers(0, 60))
def test_parts_of_lines_and_offsets_are_those_of_the_text(data: bytes, page: int, start: int, size: int) -> None:
    held = decoded(data)
    if held.state == "binary" or not held.lines:
        return
    lines = _lines(data, page)
    assert [lines.length(line) for line in range(len(lines))] == [len(line) for line in held.lines]
    assert [lines.part(line, start, size) for line in range(len(lines))] == [
        line[start : start + size] for line in held.lines
    ]
    assert tuple(lines.point(start)) == tuple(resolve(start, held.lines))


def _read(data: bytes) -> PageIndex:
    index = scan(lambda offset, size: data[offset : offset + size], len(data), 16).pages
    assert index is not None
    return index


def test_pages_end_at_newlines_and_long_lines_are_split() -> None:
    index = _read(b"one\ntwo\nthree and four\n" + "é".encode() * 12 + b"12345\r\nend")
    assert list(index.starts) == [0, 8, 23, 39, 54, 57]
    assert list(index.lines) == [0, 2, 3, 3, 4, 4]
    assert index.pages_of(2) == (1, 1)
    assert index.pages_of(3) == (2, 3)


def test_a_return_is_not_parted_from_its_newline() -> None:
    index = _read(b"x" * 15 + b"\r\nnext\n")
    assert list(index.starts) == [0, 15, 22]
    assert index.line_ends == "mixed LF and CRLF"


def test_appended_or_truncated_files_are_indexed_as_read() -> None:
    data = b"one\ntwo\nthree\nfour\n"
    assert scan(lambda offset, size: data[offset : offset + size], 8, 16).size == 8
    shorter = scan(lambda offset, size: data[offset : offset + size], 1_000, 16)
    assert shorter.size == len(data)
    assert shorter.pages.line_count == 4


def test_an_index_that_was_tampered_with_is_refused() -> None:
    index = _read(b"one\ntwo\n" * 20)
    packed = index.packed()
    assert unpacked(packed).packed() == packed
    for bad in (b"", packed[:-1], b"\x90", PageIndex("cp037", *_rest(index)).packed()):
        with pytest.raises(ValueError, match="not an index of pages"):
            unpacked(bad)
    larger = array("Q", [0, *(start + (1 << 20) for start in index.starts[1:])])
    with pytest.raises(ValueError, match="a page has impossible sizes"):
        unpacked(PageIndex("utf-8", "UTF-8", "LF", True, larger, index.lines, index.chars, index.digests).packed())


def _rest(index: PageIndex) -> tuple[str, str, bool, array[int], array[int], array[int], array[int]]:
    return (index.encoding, index.line_ends, index.final_newline, index.starts, index.lines, index.chars, index.digests)


def test_a_page_that_contradicts_the_index_is_not_shown() -> None:
    data = b"one\ntwo\nthree\n"
    index = _read(data)
    index.lines[-1] += 1
    lines = paged_lines(index, lambda path, _: _page(data, path))
    with pytest.raises(PageLostError, match="cannot be shown"):
        lines[0]


def test_a_very_long_line_is_returned_in_parts() -> None:
    data = b"x" * (2 << 20) + b"end\nnext"
    lines = _lines(data, 64 << 10)
    assert (len(lines), lines.length(0)) == (2, (2 << 20) + 3)
    assert (lines.part(0, (2 << 20) - 1, 10), lines[1]) == ("xend", "next")
    with pytest.raises(ValueError, match="line 1 has 2,097,155 characters; it is shown in parts"):
        lines[0]


def test_the_name_of_a_page_says_which_it_is() -> None:
    path = page_path("/a/b.log", 65_536, 12, 0xAB)
    assert is_page(path)
    assert not is_page("/a/b..log")
    assert page_place(path) == ("/a/b.log", 65_536, 12, "00000000000000ab")
    assert page_revision(path, b"another page") is None
    assert page_revision("/a/../b", b"") is None
    with pytest.raises(ValueError, match="not a position on a page"):
        page_place("/a/../b")


def test_a_restored_handle_shows_its_pages(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    state = desk.board.state_of(desk.get("v"))
    (desk.root / "big.log").unlink()
    other = Desk(desk.root, sizes=SIZES)
    for digest, data in desk.contents.items():
        other.board.looks.take_content(digest, data)
    other.board.looks.replay(())
    other.board.looks.know(desk.steps[0].looks)
    node = other.board.node_from("view-1.1", state)
    other.board.looks.settle()
    assert "100\t0100 this is" in node.rendered.text
    assert node.GetDigest() == desk.get("v").GetDigest()


def test_a_refused_change_names_no_differences_in_a_large_file(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=60)")
    desk.write("big.log", LOG + "more\n")
    opened = desk.files.opens
    asked: list[str | None] = []

    def ask(_: str, __: dict[str, object], shown: str | None) -> object:
        asked.append(shown)
        raise OSError(116, "big.log has changed since it was shown", "big.log")

    change = LastShown(desk.board).ask_to_change(ask)
    with pytest.raises(OSError, match="has changed since it was shown") as caught:
        change("edit", {"path": "big.log"})
    assert asked == [desk.get("v").source_fingerprint]
    assert "@@" not in str(caught.value)
    assert desk.files.opens == opened


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("before", range(0, 40, 3))
def test_a_long_line_is_not_split_in_a_word_that_may_be_a_key(codec: str, before: int) -> None:
    key = "sk-proj-Zq9vT4mW7xK2"
    mark = b"\xff\xfe" if codec == "utf-16-le" else b""
    line = "\xe9 " * 30 + "ab " * before + f"{key} " * 20
    data = mark + line.encode(codec)
    index = scan(lambda offset, size: data[offset : offset + size], len(data), 256).pages
    pages = [data[start:end].decode(codec) for start, end in zip(index.starts, index.starts[1:], strict=False)]
    assert len(pages) > 1
    assert sum(page.count(key) for page in pages) == 20
    assert "".join(pages) == line
