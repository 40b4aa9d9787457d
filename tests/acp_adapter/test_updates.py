"""The table from events to updates: complete, and shaped as editors need it."""

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


def test_a_statement_goes_from_pending_to_in_progress_to_its_end_under_one_id() -> None:
    made = updates_of(RECORDED, STARTED, finished("out"))
    assert [(update["toolCallId"], update["status"]) for update in made] == [
        ("c", "pending"),
        ("c", "in_progress"),
        ("c", "completed"),
    ]
    assert made[0]["title"] == "x = 1 … +1 line"
    assert made[0]["rawInput"] == {"command": "x = 1\ny = 2", "statement": 3}


@pytest.mark.parametrize("status", ["error", "timeout", "cancelled"])
def test_whatever_went_wrong_is_a_failed_call(status: str) -> None:
    assert updates_of(RECORDED, STARTED, finished("", status))[-1]["status"] == "failed"


def test_a_statement_without_output_says_so() -> None:
    ended = updates_of(RECORDED, finished(""))[-1]
    assert [block["content"]["text"] for block in ended["content"]] == ["```python\nx = 1\ny = 2\n```", "(no output)"]


TYPED = ToolCall(tool_call_id=CALL, tool="python", arguments={"source": "x"}, typed=True)


def shown_of_typed(ended: ExecutionFinished) -> tuple[list[str], list[str]]:
    """The content of the call of what the user typed, and the answers; the same live and when it is loaded."""
    live = updates_of(TYPED, RECORDED, STARTED, ended)
    assert live == updates_of(TYPED, RECORDED, STARTED, ended, is_live=False)
    assert "content" not in live[0] or live[0]["content"] == []
    content = next(update["content"] for update in live if update.get("status") in ("completed", "failed"))
    answers = [update for update in live if update["sessionUpdate"] == "agent_message_chunk"]
    return [block["content"]["text"] for block in content], [answer["content"]["text"] for answer in answers]


def test_what_a_typed_statement_prints_is_in_its_call_and_what_it_gives_is_the_answer() -> None:
    assert shown_of_typed(replace(finished("out\n"), value="42")) == (["```\nout\n```"], ["42"])
    assert shown_of_typed(replace(finished(""), value="42")) == ([], ["42"])
    assert shown_of_typed(finished("out")) == (["```\nout\n```"], [])
    assert shown_of_typed(finished("")) == (["(no output)"], [])


def test_a_typed_statement_that_fails_says_why_in_its_call_and_the_answer_is_the_last_word_of_it() -> None:
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
def test_an_answer_is_fenced_where_markdown_would_change_it(value: str, answer: str) -> None:
    assert shown_of_typed(replace(finished(""), value=value))[1] == [answer]


def test_the_raw_output_is_what_the_content_says_and_the_record_is_beside_it() -> None:
    ended = updates_of(RECORDED, finished("out"))[-1]
    assert ended["rawOutput"] == "```python\nx = 1\ny = 2\n```\n\n```\nout\n```"
    record = ended["_meta"]["rewindow"]["execution"]
    assert (record["status"], record["stdoutBytes"], record["names"]["added"]) == ("ok", 3, [])


def test_colours_are_taken_out_of_output_and_other_control_characters_can_be_read() -> None:
    ended = updates_of(RECORDED, finished("\x1b[31mred\x1b[0m 10%\r\x1b[Kred 20%\n\x07\u202e"))[-1]
    assert ended["content"][-1]["content"]["text"] == "```\nred 20%\n\\x07\\u202e\n```"


@pytest.mark.parametrize("text", ["plain", "```\nfenced\n```", "a `````` b", "# not a heading"])
def test_output_is_fenced_so_that_no_text_breaks_out(text: str) -> None:
    block = updates_of(RECORDED, finished(text))[-1]["content"][-1]["content"]["text"]
    fence = block.split("\n", 1)[0]
    assert set(fence) == {"`"}
    assert block == f"{fence}\n{text}\n{fence}"
    assert fence not in text


def test_the_models_own_call_is_left_to_its_statement_and_a_helpers_call_is_shown_with_its_place() -> None:
    own = ToolCall(tool_call_id=CALL, tool="python", arguments={"source": "1"})
    helper = ToolCall(tool_call_id=ToolCallId("d"), tool="read", arguments={"path": "a.py"}, parent_id=CALL)
    (shown,) = updates_of(own, helper)
    assert (shown["kind"], shown["title"], shown["locations"]) == ("read", "Read a.py", [{"path": "/w/a.py"}])


def test_a_changed_file_is_announced_once_and_gets_the_nodes_diff() -> None:
    changed = FileChanged(path="/w/a.py", change="modified", delta="1 line changed in a.py")
    node = NodeChanged(obj_id=ObjId("view-1.1"), obj_type="view", delta="1 line changed in a.py\n+new")
    other = NodeChanged(obj_id=ObjId("view-1.2"), obj_type="view", delta="moved")
    (made,) = updates_of(changed, node, other)
    assert (made["sessionUpdate"], made["title"], made["status"]) == ("tool_call", "modified a.py", "completed")
    assert "+new" in made["content"][0]["content"]["text"]


def test_a_changed_file_that_no_node_says_more_about_is_announced_with_what_follows() -> None:
    changed = FileChanged(path="/w/a.py", change="modified", delta="1 line changed in a.py")
    first, second, title = updates_of(changed, changed, TitleChanged(title="Next"))
    for made in (first, second):
        assert made["content"][0]["content"]["text"] == "```\n1 line changed in a.py\n```"
    assert title["title"] == "Next"


