"""What `rewindow show` prints: timeline, cycles, and prompts as they were sent."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from msgspec.structs import replace

from engine.cli import main
from engine.cli.output import BRANCH
from engine.cli.show import TYPED, cycles_text
from engine.core.execution import TextChange
from engine.core.ids import MAIN_BRANCH, EventId, ExecutionId, MessageId, ObjId, Seq, SessionId, StatementId, ToolCallId
from engine.log.cycles import cycles_of
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import (
    CommandEnded,
    ExecutionFinished,
    ExecutionStarted,
    FileWritten,
    StatementRecorded,
)
from engine.log.events.going_back import BranchCreated, FileToRestore, HeadMoved, Rewound
from engine.log.events.nodes import NodeMade
from engine.log.events.session import ModelCallEnded, ProjectionSent, PromptQueued, PromptWithdrawn
from engine.log.redaction import NO_SECRETS
from engine.session.commands.timeline import no_tagged_statement
from engine.session.session_json import session_json
from tests.support.commands import SECONDS, Home
from tests.support.fixed import FixedClock
from tests.support.foreign import DATA, sample
from tests.support.stores import row

A_VIEW = ObjId("view-1.1")


def statements(count: int) -> list[Event]:
    events: list[Event] = []
    for index in range(1, count + 1):
        statement, execution = StatementId(f"s{index}"), ExecutionId(f"x{index}")
        call = ToolCallId(f"c{index}")
        for kind, fields in (
            (StatementRecorded, {"index": index, "source": f"{index}", "tool_call_id": call}),
            (ExecutionStarted, {"execution_id": execution}),
            (
                ExecutionFinished,
                {"execution_id": execution, "status": "ok", "started_at": 1.0, "ended_at": 2.0, "value": f"={index}"},
            ),
        ):
            seq = len(events)
            events.append(kind(seq=Seq(seq), event_id=EventId(f"e{seq}"), statement_id=statement, **fields))
    return events


def show(home: Home, events: list[Event], name: str = "ses_a") -> str:
    """What the command prints of a session with these events."""
    keep(home, events, name)
    done = home.run("show", name)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def keep(home: Home, events: list[Event], name: str) -> None:
    store = home.store()
    store.add(row(SessionId(name)), events)
    store.close()


def lines_run(*arguments: str) -> int:
    """How many lines of Python the command executes."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Callable[..., object]:
        nonlocal count
        count += event == "line"
        return trace

    with contextlib.redirect_stdout(io.StringIO()):
        main(arguments)  # because the first one imports
        sys.settrace(trace)
        main(arguments)
        sys.settrace(None)
    return count


@pytest.mark.slow
def test_showing_costs_time_linear_in_the_session(empty: Home) -> None:
    names = {f"ses_{count}": statements(count) for count in (50, 100, 200)}
    for name, events in names.items():
        keep(empty, events, name)
    # In a process of its own, because Python 3.11 cannot trace where an asynchronous exception was ever withdrawn.
    program = f"from {__name__} import lines_run; print([lines_run('show', name) for name in {list(names)}])"
    command = [sys.executable, "-c", program]
    output = subprocess.check_output(command, env=empty.variables, cwd=empty.path, text=True, timeout=SECONDS)
    short, middle, long = json.loads(output)
    assert long - middle < 2.2 * (middle - short), output


def test_every_execution_is_shown_under_its_statement(empty: Home) -> None:
    blocks = show(empty, statements(3)).split("\n\n")[1:]
    assert [block.split() for block in blocks if block.strip()] == [[f"{k}>", f"{k}", f"={k}"] for k in (1, 2, 3)]


def test_prompt_that_is_a_statement_is_shown_once(empty: Home) -> None:
    recorded, started, finished = statements(1)
    prompt = UserMessage(event_id=EventId("e9"), message_id=MessageId("m1"), text="\n1\n+ 2")
    typed = stamped(prompt, replace(recorded, source=prompt.text), started, finished)
    blocks = show(empty, typed).split("\n\n")[1:]
    assert blocks == [f"{TYPED}1> 1\n        + 2\n    =1", ""]
    others = stamped(prompt, recorded, started, finished)
    assert show(empty, others, "ses_b").split("\n\n")[1:] == ["user> 1\n      + 2", "1> 1\n    =1", ""]


