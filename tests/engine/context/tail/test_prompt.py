"""Instructions are short and their examples work; tokens by handle; shortened texts."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.context.models.written_replies import BlockReader
from engine.context.tail.prompt import (
    EXAMPLES,
    MAX_INSTRUCTION_TOKENS,
    WORKED,
    Account,
    fair_limit,
    instructions,
    shortened,
)
from engine.context.tail.results import CLOSING, OPENING
from engine.core.execution import ChangeInfo, Display, NamespaceDiff, TypeInfo
from engine.core.ids import ExecutionId, ObjId, Seq, StatementId, ToolCallId
from engine.core.tokens import count
from engine.core.toolbox import INJECTED
from engine.log.events import Event
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.nodes import NodeMade
from engine.log.forms import FormAnswer
from engine.runtime.worker.names import InjectedNames
from engine.session.tools import OPERATIONS, Change, Download, Reading, UserQuestion, Workspace, land
from engine.session.tools.ask import ANSWER, answered
from engine.session.tools.bash import Program
from tests.support.boards import Desk
from tests.support.searching import RIPGREP, outcome_of
from tests.support.timelines import timeline_of


@pytest.mark.parametrize("calls_tools", [True, False])
def test_instructions_are_short_and_show_every_example(calls_tools: bool) -> None:
    text = instructions("/home/someone/project", calls_tools=calls_tools)
    assert count(text) <= MAX_INSTRUCTION_TOKENS
    assert all(example.source in text and example.comment in text for example in EXAMPLES)
    shown = " ".join(example.source for example in EXAMPLES)
    assert all(f"{name}(" in shown for name in INJECTED - {"All", "restore_names"})


def test_instructions_ask_for_calls_or_for_blocks_that_are_read() -> None:
    called, written = (instructions("/p", calls_tools=calls_tools) for calls_tools in (True, False))
    assert ("Call the tool `python`" in called, OPENING in called) == (True, False)
    assert ("tool" in written, f"a line `{OPENING}`" in written, f"a line `{CLOSING}`" in written) == (
        False,
        True,
        True,
    )
    reader = BlockReader()
    assert reader.read(f"{OPENING}\n1\n{CLOSING}\n") + reader.end() == ""
    assert reader.source == "1\n"
    # Who repeats the instructions runs nothing.
    quoting = BlockReader()
    assert quoting.read(written) + quoting.end() == written


def names_in(project: Path) -> Desk:
    """A namespace whose tools do in the project what they are told, asking nobody."""
    desk, workspace = Desk(project), Workspace(str(project), ripgrep=RIPGREP)

    def ask(name: str, arguments: dict[str, object], _basis: str | None = None) -> object:
        tool = OPERATIONS[name]
        found = tool.perform(workspace, msgspec.convert(arguments, tool.arguments))
        match found:
            case Change():
                land(workspace, found)
                return found.value
            case Program():
                return found.answer(outcome_of(found.request))
            case Reading():
                return found.value
            case Download(url=url):
                return {"url": str(url), "status": 200, "type": "text/html", "text": "# Example\n"}
            case UserQuestion():
                return answered(FormAnswer(outcome="accepted", values={ANSWER: "this"}))
            case _:
                return found

    InjectedNames(desk.board, ask, lambda path, mode: StringIO(), desk.namespace)
    return desk


def test_every_example_runs_in_a_project_with_a_readme(tmp_path: Path) -> None:
    desk = names_in(tmp_path)
    desk.write("README.md", "line\n" * 60)
    for example in EXAMPLES:
        desk.run(example.source)
    assert desk.get("text") == "line\n" * 60


def test_the_worked_statement_renames_and_runs_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = names_in(tmp_path)
    programs = tmp_path / "programs"
    for folder in (tmp_path / "src", programs):
        folder.mkdir()
    (programs / "python").write_text('#!/bin/sh\necho "$@: 2 passed"\n')
    (programs / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    desk.write("src/a.py", "def old_name():\n    return old_name\n")
    desk.write("src/b.py", "import c\n")
    desk.run(f"done = None\n{WORKED.replace('bash(', 'done = bash(')}")
    assert (tmp_path / "src/a.py").read_text() == "def new_name():\n    return new_name\n"
    assert repr(desk.get("done")) == "-m pytest -q: 2 passed"
    assert WORKED in instructions(str(tmp_path))


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


def test_a_handle_has_its_first_name_while_that_is_valid() -> None:
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


def test_a_result_has_the_renders_of_its_first_run() -> None:
    assert renders_after(ran(7)) == {FIRST: 7}
    assert renders_after(ran(7), ran(30, mode="live")) == {FIRST: 7}
    assert renders_after(ran(7, displays=()), ran(30, mode="live")) == {}
    assert renders_after(ran(30, mode="dry"), ran(7)) == {FIRST: 7}


@given(st.lists(st.integers(0, 5_000)), st.integers(-100, 20_000))
def test_the_limit_makes_all_fit_wherever_any_limit_does(costs: list[int], room: int) -> None:
    limit = fair_limit(costs, room)
    assert limit >= 32
    assert limit & (limit - 1) == 0
    smallest = sum(min(cost, 32) for cost in costs)
    assert sum(min(cost, limit) for cost in costs) <= max(room, smallest)
    if limit < max(costs, default=0):
        assert sum(min(cost, 2 * limit) for cost in costs) > room


@given(st.text(), st.floats(0, 1))
def test_a_shortened_text_keeps_its_ends_and_names_the_gap(text: str, share: float) -> None:
    head, _, rest = shortened(text, share).partition("\n... ")
    missing, _, tail = rest.partition(" left out, because the context is full ...\n")
    if "\n... " not in text:
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + len(tail) + int(missing.split()[0]) == len(text)
        assert len(head) + len(tail) == int(len(text) * share)
