"""A session's JSON says what its log says: nothing more, nothing less, and the same however it is cut into changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.cli.show import PastCall
from engine.context.tail.feed import divergence_phrase
from engine.context.tail.prompt import message_text
from engine.context.tail.sent_prompts import PromptEntries, role_of
from engine.core.ids import MAIN_BRANCH, BlobDigest, BranchId, EventId, MessageId, ObjId, Seq, StatementId, ToolCallId
from engine.core.toolbox import call_title
from engine.log.branches import branches_of, path_of
from engine.log.cycles import cycles_of, rounds_of, steps_of
from engine.log.cycles.views import AiBlock
from engine.log.event_log import EventLog, lookup_in
from engine.log.events import EVENTS, Event
from engine.log.events.conversation import ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished, FileWritten, StatementOmitted, StatementRecorded
from engine.log.events.going_back import BranchCreated, Diverged, HeadMoved, Rewound
from engine.log.events.nodes import MethodCalled, NodeChanged, NodeMade
from engine.log.events.session import ProjectionSent, SessionOpened, TitleChanged
from engine.log.facts import CurrentPlan, Spending
from engine.log.redaction import NO_SECRETS, Redactor
from engine.log.timeline import Cell, Timeline
from engine.session.session_json import SessionDocument, encoded, session_json
from engine.session.session_json.contents import BINARY, MISSING, SECRET, Contents
from engine.session.session_json.fold import LEFT_OUT
from engine.session.session_json.shapes import TABLES
from engine.session.session_json.texts import INLINE
from tests.support.fixed import FixedClock
from tests.support.random_logs import random_logs
from tests.support.rich_log import events_of, rich_items

Json = dict[str, Any]
RICH = events_of(rich_items())
MANY = settings(max_examples=100)
INSTRUCTIONS = {"blake2b-instructions": b"Work here."}


def blob(digest: BlobDigest) -> bytes:
    return INSTRUCTIONS[digest]  # raises KeyError as a store does


def whole(events: Sequence[Event]) -> Json:
    return json.loads(session_json("ses_a", events, blob, NO_SECRETS))


def by_key(document: Json, table: str) -> dict[Any, Json]:
    found = {entry["key"]: entry for entry in document[table]}
    assert len(found) == len(document[table])
    return found


# --- the timeline -----------------------------------------------------------------------------------------------------


def path_in(document: Json, branch: str) -> dict[str, float]:
    """The branches that a branch's path runs through, each with its bound, by the document alone."""
    branches = by_key(document, "branches")
    bounds: dict[str, float] = {}
    bound = float("inf")
    name: str | None = branch
    while name is not None:
        bounds[name] = bound
        bound = min(bound, branches[name].get("before", 0))
        name = branches[name].get("parent")
    return bounds


def told(cell: Cell, events: Sequence[Event]) -> Json:
    """A statement of a path. Its executions are shown whole, even where a branch begins while one runs."""
    recorded = cell.statement
    finished = {event.execution_id: event for event in events if isinstance(event, ExecutionFinished)}
    return {
        "key": recorded.seq,
        "index": recorded.index,
        "source": recorded.source,
        "runs": [
            (
                run.begun,
                run.started.mode,
                "running" if (end := finished.get(run.started.execution_id)) is None else end.status,
                None if end is None else end.value,
                [
                    divergence_phrase(each)
                    for each in events
                    if isinstance(each, Diverged) and each.execution_id == run.started.execution_id
                ],
            )
            for run in cell.executions
        ],
    }


