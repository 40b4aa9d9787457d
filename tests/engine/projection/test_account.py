"""Where tokens go: by which names handles are called."""

from __future__ import annotations

from engine.events.execution import ExecutionFinished
from engine.events.nodes import NodeMade
from engine.execution import ChangeInfo, NamespaceDiff, TypeInfo
from engine.ids import ExecutionId, ObjId, StatementId
from engine.projection.account import Account
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
