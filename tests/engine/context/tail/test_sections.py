"""The tail is exact and within its budget; its sections share the budget by rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.context.tail.section_parts import HISTORY_TOKENS, PLAN, Block, Surface, Table, blocks, groups, pins
from engine.context.tail.sections import TailState, assemble
from engine.core.tokens import count
from engine.files.group import GroupHandle
from engine.files.rendered import RenderedView
from engine.files.tails import FeedItem, HandleRow, MadeHandle, News, PastStatement, Policy
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


_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
_NODES = st.integers(1, 50).map("view-{}".format)
_BLOCKS = st.lists(
    st.builds(
        lambda obj_id, name, text: Block(obj_id, name, f"{name}: {text}\n"),
        _NODES,
        _NAMES,
        st.builds(lambda text, times: text * times, _TEXT, st.integers(1, 400)),
    ),
    max_size=6,
).map(tuple)


def _surface(obj_id: str, name: str, text: str, shown_in: int = 0) -> Surface:
    return Surface(
        obj_id=obj_id,
        name=name,
        heading=name,
        text=f"{text}\n",
        render=lambda room: within(text, room),
        shown_in=shown_in,
    )


def within(text: str, room: int) -> str:
    """As much of a text as has room, with a newline; nothing where not even that does."""
    while text and count(f"{text}\n") > room:
        text = text[: len(text) // 2]
    return f"{text}\n" if text else ""


_SURFACES = st.lists(
    st.builds(
        _surface,
        _NODES,
        _NAMES,
        st.builds(lambda text, times: "# " + text * times, _TEXT, st.integers(1, 400)),
        st.sampled_from((0, 0, 3)),
    ),
    max_size=6,
).map(tuple)
_NEWS = st.builds(
    News,
    items=st.lists(_ITEMS, max_size=12).map(tuple),
    left_out=st.integers(0, 300),
    earlier=st.lists(_ITEMS, max_size=12).map(tuple),
    statements=st.lists(
        st.builds(
            PastStatement,
            index=st.integers(1, 99),
            source=st.one_of(_TEXT, st.builds(lambda text, times: f"{text}\n" * times, _TEXT, st.integers(1, 400))),
            lines_left_out=st.integers(0, 3),
            ended=_TEXT,
            files=st.lists(_TEXT, max_size=2).map(tuple),
            made=st.lists(st.builds(MadeHandle, obj_id=_NODES, line=st.integers(0, 9), name=_NAMES), max_size=3).map(
                tuple
            ),
        ),
        max_size=6,
    ).map(tuple),
    statements_left_out=st.integers(0, 300),
    expansions_left_out=st.integers(0, 300),
    plan=st.lists(_TEXT.map(lambda text: f"[ ] {' '.join(text.split())}"), max_size=9).map(tuple),
)
_POLICIES = st.dictionaries(
    _NODES, st.builds(Policy, name=_NAMES, arguments=st.just({"tokens": "All", "lod": "1", "mode": None}))
)
_STATES = st.builds(
    TailState,
    rows=st.lists(_row(), max_size=30, unique_by=lambda row: row.obj_id).map(tuple),
    news=_NEWS,
    groups=_SURFACES,
    expansions=_BLOCKS,
    pins=_SURFACES,
    policies=_POLICIES,
)
_BUDGETS = st.one_of(st.integers(1, 300), st.integers(1, 5_000), st.integers(1, 100_000))


@examples(1)
@given(_STATES, _BUDGETS)
def test_a_tail_is_exact_and_within_its_budget(state: TailState, budget: int) -> None:
    tail = assemble(state, budget, count)
    assert tail.tokens == count(tail.text) <= budget
    assert sum(tail.sections.values()) == tail.tokens
    assert sum(tail.nodes.values()) <= tail.tokens
    assert assemble(state, budget, count) == tail


@examples(0.5)
@given(
    st.lists(_row(), min_size=1, max_size=40, unique_by=lambda row: row.obj_id), _NEWS, _SURFACES, st.integers(16, 600)
)
def test_the_table_is_the_minimum_and_counts_omitted_rows(
    rows: list[HandleRow], news: News, groups: tuple[Surface, ...], budget: int
) -> None:
    tail = assemble(TailState(rows=tuple(rows), news=news, groups=groups), budget, count)
    whole = Table(rows, count).within(10**6).text
    if whole in tail.text:
        return
    counts = [f"... {left} more handle{'s' * (left > 1)}" for left in range(1, len(rows) + 1)]
    assert any(line in counts for line in tail.text.splitlines())


@pytest.mark.parametrize("budget", [500, 2_000, pytest.param(16_000, marks=pytest.mark.slow)])
def test_no_section_starves_another(budget: int) -> None:
    block = "x = 1\n" * budget
    state = TailState(
        rows=tuple(_rows(3_000)),
        news=News(
            items=tuple(FeedItem(f"view-{number}", "1 line changed") for number in range(3_000)),
            statements=tuple(PastStatement(index=number, source="x = 1") for number in range(1, 1_000)),
        ),
        groups=tuple(_surface(f"group-{number}", f"g{number}", f"# {block}") for number in range(20)),
        pins=(_surface("view-1", "h1", "because"),),
    )
    tail = assemble(state, budget, count)
    assert set(tail.sections) == {"feed", "handles", "groups", "pins", "timeline"}
    assert tail.sections["handles"] >= budget // 5
    assert tail.sections["feed"] >= budget // 5
    assert tail.tokens > budget * 0.8
    assert "h1:\nbecause" in tail.text
    assert "g0:\n# x = 1" in tail.text
    assert "omitted for lack of room: g" in tail.text


def test_a_plan_without_room_is_cut_and_its_steps_counted() -> None:
    lines = tuple(f"[ ] step {number}" for number in range(100))
    whole = assemble(TailState(news=News(plan=lines)), 10_000, count)
    assert whole.text == PLAN + "".join(f"{line}\n" for line in lines)
    cut = assemble(TailState(news=News(plan=lines)), 60, count)
    assert cut.text.startswith(f"{PLAN}[ ] step 0\n")
    shown = cut.text.count("[ ]")
    assert cut.text.endswith(f"... {100 - shown} more steps\n")
    assert cut.sections == {"plan": cut.tokens}
    assert assemble(TailState(news=News(plan=lines)), 5, count).text == ""


def test_blocks_are_whole_and_what_has_no_room_is_named() -> None:
    wanted = [
        Block(f"group-{number}", f"g{number}", f"g{number}: {'word ' * size}\n")
        for number, size in enumerate((50, 900, 30))
    ]
    part = blocks("Groups:\n", wanted, 120, count)
    assert part.text == f"Groups:\n{wanted[0].text}{wanted[2].text}... 1 omitted for lack of room: g1\n"
    assert part.nodes == {"group-0": count(wanted[0].text), "group-2": count(wanted[2].text)}
    assert blocks("Groups:\n", wanted, 5, count).text == ""


def test_counted_blocks_are_counted_whatever_names_others_have() -> None:
    wanted = [Block(f"view-{number}", "n" * 300 + str(number), "word " * 900 + "\n") for number in range(14)]
    part = blocks("Shown:\n", wanted[:1], 4_000, count, older=3, advice="; show(NAME)")
    assert part.text == f"Shown:\n{wanted[0].text}... 3 omitted for lack of room; show(NAME)\n"
    assert blocks("Shown:\n", wanted, 64, count, older=3).text == "Shown:\n... 17 omitted for lack of room\n"
    few = blocks("Shown:\n", [Block(each.obj_id, "v", each.text) for each in wanted], 64, count).text
    assert few == "Shown:\n... 14 omitted for lack of room, among them v\n"


def _news(*items: FeedItem) -> News:
    return News(items=items)


def _tail(rows: list[HandleRow], news: News, budget: int) -> str:
    return assemble(TailState(rows=tuple(rows), news=news), budget, count).text


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


def test_a_cut_table_keeps_changed_then_running_then_newest() -> None:
    rows = _rows(100)
    rows[3] = replace(rows[3], changed=True)
    rows[5] = replace(rows[5], mode="running")
    text = Table(rows, count).within(120).text
    names = [line.partition(":")[0] for line in text.splitlines()[1:-1]]
    assert names[:2] == ["h3", "h5"]
    assert names[2:] == [f"h{index}" for index in range(100 - len(names[2:]), 100)]
    assert text.splitlines()[-1] == f"... {100 - len(names)} more handles"


def test_a_small_feed_fits_beside_a_cut_table() -> None:
    text = _tail(_rows(500), _news(FeedItem("view-1", "2 lines changed")), 300)
    assert text.startswith("Changed since your last statement:\nh1: 2 lines changed\nHandles")
    assert text.splitlines()[-1].startswith("... ")


def test_changes_without_room_are_counted_and_the_newest_kept() -> None:
    items = [
        FeedItem(f"view-{index}", f"{index} lines changed in a rather long file name\n+more") for index in range(60)
    ]
    text = _tail([], News(items=tuple(items), left_out=5), 200)
    lines = text.splitlines()
    shown = [line for line in lines if line.startswith("view-")]
    assert shown[-1].startswith("view-59: ")
    assert lines[1] == f"... {65 - len(shown)} changes omitted for lack of room"


def test_a_delta_that_does_not_fit_becomes_its_summary() -> None:
    text = _tail([], _news(FeedItem("view-1", "many lines changed\n" + "+x\n" * 500)), 100)
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


def test_history_of_running_handles_follows_new_changes() -> None:
    rows = [replace(row, mode="running") for row in _rows(2)]
    earlier = (
        FeedItem("view-0", "1 line changed\n+a"),
        FeedItem("view-9", "gone"),
        FeedItem("view-1", "2 lines changed"),
    )
    text = _tail(rows, News(items=(FeedItem("view-0", "3 lines changed"),), earlier=earlier), 1_000)
    assert text.startswith(
        "Changed since your last statement:\nh0: 3 lines changed\n"
        "Changed earlier, and not shown since:\nh0: 1 line changed\n+a\nh1: 2 lines changed\nHandles"
    )
    alone = _tail(rows, News(earlier=earlier), 1_000)
    assert alone.startswith("Changed, and not shown since:\nh0: 1 line changed\n+a\nh1: 2 lines changed\nHandles")
    assert "Changed" not in _tail(_rows(2), News(earlier=earlier), 1_000)


def test_a_history_takes_little() -> None:
    rows = [replace(row, mode="running") for row in _rows(60)]
    earlier = tuple(FeedItem(f"view-{number}", f"{number} lines changed\n" + "+x\n" * 40) for number in range(60))
    tail = assemble(TailState(rows=tuple(rows), news=News(earlier=earlier)), 16_000, count)
    assert 200 < tail.sections["feed"] <= HISTORY_TOKENS
    assert "h59: 59 lines changed" in tail.text


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    for name in "abc":
        desk.write(f"{name}.py", f"text of {name}\n" * 3)
    desk.run("a, b, c = (view(f'{name}.py', freq='Sync') for name in 'abc')")
    return desk


def test_group_in_a_result_is_named_and_shown_if_changed(desk: Desk) -> None:
    desk.run("g = group(a, b, lod=0)")
    assert "Shown in results: g (statement 2)\n" in desk.tail()
    desk.write("a.py", "something else\n")
    desk.tick()
    tail = desk.tail()
    assert "Groups, as they are now:\ng (group of a, b):\n# a: a.py: 1 line\n1\tsomething else\n# b: b.py" in tail
    desk.run("show(g)")
    assert "Shown in results: g (statement 3)\n" in desk.tail()


def test_a_cut_group_is_not_rendered_again_beside_its_result(desk: Desk) -> None:
    desk.run("g = group(a, b, lod=0)")
    desk.run("g.SetTokens(40)")
    assert "Shown in results: g (statement 2)\n" in desk.tail()
    desk.run("g.SetLod(1)")
    assert "Shown in results: g (statement 2)\n" in desk.tail()
    # What its members are now it has to tell, and whoever gives it more wants to see that.
    desk.write("a.py", "something else\n")
    desk.tick()
    assert "Groups, as they are now:\ng (group of a, b):\n" in desk.tail()
    desk.run("h = group(a, b, lod=0, tokens=30)")
    desk.run("h.SetTokens(300)")
    assert "h (group of a, b):\n# a: a.py" in desk.tail()


def test_an_inner_group_is_shown_by_its_outer_unless_pinned(desk: Desk) -> None:
    desk.run("inner = group(a, lod=0); g = group(inner, lod=0); inner.SetTokens(300)")
    desk.tick()
    assert "inner (group" not in desk.tail()
    desk.run("pin(inner, 'the task')")
    assert "inner (group of a; pinned: the task)" in desk.tail() or "inner (statement 2)" in desk.tail()


def test_pinned_come_first_then_changed_then_last_used(desk: Desk) -> None:
    desk.run("x = group(a, lod=0)")
    desk.run("y = group(b, lod=0)")
    desk.run("z = group(c, lod=0); pin(x, 'why')")
    for name in "abc":
        desk.write(f"{name}.py", "other\n")
    desk.tick()
    tail = desk.tail()
    places = [tail.index(f"{name} (group of") for name in ("x", "z", "y")]
    assert places == sorted(places)


def test_with_little_room_a_summary_is_rendered_smaller(desk: Desk) -> None:
    for name in "abc":
        desk.write(f"{name}.py", f"def function_of_{name}(): pass\n" * 300)
    desk.run("g = group(a, b, c, lod=0)")
    for name in "abc":
        desk.write(f"{name}.py", f"def another_of_{name}(): pass\n" * 300)
    desk.tick()
    tail = desk.tail(600)
    assert count(tail) <= 600
    assert "g (group of a, b, c):\n# a: a.py" in tail


def test_a_pinned_view_is_shown_unless_a_result_shows_it(desk: Desk) -> None:
    desk.run("pin(a, 'the bug')")
    assert "Pinned:\na (a.py; pinned: the bug), shown in the result of statement 1\n" in desk.tail()
    assert "text of a" not in desk.tail()
    desk.write("a.py", "something else\n")
    desk.tick()
    assert "a (a.py; pinned: the bug):\n1\tsomething else\n" in desk.tail()
    desk.run("unpin(a)")
    assert "Pinned" not in desk.tail()


def test_a_pin_without_room_for_its_content_is_its_heading() -> None:
    heading, text = "a (a.py; pinned: the bug)", "line\n" * 500
    pin = Surface(obj_id="view-1", name="a", heading=heading, text=text, render=lambda _: "")
    assert pins([pin], 60, count).text == f"Pinned:\n{heading}\n"
    assert groups([pin], 60, count).text == ""


def test_a_group_without_room_is_shortened_until_it_changes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.run("g = group(a, b, c, lod=0)")
    desk.write("a.py", "something else\n" * 20)
    desk.tick()
    desk.tail()
    rooms: list[int] = []
    render = GroupHandle.Render

    def counted(self: GroupHandle, lod: int | None = None, tokens: int | None = None) -> RenderedView:
        if tokens is not None:
            rooms.append(tokens)
        return render(self, lod, tokens)

    monkeypatch.setattr(GroupHandle, "Render", counted)
    first = desk.tail(200)
    assert "g (group of a, b, c):\n# a: a.py" in first
    assert len(rooms) == 1
    assert desk.tail(200) == first
    assert len(rooms) == 1
    desk.write("b.py", "new\n")
    desk.tick()
    desk.tail()
    assert "1\tnew" in desk.tail(200)
