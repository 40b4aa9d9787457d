"""Renders in results: which are out of date, and which rewrites pay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.context.tail.results import result_text
from engine.context.tail.standing import SHARE, Rewrite, Standing, choose_rewrites
from engine.core.execution import Display
from engine.core.ids import EventId, ExecutionId, ObjId, Seq, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import Condensation, ResultRerendered, ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.nodes import GroupRecomputed, MethodCalled
from tests.support.examples import examples


def display(obj_id: str, text: str = "text\n", *, given: bool = False) -> Display:
    return Display(obj_id=obj_id, title="t", text=text, tokens=len(text), digest=text, given=given)


class Path:
    """A path of events that grows, folded."""

    def __init__(self) -> None:
        self.length = 0
        self.standing = Standing()

    def add(self, event: Event) -> EventId:
        event_id = EventId(f"e{self.length}")
        self.standing.apply(replace(event, seq=Seq(self.length), event_id=event_id))
        self.length += 1
        return event_id

    def shows(self, index: int, *displays: Display, asked: bool = True, result: bool = True) -> EventId:
        """A statement whose result holds these; the id of that."""
        call, of = ToolCallId(f"c{index}"), StatementId(f"s{index}")
        if asked:
            self.add(ToolCall(tool_call_id=call, tool="python"))
        self.add(StatementRecorded(statement_id=of, index=index, source="", tool_call_id=call))
        finished = ExecutionFinished(
            execution_id=ExecutionId(f"x{index}"),
            statement_id=of,
            status="ok",
            started_at=1.0,
            ended_at=2.0,
            displays=displays,
        )
        last = self.add(finished)
        if result:
            return self.add(ToolResult(tool_call_id=call, status="ok", text=result_text(finished)))
        return last

    def calls(self, method: str, obj_id: str) -> None:
        self.add(MethodCalled(obj_id=ObjId(obj_id), obj_type="view", method=method))

    @property
    def renders(self) -> list[tuple[str, int, bool]]:
        return [(each.obj_id, each.statement, each.is_old_policy) for each in self.standing.renders]

    @property
    def outdated(self) -> list[tuple[int, dict[int, int]]]:
        return [(each.result.statement, dict(each.places)) for each in self.standing.outdated()]


def test_a_render_lasts_until_a_condensation_removes_it() -> None:
    path = Path()
    path.shows(1, display("view-1.1"), result=False)
    assert path.renders == []
    entry = path.shows(2, display("view-1.1"), display("group-2.1"), display("view-2.2", given=True))
    assert path.renders == [("view-1.1", 2, False), ("group-2.1", 2, False)]
    path.add(Condensation(forgotten=(EventId("e0"),)))
    assert len(path.renders) == 2
    path.add(Condensation(forgotten=(entry,)))
    assert path.renders == []


def test_outside_runs_and_missing_results_have_no_renders() -> None:
    path = Path()
    path.shows(1, display("view-1.1"), asked=False)
    path.calls("SetTokens", "view-1.1")
    assert path.renders == []
    assert path.outdated == []


def test_policies_and_positions_outdate_a_render_but_content_does_not() -> None:
    for method, expected in (("SetTokens", [(1, {1: 0})]), ("SetLod", [(1, {1: 0})]), ("Scroll", [(1, {1: 0})])):
        path = Path()
        path.shows(1, display("view-1.2"), display("view-1.1"))
        for other in ("Refresh", "Run", "Pause"):
            path.calls(other, "view-1.1")
        assert path.outdated == []
        path.calls(method, "view-1.1")
        assert path.outdated == expected
        path.shows(2, display("view-1.1"))
        assert path.outdated == ([] if method == "Scroll" else [(1, {1: 2})])


def test_only_a_policy_change_after_the_content_is_old_policy() -> None:
    path = Path()
    path.shows(1, display("group-1.1"))
    path.calls("SetTokens", "group-1.1")
    assert path.renders == [("group-1.1", 1, True)]
    path.add(GroupRecomputed(obj_id=ObjId("group-1.1"), delta="1 of 1 members changed"))
    assert path.renders == [("group-1.1", 1, False)]
    path.calls("SetTokens", "group-1.1")
    assert path.renders == [("group-1.1", 1, False)]
    path.shows(2, display("group-1.1"))
    path.calls("SetLod", "group-1.1")
    assert path.renders == [("group-1.1", 2, True)]


def test_a_new_render_is_as_good_as_a_first_one() -> None:
    path = Path()
    old = path.shows(1, display("view-1.1"))
    path.calls("SetTokens", "view-1.1")
    renders = (display("view-1.1", "less\n"),)
    new = path.add(ResultRerendered(tool_call_id=ToolCallId("c1"), statement=1, text="", displays=renders))
    assert path.outdated == []
    (render,) = path.standing.renders
    assert (render.digest, render.tokens, render.is_old_policy) == ("less\n", 5, False)
    path.calls("SetPos", "view-1.1")
    (outdated,) = path.standing.outdated()
    assert (outdated.result.entry, outdated.result.text) == (new, "[t]\nless")
    path.add(Condensation(forgotten=(old,)))
    assert len(path.renders) == 1
    path.add(Condensation(forgotten=(new,)))
    assert path.renders == []
    path.add(ResultRerendered(tool_call_id=ToolCallId("c1"), statement=1, text="", displays=renders))
    assert path.renders == []


ROOM = 10**9


def chosen(
    rewrites: dict[int, int], costs: list[int], kept: int, room: int = ROOM, *, always: bool = False
) -> list[int]:
    """The places of what is carried out."""
    found = choose_rewrites([Rewrite(*each) for each in rewrites.items()], costs, kept, room, at_any_price=always)
    return [rewrite.place for rewrite in found]


@pytest.mark.parametrize(("behind", "expected"), [(4_995, [1]), (5_000, []), (9_999, [])])
def test_break_must_save_a_fifth_of_the_tokens_behind_it(behind: int, expected: list[int]) -> None:
    costs = [10, 2_000, 5, behind - 5]
    assert chosen({1: 1_000}, costs, 4) == expected
    assert chosen({1: 1_000}, costs, 4, always=True) == [1]


def test_what_the_call_before_was_not_sent_is_changed_anyway() -> None:
    costs = [10, 2_000, 50_000]
    assert chosen({1: 1_990}, costs, 1) == [1]
    assert chosen({1: 1_990}, costs, 0) == [1]
    assert chosen({1: 1_990}, costs, 2) == [1], "nothing is behind it that was sent before"
    assert chosen({1: 1_990}, costs, 3) == []


def test_a_break_that_pays_includes_all_rewrites_behind_it() -> None:
    costs = [10, 1_000, 300, 1_000, 300, 1_000, 5_500]
    assert chosen({1: 500, 3: 500, 5: 500}, costs, 7) == [1, 3, 5]
    assert chosen({1: 500, 3: 500}, costs, 7) == []
    # Of several places that pay it is the one that saves most.
    costs = [10, 1_000, 3_000, 1_000, 3_000, 1_000, 1_000]
    assert chosen({1: 500, 3: 500, 5: 500}, costs, 7) == [5]
    assert chosen({1: 400, 3: 100, 5: 100}, costs, 7) == [3, 5]


def test_growing_rewrites_need_a_break_and_room() -> None:
    costs = [10, 100, 100, 1_000]
    assert chosen({1: 300, 2: 300}, costs, 0) == [1, 2]
    assert chosen({1: 300, 2: 300}, costs, 0, room=1_500) == [1]
    assert chosen({1: 300, 2: 300}, costs, 0, room=1_500, always=True) == [1]
    assert chosen({1: 300, 3: 10}, costs, 0, room=100) == [3]
    assert chosen({1: 300}, costs, 4) == []


COSTS = st.lists(st.integers(1, 60_000), min_size=1, max_size=30)


@examples(1)
@given(COSTS, st.data())
def test_rewrites_save_tokens_and_fit_the_room(costs: list[int], data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(costs) - 1))))
    rewrites = {place: data.draw(st.integers(1, 60_000)) for place in places}
    kept, room = data.draw(st.integers(0, len(costs))), data.draw(st.integers(-1_000, 2_000_000))
    found = chosen(rewrites, costs, kept, room)
    after = [rewrites[place] if place in found else cost for place, cost in enumerate(costs)]
    assert sum(after) <= max(room, sum(costs))
    early = [place for place in found if place < kept]
    if early:
        # What is saved in the cached part, against what of it has to be read anew.
        shrunk = [
            rewrites[place] if place >= early[0] and place in rewrites else cost for place, cost in enumerate(costs)
        ]
        assert SHARE * (sum(costs[:kept]) - sum(shrunk[:kept])) > sum(shrunk[early[0] + 1 : kept])
    assert set(found) >= {place for place in places if place >= kept and rewrites[place] <= costs[place]}
    assert chosen(rewrites, costs, kept, room) == found
