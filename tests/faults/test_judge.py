"""The judge accepts honest evidence, and each of its rules finds what is forged."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.judge import RULES, Evidence, Expected, Message, Prompt, violations
from tests.faults.reading import read_log


def event(seq: int, kind: str, **fields: object) -> Message:
    return {"seq": seq, "kind": kind, "branch_id": "main", **fields}


def honest() -> Evidence:
    log = [
        event(0, "user_message", message_id="msg_1", text="x = 1"),
        event(1, "tool_call", tool_call_id="call_1"),
        event(2, "statement_recorded", index=1),
        event(3, "execution_started"),
        event(4, "execution_finished"),
        event(5, "tool_result", tool_call_id="call_1", status="ok"),
        event(6, "agent_text", message_id="msg_2", text="Done."),
        event(7, "run_stop"),
        event(8, "user_message", message_id="msg_3", text="y"),
        event(9, "agent_text", message_id="msg_4", text="Again."),
        event(10, "run_stop"),
    ]
    told: list[Message] = [
        {"sessionUpdate": "tool_call", "toolCallId": "call_1", "status": "completed"},
        {"sessionUpdate": "agent_message_chunk", "messageId": "msg_2", "content": {"text": "Done."}},
        {"sessionUpdate": "agent_message_chunk", "messageId": "msg_4", "content": {"text": "Again."}},
    ]
    asked = [
        {"sessionUpdate": "user_message_chunk", "messageId": f"msg_{number}", "content": {"text": "x"}}
        for number in (1, 3)
    ]
    replay = [asked[0], *told[:2], asked[1], told[2]]
    return Evidence(
        prompts=[Prompt("x = 1", "end_turn"), Prompt("y", "end_turn"), Prompt("never arrived")],
        updates=told,
        responses=[{"id": 1}, {"id": 2}],
        replays=[replay, copy.deepcopy(replay)],
        log=log,
        files={"a": b"1"},
        allowed=[{}, {"a": b"1"}],
        marks={"act 1": 1},
        acts={"act 1": (1, 1), "act 2": (0, 1)},
        traces={"log": b"nothing"},
        secrets=[b"sk-secret"],
    )


def drop(seq: int) -> Callable[[Evidence], None]:
    """Loses an event, and numbers the rest again."""

    def forge(evidence: Evidence) -> None:
        left = [each for each in evidence.log if each["seq"] != seq]
        evidence.log = [{**each, "seq": number} for number, each in enumerate(left)]

    return forge


def put(**fields: object) -> Callable[[Evidence], None]:
    def forge(evidence: Evidence) -> None:
        for name, value in fields.items():
            setattr(evidence, name, value)

    return forge


def retell(number: int, **fields: object) -> Callable[[Evidence], None]:
    """Changes an update of each load."""

    def forge(evidence: Evidence) -> None:
        for replay in evidence.replays:
            replay[number].update(fields)

    return forge


def status(evidence: Evidence) -> None:
    evidence.log[5]["status"] = "error"


def twice(evidence: Evidence) -> None:
    evidence.log = [*evidence.log, event(11, "user_message", message_id="msg_5", text="y"), event(12, "run_stop")]


def again(evidence: Evidence) -> None:
    evidence.log = [*evidence.log, event(11, "user_message", message_id="msg_3", text="y"), event(12, "run_stop")]


def one_load_differs(evidence: Evidence) -> None:
    evidence.replays[1][1]["status"] = "failed"


def moved(evidence: Evidence) -> None:
    """The log says that the session is before its first message, and the load shows all of them."""
    evidence.log = [
        *evidence.log,
        event(11, "branch_created", branch="b1", parent="main", before=0),
        {**event(12, "head_moved", branch="b1"), "branch_id": "b1"},
    ]


FORGED = {
    "result is lost": ("acknowledged", drop(5)),
    "result is another": ("acknowledged", status),
    "message is there again": ("acknowledged", again),
    "prompt is lost": ("acknowledged", drop(8)),
    "prompt is there twice": ("acknowledged", twice),
    "message is lost": ("acknowledged", drop(6)),
    "end of a reply is not shown": ("shown", lambda evidence: evidence.updates[1].update(content={"text": "Don"})),
    "last reply is another": ("shown", lambda evidence: evidence.updates[2].update(content={"text": "Once"})),
    "database is damaged": ("log", put(database="row 1 missing from index")),
    "event is missing": ("log", lambda evidence: evidence.log[3].update(seq=99)),
    "execution is open": ("log", drop(4)),
    "turn is open": ("log", drop(7)),
    "call is open": ("log", drop(5)),
    "message is not shown": ("story", lambda evidence: [replay.pop(2) for replay in evidence.replays]),
    "order is another": ("story", lambda evidence: [replay.reverse() for replay in evidence.replays]),
    "text is another": ("story", retell(2, content={"text": "Do"})),
    "call runs for ever": ("story", retell(1, status="in_progress")),
    "call is unknown": ("story", retell(1, toolCallId="call_9")),
    "loads differ": ("story", one_load_differs),
    "other branch is shown": ("story", moved),
    "file is torn": ("files", put(files={"a": b"1\0"})),
    "file is lost": ("files", put(files={}, allowed=[{"a": b"1"}])),
    "states are mixed": ("files", put(files={"a": b"1", "b": b"1"}, allowed=[{"a": b"1", "b": b"2"}, {"b": b"1"}])),
    "act is lost": ("once", put(marks={})),
    "act happened twice": ("once", put(marks={"act 1": 2})),
    "act was not asked for": ("once", put(marks={"act 1": 1, "act 3": 1})),
    "process is left": ("processes", put(processes=["sleep"])),
    "temporary file is left": ("temporary", put(leftovers=[".rewindow-1.tmp"])),
    "secret is stored": ("secrets", put(traces={"log": b"..sk-secret.."})),
    "mode is another": ("mode", put(mode="ask", modes={"auto"})),
    "fork is lost": ("sessions", put(kept={"s2": 1})),
    "fork is shorter": ("sessions", put(kept={"s2": 1}, sessions={"s2": ()})),
    "deleted session is there": ("sessions", put(sessions={"s2": ()})),
    "copy has half of a turn": (
        "sessions",
        put(kept={"s2": 0}, sessions={"s2": (event(0, "user_message", message_id="m", text="x"),)}),
    ),
    "request is answered twice": ("answers", put(responses=[{"id": 1}, {"id": 1}])),
}


def test_honest_evidence_is_accepted() -> None:
    assert violations(honest()) == []


def test_a_message_may_be_on_two_branches() -> None:
    """A cancelled edit leaves its branch, and its message is on the branch before it again."""
    evidence = honest()
    evidence.log[8]["branch_id"] = "b1"
    evidence.log = [*evidence.log, event(11, "user_message", message_id="msg_3", text="y"), event(12, "run_stop")]
    assert violations(evidence, ["acknowledged"]) == []


@pytest.mark.parametrize("name", FORGED)
def test_forged_evidence_is_found(name: str) -> None:
    rule, forge = FORGED[name]
    evidence = honest()
    forge(evidence)
    assert violations(evidence, [rule])


def test_each_rule_is_seen_failing() -> None:
    assert {rule for rule, _ in FORGED.values()} == set(RULES)


def test_expected_files_follow_statements_and_rewinds() -> None:
    expected = Expected({"a": b"0"})
    states = expected.changed({"a": b"1"}, {"b": b"2", "a": None})
    assert states == [{"a": b"0"}, {"a": b"1"}, {"b": b"2"}]
    expected.ran(states[-1])
    expected.ran(expected.changed({"c": b"3"})[-1])
    assert expected.after[1] == {"b": b"2"}
    expected.went_back(1)
    assert (expected.files, len(expected.after)) == ({"b": b"2"}, 2)


def test_expected_files_follow_edits_and_undos() -> None:
    expected = Expected({"a": b"0"})
    expected.ran({"a": b"1"})
    expected.ran({"a": b"1"})
    assert expected.last_change() == ({"a": b"0"}, {"a": b"1"})
    expected.edited({"a": b"2"})
    assert expected.last_change() == ({"a": b"1"}, {"a": b"2"})
    assert expected.after[1] == {"a": b"1"}
    expected.undid({"a": b"1"}, {"a": b"2"})
    assert (expected.files, expected.undone) == ({"a": b"1"}, {"a": b"2"})
    expected.ran({"a": b"3"})
    assert (expected.undone, expected.last_change()) == (None, ({"a": b"1"}, {"a": b"3"}))
    expected.went_back(0)
    assert (expected.before, expected.last_change()) == ([], None)


def test_database_that_is_no_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"x" * 5000)
    verdict, log = read_log(tmp_path / "a.db", "s")
    assert "not a database" in verdict
    assert log == []
