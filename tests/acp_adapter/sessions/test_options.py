"""Modes, options, titles and slash commands, even during a statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.events import Event
from engine.log.store.memory import MemoryStore
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory
from tests.support.scripts import (
    reason,
    runs,
)
from tests.support.sessions import LentStore

pytestmark = pytest.mark.anyio


RETURNING = ("session/load", "session/resume")


async def test_modes_and_options_change_during_a_statement(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    prompt = await agent.begin_prompt(session, gate.source)
    await gate.reached()
    assert await agent.call("session/set_mode", {"sessionId": session, "modeId": "plan"}) == {}
    params = {"sessionId": session, "configId": "_while_running", "value": "steer"}
    answer = await agent.call("session/set_config_option", params)
    expected = {
        "mode": "plan",
        "model": "direct",
        "_while_running": "steer",
        "_ask_about": "by_sandbox",
        "_network": "off",
    }
    assert {option["id"]: option["currentValue"] for option in answer["configOptions"]} == expected
    gate.release()
    assert reason(await agent.response(prompt)) == "end_turn"
    assert agent.updates("current_mode_update") == [
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
    ]
    assert agent.updates("config_option_update")[-1]["configOptions"] == answer["configOptions"]
    await agent.call("session/close", {"sessionId": session})
    for method in RETURNING:
        loaded = await agent.load(session, tmp_path, method)
        assert loaded["modes"]["currentModeId"] == "plan"
        assert loaded["configOptions"] == answer["configOptions"]
        await agent.call("session/close", {"sessionId": session})
    await agent.load(session, tmp_path, "session/resume")
    await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
    await agent.settled()
    values = {
        option["id"]: option["currentValue"] for option in agent.updates("config_option_update")[-1]["configOptions"]
    }
    assert values == {
        "mode": "auto",
        "model": "direct",
        "_while_running": "steer",
        "_ask_about": "by_sandbox",
        "_network": "off",
    }


class HeldStore(LentStore):
    """A store whose commits wait while `held` is a list."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(SystemClock()))
        self.held: list[tuple[SessionId, Event]] | None = None

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        if self.held is None:
            self._store.submit(session_id, event, waits=waits)
        else:
            self.held.append((session_id, event))

    def go_on(self) -> None:
        held, self.held = self.held or [], None
        for session_id, event in held:
            self._store.submit(session_id, event)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("session/set_mode", {"modeId": "plan"}),
        ("session/set_config_option", {"configId": "_while_running", "value": "steer"}),
    ],
)
async def test_change_is_on_disk_before_it_is_confirmed(tmp_path: Path, method: str, change: dict[str, str]) -> None:
    store: Any = HeldStore()
    async with in_memory(tmp_path, store=store) as agent:
        session = await agent.open(tmp_path)
        store.held = []
        request = await agent.begin(method, {"sessionId": session, **change})
        await agent.error(method, {"sessionId": "unknown", **change})
        assert [event.kind for _, event in store.held] in (["mode_changed"], ["config_changed"])
        assert request not in [message.get("id") for message in agent.received]
        store.go_on()
        assert "result" in await agent.response(request)


async def test_switches_are_booleans_for_clients_that_show_them(agent: Client, tmp_path: Path) -> None:
    await agent.initialize(session={"configOptions": {"boolean": {}}})
    opened = await agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    (network,) = (option for option in opened["configOptions"] if option["type"] == "boolean")
    assert (network["id"], network["currentValue"], "options" in network) == ("_network", False, False)
    params = {"sessionId": opened["sessionId"], "configId": "_network"}
    changed = await agent.call("session/set_config_option", {**params, "type": "boolean", "value": True})
    assert {option["id"]: option["currentValue"] for option in changed["configOptions"]}["_network"] is True
    await agent.settled()
    assert agent.updates("config_option_update")[-1]["configOptions"] == changed["configOptions"]
    back = await agent.call("session/set_config_option", {**params, "value": "off"})
    assert {option["id"]: option["currentValue"] for option in back["configOptions"]}["_network"] is False


