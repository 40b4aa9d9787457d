"""Views of texts that are read by pages, with small limits, so that a few KiB are a large file."""

from __future__ import annotations

import os
import random
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engine.files.disk import Sizes
from engine.files.sources import OpenFile
from engine.files.view import ViewHandle
from engine.log.events.nodes import ContentsAdopted
from engine.runtime.worker.handles.board import LastShown
from tests.support.boards import Desk, deltas

SIZES = Sizes(held=20_000, paged=1_000_000, page=4_096)
LOG = "".join(f"{number:04} this is a line of a log {number:04}\n" for number in range(1, 2_001))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, sizes=SIZES)
    desk.write("big.log", LOG)
    return desk


def _shown(desk: Desk, source: str) -> str:
    (display,) = desk.run(source).displays
    return display.text


def _handle(desk: Desk, name: str = "v") -> ViewHandle:
    handle = desk.get(name)
    assert isinstance(handle, ViewHandle)
    return handle


def _states(desk: Desk) -> list[tuple[str, str]]:
    """Of the looks of the last step: what a path ends with, and the state."""
    return [(look.path.rpartition("/")[2].partition(":")[0], look.state) for look in desk.steps[-1].looks]


# --- windows ---------------------------------------------------------------------------------------------------------


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
    states = _handle(by_pages).revision.state, _handle(held).revision.state
    assert states in {("paged", "text"), ("binary", "binary")}
    known = ("lines", "encoding", "line_ends", "final_newline", "size", "revision")
    digests = [_handle(each).GetDigest() for each in (by_pages, held)]
    assert [digests[0][each] for each in known] == [digests[1][each] for each in known]


def test_a_file_is_streamed_once_then_read_by_pages(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=100)")
    opened, desk.files.reads = desk.files.opens, 0
    assert desk.contents.keys() >= {_handle(desk).source_fingerprint}
    assert _shown(desk, "show(v.SetPos('150'))").splitlines()[2].startswith("150\t0150 this is")
    assert desk.files.opens - opened <= 4
    assert desk.files.reads == 0
    assert {state for _, state in _states(desk)} == {"paged"}
    opened = desk.files.opens
    desk.run("show(v.SetPos('151')); w = view('big.log', '150', tokens=90)")
    assert desk.files.opens == opened


def test_positions_are_lines_columns_and_offsets_and_no_symbols(desk: Desk) -> None:
    desk.run(f"v = view('big.log', {LOG.index('0123 this') + 5})")
    assert _handle(desk).pos == "123:5"
    desk.run("v.SetPos('7:3')")
    assert _handle(desk).window_spec["anchors"] == ["7:3", 7]
    desk.run("v.SetPos('9999')")
    assert _handle(desk).place.line == 1_999
    with pytest.raises(ValueError, match=r"has 68,000 bytes, too many to look for symbols; give .line:col.,"):
        desk.run("v.SetPos('class Foo')")
    assert _handle(desk).pos == "9999"


def test_levels_that_need_the_whole_text_say_alternatives(desk: Desk) -> None:
    desk.run("v = view('big.log')")
    for lod in (1, 2):
        said = "(2,000 lines, 68,000 bytes, too large for an outline; SetLod(0) shows its lines)\n"
        assert _shown(desk, f"show(v, lod={lod})") == said
    assert _shown(desk, "show(v, lod=3)") == "(unchanged since statement 1)\n"
    said = "(2,000 lines, 68,000 bytes, too large to be shown whole; SetTokens(2000) shows a part)\n"
    assert _shown(desk, "show(v, tokens=All)") == said
    with pytest.raises(ValueError, match=r"Scroll\(delta_tokens=n\) goes up to 1,000,000 in a file of that size"):
        desk.run("v.Scroll(tokens=2_000_000)")
    assert _shown(desk, "w = view('big.log', lod=3)").startswith("(not shown before")
    for budget in range(1, 30):
        for lod in range(4):
            assert desk.run(f"show(v, lod={lod}, tokens={budget})").displays[0].tokens <= budget


def test_groups_show_one_line_and_globs_do_not_read_it(desk: Desk) -> None:
    desk.write("small.py", "x = 1\n")
    desk.run("v = view('big.log'); g = group(v, lod=1)")
    assert "too large for an outline" in desk.run("show(g)").displays[0].text
    opened, desk.files.reads = desk.files.opens, 0
    text = _shown(desk, "h = group('*.*')")
    assert "big.log" in text
    assert "0001 this is" not in text
    assert (desk.files.opens, desk.files.reads) == (opened, 1)
    (adopted,) = (event for event in desk.steps[-1].report.events if isinstance(event, ContentsAdopted))
    assert [(Path(file.path).name, file.state) for file in adopted.files] == [
        ("big.log", "too large"),
        ("small.py", "text"),
    ]


# --- what cannot be read ---------------------------------------------------------------------------------------------


