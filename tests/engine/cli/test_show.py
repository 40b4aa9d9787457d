"""`rewindow show`: what it costs, and what it makes of a log with a gap."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

from msgspec.structs import replace

from engine.cli import main
from engine.events import Event
from engine.events.conversation import ToolCall
from engine.events.execution import CommandEnded, ExecutionFinished, ExecutionStarted, FileWritten, StatementRecorded
from engine.execution import TextChange
from engine.ids import EventId, ExecutionId, Seq, SessionId, StatementId, ToolCallId
from tests.support.commands import SECONDS, Home
from tests.support.stores import row


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


def test_a_session_twice_as_long_costs_twice_as_much_to_show(empty: Home) -> None:
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


def test_what_a_statement_did_to_files_and_with_commands_stands_under_it(empty: Home) -> None:
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


def test_an_execution_of_a_statement_that_the_log_lacks_is_shown_without_one(empty: Home) -> None:
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
