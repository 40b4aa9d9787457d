"""Engine events and signals as `session/update` notifications: one row for each kind, in one table.

Owns what an editor gets to see of the log. Pure but for the memory of which statement belongs to which tool call. Must
not send anything. Used live by the pump, and for replaying a session that is loaded. Its length is that of the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from acp_adapter.options import config_options
from acp_adapter.wire.model import WireModel
from acp_adapter.wire.v1.shapes import tools as w
from acp_adapter.wire.v1.shapes.content import TextContent
from acp_adapter.wire.v1.shapes.updates import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CommandInput,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
    UsageUpdate,
    UserMessageChunk,
)
from engine.events import Event
from engine.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    NoCutPossible,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.events.execution import (
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    NamesRebound,
    StatementRecorded,
)
from engine.events.nodes import FileChanged, MethodCalled, NodeChanged, TickApplied
from engine.events.session import (
    ConfigChanged,
    EnvironmentRestored,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PromptQueued,
    PromptWithdrawn,
    SessionOpened,
    TitleChanged,
    UsageReported,
    ViewEnforced,
)
from engine.execution import Location
from engine.ids import MessageId, StatementId, ToolCallId
from engine.projection.prompt import user_text
from engine.projection.results import result_text
from engine.sessions.commands import COMMANDS
from engine.sessions.policy import Policy
from engine.sessions.signals import OutputStreamed, ReasoningStreamed, Signal, TextStreamed
from engine.tools import TOOLS

if TYPE_CHECKING:
    from engine.cycles import CycleFold

LIVE_OUTPUT_CHARS: Final = 4_096
"""How much of what a running statement printed is shown while it runs; the whole bounded output follows at its end."""

TITLE_CHARS: Final = 80


class Updates:
    """The translation for one session, in log order."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._calls: dict[StatementId, ToolCallId] = {}
        self._pending: set[ToolCallId] = set()
        self._unannounced: dict[ToolCallId, ToolCall] = {}
        self._output: dict[ToolCallId, str] = {}
        self._streaming: dict[MessageId, list[TextStreamed | ReasoningStreamed]] = {}
        self._policy = Policy()
        self._file_call: tuple[str, str] | None = None
        self._condensing: str | None = None
        self._cycles: CycleFold | None = None

    def live(self, item: Event | Signal) -> Sequence[WireModel]:
        """What to send for something that just happened. Streamed messages are not sent again when they are whole."""
        match item:
            case TextStreamed() | ReasoningStreamed():
                self._streaming.setdefault(item.message_id, []).append(item)
                return [_chunk(item, item.text)]
            case OutputStreamed():
                return [self._printed(item)]
            case UserMessage() | AgentText() | AgentReasoning():
                self._streaming.pop(item.message_id, None)
                self.replayed(item)
                return []
            case RunStop():
                # What was answered beside the run was streamed and has no event that would end it.
                self._streaming.clear()
                return self.replayed(item)
            case _:
                return self.replayed(item)

    def unfinished(self) -> Sequence[WireModel]:
        """What was sent for signals whose event is still to come; a replay ends with it."""
        messages = [_chunk(parts[0], "".join(part.text for part in parts)) for parts in self._streaming.values()]
        printed = [w.ToolCallUpdate(tool_call_id=call, content=[_block(text)]) for call, text in self._output.items()]
        return [*messages, *printed]

    def replayed(self, event: Event) -> Sequence[WireModel]:
        """What to send for an event of a session that is loaded."""
        self._policy.apply(event)
        if self._cycles is None and isinstance(event, UserMessage):
            from engine.cycles import CycleFold  # not needed before the first prompt

            self._cycles = CycleFold()
        if self._cycles is not None:
            self._cycles.apply(event)
        return _ROWS[type(event)](self, event)

    def skip(self, events: Iterable[Event]) -> None:
        """Notes what later events refer to, without sending anything."""
        for event in events:
            self.replayed(event)

    # --- messages -----------------------------------------------------------------------------------------------------

    def _user(self, event: UserMessage) -> Sequence[WireModel]:
        return [UserMessageChunk(content=TextContent(text=user_text(event)), message_id=event.message_id)]

    def _text(self, event: AgentText) -> Sequence[WireModel]:
        return [AgentMessageChunk(content=TextContent(text=event.text), message_id=event.message_id)]

    def _reasoning(self, event: AgentReasoning) -> Sequence[WireModel]:
        return [AgentThoughtChunk(content=TextContent(text=event.text), message_id=event.message_id)]

    # --- statements ---------------------------------------------------------------------------------------------------

    def _recorded(self, event: StatementRecorded) -> Sequence[WireModel]:
        self._calls[event.statement_id] = event.tool_call_id
        self._pending.add(event.tool_call_id)
        self._unannounced.pop(event.tool_call_id, None)
        return [
            w.ToolCall(
                tool_call_id=event.tool_call_id,
                title=event.title,
                name="python",
                kind="execute",
                status="pending",
                raw_input={"source": event.source, "statement": event.index},
            )
        ]

    def _started(self, event: ExecutionStarted) -> Sequence[WireModel]:
        call = self._calls.get(event.statement_id)
        if call is None:
            return []
        self._pending.discard(call)
        return [w.ToolCallUpdate(tool_call_id=call, status="in_progress")]

    def _finished(self, event: ExecutionFinished) -> Sequence[WireModel]:
        call = self._calls.get(event.statement_id)
        if call is None:
            return []
        self._output.pop(call, None)
        output = result_text(event)
        return [
            w.ToolCallUpdate(
                tool_call_id=call,
                status="completed" if event.status == "ok" else "failed",
                content=[_block(output)] if output else [],
                locations=[_location(location) for location in event.locations],
                raw_output=_raw_output(event),
            )
        ]

    def _printed(self, signal: OutputStreamed) -> WireModel:
        text = (self._output.get(signal.tool_call_id, "") + signal.text)[-LIVE_OUTPUT_CHARS:]
        self._output[signal.tool_call_id] = text
        return w.ToolCallUpdate(tool_call_id=signal.tool_call_id, content=[_block(text)])

    # --- helpers called inside a statement ----------------------------------------------------------------------------

    def _called(self, event: ToolCall) -> Sequence[WireModel]:
        if event.parent_id is None:
            # Its statement is announced by StatementRecorded; one of another program's has none.
            self._unannounced[event.tool_call_id] = event
            return []
        return [self._call(event, "in_progress")]

    def _call(self, event: ToolCall, status: w.ToolCallStatus, output: str | None = None) -> WireModel:
        tool = TOOLS.get(event.tool)
        path = event.arguments.get("path")
        locations = [w.ToolCallLocation(path=os.path.join(self._cwd, path))] if isinstance(path, str) else []
        return w.ToolCall(
            tool_call_id=event.tool_call_id,
            title=f"{event.tool} {path if isinstance(path, str) else ''}".strip()[:TITLE_CHARS],
            name=event.tool,
            kind=tool.kind if tool else "other",
            status=status,
            content=[] if output is None else [_block(output)],
            locations=locations,
            raw_input=event.arguments,
        )

    def _answered(self, event: ToolResult) -> Sequence[WireModel]:
        call = self._unannounced.pop(event.tool_call_id, None)
        if call is not None:
            return [self._call(call, "completed" if event.status == "ok" else "failed", event.text)]
        if event.parent_id is None and event.tool_call_id not in self._pending:
            return []  # because the end of what began is announced by ExecutionFinished
        return [
            w.ToolCallUpdate(
                tool_call_id=event.tool_call_id,
                status="completed" if event.status == "ok" else "failed",
                content=[_block(event.text)],
            )
        ]

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _file(self, event: FileChanged) -> Sequence[WireModel]:
        call = f"file_{event.event_id}"
        self._file_call = (call, event.delta)
        return [
            w.ToolCall(
                tool_call_id=call,
                title=f"{event.change}: {os.path.relpath(event.path, self._cwd)}"[:TITLE_CHARS],
                kind="read",
                status="completed",
                content=[_block(event.delta)],
                locations=[w.ToolCallLocation(path=event.path)],
            )
        ]

    def _node(self, event: NodeChanged) -> Sequence[WireModel]:
        """The node's delta says more than the file's headline, where it is about the file that was just announced."""
        if self._file_call is None or not event.delta.startswith(self._file_call[1]):
            return []
        return [w.ToolCallUpdate(tool_call_id=self._file_call[0], content=[_block(event.delta)])]

    def _restored(self, event: EnvironmentRestored) -> Sequence[WireModel]:
        text = "\n".join([f"{event.executions} statements ran again in a new worker.", *event.divergences])
        return [
            w.ToolCall(
                tool_call_id=f"restored_{event.event_id}",
                title="Rebuilt the namespace",
                kind="other",
                status="completed",
                content=[_block(text)],
            )
        ]

    def _wanted(self, event: CondensationRequest) -> Sequence[WireModel]:
        if self._condensing is not None:
            return []
        self._condensing = f"condense_{event.event_id}"
        return [
            w.ToolCall(
                tool_call_id=self._condensing, title="Condense the conversation", kind="think", status="in_progress"
            )
        ]

    def _condensed(self, event: Condensation) -> Sequence[WireModel]:
        if event.summary is None:
            return []
        return self._end_condensing("completed", f"{len(event.forgotten)} messages were replaced.\n\n{event.summary}")

    def _no_cut(self, event: NoCutPossible) -> Sequence[WireModel]:
        return self._end_condensing("failed", f"Nothing of the {event.tokens:,} tokens can be left out.")

    def _stopped(self, event: RunStop) -> Sequence[WireModel]:
        return [*self._end_condensing("failed", "It was given up."), self._ended_cycle(event)]

    def _ended_cycle(self, event: RunStop) -> WireModel:
        """When the session was last active, and in `_meta` the request cycle that ended."""
        from engine.cycles import rounds_of, steps_of  # as above

        model = self._cycles.model if self._cycles is not None else None
        if model is None or not model.cycles:
            return SessionInfoUpdate(updated_at=_timestamp(event.at))
        cycle = model.cycles[-1]
        summary = {
            "number": cycle.number,
            "root": cycle.root_kind,
            "stop": event.reason,
            "rounds": len(rounds_of(cycle).rounds),
            "steps": len(steps_of(cycle)),
            "queued": len(model.queue),
        }
        return SessionInfoUpdate(updated_at=_timestamp(event.at), meta={"rewindow": {"cycle": summary}})

    def _end_condensing(self, status: w.ToolCallStatus, text: str) -> Sequence[WireModel]:
        call, self._condensing = self._condensing, None
        return [w.ToolCallUpdate(tool_call_id=call, status=status, content=[_block(text)])] if call is not None else []

    def _usage(self, event: UsageReported) -> Sequence[WireModel]:
        return [UsageUpdate(used=event.used, size=event.size)]

    def _mode(self, event: ModeChanged) -> Sequence[WireModel]:
        return [CurrentModeUpdate(current_mode_id=event.mode), *self._options(event)]

    def _options(self, _: Event) -> Sequence[WireModel]:
        return [ConfigOptionUpdate(config_options=list(config_options(self._policy.options)))]

    def _titled(self, event: TitleChanged) -> Sequence[WireModel]:
        return [SessionInfoUpdate(title=event.title, updated_at=_timestamp(event.at))]

    def _nothing(self, _: Event) -> Sequence[WireModel]:
        return []


