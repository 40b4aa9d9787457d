"""Updates for single events."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from engine.core.execution import Captured, ExceptionInfo, Location, TextChange
from engine.core.ids import EventId, ExecutionId, MessageId, ObjId, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import (
    AgentText,
    Condensation,
    CondensationRequest,
    NoCutPossible,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, FileWritten, StatementRecorded
from engine.log.events.nodes import FileChanged, GroupRecomputed, NodeChanged
from engine.log.events.session import PromptQueued, TitleChanged, UsageReported
from tests.support.scripts import transcript
from tests.support.shown import updates_of

M, N = MessageId("m"), MessageId("n")
CALL = ToolCallId("c")
RECORDED = StatementRecorded(statement_id=StatementId("s"), index=3, source="x = 1\ny = 2", tool_call_id=CALL)
STARTED = ExecutionStarted(execution_id=ExecutionId("e"), statement_id=StatementId("s"))


def finished(text: str, status: str = "ok") -> ExecutionFinished:
    return ExecutionFinished(
        execution_id=ExecutionId("e"),
        statement_id=StatementId("s"),
        status=status,
        started_at=0,
        ended_at=1,
        stdout=Captured(text=text, total_bytes=len(text)),
    )


def test_statement_is_one_call_from_pending_to_end() -> None:
    made = updates_of(RECORDED, STARTED, finished("out"))
    assert [(update["toolCallId"], update["status"]) for update in made] == [
        ("c", "pending"),
        ("c", "in_progress"),
        ("c", "completed"),
    ]
    assert made[0]["title"] == "x = 1 … +1 line"
    assert made[0]["rawInput"] == {"command": "x = 1\ny = 2", "statement": 3}


@pytest.mark.parametrize("status", ["error", "timeout", "cancelled"])
def test_failures_are_failed_calls(status: str) -> None:
    assert updates_of(RECORDED, STARTED, finished("", status))[-1]["status"] == "failed"


def test_a_statement_without_output_says_so() -> None:
    ended = updates_of(RECORDED, finished(""))[-1]
    assert [block["content"]["text"] for block in ended["content"]] == ["```python\nx = 1\ny = 2\n```", "(no output)"]


TYPED = ToolCall(tool_call_id=CALL, tool="python", arguments={"source": "x"}, typed=True)


def shown_of_typed(ended: ExecutionFinished) -> tuple[list[str], list[str]]:
    """The content of a typed statement's call, and the answers; the same live and in a load."""
    live = updates_of(TYPED, RECORDED, STARTED, ended)
    assert live == updates_of(TYPED, RECORDED, STARTED, ended, is_live=False)
    assert "content" not in live[0] or live[0]["content"] == []
    content = next(update["content"] for update in live if update.get("status") in ("completed", "failed"))
    answers = [update for update in live if update["sessionUpdate"] == "agent_message_chunk"]
    return [block["content"]["text"] for block in content], [answer["content"]["text"] for answer in answers]


def test_value_of_a_typed_statement_is_the_answer() -> None:
    assert shown_of_typed(replace(finished("out\n"), value="42")) == (["```\nout\n```"], ["42"])
    assert shown_of_typed(replace(finished(""), value="42")) == ([], ["42"])
    assert shown_of_typed(finished("out")) == (["```\nout\n```"], [])
    assert shown_of_typed(finished("")) == (["(no output)"], [])


