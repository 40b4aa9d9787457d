"""Makes a session for a page with the engine that this interpreter has: `python pages.py DATABASE SESSION STATEMENTS`.

A statement has a prompt or a reply before it, a model call, output, a name and now and then a written file, as in a
model's session. A prompt keeps what it has of the one before until it is full, then begins with the last messages.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from engine.core.execution import Captured, NamespaceDiff, TextChange, TypeInfo
from engine.core.ids import (
    BlobDigest,
    EventId,
    ExecutionId,
    LlmResponseId,
    MessageId,
    Seq,
    SessionId,
    StatementId,
    ToolCallId,
)
from engine.log.events import Event
from engine.log.events.conversation import AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, FileWritten, StatementRecorded
from engine.log.events.session import ModelCallEnded, ProjectionSent, SessionOpened, TitleChanged
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import SessionRow

PROMPT_EVERY = 20
FILE_EVERY = 4
FULL = 300
"""Messages of a prompt; then it begins again with the last `LEFT`."""
LEFT = 40
WORDS = "Now I look at part {number} of the project, because the tests of the part before it pass again."


class Clock:
    def now(self) -> float:
        return time.time()


class Log:
    """The events of the session, each with its number and id."""

    def __init__(self, store: SqliteStore, start: float) -> None:
        self._store = store
        self._start = start
        self._count = 0
        self._sent = 0
        self._new: list[EventId] = []

    def stamped(self, event: Event) -> Event:
        event_id = EventId(f"ev_{self._count:024x}")
        if isinstance(event, UserMessage | AgentText | ToolCall | ToolResult):
            self._new.append(event_id)
        stamped = replace(event, seq=Seq(self._count), event_id=event_id, at=self._start + self._count / 100)
        self._count += 1
        return stamped

    def _blob(self, text: str) -> BlobDigest:
        return self._store.blob_put(text.encode())

    def _projection(self, number: int) -> ProjectionSent:
        kept = self._sent if self._sent + len(self._new) <= FULL else 0
        messages = tuple(self._new if kept or not self._sent else self._new[-LEFT:])
        self._sent, self._new = kept + len(messages), []
        tokens = 60 * self._sent
        return ProjectionSent(
            round_id=number,
            position=self._count,
            size=128_000,
            instructions=self._blob("You are a careful programmer."),
            tail=self._blob(f"Budget: {tokens} of 128,000 tokens."),
            kept=kept,
            messages=messages,
            sections={"instructions": 900, "conversation": tokens, "tail": 40},
            shared=900 + 60 * kept,
        )

    def turn(self, number: int) -> Iterator[Event]:
        response, call = LlmResponseId(f"llm_{number:024x}"), ToolCallId(f"call_{number:024x}")
        statement, execution = StatementId(f"st_{number:024x}"), ExecutionId(f"ex_{number:024x}")
        source = f"part_{number} = read('part_{number}.txt').splitlines()\nprint(len(part_{number}), 'lines')"
        at, fails = self._start + number, number % 50 == 7
        if number % PROMPT_EVERY == 0:
            yield UserMessage(message_id=MessageId(f"msg_{number:023x}u"), text=f"Go on with part {number}.")
        projection = self._projection(number)
        yield projection
        yield ModelCallEnded(round_id=number, used=projection.used, size=projection.size, answered=True, model="m")
        words = WORDS.format(number=number)
        yield AgentText(message_id=MessageId(f"msg_{number:023x}a"), text=words, llm_response_id=response)
        yield ToolCall(tool_call_id=call, tool="python", arguments={"source": source}, llm_response_id=response)
        yield StatementRecorded(statement_id=statement, index=number + 1, source=source, tool_call_id=call)
        yield ExecutionStarted(execution_id=execution, statement_id=statement)
        if number % FILE_EVERY == 0:
            yield FileWritten(
                execution_id=execution,
                tool_call_id=call,
                path=f"/home/user/project/part_{number % 400}.txt",
                before=self._blob("old\n"),
                after=self._blob(f"new {number}\n"),
                before_digest="a" * 16,
                after_digest=f"{number:016x}",
                changes=(TextChange(line=1, old="old\n", new=f"new {number}\n"),),
            )
        output = "".join(f"{line} lines\n" for line in range(number % 20))
        yield ExecutionFinished(
            execution_id=execution,
            statement_id=statement,
            status="error" if fails else "ok",
            started_at=at,
            ended_at=at + 0.01,
            time_ms=10.0,
            stdout=Captured(text=output, total_bytes=len(output)),
            value=None if fails else f"{number}",
            diff=NamespaceDiff(
                added={f"part_{number}": TypeInfo(type_name="list", short_repr=f"[{number}]")}, deep=True
            ),
        )
        yield ToolResult(tool_call_id=call, status="error" if fails else "ok", text=output)
        if number % PROMPT_EVERY == PROMPT_EVERY - 1:
            yield AgentText(message_id=MessageId(f"msg_{number:023x}e"), text=f"Part {number} is done.")
            yield RunStop(reason="completed", cause="end_turn")

    def all(self, statements: int, cwd: str) -> Iterator[Event]:
        yield self.stamped(SessionOpened(cwd=cwd))
        yield self.stamped(TitleChanged(title=f"a session of {statements:,} statements"))
        for number in range(statements):
            for event in self.turn(number):
                yield self.stamped(event)


def main(path: str, session: str, statements: str) -> None:
    start = time.time() - 30 * 86_400
    store = SqliteStore(Path(path), Clock())
    cwd = str(Path(path).parent)
    row = SessionRow(session_id=SessionId(session), cwd=cwd, title="a session", created_at=start, updated_at=start)
    store.add(row, list(Log(store, start).all(int(statements), cwd)))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
