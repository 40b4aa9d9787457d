"""Whole sessions over the wire: what an editor gets to see, and what a cancel and a crash leave behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from acp_adapter.handlers import METHODS
from acp_adapter.wire.model import WireModel
from acp_adapter.wire.v1 import updates
from tests.support.agents import Agent


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


def statement_runs(message: dict[str, Any]) -> bool:
    return message.get("params", {}).get("update", {}).get("status") == "in_progress"


def scripted(tmp_path: Path, *replies: dict[str, Any]) -> str:
    script = tmp_path / "replies.jsonl"
    script.write_text("\n".join(json.dumps(reply) for reply in replies))
    return f"scripted:{script}"


def update_kinds() -> set[str]:
    """Every kind of update that the adapter's code can make."""
    modules = [module for name, module in sys.modules.items() if name.startswith(f"{updates.__name__}.")]
    made = [value for module in modules for value in vars(module).values()]
    fields = [
        cls.model_fields["session_update"].default
        for cls in made
        if isinstance(cls, type) and issubclass(cls, WireModel) and "session_update" in cls.model_fields
    ]
    return set(fields)


def test_every_method_and_every_kind_of_update_occurs_and_is_valid(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    model = scripted(
        tmp_path,
        {
            "reasoning": "I shall look.",
            "text": "Looking.",
            "statement": 'n = view("notes.md")\nn.Run()\nread("notes.md")',
        },
        {"text": "It holds a heading."},
    )
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(tmp_path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "ask"})
        option = {"sessionId": session, "configId": "_while_running", "value": "steer"}
        assert agent.call("session/set_config_option", option)["configOptions"][1]["currentValue"] == "steer"
        assert agent.error("authenticate", {"methodId": "none"})["code"] == -32602
        assert agent.prompt(session, "What is in notes.md?") == "end_turn"
        assert agent.text() == "Looking.It holds a heading."
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.call("session/close", {"sessionId": session}) == {}
        where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        agent.call("session/load", where)
        agent.call("session/resume", where)
        assert [row["sessionId"] for row in agent.call("session/list", {})["sessions"]] == [session]
        assert agent.call("session/delete", {"sessionId": session}) == {}
        assert agent.call("session/list", {})["sessions"] == []
        refused_or_silent = {"authenticate", "session/cancel"}
        assert set(agent.coverage.answered) == set(METHODS) - refused_or_silent
        assert set(agent.coverage.updates) == update_kinds()
        assert set(agent.coverage.sent) == {"session/update", "session/request_permission"}


def test_what_is_advertised_is_served(agent: Agent) -> None:
    capabilities = agent.initialize()["agentCapabilities"]
    assert capabilities["loadSession"] is True
    advertised = {f"session/{name}" for name in capabilities["sessionCapabilities"]} - {"session/additionalDirectories"}
    assert advertised == {"session/list", "session/delete", "session/resume", "session/close"}
    for method in advertised | {"session/load", "session/set_mode", "session/set_config_option"}:
        assert agent.error(method, {"sessionId": 7, "cwd": "relative"})["code"] == -32602


