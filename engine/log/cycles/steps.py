"""A cycle as a person sees it: ResolutionSteps, which are user steps and ai-blocks with grouped tool calls.

Pure over one `RequestCycle`. Must not know rounds. A text item opens an ai-block and a steer ends one; calls with no
text before them open one whose text is None. Results are no steps: they belong to their calls and end no group.

A parent statement, which is a `python` call with children, is transparent: it leaves the groups, so that its children
stand next to each other and to their neighbours as if it were not there, and is kept beside them as a statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import Struct

from ...core.ids import ToolCallId
from ...core.toolbox import ROUTED, TOOLS, GroupName
from ..events.conversation import AgentReasoning, AgentText, ToolCall, ToolResult, UserMessage
from .model import RequestCycle

_PUBLISHED: Final[dict[str, GroupName]] = {
    "ls": "read-group",
    "read": "read-group",
    "grep": "read-group",
    "find": "read-group",
    "write": "write-group",
    "edit": "write-group",
    "bash": "bash-group",
}
"""The names that agents commonly give their tools, as the model of request cycles publishes them."""
GROUPS: Final[dict[str, GroupName]] = {
    **_PUBLISHED,
    **{tool.name: tool.group for tool in (*TOOLS.values(), *ROUTED.values())},
}
"""The group of each tool that has one, other programs' tools too; any other is in the other-group."""
_STATEMENT: Final = "python"


class Call(Struct, frozen=True):
    """A tool call with its result, which is None while the call is open."""

    call: ToolCall
    result: ToolResult | None


class ToolGroup(Struct, frozen=True):
    """Adjacent calls of one kind; at least one."""

    name: GroupName
    calls: tuple[Call, ...]


class UserStep(Struct, frozen=True):
    step: Literal["non-steer", "steer"]
    message: UserMessage


class AiBlock(Struct, frozen=True):
    """Exactly one text item or none, the parent statements that were called after it, and the groups of the others."""

    text: AgentText | AgentReasoning | None
    statements: tuple[Call, ...]
    groups: tuple[ToolGroup, ...]


Step = UserStep | AiBlock


@dataclass(slots=True)
class _CallDraft:
    call: ToolCall
    result: ToolResult | None = None
    transparent: bool = False


@dataclass(slots=True)
class _BlockDraft:
    text: AgentText | AgentReasoning | None = None
    calls: list[_CallDraft] = field(default_factory=list[_CallDraft])


def steps_of(cycle: RequestCycle) -> tuple[Step, ...]:
    """The ResolutionStep view of a cycle, ended or not; the first step is its root."""
    drafts: list[UserStep | _BlockDraft] = [UserStep("non-steer", cycle.root)]
    calls: dict[ToolCallId, _CallDraft] = {}
    for item in (*cycle.items, *cycle.late):
        match item:
            case UserMessage():
                drafts.append(UserStep("steer", item))
            case AgentText() | AgentReasoning():
                drafts.append(_BlockDraft(item))
            case ToolCall():
                _add(item, drafts, calls)
            case ToolResult():
                if item.tool_call_id in calls:
                    calls[item.tool_call_id].result = item
    return tuple(draft if isinstance(draft, UserStep) else _block(draft) for draft in drafts)


def _add(call: ToolCall, drafts: list[UserStep | _BlockDraft], calls: dict[ToolCallId, _CallDraft]) -> None:
    parent = calls.get(call.parent_id) if call.parent_id is not None else None
    if parent is not None and parent.call.tool == _STATEMENT:
        parent.transparent = True
    block = drafts[-1]
    if isinstance(block, UserStep):
        block = _BlockDraft()
        drafts.append(block)
    draft = calls[call.tool_call_id] = _CallDraft(call)
    block.calls.append(draft)


def _block(draft: _BlockDraft) -> AiBlock:
    statements: list[Call] = []
    runs: list[tuple[GroupName, list[Call]]] = []
    for each in draft.calls:
        call = Call(each.call, each.result)
        name = GROUPS.get(each.call.tool, "other-group")
        if each.transparent:
            statements.append(call)
        elif runs and runs[-1][0] == name:
            runs[-1][1].append(call)
        else:
            runs.append((name, [call]))
    return AiBlock(draft.text, tuple(statements), tuple(ToolGroup(name, tuple(run)) for name, run in runs))
