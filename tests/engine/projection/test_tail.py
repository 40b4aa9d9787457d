"""The tail block: never over budget, exact, the table its floor, the feed told until it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.ports import FeedItem, HandleRow, News
from engine.projection.handles import table
from engine.projection.tail import assemble
from engine.tokens import count
from tests.support.boards import Desk
from tests.support.examples import examples

_LINE = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=30)
_NAMES = st.from_regex(r"[a-zé_][a-z0-9_]{0,8}", fullmatch=True)


@st.composite
def _row(draw: st.DrawFn) -> HandleRow:
    return HandleRow(
        name=draw(_NAMES),
        obj_id=f"view-{draw(st.integers(1, 50))}",
        obj_type="view",
        mode=draw(st.sampled_from(["paused", "running"])),
        freq="",
        lod=0,
        tokens=draw(st.integers(0, 100_000)),
        used_tokens=draw(st.integers(0, 5000)),
        changed=draw(st.booleans()),
        title=draw(_LINE),
    )


_ITEMS = st.builds(
    FeedItem,
    obj_id=st.integers(1, 50).map("view-{}".format),
    text=st.lists(st.one_of(_LINE, st.sampled_from(["", " ", "/", "\r", "+x", "-"])), min_size=1, max_size=12).map(
        "\n".join
    ),
)


@examples(1.5)
@given(st.lists(_row(), max_size=30), st.lists(_ITEMS, max_size=12), st.integers(0, 300), st.integers(0, 900))
def test_never_over_budget_and_exact(rows: list[HandleRow], items: list[FeedItem], dropped: int, budget: int) -> None:
    news = News(items=tuple(items), left_out=dropped)
    text, tokens = assemble(rows, news, budget, count)
    assert tokens == count(text) <= budget
    assert assemble(rows, news, budget, count) == (text, tokens)


@examples(1)
@given(st.lists(_row(), min_size=1, max_size=40), st.lists(_ITEMS, max_size=5), st.integers(16, 600))
def test_the_table_is_the_floor_and_says_how_many_are_left_out(
    rows: list[HandleRow], items: list[FeedItem], budget: int
) -> None:
    text, _ = assemble(rows, News(items=tuple(items)), budget, count)
    whole = table(rows, 10**6, count)[0]
    if text.endswith(whole):
        return
    last = text.splitlines()[-1]
    shown = sum(line in whole.splitlines()[1:] for line in text.rpartition("tokens used/budget):\n")[2].splitlines())
    assert last in {f"... {left} more handle{'s' * (left > 1)}" for left in range(len(rows) - shown, len(rows) + 1)}


def _news(*items: FeedItem) -> News:
    return News(items=items)


def _rows(number: int) -> list[HandleRow]:
    base = HandleRow(
        name="",
        obj_id="",
        obj_type="view",
        mode="paused",
        freq="",
        lod=0,
        tokens=9,
        used_tokens=9,
        changed=False,
        title="t",
    )
    return [replace(base, name=f"h{index}", obj_id=f"view-{index}") for index in range(number)]


def test_a_cut_table_keeps_what_changed_then_what_runs_then_the_newest() -> None:
    rows = _rows(100)
    rows[3] = replace(rows[3], changed=True)
    rows[5] = replace(rows[5], mode="running")
    text, _ = table(rows, 120, count)
    names = [line.partition(":")[0] for line in text.splitlines()[1:-1]]
    assert names[:2] == ["h3", "h5"]
    assert names[2:] == [f"h{index}" for index in range(100 - len(names[2:]), 100)]
    assert text.splitlines()[-1] == f"... {100 - len(names)} more handles"


def test_at_the_smallest_budget_the_number_of_handles_is_left() -> None:
    assert assemble(_rows(1000), _news(FeedItem("view-1", "changed")), 16, count)[0] == "... 1000 more handles\n"


def test_a_small_feed_is_shown_beside_a_table_that_has_to_be_cut() -> None:
    text, _ = assemble(_rows(500), _news(FeedItem("view-1", "2 lines changed")), 300, count)
    assert text.startswith("Changed since your last statement:\nh1: 2 lines changed\nHandles")
    assert text.splitlines()[-1].startswith("... ")


def test_changes_without_room_are_counted_and_the_newest_kept() -> None:
    items = [
        FeedItem(f"view-{index}", f"{index} lines changed in a rather long file name\n+more") for index in range(60)
    ]
    text, _ = assemble([], News(items=tuple(items), left_out=5), 200, count)
    lines = text.splitlines()
    shown = [line for line in lines if line.startswith("view-")]
    assert shown[-1].startswith("view-59: ")
    assert lines[1] == f"... {65 - len(shown)} changes not shown for want of room"


def test_a_delta_whose_diff_does_not_fit_is_shown_by_its_summary() -> None:
    text, _ = assemble([], _news(FeedItem("view-1", "many lines changed\n" + "+x\n" * 500)), 100, count)
    assert text == "Changed since your last statement:\nview-1: many lines changed\n"


def test_changes_are_told_once_and_by_name(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("a.py", "x\n")
    desk.run("engine = view('a.py', freq='Sync')")
    desk.tail()
    desk.write("a.py", "y\n")
    desk.tick()
    desk.tick()
    assert "engine: 1 line changed in a.py (+1 -1), first at line 1\n@@ -1 +1 @@\n-x\n+y\n" in desk.tail()
    assert "changed" not in desk.tail()


@pytest.mark.parametrize("budget", [16, 40, 100, 1000, 8000])
def test_a_thousand_handles_stay_within_any_budget(tmp_path: Path, budget: int) -> None:
    desk = Desk(tmp_path)
    desk.run("many = [view(text=f'x {n}') for n in range(1000)]")
    text, tokens, rows = desk.board.tail(desk.namespace, budget, News())
    assert tokens == count(text) <= budget
    assert len(rows) == 1000
    assert text.splitlines()[-1].endswith("more handles")