def test_error_of_a_typed_statement_is_the_answer() -> None:
    error = ExceptionInfo(type="ValueError", message="no\nsecond line", traceback="Traceback\nValueError: no")
    content, answers = shown_of_typed(replace(finished("out\n", "error"), exception=error))
    assert (content, answers) == (["```\nout\nTraceback\nValueError: no\n```"], ["ValueError: no"])
    content, answers = shown_of_typed(finished("out\n", "cancelled"))
    assert (content, answers) == (["```\nout\n[cancelled after 0.0 s]\n```"], [])


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("['one']", "['one']"),
        ("-3", "-3"),
        ("datetime.date(2020, 1, 1)", "datetime.date(2020, 1, 1)"),
        ("- item", "```\n- item\n```"),
        ("2. item", "```\n2. item\n```"),
        ("__init__", "```\n__init__\n```"),
        ("<class 'int'>", "```\n<class 'int'>\n```"),
        ("[a](b)", "```\n[a](b)\n```"),
        ("one\n# two", "```\none\n# two\n```"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_answer_is_fenced_against_markdown(value: str, answer: str) -> None:
    assert shown_of_typed(replace(finished(""), value=value))[1] == [answer]


def test_raw_output_equals_content() -> None:
    ended = updates_of(RECORDED, finished("out"))[-1]
    assert ended["rawOutput"] == "```python\nx = 1\ny = 2\n```\n\n```\nout\n```"
    record = ended["_meta"]["rewindow"]["execution"]
    assert (record["status"], record["stdoutBytes"], record["names"]["added"]) == ("ok", 3, [])


def test_colours_are_removed_and_control_characters_escaped() -> None:
    ended = updates_of(RECORDED, finished("\x1b[31mred\x1b[0m 10%\r\x1b[Kred 20%\n\x07\u202e"))[-1]
    assert ended["content"][-1]["content"]["text"] == "```\nred 20%\n\\x07\\u202e\n```"


@pytest.mark.parametrize("text", ["plain", "```\nfenced\n```", "a `````` b", "# not a heading"])
def test_output_cannot_break_its_fence(text: str) -> None:
    block = updates_of(RECORDED, finished(text))[-1]["content"][-1]["content"]["text"]
    fence = block.split("\n", 1)[0]
    assert set(fence) == {"`"}
    assert block == f"{fence}\n{text}\n{fence}"
    assert fence not in text


def test_helper_calls_are_announced_and_model_calls_wait() -> None:
    own = ToolCall(tool_call_id=CALL, tool="python", arguments={"source": "1"})
    helper = ToolCall(tool_call_id=ToolCallId("d"), tool="read", arguments={"path": "a.py"}, parent_id=CALL)
    (shown,) = updates_of(own, helper)
    assert (shown["kind"], shown["title"], shown["locations"]) == ("read", "Read a.py", [{"path": "/w/a.py"}])


def test_changed_file_is_sent_once_with_the_nodes_diff() -> None:
    changed = FileChanged(path="/w/a.py", change="modified", delta="1 line changed in a.py")
    node = NodeChanged(obj_id=ObjId("view-1.1"), obj_type="view", delta="1 line changed in a.py\n+new")
    other = NodeChanged(obj_id=ObjId("view-1.2"), obj_type="view", delta="moved")
    (made,) = updates_of(changed, node, other)
    assert (made["sessionUpdate"], made["title"], made["status"]) == ("tool_call", "Follow a.py: modified", "completed")
    assert "+new" in made["content"][0]["content"]["text"]


def test_changed_file_without_node_is_sent_with_the_next_event() -> None:
    changed = FileChanged(path="/w/a.py", change="modified", delta="1 line changed in a.py")
    first, second, title = updates_of(changed, changed, TitleChanged(title="Next"))
    for made in (first, second):
        assert made["content"][0]["content"]["text"] == "```\n1 line changed in a.py\n```"
    assert title["title"] == "Next"


def test_files_of_a_glob_are_sent_by_their_group() -> None:
    files = "files of src/*.py: 1 changed (src/x.py)"
    group = GroupRecomputed(
        event_id=EventId("e1"), obj_id=ObjId("g"), delta=f"1 of 2 members changed: a; {files}", files=files
    )
    (made,) = updates_of(group)
    assert (made["title"], made["kind"], made["status"]) == (f"Follow {files}", "read", "completed")
    assert made["content"][0]["content"]["text"] == f"```\n{group.delta}\n```"
    # The other members have their own updates.
    assert updates_of(GroupRecomputed(obj_id=ObjId("g"), delta="1 of 1 member changed: a")) == []


def test_condensation_is_one_call() -> None:
    began, ended, nothing = updates_of(
        CondensationRequest(event_id=EventId("e1"), reason="budget"),
        CondensationRequest(event_id=EventId("e2")),
        Condensation(forgotten=()),
        Condensation(forgotten=(EventId("e0"),), summary="It went well.", summary_offset=0),
        Condensation(forgotten=(EventId("e3"),), summary="Elsewhere.", summary_offset=0),
        RunStop(reason="completed", cause="end_turn"),
    )
    assert (began["toolCallId"], began["kind"], began["status"]) == ("condense_e1", "think", "in_progress")
    assert (ended["toolCallId"], ended["status"]) == ("condense_e1", "completed")
    assert "It went well." in str(ended["content"])
    assert nothing["sessionUpdate"] == "session_info_update"


@pytest.mark.parametrize(
    "end", [NoCutPossible(tokens=7_000), RunStop(reason="interrupted", cause="cancelled")], ids=lambda end: end.kind
)
def test_failed_condensation_is_a_failed_call(end: Event) -> None:
    _, ended = updates_of(CondensationRequest(event_id=EventId("e1")), end)[:2]
    assert (ended["toolCallId"], ended["status"]) == ("condense_e1", "failed")


def test_end_of_a_run_has_time_and_cycle() -> None:
    stop = RunStop(at=0.0, reason="completed", cause="end_turn")
    assert updates_of(stop) == [
        {"sessionUpdate": "session_info_update", "updatedAt": "1970-01-01T00:00:00+00:00"},
    ]
    update = updates_of(
        UserMessage(message_id=M, text="go"),
        AgentText(message_id=N, text="Done."),
        PromptQueued(message_id=MessageId("q"), text="next"),
        stop,
    )[-1]
    assert update["_meta"] == {
        "rewindow": {
            "cycle": {"number": 1, "root": "direct", "stop": "completed", "rounds": 1, "steps": 2, "queued": 1}
        }
    }
    assert "title" not in update


def test_call_of_another_program_has_its_result() -> None:
    call = ToolCall(tool_call_id=CALL, tool="grep", arguments={"pattern": "x", "path": "a.py"})
    result = ToolResult(tool_call_id=CALL, status="error", text="no match")
    assert updates_of(call) == []
    (update,) = updates_of(call, result, result)
    assert (update["sessionUpdate"], update["title"], update["status"]) == ("tool_call", 'Search "x" in a.py', "failed")
    assert "no match" in str(update["content"])
    assert update["rawInput"] == {"pattern": "x", "path": "a.py"}


@pytest.mark.parametrize("at", [1e14, -1e14, 1e300, float("inf"), float("nan"), -62_135_596_801.0])
def test_time_outside_the_calendar_is_omitted(at: float) -> None:
    updates = updates_of(
        TitleChanged(title="t", at=at),
        UserMessage(message_id=M, text="go", at=at),
        RunStop(reason="completed", cause="end_turn", at=at),
    )
    assert [update["updatedAt"] for update in updates] == [None, None]


def test_imported_numbers_are_clamped_to_the_schema() -> None:
    lines = (Location(path="/a", line=line) for line in (-1, 0, 2**32 - 1, 2**32, 2**70))
    usage, *_, end = updates_of(
        UsageReported(used=-5, size=2**70), RECORDED, replace(finished("x"), locations=tuple(lines))
    )
    assert (usage["used"], usage["size"]) == (0, 2**64 - 1)
    assert [each["line"] for each in end["locations"]] == [None, 0, 2**32 - 1, None, None]


def test_a_file_without_a_name_is_shown() -> None:
    shown, _ = updates_of(FileChanged(path="", change="deleted", delta="it was deleted"), TitleChanged(title="Next"))
    assert shown["title"] == "Follow a file: deleted"


HELPER = ToolCallId("h")


def tree_act(tool: str, arguments: dict[str, object], text: str, *written: FileWritten) -> list[dict[str, Any]]:
    """The updates of a function on the file tree."""
    call = ToolCall(tool_call_id=HELPER, tool=tool, arguments=arguments, parent_id=CALL)
    result = ToolResult(tool_call_id=HELPER, status="ok", text=text, parent_id=CALL)
    return list(transcript(updates_of(call, *written, result))["calls"].values())


def gone(path: str, *changes: TextChange, **more: Any) -> FileWritten:
    return FileWritten(
        execution_id=ExecutionId("e"), tool_call_id=HELPER, path=path, changes=changes, before_digest="b", **more
    )


def drawn(call: dict[str, Any]) -> list[object]:
    """Diffs as pairs of texts, other content as text."""
    return [
        (block["oldText"], block["newText"]) if block["type"] == "diff" else block["content"]["text"]
        for block in call.get("content", [])
    ]


def test_removed_file_keeps_its_diff() -> None:
    removed = gone("/w/a", TextChange(line=1, old="one\n", new=""), unshown=True)
    (call,) = tree_act("remove", {"path": "a"}, "the file is removed", removed)
    assert (call["title"], call["kind"], call["status"]) == ("Remove a", "delete", "completed")
    assert drawn(call) == [("one\n", ""), "```\nthe file is removed\n```"]


@pytest.mark.parametrize(
    ("source", "title", "old", "seen"),
    [
        ("a", "Rename a to b", None, []),
        ("a", "Rename a to b", "before\n", [("before\n", "one\n")]),
        ("/scratch/a", "Rename /scratch/a to b", None, [(None, "one\n")]),
        ("../a", "Rename ../a to b", None, [(None, "one\n")]),
    ],
    ids=["to a free name", "replaces a file", "from elsewhere", "from above"],
)
def test_renamed_file_shows_what_is_new(source: str, title: str, old: str | None, seen: list[object]) -> None:
    made = gone("/w/b", TextChange(line=1, old=old, new="one\n"), unshown=True, after_digest="a")
    for events in ((gone("/w/a", unshown=True), made), (made, gone("/w/a", unshown=True))):
        (call,) = tree_act("rename", {"path": "b", "source": source}, "", *events)
        assert (call["title"], call["kind"]) == (title, "move")
        assert drawn(call) == seen


def test_tree_function_does_not_show_none() -> None:
    for text in ("", "None"):
        (call,) = tree_act("mkdir", {"path": "a", "mode": 511}, text)
        assert drawn(call) == []
    (call,) = tree_act("rmtree", {"path": "d"}, "1 file in it:\nx", gone("/w/d/x", unshown=True))
    assert drawn(call) == ["```\n1 file in it:\nx\n```"]


def test_noticed_removal_is_reported_once() -> None:
    removed = gone("/w/a", TextChange(line=1, old="one\n", new=""), noticed=True, note="the file was removed")
    (call,) = tree_act("remove", {"path": "/w/a"}, "removed by the statement's own code", removed)
    assert call["title"] == "Remove a (-1)"
    assert drawn(call) == [("one\n", ""), "```\nthe file was removed\n```"]