def test_binary_empty_and_larger_files_are_one_line(desk: Desk) -> None:
    desk.write("image", b"\x89PNG\0" * 5_000)
    assert _shown(desk, "a = view('image')") == "(binary, 25,000 bytes, beginning with 89 50 4e 47)\n"
    desk.write("larger", "x" * 1_000_001)
    opened = desk.files.opens
    assert _shown(desk, "b = view('larger')").startswith(
        "(larger has 1,000,001 bytes; views read files up to 1,000,000; "
    )
    assert desk.files.opens == opened
    with open(desk.root / "sparse", "wb") as file:
        file.truncate(50_000)
    assert _shown(desk, "c = view('sparse')") == "(binary, 50,000 bytes, beginning with 00 00 00 00)\n"


class _Meanwhile:
    """A file that is changed when its first page has been read."""

    def __init__(self, desk: Desk, change: str) -> None:
        self._desk = desk
        self._change = change
        self._opening = desk.files.opened
        desk.files.opened = self  # pyright: ignore[reportAttributeAccessIssue]

    def __call__(self, path: str) -> AbstractContextManager[OpenFile]:
        self._path = path
        self._opened = self._opening(path)
        return self  # pyright: ignore[reportReturnType]

    def __enter__(self) -> _Meanwhile:
        self._file = self._opened.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.__exit__(None, None, None)

    def stamp(self) -> object:
        return self._file.stamp()

    def read(self, offset: int, size: int) -> bytes:
        if offset and self._change:
            change, self._change = self._change, ""
            match change:
                case "truncated":
                    os.truncate(self._path, 6_800)
                case "appended":
                    with open(self._path, "ab") as file:
                        file.write(b"more\n")
                case "emptied":
                    os.truncate(self._path, 0)
                case "locked":
                    raise PermissionError(13, "Permission denied", self._path)
                case _:
                    raise KeyboardInterrupt
        return self._file.read(offset, size)


@pytest.mark.parametrize(
    ("change", "lines"), [("truncated", 200), ("appended", 2_000), ("emptied", 120), ("locked", 0), ("stopped", 0)]
)
def test_a_file_changed_during_the_scan_is_shown_as_read(desk: Desk, change: str, lines: int) -> None:
    opening = desk.files.opened
    _Meanwhile(desk, change)
    with suppress(KeyboardInterrupt):
        desk.run("v = view('big.log', tokens=50, freq='Sync')")
    desk.files.opened = opening
    if change == "stopped":
        assert "v" not in desk.namespace
        assert _shown(desk, "v = view('big.log', tokens=50)").startswith("1\t0001")
        return
    if change == "locked":
        assert "cannot be read: Permission denied" in _handle(desk).rendered.text
    else:
        assert len(_handle(desk).revision.lines) == lines
    desk.tick()
    assert _handle(desk).revision.size == (desk.root / "big.log").stat().st_size


def test_a_file_replaced_before_opening_is_shown_whole(desk: Desk) -> None:
    opening = desk.files.opened

    def replaced(path: str) -> AbstractContextManager[OpenFile]:
        desk.files.opened = opening
        desk.write("big.log", LOG + LOG)
        return opening(path)

    desk.files.opened = replaced
    desk.run("v = view('big.log', tokens=50, freq='Sync')")
    assert len(_handle(desk).revision.lines) == 4_000
    opened = desk.files.opens
    assert (desk.tick(), desk.files.opens) == ((), opened)


def test_a_tick_gives_up_a_slow_file_and_refresh_reads_it(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=50).Run()")
    desk.write("big.log", LOG + LOG)
    slow = _Meanwhile(desk, "")
    reading = slow.read

    def read(offset: int, size: int) -> bytes:
        desk.seconds += 0.5
        return reading(offset, size)

    slow.read = read  # pyright: ignore[reportAttributeAccessIssue]
    assert deltas(desk.tick())[0] == "big.log takes longer to read than a tick may; Refresh() waits for it"
    opened = desk.files.stamps
    assert desk.tick() == ()
    assert desk.files.stamps == opened + 1
    assert _shown(desk, "show(v.Refresh())").startswith("1\t0001")


# --- changes ---------------------------------------------------------------------------------------------------------


def test_an_unchanged_file_costs_one_stat_for_each_tick(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=50).Run(); w = view('big.log', '900', tokens=50).Run()")
    opened, stamps = desk.files.opens, desk.files.stamps
    assert desk.tick() == ()
    assert (desk.files.opens, desk.files.stamps) == (opened, stamps + 1)
    desk.write("big.log", LOG.replace("log 0090\n", "log 90\n"))
    told = deltas(desk.tick())
    assert told[0] == "big.log changed: 2,000 lines became 2,000, the first change at or after line 1"
    assert desk.files.opens == opened + 1
    assert _handle(desk).revision is _handle(desk, "w").revision