Row = Callable[[Updates, Any], Sequence[WireModel]]
# The table reads the translation's own rows, which nobody else may call.
# pyright: reportPrivateUsage=false
_ROWS: Final[dict[type[Event], Row]] = {
    UserMessage: Updates._user,
    AgentText: Updates._text,
    AgentReasoning: Updates._reasoning,
    StatementRecorded: Updates._recorded,
    ExecutionStarted: Updates._started,
    ExecutionFinished: Updates._finished,
    ToolCall: Updates._called,
    ToolResult: Updates._answered,
    FileChanged: Updates._file,
    EnvironmentRestored: Updates._restored,
    UsageReported: Updates._usage,
    ModeChanged: Updates._mode,
    ConfigChanged: Updates._options,
    TitleChanged: Updates._titled,
    PermissionAsked: Updates._nothing,
    PermissionAnswered: Updates._nothing,
    SessionOpened: Updates._nothing,
    RunStop: Updates._stopped,
    Condensation: Updates._condensed,
    CondensationRequest: Updates._wanted,
    NoCutPossible: Updates._no_cut,
    EffectRequested: Updates._nothing,
    EffectAnswered: Updates._nothing,
    NamesRebound: Updates._nothing,
    MethodCalled: Updates._nothing,
    NodeChanged: Updates._node,
    TickApplied: Updates._nothing,
    PromptQueued: Updates._nothing,
    PromptWithdrawn: Updates._nothing,
    ViewEnforced: Updates._nothing,
}