def test_files_of_a_glob_are_announced_as_the_model_is_told_of_them() -> None:
    files = "files of src/*.py: 1 changed (src/x.py)"
    group = GroupRecomputed(
        event_id=EventId("e1"), obj_id=ObjId("g"), delta=f"1 of 2 members changed: a; {files}", files=files
    )
    (made,) = updates_of(group)
    assert (made["title"], made["kind"], made["status"]) == (files, "read", "completed")
    assert made["content"][0]["content"]["text"] == f"```\n{group.delta}\n```"
    # Its other members are announced by themselves.
    assert updates_of(GroupRecomputed(obj_id=ObjId("g"), delta="1 of 1 member changed: a")) == []


def test_a_condensation_is_one_call_from_its_request_to_its_summary() -> None:
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
def test_a_condensation_that_does_not_come_about_is_a_failed_call(end: Event) -> None:
    _, ended = updates_of(CondensationRequest(event_id=EventId("e1")), end)[:2]
    assert (ended["toolCallId"], ended["status"]) == ("condense_e1", "failed")


def test_the_end_of_a_run_says_when_and_which_request_cycle_it_was() -> None:
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


def test_a_call_of_another_program_is_shown_with_its_result() -> None:
    call = ToolCall(tool_call_id=CALL, tool="grep", arguments={"pattern": "x", "path": "a.py"})
    result = ToolResult(tool_call_id=CALL, status="error", text="no match")
    assert updates_of(call) == []
    (update,) = updates_of(call, result, result)
    assert (update["sessionUpdate"], update["title"], update["status"]) == ("tool_call", 'Search "x" in a.py', "failed")
    assert "no match" in str(update["content"])
    assert update["rawInput"] == {"pattern": "x", "path": "a.py"}


@pytest.mark.parametrize("at", [1e14, -1e14, 1e300, float("inf"), float("nan"), -62_135_596_801.0])
def test_a_time_that_no_calendar_has_is_left_out_of_an_update(at: float) -> None:
    updates = updates_of(
        TitleChanged(title="t", at=at),
        UserMessage(message_id=M, text="go", at=at),
        RunStop(reason="completed", cause="end_turn", at=at),
    )
    assert [update["updatedAt"] for update in updates] == [None, None]


def test_numbers_of_a_log_from_elsewhere_are_bounded_to_what_the_wire_takes() -> None:
    lines = (Location(path="/a", line=line) for line in (-1, 0, 2**32 - 1, 2**32, 2**70))
    usage, *_, end = updates_of(
        UsageReported(used=-5, size=2**70), RECORDED, replace(finished("x"), locations=tuple(lines))
    )
    assert (usage["used"], usage["size"]) == (0, 2**64 - 1)
    assert [each["line"] for each in end["locations"]] == [None, 0, 2**32 - 1, None, None]


def test_a_file_without_a_name_is_shown() -> None:
    shown, _ = updates_of(FileChanged(path="", change="deleted", delta="it was deleted"), TitleChanged(title="Next"))
    assert shown["title"] == "deleted"


HELPER = ToolCallId("h")


def tree_act(tool: str, arguments: dict[str, object], text: str, *written: FileWritten) -> list[dict[str, Any]]:
    """The calls that an editor shows of an act on the file tree."""
    call = ToolCall(tool_call_id=HELPER, tool=tool, arguments=arguments, parent_id=CALL)
    result = ToolResult(tool_call_id=HELPER, status="ok", text=text, parent_id=CALL)
    return list(transcript(updates_of(call, *written, result))["calls"].values())


def gone(path: str, *changes: TextChange, **more: Any) -> FileWritten:
    return FileWritten(
        execution_id=ExecutionId("e"), tool_call_id=HELPER, path=path, changes=changes, before_digest="b", **more
    )


def drawn(call: dict[str, Any]) -> list[object]:
    """Diffs as a pair of texts, words as they are."""
    return [
        (block["oldText"], block["newText"]) if block["type"] == "diff" else block["content"]["text"]
        for block in call.get("content", [])
    ]


def test_a_removed_file_keeps_its_diff_to_the_end() -> None:
    removed = gone("/w/a", TextChange(line=1, old="one\n", new=""), unshown=True)
    (call,) = tree_act("remove", {"path": "a"}, "the file is removed", removed)
    assert (call["title"], call["kind"], call["status"]) == ("Remove a", "delete", "completed")
    assert drawn(call) == [("one\n", ""), "```\nthe file is removed\n```"]


def test_a_renamed_file_keeps_its_title_and_its_diff_to_the_end() -> None:
    made = gone("/w/b", TextChange(line=1, old=None, new="one\n"), unshown=True, after_digest="a")
    for events in ((gone("/w/a", unshown=True), made), (made, gone("/w/a", unshown=True))):
        (call,) = tree_act("rename", {"path": "b", "source": "a"}, "", *events)
        assert (call["title"], call["kind"]) == ("Rename a to b", "move")
        assert drawn(call) == [(None, "one\n")]


def test_an_act_on_the_file_tree_that_gives_nothing_does_not_say_none() -> None:
    for text in ("", "None"):
        (call,) = tree_act("mkdir", {"path": "a", "mode": 511}, text)
        assert drawn(call) == []
    (call,) = tree_act("rmtree", {"path": "d"}, "1 file in it:\nx", gone("/w/d/x", unshown=True))
    assert drawn(call) == ["```\n1 file in it:\nx\n```"]


def test_a_removal_that_was_noticed_says_once_that_it_was() -> None:
    removed = gone("/w/a", TextChange(line=1, old="one\n", new=""), noticed=True, note="the file was removed")
    (call,) = tree_act("remove", {"path": "/w/a"}, "removed by the statement's own code", removed)
    assert call["title"] == "Remove a (-1)"
    assert drawn(call) == [("one\n", ""), "```\nthe file was removed\n```"]