@given(random_logs())
@MANY
def test_each_branch_has_the_statements_of_its_timeline(events: list[Event]) -> None:
    document = whole(events)
    branches = branches_of(events)
    runs = by_key(document, "executions")
    assert [branch.name for branch in branches.all] == list(by_key(document, "branches"))
    for branch in branches.all:
        path = branches.path(events, branch.name)
        timeline = Timeline(lookup_in(path))
        for event in path:
            timeline.apply(event)
        bounds = path_in(document, branch.name)

        def is_on(entry: Json, bounds: dict[str, float] = bounds) -> bool:
            return entry["key"] < bounds.get(entry["branch"], 0)

        latest = {entry["statement_id"]: entry for entry in document["statements"] if is_on(entry)}
        shown = [
            {
                "key": entry["key"],
                "index": entry["index"],
                "source": text_in(document, entry["source"]),
                "runs": [
                    (
                        key,
                        runs[key].get("mode"),
                        runs[key]["status"],
                        text_in(document, runs[key]["value"]) if "value" in runs[key] else None,
                        [each["text"] for each in runs[key].get("divergences", ())],
                    )
                    for key in entry.get("executions", ())
                    if is_on(runs[key])
                ],
            }
            for entry in latest.values()
        ]
        expected = [told(cell, events) for cell in timeline.cells]
        assert sorted(shown, key=lambda each: each["key"]) == sorted(expected, key=lambda each: each["key"])


def text_in(document: Json, text: Json) -> str:
    """The whole of a text of an entry."""
    if "digest" not in text:
        return text["text"]
    content = document["contents"][text["digest"]]["text"]
    assert len(content) == text["size"]
    assert content.startswith(text["text"])
    return content


@given(random_logs())
def test_each_branch_has_the_requests_of_its_path(events: list[Event]) -> None:
    document = whole(events)
    branches = branches_of(events)
    expected: dict[str, Json] = {}
    for branch in branches.all:
        for cycle in cycles_of(branches.path(events, branch.name)).cycles:
            last = cycle.stop or (cycle.items[-1] if cycle.items else cycle.root)
            if branch.name in (last.branch_id, *(each.branch_id for each in cycle.late)):
                expected[f"{branch.name}/{cycle.number}"] = {
                    "root": cycle.root.seq,
                    "stop": None if cycle.stop is None else cycle.stop.seq,
                    "rounds": [[item.seq for item in each.output] for each in rounds_of(cycle).rounds],
                    "steps": [
                        [call.call.seq for group in step.groups for call in group.calls]
                        if isinstance(step, AiBlock)
                        else step.message.seq
                        for step in steps_of(cycle)
                    ],
                }
    shown = {
        key: {
            "root": entry["root"],
            "stop": entry.get("stop"),
            "rounds": [each.get("output", []) for each in entry.get("rounds", ())],
            "steps": [
                step["message"]
                if "message" in step
                else [call["call"] for group in step.get("groups", ()) for call in group["calls"]]
                for step in entry["steps"]
            ],
        }
        for key, entry in by_key(document, "requests").items()
    }
    assert shown == expected
    items = by_key(document, "conversation")
    assert {seq for entry in shown.values() for seq in (entry["root"], *chain(*entry["rounds"]))} <= items.keys()


# --- nothing that is not there, nothing missing -----------------------------------------------------------------------


def positions(document: Json) -> set[int]:
    """The events that entries stand for."""
    found = {entry["key"] for table in ("statements", "executions", "conversation") for entry in document[table]}
    found |= {entry["key"] for table in ("handles", "questions", "moves", "notes") for entry in document[table]}
    found |= {entry["position"] for entry in document["calls"]}
    found |= {change["seq"] for entry in document["handles"] for change in entry.get("changes", ())}
    return found | {int(change["key"].split(".")[0]) for file in document["files"] for change in file["changes"]}


PARTS = [
    "execution_finished",
    "effect_requested",
    "effect_answered",
    "command_ended",
    "checkpoint_taken",
    "diverged",
    "statement_omitted",
    "model_call_ended",
    "permission_answered",
    "replay_ended",
    "rewound",
]
"""Kinds that belong to the entry of an earlier event, if the log has that."""


@given(random_logs())
def test_every_event_has_an_entry(events: list[Event]) -> None:
    shown = positions(whole(events))
    missing = {event.kind for event in events if event.seq not in shown and type(event) not in LEFT_OUT}
    assert missing <= set(PARTS)
    assert shown <= {event.seq for event in events if type(event) not in LEFT_OUT}


def test_every_kind_is_shown_or_left_out_on_purpose() -> None:
    kinds = {event.kind for event in RICH if event.seq in positions(whole(RICH))} | set(PARTS)
    assert kinds | {kind.kind for kind in LEFT_OUT} >= {kind.kind for kind in EVENTS} - {"statement_omitted"}