def test_acts_of_a_statement_are_shown_under_it(empty: Home) -> None:
    execution, parent = ExecutionId("x1"), ToolCallId("c1")
    recorded, started, finished = statements(1)
    acts = [
        ToolCall(tool_call_id=ToolCallId("h1"), tool="edit", arguments={"path": "a.py"}, parent_id=parent),
        FileWritten(
            execution_id=execution,
            tool_call_id=ToolCallId("h1"),
            path="/work/src/a.py",
            changes=(TextChange(line=3, old="a\nb\n", new="a\nB\x1b[8m\n"),),
        ),
        ToolCall(tool_call_id=ToolCallId("h2"), tool="bash", arguments={"command": "make\nit"}, parent_id=parent),
        CommandEnded(execution_id=execution, tool_call_id=ToolCallId("h2"), cwd="/work/src", code=2),
        FileWritten(
            execution_id=execution,
            tool_call_id=ToolCallId("h3"),
            path="/else/b",
            changes=(TextChange(line=1, old=None, new="x\n" * 100),),
        ),
        CommandEnded(execution_id=execution, tool_call_id=ToolCallId("h4"), cwd="/work", signal=9),
    ]
    log = [replace(event, seq=Seq(seq)) for seq, event in enumerate([recorded, started, *acts, finished])]
    text = show(empty, log)
    assert (
        "1> 1\n    src/a.py  +1 -1\n    3   a\n    4 - b\n    4 + B\\x1b[8m\n    $ make in src  [exit code 2]\n"
        "    /else/b (new file)  +100 -0\n" in text
    )
    assert "... 41 more lines\n    $ ?  [signal 9]\n    =1\n" in text


def test_execution_without_its_statement_is_shown_alone(empty: Home) -> None:
    lone = ExecutionFinished(
        seq=Seq(0),
        event_id=EventId("e0"),
        execution_id=ExecutionId("x1"),
        statement_id=StatementId("s1"),
        status="ok",
        started_at=1.0,
        ended_at=2.0,
        value="=1",
    )
    assert show(empty, [lone]).splitlines()[2:] == ["?>", "    =1", ""]


# --- what a call was sent ---------------------------------------------------------------------------------------------


def projected(home: Home, calls: int, name: str = "ses_a") -> None:
    """A session with so many calls, of which the first was answered and the last has not ended."""
    events: list[Event] = [UserMessage(message_id=MessageId("m"), text="what is this? \x1b[31m", event_id=EventId("u"))]
    store = home.store()
    digest = store.blob_put(b"work here")
    for call in range(calls):
        kept, messages = (1, ()) if call else (0, (EventId("u"),))
        events.append(
            ProjectionSent(
                round_id=3 * call + 1,
                position=1,
                size=1_000,
                instructions=digest,
                tail=digest,
                kept=kept,
                messages=messages,
                sections={"instructions": 90, "prompts": 10},
                nodes={ObjId("view-1.1"): 7},
                shared=60 * call,
            )
        )
        if call < calls - 1:
            events.append(
                ModelCallEnded(
                    round_id=3 * call + 1, used=100, size=1_000, answered=True, input_tokens=99, output_tokens=3
                )
            )
    stamped = [
        replace(event, seq=Seq(seq), event_id=event.event_id or EventId(f"e{seq}")) for seq, event in enumerate(events)
    ]
    store.add(row(SessionId(name)), [b"work here", *stamped])
    store.close()


