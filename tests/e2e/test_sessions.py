"""Sessions over their whole life: loaded, resumed, listed, configured, asked about, steered, named."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Agent
from tests.support.scripts import (
    Gate,
    asks_permission,
    last_value,
    load,
    logged,
    prompt_params,
    reason,
    responses,
    runs,
    says,
    scripted,
    transcript,
    update_in,
)

RETURNING = ("session/load", "session/resume")
EITHER = pytest.mark.parametrize("method", ["session/load", pytest.param("session/resume", marks=pytest.mark.slow)])


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.release()


# --- load and resume --------------------------------------------------------------------------------------------------


def eventful(agent: Agent, folder: Path) -> str:
    """A session in which nearly everything happens that can be shown; seven prompts reach its log."""
    notes = folder / "notes.md"
    notes.write_text("# Notes\nfirst\n")
    session = agent.open(folder)
    assert agent.prompt(session, "look") == "end_turn"
    notes.write_text("# Notes\nsecond\n")
    agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
    assert agent.prompt(session, "fail") == "end_turn"
    params = {"sessionId": session, "configId": "_while_running", "value": "steer"}
    agent.call("session/set_config_option", params)
    assert agent.prompt(session, "/views") == "end_turn"
    streaming = agent.begin_prompt(session, "stream")
    agent.until(says("a"))
    agent.notify("session/cancel", {"sessionId": session})
    assert reason(agent.response(streaming)) == "cancelled"
    running = agent.begin_prompt(session, "run for ever")
    agent.until(runs)
    agent.notify("session/cancel", {"sessionId": session})
    assert reason(agent.response(running)) == "cancelled"
    agent.call("session/set_mode", {"sessionId": session, "modeId": "ask"})
    agent.permission = "reject_once"
    assert agent.prompt(session, "reject") == "end_turn"
    agent.permission = "allow_once"
    assert agent.prompt(session, "`````markdown\n\ud83d\ude00 \\u0000 \t") == "end_turn"
    return session


EVENTFUL = (
    {"reasoning": "I shall look.", "text": "Looking.", "statement": "n = view('notes.md')\nn.Run()\nread('notes.md')"},
    {"text": "Seen."},
    {"statement": "print('out', flush=True)\nimport sys; print('err', file=sys.stderr)\nx = 40\n1 / 0"},
    {"reasoning": "Failed.", "text": "It failed."},
    {"text": "abcdefghij" * 50, "chunk": 1, "pause": 0.01},
    {"text": "Going.", "statement": "print('going', flush=True)\nwhile True: pass"},
    {"text": "May I?", "statement": "y = 1"},
    {"text": "Then not."},
    {"text": "````fenced````", "statement": "print('`````')\n'\\ud800'"},
    {"text": "Done."},
)


def test_what_a_load_shows_is_what_was_shown_at_first(tmp_path: Path) -> None:
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, *EVENTFUL)) as first:
        session = eventful(first, tmp_path)
        shown = transcript(first.updates())
        prompts = [event["text"] for event in logged(tmp_path / "state", session) if event["kind"] == "user_message"]
    assert len(prompts) == 7
    with Agent(tmp_path / "state") as second:
        second.initialize()
        answer = load(second, session, tmp_path)
        again = transcript(second.updates())
        assert {message["params"]["sessionId"] for message in second.received if "params" in message} == {session}
        del shown["last"]["available_commands_update"]
        assert again == shown
        assert len(shown["calls"]) >= 6
        assert [update["content"]["text"] for update in second.updates("user_message_chunk")] == prompts
        values = {option["id"]: option["currentValue"] for option in answer["configOptions"]}
        assert (answer["modes"]["currentModeId"], values) == ("ask", {"mode": "ask", "_while_running": "steer"})
        following = second.until(lambda message: True)
        assert update_in(following)["sessionUpdate"] == "available_commands_update"
        second.quiet()


def test_a_second_load_on_the_same_connection_shows_the_same_again(tmp_path: Path) -> None:
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, *EVENTFUL)) as agent:
        session = eventful(agent, tmp_path)
        shown = transcript(agent.updates())
        del shown["last"]["available_commands_update"]
        before = len(agent.updates())
        load(agent, session, tmp_path)
        assert transcript(agent.updates()[before:]) == shown
        agent.quiet()


def test_a_load_while_a_statement_runs_shows_everything_once(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = 1")
    prompt = agent.begin_prompt(session, f"{gate.source}; kept + 1")
    gate.reached()
    before = len(agent.updates())
    load(agent, session, tmp_path)
    gate.release()
    assert reason(agent.response(prompt)) == "end_turn"
    shown = transcript(agent.updates()[before:])
    assert [call["status"] for call in shown["calls"].values()] == ["completed", "completed"]
    assert [text for text in shown["messages"].values() if text == "2"] == ["2"]


def test_a_load_while_a_message_streams_shows_it_once_and_whole(tmp_path: Path) -> None:
    replies = [{"reasoning": "r" * 20, "text": "abcdefghij" * 4, "chunk": 1, "pause": 0.004}] * 3
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, *replies)) as agent:
        session = agent.open(tmp_path)
        for wanted in (says("r", "agent_thought_chunk"), says("b"), says("j")):
            prompt = agent.begin_prompt(session, "go")
            agent.until(wanted)
            params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
            answers = responses(agent, [prompt, loading := agent.begin("session/load", params)])
            assert reason(answers[prompt]) == "end_turn"
            assert answers[loading]["result"]["modes"]
            updates = agent.updates()
            # What comes from the first message of the user on is the replay and what follows it.
            begun = [update["sessionUpdate"] for update in updates].index("user_message_chunk")
            again = transcript(updates[begun:])["messages"]
            assert set(again.values()) == {"r" * 20, "abcdefghij" * 4}
            agent.received.clear()
            load(agent, session, tmp_path)
            assert transcript(agent.updates())["messages"] == again
            agent.received.clear()


def test_a_load_while_a_statement_prints_shows_what_it_printed(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, f"print('printed', flush=True); {gate.source}; 42")
    agent.until(says("printed", "tool_call_update"))
    gate.reached()
    before = len(agent.updates())
    load(agent, session, tmp_path)
    (call,) = transcript(agent.updates()[before:])["calls"].values()
    assert (call["status"], "printed" in str(call["content"])) == ("in_progress", True)
    gate.release()
    assert reason(agent.response(prompt)) == "end_turn"


def test_what_a_killed_agent_had_shown_is_what_a_load_shows_and_the_variables_are_there(tmp_path: Path) -> None:
    first = Agent(tmp_path / "state")
    session = first.open(tmp_path)
    first.prompt(session, "x = 40\nprint('set')\n'value'")
    first.prompt(session, "x / 0")
    first.kill()
    shown = transcript(first.updates())
    del shown["last"]["available_commands_update"]
    with Agent(tmp_path / "state") as second:
        second.initialize()
        load(second, session, tmp_path)
        assert transcript(second.updates()) == shown
        assert second.prompt(session, "x + 2") == "end_turn"
        assert last_value(second) == "42"


@pytest.mark.parametrize("method", RETURNING)
def test_variables_are_there_again_after_the_agent_was_killed(tmp_path: Path, method: str) -> None:
    first = Agent(tmp_path / "state")
    session = first.open(tmp_path)
    first.prompt(session, "x = 40")
    first.prompt(session, "def f(n):\n    return n + x")
    first.kill()
    with Agent(tmp_path / "state") as second:
        second.initialize()
        load(second, session, tmp_path, method)
        if method == "session/resume":
            assert second.updates() == []
        assert second.prompt(session, "x + 2, f(1)") == "end_turn"
        assert last_value(second) == "(42, 41)"


@EITHER
def test_a_session_that_does_not_exist_cannot_be_loaded(agent: Agent, tmp_path: Path, method: str) -> None:
    agent.initialize()
    for unknown in ("ses_unknown", "", "../../etc/passwd", "ses_\u0000"):
        error = agent.error(method, {"sessionId": unknown, "cwd": str(tmp_path), "mcpServers": []})
        assert (error["code"], error["data"]) == (-32002, {"sessionId": unknown})


@EITHER
def test_a_session_that_another_agent_has_open_names_its_process(agent: Agent, tmp_path: Path, method: str) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "x = 1")
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    with Agent(tmp_path / "state") as other:
        other.initialize()
        error = other.error(method, params)
        assert error["code"] == -32600
        assert str(agent.process.pid) in error["message"]
        assert agent.prompt(session, "x + 1") == "end_turn"
        agent.call("session/close", {"sessionId": session})
        other.call(method, params)
        assert other.prompt(session, "x + 41") == "end_turn"
        assert last_value(other) == "42"


@EITHER
def test_two_loads_in_one_write_open_it_once(tmp_path: Path, method: str) -> None:
    with Agent(tmp_path / "state") as first:
        session = first.open(tmp_path)
        first.prompt(session, "x = 41")
    with Agent(tmp_path / "state") as agent:
        agent.initialize()
        params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        agent.write(agent.line(method, params, "a") + agent.line(method, params, "b"))
        answers = responses(agent, ["a", "b"])
        assert all("result" in answer for answer in answers.values()), answers
        assert agent.prompt(session, "x + 1") == "end_turn"
        assert last_value(agent) == "42"


# --- list -------------------------------------------------------------------------------------------------------------


def test_sessions_are_listed_in_pages_newest_first(agent: Agent, tmp_path: Path) -> None:
    agent.initialize()
    assert agent.call("session/list", {}) == {"sessions": []}
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    made = [agent.new_session(there if number % 10 == 0 else here) for number in range(53)]
    first = agent.call("session/list", {})
    second = agent.call("session/list", {"cursor": first["nextCursor"]})
    assert [row["sessionId"] for row in first["sessions"] + second["sessions"]] == made[::-1]
    assert (len(first["sessions"]), "nextCursor" in second) == (50, False)
    times = [row["updatedAt"] for row in first["sessions"] + second["sessions"]]
    assert times == sorted(times, reverse=True)
    only = agent.call("session/list", {"cwd": str(there)})
    assert [row["sessionId"] for row in only["sessions"]] == made[::10][::-1]
    assert {row["cwd"] for row in only["sessions"]} == {str(there)}
    assert agent.call("session/list", {"cwd": str(tmp_path)}) == {"sessions": []}
    agent.prompt(made[0], "1")
    assert agent.call("session/list", {})["sessions"][0]["sessionId"] == made[0]


def test_a_session_that_comes_or_goes_between_two_pages_neither_hides_nor_repeats_another(
    agent: Agent, tmp_path: Path
) -> None:
    agent.initialize()
    made = [agent.new_session(tmp_path) for _ in range(53)]
    first = agent.call("session/list", {"cwd": str(tmp_path)})
    shown = [row["sessionId"] for row in first["sessions"]]
    for gone in (shown[-1], shown[0], made[0]):
        agent.call("session/delete", {"sessionId": gone})
    agent.new_session(tmp_path)
    second = agent.call("session/list", {"cwd": str(tmp_path), "cursor": first["nextCursor"]})
    assert [row["sessionId"] for row in second["sessions"]] == [made[2], made[1]]


# --- delete -----------------------------------------------------------------------------------------------------------


def test_a_deleted_session_is_gone_for_everybody_and_twice_is_once(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    kept = agent.new_session(tmp_path)
    prompt = agent.begin_prompt(session, "while True: pass")
    agent.until(runs)
    with Agent(tmp_path / "state") as other:
        other.initialize()
        error = other.error("session/delete", {"sessionId": session})
        assert (error["code"], str(agent.process.pid) in error["message"]) == (-32600, True)
        agent.write(b"".join(agent.line("session/delete", {"sessionId": session}, name) for name in "abcd"))
        answers = responses(agent, [prompt, *"abcd"])
        assert reason(answers[prompt]) == "cancelled"
        assert next(iter(answers)) == prompt
        assert [answers[name]["result"] for name in "abcd"] == [{}] * 4
        for unknown in (session, "ses_unknown", "", "../etc"):
            assert agent.call("session/delete", {"sessionId": unknown}) == {}
        for one in (agent, other):
            assert [row["sessionId"] for row in one.call("session/list", {})["sessions"]] == [kept]
            for method in RETURNING:
                params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
                assert one.error(method, params)["code"] == -32002
    assert agent.prompt(kept, "6 * 7") == "end_turn"


def cursor(value: Any) -> str:
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode()


BAD_CURSORS = (
    "nonsense",
    "",
    "é",
    "A" * 100_000,
    cursor([]),
    cursor({}),
    cursor([1]),
    cursor(["x", "y"]),
    cursor([None, "x"]),
    cursor(b"[1" + b"0" * 400 + b', "x"]'),
    cursor(b"[" * 100_000),
    cursor(b'[NaN, "x"]'),
    cursor(b"\xff\xfe"),
)


def test_a_cursor_that_was_never_given_out_is_refused(agent: Agent) -> None:
    agent.initialize()
    for bad in BAD_CURSORS:
        assert agent.error("session/list", {"cursor": bad})["code"] == -32602, bad[:40]


# --- modes and options ------------------------------------------------------------------------------------------------


def test_modes_and_options_change_while_a_statement_runs_and_are_kept(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, gate.source)
    gate.reached()
    assert agent.call("session/set_mode", {"sessionId": session, "modeId": "plan"}) == {}
    params = {"sessionId": session, "configId": "_while_running", "value": "steer"}
    answer = agent.call("session/set_config_option", params)
    expected = {"mode": "plan", "_while_running": "steer"}
    assert {option["id"]: option["currentValue"] for option in answer["configOptions"]} == expected
    gate.release()
    assert reason(agent.response(prompt)) == "end_turn"
    assert agent.updates("current_mode_update") == [
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
    ]
    assert agent.updates("config_option_update")[-1]["configOptions"] == answer["configOptions"]
    agent.call("session/close", {"sessionId": session})
    for method in RETURNING:
        loaded = load(agent, session, tmp_path, method)
        assert loaded["modes"]["currentModeId"] == "plan"
        assert loaded["configOptions"] == answer["configOptions"]
        agent.call("session/close", {"sessionId": session})
    load(agent, session, tmp_path, "session/resume")
    agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
    agent.until(says("auto", "config_option_update"))
    values = {
        option["id"]: option["currentValue"] for option in agent.updates("config_option_update")[-1]["configOptions"]
    }
    assert values == {"mode": "auto", "_while_running": "steer"}


def test_the_mode_is_an_option_too_and_both_are_kept_in_step(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.call("session/set_config_option", {"sessionId": session, "configId": "mode", "value": "auto"})
    agent.seen(says("auto", "config_option_update"))
    assert agent.updates("current_mode_update")[-1]["currentModeId"] == "auto"
    agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
    agent.quiet()


def test_a_mode_an_option_or_a_value_that_there_is_not_is_refused_and_nothing_changes(
    agent: Agent, tmp_path: Path
) -> None:
    session = agent.open(tmp_path)
    agent.seen(says("help", "available_commands_update"))
    for mode in ("yolo", "", "Ask"):
        assert agent.error("session/set_mode", {"sessionId": session, "modeId": mode})["code"] == -32602
    for config, value in (
        ("mode", "yolo"),
        ("_while_running", "ask"),
        ("while_running", "steer"),
        ("_mode", "auto"),
        ("_", "x"),
        ("mode", True),
    ):
        params = {"sessionId": session, "configId": config, "value": value}
        assert agent.error("session/set_config_option", params)["code"] == -32602, config
    for method, params in (
        ("session/set_mode", {"sessionId": "ses_unknown", "modeId": "auto"}),
        ("session/set_config_option", {"sessionId": "ses_unknown", "configId": "mode", "value": "auto"}),
    ):
        assert agent.error(method, params)["code"] == -32002
    agent.quiet()
    agent.call("session/close", {"sessionId": session})
    assert load(agent, session, tmp_path)["modes"]["currentModeId"] == "ask"


# --- permissions ------------------------------------------------------------------------------------------------------


def writer(tmp_path: Path, count: int) -> tuple[str, list[Path]]:
    """A model whose every turn writes one more file."""
    files = [tmp_path / f"written_{number}" for number in range(count)]
    replies = [
        reply for file in files for reply in ({"statement": f"open({str(file)!r}, 'w').close()"}, {"text": "Next."})
    ]
    return scripted(tmp_path, *replies), files


@pytest.mark.parametrize(
    ("option", "questions", "runs_it"),
    [("allow_once", 2, True), ("allow_always", 1, True), ("reject_once", 2, False), ("reject_always", 1, False)],
)
def test_what_the_user_answers_holds_once_or_for_the_session_also_after_a_load(
    tmp_path: Path, option: str, questions: int, runs_it: bool
) -> None:
    model, files = writer(tmp_path, 2)
    with Agent(tmp_path / "state", "--model", model, permission=option) as agent:
        session = agent.open(tmp_path)
        for _ in files:
            assert agent.prompt(session, "write") == "end_turn"
        assert sum(map(asks_permission, agent.received)) == questions
        assert [file.exists() for file in files] == [runs_it] * 2
        statuses = [call["status"] for call in transcript(agent.updates())["calls"].values()]
        assert statuses == ["completed" if runs_it else "failed"] * 2
    for file in files:
        file.unlink(missing_ok=True)
    with Agent(tmp_path / "state", "--model", model, permission=option) as again:
        again.initialize()
        load(again, session, tmp_path)
        assert again.prompt(session, "write") == "end_turn"
        assert sum(map(asks_permission, again.received)) == questions - 1
        assert files[0].exists() is runs_it


def test_a_question_names_the_statement_and_offers_every_kind_of_answer(tmp_path: Path) -> None:
    model, files = writer(tmp_path, 1)
    with Agent(tmp_path / "state", "--model", model, permission=None) as agent:
        session = agent.open(tmp_path)
        prompt = agent.begin_prompt(session, "write")
        question = agent.until(asks_permission)["params"]
        (announced,) = agent.updates("tool_call")
        assert question["toolCall"]["toolCallId"] == announced["toolCallId"]
        assert str(files[0]) in question["toolCall"]["rawInput"]["source"]
        kinds = [option["kind"] for option in question["options"]]
        assert sorted(kinds) == ["allow_always", "allow_once", "reject_always", "reject_once"]
        agent.answer(agent.received[-1], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        assert reason(agent.response(prompt)) == "end_turn"
        assert files[0].exists()


NO_APPROVALS: tuple[dict[str, Any], ...] = (
    {"result": {"outcome": {"outcome": "selected", "optionId": "allow_everything"}}},
    {"result": {"outcome": {"outcome": "selected"}}},
    {"result": {"outcome": {"outcome": "approved", "optionId": "allow_once"}}},
    {"result": {"outcome": "selected"}},
    {"result": {}},
    {"result": None},
    {"error": {"code": -32603, "message": "no user here"}},
    {"error": {"code": -32601, "message": "Method not found"}},
    {"error": "broken"},
)


def test_whatever_is_no_clear_approval_is_none(tmp_path: Path) -> None:
    model, files = writer(tmp_path, 2)
    with Agent(tmp_path / "state", "--model", model, permission=None) as agent:
        agent.initialize()
        for answer in NO_APPROVALS:
            session = agent.new_session(tmp_path)
            agent.permission = None
            prompt = agent.begin_prompt(session, "write")
            question = agent.until(asks_permission)
            agent.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode() + b"\n")
            assert reason(agent.response(prompt)) == "end_turn"
            assert not files[0].exists(), answer
            agent.permission = "allow_once"
            assert agent.prompt(session, "write") == "end_turn"
            assert files[1].exists()
            files[1].unlink()
            agent.call("session/close", {"sessionId": session})


def test_auto_mode_asks_nothing(tmp_path: Path) -> None:
    model, files = writer(tmp_path, 2)
    with Agent(tmp_path / "state", "--model", model, permission=None) as agent:
        session = agent.open(tmp_path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        for file in files:
            assert agent.prompt(session, "write") == "end_turn"
            assert file.exists()
        assert not any(map(asks_permission, agent.received))


def test_plan_mode_refuses_what_changes_files_and_runs_the_rest(agent: Agent, tmp_path: Path) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.write_text("as it was")
    session = agent.open(tmp_path)
    agent.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
    for source in (
        f"open({str(new)!r}, 'w').write('x')",
        f"open({str(kept)!r}, 'w').write('x')",
        f"import os; os.remove({str(kept)!r})",
        f"import os; os.rename({str(kept)!r}, {str(new)!r})",
        f"import subprocess; subprocess.run(['touch', {str(new)!r}])",
        f"import os; os.system('touch {new}')",
        f"import pathlib; pathlib.Path({str(new)!r}).mkdir()",
    ):
        agent.prompt(session, source)
        last = agent.updates("tool_call_update")[-1]
        assert (last["status"], last["rawOutput"]["exception"]["type"]) == ("failed", "PermissionError"), source
    assert (kept.read_text(), new.exists()) == ("as it was", False)
    agent.prompt(session, f"sum(range(10)), open({str(kept)!r}).read()")
    assert last_value(agent) == "(45, 'as it was')"
    agent.call("session/set_mode", {"sessionId": session, "modeId": "ask"})
    agent.prompt(session, f"open({str(new)!r}, 'w').write('x')")
    assert new.read_text() == "x"


# --- steering and follow-ups ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_option", [False, True])
def test_a_steer_joins_the_run_and_is_answered_with_it(tmp_path: Path, gate: Gate, by_option: bool) -> None:
    model = scripted(tmp_path, {"statement": gate.source}, {"text": "Steered."}, {"text": "Never asked for."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(tmp_path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        if by_option:
            params = {"sessionId": session, "configId": "_while_running", "value": "steer"}
            agent.call("session/set_config_option", params)
        prompt = agent.begin_prompt(session, "go")
        gate.reached()
        steer = agent.begin("session/prompt", prompt_params(session, "left", None if by_option else "steer"))
        gate.release()
        answers = responses(agent, [prompt, steer])
        assert {reason(answer) for answer in answers.values()} == {"end_turn"}
        assert agent.text() == "Steered."
    messages = [event for event in logged(tmp_path / "state", session) if event["kind"] == "user_message"]
    assert [message["text"] for message in messages] == ["go", "left"]
    assert messages[1]["prompt_kind"] == "steer"


def test_a_steer_during_the_last_reply_has_the_model_called_again(tmp_path: Path) -> None:
    first = {"text": "abcdefghij" * 5, "chunk": 1, "pause": 0.01}
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, first, {"text": "Again."})) as agent:
        session = agent.open(tmp_path)
        prompt = agent.begin_prompt(session, "go")
        agent.until(says("a"))
        steer = agent.begin("session/prompt", prompt_params(session, "left", "steer"))
        answers = responses(agent, [prompt, steer])
        assert {reason(answer) for answer in answers.values()} == {"end_turn"}
        assert agent.text() == first["text"] + "Again."


def test_a_cancel_answers_the_steers_too(tmp_path: Path, gate: Gate) -> None:
    model = scripted(tmp_path, {"statement": gate.source}, {"text": "Never."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(tmp_path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        prompt = agent.begin_prompt(session, "go")
        gate.reached()
        steer = agent.begin("session/prompt", prompt_params(session, "left", "steer"))
        queued = agent.begin("session/prompt", prompt_params(session, "later", "followUp"))
        agent.notify("session/cancel", {"sessionId": session})
        answers = responses(agent, [prompt, steer, queued])
        assert {reason(answer) for answer in answers.values()} == {"cancelled"}
        agent.quiet()
        assert agent.text() == ""


def test_a_steer_while_nothing_runs_is_a_prompt(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    assert agent.call("session/prompt", prompt_params(session, "6 * 7", "steer")) == {"stopReason": "end_turn"}
    assert last_value(agent) == "42"
    assert agent.error("session/prompt", prompt_params(session, "1", "sideways"))["code"] == -32602


def test_follow_ups_run_in_order_whatever_the_option_says(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    params = {"sessionId": session, "configId": "_while_running", "value": "steer"}
    agent.call("session/set_config_option", params)
    prompt = agent.begin_prompt(session, f"n = []; {gate.source}")
    gate.reached()
    later = [
        agent.begin("session/prompt", prompt_params(session, f"n.append({number}); n", "followUp"))
        for number in range(5)
    ]
    gate.release()
    answers = responses(agent, [prompt, *later])
    assert list(answers) == [prompt, *later]
    assert last_value(agent) == "[0, 1, 2, 3, 4]"


def test_more_prompts_than_may_wait_are_refused_and_the_others_run(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, f"n = 0; {gate.source}")
    gate.reached()
    waiting = [agent.begin_prompt(session, "n += 1; n") for _ in range(40)]
    gate.release()
    answers = responses(agent, [prompt, *waiting], 30)
    refused = [answer for answer in answers.values() if "error" in answer]
    assert {answer["error"]["code"] for answer in refused} == {-32600}
    assert last_value(agent) == str(40 - len(refused)) == "32"


# --- titles and commands ----------------------------------------------------------------------------------------------


def titles(agent: Agent) -> list[Any]:
    return [update for update in agent.updates("session_info_update") if "title" in update]


def test_a_session_is_named_once_after_its_first_prompt(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "/help")
    assert titles(agent) == []
    agent.prompt(session, "\n  # count to three\n[1, 2, 3]")
    agent.prompt(session, "another = 1")
    (info,) = titles(agent)
    assert info["title"] == "# count to three"
    (row,) = agent.call("session/list", {})["sessions"]
    assert (row["sessionId"], row["title"], row["cwd"]) == (session, "# count to three", str(tmp_path))
    agent.call("session/close", {"sessionId": session})
    load(agent, session, tmp_path)
    assert titles(agent) == [info, info]
    agent.prompt(session, "a_third = 1")
    assert titles(agent) == [info, info]


def test_commands_are_answered_while_a_statement_runs(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "x = 1")
    prompt = agent.begin_prompt(session, gate.source)
    gate.reached()
    for command, expected in (("/timeline", "(running)"), ("/context", "As of statement 1."), ("/help", "/timeline")):
        before = len(agent.text())
        assert agent.prompt(session, command) == "end_turn"
        assert expected in agent.text()[before:], command
    gate.release()
    assert reason(agent.response(prompt)) == "end_turn"


def test_a_commands_answer_precedes_its_response_while_a_statement_prints(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    stop = tmp_path / "stop"
    printing = (
        f"import os, time\nwhile not os.path.exists({str(stop)!r}):\n    print('.', flush=True); time.sleep(0.001)"
    )
    prompt = agent.begin_prompt(session, printing)
    agent.until(runs)
    for _ in range(8):
        before = len(agent.text())
        assert agent.prompt(session, "/help") == "end_turn"
        assert "/timeline" in agent.text()[before:]
    stop.touch()
    assert reason(agent.response(prompt)) == "end_turn"