def leaves(value: object, field: str = "") -> Iterator[tuple[str, str]]:
    """Every string, with the name of the nearest field that has it."""
    match value:
        case str():
            yield field, value
        case dict():
            for key, item in value.items():
                yield from leaves(item, key)
        case list() | tuple():
            for item in value:
                yield from leaves(item, field)
        case _:
            pass


def keys(value: object) -> Iterator[str]:
    """Every key of an object."""
    if isinstance(value, dict):
        yield from value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from keys(item)


OURS = ("key", "type", "by", "change", "status", "kind", "digest", "instructions", "tail", "problem")
"""Fields with words of ours, keys and digests, which other tests check."""


def texts_of(events: Sequence[Event]) -> set[str]:
    """The texts of a log, and those that are made of one event."""
    entries = PromptEntries(events)
    plain = [msgspec.to_builtins(event) for event in events]
    known = {text for _, text in leaves(plain)} | set(keys(plain))
    for event in events:
        match event:
            case ToolCall():
                known |= {call_title(event.tool, event.arguments), msgspec.json.encode(event.arguments).decode()}
                known |= {str(value) for value in event.arguments.values()}
            case MethodCalled():
                given = (*event.args, *(f"{name}={value}" for name, value in event.kwargs.items()))
                known.add(f"{event.method}({', '.join(given)})")
            case Diverged():
                known.add(divergence_phrase(event))
            case ProjectionSent():
                messages = [entries.message(each) for each in event.messages]
                known |= {message_text(each, calls_tools=event.calls_tools) for each in messages}
                known |= {role_of(each) for each in messages}
            case _:
                pass
    return known


@given(random_logs())
def test_every_text_is_one_of_the_log(events: list[Event]) -> None:
    document = whole(events)
    known = texts_of(events) | {"", "ses_a", "main"}
    begun = {text[:INLINE] for text in known if len(text) > INLINE}
    for field, text in leaves({"session": document["session"], **{table: document[table] for table in TABLES}}):
        is_path = field == "name" and any(each.endswith(text) for each in known)
        assert field in OURS or text in known or text in begun or is_path, (field, text)


# --- changes ----------------------------------------------------------------------------------------------------------


