"""The timeline section: condensed statements with calls as they would be written now."""

from __future__ import annotations

import ast
from itertools import count as numbers

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.context.tail.past_statements import SENT_CHARS, SOURCE_CHARS, PastStatements
from engine.context.tail.timeline import HEADING, TIMELINE_TOKENS, as_it_is_now, past
from engine.core.execution import ExceptionInfo, ExecutionStatus, Location
from engine.core.ids import EventId, ExecutionId, MessageId, ObjId, Seq, StatementId, ToolCallId
from engine.core.tokens import count
from engine.files.tails import MadeHandle, PastStatement, Policy
from engine.log.events import Event
from engine.log.events.conversation import Condensation, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, StatementOmitted, StatementRecorded
from engine.log.events.nodes import MethodCalled, NodeMade
from engine.log.timeline import Timeline
from tests.support.examples import examples

NOW = {"pos": '"0:0"', "tokens": "All", "lod": "1", "mode": None, "freq": None}


def made(line: int = 1, name: str = "foo", *changed_by: str, obj_id: str = "view-1.1", until: int = 12) -> MadeHandle:
    return MadeHandle(obj_id=obj_id, line=line, name=name, changed_by=changed_by, until=until if changed_by else 0)


def written(source: str, *handles: MadeHandle, **policies: Policy) -> str:
    """What becomes of the source of statement 1 where the handles are at `NOW`, by their names."""
    now = {each.obj_id: policies.get(each.name, Policy(each.name, NOW)) for each in handles}
    return as_it_is_now(PastStatement(index=1, source=source, made=handles), now)


# --- one statement ---------------------------------------------------------------------------------------------------


def test_a_superseded_call_is_commented_above_its_replacement() -> None:
    source = 'foo_cs_file = open("~/Foo.cs")\nfoo_cs = view(foo_cs_file, pos=0, tokens=2000)\n'
    assert written(source, made(2, "foo_cs", "SetLod", "SetTokens")) == (
        'foo_cs_file = open("~/Foo.cs")\n'
        "# foo_cs = view(foo_cs_file, pos=0, tokens=2000)  # statement 1, until statement 12\n"
        "foo_cs = view(foo_cs_file, pos=0, tokens=All, lod=1)"
    )


@pytest.mark.parametrize(
    ("source", "methods", "now"),
    [
        ("foo = view(f'{x}.py', '3', 50)", ["SetTokens"], "foo = view(f'{x}.py', '3', All)"),
        ("foo = view('a', '3', n)", ["SetPos"], "foo = view('a', \"0:0\", n)"),
        ("foo = view('a').SetLod(1)", ["SetLod"], "foo = view('a', lod=1)"),
        ("foo = view('a', freq='Sync')", ["Pause"], "foo = view('a')"),
        ("foo = view('a', '1', 9, 0, 'running')", ["Pause"], "foo = view('a', '1', 9, 0, \"paused\")"),
        ("foo = view(\n    'a',  # the first\n    tokens=9,\n)", ["SetTokens"], "foo = view('a', tokens=All)"),
        ("foo = view('é', tokens=9)", ["SetTokens"], "foo = view('é', tokens=All)"),
    ],
)
def test_arguments_that_nothing_has_changed_stay_as_they_are_written(source: str, methods: list[str], now: str) -> None:
    lines = written(source, made(1, "foo", *methods)).splitlines()
    assert lines[-1] == now
    assert [line.removeprefix("# ") for line in lines[:-1]] == [
        *source.splitlines()[:-1],
        f"{source.splitlines()[-1]}  # statement 1, until statement 12",
    ]


def test_a_group_is_written_with_its_current_members() -> None:
    group = Policy("work", {**NOW, "freq": '"Sync"'}, ("foo", '"src/**"'))
    handle = made(1, "work", "Add", "Run", obj_id="group-1.1")
    lines = written("work = group(foo, tokens=900)", handle, work=group).splitlines()
    assert lines[-1] == 'work = group(foo, "src/**", tokens=900, freq="Sync")'
    nameless = Policy("work", group.arguments, None)
    assert written("work = group(foo)", handle, work=nameless).splitlines()[0].startswith("# line 1: work is now at ")


def test_code_on_the_line_of_a_superseded_call_moves() -> None:
    source = "x = 'é'; foo = view('a');  bar = view('b') ; y = 2  # why"
    handles = (made(1, "foo", "SetLod"), made(1, "bar", "SetLod", obj_id="view-1.2", until=1))
    assert written(source, *handles) == (
        "x = 'é'\n"
        "# foo = view('a')  # statement 1, until statement 12\nfoo = view('a', lod=1)\n"
        "# bar = view('b')  # statement 1\nbar = view('b', lod=1)\n"
        "y = 2  # why"
    )
    assert written("foo = view('a');\r\ny = 2", handles[0]).splitlines()[1:] == ["foo = view('a', lod=1)", "y = 2"]


