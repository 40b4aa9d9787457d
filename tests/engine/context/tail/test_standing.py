"""What results of the View show of handles, and which of these renders are out of date: told by the events alone."""

from __future__ import annotations

from msgspec.structs import replace

from engine.context.tail.results import result_text
from engine.context.tail.standing import Standing
from engine.core.execution import Display
from engine.core.ids import EventId, ExecutionId, ObjId, Seq, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import Condensation, ResultRerendered, ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.nodes import GroupRecomputed, MethodCalled


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


def test_a_render_stands_from_its_result_on_until_a_condensation_takes_that() -> None:
    path = Path()
    path.shows(1, display("view-1.1"), result=False)
    assert path.renders == []
    entry = path.shows(2, display("view-1.1"), display("group-2.1"), display("view-2.2", given=True))
    assert path.renders == [("view-1.1", 2, False), ("group-2.1", 2, False)]
    path.add(Condensation(forgotten=(EventId("e0"),)))
    assert len(path.renders) == 2
    path.add(Condensation(forgotten=(entry,)))
    assert path.renders == []


def test_what_is_run_from_outside_and_what_never_got_a_result_stands_nowhere() -> None:
    path = Path()
    path.shows(1, display("view-1.1"), asked=False)
    path.calls("SetTokens", "view-1.1")
    assert path.renders == []
    assert path.outdated == []


def test_a_new_policy_or_place_puts_the_last_render_out_of_date_and_content_does_not() -> None:
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


def test_only_a_policy_that_changed_after_the_content_makes_a_render_merely_old() -> None:
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
