"""All that an editor does with models in one session, in the order and with the capabilities of Zed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from acp_adapter.sign_in import SIGN_IN
from tests.support.agents import Agent
from tests.support.llm_answers import anthropic
from tests.support.llm_server import Answer, llm_server
from tests.support.terminal import ENTER, Terminal

pytestmark = pytest.mark.slow

KEY: Final = "sk-typed-into-a-terminal-0123456789"
SECONDS: Final = 60.0
MODEL, OTHER = "provider:anthropic:claude-one", "provider:anthropic:claude-two"
ZED: Final = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "_meta": {"terminal_output": True, "terminal-auth": True},
}
"""The capabilities that Zed declares. Its buffers are not asked for here, because it has none open."""


def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for path, text in {
        ".git/HEAD": "ref: refs/heads/topic\n",
        "AGENTS.md": "The root's word.",
        "app/AGENTS.md": "The word of app.",
        "app/deep/AGENTS.md": "The word of deep.",
        "app/deep/code.py": "x = 1\n",
        ".agents/skills/release/SKILL.md": "---\nname: release\ndescription: Make a release.\n---\nTag it.\n",
        ".agents/commands/review.md": "---\ndescription: Review a file.\n---\nReview $1 now.",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def typed_key(command: list[str], environ: dict[str, str], cwd: Path) -> None:
    with Terminal(command, {**os.environ, **environ, "TERM": "xterm"}, str(cwd), columns=160) as terminal:
        for question, answer in (("Enter to finish", "anthropic"), ("Key of anthropic", KEY), ("Stored the key", "")):
            terminal.until(question, seconds=SECONDS)
            terminal.type(f"{answer}{ENTER}")
        assert terminal.process.wait(SECONDS) == 0


def test_from_signing_in_to_signing_out(tmp_path: Path) -> None:
    root, home = project(tmp_path), tmp_path / "home"
    home.mkdir()
    none = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"), "")
    with llm_server() as server:
        server.lists["/v1/models"] = Answer(
            pieces=(json.dumps({"data": [{"id": "claude-one", "type": "model"}, {"id": "claude-two"}]}).encode(),)
        )
        environ = {
            **none,
            "HOME": str(home),
            "XDG_CONFIG_HOME": "",
            "DBUS_SESSION_BUS_ADDRESS": "",
            "ANTHROPIC_BASE_URL": server.url,
            "REWINDOW_MODEL": MODEL,
            "REWINDOW_STALL_SECONDS": "1",
        }
        with Agent(tmp_path / "state", env=environ) as agent:
            agent.editor = _Empty()
            terminal = agent.initialize(**ZED)["authMethods"][0]["_meta"]["terminal-auth"]
            session = agent.new_session(root / "app")

            def told(text: str) -> Any:
                """Prompts; the body of the last request."""
                assert agent.prompt(session, text, seconds=SECONDS) == "end_turn"
                return server.asked[-1].body

            def choose(option: str, value: str) -> None:
                agent.call("session/set_config_option", {"sessionId": session, "configId": option, "value": value})

            assert "error" in agent.response(agent.begin_prompt(session, "hello"), SECONDS)
            typed_key([terminal["command"], *terminal["args"]], environ, root)
            assert agent.call("authenticate", {"methodId": SIGN_IN}) == {}

            call = json.dumps({"source": "v = view('deep/code.py'); v"})
            server.answers += [anthropic("Looking.", call), anthropic("Done.")]
            body = told("look")
            assert body["model"] == "claude-one"
            everything = json.dumps(body)
            for word in ("The root's word.", "The word of app.", "The word of deep.", "release: Make a release."):
                assert everything.count(word) == 1, word
            choose("model", OTHER)
            choose("thought_level", "high")
            server.answers.append(anthropic("Reviewed."))
            body = told("/review deep/code.py")
            assert (body["model"], "Review deep/code.py now." in json.dumps(body)) == ("claude-two", True)
            assert body.keys() & {"thinking", "output_config"}
            choose("thought_level", "off")

            server.answers += [
                Answer(429, (b'{"error": {"type": "rate_limit_error", "message": "slow"}}',), {"Retry-After": "1"}),
                Answer(pieces=anthropic("Half of it.").pieces[:6], hang=True),
                anthropic("Whole."),
            ]
            seen = len(agent.updates())
            body = told("/release")
            assert "Tag it." in json.dumps(body)
            updates = agent.updates()[seen:]
            attempts = [update["title"] for update in updates if "attempt" in str(update.get("title"))]
            assert any("attempt 2" in each for each in attempts)
            text = "".join(
                update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"
            )
            assert text.endswith("Whole.")

            assert agent.call("logout", {}) == {}
            assert "error" in agent.response(agent.begin_prompt(session, "again"), SECONDS)
    assert KEY not in str(agent.received) + agent.stderr.decode()


class _Empty:
    """An editor that has no file open."""

    def answer(self, message: Any) -> bytes | None:
        if not str(message.get("method")).startswith("fs/"):
            return None
        error = {"code": -32002, "message": "not open"}
        return (json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}) + "\n").encode()
