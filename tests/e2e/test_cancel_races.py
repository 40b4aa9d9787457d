"""A cancel against all it can meet: the turn ends as cancelled, nothing follows, and the next prompt is fine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.agents import Agent
from tests.support.scripts import (
    Gate,
    asks_permission,
    assert_at_rest,
    assert_cancelled,
    assert_gone,
    family,
    last_value,
    load,
    logged,
    prompt_params,
    reason,
    responses,
    runs,
    says,
    scripted,
    update_in,
    workers,
)

RUNAWAY = "while True:\n    pass"
UNINTERRUPTIBLE = "sum(range(10**13))"
"""Inside of C, where a signal is only remembered."""

OFFSETS = [step / 1000 for step in (0, 1, 2, 3, 4, 5, 6, 8, 12, 17, 30)]
"""Seconds from a prompt to its cancel, counted from the outside: the moments of a turn that no message announces."""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.release()


def cancel(session: str) -> dict[str, Any]:
    return {"sessionId": session}


def assert_works(agent: Agent, session: str, source: str = "6 * 7", value: str = "42") -> None:
    assert agent.prompt(session, source) == "end_turn"
    assert last_value(agent) == value


# --- before anything runs ---------------------------------------------------------------------------------------------


def test_prompt_and_cancel_in_one_write_as_the_very_first_of_a_session(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.write(
        agent.line("session/prompt", prompt_params(session, RUNAWAY), "p")
        + agent.line("session/cancel", cancel(session))
    )
    assert_cancelled(agent, "p")
    assert_works(agent, session)


def test_prompt_and_cancel_right_after_the_session_was_opened(agent: Agent, tmp_path: Path) -> None:
    agent.initialize()
    for number, offset in enumerate(OFFSETS[::3]):
        session = agent.new_session(tmp_path)
        agent.write(agent.line("session/prompt", prompt_params(session, RUNAWAY), f"p{number}"))
        time.sleep(offset)
        agent.notify("session/cancel", cancel(session))
        assert reason(agent.response(f"p{number}")) == "cancelled"
        assert_works(agent, session)
        agent.call("session/close", {"sessionId": session})


def test_a_cancel_at_any_moment_of_a_runaway_statement_ends_it(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "n = 0")
    for number, offset in enumerate(OFFSETS):
        prompt = agent.begin_prompt(session, f"while True:\n    m = {number}")
        time.sleep(offset)
        agent.notify("session/cancel", cancel(session))
        assert reason(agent.response(prompt)) == "cancelled"
        assert_works(agent, session, "n += 1; n", str(number + 1))
    assert_at_rest(agent)


def test_prompt_and_cancel_in_one_write_many_times_over(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "1")
    for number in range(10):
        agent.write(
            agent.line("session/prompt", prompt_params(session, RUNAWAY), f"p{number}")
            + agent.line("session/cancel", cancel(session))
            + agent.line("session/prompt", prompt_params(session, f"{number} + 1"), f"q{number}")
        )
        answers = responses(agent, [f"p{number}", f"q{number}"])
        assert [reason(answers[f"{name}{number}"]) for name in "pq"] == ["cancelled", "end_turn"]
        assert last_value(agent) == str(number + 1)
    assert_at_rest(agent)


# --- while the model answers ------------------------------------------------------------------------------------------


def test_cancel_before_the_models_first_token(tmp_path: Path) -> None:
    model = scripted(tmp_path, *[{"text": "too late", "pause": 60}] * 4)
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(tmp_path)
        for offset in (0, 0.01, 0.05, 0.3):
            prompt = agent.begin_prompt(session, "go")
            time.sleep(offset)
            agent.notify("session/cancel", cancel(session))
            assert reason(agent.response(prompt)) == "cancelled"
        assert_at_rest(agent)
        assert agent.text() == ""
        assert_answers(agent, session)


def test_cancel_at_any_moment_of_a_stream_keeps_exactly_what_was_sent(tmp_path: Path) -> None:
    replies = [{"text": "abcdefghij" * 100, "chunk": 1, "pause": 0.001} for _ in (*OFFSETS, None)]
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, *replies)) as agent:
        session = agent.open(tmp_path)
        for offset in OFFSETS:
            prompt = agent.begin_prompt(session, "go")
            time.sleep(offset)
            agent.notify("session/cancel", cancel(session))
            assert reason(agent.response(prompt)) == "cancelled"
        # On a busy machine the moments above are all before the first piece, and this one is not.
        prompt = agent.begin_prompt(session, "go")
        agent.until(says(""))
        agent.notify("session/cancel", cancel(session))
        assert reason(agent.response(prompt)) == "cancelled"
        assert_at_rest(agent)
        sent = agent.text()
        assert sent
        texts = [event["text"] for event in logged(tmp_path / "state", session) if event["kind"] == "agent_text"]
        assert "".join(texts) == sent
        assert_answers(agent, session)


def assert_answers(agent: Agent, session: str) -> None:
    before = len(agent.text())
    assert agent.prompt(session, "/help") == "end_turn"
    assert "/timeline" in agent.text()[before:]


# --- while a statement runs -------------------------------------------------------------------------------------------


def test_cancel_while_a_statement_waits_in_a_system_call(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, f"before = 5\n{gate.source}\nafter = 6")
    gate.reached()
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, prompt)
    assert agent.updates("tool_call_update")[-1]["status"] == "failed"
    assert_works(agent, session, "before, 'after' in globals()", "(5, False)")


def test_cancel_of_a_loop_in_c_kills_the_worker_and_names_come_back(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = [1, 2]; also = kept")
    prompt = agent.begin_prompt(session, f"half = 1\n{UNINTERRUPTIBLE}")
    agent.until(runs)
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, prompt)
    assert_works(agent, session, "kept is also, kept, 'half' in globals()", "(True, [1, 2], False)")


def test_cancel_of_a_statement_that_refuses_to_be_interrupted(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = 1")
    stubborn = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    prompt = agent.begin_prompt(session, stubborn)
    agent.until(runs)
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, prompt)
    assert_works(agent, session, "kept", "1")


# --- while the user is asked ------------------------------------------------------------------------------------------


def asked(tmp_path: Path) -> tuple[Agent, Path]:
    touched = tmp_path / "touched"
    model = scripted(tmp_path, {"statement": f"open({str(touched)!r}, 'w').close()"}, {"text": "fine"})
    return Agent(tmp_path / "state", "--model", model, permission=None), touched


@pytest.mark.parametrize("answered", ["cancelled first", "cancelled", "allowed late", "allowed after the end", "never"])
def test_cancel_while_a_permission_is_pending(tmp_path: Path, answered: str) -> None:
    agent, touched = asked(tmp_path)
    with agent:
        session = agent.open(tmp_path)
        prompt = agent.begin_prompt(session, "go")
        question = agent.until(asks_permission)
        cancelled = {"outcome": {"outcome": "cancelled"}}
        allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        if answered == "cancelled first":
            agent.notify("session/cancel", cancel(session))
            agent.answer(question, cancelled)
        elif answered == "cancelled":
            agent.notify("session/cancel", cancel(session))
            agent.until(lambda message: message.get("method") == "$/cancel_request")
            agent.answer(question, cancelled)
        else:
            agent.notify("session/cancel", cancel(session))
            if answered == "allowed late":
                agent.answer(question, allowed)
        assert_cancelled(agent, prompt)
        withdrawn = [message for message in agent.received if message.get("method") == "$/cancel_request"]
        assert [message["params"]["requestId"] for message in withdrawn] in ([], [question["id"]])
        if answered == "allowed after the end":
            agent.answer(question, allowed)
        assert agent.prompt(session, "again") == "end_turn"
        assert agent.text() == "fine"
        assert not touched.exists()


def test_cancel_in_the_same_write_as_the_permission(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"statement": RUNAWAY}, {"text": "fine"})
    with Agent(tmp_path / "state", "--model", model, permission=None) as agent:
        session = agent.open(tmp_path)
        prompt = agent.begin_prompt(session, "go")
        question = agent.until(asks_permission)
        agent.answer(question, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        agent.notify("session/cancel", cancel(session))
        assert_cancelled(agent, prompt)
        assert agent.prompt(session, "again") == "end_turn"


# --- while the namespace is rebuilt -----------------------------------------------------------------------------------


def with_slow_history(agent: Agent, tmp_path: Path, gate: Gate) -> str:
    """A session whose second statement waits at the gate again whenever it is rebuilt."""
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = 41")
    prompt = agent.begin_prompt(session, gate.source)
    gate.pass_one()
    assert reason(agent.response(prompt)) == "end_turn"
    return session


def assert_rebuilt(agent: Agent, session: str, gate: Gate) -> None:
    prompt = agent.begin_prompt(session, "kept + 1")
    gate.pass_one()
    assert reason(agent.response(prompt)) == "end_turn"
    assert last_value(agent) == "42"


def lose_worker(agent: Agent) -> None:
    """Kills the idle worker: whatever needs it next has it rebuilt."""
    (worker,) = workers(agent)
    worker.kill()
    assert_gone([worker])


@pytest.mark.parametrize(
    "text", ["kept + 1", "/context", *(pytest.param(each, marks=pytest.mark.slow) for each in ("/views", "/tick"))]
)
def test_cancel_while_the_namespace_is_rebuilt_for_it(agent: Agent, tmp_path: Path, gate: Gate, text: str) -> None:
    session = with_slow_history(agent, tmp_path, gate)
    lose_worker(agent)
    prompt = agent.begin_prompt(session, text)
    gate.reached()
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, prompt)
    gate.release()
    assert_rebuilt(agent, session, gate)


def test_cancel_while_the_namespace_is_rebuilt_after_a_statement_that_ended_its_process(
    agent: Agent, tmp_path: Path, gate: Gate
) -> None:
    session = with_slow_history(agent, tmp_path, gate)
    # Only where it is run for the first time, so that the history can be run again at once.
    flag = tmp_path / "died"
    flag.touch()
    prompt = agent.begin_prompt(session, f"import os; os.path.exists({str(flag)!r}) and os._exit(1)")
    agent.until(lambda message: update_in(message).get("status") == "failed")
    flag.unlink()
    gate.reached()
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, prompt)
    gate.release()
    assert_rebuilt(agent, session, gate)


def test_cancel_while_the_namespace_is_rebuilt_for_an_attachment(tmp_path: Path, gate: Gate) -> None:
    with Agent(tmp_path / "state") as first:
        session = with_slow_history(first, tmp_path, gate)
    attached = {"type": "resource", "resource": {"uri": "mem://notes", "text": "notes"}}
    with Agent(tmp_path / "state") as agent:
        agent.initialize()
        load(agent, session, tmp_path)
        content = [{"type": "text", "text": "kept + 1"}, attached]
        prompt = agent.begin("session/prompt", {"sessionId": session, "prompt": content})
        agent.until(runs)
        gate.reached()
        agent.notify("session/cancel", cancel(session))
        assert_cancelled(agent, prompt)
        gate.release()
        assert_rebuilt(agent, session, gate)


@pytest.mark.parametrize("text", ["kept + 1", "/context"])
def test_cancel_while_a_loaded_session_is_rebuilt(tmp_path: Path, gate: Gate, text: str) -> None:
    with Agent(tmp_path / "state") as first:
        session = with_slow_history(first, tmp_path, gate)
    with Agent(tmp_path / "state") as agent:
        agent.initialize()
        load(agent, session, tmp_path)
        agent.until(says("help", "available_commands_update"))
        prompt = agent.begin_prompt(session, text)
        gate.reached()
        agent.notify("session/cancel", cancel(session))
        assert_cancelled(agent, prompt)
        gate.release()
        assert_rebuilt(agent, session, gate)


# --- cancels that come twice, late or for nothing ---------------------------------------------------------------------


def test_a_second_cancel_changes_nothing(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    line = agent.line("session/cancel", cancel(session))
    for source in (RUNAWAY, UNINTERRUPTIBLE):
        prompt = agent.begin_prompt(session, source)
        agent.until(runs)
        agent.write(line + line)
        time.sleep(0.01)  # so that the third comes in another read, and inside of the grace
        agent.write(line)
        assert_cancelled(agent, prompt)
        agent.write(line)
        assert_works(agent, session)


def test_a_stale_cancel_never_hits_the_next_turn(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "n = 0")
    stale = agent.line("session/cancel", cancel(session))
    for number, offset in enumerate(OFFSETS):
        first = agent.begin_prompt(session, "'short'")
        time.sleep(offset)
        agent.write(stale + agent.line("session/prompt", prompt_params(session, "n += 1; n"), f"q{number}"))
        answers = responses(agent, [first, f"q{number}"])
        assert reason(answers[first]) in ("end_turn", "cancelled")
        assert reason(answers[f"q{number}"]) == "end_turn"
        assert last_value(agent) == str(number + 1)
    assert_at_rest(agent)


def test_a_stale_cancel_after_a_killed_worker_never_hits_the_next_turn(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, UNINTERRUPTIBLE)
    agent.until(runs)
    agent.notify("session/cancel", cancel(session))
    assert reason(agent.response(prompt)) == "cancelled"
    agent.write(
        agent.line("session/cancel", cancel(session))
        + agent.line("session/prompt", prompt_params(session, "6 * 7"), "q")
    )
    assert reason(agent.response("q")) == "end_turn"
    assert last_value(agent) == "42"


def test_a_cancel_for_an_idle_or_an_unknown_session_is_ignored(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    assert_works(agent, session)
    agent.notify("session/cancel", cancel(session))
    agent.notify("session/cancel", cancel("ses_unknown"))
    assert_at_rest(agent)
    assert_works(agent, session)


# --- queued prompts ---------------------------------------------------------------------------------------------------


def test_a_cancel_answers_every_prompt_that_waits_and_none_of_them_runs(
    agent: Agent, tmp_path: Path, gate: Gate
) -> None:
    session = agent.open(tmp_path)
    running = agent.begin_prompt(session, gate.source)
    gate.reached()
    waiting = [agent.begin_prompt(session, f"ran_{number} = True") for number in range(6)]
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, running, *waiting)
    assert_works(agent, session, "[name for name in globals() if name.startswith('ran_')]", "[]")
    kinds = [event["kind"] for event in logged(tmp_path / "state", session)]
    assert (kinds.count("prompt_queued"), kinds.count("prompt_withdrawn")) == (6, 6)


def test_cancel_request_of_a_running_prompt_lets_the_queue_go_on(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    running = agent.begin_prompt(session, RUNAWAY)
    agent.until(runs)
    waiting = agent.begin_prompt(session, "6 * 7")
    agent.notify("$/cancel_request", {"requestId": running})
    answers = responses(agent, [running, waiting])
    assert [reason(answers[name]) for name in (running, waiting)] == ["cancelled", "end_turn"]
    assert last_value(agent) == "42"
    assert_at_rest(agent)


def test_cancel_request_of_a_queued_prompt_withdraws_that_one_alone(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    running = agent.begin_prompt(session, f"n = 1; {gate.source}")
    gate.reached()
    second, third, fourth = (agent.begin_prompt(session, f"n = (n, {number})") for number in (2, 3, 4))
    agent.notify("$/cancel_request", {"requestId": third})
    assert reason(agent.response(third)) == "cancelled"
    gate.release()
    answers = responses(agent, [running, second, fourth])
    assert list(answers) == [running, second, fourth]
    assert {reason(answer) for answer in answers.values()} == {"end_turn"}
    assert_works(agent, session, "n", "((1, 2), 4)")


def test_prompt_and_cancel_request_in_one_write(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    for number in range(8):
        agent.write(
            agent.line("session/prompt", prompt_params(session, RUNAWAY), f"p{number}")
            + agent.line("$/cancel_request", {"requestId": f"p{number}"})
        )
        assert reason(agent.response(f"p{number}")) == "cancelled"
    assert_at_rest(agent)
    assert_works(agent, session)


def test_cancel_request_of_what_was_answered_or_never_asked_is_ignored(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    done = agent.begin_prompt(session, "1")
    assert reason(agent.response(done)) == "end_turn"
    for request_id in (done, str(done), 999, None, [1], {"a": 1}):
        agent.notify("$/cancel_request", {"requestId": request_id})
    assert_at_rest(agent)
    assert_works(agent, session)


# --- close and the end of input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [RUNAWAY, UNINTERRUPTIBLE])
def test_close_answers_the_running_prompt_first_and_twice_is_once(agent: Agent, tmp_path: Path, source: str) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = 1")
    prompt = agent.begin_prompt(session, source)
    agent.until(runs)
    waiting = agent.begin_prompt(session, "kept = 2")
    line = agent.line("session/close", {"sessionId": session}, "c1")
    agent.write(line + agent.line("session/close", {"sessionId": session}, "c2"))
    answers = responses(agent, [prompt, waiting, "c1", "c2"])
    assert {reason(answers[name]) for name in (prompt, waiting)} == {"cancelled"}
    assert set(list(answers)[:2]) == {prompt, waiting}
    assert (answers["c1"]["result"], answers["c2"]["result"]) == ({}, {})
    assert_at_rest(agent, sessions=0)
    load(agent, session, tmp_path)
    assert_works(agent, session, "kept", "1")


def test_a_prompt_that_comes_while_the_session_closes_does_not_keep_it_open(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, UNINTERRUPTIBLE)
    agent.until(runs)
    closing = agent.begin("session/close", {"sessionId": session})
    time.sleep(0.1)  # inside of the grace that the statement has
    late = agent.begin_prompt(session, RUNAWAY)
    answers = responses(agent, [prompt, late, closing], 8)
    assert reason(answers[prompt]) == "cancelled"
    assert "error" in answers[late] or reason(answers[late]) == "cancelled"
    assert answers[closing]["result"] == {}
    assert_at_rest(agent, sessions=0)


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_session_that_is_loaded_while_it_closes_is_there_afterwards(
    agent: Agent, tmp_path: Path, method: str
) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = 41")
    for number in range(3):
        agent.begin_prompt(session, RUNAWAY)
        agent.until(runs)
        params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        agent.write(
            agent.line("session/close", {"sessionId": session}, f"c{number}") + agent.line(method, params, f"l{number}")
        )
        answers = responses(agent, [f"c{number}", f"l{number}"])
        assert answers[f"c{number}"]["result"] == {}
        assert "result" in answers[f"l{number}"], answers
        assert_works(agent, session, "kept + 1", "42")


def runaway(agent: Agent, session: str) -> None:
    agent.begin_prompt(session, RUNAWAY)
    agent.until(runs)


def loop_in_c(agent: Agent, session: str) -> None:
    agent.begin_prompt(session, UNINTERRUPTIBLE)
    agent.until(runs)


def queue(agent: Agent, session: str) -> None:
    runaway(agent, session)
    for _ in range(5):
        agent.begin_prompt(session, RUNAWAY)


def nothing_yet(agent: Agent, session: str) -> None:
    agent.begin_prompt(session, RUNAWAY)


@pytest.mark.parametrize("under_way", [runaway, loop_in_c, queue, nothing_yet])
def test_the_end_of_input_ends_everything_within_seconds_and_answers_every_prompt(
    tmp_path: Path, under_way: Callable[[Agent, str], None]
) -> None:
    agent = Agent(tmp_path / "state")
    session = agent.open(tmp_path)
    under_way(agent, session)
    processes = family(psutil.Process(agent.process.pid))
    started = time.monotonic()
    assert agent.close() == 0
    assert time.monotonic() - started < 6
    assert_gone(processes)
    said: list[dict[str, Any]] = []
    while (message := agent.next()) is not None:
        said.append(message)
    prompts = [message for message in said if "stopReason" in (message.get("result") or {})]
    assert len(prompts) == (6 if under_way is queue else 1)
    assert {reason(message) for message in prompts} == {"cancelled"}
    assert said[-1] in prompts


def test_the_end_of_input_while_a_permission_is_pending(tmp_path: Path) -> None:
    agent, touched = asked(tmp_path)
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, "go")
    agent.until(asks_permission)
    assert agent.close() == 0
    assert reason(agent.response(prompt)) == "cancelled"
    assert not touched.exists()


def test_the_end_of_input_while_the_namespace_is_rebuilt(tmp_path: Path, gate: Gate) -> None:
    agent = Agent(tmp_path / "state")
    session = with_slow_history(agent, tmp_path, gate)
    lose_worker(agent)
    prompt = agent.begin_prompt(session, "kept")
    gate.reached()
    processes = family(psutil.Process(agent.process.pid))
    assert agent.close() == 0
    assert reason(agent.response(prompt)) == "cancelled"
    assert_gone(processes)
