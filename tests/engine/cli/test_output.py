"""Columns, and text that cannot control a terminal."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from engine.cli import output
from engine.cli.output import aligned, shown, shown_line, visible_json
from engine.core.execution import Captured
from engine.core.ids import EventId, ExecutionId, MessageId, Seq, StatementId, ToolCallId
from engine.core.text import visible
from engine.log.events import Event
from engine.log.events.conversation import RunStop, ToolCall, ToolResult
from engine.log.events.conversation import UserMessage as Said
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from tests.support.commands import Home
from tests.support.stores import row

ROWS = [("id", "place", "title"), ("a", "/home/me/project", "a long title of a session"), ("bcd", "/漢字", "é")]


def test_columns_fit_their_widest_cell_without_trailing_space() -> None:
    lines = aligned(ROWS, None, ())
    assert lines == [
        "id   place             title",
        "a    /home/me/project  a long title of a session",
        "bcd  /漢字             é",
    ]


def test_columns_shrink_in_order_without_room() -> None:
    for width in (45, 30, 20):
        assert max(map(cell_len, aligned(ROWS, width, (2, 1)))) == width
    assert aligned(ROWS, 45, (2, 1))[1] == "a    /home/me/project  a long title of a ses…"
    assert aligned(ROWS, 20, (2, 1))[1:] == ["a    /home/m…  a lo…", "bcd  /漢字     é"]


def test_a_line_is_longer_where_nothing_more_can_give_way() -> None:
    assert aligned(ROWS, 5, (2, 1))[1] == "a    /hom…  a lo…"


def test_wide_character_without_room_is_left_out() -> None:
    assert aligned([("漢字漢字",)], 6, (0,)) == ["漢字 …"]


def test_each_cell_is_measured_once_and_ascii_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(output, "cell_len", lambda text: measured.append(text) or cell_len(text))
    aligned(ROWS, 20, (2, 1))
    assert sorted(measured) == ["/漢字", "é"]


OSC = "\x1b]0;owned\x07"
CSI = "\x1b[2J\x1b[31m"
C1 = "\x9b2J\x9d0;owned\x9c"
BIDI = "\u202egnp.exe\u2066"
NASTY = f"a{OSC}b{CSI}c{C1}d\x7fe{BIDI}f\r\x08g"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def nasty(empty: Home) -> Home:
    """One session in which every text is out for the terminal."""
    store = empty.store()
    done = ExecutionFinished(
        execution_id=ExecutionId("x"),
        statement_id=StatementId("s"),
        status="ok",
        started_at=0.0,
        ended_at=0.0,
        stdout=Captured(text=NASTY, total_bytes=len(NASTY)),
        value=NASTY,
    )
    events: list[Event] = [
        Said(message_id=MessageId("m"), text=NASTY),
        ToolCall(tool_call_id=ToolCallId("c"), tool="python", arguments={"source": NASTY}),
        StatementRecorded(statement_id=StatementId("s"), index=1, source=NASTY, tool_call_id=ToolCallId("c")),
        ExecutionStarted(execution_id=ExecutionId("x"), statement_id=StatementId("s")),
        done,
        ToolResult(tool_call_id=ToolCallId("c"), status="ok", text=NASTY),
        ToolCall(tool_call_id=ToolCallId(NASTY), tool=NASTY, arguments={NASTY: NASTY}),
        ToolResult(tool_call_id=ToolCallId(NASTY), status="error", text=NASTY),
        RunStop(reason="error", cause="error", detail=NASTY),
        ToolResult(tool_call_id=ToolCallId(NASTY), status="error", text=NASTY),
        Said(message_id=MessageId(NASTY), text=NASTY, prompt_kind="steer"),
    ]
    stamped = [replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}")) for seq, event in enumerate(events)]
    store.add(replace(row(cwd=f"/work/{NASTY}"), title=NASTY), stamped)
    store.close()
    return empty


COMMANDS = [
    ["sessions"],
    ["sessions", "--json"],
    ["show", "ses_a"],
    ["show", "ses_a", "--cycles"],
    ["show", "ses_a", "--cycles", "--json"],
    ["show", "ses_a", "--events"],
    ["export", "ses_a"],
    ["delete", "--yes", NASTY],
    ["import", "nasty.json"],
    ["import", "critic.json"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda each: " ".join(each)[:30])
def test_no_command_writes_a_control_character_to_a_terminal(nasty: Home, arguments: list[str]) -> None:
    (nasty.path / "nasty.json").write_text(json.dumps([{"role": "user", "content": [{"type": NASTY}], NASTY: 1}]))
    (nasty.path / "critic.json").write_text(json.dumps([{"role": NASTY}]))
    text = nasty.run_on_a_terminal(*arguments)[1].decode()
    assert CONTROL.findall(text) == []
    assert "owned" in text or arguments[0] in ("delete", "import")


@pytest.mark.slow
def test_the_doctor_shows_paths_without_control_characters(empty: Home) -> None:
    text = empty.run("doctor", REWINDOW_STATE_DIR=f"{empty.path}/a\x07b", REWINDOW_PYTHON="/c\x07d\x9b").stdout
    assert r"a\x07b" in text
    assert r"/c\x07d\x9b" in text
    assert CONTROL.findall(text) == []


def test_what_was_there_can_be_read(nasty: Home) -> None:
    escaped = visible(NASTY)
    assert escaped == (r"a\x1b]0;owned\x07b\x1b[2J\x1b[31mc\x9b2J\x9d0;owned\x9cd\x7fe\u202egnp.exe\u2066f\r\x08g")
    assert f"user> {escaped}\n" in nasty.run("show", "ses_a").stdout
    assert escaped in nasty.run("sessions").stdout


def test_json_is_of_the_same_value(nasty: Home) -> None:
    events = [json.loads(line) for line in nasty.run("show", "ses_a", "--events").stdout.splitlines()]
    assert (events[0]["text"], events[4]["value"], events[6]["arguments"]) == (NASTY, NASTY, {NASTY: NASTY})
    model = json.loads(nasty.run("show", "ses_a", "--cycles", "--json").stdout)
    assert model["cycles"][0]["root"]["text"] == NASTY
    (listed,) = map(json.loads, nasty.run("sessions", "--jsonl").stdout.splitlines())
    assert listed["title"] == NASTY


def test_an_export_that_goes_elsewhere_is_as_it_was(nasty: Home) -> None:
    assert "\x9b2J".encode() in nasty.run_bytes("export", "ses_a").stdout


def test_texts_keep_lines_and_one_line_values_do_not() -> None:
    assert visible("a\n\tb\N{GRINNING FACE}\xa0é") == "a\n\tb\N{GRINNING FACE}\xa0é"
    assert shown("a\n\tb\u202e") == r"a\n\tb\u202e"
    assert shown("/caf\udce9") == "/caf\\xe9"
    assert shown("\ud800") == "\\ud800"
    assert json.loads(visible_json(json.dumps("\x7f\x9b\u202e", ensure_ascii=False))) == "\x7f\x9b\u202e"
    assert shown_line("\n  one \ntwo", 10) == "one"
    assert shown_line("one two three", 10) == "one two t…"