def test_a_difference_is_noticed_without_reading(desk: Desk) -> None:
    desk.run("v = view('big.log', tokens=50).Run()")
    opened = desk.files.opens
    assert not _handle(desk).is_stale()
    desk.write("big.log", LOG.replace("this", "That"))
    assert _handle(desk).is_stale()
    assert desk.files.opens == opened
    desk.write("young.log", LOG, age_ns=int(desk.seconds * 1e9) + 10**9)
    desk.run("v = view('young.log', tokens=50).Run()")
    assert not _handle(desk).is_stale()
    desk.write("young.log", LOG + "more\n")
    assert _handle(desk).is_stale()


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
    assert _shown(desk, "show(v, lod=3)") == (
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
    assert (_handle(desk).pos, _handle(desk, "w").pos) == ("1:0", "2:5")
    assert _shown(desk, "show(v, lod=3)") == "(changed since statement 1: 2 lines became 5,002)\n"
    desk.tail()
    desk.write("a.py", "class Foo:\n    x = 2\n")
    assert deltas(desk.tick())[0] == "a.py changed: 5,002 lines became 2"
    assert _shown(desk, "show(v, lod=3)") == "(changed since statement 2: 5,002 lines became 2)\n"
    assert _shown(desk, "show(v.SetPos('class Foo'), tokens=30)").startswith("1\tclass Foo:")
    desk.write("a.py", "one\n")
    assert deltas(desk.tick())[0].splitlines()[0].endswith("class Foo is gone, the view stays at line 1")
    desk.write("a.py", "# more\n" * 5_000)
    assert deltas(desk.tick())[0] == "a.py changed: 1 line became 5,000"


def test_a_shown_page_stays_and_others_are_lost(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    desk.write("big.log", LOG.replace("a line", "A LINE"))
    assert "101\t0101 this is a line" in _shown(desk, "show(v.SetPos('101'))")
    lost = _shown(desk, "show(v.SetPos('500'))")
    assert lost == (
        "(lines 481 to 600 of big.log cannot be read any more: the file has changed since; "
        "Refresh() shows what is there now)\n"
    )
    with pytest.raises(ValueError, match="cannot be read any more"):
        desk.run("v.SetPos(30_000)")
    with pytest.raises(ValueError, match="cannot be read any more"):
        desk.run("v.Scroll(tokens=100)")
    assert _handle(desk).pos == "500"
    assert desk.tail()
    assert desk.tick() == ()
    assert "500\t0500 this is A LINE" in _shown(desk, "show(v.Refresh())")


def test_pages_of_an_appended_file_are_still_read(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    with open(desk.root / "big.log", "a") as file:
        file.write("more\n")
    assert _shown(desk, "show(v.SetPos('2000'))").endswith("2000\t2000 this is a line of a log 2000\n")
    (desk.root / "big.log").unlink()
    assert "No such file or directory; Refresh()" in _shown(desk, "show(v.SetPos('1000'))")


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
    assert asked == [_handle(desk).source_fingerprint]
    assert "@@" not in str(caught.value)
    assert desk.files.opens == opened


# --- the past --------------------------------------------------------------------------------------------------------


def test_steps_that_run_again_see_the_pages_that_they_saw(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60).Run(); w = view('big.log', '20', tokens=60)")
    desk.run("show(v.SetPos('150'))")
    desk.write("big.log", LOG + "more\n")
    desk.tick()
    desk.run("v.Scroll(tokens=-200)")
    desk.write("big.log", "gone\n" * 5_000)
    desk.run("show(w.SetPos('1999:2')); show(v, lod=3)")
    desk.run("show(w.SetPos('20'))")
    (desk.root / "big.log").unlink()
    again = desk.rebuilt()
    assert [(step.report.displays, step.events) for step in again.steps] == [
        (step.report.displays, step.events) for step in desk.steps
    ]
    assert again.board.looks.take_phrases() == ()
    again.board.looks.settle()
    assert "20\t0020 this is" in _shown(again, "show(w)")
    assert "cannot be read any more" in _shown(again, "show(w.SetPos('1000'))")


def test_a_restored_handle_shows_its_pages(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    state = desk.board.state_of(_handle(desk))
    (desk.root / "big.log").unlink()
    other = Desk(desk.root, sizes=SIZES)
    for digest, data in desk.contents.items():
        other.board.looks.take_content(digest, data)
    other.board.looks.replay(())
    other.board.looks.know(desk.steps[0].looks)
    node = other.board.node_from("view-1.1", state)
    other.board.looks.settle()
    assert "100\t0100 this is" in node.rendered.text
    assert node.GetDigest() == _handle(desk).GetDigest()


def test_a_record_of_pages_that_are_none_is_not_believed(desk: Desk) -> None:
    desk.run("v = view('big.log', '100', tokens=60)")
    page = desk.steps[0].looks[1]
    state = desk.board.state_of(_handle(desk))
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
    desk.contents[_handle(desk).source_fingerprint] = b"damaged"
    assert "what big.log held then was too long ago" in _handle(desk.rebuilt()).rendered.text
    desk.contents.clear()
    assert "100\t0100 this is" in _handle(desk.rebuilt()).rendered.text
    desk.write("big.log", "other\n" * 9_000)
    assert "what big.log held then is not kept" in _handle(desk.rebuilt()).rendered.text
