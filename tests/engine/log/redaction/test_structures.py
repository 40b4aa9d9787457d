"""Events and messages without secrets: texts go, words that somebody compares stay."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Struct

from engine.core.execution import Captured, ExceptionInfo
from engine.core.ids import ExecutionId, MessageId, StatementId, ToolCallId
from engine.log.events import EVENTS, Event
from engine.log.events.codec import decode, encode
from engine.log.events.conversation import AgentReasoning, AgentText, ThinkingBlock, ToolCall
from engine.log.events.execution import EffectAnswered, ExecutionFinished, StatementRecorded
from engine.log.redaction import Redactor, redact_event, redact_json

SECRET = "a-secret-of-mine"
REDACTOR = Redactor([SECRET])
WORDS = {
    "session_opened": ["cwd", "directories", "python", "packages", "real"],
    "view_enforced": ["property_name"],
    "permission_asked": ["scope"],
    "permission_answered": ["scope"],
    "config_changed": ["option", "value"],
    "domain_entered": ["writable"],
    "user_message": ["attachments.media_type"],
    "agent_reasoning": ["provider"],
    "tool_call": ["tool", "thinking.provider"],
    "servers_named": ["modules.key"],
    "server_connected": ["module"],
    "server_lost": ["module"],
    "result_rerendered": ["displays.obj_id", "displays.state", "displays.revision", "displays.digest"],
    "statement_recorded": ["fingerprint"],
    "execution_finished": [
        "stdout.digest",
        "stderr.digest",
        "displays.obj_id",
        "displays.state",
        "displays.revision",
        "displays.digest",
        "artifacts.before_digest",
        "artifacts.after_digest",
        "diff.changed.key.before_digest",
        "diff.changed.key.after_digest",
        "diff.digests.key",
    ],
    "effect_requested": ["operation", "argument_digest"],
    "effect_answered": ["operation", "digest"],
    "file_touched": ["before_digest", "withheld"],
    "file_written": ["before_digest", "after_digest", "withheld"],
    "rewind_begun": ["files.present_digest", "files.wanted_digest"],
    "rewound": ["restored.present_digest", "restored.wanted_digest"],
    "command_ended": ["output.digest", "errors.digest"],
    "values_kept": ["groups.withheld"],
    "names_rebound": ["names"],
    "method_called": ["obj_type", "method", "before_digest", "after_digest"],
    "node_changed": ["obj_type"],
    "file_changed": ["before_digest", "after_digest"],
    "revision_adopted": ["digest", "withheld"],
    "node_made": ["obj_type"],
    "outline_made": ["digest"],
    "contents_adopted": ["files.digest", "files.withheld"],
    "async_payload_prepared": ["basis.obj_digest_hash", "basis.policy_hash", "basis.deps_hash", "payload_hash"],
}
"""Every field that is neither a text nor an identifier, by kind: what redaction leaves is decided upon here."""


def filled(hint: Any) -> Any:
    """A value of the type in which every text and word is the secret, and every key is `key`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType):
        return "id" if hint.__supertype__ is str else 0
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return filled(arguments[0])
    if origin is tuple:
        return (filled(arguments[0]),)
    if origin is dict:
        return {"key": filled(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Struct):
        return hint(
            **{name: filled(each) for name, each in get_type_hints(hint).items() if name in hint.__struct_fields__}
        )
    return SECRET if hint in (str, object) else hint()


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The strings of a JSON value by the keys that lead there."""
    match value:
        case str():
            yield path, value
        case dict():
            for key, item in value.items():
                yield from texts(item, f"{path}.{key}" if path else key)
        case list():
            for item in value:
                yield from texts(item, path)
        case _:
            pass


def test_every_text_loses_a_secret_and_words_do_not() -> None:
    found: dict[str, list[str]] = {}
    for kind in EVENTS:
        for path, text in texts(msgspec.json.decode(encode(redact_event(REDACTOR, filled(kind))))):
            if text == SECRET:
                found.setdefault(kind.kind, []).append(path)
    assert found == WORDS


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.kind)
def test_an_event_survives_a_secret_that_equals_any_of_its_own_words(kind: type[Event]) -> None:
    data = encode(filled(kind))
    words = {text for key, item in msgspec.json.decode(data).items() for text in (key, item) if isinstance(text, str)}
    for word in {*words, "tool_call_id", '"kind":"', "statement", "completed", '{"kind"'}:
        clean = redact_event(Redactor([word]), decode(data))
        assert list(msgspec.json.decode(encode(clean))) == list(msgspec.json.decode(data))
        assert type(decode(encode(clean))) is kind


def test_an_event_without_a_secret_is_the_same_object() -> None:
    event = AgentText(message_id=MessageId("m"), text="harmless … and more")
    assert redact_event(REDACTOR, event) is event
    assert redact_event(Redactor([]), filled(AgentText)) == filled(AgentText)


def test_a_secret_is_found_whatever_json_makes_of_it() -> None:
    secret = 'a "quoted" \\ secret\nof two lines 🔑'
    call = ToolCall(
        tool_call_id=ToolCallId("c1"),
        tool="python",
        arguments={"source": f"x = {secret}", "deep": [{"k": repr(secret)}]},
    )
    clean = redact_event(Redactor([secret]), call)
    assert isinstance(clean, ToolCall)
    assert clean.arguments == {"source": "x = ***", "deep": [{"k": "'***'"}]}


def test_a_source_that_loses_a_secret_says_what_it_was_and_others_do_not() -> None:
    statement = StatementRecorded(
        statement_id=StatementId("s"), index=1, source=f"key = {SECRET!r}", tool_call_id=ToolCallId("c")
    )
    clean = redact_event(REDACTOR, statement)
    assert isinstance(clean, StatementRecorded)
    assert clean.source == "key = '***'"
    assert clean.withheld.startswith("blake2b:")
    harmless = msgspec.structs.replace(statement, source="key = 1")
    assert redact_event(REDACTOR, harmless) is harmless


def test_an_error_that_a_statement_saw_is_not_to_be_seen_again_as_another() -> None:
    answered = EffectAnswered(
        execution_id=ExecutionId("x"),
        ordinal=0,
        operation="read",
        error=ExceptionInfo(type="FileNotFoundError", message=f"No such file: {SECRET}"),
    )
    clean = redact_event(REDACTOR, answered)
    assert isinstance(clean, EffectAnswered)
    assert clean.error is not None
    assert clean.error.message == "No such file: ***"
    assert clean.withheld.startswith("blake2b:")


def test_thinking_that_changes_loses_the_signature_that_covered_it() -> None:
    block = ThinkingBlock(text=f"it is {SECRET}", signature="signed", provider="anthropic")
    call = ToolCall(tool_call_id=ToolCallId("c"), tool="python", thinking=(block,))
    clean = redact_event(REDACTOR, call)
    assert isinstance(clean, ToolCall)
    assert clean.thinking == (ThinkingBlock(text="it is ***", provider="anthropic"),)
    reasoning = redact_event(REDACTOR, AgentReasoning(message_id=MessageId("m"), text=SECRET, signature="signed"))
    assert isinstance(reasoning, AgentReasoning)
    assert reasoning.signature is None


def test_output_that_was_cut_loses_the_piece_at_its_end_and_keeps_its_counts() -> None:
    stdout = Captured(text=f"72 bytes {SECRET[:-1]}", total_bytes=90_000, kept_bytes=24)
    stderr = Captured(text=f"whole {SECRET} and {SECRET[:-1]}", total_bytes=41, kept_bytes=41)
    finished = ExecutionFinished(
        execution_id=ExecutionId("x"),
        statement_id=StatementId("s"),
        status="ok",
        started_at=0.0,
        ended_at=0.0,
        stdout=stdout,
        stderr=stderr,
    )
    clean = redact_event(REDACTOR, finished)
    assert isinstance(clean, ExecutionFinished)
    assert clean.stdout.text == "72 bytes ***"
    assert clean.stdout.truncated
    assert clean.stderr.text == f"whole *** and {SECRET[:-1]}"
    assert not clean.stderr.truncated


def test_the_keys_of_json_stay_that_are_words_and_what_stands_under_an_exact_one() -> None:
    assert redact_json(Redactor(["tool_call_id"]), {"tool_call_id": 1}) == {"tool_call_id": 1}
    value = {SECRET: [SECRET, {"status": SECRET, "title": f"<{SECRET}>"}], "path": [SECRET], "n": 1}
    assert redact_json(REDACTOR, value, {"status", "path"}) == {
        "***": ["***", {"status": SECRET, "title": "<***>"}],
        "path": [SECRET],
        "n": 1,
    }
