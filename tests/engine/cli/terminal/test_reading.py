"""What a person at a terminal is shown: wrapped, folded, and nothing twice."""

from __future__ import annotations

from functools import partial

from engine.cli.terminal.program import last_exchanges
from engine.cli.terminal.rendering import painted, plain
from engine.cli.terminal.replies import Plain, Reply
from engine.cli.terminal.transcript import Reading, Transcript
from engine.core.execution import Display, ExceptionInfo
from engine.core.ids import MessageId, Seq, StatementId, ToolCallId
from engine.log.events import AnyEvent
from engine.log.events.conversation import AgentText, RunStop, UserMessage
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.going_back import ReplayBegun
from engine.log.events.session import DomainEntered, TitleChanged
from engine.log.permissions import CommandSubject, PermissionQuestion
from engine.session.journal import Item, OutputStreamed, ReasoningStreamed, StatementRerun, TextStreamed
from tests.engine.cli.terminal.test_transcript import CALL, HELPER, command, finished, printed, shown, statement
from tests.support.rich_log import rich_items

WIDTH = 50
M = MessageId("m")


def reading(width: int = WIDTH) -> Transcript:
    def columns() -> int:
        return width

    kinds = Reading(columns, partial(Reply, columns, False), partial(Plain, "thinking", columns))
    return Transcript("/home/me", plain, reading=kinds)


def test_a_reply_is_rendered_and_what_has_begun_is_the_tail() -> None:
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


def test_a_reply_that_is_cut_off_is_shown_as_far_as_it_came() -> None:
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


def test_the_sandbox_is_said_in_one_line_and_not_again_on_load() -> None:
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


def test_progress_of_a_rebuild_is_left_to_the_spinner() -> None:
    assert shown([StatementRerun(CALL, 1, 1, 3, "running")], reading()) == ""


def test_every_kind_of_item_can_be_shown_and_fits() -> None:
    on = reading(40)
    text = shown(rich_items(), on)
    assert all(char in "\n\t" or char.isprintable() for char in text)
    assert "\n\n\n" not in text


def test_nothing_that_is_streamed_controls_the_terminal() -> None:
    evil = "\x1b]0;t\x07\x1b[2J\x9b1m\u202e&#27;[2J\x08\x00"
    items: list[Item] = [
        ReasoningStreamed(MessageId("r"), f"{evil}\n{evil}"),
        RunStop(reason="completed", cause="end_turn"),
        TextStreamed(M, f"{evil}\n\n```\n{evil}\n```\n\n| {evil} |\n| - |\n| {evil} |"),
        AgentText(message_id=M, text=evil),
        StatementRecorded(statement_id=StatementId("s"), index=1, source=f"'{evil}'", tool_call_id=ToolCallId("c")),
        OutputStreamed(ToolCallId("c"), "stdout", evil),
        ExecutionFinished(
            execution_id=finished().execution_id,
            statement_id=StatementId("s"),
            status="ok",
            started_at=0.0,
            ended_at=1.0,
            value=evil,
        ),
    ]
    on = reading()
    text = shown(items, on)
    assert all(char == "\n" or char.isprintable() for char in text), ascii(text)
