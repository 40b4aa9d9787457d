"""What one eventful session publishes: every kind of event and of signal, with the turns an adapter has to tell
apart.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from engine.core.execution import (
    Captured,
    ChangeInfo,
    Display,
    ExceptionInfo,
    KeptGroup,
    Location,
    NamespaceDiff,
    TextChange,
    TypeInfo,
)
from engine.core.ids import (
    MAIN_BRANCH,
    BlobDigest,
    BranchId,
    EventId,
    ExecutionId,
    MessageId,
    ObjId,
    PayloadId,
    Seq,
    StatementId,
    ToolCallId,
)
from engine.log.events import Event
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    Condensation,
    CondensationRequest,
    NoCutPossible,
    ResultRerendered,
    ResultStatus,
    RunStop,
    SummaryCallEnded,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.log.events.execution import (
    CheckpointDropped,
    CheckpointTaken,
    CommandEnded,
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    FileTouched,
    FileWritten,
    NamesRebound,
    StatementOmitted,
    StatementRecorded,
    ValuesDropped,
    ValuesKept,
)
from engine.log.events.going_back import (
    BranchCreated,
    Diverged,
    EditBegun,
    FileLeft,
    FileToRestore,
    HeadMoved,
    OwnContents,
    ReplayBegun,
    ReplayEnded,
    RewindBegun,
    Rewound,
)
from engine.log.events.nodes import (
    AdoptedContent,
    AsyncPayloadApplied,
    AsyncPayloadDropped,
    AsyncPayloadPrepared,
    ContentsAdopted,
    FileChanged,
    GroupRecomputed,
    MethodCalled,
    NodeChanged,
    NodeMade,
    NodesTicked,
    OutlineMade,
    PayloadBasis,
    PayloadCost,
    RevisionAdopted,
    StatementTicked,
    TickApplied,
)
from engine.log.events.session import (
    ConfigChanged,
    ContextMeasured,
    DomainEntered,
    EnvironmentRestored,
    GuidanceChanged,
    GuidanceFile,
    GuidanceRead,
    InstructionsGiven,
    ModeChanged,
    ModelCallEnded,
    OthersWrote,
    PermissionAnswered,
    PermissionAsked,
    PermissionOutcome,
    PicturesWithdrawn,
    PlanChanged,
    PlanEntry,
    ProjectionSent,
    PromptQueued,
    PromptWithdrawn,
    RoundOpened,
    ServerConnected,
    ServerLost,
    ServersNamed,
    SessionMoved,
    SessionOpened,
    Skill,
    SkillsRead,
    SurroundingsRead,
    TitleChanged,
    UsageReported,
    ViewEnforced,
    WorkspaceCloned,
    WorkStopped,
)
from engine.session.journal import FilesPutBack, Item, OutputStreamed, ReasoningStreamed, StatementRerun, TextStreamed

CWD = "/work"
BEGAN = 1_700_000_000.0


def _message(number: int) -> MessageId:
    return MessageId(f"message-{number}")


def _call(number: int) -> ToolCallId:
    return ToolCallId(f"call-{number}")


def _recorded(number: int, source: str) -> StatementRecorded:
    return StatementRecorded(
        statement_id=StatementId(f"statement-{number}"), index=number, source=source, tool_call_id=_call(number)
    )


def _started(number: int) -> ExecutionStarted:
    return ExecutionStarted(
        execution_id=ExecutionId(f"execution-{number}"), statement_id=StatementId(f"statement-{number}")
    )


_FINISHED = ExecutionFinished(
    execution_id=ExecutionId("execution-1"),
    statement_id=StatementId("statement-1"),
    status="ok",
    started_at=BEGAN,
    ended_at=BEGAN + 1,
    time_ms=12.34567,
    stdout=Captured(text="one\n```\ntwo\n", total_bytes=12, digest="d"),
    stderr=Captured(text="careful\n", total_bytes=8, digest="e"),
    value="42",
    displays=(Display(obj_id="view-1.1", title="a.py", text="x = 1", tokens=4),),
    locations=(Location(path="/work/a.py", line=3), Location(path="/work/b.py")),
    diff=NamespaceDiff(
        added={"x": TypeInfo(type_name="int", short_repr="1")},
        changed={
            "y": ChangeInfo(
                before=TypeInfo(type_name="int", short_repr="1"), after=TypeInfo(type_name="str", short_repr="'s'")
            )
        },
        deleted=("z",),
    ),
)


def _helper(number: int, tool: str, **arguments: object) -> ToolCall:
    return ToolCall(tool_call_id=_call(number), tool=tool, arguments=arguments, parent_id=_call(1))


def _result(number: int, status: ResultStatus, text: str, *places: Location) -> ToolResult:
    return ToolResult(tool_call_id=_call(number), status=status, text=text, parent_id=_call(1), locations=places)


def _written(number: int, path: str, *changes: TextChange, note: str = "", before: str = "a") -> FileWritten:
    return FileWritten(
        execution_id=ExecutionId("execution-1"),
        tool_call_id=_call(number),
        path=path,
        before_digest=before,
        after_digest="b",
        changes=changes,
        note=note,
    )


def _ended(number: int, **fields: Any) -> CommandEnded:
    return CommandEnded(execution_id=ExecutionId("execution-1"), tool_call_id=_call(number), cwd=CWD, **fields)


def _answered(number: int, outcome: PermissionOutcome) -> tuple[Item, ...]:
    return (
        PermissionAsked(tool_call_id=_call(number), scope=""),
        PermissionAnswered(tool_call_id=_call(number), scope="", outcome=outcome, remembered=False),
    )


_TOOLS_USED: tuple[Item, ...] = (
    _helper(110, "ls", path="src"),
    _result(110, "ok", "a.py\nb/"),
    _helper(111, "read", path="/work/src/a.py", start_line=3, end_line=9),
    _result(111, "ok", "x = 1"),
    _helper(112, "grep", pattern="x = ", path="src", glob=None, context=0),
    _result(112, "ok", "src/a.py:3:x = 1", Location(path="/work/src/a.py", line=3), Location(path="/work/src/b.py")),
    _helper(113, "find", glob="**/*.py", path="."),
    _result(113, "ok", "src/a.py"),
    _helper(114, "write", path="new.py", text="x = 1\n"),
    _written(114, "/work/new.py", TextChange(line=1, old=None, new="x = 1\n"), before=""),
    _result(114, "ok", "wrote new.py"),
    _helper(115, "edit", path="b.py", old="s", new="t"),
    *_answered(115, "allowed"),
    _written(
        115,
        "/work/b.py",
        TextChange(line=3, old="r\ns\n", new="r\nt\n"),
        TextChange(line=70, old="a\nb\nc\n", new="a\n\u202eb\nc\n"),
    ),
    _result(115, "ok", "edited b.py"),
    _helper(116, "write", path="logo.png", text="(9 bytes)"),
    _written(116, "/else/logo.png", note="binary, 8 bytes -> binary, 9 bytes"),
    _result(116, "ok", "wrote logo.png"),
    _helper(117, "edit", path="b.py", old="t", new="u"),
    *_answered(117, "rejected"),
    _result(117, "error", "PermissionError: The user rejected this change."),
    _helper(118, "bash", command="pytest -q", timeout=None, cwd="src"),
    *_answered(118, "allowed"),
    OutputStreamed(_call(118), "stdout", "..F"),
    OutputStreamed(_call(118), "stdout", "\n1 failed\n"),
    _ended(118, code=1, time_ms=1234.5678, output=Captured(text="..F\n1 failed\n", total_bytes=13)),
    _result(118, "ok", "exit code 1"),
    _helper(119, "bash", command="if true\nthen sleep 99\nfi"),
    OutputStreamed(_call(119), "stdout", "y\n" * 3),
    _ended(119, signal=15, timed_out=True, time_ms=3000.0, output=Captured(text="y\n" * 3, total_bytes=6)),
    _result(119, "error", "TimeoutError: ended after 3 seconds"),
    _helper(120, "bash", command="kill -9 $$"),
    _ended(120, signal=9),
    _result(120, "ok", "ended by SIGKILL"),
)

_WRITTEN_BY_THE_CODE: tuple[Item, ...] = (
    FileTouched(execution_id=ExecutionId("execution-1"), path="/work/b.py", before_digest="a"),
    _helper(121, "write", path="/work/b.py"),
    replace(_written(121, "/work/b.py", TextChange(line=1, old="t\n", new="")), after_digest="", noticed=True),
    _result(121, "ok", "removed by the statement's own code"),
    _helper(122, "write"),
    replace(_written(122, "/work/c.py"), noticed=True, unshown=True),
    _result(122, "ok", "1 more file changed by the statement's own code"),
)

_FIRST_RUN: tuple[Item, ...] = (
    SessionOpened(cwd=CWD, directories=("/else",), python="/usr/bin/python3"),
    ModeChanged(mode="auto"),
    UserMessage(
        message_id=_message(1), text="Look at it", attachments=(Attachment(uri="file:///work/a.py", name="a.py"),)
    ),
    TitleChanged(title="Look at it"),
    UsageReported(used=1_200, size=64_000),
    ReasoningStreamed(_message(2), "I sh"),
    ReasoningStreamed(_message(2), "all look."),
    AgentReasoning(message_id=_message(2), text="I shall look."),
    TextStreamed(_message(3), "Look"),
    TextStreamed(_message(3), "ing."),
    AgentText(message_id=_message(3), text="Looking."),
    ToolCall(tool_call_id=_call(1), tool="python", arguments={"source": "x = read('a.py')"}),
    _recorded(1, "\n  x = read('a.py')\nx\n"),
    PermissionAsked(tool_call_id=_call(1), scope="statements"),
    PermissionAnswered(tool_call_id=_call(1), scope="statements", outcome="allowed", remembered=True),
    _started(1),
    OutputStreamed(_call(1), "stdout", "one\n"),
    ToolCall(tool_call_id=_call(101), tool="read", arguments={"path": "a.py"}, parent_id=_call(1)),
    EffectRequested(execution_id=ExecutionId("execution-1"), ordinal=0, operation="read", argument_digest="a"),
    EffectAnswered(execution_id=ExecutionId("execution-1"), ordinal=0, operation="read"),
    ToolResult(tool_call_id=_call(101), status="ok", text="x = 1", parent_id=_call(1)),
    ToolCall(tool_call_id=_call(104), tool="edit", arguments={"path": "b.py", "new": "t"}, parent_id=_call(1)),
    FileWritten(
        execution_id=ExecutionId("execution-1"),
        tool_call_id=_call(104),
        path="/work/b.py",
        before_digest="a",
        after_digest="b",
        changes=(TextChange(line=3, old="r\ns\n", new="r\nt\n"),),
    ),
    ToolResult(tool_call_id=_call(104), status="ok", text="wrote b.py", parent_id=_call(1)),
    ToolCall(tool_call_id=_call(102), tool="edit", arguments={"path": "/abs/b.py", "new": "t"}, parent_id=_call(1)),
    ToolResult(tool_call_id=_call(102), status="rejected", text="not `allowed`", parent_id=_call(1)),
    ToolCall(tool_call_id=_call(103), tool="nothing_known", arguments={"n": 1}, parent_id=_call(1)),
    ToolResult(tool_call_id=_call(103), status="error", text="", parent_id=_call(1)),
    *_TOOLS_USED,
    *_WRITTEN_BY_THE_CODE,
    OutputStreamed(_call(1), "stderr", "careful\n"),
    OutputStreamed(_call(1), "stdout", "x" * 5_000),
    MethodCalled(obj_id=ObjId("view-1.1"), obj_type="view", method="Run"),
    NamesRebound(execution_id=ExecutionId("execution-1"), names=("view",)),
    StatementOmitted(statement_id=StatementId("statement-1")),
    StatementOmitted(statement_id=StatementId("statement-1"), omitted=False),
    _FINISHED,
    ToolResult(tool_call_id=_call(1), status="ok", text="42"),
    ValuesKept(
        execution_id=ExecutionId("execution-1"),
        groups=(KeptGroup(names=("n",), content=None, size=12, withheld="blake2b:00"),),
        unkept={"lock": "it cannot be pickled"},
    ),
    NodesTicked(round_id=1, now=1.0, nodes=1),
    RevisionAdopted(path="/work/sub/a.py", look=0, state="text", digest="00", size=4),
    FileChanged(path="/work/sub/a.py", change="modified", delta="1 line changed in a.py"),
    NodeChanged(obj_id=ObjId("view-1.1"), obj_type="view", delta="1 line changed in a.py\n+new"),
    NodeChanged(obj_id=ObjId("view-1.2"), obj_type="view", delta="moved"),
    TickApplied(obj_id=ObjId("view-1.1"), tick_kind="async", turn_id=1, delta="1 line changed in a.py"),
    CondensationRequest(reason="budget"),
    CondensationRequest(reason="asked"),
    ViewEnforced(property_name="observation_uniqueness", count=1),
    Condensation(forgotten=(EventId("event-3"),)),
    Condensation(forgotten=(EventId("event-4"), EventId("event-5")), summary="It went well.", summary_offset=0),
    PromptQueued(message_id=_message(20), text="and then"),
    PromptQueued(message_id=_message(21), text="or not"),
    PromptWithdrawn(message_id=_message(21)),
    ToolCall(tool_call_id=_call(2), tool="python", arguments={"source": "1 / 0"}),
    _recorded(2, "1 / 0"),
    _started(2),
    replace(
        _FINISHED,
        execution_id=ExecutionId("execution-2"),
        statement_id=StatementId("statement-2"),
        status="error",
        stdout=Captured(),
        stderr=Captured(),
        value=None,
        exception=ExceptionInfo(type="ZeroDivisionError", message="division by zero", traceback="Traceback ..."),
        displays=(),
        locations=(),
        diff=NamespaceDiff(),
    ),
    ToolResult(tool_call_id=_call(2), status="error", text="Traceback ..."),
    ToolCall(tool_call_id=_call(3), tool="python", arguments={"source": "rm()"}),
    _recorded(3, "rm()"),
    ToolResult(tool_call_id=_call(3), status="rejected", text="The user said no."),
    TextStreamed(_message(4), "Half a "),
    TextStreamed(_message(90), "An answer to a command beside the run."),
    TextStreamed(_message(4), "sentence"),
    AgentText(message_id=_message(4), text="Half a sentence"),
    RunStop(reason="completed", cause="end_turn"),
)

_SECOND_RUN: tuple[Item, ...] = (
    UserMessage(message_id=_message(20), text="and then", prompt_kind="follow_up"),
    EnvironmentRestored(executions=2, divergences=("Statement 2 printed something else.",)),
    WorkStopped(sentences=("thread 'a', started by <statement 2>, was not allowed to call os.mkdir /work/b",)),
    ProjectionSent(round_id=3, answered=True, position=40, size=64_000, sections={"instructions": 700, "feed": 300}),
    ProjectionSent(round_id=3, position=41, size=64_000),
    ModelCallEnded(round_id=3, used=1_000, size=64_000, answered=True, input_tokens=1_100, output_tokens=9),
    ConfigChanged(option="while_running", value="steer"),
    UserMessage(message_id=_message(22), text="rather this", prompt_kind="steer"),
    CondensationRequest(reason="refused"),
    SummaryCallEnded(answered=True, input_tokens=900, output_tokens=40, model="provider:openai:gpt"),
    NoCutPossible(tokens=7_000),
    ToolCall(tool_call_id=_call(4), tool="python", arguments={"source": "while True: pass"}),
    _recorded(4, "while True: pass"),
    _started(4),
    OutputStreamed(_call(4), "stdout", "once"),
    replace(
        _FINISHED,
        execution_id=ExecutionId("execution-4"),
        statement_id=StatementId("statement-4"),
        status="cancelled",
        value=None,
        displays=(),
    ),
    ToolResult(tool_call_id=_call(4), status="cancelled", text="once"),
    CondensationRequest(reason="asked"),
    TextStreamed(_message(5), "cut o"),
    AgentText(message_id=_message(5), text="cut o"),
    RunStop(reason="interrupted", cause="cancelled", detail="The user cancelled."),
)

_BETWEEN: tuple[Item, ...] = (
    UserMessage(message_id=_message(30), text="/views", aside=True),
    TextStreamed(_message(31), "No handles yet."),
    AgentText(message_id=_message(31), text="No handles yet.", aside=True),
    RunStop(reason="completed", cause="end_turn"),
    ModeChanged(mode="plan"),
    ConfigChanged(option="while_running", value="queue"),
    TitleChanged(title="Another title"),
    FileChanged(path="/elsewhere/c.txt", change="deleted", delta="c.txt was deleted"),
    NodeChanged(obj_id=ObjId("view-2.1"), obj_type="view", delta="moved"),
)

_OWN = OwnContents(present_digest="e", wanted_digest="f")
_BACK = FileToRestore(path="/work/b.py", present_digest="b", wanted_digest="a", own=_OWN, is_merged=True)
_LEFT = FileLeft(path="/else/c.txt", reason="the file has changed since the session last wrote it")

_OF_ANOTHER_PROGRAM: tuple[Item, ...] = (
    UserMessage(message_id=_message(40), text="search"),
    ToolCall(tool_call_id=_call(50), tool="grep", arguments={"pattern": "x", "path": "a.py"}),
    ToolCall(tool_call_id=_call(51), tool="Task", arguments={"path": 7}),
    ToolResult(tool_call_id=_call(51), status="ok", text="done"),
    ToolResult(tool_call_id=_call(50), status="error", text="no match"),
    AgentText(message_id=_message(41), text="Nothing."),
    RunStop(reason="error", cause="error", detail="It broke."),
    SessionMoved(cwd="/elsewhere"),
    ValuesDropped(before=Seq(9), executions=1, copies=2, size=1_000, limit=500),
    RoundOpened(round_id=3, cause="tick"),
    StatementTicked(execution_id=ExecutionId("execution-1"), round_id=1, now=1.0, nodes=2),
    ContentsAdopted(files=(AdoptedContent(path="/work/sub/a.py", look=0, state="text", digest="00", size=4),)),
    AsyncPayloadPrepared(
        payload_id=PayloadId("pay-1"),
        obj_id=ObjId("view-1.1"),
        prepared_at=1.0,
        payload_kind="render",
        basis=PayloadBasis(obj_digest_hash="00"),
        payload_hash="01",
        cost=PayloadCost(tokens=7),
    ),
    AsyncPayloadApplied(
        payload_id=PayloadId("pay-1"), obj_id=ObjId("view-1.1"), payload_kind="render", turn_id=1, delta="changed"
    ),
    AsyncPayloadDropped(
        payload_id=PayloadId("pay-2"), obj_id=ObjId("view-1.1"), payload_kind="other", reason="stale", turn_id=1
    ),
    GroupRecomputed(obj_id=ObjId("group-2.1"), delta="1 of 2 members changed: a"),
    NodeMade(obj_id=ObjId("view-3.1"), obj_type="view", statement=3, line=1, name="a"),
    OutlineMade(digest="00", tier="tree-sitter"),
    ResultRerendered(
        tool_call_id=_call(50),
        statement=3,
        text="[a.py]\n1\tx",
        displays=(Display(obj_id="view-3.1", title="a.py", text="1\tx\n", tokens=3),),
    ),
    ServersNamed(modules={"GitHub": "github", "dead": "dead"}),
    ServerConnected(server="GitHub", module="github", tools=12, resources=1),
    ServerLost(server="dead", module="dead", reason="there is no program dead"),
    ContextMeasured(used=900, size=64_000),
    RewindBegun(statement=1, since=Seq(9), files=(_BACK,), left=(_LEFT,)),
    Rewound(statement=1, restored=(_BACK,), left=(_LEFT,)),
    Rewound(statement=0, cancelled=True),
    Rewound(statement=0),
    BranchCreated(branch=BranchId("b1"), parent=MAIN_BRANCH, before=Seq(9)),
    HeadMoved(branch=MAIN_BRANCH, left=BranchId("b1"), statement=2),
    ReplayBegun(first=1, last=2, mode="recorded", statements=2),
    ExecutionStarted(
        execution_id=ExecutionId("execution-20"),
        statement_id=StatementId("statement-1"),
        mode="recorded",
        against=ExecutionId("execution-1"),
    ),
    Diverged(
        execution_id=ExecutionId("execution-20"),
        against=ExecutionId("execution-1"),
        statement=1,
        aspect="value",
        before="1",
        after="",
    ),
    ExecutionFinished(
        execution_id=ExecutionId("execution-20"),
        statement_id=StatementId("statement-1"),
        status="ok",
        started_at=1.0,
        ended_at=2.0,
        mode="recorded",
    ),
    ReplayEnded(outcome="completed"),
    CheckpointTaken(execution_id=ExecutionId("execution-1"), time_ms=2.0, shared=("child processes: 1",)),
    CheckpointDropped(execution_id=ExecutionId("execution-1"), reason="its process ended"),
    OthersWrote(by="model"),
    DomainEntered(held=True, writable=("/work",), bare=True),
    DomainEntered(held=False, reason="this kernel does not offer landlock", statements=2),
    PermissionAnswered(tool_call_id=ToolCallId("domain-event-160"), scope="", outcome="allowed", remembered=False),
    EditBegun(first=2, last=3, statements=2),
    _recorded(60, "x = 2"),
    _started(60),
    FilesPutBack(1, 2),
    StatementRerun(ToolCallId("call-61"), 1, 1, 2, "begun"),
    StatementRerun(ToolCallId("call-61"), 2, 2, 2, "running"),
    StatementRerun(ToolCallId("call-61"), 2, 2, 2, "over"),
    ExecutionFinished(
        execution_id=ExecutionId("execution-60"),
        statement_id=StatementId("statement-60"),
        status="ok",
        started_at=1.0,
        ended_at=2.0,
    ),
    PlanChanged(
        entries=(PlanEntry(content="Fix it", priority="high", status="in_progress"), PlanEntry(content="Test"))
    ),
    GuidanceRead(files=(GuidanceFile("/work/AGENTS.md", "Write tests first."),)),
    GuidanceChanged(path="/work/AGENTS.md", text="Write tests.", told="AGENTS.md changed: Write tests."),
    SurroundingsRead(cwd="/work", text="When this session began, on 2026-11-29 (Sunday):\n- Python 3.11.7"),
    SkillsRead(skills=(Skill("release", "Publish a version.", "/work/.agents/skills/release/SKILL.md"),), more=2),
    InstructionsGiven(text="Answer in French."),
    PicturesWithdrawn(model="provider:openai:gpt", reason="too large", pictures=(BlobDigest("blake2b-00"),)),
    WorkspaceCloned(address="https://git.example/app.git", commit="0" * 40, directory="/elsewhere"),
)


def rich_items() -> list[Item]:
    """Everything that the session publishes, events stamped."""
    return _stamped([*_FIRST_RUN, *_SECOND_RUN, *_BETWEEN, *_OF_ANOTHER_PROGRAM])


def events_of(items: list[Item]) -> list[Event]:
    """The log of what was published."""
    return [item for item in items if isinstance(item, Event)]


def _stamped(items: list[Item]) -> list[Item]:
    stamped: list[Item] = []
    seq = 0
    for item in items:
        if isinstance(item, Event):
            stamped.append(replace(item, seq=Seq(seq), event_id=EventId(f"event-{seq}"), at=BEGAN + seq))
            seq += 1
        else:
            stamped.append(item)
    return stamped