async def test_mode_and_its_option_stay_in_sync(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.call("session/set_config_option", {"sessionId": session, "configId": "mode", "value": "auto"})
    await agent.settled()
    assert agent.updates("current_mode_update")[-1]["currentModeId"] == "auto"
    await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
    await agent.quiet()


async def test_unknown_modes_and_options_are_refused(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.settled()
    for mode in ("yolo", "", "Ask"):
        assert (await agent.error("session/set_mode", {"sessionId": session, "modeId": mode}))["code"] == -32602
    for config, value in (
        ("mode", "yolo"),
        ("_while_running", "ask"),
        ("while_running", "steer"),
        ("_mode", "auto"),
        ("_", "x"),
        ("mode", True),
    ):
        params = {"sessionId": session, "configId": config, "value": value}
        assert (await agent.error("session/set_config_option", params))["code"] == -32602, config
    for method, params in (
        ("session/set_mode", {"sessionId": "ses_unknown", "modeId": "auto"}),
        ("session/set_config_option", {"sessionId": "ses_unknown", "configId": "mode", "value": "auto"}),
    ):
        assert (await agent.error(method, params))["code"] == -32002
    await agent.quiet()
    await agent.call("session/close", {"sessionId": session})
    assert (await agent.load(session, tmp_path))["modes"]["currentModeId"] == "ask"


@pytest.mark.parametrize(
    ("method", "chosen", "message"),
    [
        ("session/set_mode", {"modeId": "yolo"}, "there is no mode 'yolo'; the modes are ask, auto, plan"),
        (
            "session/set_config_option",
            {"configId": "network", "value": "on"},
            "there is no option 'network'; the options are mode, model, _while_running, _ask_about, _network",
        ),
        (
            "session/set_config_option",
            {"configId": "mode", "value": "Plan"},
            "mode cannot be 'Plan'; use one of ask, auto, plan",
        ),
        (
            "session/set_config_option",
            {"configId": "_network", "value": "maybe"},
            "_network cannot be 'maybe'; use one of off, on",
        ),
        (
            "session/set_config_option",
            {"configId": "_network", "value": True, "type": "boolean"},
            "_network cannot be a boolean; use one of off, on",
        ),
        (
            "session/set_config_option",
            {"configId": "_nope", "value": True, "type": "boolean"},
            "there is no option '_nope'; the options are mode, model, _while_running, _ask_about, _network",
        ),
    ],
)
async def test_a_refusal_names_what_was_offered(
    agent: Client, tmp_path: Path, method: str, chosen: dict[str, Any], message: str
) -> None:
    session = await agent.open(tmp_path)
    assert (await agent.error(method, {"sessionId": session, **chosen}))["message"] == message


@pytest.mark.parametrize(
    ("method", "chosen"),
    [
        ("session/set_mode", {"modeId": "x" * 10_000}),
        ("session/set_config_option", {"configId": "x" * 10_000, "value": "on"}),
        ("session/set_config_option", {"configId": "_network", "value": "x" * 10_000}),
    ],
)
async def test_refusal_cuts_a_long_value(agent: Client, tmp_path: Path, method: str, chosen: dict[str, Any]) -> None:
    session = await agent.open(tmp_path)
    assert len((await agent.error(method, {"sessionId": session, **chosen}))["message"]) < 200


def titles(agent: Client) -> list[Any]:
    return [update for update in agent.updates("session_info_update") if "title" in update]


async def test_a_session_is_named_once_after_its_first_prompt(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "/help")
    assert titles(agent) == []
    await agent.prompt(session, "\n  # count to three\n[1, 2, 3]")
    await agent.prompt(session, "another = 1")
    (info,) = titles(agent)
    assert info["title"] == "# count to three"
    (row,) = (await agent.call("session/list", {}))["sessions"]
    assert (row["sessionId"], row["title"], row["cwd"]) == (session, "# count to three", str(tmp_path))
    await agent.call("session/close", {"sessionId": session})
    await agent.load(session, tmp_path)
    assert [each["title"] for each in titles(agent)] == [info["title"]] * 2
    await agent.prompt(session, "a_third = 1")
    assert len(titles(agent)) == 2


async def test_commands_are_answered_while_a_statement_runs(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "x = 1")
    prompt = await agent.begin_prompt(session, gate.source)
    await gate.reached()
    for command, expected in (
        ("/timeline", "(running)"),
        ("/context", "As of statement 1; a turn is running."),
        ("/help", "/timeline"),
    ):
        before = len(agent.text())
        assert await agent.prompt(session, command) == "end_turn"
        assert expected in agent.text()[before:], command
    gate.release()
    assert reason(await agent.response(prompt)) == "end_turn"


async def test_command_answer_precedes_its_response(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    stop = tmp_path / "stop"
    printing = (
        f"import os, time\nwhile not os.path.exists({str(stop)!r}):\n    print('.', flush=True); time.sleep(0.001)"
    )
    prompt = await agent.begin_prompt(session, printing)
    await agent.until(runs)
    for _ in range(8):
        before = len(agent.text())
        assert await agent.prompt(session, "/help") == "end_turn"
        assert "/timeline" in agent.text()[before:]
    stop.touch()
    assert reason(await agent.response(prompt)) == "end_turn"


async def test_slash_commands_work_without_a_model(agent: Client, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    session = await agent.open(tmp_path)
    await agent.prompt(session, 'a = view("a.txt")')
    for command, expected in (
        ("/help", "/timeline"),
        ("/views", "a.txt"),
        ("/timeline", '1. `a = view("a.txt")` (ok'),
        ("/timeline 1", "one"),
        ("/timeline 9", "There is no statement 9"),
        ("/context", "what changes it"),
        ("/tick", "No handle follows its file; `/run NAME.Run()` makes a handle follow its file."),
    ):
        before = len(agent.text())
        assert await agent.prompt(session, command) == "end_turn"
        assert expected in agent.text()[before:]


async def test_listed_statement_stays_in_its_fence(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "x = '`````\\n# not a heading'\nprint('\\x1b[31m' + x)")
    before = len(agent.text())
    await agent.prompt(session, "/timeline 1")
    shown = agent.text()[before:]
    assert "``````python\nx = '`````\\n# not" in shown
    assert shown.endswith("\n\n``````\n`````\n# not a heading\n``````")


async def test_statement_in_a_list_is_code(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "'`` and `'")
    before = len(agent.text())
    await agent.prompt(session, "/timeline")
    assert agent.text()[before:].startswith("1. ```'`` and `'``` (ok, ")