@pytest.mark.parametrize(
    "source",
    [
        "if True:\n    foo = view('a')",
        "foo = bar = view('a')",
        "foo, bar = view('a'), 1",
        "foo = shown(view('a'))",
        "foo = view(**options)",
        "foo = view(*paths)",
        "exec('foo = view(1)')",
        "foo = group('a')",
    ],
)
def test_any_other_call_stays_with_a_comment(source: str) -> None:
    line = 2 if source.startswith("if") else 1
    assert written(source, made(line, "foo", "SetTokens")) == (
        f'# line {line}: foo is now at pos="0:0", tokens=All, lod=1\n{source}'
    )


def test_a_comment_stands_above_the_statement_that_it_is_about() -> None:
    source = "x = '''\n1'''\n\ndef f():\n    return view('a')\nfoo = f()\n"
    assert (
        written(source, made(5, "foo", "SetLod")).splitlines()[3]
        == '# line 5: foo is now at pos="0:0", tokens=All, lod=1'
    )
    assert ast.unparse(ast.parse(written(source, made(5, "foo", "SetLod")))) == ast.unparse(ast.parse(source))


def test_a_deleted_or_renamed_handle_is_not_assigned() -> None:
    gone = PastStatement(index=1, source="foo = view('a')", made=(made(),))
    assert as_it_is_now(gone, {}) == "# line 1: foo is gone\nfoo = view('a')"
    assert written("foo = view('a')", made(1, "foo", "SetLod"), foo=Policy("bar", NOW)).startswith(
        "# line 1: bar is now"
    )
    assert written("foo = view('a')", made()) == "foo = view('a')"


@pytest.mark.parametrize("source", ["foo = view('a'", "\ufefffoo = view('a')", "foo = '\0'", "(" * 300, "x = '\ud800'"])
def test_what_python_cannot_read_stays_as_it_is(source: str) -> None:
    text = written(source, made(1, "foo", "SetLod"))
    assert text == f'# line 1: foo is now at pos="0:0", tokens=All, lod=1\n{source}'


def test_of_many_handles_of_one_statement_few_are_told() -> None:
    handles = tuple(made(1, "", "SetLod", obj_id=f"view-1.{number}") for number in range(1, 40))
    lines = written("foo = [view(str(n)) for n in range(39)]", *handles).splitlines()
    assert len(lines) == 6
    assert lines[0] == "# ... 35 more handles that have changed since"


