"""Makes sessions with the engine that this interpreter has: `python sessions.py PATH many N`, or `long N`.

`many` are N sessions of 11 events in twenty directories, a second apart and two months old. `long` is one session of N
events: turns with a text, a statement and its result, and another text, as a model leaves them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from engine.core.ids import EventId, ExecutionId, LlmResponseId, MessageId, Seq, SessionId, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from engine.log.events.session import SessionOpened, TitleChanged, UsageReported
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import SessionRow

LONG = SessionId("ses_" + "3" * 24)
AGE = 60 * 86_400
TEXT = "The tests in tests/engine pass; two of them were slow, so they moved behind the marker. "


class Clock:
    def now(self) -> float:
        return time.time()


def turn(number: int) -> list[Event]:
    response, call = LlmResponseId(f"llm_{number:024x}"), ToolCallId(f"call_{number:024x}")
    statement, execution = StatementId(f"st_{number:024x}"), ExecutionId(f"ex_{number:024x}")
    source, at = f"x = {number}\nprint(x)", 1.7e9 + number
    return [
        UserMessage(message_id=MessageId(f"msg_{number:023x}a"), text="look at the number and go on with it"),
        AgentText(message_id=MessageId(f"msg_{number:023x}b"), text=TEXT, llm_response_id=response),
        ToolCall(tool_call_id=call, tool="python", arguments={"source": source}, llm_response_id=response),
        UsageReported(used=1_000 + number, size=128_000),
        StatementRecorded(statement_id=statement, index=number + 1, source=source, tool_call_id=call),
        ExecutionStarted(execution_id=execution, statement_id=statement),
        ExecutionFinished(
            execution_id=execution, statement_id=statement, status="ok", started_at=at, ended_at=at, time_ms=0.05
        ),
        ToolResult(tool_call_id=call, status="ok", text=f"{number}\n"),
        AgentText(message_id=MessageId(f"msg_{number:023x}c"), text=TEXT),
        UsageReported(used=1_010 + number, size=128_000),
        RunStop(reason="completed", cause="end_turn"),
    ]


def long_log(events: int, cwd: str) -> Iterator[Event]:
    yield SessionOpened(cwd=cwd)
    yield TitleChanged(title="a long session")
    for number in range((events - 2) // 11):
        yield from turn(number)


def short_log(cwd: str) -> Iterator[Event]:
    yield SessionOpened(cwd=cwd)
    yield UserMessage(message_id=MessageId("m"), text=TEXT)
    for number in range(8):
        yield AgentText(message_id=MessageId(f"m{number}"), text=TEXT * 2)
    yield RunStop(reason="completed", cause="end_turn")


def stamped(log: Iterable[Event], start: float) -> Iterator[Event]:
    for seq, event in enumerate(log):
        yield replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}"), at=start + seq / 1_000)


def main(path: str, what: str, number: str) -> None:
    start = time.time() - AGE
    store = SqliteStore(Path(path), Clock())
    if what == "long":
        cwd = str(Path(path).parent)
        row = SessionRow(session_id=LONG, cwd=cwd, title="a long session", created_at=start, updated_at=start)
        store.add(row, stamped(long_log(int(number), cwd), start))
    else:
        for each in range(int(number)):
            at, cwd = start + each, f"/home/user/project-{each % 20}"
            title = f"session {each}: look at the number and go on"
            row = SessionRow(
                session_id=SessionId(f"ses_{each:024x}"), cwd=cwd, title=title, created_at=at, updated_at=at
            )
            store.add(row, stamped(short_log(cwd), at))
    store.close()


main(*sys.argv[1:])