def available_commands() -> AvailableCommandsUpdate:
    """The engine's slash commands."""
    return AvailableCommandsUpdate(
        available_commands=[
            AvailableCommand(name=command.name, description=command.description, input=CommandInput(hint=command.hint))
            if command.hint
            else AvailableCommand(name=command.name, description=command.description)
            for command in COMMANDS.values()
        ]
    )


def _chunk(signal: TextStreamed | ReasoningStreamed, text: str) -> WireModel:
    if isinstance(signal, TextStreamed):
        return AgentMessageChunk(content=TextContent(text=text), message_id=signal.message_id)
    return AgentThoughtChunk(content=TextContent(text=text), message_id=signal.message_id)


def _block(text: str) -> w.Content:
    """Text as it is, in a Markdown fence longer than any in it, because clients render content as Markdown."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return w.Content(content=TextContent(text=f"{fence}\n{text}\n{fence}"))


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _location(location: Location) -> w.ToolCallLocation:
    return w.ToolCallLocation(path=location.path, line=location.line)


def _raw_output(event: ExecutionFinished) -> dict[str, Any]:
    return {
        "status": event.status,
        "value": event.value,
        "exception": event.exception and {"type": event.exception.type, "message": event.exception.message},
        "stdoutBytes": event.stdout.total_bytes,
        "stderrBytes": event.stderr.total_bytes,
        "timeMs": round(event.time_ms, 3),
        "names": {
            "added": list(event.diff.added),
            "changed": list(event.diff.changed),
            "deleted": list(event.diff.deleted),
        },
    }