@examples(0.5)
@given(
    st.lists(
        st.sampled_from(
            [
                "x = 1",
                "é = '''\n;'''",
                "",
                "# a",
                "foo = view('a', tokens=n)",
                "bar = view(\n'b')",
                "if x:\n  y = 2",
                ";",
            ]
        ),
        max_size=6,
    ),
    st.sampled_from(["\n", "; ", "\r\n", " ;"]),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_what_is_left_is_still_python_and_does_the_same(
    pieces: list[str], between: str, first: int, second: int
) -> None:
    source = between.join(pieces)
    handles = (made(first, "foo", "SetLod"), made(second, "bar", "SetLod", obj_id="view-1.2"))
    text = written(source, *handles)
    try:
        before = ast.parse(source)
    except SyntaxError:
        assert source.strip("\r\n").rstrip() in text
        return
    told = ast.parse(text)
    for call in (node for node in ast.walk(told) if isinstance(node, ast.Call)):
        call.keywords = [each for each in call.keywords if ast.unparse(each) != "lod=1"]
    assert ast.dump(told) == ast.dump(before)


# --- the section -----------------------------------------------------------------------------------------------------


def statement(index: int, source: str = "x = 1", **fields: str) -> PastStatement:
    return PastStatement(index=index, source=source, **fields)


def section(statements: list[PastStatement], budget: int, left_out: int = 0) -> str:
    part = past(tuple(statements), left_out, {}, count)(budget)
    assert part.tokens == count(part.text) <= budget
    return part.text


def test_statements_stand_in_their_order_with_what_became_of_them() -> None:
    ran = [statement(1), statement(2, "1 / 0\n", ended="error: ZeroDivisionError: division by zero")]
    assert section(ran, 1_000) == (
        f"{HEADING}# statement 1\nx = 1\n# statement 2, error: ZeroDivisionError: division by zero\n1 / 0\n"
    )
    assert section([], 1_000) == ""
    files = PastStatement(index=3, source="show(a)", files=("/w/a\n.py",), lines_left_out=1)
    assert section([files], 1_000, 7) == (
        f"{HEADING}# ... 7 earlier statements\n# statement 3 (looked at /w/a\\n.py)\nshow(a)\n# ... 1 more line\n"
    )


def test_with_little_room_the_newest_are_kept_and_cut() -> None:
    ran = [
        *(statement(number) for number in range(1, 40)),
        statement(40, "long = 1\n" + "y = 2\n" * 200),
        statement(41),
    ]
    text = section(ran, 100, 2)
    assert "# statement 41\nx = 1\n" in text
    assert "# statement 40\nlong = 1\n# ... 200 more lines\n" in text
    cut = replace(ran[39], lines_left_out=500)
    assert "# statement 40\nlong = 1\n# ... 700 more lines\n" in section([*ran[:39], cut, ran[40]], 100, 2)
    assert "# statement 1\nx = 1\n# ... 3 more lines\n" in section([replace(statement(1), lines_left_out=3)], 100)
    kept = text.count("# statement")
    assert text.startswith(f"{HEADING}# ... {41 - kept + 2} earlier statements\n")
    assert section(ran, 16) == ""
    assert TIMELINE_TOKENS / 2 < count(section(ran * 9, 10**6)) <= TIMELINE_TOKENS


# --- the fold --------------------------------------------------------------------------------------------------------


class Path:
    """A path of events that grows, folded."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.timeline = Timeline(self.events.__getitem__)
        self.fold = PastStatements(self.timeline)

    def add(self, event: Event) -> Event:
        seq = len(self.events)
        event = replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}"))
        self.events.append(event)
        self.timeline.apply(event)
        self.fold.apply(event)
        return event

    def ran(
        self, index: int, source: str = "x = 1", *during: Event, status: ExecutionStatus = "ok", asked: bool = True
    ) -> list[EventId]:
        """The ids of what the View has of a statement."""
        call, of = ToolCallId(f"c{index}"), StatementId(f"s{index}")
        execution = ExecutionId(f"x{index}")
        entries = [self.add(ToolCall(tool_call_id=call, tool="python", arguments={"source": source}))] if asked else []
        self.add(StatementRecorded(statement_id=of, index=index, source=source, tool_call_id=call))
        self.add(ExecutionStarted(execution_id=execution, statement_id=of))
        for event in during:
            self.add(event)
        failed = None if status == "ok" else ExceptionInfo(type="OSError", message="no\nway")
        self.add(
            ExecutionFinished(
                execution_id=execution,
                statement_id=of,
                status=status,
                started_at=1.0,
                ended_at=2.0,
                exception=failed,
                locations=(Location(path="/w/a.py"), Location(path="/w/b.py"), Location(path="/w/b.py")),
            )
        )
        if asked:
            entries.append(self.add(ToolResult(tool_call_id=call, status="ok", text="")))
        return [entry.event_id for entry in entries]


def called(method: str, obj_id: str = "view-1.1") -> MethodCalled:
    return MethodCalled(obj_id=ObjId(obj_id), obj_type="view", method=method)


def test_a_condensed_statement_is_past_with_its_handles() -> None:
    path = Path()
    node = NodeMade(obj_id=ObjId("view-1.1"), obj_type="view", statement=1, line=1, name="a")
    first = path.ran(1, "a = view('a.py')", node)
    second = path.ran(2, "a.SetLod(1)", called("SetLod"), called("Refresh"), status="error")
    path.ran(3, "outside", called("SetTokens"), asked=False)
    path.ran(4)
    assert path.fold.newest() == ()
    path.add(Condensation(forgotten=(*first, EventId("e9999"))))
    (told,) = path.fold.newest()
    handle = MadeHandle(obj_id="view-1.1", line=1, name="a", changed_by=("SetLod", "SetTokens"), until=2)
    assert told == PastStatement(index=1, source="a = view('a.py')", files=("/w/b.py",), made=(handle,))
    path.add(Condensation(forgotten=tuple(second)))
    assert [(each.index, each.ended) for each in path.fold.newest()] == [(1, ""), (2, "error: OSError: no")]
    path.add(StatementOmitted(statement_id=StatementId("s2")))
    assert path.fold.newest()[1].ended == "error: OSError: no; left out of the namespace"


def test_an_unrun_statement_says_so_and_foreign_calls_are_omitted() -> None:
    path = Path()
    ids: list[EventId] = []
    for number, tool in zip(numbers(1), ("python", "grep"), strict=False):
        call = ToolCallId(f"c{number}")
        ids.append(path.add(ToolCall(tool_call_id=call, tool=tool)).event_id)
    path.add(StatementRecorded(statement_id=StatementId("s"), index=1, source="x", tool_call_id=ToolCallId("c1")))
    message = path.add(UserMessage(message_id=MessageId("m"), text="hi"))
    path.add(Condensation(forgotten=(*ids, message.event_id)))
    assert [(each.source, each.ended) for each in path.fold.newest()] == [("x", "not run")]


def test_many_long_statements_are_bounded() -> None:
    path = Path()
    for index in range(1, 40):
        ids = path.ran(index, "y = 1\n" * 1_000)
        path.add(Condensation(forgotten=tuple(ids)))
    newest = path.fold.newest()
    assert [each.index for each in newest] == list(range(40 - len(newest), 40))
    assert 1 < len(newest) <= SENT_CHARS // (SOURCE_CHARS - 10)
    assert len(path.fold) == 39
    assert all(len(each.source) <= SOURCE_CHARS and each.source.endswith("y = 1\n") for each in newest)
    assert newest[0].source.count("\n") + newest[0].lines_left_out == 1_000
    path = Path()
    for index in range(1, 1_000):
        path.add(Condensation(forgotten=tuple(path.ran(index, "x"))))
    assert 200 < len(path.fold.newest()) < 500
    assert len(path.fold) == 999
