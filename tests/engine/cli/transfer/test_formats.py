"""Each format: the samples, what real logs have besides, and what is said where something is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.transfer.commands import FORMATS, recognised
from engine.cli.transfer.document import parse
from engine.context.view import Summary, View, ViewFold
from engine.core.errors import InvalidRequestError
from engine.log.cycles import cycles_of
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.codec import decode, encode
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    RunStop,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.log.events.session import SessionOpened, TitleChanged
from tests.support import view_reference as reference
from tests.support.examples import examples
from tests.support.fixed import FixedClock
from tests.support.foreign import AT, DATA, imported, of, outline, sample
from tests.support.view_reference import ids

SAMPLES = {"openai.json": "openai", "anthropic.json": "anthropic", "openhands.jsonl": "openhands"}


def kind_of(events: tuple[Event, ...], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def calls(*ids: str | None) -> list[dict[str, Any]]:
    return [{"id": each, "type": "function", "function": {"name": "ls", "arguments": "{}"}} for each in ids]


def answer(call: str, text: str = "out") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


@pytest.mark.parametrize(("name", "expected"), SAMPLES.items())
def test_a_format_is_known_by_its_content(name: str, expected: str) -> None:
    assert recognised(parse((DATA / name).read_bytes(), name)).name == expected


@pytest.mark.parametrize("data", [b"[{}]", b'{"a":1}', b'[{"kind":"x"}]', b"[]"])
def test_unknown_format_is_refused_with_the_known_ones(data: bytes) -> None:
    with pytest.raises(
        InvalidRequestError, match="not a known conversation; known are OpenHands events, Anthropic mess"
    ):
        imported(data)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_a_stamped_log_with_whole_cycles(name: str) -> None:
    log = sample(name).events
    assert isinstance(log[0], SessionOpened)
    assert [event.seq for event in log] == list(range(len(log)))
    assert [event.event_id for event in log] == [f"e{seq}" for seq in range(len(log))]
    model = cycles_of(log)
    assert (model.active, model.strays, model.anomalies, model.queue) == (False, (), (), ())
    assert {cycle.stop.reason for cycle in model.cycles if cycle.stop} == {"completed"}
    fold = ViewFold()
    for event in log:
        fold.apply(event)
    assert fold.warning is None


def test_openai_messages_become_events() -> None:
    log = sample("openai.json").events
    first, second = kind_of(log, UserMessage)
    assert first.text == "What does the picture show, and what is in src?\n[image: data:image/png;base64]\n[audio: wav]"
    assert (first.prompt_kind, second.prompt_kind) == ("direct", "direct")
    assert [each.text for each in kind_of(log, AgentText)] == [
        "I look at both.",
        "A cat; src holds main.py.",
        "I will not.",
    ]
    ls, read, again = kind_of(log, ToolCall)
    assert (ls.tool, ls.arguments, read.arguments) == ("ls", {"path": "src"}, {"text": "not json"})
    assert ls.llm_response_id == read.llm_response_id != again.llm_response_id
    assert (ls.tool_call_id, read.tool_call_id, again.tool_call_id) == ("call_a", "call_b", "call_a#2")
    assert [(each.tool_call_id, each.text) for each in kind_of(log, ToolResult)] == [
        ("call_a", "main.py"),
        ("call_b", "no such file"),
        ("call_a#2", "(empty)"),
    ]
    assert kind_of(log, AgentReasoning)[0].text == "Two things."
    assert {event.at for event in log} == {AT}


def test_anthropic_messages_become_events() -> None:
    log = sample("anthropic.json").events
    assert outline(log) == [
        *("user_message", "agent_reasoning", "agent_reasoning", "agent_text", "tool_call", "tool_call"),
        *("tool_result", "tool_result", "user_message", "tool_call", "tool_result", "agent_text", "run_stop"),
    ]
    ls, other, search = kind_of(log, ToolCall)
    assert ls.thinking == (ThinkingBlock(text="Two directories.", signature="c2lnbmVk", provider="anthropic"),)
    assert (other.thinking, ls.llm_response_id, other.llm_response_id) == ((), "msg_1", "msg_1")
    thought = kind_of(log, AgentReasoning)[0]
    assert (thought.signature, thought.llm_response_id) == ("c2lnbmVk", "msg_1")
    texts = [(each.status, each.text) for each in kind_of(log, ToolResult)]
    assert texts[:2] == [("ok", "main.py\n[image: image/png]"), ("error", "no such directory")]
    assert json.loads(texts[2][1]) == [{"type": "web_search_result", "url": "https://example.org"}]
    assert search.tool == "web_search"
    assert [each.prompt_kind for each in kind_of(log, UserMessage)] == ["direct", "steer"]


def test_openhands_events_become_events() -> None:
    log = sample("openhands.jsonl").events
    first = kind_of(log, UserMessage)[0]
    assert first.text == "List both directories.\n[image: https://example.org/plan.png]\nSkill: be brief."
    assert first.attachments[0].text == "You are a careful agent.\n\nThe repository is /work."
    assert [each.status for each in kind_of(log, ToolResult)] == ["ok", "error", "rejected", "error", "ok"]
    assert [each.prompt_kind for each in kind_of(log, UserMessage)] == ["direct", "direct"]
    assert [each.reason for each in kind_of(log, RunStop)] == ["completed", "completed"]
    batch = kind_of(log, ToolCall)
    assert [each.llm_response_id for each in batch] == ["resp-1", "resp-1", "resp-2", "resp-3", "resp-5"]
    assert [bool(each.thinking) for each in batch] == [False, False, False, False, True]
    assert [each.text for each in kind_of(log, AgentText)] == ["I look at both.", "Shall I?"]
    assert [each.at for each in kind_of(log, UserMessage)] == sorted(each.at for each in kind_of(log, UserMessage))
    assert kind_of(log, UserMessage)[0].at != AT


def test_openhands_condensation_forgets_and_places_its_summary() -> None:
    log = sample("openhands.jsonl").events
    fold = ViewFold()
    for event in log:
        fold.apply(event)
    entries = fold.view.events
    assert not any(isinstance(each, ToolCall) and each.tool_call_id in ("call_c", "call_d") for each in entries)
    place = next(at for at, each in enumerate(entries) if isinstance(each, Summary))
    before, after = entries[place - 1], entries[place + 1]
    assert isinstance(before, ToolResult)
    assert (before.tool_call_id, after.kind) == ("call_b", "agent_reasoning")


def test_a_summary_can_be_forgotten_and_offsets_count_it() -> None:
    def said(number: int) -> dict[str, Any]:
        message = {"role": "user", "content": [{"type": "text", "text": str(number)}]}
        return {"kind": "MessageEvent", "id": f"m{number}", "source": "user", "llm_message": message}

    def forget(name: str, *ids: str, offset: int) -> dict[str, Any]:
        return {"kind": "Condensation", "id": name, "source": "environment", "forgotten_event_ids": list(ids)} | {
            "summary": name,
            "summary_offset": offset,
        }

    log = of(
        [
            {"kind": "SystemPromptEvent", "id": "s", "source": "agent", "system_prompt": {"type": "text", "text": "p"}},
            *map(said, range(4)),
            forget("c1", "m0", "m1", offset=1),
            {"kind": "CondensationSummaryEvent", "id": "c1-summary", "source": "environment", "summary": "c1"},
            forget("c2", "c1-summary", "m2", offset=1),
            said(5),
        ]
    ).events
    fold = ViewFold()
    for event in log:
        fold.apply(event)
    assert fold.warning is None
    assert [each.text for each in fold.view.events if isinstance(each, (Summary, UserMessage))] == ["c2", "3", "5"]
    assert [each.summary_offset for each in kind_of(log, Condensation)] == [0, 0]


def test_a_torn_condensation_is_one_warning() -> None:
    fold = ViewFold()
    for event in sample("openhands-torn.jsonl").events:
        fold.apply(event)
    assert str(fold.warning).startswith("4 events were left out of the View")


@pytest.mark.parametrize(
    ("name", "chars"),
    [("openai.json", 24), ("anthropic.json", 24), ("openhands.jsonl", 24 + len("The repository is /work."))],
)
def test_a_system_prompt_is_kept_with_the_first_message(name: str, chars: int) -> None:
    done = sample(name)
    attached = [each for event in kind_of(done.events, UserMessage) for each in event.attachments]
    assert len(attached) == 1
    assert str(attached[0].text).startswith("You are a careful agent.")
    assert done.report.system_chars == chars
    assert any(line.startswith(f"system prompt: {chars} characters") for line in done.report.lines())


def test_a_conversation_of_a_system_prompt_alone_keeps_it() -> None:
    done = of([{"role": "system", "content": "rules"}])
    (message,) = kind_of(done.events, UserMessage)
    assert message.attachments[0].text == "rules"


def test_a_later_system_message_is_a_message_that_says_so() -> None:
    done = of([user("a"), assistant("b"), {"role": "developer", "content": "new rules"}, user("c")])
    assert [each.text for each in kind_of(done.events, UserMessage)] == ["a", "[system] new rules", "c"]
    assert done.report.noted == {"later system messages, as user messages": 1}


def test_runs_stop_where_the_agent_had_answered_or_was_left() -> None:
    log = of([user("a"), assistant("b"), assistant("c"), user("d"), assistant(None, tool_calls=calls("x")), user("e")])
    assert outline(log.events) == [
        *("user_message", "agent_text", "agent_text", "run_stop", "user_message", "tool_call", "run_stop"),
        *("user_message", "run_stop"),
    ]
    assert [each.reason for each in kind_of(log.events, RunStop)] == ["completed", "interrupted", "interrupted"]
    steered = of([user("a"), assistant(None, tool_calls=calls("x")), answer("x"), user("b"), assistant("c")]).events
    assert [each.prompt_kind for each in kind_of(steered, UserMessage)] == ["direct", "steer"]
    assert [each.reason for each in kind_of(steered, RunStop)] == ["completed"]


def test_an_agent_that_speaks_first_is_in_the_log() -> None:
    log = of([assistant("Hello."), user("a"), assistant("b")]).events
    assert outline(log) == ["agent_text", "user_message", "agent_text", "run_stop"]


def test_results_without_an_id_answer_the_oldest_open_call() -> None:
    old = [
        user("a"),
        assistant(None, function_call={"name": "f", "arguments": '{"x": 1}'}),
        {"role": "function", "name": "f", "content": "1"},
    ]
    call, result = kind_of(of(old).events, ToolCall)[0], kind_of(of(old).events, ToolResult)[0]
    assert (call.tool, call.arguments, result.tool_call_id) == ("f", {"x": 1}, call.tool_call_id)
    named = [user("a"), assistant("", tool_calls=calls(None)), {"role": "tool", "content": "1"}]
    assert kind_of(of(named).events, ToolResult)[0].text == "1"


def test_odd_results_are_logged_and_left_out_of_the_view() -> None:
    log = of(
        [
            *(user("a"), assistant(None, tool_calls=calls("x", "y")), answer("x"), answer("x", "twice"), user("b")),
            *(answer("nobody"), answer("y", "late"), assistant("c")),
        ]
    ).events
    assert len(kind_of(log, ToolResult)) == 4
    fold = ViewFold()
    for event in log:
        fold.apply(event)
    assert fold.warning is not None
    assert {each.property_name for each in fold.warning.corrections} == {"ObservationUniqueness", "ToolCallMatching"}


def test_arguments_of_every_kind_are_kept() -> None:
    given = ['{"a": 1}', {"a": 1}, "", None, "[1]", "text", 7, '{"a": ' + "[" * 80 + "]" * 80 + "}"]
    made = [{"id": str(at), "function": {"name": "f", "arguments": each}} for at, each in enumerate(given)]
    log = of([user("a"), assistant(None, tool_calls=made)])
    assert [each.arguments for each in kind_of(log.events, ToolCall)] == [
        *({"a": 1}, {"a": 1}, {}, {}, {"text": "[1]"}, {"text": "text"}, {"text": 7}, {"text": given[-1]})
    ]
    assert log.report.noted == {"arguments that are not a JSON object": 4}


def test_reasoning_of_gateways_is_there_once() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    log = of([user("a"), assistant("b", reasoning_content="hm", thinking_blocks=blocks, tool_calls=calls("x"))]).events
    assert [(each.text, each.signature) for each in kind_of(log, AgentReasoning)] == [("hm", "s")]
    assert kind_of(log, ToolCall)[0].thinking[0].signature == "s"


@pytest.mark.parametrize(
    ("part", "note"),
    [
        ({"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}, "[image: https://e.org/a.png]"),
        ({"type": "input_image", "image_url": "https://e.org/a.png"}, "[image: https://e.org/a.png]"),
        ({"type": "image", "source": {"type": "url", "url": "https://e.org/b"}}, "[image: https://e.org/b]"),
        ({"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}}, "[audio: mp3]"),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": "AA"}}, "[file: a.pdf]"),
        ({"type": "video_url"}, "[video]"),
        ({"type": "hologram", "data": 1}, "[hologram: left out]"),
        ({"text": "plain"}, "plain"),
        ("plain", "plain"),
    ],
)
def test_part_that_is_not_text_becomes_a_note(part: Any, note: str) -> None:
    done = of([user([{"type": "text", "text": "a"}, part, {"type": "text", "text": "b"}])])
    assert kind_of(done.events, UserMessage)[0].text == f"a\n{note}\nb"
    assert sum(done.report.noted.values()) == (0 if note == "plain" else 1)


def test_a_title_is_the_first_line_that_says_something() -> None:
    done = of([user("\n  Mend\0 it  \nsoon"), assistant("b")])
    assert done.title == "Mend  it"
    assert [each.title for each in kind_of(done.events, TitleChanged)] == ["Mend  it"]
    assert of([assistant("b")]).title is None


def test_fields_and_kinds_that_nobody_reads_are_counted() -> None:
    done = of({"tools": [1], "messages": [user("a") | {"name": "ada", "weight": 0, "odd": None}]})
    assert done.report.ignored == {"tools of the request": 1, "name fields": 1, "weight fields": 1}
    assert imported(b'[{"role":"user","content":"\\ud800"}]').report.noted == {
        "invalid Unicode characters, replaced": 1
    }
    other = of([{"kind": "StreamingDeltaEvent", "source": "agent"}] * 3)
    assert other.report.ignored == {"StreamingDeltaEvent": 3}


def openhands_call(number: int, response: str, thought: str = "") -> dict[str, Any]:
    call = {"id": f"c{number}", "name": "ls", "arguments": "{}"}
    fields = {"tool_call_id": f"c{number}", "tool_call": call, "llm_response_id": response, "thought": thought}
    return {"kind": "ActionEvent", "source": "agent", "id": f"a{number}", **fields}


def openhands_result(number: int) -> dict[str, Any]:
    observation = {"content": "done"}
    return {
        "kind": "ObservationEvent",
        "source": "environment",
        "id": f"o{number}",
        "tool_call_id": f"c{number}",
        "observation": observation,
    }


def openhands_user(text: str) -> dict[str, Any]:
    return {"kind": "MessageEvent", "source": "user", "id": f"u{text}", "llm_message": user(text)}


@pytest.mark.parametrize(
    ("events", "responses"),
    [
        pytest.param("c1 o1 c2 o2 c3 o3", "r r#2 r#3", id="constant ids"),
        pytest.param("c1 c2 o1 o2 c3 c4 o3 o4", "r r r#2 r#2", id="batches of two"),
        pytest.param("c1 o1 u c2 o2", "r r#2", id="a message between"),
        pytest.param("c1 c2 o1 c3 o2 o3", "r r r", id="one that waits"),
        pytest.param("c1 u c2 o1 o2", "r r#2", id="a message that interrupts it"),
    ],
)
def test_response_id_reused_after_its_batch_is_renamed(events: str, responses: str) -> None:
    words = {"c": lambda at: openhands_call(at, "r"), "o": openhands_result, "u": lambda _: openhands_user("steer")}
    done = of([openhands_user("go"), *(words[word[0]](int(word[1:] or 0)) for word in events.split())])
    assert [each.llm_response_id for each in kind_of(done.events, ToolCall)] == responses.split()
    renamed = len(set(responses.split())) - 1
    assert done.report.noted == ({"reused response ids, renamed": renamed} if renamed else {})


def test_renamed_response_id_avoids_existing_ones() -> None:
    calls_of = [openhands_call(1, "r"), openhands_call(2, "r#2"), openhands_call(3, "r"), openhands_call(4, "r#2")]
    both = [each for number, call in enumerate(calls_of, 1) for each in (call, openhands_result(number))]
    done = of([openhands_user("go"), *both])
    assert [each.llm_response_id for each in kind_of(done.events, ToolCall)] == ["r", "r#2", "r#3", "r#2#2"]


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63, 2**64 - 1])
def test_openhands_offset_past_the_end_is_the_end(offset: int) -> None:
    forget = {"kind": "Condensation", "source": "e", "id": "x", "forgotten_event_ids": ["ugo"], "summary": "s"}
    done = of([openhands_user("go"), openhands_user("on"), forget | {"summary_offset": offset}])
    assert kind_of(done.events, Condensation)[0].summary_offset == 1


def test_branches_of_an_openhands_conversation_are_said() -> None:
    message = {"role": "user", "content": "a"}
    tree = [
        {"kind": "MessageEvent", "id": name, "parent_id": parent, "source": "user", "llm_message": message}
        for name, parent in (("a", None), ("b", "a"), ("c", "a"), ("d", "c"))
    ]
    assert of(tree).report.noted == {"branches, one after the other": 1}


WRONG: list[tuple[Any, str]] = [
    ([user("a"), {"content": "b"}], "log, item 2: the message has no role; known roles are"),
    ([{"role": "critic", "content": "b"}], "log, item 1: the role is 'critic'; known roles are system, developer"),
    ([user(7)], "log, item 1: the content is neither text nor a list of parts"),
    ([user("a"), assistant(None, tool_calls="x")], "log, item 2: tool_calls is not a list"),
    ([user([7])], "log, item 1: part 1 of the content is neither text nor an object"),
    ([user("a"), assistant(None, tool_calls=[{"id": "x"}])], "log, item 2: tool call 1 does not name a function"),
    ([user("a"), {"role": "tool", "content": "b"}], "log, item 2: tool_call_id is missing, and no tool call is open"),
    ([user("a"), assistant([{"type": "tool_use", "id": "x"}])], "log, item 2: a tool_use block does not name a tool"),
    ([user([{"type": "tool_result"}])], "log, item 1: a tool_result block has no tool_use_id"),
    (
        [{"kind": "MessageEvent", "source": "user", "id": "x"}],
        "log, item 1: llm_message is missing or not an object",
    ),
    ([{"kind": "ActionEvent", "source": "agent", "id": "x"}], "log, item 1: the event names no tool"),
    (
        [{"kind": "AgentErrorEvent", "source": "agent", "id": "x"}],
        "log, item 1: tool_call_id is missing or not text",
    ),
    ([{"kind": "X", "source": "agent"}, {"id": "y"}], "log, item 2: `kind`, the class"),
    (
        [{"kind": "Condensation", "source": "e", "id": "x", "forgotten_event_ids": [1]}],
        "log, item 1: forgotten_event",
    ),
    (
        [{"kind": "Condensation", "source": "e", "id": "x", "summary": 1}],
        "log, item 1: summary is not text, or",
    ),
]


@pytest.mark.parametrize(("value", "reason"), WRONG)
def test_what_is_wrong_is_said_with_its_place(value: Any, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        of(value)
    assert reason in str(caught.value)


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_an_empty_list_is_refused_by_every_format(each: Any) -> None:
    with pytest.raises(InvalidRequestError, match="log: the file contains no message"):
        of([], each.name)


NAMES = st.sampled_from([None, *(each.name for each in FORMATS)])
ODD = {"run-stop-while-idle", "direct-while-active", "steer-while-idle", "duplicate-message", "duplicate-call"}

texts = st.text(max_size=8) | st.sampled_from(["", "x", "\ud800", "\x1b]0;t\x07", "{}", '{"a": 1}', "[1]"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)


def check(log: tuple[Event, ...]) -> None:
    """Everything that has to be true of an imported log."""
    assert isinstance(log[0], SessionOpened)
    assert all(decode(encode(event)) == event for event in log)
    fold = ViewFold()
    EventLog(FixedClock(), lambda _: None, folds=[fold.apply]).load(log)
    assert ids(View.from_events(log).ready()) == ids(reference.enforced(reference.appended(log), log))
    ready = fold.view.ready()
    assert ids(ready) == ids(reference.enforced(reference.appended(log, well_formed=True), log))
    assert reference.offenders(ready, [], set()) == set()
    model = cycles_of(log)
    assert not model.active
    assert not ODD & {each.kind for each in model.anomalies}


def reads(data: bytes, wanted: str | None) -> bool:
    try:
        log = imported(data, wanted).events
    except InvalidRequestError as refused:
        error = str(refused)
    else:
        check(log)
        return True
    assert error.startswith("log")
    return False


@examples(1.5)
@given(anything, NAMES)
def test_any_json_gives_a_log_or_a_named_error(value: Any, wanted: str | None) -> None:
    reads(json.dumps(value).encode(), wanted)


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
@examples(0.6)
@given(st.data())
def test_damaged_sample_gives_a_log_or_a_named_error(name: str, data: st.DataObject) -> None:
    whole = (DATA / name).read_bytes()
    assert reads(whole, None)
    low = data.draw(st.integers(0, len(whole)))
    high = data.draw(st.integers(low, min(len(whole), low + 400)))
    reads(whole[:low] + data.draw(st.binary(max_size=3)) + whole[high:], None)


@examples(1.5)
@given(st.data())
def test_a_sample_without_some_of_its_events_is_well_formed(data: st.DataObject) -> None:
    lines = (DATA / "openhands.jsonl").read_bytes().splitlines()
    kept = data.draw(st.lists(st.sampled_from(lines), min_size=1, max_size=25))
    try:
        log = imported(b"\n".join(kept), "openhands").events
    except InvalidRequestError:
        raise AssertionError("every line of it is right by itself") from None
    check(log)