def test_a_statement_is_one_tool_call_with_source_output_and_locations(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    session = agent.open(tmp_path)
    agent.prompt(session, 'a = view("a.txt", pos="2", tokens=100)\nprint("printed")\n6 * 7')
    (call,) = agent.updates("tool_call")
    assert (call["kind"], call["status"], call["name"]) == ("execute", "pending", "python")
    assert call["rawInput"] == {
        "source": 'a = view("a.txt", pos="2", tokens=100)\nprint("printed")\n6 * 7',
        "statement": 1,
    }
    patches = [update for update in agent.updates("tool_call_update") if update["toolCallId"] == call["toolCallId"]]
    assert patches[0]["status"] == "in_progress"
    assert patches[-1]["status"] == "completed"
    text = patches[-1]["content"][0]["content"]["text"]
    assert text.index("printed") < text.index("two") < text.index("42")
    assert patches[-1]["locations"][0]["path"] == str(tmp_path / "a.txt")
    assert patches[-1]["rawOutput"]["value"] == "42"
    assert patches[-1]["rawOutput"]["names"]["added"] == ["a"]


def test_a_failing_statement_is_a_failed_call_with_its_traceback_and_the_turn_goes_on(
    agent: Agent, tmp_path: Path
) -> None:
    session = agent.open(tmp_path)
    assert agent.prompt(session, "def f():\n    return 1 / 0\nf()") == "end_turn"
    last = agent.updates("tool_call_update")[-1]
    assert last["status"] == "failed"
    text = last["content"][0]["content"]["text"]
    assert re.search(r'File "<statement 1>", line 2, in f\n    return 1 / 0', text)
    assert text.rstrip("`\n").endswith("ZeroDivisionError: division by zero")


def test_what_a_statement_prints_is_shown_while_it_runs(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    prompt = agent.begin_prompt(
        session, f"print('before', flush=True)\nopen({str(gate)!r}, 'rb').read()\nprint('after')"
    )
    agent.until(lambda message: "before" in json.dumps(message.get("params", {}).get("update", {}).get("content", "")))
    assert not [update for update in agent.updates("tool_call_update") if update.get("status") == "completed"]
    gate.open("wb").close()
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"


def test_a_resource_in_a_prompt_opens_a_view_and_its_change_is_reported_once(agent: Agent, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("first\n")
    session = agent.open(tmp_path)
    link = {"type": "resource_link", "uri": notes.as_uri(), "name": "notes.md"}
    embedded = {"type": "resource", "resource": {"uri": "mem://scratch", "text": "kept in the prompt\n"}}
    assert agent.prompt(session, "notes_md.Run()", link, embedded) == "end_turn"
    shown = json.dumps(agent.updates("tool_call_update"))
    assert "first" in shown
    assert "kept in the prompt" in shown
    notes.write_text("second\n")
    agent.prompt(session, "1")
    agent.prompt(session, "2")
    changes = [update for update in agent.updates("tool_call") if update["title"] == "modified: notes.md"]
    assert len(changes) == 1
    assert changes[0]["locations"] == [{"path": str(notes)}]


def test_a_runaway_statement_is_cancelled_with_nothing_after_it_and_names_set_before_kept(
    agent: Agent, tmp_path: Path
) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = [1, 2, 3]")
    prompt = agent.begin_prompt(session, "also = 4\nwhile True:\n    pass")
    agent.until(statement_runs)
    agent.notify("session/cancel", {"sessionId": session})
    assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
    agent.quiet()
    assert agent.prompt(session, "assert (kept, also) == ([1, 2, 3], 4)\nkept") == "end_turn"
    assert agent.updates("tool_call_update")[-1]["status"] == "completed"


def test_prompt_and_cancel_in_one_write_end_as_cancelled(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "1")
    prompt = agent.line(
        "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "while True: pass"}]}, "p"
    )
    agent.write(prompt + agent.line("session/cancel", {"sessionId": session}))
    assert agent.response("p")["result"]["stopReason"] == "cancelled"
    agent.quiet()
    assert agent.prompt(session, "2") == "end_turn"


def test_cancelling_a_stream_records_exactly_what_was_sent(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"text": "abcdefghij" * 100, "chunk": 1, "pause": 0.005})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(tmp_path)
        prompt = agent.begin_prompt(session, "go")
        agent.until(lambda message: "agent_message_chunk" in json.dumps(message))
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
        agent.quiet()
        sent = agent.text()
    assert sent
    assert sent == agent_texts(tmp_path, session)


def agent_texts(tmp_path: Path, session: str) -> str:
    """What the session's log holds as agent text."""
    return "".join(event["text"] for event in logged(tmp_path, session) if event["kind"] == "agent_text")


def logged(tmp_path: Path, session: str) -> list[dict[str, Any]]:
    return logged_in(tmp_path / "state", session)


def logged_in(state_dir: Path, session: str) -> list[dict[str, Any]]:
    """The session's log, as another process reads it."""
    done = subprocess.run(
        [str(Agent.command().parent / "rewindow"), "show", session, "--events"],
        env={**os.environ, "REWINDOW_STATE_DIR": str(state_dir)},
        capture_output=True,
        check=True,
        timeout=30,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_failing_model_is_an_error_with_its_own_words_and_the_session_goes_on(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"text": "half", "error": "the provider is overloaded"}, {"text": "whole"})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(tmp_path)
        prompt = agent.begin_prompt(session, "go")
        assert agent.response(prompt)["error"]["message"] == "the provider is overloaded"
        assert agent.prompt(session, "again") == "end_turn"
        assert agent.text() == "halfwhole"


@pytest.mark.parametrize(
    ("reply", "reason"), [({"cause": "length", "text": "cut"}, "max_tokens"), ({"cause": "refusal"}, "refusal")]
)
def test_the_models_own_end_is_the_stop_reason(tmp_path: Path, reply: dict[str, Any], reason: str) -> None:
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, reply)) as agent:
        assert agent.prompt(agent.open(tmp_path), "go") == reason