class Reader:
    """Keeps what it has seen of a document up to date, as a page does."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[Any, Json]] = {table: {} for table in TABLES}
        self.head: Json = {}
        self._position = -1

    def read(self, document: SessionDocument) -> None:
        patch = json.loads(encoded(document.changes(self._position)))
        self.head = patch.pop("session")
        self._position = self.head.get("events", 0)
        for table, entries in patch.items():
            self.tables[table] |= {entry["key"]: entry for entry in entries}


@given(random_logs(), st.lists(st.integers(0, 3), max_size=40))
@MANY
def test_changes_add_up_to_the_document_for_each_reader(events: list[Event], reads: list[int]) -> None:
    document, readers = SessionDocument("ses_a", lambda digest: None), (Reader(), Reader())
    # Nobody reads a session before it is opened, which a random log may do late.
    opened = max((place for place, event in enumerate(events) if isinstance(event, SessionOpened)), default=0)
    for place, event in enumerate(events):
        document.apply(event)
        for number, reader in enumerate(readers):
            if opened <= place < len(reads) and reads[place] & (number + 1):
                reader.read(document)
    expected = json.loads(encoded(document.document()))
    for reader in readers:
        reader.read(document)
        assert reader.head == expected["session"]
        assert reader.tables == {table: by_key(expected, table) for table in TABLES}


def test_changes_are_few() -> None:
    document = SessionDocument("ses_a", lambda digest: None)
    for event in RICH[:-1]:
        document.apply(event)
    document.changes(-1)
    document.apply(RICH[-1])
    patch = document.changes(len(RICH) - 1)
    assert (patch.keys(), len(patch["notes"])) == ({"session", "notes"}, 1)


# --- model calls ------------------------------------------------------------------------------------------------------


def prompt_in(document: Json, number: int) -> Json:
    """A model call as `--projection` prints it, by the document alone."""
    keys: list[int] = []
    for call in document["calls"][:number]:
        keys = [*keys[: call.get("kept", 0)], *call.get("messages", ())]
    call, messages = document["calls"][number - 1], by_key(document, "messages")

    def content(digest: str | None) -> str:
        return "" if digest is None else document["contents"][digest]["text"]

    return {
        "call": number,
        "round": call["round"],
        "answered": call.get("answered"),
        "tokens": {
            "used": call["used"],
            "size": call["size"],
            "shared": call.get("shared", 0),
            "sections": call["sections"],
            "handles": {each["name"]: each["tokens"] for each in call.get("handles", ())},
        },
        "provider": {
            "input": call.get("input_tokens"),
            "cached": call.get("cached_tokens"),
            "output": call.get("output_tokens"),
        },
        "instructions": content(call.get("instructions")),
        "messages": [
            {
                "event": messages[key]["event"],
                "role": messages[key]["role"],
                "shortened": messages[key].get("is_shortened", False),
                "text": text_in(document, messages[key]["text"]),
            }
            for key in keys
        ],
        "tail": content(call.get("tail")),
    }


@given(random_logs())
@MANY
def test_a_model_call_is_what_the_command_shows(events: list[Event]) -> None:
    document = whole(events)
    for number in range(1, len(document["calls"]) + 1):
        call = PastCall(events, number, blob, str)
        assert prompt_in(document, number) == json.loads(call.to_json())


def test_shortened_messages_are_those_that_were_sent() -> None:
    sent = ProjectionSent(
        round_id=1,
        position=3,
        size=10,
        messages=(EventId("e0"),),
        shortened={EventId("e0"): BlobDigest("blake2b-instructions")},
        seq=Seq(1),
        event_id=EventId("e1"),
    )
    prompt = UserMessage(message_id=MessageId("m"), text="a long prompt", seq=Seq(0), event_id=EventId("e0"))
    (message,) = whole([prompt, sent])["messages"]
    assert (message["text"]["text"], message["is_shortened"]) == ("Work here.", True)
    lost = replace(sent, shortened={EventId("e0"): BlobDigest("blake2b-lost")})
    assert whole([prompt, lost])["messages"][0]["problem"]


def logged(*events: Event) -> list[Event]:
    """A log of these events, as an `EventLog` stamps them."""
    kept: list[Event] = []
    log = EventLog(FixedClock(), kept.append)
    for event in events:
        log.append(event)
    return kept


def prompt(name: str) -> UserMessage:
    return UserMessage(message_id=MessageId(name), text=name)


def sent(kept: int, *messages: str, calls_tools: bool = True) -> ProjectionSent:
    return ProjectionSent(
        round_id=1, position=1, size=10, kept=kept, messages=tuple(map(EventId, messages)), calls_tools=calls_tools
    )


def test_a_prompt_keeps_only_what_its_call_kept() -> None:
    events = logged(prompt("a"), prompt("b"), prompt("c"), sent(0, "e0", "e1"), sent(1, "e2"))
    document = whole(events)
    texts = [[each["text"] for each in prompt_in(document, number)["messages"]] for number in (1, 2)]
    assert texts == [["a", "b"], ["a", "c"]]
    assert prompt_in(document, 2) == json.loads(PastCall(events, 2, blob, str).to_json())


def test_a_prompt_for_a_model_that_writes_its_statements_is_shown_as_that() -> None:
    call = ToolCallId("c")
    events = logged(
        ToolCall(tool_call_id=call, tool="python", arguments={"source": "1"}),
        ToolResult(tool_call_id=call, status="ok", text="one"),
        sent(0, "e0", "e1"),
        sent(0, "e0", "e1", calls_tools=False),
    )
    document = whole(events)
    for number in (1, 2):
        assert prompt_in(document, number) == json.loads(PastCall(events, number, blob, str).to_json())
    first, second = [[each["text"] for each in prompt_in(document, number)["messages"]] for number in (1, 2)]
    assert (first[0], first[0] != second[0]) == ("1", True)


def test_an_old_entry_that_changes_again_is_among_the_changes() -> None:
    recorded = [
        StatementRecorded(statement_id=StatementId(f"s{n}"), index=n, source=f"{n}", tool_call_id=ToolCallId(f"c{n}"))
        for n in (1, 2)
    ]
    events = logged(*recorded, StatementOmitted(statement_id=StatementId("s1")), TitleChanged(title="a"))
    document = SessionDocument("ses_a", lambda digest: None)
    for event in events:
        document.apply(event)
    assert [entry.key for entry in document.changes(2)["statements"]] == [0]


def test_a_handle_is_that_of_its_branch() -> None:
    made = NodeMade(obj_id=ObjId("view-1.1"), obj_type="view", statement=1)
    changed = NodeChanged(obj_id=made.obj_id, obj_type="view", delta="on b1")
    events = logged(
        prompt("a"),
        replace(made, name="first"),
        BranchCreated(branch=BranchId("b1"), parent=MAIN_BRANCH, before=Seq(1)),
        HeadMoved(branch=BranchId("b1"), left=MAIN_BRANCH, statement=0),
        replace(made, name="second"),
        changed,
        HeadMoved(branch=MAIN_BRANCH, left=BranchId("b1"), statement=1),
        replace(changed, delta="on main"),
    )
    shown = {entry["name"]: entry["changes"][0]["text"]["text"] for entry in whole(events)["handles"]}
    assert shown == {"first": "on main", "second": "on b1"}


# --- contents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"text", {"text": "text"}),
        (b"my key is geheimes-passwort", {"text": "my key is ***"}),
        (b"\xff\xfe", {"left_out": BINARY}),
        (b"a\0b", {"left_out": BINARY}),
        (None, {"left_out": MISSING}),
    ],
)
def test_contents_of_files_are_text_without_secrets(data: bytes | None, shown: Json) -> None:
    digest = BlobDigest("blake2b-file")

    def read(_: BlobDigest) -> bytes:
        if data is None:
            raise KeyError(digest)
        return data

    contents = Contents(read, Redactor(["geheimes-passwort"]))
    document = SessionDocument("ses_a", contents.text)
    written = next(event for event in RICH if isinstance(event, FileWritten))
    document.apply(replace(written, seq=Seq(0), after=digest))
    document.document()
    assert {name: json.loads(msgspec.json.encode(each)) for name, each in contents.all(document)} == {digest: shown}
    assert contents.of(document, "blake2b-other") is None


def test_a_picture_that_spells_a_secret_is_left_out() -> None:
    contents = Contents(lambda _: b"geheimes-passwort", Redactor(["geheimes-passwort"]))
    document = SessionDocument("ses_a", contents.text)
    document.texts.name("blake2b-picture", "image/png")
    content = contents.of(document, "blake2b-picture")
    assert content is not None
    assert (content.data, content.left_out) == (None, SECRET)


def test_an_empty_log_is_an_empty_document() -> None:
    document = whole([])
    assert document["session"]["session_id"] == "ses_a"
    assert all(not document[table] for table in TABLES if table != "branches")


@given(random_logs())
def test_the_head_is_that_of_the_read_models(events: list[Event]) -> None:
    head, path = whole(events)["session"], path_of(events)
    plan, spending = CurrentPlan(), Spending()
    for event in path:
        plan.apply(event)
    for event in events:
        spending.apply(event)
    assert head.get("events", 0) == len(events)
    assert head.get("branch", "main") == branches_of(events).active
    assert [each["content"] for each in head.get("plan", ())] == [each.content for each in plan.entries]
    assert head["spent"].get("calls", 0) == spending.total.calls
    assert head.get("is_running", False) == cycles_of(path).active


def test_a_rewind_changes_files() -> None:
    document = whole(RICH)
    rewound = [event for event in RICH if isinstance(event, Rewound) and not event.cancelled]
    changes = [change for file in document["files"] for change in file["changes"] if change["by"] == "rewind"]
    assert len(changes) == sum(len(event.restored) for event in rewound) > 0


def test_only_a_model_or_a_prompt_writes_statements_of_a_request() -> None:
    by = {entry["key"]: entry["by"] for entry in whole(RICH)["statements"]}
    calls = {event.tool_call_id: event for event in RICH if isinstance(event, ToolCall)}
    for event in RICH:
        if isinstance(event, StatementRecorded) and event.statement_kind == "python":
            call = calls.get(event.tool_call_id)
            assert by[event.seq] == ("outside" if call is None else "user" if call.typed else "model")
