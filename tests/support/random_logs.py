"""Random logs of a session for properties of read models: every kind of event, on any number of branches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from hypothesis import strategies as st
from msgspec.structs import replace

from engine.core.errors import InvalidEventError
from engine.core.ids import BlobDigest, BranchId, ExecutionId, MessageId, ObjId, Seq, StatementId, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events import UNSTAMPED, Event
from engine.log.events.base import UNNAMED
from engine.log.events.conversation import AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, StatementOmitted, StatementRecorded
from engine.log.events.going_back import BranchCreated, Diverged, HeadMoved
from engine.log.events.session import ModelCallEnded, ProjectionSent
from tests.support.fixed import FixedClock
from tests.support.rich_log import events_of, rich_items

_TEMPLATES = [event for event in events_of(rich_items()) if not isinstance(event, BranchCreated | HeadMoved)]
_ACTS = ("any", "any", "prompt", "statement", "again", "omit", "stop", "call", "branch", "move")
_LONG = "long text "


@dataclass
class _Writer:
    """Appends what a random session does; `number` decides each choice."""

    log: EventLog

    def __post_init__(self) -> None:
        self._ids = count(1)
        self._statements: list[StatementRecorded] = []
        self._last: ExecutionId | None = None

    def act(self, what: str, number: int) -> None:
        next_id = next(self._ids)
        match what:
            case "any":
                event = _TEMPLATES[number % len(_TEMPLATES)]
                self._append(replace(event, seq=UNSTAMPED, event_id=UNNAMED))
            case "prompt":
                text = _LONG * (number % 300)
                self._append(UserMessage(message_id=MessageId(f"m{next_id}"), text=f"prompt {next_id} {text}"))
                self._append(AgentText(message_id=MessageId(f"a{next_id}"), text=f"reply {next_id}"))
            case "statement":
                self._statement(next_id, number, asked=number % 2 == 0)
            case "again" if self._statements:
                self._run(self._statements[number % len(self._statements)], next_id, again=True)
            case "omit" if self._statements:
                statement = self._statements[number % len(self._statements)]
                self._append(StatementOmitted(statement_id=statement.statement_id, omitted=number % 3 > 0))
            case "stop":
                self._append(RunStop(reason="completed", cause="end_turn"))
            case "call":
                self._call(number)
            case "branch":
                parent = self.log.branches.all[number % len(self.log.branches.all)].name
                self._append(
                    BranchCreated(
                        branch=self.log.branches.next_name, parent=parent, before=Seq(number % (len(self.log) + 1))
                    )
                )
            case _:
                branch: BranchId = self.log.branches.all[number % len(self.log.branches.all)].name
                self._append(HeadMoved(branch=branch, left=self.log.branches.active, statement=0))

    def _statement(self, next_id: int, number: int, *, asked: bool) -> None:
        call = ToolCallId(f"c{next_id}")
        source = f"source {next_id} {_LONG * (number % 250)}"
        if asked:
            self._append(
                ToolCall(tool_call_id=call, tool="python", arguments={"source": source}, typed=number % 3 == 0)
            )
        index = sum(isinstance(event, StatementRecorded) for event in self.log.path) + 1
        recorded = StatementRecorded(
            statement_id=StatementId(f"s{next_id}"), index=index, source=source, tool_call_id=call
        )
        self._append(recorded)
        self._statements.append(recorded)
        self._run(recorded, next_id, again=False)
        if asked:
            self._append(ToolResult(tool_call_id=call, status="ok", text=f"result {next_id}"))

    def _run(self, statement: StatementRecorded, next_id: int, *, again: bool) -> None:
        execution = ExecutionId(f"x{next_id}")
        mode = "live" if again else None
        self._append(ExecutionStarted(execution_id=execution, statement_id=statement.statement_id, mode=mode))
        if again and self._last is not None:
            self._append(
                Diverged(execution_id=execution, against=self._last, statement=1, aspect="value", before="1", after="2")
            )
        self._append(
            ExecutionFinished(
                execution_id=execution,
                statement_id=statement.statement_id,
                status="ok",
                started_at=1.0,
                ended_at=2.0,
                value=f"value {next_id}",
                mode=mode,
            )
        )
        self._last = execution

    def _call(self, number: int) -> None:
        messages = [
            event.event_id
            for event in self.log.path
            if isinstance(event, UserMessage | AgentText | ToolCall | ToolResult)
        ]
        kept = number % (len(messages) + 1)
        self._append(
            ProjectionSent(
                round_id=number,
                position=len(self.log),
                size=1000,
                kept=kept,
                messages=tuple(messages[kept:]),
                sections={"prompts": number},
                nodes={ObjId("view-3.1"): 1} if number % 2 else {},
                calls_tools=number % 5 != 0,
                instructions=BlobDigest("blake2b-instructions") if number % 3 else None,
            )
        )
        if number % 4:
            self._append(ModelCallEnded(round_id=number, used=number, size=1000, answered=True, input_tokens=number))

    def _append(self, event: Event) -> None:
        try:
            self.log.append(event)
        except InvalidEventError:
            return  # it does not fit this log, as when a call has its result


@st.composite
def random_logs(draw: st.DrawFn, most: int = 40) -> list[Event]:
    """A whole log that an `EventLog` accepts."""
    events: list[Event] = []
    writer = _Writer(EventLog(FixedClock(), events.append))
    for what, number in draw(st.lists(st.tuples(st.sampled_from(_ACTS), st.integers(0, 10_000)), max_size=most)):
        writer.act(what, number)
    return events