def test_a_call_is_shown_with_its_cost_and_every_text(empty: Home) -> None:
    projected(empty, 2)
    done = empty.run("show", "ses_a", "--projection", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Model call 2 sent 100 tokens, of at most 1,000 (10%). The first 60 tokens (60%)" in done.stdout
    assert "It is unknown whether the model answered" in done.stdout
    assert "\ninstructions      90  ███████  how to work here\n" in done.stdout
    assert "`" not in done.stdout
    assert "\x1b" not in done.stdout
    for text in ("── instructions ──", "── user (u) ──", "── end of the newest message ──"):
        assert text in done.stdout


def test_a_call_is_one_json_object_with_these_fields(empty: Home) -> None:
    projected(empty, 2)
    shown = [json.loads(empty.run("show", "ses_a", "--projection", number, "--json").stdout) for number in ("1", "2")]
    assert shown[0] == {
        "call": 1,
        "round": 1,
        "answered": True,
        "tokens": {
            "used": 100,
            "size": 1_000,
            "shared": 0,
            "sections": {"instructions": 90, "prompts": 10},
            "handles": {"view-1.1": 7},
        },
        "provider": {"input": 99, "cached": None, "output": 3},
        "instructions": "work here",
        "messages": [{"event": "u", "role": "user", "shortened": False, "text": "what is this? \x1b[31m"}],
        "tail": "work here",
    }
    assert [(each["call"], each["round"], each["answered"]) for each in shown] == [(1, 1, True), (2, 4, None)]
    page = (Path(__file__).parents[3] / "docs" / "context.md").read_text(encoding="utf-8")
    names = {*shown[0], *shown[0]["tokens"], *shown[0]["provider"], *shown[0]["messages"][0]}
    assert not [name for name in names if f"`{name}`" not in page]


@pytest.mark.parametrize(
    ("calls", "arguments", "code", "said"),
    [
        (2, ("3",), 1, "there is no model call 3; the calls are numbered from 1 to 2"),
        (1, ("0",), 1, "there is no model call 0; there is 1"),
        (2, ("-1",), 1, "there is no model call -1; the calls are numbered from 1 to 2"),
        (2, ("99999999999999999999",), 1, "there is no model call 9999999999999999999"),
        (0, ("1",), 1, "no model has been called in this session"),
        (0, ("1", "--json"), 1, "no model has been called in this session"),
        (2, ("x",), 2, "Invalid value for '--projection'"),
        (2, ("1", "--events"), 2, "use only one"),
    ],
)
def test_a_call_that_there_is_not_is_an_error(
    empty: Home, calls: int, arguments: tuple[str, ...], code: int, said: str
) -> None:
    projected(empty, calls)
    done = empty.run("show", "ses_a", "--projection", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.replace("│", " ").replace("\n", " ")


def test_show_follows_the_active_branch_and_each_calls_handles(empty: Home) -> None:
    def call(message: str) -> ProjectionSent:
        return ProjectionSent(
            round_id=1, position=1, size=99, messages=(EventId(message),), sections={"prompts": 50}, nodes={A_VIEW: 40}
        )

    def made(name: str) -> list[Event]:
        statement, execution = StatementId(name), ExecutionId(name)
        finished = ExecutionFinished(
            execution_id=execution, statement_id=statement, status="ok", started_at=1.0, ended_at=2.0, value=name
        )
        return [
            StatementRecorded(statement_id=statement, index=1, source=name, tool_call_id=ToolCallId(name)),
            ExecutionStarted(execution_id=execution, statement_id=statement),
            NodeMade(obj_id=A_VIEW, obj_type="view", statement=1, line=1, name=name),
            finished,
        ]

    log = EventLog(FixedClock(), lambda _: None)
    said = [UserMessage(message_id=MessageId(text), text=text) for text in ("asked", "left behind", "went on")]
    b1 = log.branches.next_name
    moves = (
        BranchCreated(branch=b1, parent=MAIN_BRANCH, before=Seq(1)),
        HeadMoved(branch=b1, left=MAIN_BRANCH, statement=0),
    )
    restored = Rewound(statement=0, restored=(FileToRestore(path="/work/a.py"),))
    for event in (
        said[0],
        *made("first"),
        said[1],
        call("e5"),
        *moves,
        *made("second"),
        said[2],
        call("e13"),
        restored,
    ):
        log.append(event)
    shown = show(empty, list(log.events))
    assert [word in shown for word in ("asked", "went on", "second", "left behind", "first")] == [True] * 3 + [
        False
    ] * 2
    place = BRANCH.format(branch=b1, place="the beginning", left=MAIN_BRANCH)
    assert f"branch> {place}\n" in shown
    assert "files> Restored 1 file to its contents at the beginning: a.py.\n" in shown
    cycles = json.loads(empty.run("show", "ses_a", "--cycles", "--json").stdout)
    assert "left behind" not in str(cycles)
    for number, text, handle in (("1", "left behind", "first"), ("2", "went on", "second")):
        done = empty.run("show", "ses_a", "--projection", number)
        assert text in done.stdout
        assert handle in done.stdout, done.stdout


def stamped(*events: Event) -> list[Event]:
    return [replace(event, seq=Seq(seq)) for seq, event in enumerate(events)]


def said(name: str, text: str, **fields: str) -> Event:
    return UserMessage(message_id=MessageId(name), text=text, **fields)


def call(name: str, tool: str, parent: str | None = None, **arguments: object) -> Event:
    parent_id = None if parent is None else ToolCallId(parent)
    return ToolCall(tool_call_id=ToolCallId(name), tool=tool, arguments=arguments, parent_id=parent_id)


def result(name: str, status: str = "ok", parent: str | None = None) -> Event:
    parent_id = None if parent is None else ToolCallId(parent)
    return ToolResult(tool_call_id=ToolCallId(name), status=status, text=f"result of {name}", parent_id=parent_id)


EVERYTHING = stamped(
    AgentText(message_id=MessageId("a0"), text="too early"),
    said("m1", "fix it\nplease"),
    AgentReasoning(message_id=MessageId("r1"), text="\nI think\nso"),
    call("c1", "python", source="read('a')\nwrite('b')"),
    call("c2", "read", parent="c1", path="a"),
    result("c2", parent="c1"),
    call("c3", "write", parent="c1", path="b"),
    result("c3", "error", parent="c1"),
    result("c1"),
    said("m2", "faster", prompt_kind="steer"),
    call("c4", "bash", command="ls"),
    call("c5", "grep", pattern="x" * 200),
    result("c4", "rejected"),
    AgentText(message_id=MessageId("a1"), text="Done."),
    PromptQueued(message_id=MessageId("m3"), text="then this"),
    PromptQueued(message_id=MessageId("m4"), text="not this"),
    PromptWithdrawn(message_id=MessageId("m4")),
    RunStop(reason="error", cause="max_tokens", detail="full\nup"),
    said("m5", "and"),
)

LAYOUT = """\
cycle 1 (direct)> fix it
  reasoning> I think
    statement ok        python read('a')
    read-group
      ok        read {"path":"a"}
    write-group
      error     write {"path":"b"}
  steer> faster
  ai-block
    bash-group
      rejected  bash {"command":"ls"}
    read-group
      open      grep {"pattern":"%s…
  agent> Done.
  [error (max_tokens): full]

cycle 2 (direct)> and
  [still running]

queue
  m3> then this

withdrawn
  m4> not this

outside all cycles
  agent> too early

anomalies
  event 0, output-while-idle (a0): the agent produced output while idle; the output belongs to no cycle
  event 18, queue-jumped (m5): a message opened a cycle while followUps of an earlier run were waiting""" % ("x" * 87)


def test_cycles_are_laid_out_with_everything_about_them() -> None:
    assert "\n\n".join(cycles_text(cycles_of(EVERYTHING))) == LAYOUT


def test_a_log_without_a_request_says_so() -> None:
    assert list(cycles_text(cycles_of([]))) == ["No request yet."]


def test_the_command_prints_text_or_with_json_the_model(empty: Home) -> None:
    assert empty.run("import", str(DATA / "openai.json"), "--as", "ses_x").returncode == 0
    text = empty.run("show", "ses_x", "--cycles").stdout
    expected = "\n\n".join(cycles_text(cycles_of(sample("openai.json").events)))
    assert text.split("\n\n", 1)[1] == expected + "\n\n"
    model = json.loads(empty.run("show", "ses_x", "--cycles", "--json").stdout)
    assert (model["schema"], len(model["cycles"]), model["state"]) == ("request-cycles/1", 2, "idle")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--events", "--json"], "use --json without it"),
        (["--tag", "a", "--json"], "--tag cannot be combined"),
        (["--events", "--cycles"], "use only one"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(home: Home, options: list[str], reason: str) -> None:
    done = home.run("show", "ses_a", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


def test_json_alone_prints_the_whole_session(empty: Home) -> None:
    events = statements(3)
    keep(empty, events, "ses_a")
    done = empty.run("show", "ses_a", "--json")
    assert json.loads(done.stdout) == json.loads(session_json("ses_a", events, empty.store().blob_get, NO_SECRETS))
    assert [each["source"]["text"] for each in json.loads(done.stdout)["statements"]] == ["1", "2", "3"]


@pytest.mark.parametrize("command", ["show", "import"])
def test_the_help_has_examples(empty: Home, command: str) -> None:
    assert f"  rewindow {command} " in empty.run(command, "--help").stdout.split("Examples:")[1]


def test_show_lists_the_statements_with_a_tag(empty: Home) -> None:
    tagged = [
        replace(each, tag_names=("data", "set up")) if isinstance(each, StatementRecorded) and each.index == 2 else each
        for each in statements(3)
    ]
    keep(empty, tagged, "ses_a")
    done = empty.run("show", "ses_a", "--tag", "set up")
    assert done.stdout.split("\n\n")[1].splitlines() == ["2> 2", "    [tags: data, set up]", "    =2"]
    assert "3>" not in done.stdout
    assert no_tagged_statement("other") in empty.run("show", "ses_a", "--tag", "other").stdout
    assert empty.run("show", "ses_a", "--tag", "data", "--cycles").returncode == 2


def test_page_goes_into_a_file_or_the_error_names_it(home: Home, tmp_path: Path) -> None:
    keep(home, statements(2), "ses_page")
    done = home.run("show", "ses_page", "--html", str(tmp_path / "page.html"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Wrote {tmp_path}/page.html (")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    failed = home.run("show", "ses_page", "--html", str(tmp_path / "none" / "page.html"))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == f"rewindow: cannot write {tmp_path}/none/page.html: No such file or directory\n"
