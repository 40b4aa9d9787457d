"""Where tokens go: by which names handles are called, and whose renders are in a result."""

from __future__ import annotations

from msgspec.structs import replace

from engine.context.tail.prompt import Account
from engine.core.execution import ChangeInfo, Display, NamespaceDiff, TypeInfo
from engine.core.ids import ExecutionId, ObjId, Seq, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.nodes import NodeMade
from tests.support.timelines import timeline_of

FIRST, SECOND = ObjId("view-1.1"), ObjId("view-2.1")
_TYPE = TypeInfo(type_name="ViewHandle", short_repr="")


def account_after(*steps: tuple[ObjId | None, NamespaceDiff]) -> Account:
    """After statements that each made a handle `v`, or none, and left such a diff."""
    account = Account(timeline_of())
    for number, (made, diff) in enumerate(steps, 1):
        if made is not None:
            account.apply(NodeMade(obj_id=made, obj_type="view", statement=number, name="v"))
        account.apply(
            ExecutionFinished(
                execution_id=ExecutionId("x"),
                statement_id=StatementId(f"s{number}"),
                status="ok",
                started_at=0,
                ended_at=0,
                diff=diff,
            )
        )
    return account


def changed(name: str, *, mutated: bool) -> NamespaceDiff:
    return NamespaceDiff(changed={name: ChangeInfo(before=_TYPE, after=_TYPE, mutated=mutated)})


ADDED = NamespaceDiff(added={"v": _TYPE})


def test_a_handle_has_the_name_that_it_was_made_with_as_long_as_that_is_its() -> None:
    assert account_after((FIRST, ADDED), (None, changed("v", mutated=True))).name(FIRST) == "v"
    assert account_after((FIRST, ADDED), (None, changed("other", mutated=False))).name(FIRST) == "v"
    assert account_after((FIRST, ADDED), (None, changed("v", mutated=False))).name(FIRST) == FIRST
    assert account_after((FIRST, ADDED), (None, NamespaceDiff(deleted=("v",)))).name(FIRST) == FIRST


def test_a_name_is_one_handles() -> None:
    account = account_after((FIRST, ADDED), (SECOND, changed("v", mutated=False)))
    assert (account.name(FIRST), account.name(SECOND)) == (FIRST, "v")
    again = account_after((FIRST, ADDED), (None, NamespaceDiff(deleted=("v",))), (SECOND, ADDED))
    assert (again.name(FIRST), again.name(SECOND)) == (FIRST, "v")


def ran(tokens: int, **fields: object) -> ExecutionFinished:
    """An execution of the statement `s1` that showed a handle."""
    done = ExecutionFinished(
        execution_id=ExecutionId("x"),
        statement_id=StatementId("s1"),
        status="ok",
        started_at=0,
        ended_at=0,
        displays=(Display(obj_id=FIRST, title="t", text="x", tokens=tokens),),
    )
    return replace(done, **fields)


def renders_after(*events: Event) -> dict[ObjId, int]:
    """What handles took of the result of the call `c1`, whose statement is `s1`, after these."""
    call, result = ToolCallId("c1"), ToolResult(tool_call_id=ToolCallId("c1"), status="ok", text="x")
    asked = ToolCall(tool_call_id=call, tool="python", arguments={})
    statement = StatementRecorded(statement_id=StatementId("s1"), index=1, source="v", tool_call_id=call)
    path = [replace(event, seq=Seq(seq)) for seq, event in enumerate((asked, statement, *events, result))]
    account = Account(timeline_of(path))
    for event in path:
        account.apply(event)
    return account.nodes([result], lambda _: 1_000, {})


def test_a_result_has_the_renders_of_the_first_run_of_its_statement_and_of_no_later_one() -> None:
    assert renders_after(ran(7)) == {FIRST: 7}
    assert renders_after(ran(7), ran(30, mode="live")) == {FIRST: 7}
    assert renders_after(ran(7, displays=()), ran(30, mode="live")) == {}
    assert renders_after(ran(30, mode="dry"), ran(7)) == {FIRST: 7}
