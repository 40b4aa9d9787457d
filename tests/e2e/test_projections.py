"""What a model call was sent is made again exactly, from the log, also after condensations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.context.models.provider import ProviderModel
from engine.context.models.providers import route_to
from engine.context.tail.sent_prompts import SentProjections, prompt_of
from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.events import Event
from engine.log.events.conversation import Condensation
from engine.log.events.session import ProjectionSent
from engine.log.store import open_store
from tests.support.agents import SECONDS, Agent
from tests.support.llm_answers import ANSWERS
from tests.support.llm_server import Answer, llm_server

pytestmark = pytest.mark.slow
SUMMING_UP = "You are handing your work over to yourself"
"""What a request for a summary says, which is no call of the session's."""
STATEMENTS = [
    "a = view('a.txt', freq='Sync', tokens=500)",
    "print('huge ' * 6_000)",
    "open('a.txt', 'w').write('changed')",
    *("print('word ' * 700)" for _ in range(7)),
]
SPECS = {"chat": "provider:openai-chat:gpt-5", "anthropic": "provider:anthropic:claude-opus-4-8"}


def answers(kind: str) -> list[Answer]:
    """A statement in each reply, then the end of the turn."""
    make = ANSWERS[kind]
    asked = [make("So.", json.dumps({"source": source}), f"call_{n}") for n, source in enumerate(STATEMENTS)]
    # More than the turn needs, because each request for a summary takes one.
    return [*asked, *(make("Done.") for _ in range(9))]


def show(state: Path, session: str, *arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "rewindow"), "show", session, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env={**os.environ, "REWINDOW_STATE_DIR": str(state)}
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.mark.parametrize("kind", SPECS)
def test_what_a_server_received_is_made_again_from_the_log(tmp_path: Path, kind: str) -> None:
    state, project = tmp_path / "state", tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n" * 100)
    with llm_server(*answers(kind)) as served:
        environment = {**served.environment(), "REWINDOW_CONTEXT_BUDGET": "6000"}
        with Agent(state, "--model", SPECS[kind], env=environment) as agent:
            session = agent.open(project)
            assert agent.prompt(session, "count the words", seconds=60) == "end_turn"
            assert agent.prompt(session, "/context") == "end_turn"
            assert "The next model call would send " in agent.text()
        received = [asked.body for asked in served.asked if SUMMING_UP not in json.dumps(asked.body)]
    assert len(received) < len(served.asked)
    again, calls = anyio.run(sent_again, state, session, kind)
    assert again == received
    assert any(call.shortened for call in calls)
    for call in (calls[0], calls[-1]):
        number = str(calls.index(call) + 1)
        shown = json.loads(show(state, session, "--projection", number, "--json"))
        assert (shown["tokens"]["used"], shown["answered"]) == (call.used, True)
        text = show(state, session, "--projection", number)
        body = json.dumps(received[calls.index(call)], ensure_ascii=False)
        for part in (shown["instructions"], shown["tail"], *(message["text"] for message in shown["messages"])):
            assert json.dumps(part.strip(), ensure_ascii=False)[1:-1] in body
            assert part.strip() in text


async def sent_again(state: Path, session: str, kind: str) -> tuple[list[dict[str, Any]], list[ProjectionSent]]:
    store = open_store(state, SystemClock())
    log = store.load(SessionId(session))
    assert any(isinstance(event, Condensation) for event in log)
    sent = SentProjections()
    for event in log:
        sent.apply(event)
    with llm_server(*answers(kind)) as served, pytest.MonkeyPatch.context() as patch, anyio.fail_after(SECONDS):
        for name, value in served.environment().items():
            patch.setenv(name, value)
        model = ProviderModel(route_to(SPECS[kind].removeprefix("provider:"), os.environ))
        for call in sent.calls:
            prompt = prompt_of(call, sent.messages_of(call), log, store.blob_get)
            assert [signal async for signal in model.reply(prompt)]
        await model.aclose()
    store.close()
    return [asked.body for asked in served.asked], list(sent.calls)


def test_call_interrupted_by_a_kill_can_be_shown(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with llm_server(Answer(hang=True)) as served:
        with Agent(state, "--model", SPECS["chat"], env=served.environment()) as agent:
            session = agent.open(tmp_path)
            agent.begin_prompt(session, "what is seven times six?")
            assert served.hanging.wait(SECONDS)
            until_on_disk(state, session, ProjectionSent)  # which is committed beside the request
            agent.kill()
        (asked,) = served.asked
        text = show(state, session, "--projection", "1")
        assert "Whether it was answered is not known: the agent was ended" in text
        shown = json.loads(show(state, session, "--projection", "1", "--json"))
        with Agent(state, "--model", SPECS["chat"], env=served.environment()) as agent:
            agent.initialize()
            agent.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    body = json.dumps(asked.body, ensure_ascii=False)
    assert shown["answered"] is None
    assert [message["text"] for message in shown["messages"]] == ["what is seven times six?"]
    for part in (shown["instructions"], *(message["text"] for message in shown["messages"])):
        assert json.dumps(part.strip(), ensure_ascii=False)[1:-1] in body
    assert json.loads(show(state, session, "--projection", "1", "--json")) == shown


def until_on_disk(state: Path, session: str, kind: type[Event]) -> None:
    store, deadline = open_store(state, SystemClock()), time.monotonic() + SECONDS
    while not any(isinstance(event, kind) for event in store.load(SessionId(session))):
        assert time.monotonic() < deadline
    store.close()


def test_a_trivial_turn_sends_less_than_six_kilobytes(tmp_path: Path) -> None:
    with llm_server(ANSWERS["chat"]("Hi.")) as served:
        with Agent(tmp_path / "state", "--model", SPECS["chat"], env=served.environment()) as agent:
            assert agent.prompt(agent.open(tmp_path), "hello") == "end_turn"
        (asked,) = served.asked
    assert len(json.dumps(asked.body).encode()) < 6 * 1024
