"""A system prompt of the client: added to the model's instructions, and kept with the session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.session.registry import INSTRUCTION_CHARS
from tests.support.agents import SECONDS, Agent
from tests.support.scripts import logged, scripted

SECRET = "kN4vB8wQ2xZ7"
FRENCH = "Answer in French, always."


def block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def appended(*texts: str) -> dict[str, Any]:
    return {"systemPrompt": {"mode": "append", "content": [block(text) for text in texts]}}


def instructions(state: Path, session: str, call: int) -> str:
    """The instructions that a model call was sent."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "rewindow"), "show", session, "--projection", str(call), "--json"],
        capture_output=True,
        check=True,
        timeout=SECONDS,
        env={**os.environ, "REWINDOW_STATE_DIR": str(state)},
    )
    return str(json.loads(done.stdout)["instructions"])


class Editor:
    """A client of one version of the protocol."""

    def __init__(self, agent: Agent, version: int, cwd: Path) -> None:
        self.agent = agent
        self.version = version
        self.where: dict[str, Any] = {"cwd": str(cwd), "mcpServers": []}
        self.offered = agent.initialize() if version == 1 else agent.initialize_2()

    def prompt(self, session: str) -> None:
        (self.agent.prompt if self.version == 1 else self.agent.work)(session, "go")

    def new(self, **more: Any) -> str:
        return str(self.agent.call("session/new", {**self.where, **more})["sessionId"])

    def load(self, session: str, **more: Any) -> None:
        method = "session/load" if self.version == 1 else "session/resume"
        self.agent.call(method, {"sessionId": session, **self.where, **more})

    def fork(self, session: str, **more: Any) -> str:
        return str(self.agent.call("session/fork", {"sessionId": session, **self.where, **more})["sessionId"])


VERSIONS = pytest.mark.parametrize("version", [1, 2])


@VERSIONS
def test_a_system_prompt_is_kept_with_the_session(tmp_path: Path, project: Path, version: int) -> None:
    (project / "AGENTS.md").write_text("Write tests first.")
    model, state = scripted(tmp_path, {"statement": "1"}, *[{"text": "Oui."}] * 8), tmp_path / "state"
    with Agent(state, "--model", model, env={"MY_TOKEN": SECRET}) as agent:
        editor = Editor(agent, version, project)
        path = ("agentCapabilities", "sessionCapabilities") if version == 1 else ("capabilities", "session")
        assert editor.offered[path[0]][path[1]]["systemPrompt"] == {}
        session = editor.new(**appended(FRENCH, f"The key is {SECRET}."))
        editor.prompt(session)
        first = instructions(state, session, 1)
        assert first.index("Write tests first.") < first.index(FRENCH) < first.index("The key is ")
        assert SECRET not in first
        assert first.index("You work in the user's project by running Python.") == 0
        fork = editor.fork(session)
        editor.prompt(fork)
        assert FRENCH in instructions(state, fork, 3)
    model = scripted(project, *[{"text": "Oui."}] * 3)
    with Agent(state, "--model", model, env={"MY_TOKEN": SECRET}) as again:
        editor = Editor(again, version, project)
        editor.load(session)
        editor.prompt(session)
        assert instructions(state, session, 3) == first
        latin = appended("Answer in Latin.", f"The key is {SECRET}.")
        editor.load(session, **latin)
        editor.load(session, **latin)
        editor.prompt(session)
        assert [event["kind"] for event in logged(state, session)].count("instructions_given") == 2
        fourth = instructions(state, session, 4)
        assert ("Answer in Latin." in fourth, FRENCH in fourth) == (True, False)
        (again.prompt if version == 1 else again.work)(session, "/rewind 0")  # to before the second one
        fork = editor.fork(session)
        editor.prompt(fork)
        assert "Answer in Latin." in instructions(state, fork, 1)


@VERSIONS
@pytest.mark.parametrize("meta", [FRENCH, {"append": FRENCH}], ids=["text", "append"])
def test_a_system_prompt_in_meta_is_added(tmp_path: Path, project: Path, version: int, meta: object) -> None:
    model, state = scripted(tmp_path, {"text": "Oui."}), tmp_path / "state"
    with Agent(state, "--model", model) as agent:
        editor = Editor(agent, version, project)
        session = editor.new(_meta={"systemPrompt": meta})
        editor.prompt(session)
        text = instructions(state, session, 1)
        assert text.startswith("You work in the user's project")
        assert text.rstrip().endswith(FRENCH)


@VERSIONS
def test_a_system_prompt_that_cannot_be_applied_opens_no_session(tmp_path: Path, project: Path, version: int) -> None:
    state = tmp_path / "state"
    with Agent(state) as agent:
        editor = Editor(agent, version, project)
        image = {"type": "image", "data": "", "mimeType": "image/png"}
        for given in (
            {"mode": "override", "content": [block("Forget it.")]},
            {"mode": "_other", "content": [block("Forget it.")]},
            {"mode": "append", "content": []},
            {"mode": "append", "content": [block("a"), image]},
            {"mode": "append"},
            {"mode": "append", "content": [block("x" * (INSTRUCTION_CHARS + 1))]},
            7,
        ):
            error = agent.error("session/new", {**editor.where, "systemPrompt": given})
            assert (error["code"], "systemPrompt" in error["message"] or "system prompt" in error["message"]) == (
                -32602,
                True,
            )
        session = editor.new(systemPrompt=None, _meta={"systemPrompt": 7})
        rows = subprocess.run(
            [str(Path(sys.executable).parent / "rewindow"), "sessions", "--json"],
            capture_output=True,
            check=True,
            timeout=SECONDS,
            env={**os.environ, "REWINDOW_STATE_DIR": str(state)},
        )
        assert [row["session_id"] for row in json.loads(rows.stdout)] == [session]
