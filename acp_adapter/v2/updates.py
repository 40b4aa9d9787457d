"""Updates as version 2 sends them.

An update is changed where its shape differs from version 1. Three need more:

- The first chunk of a message that is sent again follows a whole message without content, because the client may have
  the message already. For the same reason a terminal's output is then sent whole. The user's messages always are.
- A call whose `_meta` describes a terminal gets updates of that terminal. They go before the call that shows it.
- Changed regions of one file are one diff.

Text in base64 is redacted here, because the connection's encoder cannot read it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, cast

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import Activity
from acp_adapter.updates import shapes
from acp_adapter.updates.calls import TERMINAL_EXIT, TERMINAL_INFO, TERMINAL_OUTPUT
from acp_adapter.updates.shapes import Update
from acp_adapter.v2 import shapes as v2
from acp_adapter.v2.options import available_commands, config_options
from acp_adapter.v2.patches import git_patch
from acp_adapter.wire import WireModel, given, to_wire

PLAN: Final = "plan"
"""Id of the plan; a session has one."""
_TERMINAL: Final = (TERMINAL_INFO, TERMINAL_OUTPUT, TERMINAL_EXIT)
_AgentChunk = shapes.AgentMessageChunk | shapes.AgentThoughtChunk


class Writer:
    """Writes the updates of one session."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def live(self, updates: Iterable[Update]) -> Iterator[Json]:
        """Write updates as they happen."""
        return map(to_wire, self._changed(updates, None))

    def replayed(self, updates: Iterable[Update]) -> Iterator[Json]:
        """Write updates that the client may have seen before."""
        return map(to_wire, self._changed(updates, set()))

    def activity(self, activity: Activity) -> Sequence[Json]:
        """Write whether the session is busy."""
        return [to_wire(_activity(activity))]

    def _changed(self, updates: Iterable[Update], again: set[str] | None) -> Iterator[WireModel]:
        """Yield the updates of this version. `again`: the messages that were sent again, None while nothing is."""
        for user, group in groupby(updates, _user_message):
            if user is not None:
                content = [chunk.content for chunk in group if isinstance(chunk, shapes.UserMessageChunk)]
                yield v2.UserMessage(message_id=user, content=content)
                continue
            for update in group:
                if isinstance(update, _AgentChunk):
                    yield from _chunk(update, again)
                else:
                    yield from self._one(update, is_again=again is not None)

    def _one(self, update: Update, *, is_again: bool) -> Iterator[WireModel]:
        match update:
            case shapes.ToolCall() | shapes.ToolCallUpdate():
                yield from self._terminal(update, is_again=is_again)
                fields = call_fields(update)
                if len(fields) > 1:  # the id alone changes nothing
                    yield v2.ToolCallUpdate(**fields)
            case shapes.CurrentModeUpdate():
                pass  # the mode is one of the options, which are sent too
            case shapes.ConfigOptionUpdate(config_options=options):
                yield v2.ConfigOptionUpdate(config_options=config_options(options))
            case shapes.AvailableCommandsUpdate(available_commands=commands):
                yield v2.AvailableCommandsUpdate(available_commands=available_commands(commands))
            case shapes.PlanUpdate(entries=entries):
                yield v2.PlanUpdate(plan=v2.PlanItems(plan_id=PLAN, entries=entries))
            case _:
                yield update

    def _terminal(self, call: shapes.ToolCall | shapes.ToolCallUpdate, *, is_again: bool) -> Iterator[WireModel]:
        """Yield what the `_meta` of a call says of its terminal. Output that is sent again replaces what was sent."""
        meta = call.meta or {}
        if (info := meta.get(TERMINAL_INFO)) is not None:
            command = given(command=cast("dict[str, str]", call.raw_input or {}).get("command"))
            yield v2.TerminalUpdate(terminal_id=info["terminal_id"], cwd=info["cwd"], **command)
        if (output := meta.get(TERMINAL_OUTPUT)) is not None:
            data = b64encode(self._redact(output["data"]).encode("utf-8", "replace")).decode("ascii")
            if is_again:
                yield v2.TerminalUpdate(terminal_id=output["terminal_id"], output=v2.TerminalOutput(data=data))
            else:
                yield v2.TerminalOutputChunk(terminal_id=output["terminal_id"], data=data)
        if (end := meta.get(TERMINAL_EXIT)) is not None:
            status = v2.TerminalExitStatus(exit_code=end["exit_code"], signal=end["signal"])
            yield v2.TerminalUpdate(terminal_id=end["terminal_id"], exit_status=status)


def call_fields(call: shapes.ToolCall | shapes.ToolCallPatch) -> dict[str, Any]:
    """Return the given fields of a call as this version has them."""
    fields = {name: getattr(call, name) for name in call.model_fields_set - call.tags}
    if fields.get("content"):
        fields["content"] = _content(fields["content"])
    meta = {key: value for key, value in (call.meta or {}).items() if key not in _TERMINAL}
    fields.pop("meta", None)
    return {**fields, **given(meta=meta or None)}


def _content(blocks: Sequence[shapes.ToolCallContent]) -> list[v2.ToolCallContent]:
    content: list[v2.ToolCallContent] = []
    for path, group in groupby(blocks, lambda block: block.path if isinstance(block, shapes.Diff) else None):
        if path is None:
            content += [block for block in group if not isinstance(block, shapes.Diff)]
        else:
            content.append(_diff([block for block in group if isinstance(block, shapes.Diff)]))
    return content


def _diff(regions: Sequence[shapes.Diff]) -> v2.Diff:
    first = regions[0]
    operation = "delete" if first.is_removal else "add" if first.old_text is None else "modify"
    change = v2.DiffChange(operation=operation, path=first.path, file_type="text")
    return v2.Diff(changes=[change], patch=v2.DiffPatch(text=git_patch(regions)))


def _user_message(update: Update) -> str | None:
    return update.message_id if isinstance(update, shapes.UserMessageChunk) else None


def _chunk(chunk: _AgentChunk, again: set[str] | None) -> Iterator[WireModel]:
    if again is not None and chunk.message_id is not None and chunk.message_id not in again:
        again.add(chunk.message_id)
        whole = v2.AgentMessage if isinstance(chunk, shapes.AgentMessageChunk) else v2.AgentThought
        yield whole(message_id=chunk.message_id, content=[])
    yield chunk


def _activity(activity: Activity) -> WireModel:
    if activity.state == "running":
        return v2.RunningUpdate()
    if activity.state == "requires_action":
        return v2.RequiresActionUpdate()
    error = None if activity.error is None else v2.Error(code=activity.error[0], message=activity.error[1])
    return v2.IdleUpdate(**given(stop_reason=activity.reason, error=error))
