"""A command that a statement runs: its call from its begin to its end, with its output as it comes.

Most editors show output as text, which is sent again from its beginning whenever there is more. Some draw a terminal
for what an agent runs by itself and say so when they introduce themselves (`terminal_output`, a custom of Zed that
others follow): the call then has a terminal in its content, and updates carry in their `_meta` what is new in it, and
how it ended. Such an editor makes the terminal when it reads the call and fills it when it reads an update of it, so
that a call that is shown again takes two messages (`as_told`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from signal import Signals
from typing import Any, Final

from acp_adapter.facts import Facts
from acp_adapter.wire.model import WireModel, given
from acp_adapter.wire.v1.shapes.content import TextContent
from acp_adapter.wire.v1.shapes.tools import Content, Terminal, ToolCallContent, ToolCallUpdate
from acp_adapter.wire.v1.shapes.tools import ToolCall as ShownCall
from acp_adapter.wire.v1.updates.parts import (
    SOURCE_CHARS,
    command_block,
    command_input,
    command_title,
    content_text,
    text_block,
)
from engine import TOOLS, cut_middle, printed_text
from engine.log.events.conversation import ToolCall
from engine.log.events.execution import CommandEnded

TERMINAL_CHARS: Final = 16_384
"""Of what is new in a terminal at once; nobody reads faster than it scrolls."""
_INFO: Final = "terminal_info"
_OUTPUT: Final = "terminal_output"
_EXIT: Final = "terminal_exit"


def command_of(call: ToolCall) -> str | None:
    """What a helper's call has a shell run; None where it is no such call."""
    command = call.arguments.get("command")
    return command if call.parent_id is not None and isinstance(command, str) else None


def begun(call: ToolCall, command: str, facts: Facts, *, terminals: bool) -> ShownCall:
    """The call as it is announced."""
    wanted = call.arguments.get("cwd")
    cwd = os.path.normpath(os.path.join(facts.cwd, wanted if isinstance(wanted, str) else ""))
    tool = TOOLS.get(call.tool)
    info = {_INFO: {"terminal_id": call.tool_call_id, "cwd": cwd}}
    return ShownCall(
        tool_call_id=call.tool_call_id,
        title=command_title(command),
        name=call.tool,
        kind=tool.kind if tool else "execute",
        status="in_progress",
        content=content(call, command, terminals=terminals),
        raw_input={**call.arguments, **command_input(command)},
        **given(meta=info if terminals else None),
    )


def content(call: ToolCall, command: str, output: str = "", *, terminals: bool) -> list[ToolCallContent]:
    """What the call shows: the command, if no terminal has it in its title, and what it has printed by now."""
    if not terminals:
        return [command_block(command, SOURCE_CHARS), *([text_block(output)] if output else ())]
    is_whole = command_title(command) == command
    return [*(() if is_whole else [command_block(command, SOURCE_CHARS)]), Terminal(terminal_id=call.tool_call_id)]


def printed(call: ToolCall, command: str, new: str, text: str, *, terminals: bool) -> ToolCallUpdate:
    """What a running command has printed: all of it by now, or to a terminal what is new."""
    if terminals:
        return ToolCallUpdate(tool_call_id=call.tool_call_id, meta=_output(call, cut_middle(new, TERMINAL_CHARS)))
    return ToolCallUpdate(tool_call_id=call.tool_call_id, content=content(call, command, text, terminals=False))


def ended(call: ToolCall, command: str, event: CommandEnded, *, terminals: bool, is_live: bool) -> ToolCallUpdate:
    """How it ended. `is_live`: a terminal has its output already."""
    shown = ended_content(call, command, event, terminals=terminals)
    # Clients that show content and raw output notice that they say the same.
    text = printed_text(event.output.text, event.errors.text)
    raw = {
        "exitCode": event.code,
        "signal": _name(event),
        "timedOut": event.timed_out,
        "timeMs": round(event.time_ms, 3),
        "output": cut_middle(text, SOURCE_CHARS) if terminals else content_text(shown),
        "outputBytes": event.output.total_bytes + event.errors.total_bytes,
    }
    if not terminals:
        return ToolCallUpdate(tool_call_id=call.tool_call_id, content=shown, raw_output=raw)
    exited = {"terminal_id": call.tool_call_id, "exit_code": event.code, "signal": _name(event)}
    meta = {**({} if is_live else _output(call, text)), _EXIT: exited}
    return ToolCallUpdate(tool_call_id=call.tool_call_id, raw_output=raw, meta=meta)


def ended_content(call: ToolCall, command: str, event: CommandEnded, *, terminals: bool) -> list[ToolCallContent]:
    """What the call shows of a command that has ended."""
    if terminals:
        return content(call, command, terminals=True)
    text = cut_middle(printed_text(event.output.text, event.errors.text), SOURCE_CHARS)
    end = Content(content=TextContent(text=_end(event)))
    return [command_block(command, SOURCE_CHARS), text_block(text), end]


def given_up(call: ToolCall) -> dict[str, Any]:
    """The `_meta` of a command that was cancelled: its terminal ends without a code."""
    return {_EXIT: {"terminal_id": call.tool_call_id, "exit_code": None, "signal": None}}


def as_told(call: ShownCall) -> Sequence[WireModel]:
    """A call as it is by now, in the messages that an editor needs: two where a terminal of it holds something."""
    meta = call.meta or {}
    if _INFO not in meta or len(meta) == 1:
        return [call]
    later = {key: value for key, value in meta.items() if key != _INFO}
    update = ToolCallUpdate(tool_call_id=call.tool_call_id, status=call.status, meta=later)
    return [call.model_copy(update={"status": "in_progress", "meta": {_INFO: meta[_INFO]}}), update]


def _output(call: ToolCall, text: str) -> dict[str, Any]:
    return {_OUTPUT: {"terminal_id": call.tool_call_id, "data": text}}


def _name(event: CommandEnded) -> str | None:
    if event.signal is None:
        return None
    try:
        return Signals(event.signal).name
    except ValueError:
        return f"signal {event.signal}"


def _end(event: CommandEnded) -> str:
    if event.timed_out:
        return f"ended at its time limit, after {event.time_ms / 1000:,.1f} s"
    if event.signal is not None:
        return f"ended by {_name(event)}"
    return f"ended: {event.reason}" if event.reason else f"exit code {event.code}"
