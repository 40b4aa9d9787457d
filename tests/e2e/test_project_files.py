"""What a project has for agents: files of the README reach model, editor and acpx, and a load needs none of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import COMMANDS
from tests.support import mcp_server
from tests.support.acpx import opened
from tests.support.agents import AGENT, SECONDS, Agent
from tests.support.scripts import load, scripted, update_in

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with the files that the README names, and files that are not as they should be."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/topic\n")
    skill = "---\nname: {0}\ndescription: About {0}.\n---\nHow to {0}: $ARGUMENTS\n"
    for path, text in {
        "AGENTS.md": "Write tests first.",
        ".agents/skills/release/SKILL.md": skill.format("release"),
        ".agents/skills/help/SKILL.md": skill.format("help"),
        ".agents/skills/broken/SKILL.md": "no front matter",
        ".claude/commands/review.md": "---\ndescription: Review a file.\nargument-hint: FILE\n---\nReview $1 now.",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / ".agents/commands").mkdir()
    (root / ".agents/commands/binary.md").write_bytes(b"\xff" * (10 << 20))
    (root / ".agents/commands/secret.md").symlink_to("/etc/hostname")
    return root


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": ""}


def listed(message: Any) -> dict[str, Any]:
    """The commands that an update lists, by name."""
    return {each["name"]: each for each in update_in(message).get("availableCommands", ())}


def sent(state: Path, session: str, call: int) -> Any:
    """What a model call was sent, as `rewindow show` prints it."""
    done = subprocess.run(
        [str(BIN / "rewindow"), "show", session, "--projection", str(call), "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
        env={**os.environ, "REWINDOW_STATE_DIR": str(state)},
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_files_of_the_readme_reach_the_model_and_the_editor(
    tmp_path: Path, project: Path, environment: dict[str, str]
) -> None:
    paragraph = next(each for each in README.split("\n\n") if "SKILL.md" in each)
    named = re.findall(r"`([^`]+)`", paragraph)
    assert all([*project.glob(each)] for each in named if not each.startswith("/"))
    assert "/review" in named
    model = scripted(tmp_path, *[{"text": "Done."}] * 3)
    state = tmp_path / "state"
    with Agent(state, "--model", model, env=environment) as agent:
        session = agent.open(project)
        commands = listed(agent.seen(lambda message: "review" in listed(message)))
        assert [*commands] == [*COMMANDS, "review", "release"]
        assert commands["review"]["input"] == {"hint": "FILE"}
        assert agent.prompt(session, "/review a.py") == "end_turn"
        assert agent.prompt(session, "/release") == "end_turn"
        assert agent.prompt(session, "/help") == "end_turn"
        said = agent.text()
    assert [said.count(each) for each in ("broken/SKILL.md is not used", "help/SKILL.md cannot be called")] == [1, 1]
    assert [said.count(f"commands/{each}.md is not used") for each in ("binary", "secret")] == [1, 1]
    assert "`/timeline" in said
    first, second = sent(state, session, 1), sent(state, session, 2)
    for text in ("Write tests first.", "- release: About release.", "- help: About help.", "git: branch topic"):
        assert text in first["instructions"]
    assert first["messages"][0]["text"] == "Review a.py now."
    assert second["messages"][-1]["text"].endswith("How to release: ")
    assert second["instructions"] == first["instructions"]
    for folder in (".agents", ".claude"):
        subprocess.run(["rm", "-r", str(project / folder)], check=True)
    (project / ".git/HEAD").write_text("ref: refs/heads/other\n")
    with Agent(state, "--model", model, env=environment) as again:
        again.initialize()
        load(again, session, project)
        typed = [update["content"]["text"] for update in again.updates("user_message_chunk")]
        assert typed == ["/review a.py", "/release", "/help"]
        assert again.prompt(session, "go on") == "end_turn"
    third = sent(state, session, 3)
    assert [each["text"] for each in third["messages"]][:2] == ["Review a.py now.", "Done."]
    assert "git: branch topic" in third["instructions"]


@pytest.mark.slow
def test_a_prompt_of_a_server_is_a_command_and_a_load_needs_no_server(
    tmp_path: Path, project: Path, environment: dict[str, str]
) -> None:
    model, state = scripted(tmp_path, *[{"text": "Done."}] * 3), tmp_path / "state"
    server = {"name": "test", "command": sys.executable, "args": ["-S", mcp_server.__file__, "prompts"], "env": []}
    with Agent(state, "--model", model, env=environment) as agent:
        agent.initialize()
        opened_in = {"cwd": str(project), "mcpServers": [server]}
        session = agent.call("session/new", opened_in)["sessionId"]
        commands = listed(agent.seen(lambda message: "test:greet_all" in listed(message)))
        assert commands["test:greet_all"]["input"] == {"hint": "who [how]"}
        assert agent.prompt(session, "/test:grow") == "end_turn"
        agent.seen(lambda message: "test:late" in listed(message))
        assert agent.prompt(session, "/test:greet_all how=loudly Ann Lee") == "end_turn"
    with Agent(state, "--model", model, env=environment) as again:
        again.initialize()
        load(again, session, project)
        typed = [update["content"].get("text") for update in again.updates("user_message_chunk")]
        assert typed == ["/test:grow", "/test:greet_all how=loudly Ann Lee"]
        assert again.prompt(session, "go on") == "end_turn"
    texts = [each["text"] for each in sent(state, session, 3)["messages"] if each["role"] == "user"]
    assert texts[0] == "Grown."
    assert texts[1].startswith("Greet Ann Lee loudly.\n[note.txt](mcp://test/")


@pytest.mark.slow
def test_acpx_calls_a_command_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "work/.claude/commands").mkdir(parents=True)
    (tmp_path / "work/.claude/commands/review.md").write_text("Review $1 now.")
    with opened(tmp_path, f"{AGENT} --model {scripted(tmp_path, {'text': 'Reviewed.'})}") as acpx:
        messages = acpx.messages("exec", "/review a.py")
        session = next(each["result"]["sessionId"] for each in messages if "sessionId" in each.get("result", {}))
        prompt = sent(acpx.state, session, 1)["messages"]
    assert [each["text"] for each in prompt] == ["Review a.py now."]
    assert any("review" in listed(each) for each in messages)
