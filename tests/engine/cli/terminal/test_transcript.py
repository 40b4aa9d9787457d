"""A session as a person and a script read it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import cast

import pytest
from msgspec.structs import replace

from engine.cli.terminal.program import SHOWN_LINES, last_exchanges
from engine.cli.terminal.rendering import Fragment, painted, plain, python
from engine.cli.terminal.replies import Plain, Reply
from engine.cli.terminal.transcript import Reading, Transcript
from engine.context.tail.results import REST_LEFT_OUT
from engine.core.execution import Captured, Display, ExceptionInfo, ExecutionStatus, TextChange
from engine.core.ids import ExecutionId, MessageId, ObjId, Seq, StatementId, ToolCallId
from engine.log.events import AnyEvent
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    RunStop,
    StopCause,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.log.events.execution import CommandEnded, ExecutionFinished, FileWritten, StatementRecorded
from engine.log.events.going_back import Diverged, ReplayBegun
from engine.log.events.nodes import FileChanged, NodeChanged
from engine.log.events.session import DomainEntered, EnvironmentRestored, PlanChanged, PlanEntry, TitleChanged
from engine.log.permissions import CommandSubject, FileSubject, PermissionQuestion, StatementSubject, TreeSubject
from engine.session.journal import Item, ModelRetried, OutputStreamed, ReasoningStreamed, StatementRerun, TextStreamed
from tests.support.rich_log import events_of, rich_items

CALL, HELPER = ToolCallId("call_1"), ToolCallId("call_2")
STATEMENT, EXECUTION = StatementId("stm_1"), ExecutionId("exe_1")


def transcript() -> Transcript:
    return Transcript("/home/me", plain)


def shown(items: Iterable[Item], on: Transcript | None = None) -> str:
    on = on or transcript()
    return painted([fragment for item in items for fragment in on.show(item)], in_colour=False)


def past(events: Iterable[AnyEvent]) -> str:
    on = transcript()
    return painted([fragment for event in events for fragment in on.show_past(event)], in_colour=False)


def statement(source: str = "x = 1\nx", *, typed: bool = False, kind: str = "python") -> list[AnyEvent]:
    return [
        ToolCall(tool_call_id=CALL, tool="python", arguments={"source": source}, typed=typed),
        StatementRecorded(
            statement_id=STATEMENT,
            index=3,
            source=source,
            tool_call_id=CALL,
            statement_kind="meta" if kind == "meta" else "python",
        ),
    ]


def finished(status: ExecutionStatus = "ok", **fields: object) -> ExecutionFinished:
    return ExecutionFinished(
        execution_id=EXECUTION,
        statement_id=STATEMENT,
        status=status,
        started_at=0.0,
        ended_at=1.0,
        **fields,  # pyright: ignore[reportArgumentType]
    )


def printed(text: str, stream: str = "stdout") -> OutputStreamed:
    return OutputStreamed(CALL, "stderr" if stream == "stderr" else "stdout", text)


def test_streamed_text_is_not_repeated_when_whole() -> None:
    message = MessageId("msg_1")
    pieces: list[Item] = [TextStreamed(message, "I wi"), TextStreamed(message, "ll look.")]
    assert shown([*pieces, AgentText(message_id=message, text="I will look.")]) == "I will look.\n"
    assert shown([AgentText(message_id=message, text="I will look.")]) == "I will look.\n"


def test_another_model_that_answers_is_named() -> None:
    retried = ModelRetried(2, 2, 0.0, "openai:m needs a key.", instead="anthropic:c")
    note = "openai:m needs a key; asking anthropic:c instead]\n"
    assert shown([retried]) == f"[{note}"
    assert shown([replace(retried, withdrawn=True)]) == f"[the reply broke off and was discarded: {note}"
    assert shown([replace(retried, instead="")]) == ""


def test_plan_is_shown_and_its_call_is_not() -> None:
    call = ToolCall(tool_call_id=ToolCallId("h"), tool="plan", arguments={"entries": "[]"}, parent_id=CALL)
    told = PlanChanged(entries=(PlanEntry(content="Read it", status="completed"), PlanEntry(content="Fix\x1b it")))
    assert shown([call, told]) == "Plan:\n[x] Read it\n[ ] Fix\\x1b it\n"
    assert shown([call, PlanChanged()]) == ""


def test_condensation_is_noted_unless_compact_reports_it() -> None:
    gone = Condensation(forgotten=(), summary="so far")
    note = "[a summary replaced the conversation so far]\n"
    assert shown([CondensationRequest(reason="asked"), gone]) == ""
    assert shown([CondensationRequest(reason="budget"), gone]) == note
    assert shown([CondensationRequest(reason="asked"), gone, CondensationRequest(reason="budget"), gone]) == note
    assert shown([gone]) == note


def test_only_blocks_are_divided_by_an_empty_line() -> None:
    thought, said = MessageId("msg_1"), MessageId("msg_2")
    items: list[Item] = [
        UserMessage(message_id=MessageId("msg_0"), text="do it"),
        ReasoningStreamed(thought, "hm"),
        AgentReasoning(message_id=thought, text="hm"),
        TextStreamed(said, "Look:"),
        AgentText(message_id=said, text="Look:"),
        *statement(),
        printed("a\nb"),
        finished(value="1", stdout=Captured(text="a\nb", total_bytes=3)),
        RunStop(reason="completed", cause="end_turn"),
    ]
    assert shown(items) == "hm\n\nLook:\n\n3> x = 1\n   x\n    a\n    b\n    1\n"


def test_typed_statement_is_not_repeated_and_results_have_no_indent() -> None:
    error = ExceptionInfo(type="ValueError", message="no", traceback="Traceback\nValueError: no\n")
    items: list[Item] = [
        *statement(typed=True),
        printed("out\n"),
        printed("err\n", "stderr"),
        finished("error", exception=error),
    ]
    assert shown(items) == "out\nerr\nTraceback\nValueError: no\n"


def test_unstreamed_output_is_shown_at_the_end_and_gaps_counted() -> None:
    stdout = Captured(text="much", total_bytes=100_000, kept_bytes=4)
    whole = shown([*statement(typed=True), finished(stdout=stdout)])
    assert whole == "much\n[... 100000 bytes in total; only the first 64 KiB are saved]\n"
    streamed = shown([*statement(typed=True), printed("much"), finished(stdout=stdout)])
    assert streamed == "much\n[... 100,000 bytes in all]\n"


def test_views_the_value_and_why_a_statement_ended_are_shown() -> None:
    display = Display(obj_id="obj_1", title="a.md", text="1\t# A", tokens=5)
    items: list[Item] = [*statement("view('a.md')"), finished("cancelled", displays=(display,), time_ms=1500.0)]
    assert shown(items) == "3> view('a.md')\n    [a.md]\n    1\t# A\n    [cancelled after 1.5 s]\n"


def test_tool_is_one_line_and_written_file_its_diff() -> None:
    change = TextChange(line=1, old="a\nb\n", new="a\nc\nd\n")
    items: list[Item] = [
        *statement("edit('src/x.py', 'b', 'c')"),
        ToolCall(tool_call_id=HELPER, tool="edit", arguments={"path": "src/x.py"}, parent_id=CALL),
        FileWritten(execution_id=EXECUTION, tool_call_id=HELPER, path="/home/me/src/x.py", changes=(change,)),
        ToolResult(tool_call_id=HELPER, status="ok", text="", parent_id=CALL),
        finished(),
    ]
    assert shown(items) == (
        "3> edit('src/x.py', 'b', 'c')\n    ~ Edit src/x.py\n"
        "    src/x.py  +2 -1\n    1   a\n    2 - b\n    2 + c\n    3 + d\n"
    )


def command(*pieces: str, **fields: object) -> list[Item]:
    output = Captured(text="".join(pieces), total_bytes=len("".join(pieces)))
    return [
        ToolCall(tool_call_id=HELPER, tool="bash", arguments={"command": "make -s"}, parent_id=CALL),
        *(OutputStreamed(HELPER, "stdout", piece) for piece in pieces),
        CommandEnded(
            execution_id=EXECUTION,
            tool_call_id=HELPER,
            cwd="/home/me",
            output=output,
            **fields,  # pyright: ignore[reportArgumentType]
        ),
        ToolResult(tool_call_id=HELPER, status="ok", text="".join(pieces), parent_id=CALL),
    ]


def test_command_output_is_shown_live_and_not_repeated_as_value() -> None:
    ended = command("one\ntw", "o\n", code=2)
    text = "3> bash('make -s')\n    $ make -s\n    one\n    two\n    [exit code 2]\n"
    live = [*statement("bash('make -s')"), *ended, finished(value="one\ntwo\n(exit code 2)")]
    assert shown(live) == text
    assert past(cast("list[AnyEvent]", [each for each in live if not isinstance(each, OutputStreamed)])) == text
    assert shown([*statement("bash('make -s'); 1"), *ended, finished(value="1")]) == (
        text.replace("s')", "s'); 1") + "    1\n"
    )
    typed = [*statement("bash('make -s')", typed=True), *ended, finished(value="one\ntwo\n(exit code 2)")]
    assert shown(typed) == "$ make -s\none\ntwo\n[exit code 2]\n"


def test_how_a_command_ended_is_said_unless_it_ended_well() -> None:
    for fields, text in (
        ({"code": 0}, ""),
        ({"timed_out": True, "signal": 9, "time_ms": 2_000.0}, "    [timed out after 2.0 s]\n"),
        ({"signal": 11}, "    [killed by SIGSEGV]\n"),
        ({"signal": 999}, "    [killed by signal 999]\n"),
        ({"reason": "memory"}, "    [ended: memory]\n"),
    ):
        assert shown([*statement("1"), *command(**fields)]) == f"3> 1\n    $ make -s\n{text}"


def test_a_change_that_was_decided_about_is_not_shown_twice() -> None:
    change = TextChange(line=1, old=None, new="a\n")
    on = transcript()
    call = ToolCall(tool_call_id=HELPER, tool="write", arguments={"path": "x"}, parent_id=CALL)
    shown([*statement("write('x', 'a\\n')"), call], on)
    subject = FileSubject(path="/home/me/x", changes=(change,))
    asked = on.question(PermissionQuestion(tool_call_id=HELPER, subject=subject, seq=Seq(5), always="edits in src/"))
    assert painted(asked, in_colour=False).startswith("\n/home/me/x (new file)  +1 -0\n1 + a\nWrite this file?")
    written = FileWritten(execution_id=EXECUTION, tool_call_id=HELPER, path="/home/me/x", changes=(change,))
    assert shown([written], on) == ""


def test_statement_is_shown_once_above_its_question() -> None:
    source = "\n".join(f"line_{number} = {number}" for number in range(500))
    on = transcript()
    text = shown(statement(source), on)
    question = PermissionQuestion(tool_call_id=CALL, subject=StatementSubject(source), seq=Seq(5))
    text += painted(on.question(question), in_colour=False)
    assert [text.count(f"line_{number} = {number}\n") for number in range(500)] == [1] * 500
    assert "Run this statement? It has 500 lines, all shown above." in text


def test_command_is_shown_whole_with_invisible_characters_escaped() -> None:
    subject = CommandSubject(command="ls\n\x1b[2Jrm\u202e -r .", cwd="/home/me")
    asked = transcript().question(PermissionQuestion(tool_call_id=HELPER, subject=subject, seq=Seq(5)))
    text = painted(asked, in_colour=False)
    assert text.startswith(
        "$ ls\n  \\x1b[2Jrm\\u202e -r .\nRun this command in /home/me? It has 2 lines, all shown above."
    )


def test_past_repeats_prompts_and_cuts_long_texts() -> None:
    events: list[AnyEvent] = [
        UserMessage(message_id=MessageId("msg_0"), text="one\ntwo"),
        AgentText(message_id=MessageId("msg_1"), text="a" * 10_000),
        UserMessage(message_id=MessageId("msg_2"), text="1"),
        *statement("1", typed=True),
        finished(value="1"),
    ]
    text = past(events)
    assert text.startswith("> one\n  two\n\naaa")
    assert "... 6000 characters left out ..." in text
    assert text.endswith("aaa\n\n> 1\n1\n")


def test_every_end_but_the_ordinary_one_is_said() -> None:
    causes: list[tuple[StopCause, str]] = [
        ("end_turn", ""),
        ("cancelled", "[cancelled: why]\n"),
        ("error", "[error: why]\n"),
        ("refusal", "[the model refused to answer: why]\n"),
    ]
    for cause, text in causes:
        assert shown([RunStop(reason="error", cause=cause, detail="why")]) == text


def test_rebuild_refusal_and_changed_file_are_shown() -> None:
    changed = FileChanged(path="/home/me/a", change="modified", delta="a changed")
    assert shown([EnvironmentRestored(executions=1, divergences=("x is 2, not 1",))]) == (
        "[variables were restored: 1 statement ran again in a new worker\nx is 2, not 1]\n"
    )
    assert shown([EnvironmentRestored(executions=0, loss="it was killed")]) == (
        "[variables were restored: 0 statements ran again in a new worker\nthe variables were lost: it was killed]\n"
    )
    refused = ToolResult(tool_call_id=CALL, status="rejected", text="The user rejected this statement.")
    assert shown([refused]) == "[The user rejected this statement.]\n"
    node = NodeChanged(obj_id=ObjId("obj_1"), obj_type="ViewHandle", delta="a changed\n-1\n+2")
    assert shown([changed, node]) == "a changed\n-1\n+2\n"
    assert shown([changed, RunStop(reason="completed", cause="end_turn")]) == "a changed\n"


def test_nothing_that_is_shown_holds_a_control_character() -> None:
    evil = "\x1b]0;t\x07\x1b[2J\x9b1m\u202e\r\x08\x00"
    message = MessageId("msg_1")
    error = ExceptionInfo(type="E", message=evil, traceback=evil)
    display = Display(obj_id="o", title=evil, text=evil, tokens=1)
    items: list[Item] = [
        TextStreamed(message, evil),
        *statement(f"print('{evil}')"),
        ToolCall(tool_call_id=HELPER, tool=evil, arguments={"path": evil}, parent_id=CALL),
        FileWritten(
            execution_id=EXECUTION,
            tool_call_id=HELPER,
            path=f"/home/me/{evil}",
            changes=(TextChange(line=1, old=evil, new=evil + "\n"),),
            note=evil,
        ),
        printed(evil),
        finished("error", value=evil, exception=error, displays=(display,)),
        FileChanged(path=evil, change="modified", delta=evil),
        RunStop(reason="error", cause="error", detail=evil),
    ]
    for highlight in (plain, python):
        on = Transcript("/home/me", highlight)
        text = painted([fragment for item in items for fragment in on.show(item)], in_colour=False)
        assert all(char in "\n\t" or char.isprintable() for char in text), ascii(text)
        asked: list[Fragment] = []
        for subject in (
            StatementSubject(evil),
            FileSubject(path=evil, note=evil),
            TreeSubject(act=evil, paths=(evil, evil), note=evil),
            CommandSubject(command=evil, cwd=evil),
        ):
            question = PermissionQuestion(tool_call_id=HELPER, subject=subject, seq=Seq(1), always=evil)
            asked += Transcript("/home/me", highlight).question(question)
        text = painted(asked, in_colour=False)
        assert all(char in "\n\t" or char.isprintable() for char in text), ascii(text)


def test_a_call_of_another_program_is_shown_with_its_result() -> None:
    events: list[AnyEvent] = [
        ToolCall(tool_call_id=CALL, tool="Grep", arguments={"path": "a.py"}),
        ToolResult(tool_call_id=CALL, status="ok", text="a.py:1\n"),
    ]
    assert past(events) == "    ~ Grep a.py\n    a.py:1\n"


def test_long_past_shows_its_last_lines_and_counts_the_rest() -> None:
    events: list[AnyEvent] = [UserMessage(message_id=MessageId("msg_0"), text="first")]
    for number in range(1, 4):
        events.append(UserMessage(message_id=MessageId(f"msg_{number}"), text=f"go {number}"))
        events.append(AgentText(message_id=MessageId(f"txt_{number}"), text="line\n" * 150))
    text = painted(list(last_exchanges(events, transcript())), in_colour=False)
    total = 3 * (1 + 1 + 150) + 2
    assert text.startswith(
        f"... 1 earlier message, see `rewindow show`\n... {total - SHOWN_LINES} more lines above\nline\n"
    )
    assert text.count("line\n") < SHOWN_LINES
    assert "go 3" in text


def test_every_kind_of_event_is_shown_live_and_past() -> None:
    items = rich_items()
    live = shown(items)
    assert "\n\n\n" not in live
    before = past(cast("list[AnyEvent]", events_of(items)))
    for text in (live, before):
        assert all(char in "\n\t" or char.isprintable() for char in text)
        assert len(text) > 500


WIDTH = 50
M = MessageId("m")


def reading(width: int = WIDTH) -> Transcript:
    def columns() -> int:
        return width

    kinds = Reading(columns, partial(Reply, columns, False), partial(Plain, "thinking", columns))
    return Transcript("/home/me", plain, reading=kinds)


def test_reply_is_rendered_and_its_open_block_is_the_tail() -> None:
    on = reading()
    assert shown([TextStreamed(M, "## Look\n\nat *th")], on) == "Look\n"
    assert on.tail() == [[], [("", "at *th")]]
    assert shown([TextStreamed(M, "is*"), AgentText(message_id=M, text="...")], on) == "\nat this\n"
    assert on.tail() == []
    whole = painted(reading().show_past(AgentText(message_id=M, text="## Look\n\nat *this*")), in_colour=False)
    assert whole == "Look\n\nat this\n"


def test_an_event_that_shows_nothing_does_not_divide_a_reply() -> None:
    on = reading()
    events = [
        TextStreamed(M, "## Wh"),
        TitleChanged(title="x"),
        TextStreamed(M, "at\n"),
        AgentText(message_id=M, text=""),
    ]
    assert shown(events, on) == "What\n"
    note = DomainEntered(held=True)
    assert shown([TextStreamed(M, "one"), note, TextStreamed(M, "two")], on).startswith("one\n\n[sandboxed: ")


def test_interrupted_reply_is_shown_as_far_as_it_came() -> None:
    on = reading()
    stop = RunStop(reason="interrupted", cause="cancelled")
    assert shown([TextStreamed(M, "I wi"), stop], on) == "I wi\n\n[cancelled]\n"


def test_what_a_model_reads_is_folded_and_can_be_opened() -> None:
    on = reading()
    view = Display(obj_id="o", title="a.md", text="".join(f"{n}\tline\n" for n in range(1, 61)), tokens=9)
    text = shown([*statement("view('a.md')"), finished(displays=(view,))], on)
    assert len(text.splitlines()) == 13
    assert "    ... 50 more lines: Ctrl-O or /open 3\n" in text
    assert on.last_folded == 3


def test_what_the_user_typed_gives_all_of_its_result() -> None:
    on = reading()
    view = Display(obj_id="o", title="a.md", text="line\n" * 60, tokens=9)
    assert shown([*statement("view('a.md')", typed=True), finished(displays=(view,))], on).count("line\n") == 60
    assert on.last_folded is None


def test_output_is_folded_as_it_comes() -> None:
    on = reading()
    seen = shown([*statement("go()"), *(printed(f"{n}\n") for n in range(40)), printed("part")], on)
    assert seen.splitlines()[-1] == "    7"
    assert on.tail() == [[("", "    "), ("", "part")]]
    assert shown([finished(value="42")], on).splitlines() == [
        "    ... 31 more lines: Ctrl-O or /open 3",
        "    39",
        "    part",
        "    42",
    ]


def test_a_statement_is_folded_at_the_width_of_the_terminal() -> None:
    text = shown(statement("total = sum(len(read(path)) for path in find('*.md') if path != 'x')"), reading())
    assert text == "3> total = sum(len(read(path)) for path in\n   ↪ find('*.md') if path != 'x')\n"


def test_notices_are_wrapped_between_words() -> None:
    refusal = RunStop(reason="error", cause="error", detail="the server at http://127.0.0.1:9 does not answer at all")
    lines = shown([refusal], reading()).splitlines()
    assert lines == ["[error: the server at http://127.0.0.1:9 does not", " answer at all]"]


def test_a_command_stands_once_around_its_question() -> None:
    on = reading()
    call, *rest = command("ok\n")
    before = shown([*statement("bash('make -s')"), call], on)
    question = PermissionQuestion(
        tool_call_id=HELPER, subject=CommandSubject(command="make -s", cwd="/home/me"), seq=Seq(5)
    )
    text = before + painted(on.question(question), in_colour=False) + shown(rest, on)
    assert text.count("$ make -s") == 1
    changed = PermissionQuestion(
        tool_call_id=HELPER, subject=CommandSubject(command="make ***", cwd="/home/me"), seq=Seq(5)
    )
    assert "$ make ***\n" in painted(on.question(changed), in_colour=False)


def test_one_cancel_gives_one_line() -> None:
    error = ExceptionInfo(type="KeyboardInterrupt", message="", traceback="Traceback\nKeyboardInterrupt\n")
    stop = RunStop(reason="interrupted", cause="cancelled")
    for typed, indent in ((True, ""), (False, "    ")):
        items = [*statement("x", typed=typed), finished("cancelled", exception=error, time_ms=1500.0), stop]
        assert shown(items, reading()).splitlines()[-1] == f"{indent}[cancelled after 1.5 s]"
        assert "Keyboard" not in shown(items, reading())
    assert shown([stop], reading()) == "[cancelled]\n"


def test_sandbox_is_one_line_and_absent_on_load() -> None:
    for entered in (
        DomainEntered(held=True),
        DomainEntered(held=True, writable=("/home/me/project",)),
        DomainEntered(held=False, reason="this system does not offer Landlock"),
    ):
        (line,) = shown([entered], reading(80)).splitlines()
        assert "/sandbox" in line
        assert reading().show_past(entered) == []


def test_a_statement_of_before_that_runs_again_has_its_number() -> None:
    old: list[AnyEvent] = [*statement("x = 1", typed=True), finished()]
    later: list[AnyEvent] = [UserMessage(message_id=MessageId(f"m{n}"), text=str(n)) for n in range(5)]
    on = reading()
    list(last_exchanges([*old, *later], on))
    again = finished(mode="live")
    assert "statement 3 ran again (1 of 1)" in shown(
        [ReplayBegun(first=3, last=3, mode="live", statements=1), again], on
    )


def test_differences_of_statements_that_run_again_are_left_to_the_report() -> None:
    found = Diverged(
        execution_id=ExecutionId("x"),
        against=ExecutionId("w"),
        statement=3,
        aspect="value",
        before="428.0",
        after="476.0",
    )
    assert shown([ReplayBegun(first=3, last=3, mode="live", statements=1), found], reading()) == ""


def test_progress_of_a_rebuild_is_left_to_the_spinner() -> None:
    assert shown([StatementRerun(CALL, 1, 1, 3, "running")], reading()) == ""


@pytest.mark.parametrize("rest_left_out", [True, False])
def test_omitted_rest_of_a_reply_is_noted(rest_left_out: bool) -> None:
    call = ToolCall(tool_call_id=ToolCallId("c"), tool="python", rest_left_out=rest_left_out)
    on = Transcript("/home/me", plain)
    told = f"[{REST_LEFT_OUT}]\n" if rest_left_out else ""
    assert painted(on.show(call), in_colour=False) == told
    assert painted(Transcript("/home/me", plain).show_past(call), in_colour=False) == told