def test_too_many_rounds_end_with_max_turn_requests(tmp_path: Path) -> None:
    model = scripted(tmp_path, *[{"statement": "1"}] * 5)
    with Agent(tmp_path / "state", "--model", model, "--max-rounds", "2") as agent:
        assert agent.prompt(agent.open(tmp_path), "go") == "max_turn_requests"
        assert len(agent.updates("tool_call")) == 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise SystemExit(3)", "SystemExit"),
        ("input()", "EOFError"),
    ],
)
def test_a_statement_that_would_end_or_ask_a_terminal_is_recorded_and_names_stay(
    agent: Agent, tmp_path: Path, source: str, said: str
) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = 41")
    assert agent.prompt(session, source) == "end_turn"
    assert said in agent.updates("tool_call_update")[-1]["content"][0]["content"]["text"]
    agent.prompt(session, "kept + 1")
    assert agent.updates("tool_call_update")[-1]["rawOutput"]["value"] == "42"


def test_a_flood_of_output_is_bounded_and_counted(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "import sys\nfor _ in range(50): sys.stdout.write('x' * 1_000_000)")
    last = agent.updates("tool_call_update")[-1]
    assert last["rawOutput"]["stdoutBytes"] == 50_000_000
    assert len(last["content"][0]["content"]["text"]) < 80_000


def test_slash_commands_work_without_a_model(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    session = agent.open(tmp_path)
    agent.prompt(session, 'a = view("a.txt")')
    for command, expected in (
        ("/help", "/timeline"),
        ("/views", "a.txt"),
        ("/timeline", '1. `a = view("a.txt")` (ok'),
        ("/timeline 1", "one"),
        ("/timeline 9", "There is no statement 9"),
        ("/context", "tokens: instructions"),
        ("/tick", "Nothing changed."),
    ):
        before = len(agent.text())
        assert agent.prompt(session, command) == "end_turn"
        assert expected in agent.text()[before:]


def test_no_process_is_left_however_the_agent_ends(tmp_path: Path) -> None:
    for end in ("close", "kill"):
        agent = Agent(tmp_path / end)
        session = agent.open(tmp_path)
        agent.prompt(session, "import subprocess; child = subprocess.Popen(['sleep', '600'])")
        family = psutil.Process(agent.process.pid).children(recursive=True)
        assert len(family) >= 3  # zygote, worker, sleep
        getattr(agent, end)()
        _, alive = psutil.wait_procs(family, timeout=10)
        assert alive == []


def test_another_process_can_read_a_session_that_is_open(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "x = 1")
    kinds = [event["kind"] for event in logged(tmp_path, session)]
    assert kinds[0] == "session_opened"
    assert kinds[-1] == "run_stop"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root; tests/engine/store has the same without a mount")
def test_a_full_disk_is_said_and_what_was_acknowledged_stays(small_disk: Path, tmp_path: Path) -> None:
    with Agent(small_disk) as agent:
        session = agent.open(tmp_path)
        assert agent.prompt(session, "kept = 1") == "end_turn"
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        prompt = agent.begin_prompt(session, f"text = {'y' * 200_000!r}")
        error = agent.response(prompt)["error"]
        assert "read-only" in error["message"]
        assert "full" in error["message"]
        assert "read-only" in agent.error("session/prompt", prompt_of(session, "1"))["message"]
        filler.unlink()
    kinds = [event["kind"] for event in logged_in(small_disk, session)]
    assert kinds.count("run_stop") == 1


def prompt_of(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
