"""The program behind every transport: log, View, timeline, worker, projection. Knows no protocol.

What stands in `__all__` is the public API, with the kinds of event in `engine.events` and the errors in
`engine.errors`; `docs/api.md` describes it. Begin with `Host`. Each name is loaded with its module when it is first
asked for (PEP 562), because the process that runs statements boots this very package, and because an editor waits for
the first answer. Over 300 lines, because every public name stands here three times: for type checkers, in `__all__`,
and with its module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .branches import path_of as path_of
    from .config.secrets import redactor_of as redactor_of
    from .config.settings import SETTINGS as SETTINGS
    from .config.settings import Settings as Settings
    from .config.settings import load_settings as load_settings
    from .cutting import between as between
    from .cutting import cut_line as cut_line
    from .cutting import cut_middle as cut_middle
    from .cutting import plural as plural
    from .cycles import CycleSummary as CycleSummary
    from .domain import Domain as Domain
    from .domain import Layer as Layer
    from .environment.hardening import harden_process as harden_process
    from .environment.holding import cannot_hold as cannot_hold
    from .environment.zygote import Zygote as Zygote
    from .execution import Artifact as Artifact
    from .execution import Aspect as Aspect
    from .execution import Captured as Captured
    from .execution import Display as Display
    from .execution import ExceptionInfo as ExceptionInfo
    from .execution import ExecutionStatus as ExecutionStatus
    from .execution import KeptGroup as KeptGroup
    from .execution import Location as Location
    from .execution import NamespaceDiff as NamespaceDiff
    from .execution import ReplayMode as ReplayMode
    from .execution import TextChange as TextChange
    from .host import Host as Host
    from .ids import BranchId as BranchId
    from .ids import EventId as EventId
    from .ids import ExecutionId as ExecutionId
    from .ids import MessageId as MessageId
    from .ids import ObjId as ObjId
    from .ids import Seq as Seq
    from .ids import SessionId as SessionId
    from .ids import StatementId as StatementId
    from .ids import ToolCallId as ToolCallId
    from .legible import legible_line as legible_line
    from .legible import source_command as source_command
    from .legible import source_lines as source_lines
    from .legible import source_text as source_text
    from .mcp_servers import HttpServer as HttpServer
    from .mcp_servers import McpServer as McpServer
    from .mcp_servers import StdioServer as StdioServer
    from .models.setup import ModelSetup as ModelSetup
    from .ports.environment import Environment as Environment
    from .ports.environment import EnvironmentSpec as EnvironmentSpec
    from .ports.environment import Limits as Limits
    from .ports.environment import StartServer as StartServer
    from .ports.files import Buffers as Buffers
    from .ports.files import Editor as Editor
    from .ports.models import CallRetried as CallRetried
    from .ports.models import Model as Model
    from .ports.models import ModelError as ModelError
    from .ports.models import ModelSignal as ModelSignal
    from .ports.models import ModelUnusableError as ModelUnusableError
    from .ports.models import Prompt as Prompt
    from .ports.models import ReasoningDelta as ReasoningDelta
    from .ports.models import ReplyEnded as ReplyEnded
    from .ports.models import StatementAsked as StatementAsked
    from .ports.models import TextDelta as TextDelta
    from .ports.models import TokensUsed as TokensUsed
    from .ports.past import CheckpointNews as CheckpointNews
    from .ports.past import Comparison as Comparison
    from .ports.past import Contents as Contents
    from .ports.past import Differences as Differences
    from .ports.past import Divergence as Divergence
    from .ports.past import PastAnswer as PastAnswer
    from .ports.past import PastExecution as PastExecution
    from .ports.past import PastLooks as PastLooks
    from .ports.past import PastPayload as PastPayload
    from .ports.past import PastQuestion as PastQuestion
    from .ports.past import PastRevision as PastRevision
    from .ports.past import PastStep as PastStep
    from .ports.past import PastTick as PastTick
    from .ports.past import PastValues as PastValues
    from .ports.past import Preserved as Preserved
    from .ports.past import Restored as Restored
    from .ports.past import RestorePlan as RestorePlan
    from .ports.past import ValueGroup as ValueGroup
    from .ports.permissions import ASKED_CHARS as ASKED_CHARS
    from .ports.permissions import CommandSubject as CommandSubject
    from .ports.permissions import FileSubject as FileSubject
    from .ports.permissions import PermissionAnswer as PermissionAnswer
    from .ports.permissions import PermissionQuestion as PermissionQuestion
    from .ports.permissions import Permissions as Permissions
    from .ports.permissions import PermissionSubject as PermissionSubject
    from .ports.permissions import RebuildSubject as RebuildSubject
    from .ports.permissions import ServerCallSubject as ServerCallSubject
    from .ports.permissions import StatementSubject as StatementSubject
    from .ports.permissions import TreeSubject as TreeSubject
    from .ports.programs import CommandOutcome as CommandOutcome
    from .ports.programs import CommandOutput as CommandOutput
    from .ports.programs import CommandRequest as CommandRequest
    from .ports.programs import ServerProcess as ServerProcess
    from .ports.programs import ServerRequest as ServerRequest
    from .ports.statements import EffectAnswer as EffectAnswer
    from .ports.statements import EffectHandler as EffectHandler
    from .ports.statements import EffectRequest as EffectRequest
    from .ports.statements import OutputSink as OutputSink
    from .ports.statements import RunOutcome as RunOutcome
    from .ports.statements import RunRequest as RunRequest
    from .ports.statements import Touched as Touched
    from .ports.statements import TouchSink as TouchSink
    from .ports.statements import ignore_touched as ignore_touched
    from .ports.store import SessionRow as SessionRow
    from .ports.store import Store as Store
    from .ports.system import Clock as Clock
    from .ports.system import Entropy as Entropy
    from .ports.tails import FeedItem as FeedItem
    from .ports.tails import HandleRow as HandleRow
    from .ports.tails import Looked as Looked
    from .ports.tails import MadeHandle as MadeHandle
    from .ports.tails import News as News
    from .ports.tails import PastStatement as PastStatement
    from .ports.tails import ProjectionPart as ProjectionPart
    from .ports.ticks import TickOutcome as TickOutcome
    from .ports.ticks import UpdatePayload as UpdatePayload
    from .ports.ticks import Want as Want
    from .projection.entered import entered_sentence as entered_sentence
    from .projection.entered import rebuild_sentence as rebuild_sentence
    from .projection.feed import changes_of as changes_of
    from .projection.feed import connected_sentence as connected_sentence
    from .projection.feed import divergence_phrase as divergence_phrase
    from .projection.feed import lost_sentence as lost_sentence
    from .projection.feed import moved_sentence as moved_sentence
    from .projection.results import given_text as given_text
    from .projection.results import output_text as output_text
    from .projection.results import printed_text as printed_text
    from .projection.results import result_text as result_text
    from .projection.written import REST_LEFT_OUT as REST_LEFT_OUT
    from .redaction import Redactor as Redactor
    from .redaction import redact_json as redact_json
    from .redaction import without_secrets as without_secrets
    from .search.path_completion import complete_path as complete_path
    from .sessions.branch_rows import BranchRow as BranchRow
    from .sessions.commands.replay import replay_text as replay_text
    from .sessions.commands.table import COMMANDS as COMMANDS
    from .sessions.lifecycle.naming import session_named as session_named
    from .sessions.lifecycle.registry import Sessions as Sessions
    from .sessions.model_calls.projector import Projection as Projection
    from .sessions.past.replay_report import EditMode as EditMode
    from .sessions.past.replay_report import EditRequest as EditRequest
    from .sessions.past.replay_report import ReplayReport as ReplayReport
    from .sessions.past.replay_report import ReplayRequest as ReplayRequest
    from .sessions.policy import MODES as MODES
    from .sessions.policy import OPTIONS as OPTIONS
    from .sessions.policy import OptionValues as OptionValues
    from .sessions.progress import Progress as Progress
    from .sessions.progress import with_progress as with_progress
    from .sessions.publishing.signals import FilesPutBack as FilesPutBack
    from .sessions.publishing.signals import Item as Item
    from .sessions.publishing.signals import ModelRetried as ModelRetried
    from .sessions.publishing.signals import OutputStreamed as OutputStreamed
    from .sessions.publishing.signals import ReasoningStreamed as ReasoningStreamed
    from .sessions.publishing.signals import Signal as Signal
    from .sessions.publishing.signals import StatementRerun as StatementRerun
    from .sessions.publishing.signals import TextStreamed as TextStreamed
    from .sessions.publishing.subscription import Subscription as Subscription
    from .sessions.session import Session as Session
    from .sessions.tickets import Ticket as Ticket
    from .sessions.tickets import TurnEnd as TurnEnd
    from .store import open_store as open_store
    from .text import as_printed as as_printed
    from .text import fenced as fenced
    from .timeline.cells import Cell as Cell
    from .timeline.cells import Execution as Execution
    from .timeline.changed import change_size as change_size
    from .timeline.changed import first_changed_line as first_changed_line
    from .timeline.changed import unseen_changes as unseen_changes
    from .timeline.rewound import rewound_lines as rewound_lines
    from .toolbox import INJECTED as INJECTED
    from .toolbox import TOOLS as TOOLS
    from .toolbox import call_title as call_title
    from .toolbox import original as original
    from .toolbox import tool_named as tool_named
    from .user_message import blocks_of as blocks_of
    from .user_message import is_long_text as is_long_text

__version__ = "0.1.0"

__all__ = [
    "ASKED_CHARS",
    "COMMANDS",
    "INJECTED",
    "MODES",
    "OPTIONS",
    "REST_LEFT_OUT",
    "SETTINGS",
    "TOOLS",
    "Artifact",
    "Aspect",
    "BranchId",
    "BranchRow",
    "Buffers",
    "CallRetried",
    "Captured",
    "Cell",
    "CheckpointNews",
    "Clock",
    "CommandOutcome",
    "CommandOutput",
    "CommandRequest",
    "CommandSubject",
    "Comparison",
    "Contents",
    "CycleSummary",
    "Differences",
    "Display",
    "Divergence",
    "Domain",
    "EditMode",
    "EditRequest",
    "Editor",
    "EffectAnswer",
    "EffectHandler",
    "EffectRequest",
    "Entropy",
    "Environment",
    "EnvironmentSpec",
    "EventId",
    "ExceptionInfo",
    "Execution",
    "ExecutionId",
    "ExecutionStatus",
    "FeedItem",
    "FileSubject",
    "FilesPutBack",
    "HandleRow",
    "Host",
    "HttpServer",
    "Item",
    "KeptGroup",
    "Layer",
    "Limits",
    "Location",
    "Looked",
    "MadeHandle",
    "McpServer",
    "MessageId",
    "Model",
    "ModelError",
    "ModelRetried",
    "ModelSetup",
    "ModelSignal",
    "ModelUnusableError",
    "NamespaceDiff",
    "News",
    "ObjId",
    "OptionValues",
    "OutputSink",
    "OutputStreamed",
    "PastAnswer",
    "PastExecution",
    "PastLooks",
    "PastPayload",
    "PastQuestion",
    "PastRevision",
    "PastStatement",
    "PastStep",
    "PastTick",
    "PastValues",
    "PermissionAnswer",
    "PermissionQuestion",
    "PermissionSubject",
    "Permissions",
    "Preserved",
    "Progress",
    "Projection",
    "ProjectionPart",
    "Prompt",
    "ReasoningDelta",
    "ReasoningStreamed",
    "RebuildSubject",
    "Redactor",
    "ReplayMode",
    "ReplayReport",
    "ReplayRequest",
    "ReplyEnded",
    "RestorePlan",
    "Restored",
    "RunOutcome",
    "RunRequest",
    "Seq",
    "ServerCallSubject",
    "ServerProcess",
    "ServerRequest",
    "Session",
    "SessionId",
    "SessionRow",
    "Sessions",
    "Settings",
    "Signal",
    "StartServer",
    "StatementAsked",
    "StatementId",
    "StatementRerun",
    "StatementSubject",
    "StdioServer",
    "Store",
    "Subscription",
    "TextChange",
    "TextDelta",
    "TextStreamed",
    "TickOutcome",
    "Ticket",
    "TokensUsed",
    "ToolCallId",
    "TouchSink",
    "Touched",
    "TreeSubject",
    "TurnEnd",
    "UpdatePayload",
    "ValueGroup",
    "Want",
    "Zygote",
    "as_printed",
    "between",
    "blocks_of",
    "call_title",
    "cannot_hold",
    "change_size",
    "changes_of",
    "complete_path",
    "connected_sentence",
    "cut_line",
    "cut_middle",
    "divergence_phrase",
    "entered_sentence",
    "fenced",
    "first_changed_line",
    "given_text",
    "harden_process",
    "ignore_touched",
    "is_long_text",
    "legible_line",
    "load_settings",
    "lost_sentence",
    "moved_sentence",
    "open_store",
    "original",
    "output_text",
    "path_of",
    "plural",
    "printed_text",
    "rebuild_sentence",
    "redact_json",
    "redactor_of",
    "replay_text",
    "result_text",
    "rewound_lines",
    "session_named",
    "source_command",
    "source_lines",
    "source_text",
    "tool_named",
    "unseen_changes",
    "with_progress",
    "without_secrets",
]

_MODULES: Final = {
    "branches": "path_of",
    "config.secrets": "redactor_of",
    "config.settings": "SETTINGS Settings load_settings",
    "cutting": "between cut_line cut_middle plural",
    "cycles": "CycleSummary",
    "domain": "Domain Layer",
    "environment.hardening": "harden_process",
    "environment.holding": "cannot_hold",
    "environment.zygote": "Zygote",
    "execution": (
        "Artifact Aspect Captured Display ExceptionInfo ExecutionStatus KeptGroup Location NamespaceDiff ReplayMode "
        "TextChange"
    ),
    "host": "Host",
    "ids": "BranchId EventId ExecutionId MessageId ObjId Seq SessionId StatementId ToolCallId",
    "legible": "legible_line source_command source_lines source_text",
    "mcp_servers": "HttpServer McpServer StdioServer",
    "models.setup": "ModelSetup",
    "ports.environment": "Environment EnvironmentSpec Limits StartServer",
    "ports.files": "Buffers Editor",
    "ports.models": (
        "CallRetried Model ModelError ModelSignal ModelUnusableError Prompt ReasoningDelta ReplyEnded "
        "StatementAsked TextDelta TokensUsed"
    ),
    "ports.past": (
        "CheckpointNews Comparison Contents Differences Divergence PastAnswer PastExecution PastLooks "
        "PastPayload PastQuestion PastRevision PastStep PastTick PastValues Preserved RestorePlan "
        "Restored ValueGroup"
    ),
    "ports.permissions": (
        "ASKED_CHARS CommandSubject FileSubject PermissionAnswer PermissionQuestion PermissionSubject "
        "Permissions RebuildSubject ServerCallSubject StatementSubject TreeSubject"
    ),
    "ports.programs": "CommandOutcome CommandOutput CommandRequest ServerProcess ServerRequest",
    "ports.statements": (
        "EffectAnswer EffectHandler EffectRequest OutputSink RunOutcome RunRequest TouchSink Touched ignore_touched"
    ),
    "ports.store": "SessionRow Store",
    "ports.system": "Clock Entropy",
    "ports.tails": "FeedItem HandleRow Looked MadeHandle News PastStatement ProjectionPart",
    "ports.ticks": "TickOutcome UpdatePayload Want",
    "projection.entered": "entered_sentence rebuild_sentence",
    "projection.feed": "changes_of connected_sentence divergence_phrase lost_sentence moved_sentence",
    "projection.results": "given_text output_text printed_text result_text",
    "projection.written": "REST_LEFT_OUT",
    "redaction": "Redactor redact_json without_secrets",
    "search.path_completion": "complete_path",
    "sessions.branch_rows": "BranchRow",
    "sessions.commands.table": "COMMANDS",
    "sessions.lifecycle.naming": "session_named",
    "sessions.policy": "MODES OPTIONS OptionValues",
    "sessions.progress": "Progress with_progress",
    "sessions.model_calls.projector": "Projection",
    "sessions.lifecycle.registry": "Sessions",
    "sessions.commands.replay": "replay_text",
    "sessions.past.replay_report": "EditMode EditRequest ReplayReport ReplayRequest",
    "sessions.session": "Session",
    "sessions.publishing.signals": "FilesPutBack Item ModelRetried OutputStreamed ReasoningStreamed Signal "
    "StatementRerun TextStreamed",
    "sessions.publishing.subscription": "Subscription",
    "sessions.tickets": "Ticket TurnEnd",
    "store": "open_store",
    "text": "as_printed fenced",
    "timeline.changed": "change_size first_changed_line unseen_changes",
    "timeline.cells": "Cell Execution",
    "timeline.rewound": "rewound_lines",
    "toolbox": "INJECTED TOOLS call_title original tool_named",
    "user_message": "blocks_of is_long_text",
}
"""The public names by the module that owns them."""
_OWNERS: Final = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    owner = _OWNERS.get(name)
    if owner is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{owner}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_OWNERS})
