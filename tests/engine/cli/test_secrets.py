"""What a store holds from before a secret was known leaves it by no command, nor by an export or an import."""

from __future__ import annotations

import base64
import json
import pickle

import pytest
from msgspec.structs import replace

from engine.core.execution import Captured, KeptGroup
from engine.core.ids import EventId, ExecutionId, MessageId, Seq, SessionId, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import AgentText, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import (
    EffectAnswered,
    ExecutionFinished,
    ExecutionStarted,
    StatementRecorded,
    ValuesKept,
)
from engine.log.events.session import SessionOpened, TitleChanged
from engine.log.store_protocol import SessionRow
from tests.support.commands import Home

SECRET = "k3y-of 'mine'\n" + 'and a "zweite" line'
PIECES = ("k3y-of", "zweite", base64.b64encode(SECRET.encode()).decode()[:12])
VALUE = pickle.dumps(SECRET)
SESSION = SessionId("ses_old")


@pytest.fixture
def old(home: Home) -> Home:
    """A home with a session that was recorded while nobody knew of the secret."""
    store = home.store()
    answer = store.blob_put(json.dumps(f"key={SECRET}").encode())
    call, helper, statement, run = ToolCallId("c"), ToolCallId("h"), StatementId("st"), ExecutionId("x")
    events: list[Event] = [
        SessionOpened(cwd="/"),
        UserMessage(message_id=MessageId("m"), text=f"use {SECRET}"),
        TitleChanged(title=f"use {SECRET[:13]}"),
        StatementRecorded(statement_id=statement, index=1, source=f"key = {SECRET!r}", tool_call_id=call),
        ExecutionStarted(execution_id=run, statement_id=statement),
        ToolCall(tool_call_id=helper, tool="read", arguments={"path": SECRET}, parent_id=call),
        EffectAnswered(execution_id=run, ordinal=0, operation="read", result=answer),
        ToolResult(tool_call_id=helper, status="ok", text=SECRET, parent_id=call),
        ExecutionFinished(
            execution_id=run,
            statement_id=statement,
            status="ok",
            started_at=0.0,
            ended_at=1.0,
            value=repr(SECRET),
            stdout=Captured(text=SECRET, total_bytes=len(SECRET), kept_bytes=len(SECRET)),
        ),
        ValuesKept(execution_id=run, groups=(KeptGroup(names=("key",), size=len(VALUE), data=VALUE),)),
        AgentText(message_id=MessageId("a"), text=base64.b64encode(SECRET.encode()).decode()),
    ]
    stamped: list[Event | bytes] = [json.dumps(f"key={SECRET}").encode()]
    for seq, event in enumerate(events):
        stamped.append(_stamped(event, seq))
    store.add(
        SessionRow(session_id=SESSION, cwd="/", title=f"use {SECRET[:13]}", created_at=1.0, updated_at=1.0), stamped
    )
    store.close()
    return home


def _stamped(event: Event, seq: int) -> Event:

    return replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}"), at=1.0)


KNOWN = {"A_TOKEN": SECRET, "B_TOKEN": SECRET[:13]}


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions",),
        ("sessions", "--json"),
        ("show", SESSION),
        ("show", SESSION, "--events"),
        ("show", SESSION, "--cycles"),
        ("show", SESSION, "--cycles", "--json"),
        ("export", SESSION),
        ("delete", SESSION),
        ("gc", "--older-than", "1d", "--dry-run"),
        ("show", SECRET),
        # These look at all there is to look at, which takes a second.
        pytest.param(("doctor",), marks=pytest.mark.slow),
        pytest.param(("doctor", "--json"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_no_command_shows_a_secret(old: Home, arguments: tuple[str, ...]) -> None:
    done = old.run(*arguments, **KNOWN, REWINDOW_MODEL=f"scripted:/{SECRET[:13]}")
    assert done.stdout + done.stderr
    assert [piece for piece in PIECES if piece in done.stdout + done.stderr] == []


@pytest.mark.parametrize("command", [("show", SESSION, "--events"), ("export", SESSION)], ids=" ".join)
def test_a_copy_of_a_value_with_a_secret_is_withheld(old: Home, command: tuple[str, ...]) -> None:
    (shown,) = [line for line in old.run(*command, **KNOWN).stdout.splitlines() if '"values_kept"' in line]
    (group,) = json.loads(shown)["groups"]
    assert (group["data"], group["withheld"][:8]) == ("", "blake2b:")


def test_secret_that_is_a_json_word_leaves_output_readable(old: Home) -> None:
    for arguments in (("sessions", "--json"), ("show", SESSION, "--events"), ("show", SESSION, "--cycles", "--json")):
        for word in ("session_id", '"kind":"', "statement_recorded", "directories"):
            done = old.run(*arguments, SECRET_KEY=word)
            assert done.returncode == 0
            documents = done.stdout.splitlines() if "--events" in arguments else [done.stdout]
            assert [json.loads(each) for each in documents]


def test_export_omits_secrets_and_can_be_imported(old: Home) -> None:
    exported = old.run("export", SESSION, **KNOWN)
    assert exported.returncode == 0
    assert [piece for piece in PIECES if piece in exported.stdout] == []
    assert base64.b64encode(b'"key=')[:6].decode() not in exported.stdout
    (old.path / "it").write_text(exported.stdout)
    assert old.run("import", "it", "--as", "ses_new").returncode == 0
    events = [json.loads(line) for line in old.run("show", "ses_new", "--events").stdout.splitlines()]
    (answered,) = [event for event in events if event["kind"] == "effect_answered"]
    assert answered["result"] is None
    assert answered["withheld"].startswith("blake2b:")
    (statement,) = [event for event in events if event["kind"] == "statement_recorded"]
    assert statement["withheld"].startswith("blake2b:")


def test_an_import_stores_no_secret(old: Home) -> None:
    exported = old.run("export", SESSION)
    assert SECRET in json.loads(exported.stdout.splitlines()[2])["text"]
    (old.path / "it").write_text(exported.stdout)
    assert old.run("delete", "--yes", SESSION).returncode == 0
    assert old.run("gc", "--older-than", "1d").returncode == 0
    assert old.run("import", "it", "--as", "ses_new", **KNOWN).returncode == 0
    store = old.store()
    try:
        assert not store.contents(SessionId("ses_new"))
        assert store.row(SessionId("ses_new")).title == "use ***"
    finally:
        store.close()
    kept = (old.state / "sessions.db").read_bytes()
    assert [piece for piece in PIECES if piece.encode() in kept] == []
