"""The program behind every transport: log, View, timeline, worker, projection. Knows no protocol.

What stands in `__all__` is the public API, with the kinds of event in `engine.log.events` and the errors in
`engine.core.errors`; `docs/api.md` describes it. Begin with `Host`. Each name is loaded with its module when it is
first asked for (PEP 562), because the process that runs statements boots this very package, and because an editor
waits for the first answer. Over 300 lines, because every public name stands here three times: for type checkers, in
`__all__`, and with its module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .context.model import CallRetried as CallRetried
    from .context.model import Model as Model
    from .context.model import ModelError as ModelError
    from .context.model import ModelSignal as ModelSignal
    from .context.model import ModelUnusableError as ModelUnusableError
    from .context.model import Prompt as Prompt
    from .context.model import ReasoningDelta as ReasoningDelta
    from .context.model import ReplyEnded as ReplyEnded
    from .context.model import StatementAsked as StatementAsked
    from .context.model import TextDelta as TextDelta
    from .context.model import TokensUsed as TokensUsed
    from .context.models.providers import ModelSetup as ModelSetup
    from .context.tail.feed import changes_of as changes_of
    from .context.tail.feed import connected_sentence as connected_sentence
    from .context.tail.feed import divergence_phrase as divergence_phrase
    from .context.tail.feed import lost_sentence as lost_sentence
    from .context.tail.feed import moved_sentence as moved_sentence
    from .context.tail.results import REST_LEFT_OUT as REST_LEFT_OUT
    from .context.tail.results import given_text as given_text
    from .context.tail.results import output_text as output_text
    from .context.tail.results import printed_text as printed_text
    from .context.tail.results import result_text as result_text
    from .context.tail.rights import entered_sentence as entered_sentence
    from .context.tail.rights import rebuild_sentence as rebuild_sentence
    from .core.clock import Clock as Clock
    from .core.clock import Entropy as Entropy
    from .core.diff import change_size as change_size
    from .core.diff import first_changed_line as first_changed_line
    from .core.diff import unseen_changes as unseen_changes
    from .core.domain import Domain as Domain
    from .core.domain import Layer as Layer
    from .core.execution import Artifact as Artifact
    from .core.execution import Aspect as Aspect
    from .core.execution import Captured as Captured
    from .core.execution import Display as Display
    from .core.execution import ExceptionInfo as ExceptionInfo
    from .core.execution import ExecutionStatus as ExecutionStatus
    from .core.execution import KeptGroup as KeptGroup
    from .core.execution import Location as Location
    from .core.execution import NamespaceDiff as NamespaceDiff
    from .core.execution import ReplayMode as ReplayMode
    from .core.execution import TextChange as TextChange
    from .core.ids import BranchId as BranchId
    from .core.ids import EventId as EventId
    from .core.ids import ExecutionId as ExecutionId
    from .core.ids import MessageId as MessageId
    from .core.ids import ObjId as ObjId
    from .core.ids import Seq as Seq
    from .core.ids import SessionId as SessionId
    from .core.ids import StatementId as StatementId
    from .core.ids import ToolCallId as ToolCallId
    from .core.installation import __version__ as __version__
    from .core.mcp_servers import HttpServer as HttpServer
    from .core.mcp_servers import McpServer as McpServer
    from .core.mcp_servers import StdioServer as StdioServer
    from .core.programs import CommandOutcome as CommandOutcome
    from .core.programs import CommandOutput as CommandOutput
    from .core.programs import CommandRequest as CommandRequest
    from .core.programs import ServerProcess as ServerProcess
    from .core.programs import ServerRequest as ServerRequest
    from .core.settings import SETTINGS as SETTINGS
    from .core.settings import Settings as Settings
    from .core.settings import hidden_names as hidden_names
    from .core.settings import load_settings as load_settings
    from .core.text import as_printed as as_printed
    from .core.text import between as between
    from .core.text import cut_line as cut_line
    from .core.text import cut_middle as cut_middle
    from .core.text import fenced as fenced
    from .core.text import legible_line as legible_line
    from .core.text import plural as plural
    from .core.text import source_command as source_command
    from .core.text import source_lines as source_lines
    from .core.text import source_text as source_text
    from .core.toolbox import INJECTED as INJECTED
    from .core.toolbox import TOOLS as TOOLS
    from .core.toolbox import call_title as call_title
    from .core.toolbox import original as original
    from .core.toolbox import tool_named as tool_named
    from .files.search.path_completion import complete_path as complete_path
    from .files.sources import Buffers as Buffers
    from .files.sources import Editor as Editor
    from .files.tails import FeedItem as FeedItem
    from .files.tails import HandleRow as HandleRow
    from .files.tails import Looked as Looked
    from .files.tails import MadeHandle as MadeHandle
    from .files.tails import News as News
    from .files.tails import PastStatement as PastStatement
    from .files.tails import ProjectionPart as ProjectionPart
    from .log.branches import BranchRow as BranchRow
    from .log.branches import path_of as path_of
    from .log.cycles import CycleSummary as CycleSummary
    from .log.file_history import rewound_lines as rewound_lines
    from .log.past import CheckpointNews as CheckpointNews
    from .log.past import Comparison as Comparison
    from .log.past import Contents as Contents
    from .log.past import Differences as Differences
    from .log.past import Divergence as Divergence
    from .log.past import PastAnswer as PastAnswer
    from .log.past import PastExecution as PastExecution
    from .log.past import PastLooks as PastLooks
    from .log.past import PastPayload as PastPayload
    from .log.past import PastQuestion as PastQuestion
    from .log.past import PastRevision as PastRevision
    from .log.past import PastStep as PastStep
    from .log.past import PastTick as PastTick
    from .log.past import PastValues as PastValues
    from .log.past import Preserved as Preserved
    from .log.past import Restored as Restored
    from .log.past import RestorePlan as RestorePlan
    from .log.past import ValueGroup as ValueGroup
    from .log.permissions import ASKED_CHARS as ASKED_CHARS
    from .log.permissions import CommandSubject as CommandSubject
    from .log.permissions import FileSubject as FileSubject
    from .log.permissions import PermissionAnswer as PermissionAnswer
    from .log.permissions import PermissionQuestion as PermissionQuestion
    from .log.permissions import Permissions as Permissions
    from .log.permissions import PermissionSubject as PermissionSubject
    from .log.permissions import RebuildSubject as RebuildSubject
    from .log.permissions import ServerCallSubject as ServerCallSubject
    from .log.permissions import StatementSubject as StatementSubject
    from .log.permissions import TreeSubject as TreeSubject
    from .log.redaction import Redactor as Redactor
    from .log.redaction import redact_json as redact_json
    from .log.redaction import without_secrets as without_secrets
    from .log.secrets import redactor_of as redactor_of
    from .log.statements import EffectAnswer as EffectAnswer
    from .log.statements import EffectHandler as EffectHandler
    from .log.statements import EffectRequest as EffectRequest
    from .log.statements import OutputSink as OutputSink
    from .log.statements import RunOutcome as RunOutcome
    from .log.statements import RunRequest as RunRequest
    from .log.statements import TickOutcome as TickOutcome
    from .log.statements import TouchSink as TouchSink
    from .log.statements import UpdatePayload as UpdatePayload
    from .log.statements import Want as Want
    from .log.statements import ignore_touched as ignore_touched
    from .log.store import open_store as open_store
    from .log.store_protocol import SessionRow as SessionRow
    from .log.store_protocol import Store as Store
    from .log.timeline import Cell as Cell
    from .log.timeline import Execution as Execution
    from .log.user_message import blocks_of as blocks_of
    from .log.user_message import is_long_text as is_long_text
    from .runtime.environment import Environment as Environment
    from .runtime.environment import EnvironmentSpec as EnvironmentSpec
    from .runtime.environment import Limits as Limits
    from .runtime.environment import StartServer as StartServer
    from .runtime.environment import cannot_hold as cannot_hold
    from .runtime.hardening import harden_process as harden_process
    from .runtime.zygote import Zygote as Zygote
    from .session.commands.table import COMMANDS as COMMANDS
    from .session.commands.timeline import replay_text as replay_text
    from .session.host import Host as Host
    from .session.journal import FilesPutBack as FilesPutBack
    from .session.journal import Item as Item
    from .session.journal import ModelRetried as ModelRetried
    from .session.journal import OutputStreamed as OutputStreamed
    from .session.journal import ReasoningStreamed as ReasoningStreamed
    from .session.journal import Signal as Signal
    from .session.journal import StatementRerun as StatementRerun
    from .session.journal import Subscription as Subscription
    from .session.journal import TextStreamed as TextStreamed
    from .session.lifecycle.registry import Sessions as Sessions
    from .session.lifecycle.registry import session_named as session_named
    from .session.model_calls.projector import Projection as Projection
    from .session.policy import MODES as MODES
    from .session.policy import OPTIONS as OPTIONS
    from .session.policy import OptionValues as OptionValues
    from .session.progress import Progress as Progress
    from .session.progress import with_progress as with_progress
    from .session.requests import EditMode as EditMode
    from .session.requests import EditRequest as EditRequest
    from .session.requests import ReplayReport as ReplayReport
    from .session.requests import ReplayRequest as ReplayRequest
    from .session.requests import Ticket as Ticket
    from .session.requests import TurnEnd as TurnEnd
    from .session.session import Session as Session

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
    "hidden_names",
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
    "context.model": "CallRetried Model ModelError ModelSignal ModelUnusableError Prompt "
    "ReasoningDelta ReplyEnded StatementAsked TextDelta TokensUsed",
    "context.models.providers": "ModelSetup",
    "context.tail.feed": "changes_of connected_sentence divergence_phrase lost_sentence moved_sentence",
    "context.tail.results": "given_text output_text printed_text result_text REST_LEFT_OUT",
    "context.tail.rights": "entered_sentence rebuild_sentence",
    "core.clock": "Clock Entropy",
    "core.diff": "change_size first_changed_line unseen_changes",
    "core.domain": "Domain Layer",
    "core.execution": "Artifact Aspect Captured Display ExceptionInfo ExecutionStatus "
    "KeptGroup Location NamespaceDiff ReplayMode TextChange",
    "core.ids": "BranchId EventId ExecutionId MessageId ObjId Seq SessionId StatementId ToolCallId",
    "core.installation": "__version__",
    "core.mcp_servers": "HttpServer McpServer StdioServer",
    "core.programs": "CommandOutcome CommandOutput CommandRequest ServerProcess ServerRequest",
    "core.settings": "SETTINGS Settings hidden_names load_settings",
    "core.text": "between cut_line cut_middle plural legible_line source_command "
    "source_lines source_text as_printed fenced",
    "core.toolbox": "INJECTED TOOLS call_title original tool_named",
    "files.search.path_completion": "complete_path",
    "files.sources": "Buffers Editor",
    "files.tails": "FeedItem HandleRow Looked MadeHandle News PastStatement ProjectionPart",
    "log.branches": "BranchRow path_of",
    "log.cycles": "CycleSummary",
    "log.file_history": "rewound_lines",
    "log.past": "CheckpointNews Comparison Contents Differences Divergence PastAnswer "
    "PastExecution PastLooks PastPayload PastQuestion PastRevision PastStep "
    "PastTick PastValues Preserved RestorePlan Restored ValueGroup",
    "log.permissions": "ASKED_CHARS CommandSubject FileSubject PermissionAnswer "
    "PermissionQuestion PermissionSubject Permissions RebuildSubject "
    "ServerCallSubject StatementSubject TreeSubject",
    "log.redaction": "Redactor redact_json without_secrets",
    "log.secrets": "redactor_of",
    "log.statements": "EffectAnswer EffectHandler EffectRequest OutputSink RunOutcome "
    "RunRequest TouchSink ignore_touched TickOutcome UpdatePayload "
    "Want",
    "log.store": "open_store",
    "log.store_protocol": "SessionRow Store",
    "log.timeline": "Cell Execution",
    "log.user_message": "blocks_of is_long_text",
    "runtime.environment": "Environment EnvironmentSpec Limits StartServer cannot_hold",
    "runtime.hardening": "harden_process",
    "runtime.zygote": "Zygote",
    "session.commands.table": "COMMANDS",
    "session.commands.timeline": "replay_text",
    "session.host": "Host",
    "session.journal": "FilesPutBack Item ModelRetried OutputStreamed ReasoningStreamed Signal "
    "StatementRerun TextStreamed Subscription",
    "session.lifecycle.registry": "session_named Sessions",
    "session.model_calls.projector": "Projection",
    "session.policy": "MODES OPTIONS OptionValues",
    "session.progress": "Progress with_progress",
    "session.requests": "EditMode EditRequest ReplayReport ReplayRequest Ticket TurnEnd",
    "session.session": "Session",
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
