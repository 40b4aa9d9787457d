"""Files, terminals and MCP servers: what an agent does with what a client offers, and where the client fails it."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from conformance.driver import Answer, Driver, answers
from conformance.scenarios.acp1_agent.client import (
    FULL,
    QUIET,
    begin,
    finish_turn,
    is_working,
    new_session_params,
    open_session,
    start_turn,
)
from conformance.suite import Scenario
from conformance.values import Object, as_object

_QUESTIONS: Final = 10
_LOOKS: Final = 0.1
"""Seconds between two looks at what an MCP server has recorded."""
_PROBE: Final = Path(__file__).parents[2] / "probes" / "mcp_server.py"


def _tool_turn(driver: Driver, capabilities: Object) -> None:
    begin(driver, capabilities)
    request = start_turn(driver, open_session(driver), driver.options.tool_prompt, label="turn")
    finish_turn(driver, request)
    driver.pause(QUIET)


def _asked_meanwhile(driver: Driver) -> None:
    begin(driver)
    prompt = start_turn(driver, open_session(driver), driver.options.tool_prompt, label="turn")
    asked: list[Any] = []
    while len(asked) < _QUESTIONS:
        seen = driver.wait(lambda m: is_working(m) or answers(m, prompt), driver.options.scenario_timeout)
        if seen is None or not is_working(seen):
            break
        asked.append(driver.request("_rewindow_conformance/meanwhile", {}, label="meanwhile"))
    finish_turn(driver, prompt)
    for request in asked:
        driver.response(request)


def _with(capabilities: Object) -> Callable[[Driver], None]:
    return lambda driver: _tool_turn(driver, capabilities)


def _failing(*methods: str) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        begin(driver)
        for method in methods:
            driver.answerers[method] = lambda _: Answer.failing(-32603, "The client failed")
        request = start_turn(driver, open_session(driver), driver.options.tool_prompt, label="turn")
        finish_turn(driver, request)
        driver.pause(QUIET)

    return run


def _mcp_server(driver: Driver) -> None:
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        record = Path(folder) / "record.jsonl"
        variables = [{"name": "REWINDOW_CONFORMANCE_RECORD", "value": str(record)}]
        server = {"name": "probe", "command": sys.executable, "args": [str(_PROBE), "an argument"], "env": variables}
        begin(driver)
        session = driver.call("session/new", new_session_params(driver, mcpServers=[server])).get("sessionId")
        finish_turn(driver, start_turn(driver, str(session), driver.options.prompt))
        driver.mark("mcp-server", _recorded(driver, record))


def _recorded(driver: Driver, record: Path) -> list[Object]:
    """What the MCP server was asked. Agents may connect behind a turn, so that it is given a response's time."""
    left = driver.options.timeout
    while True:
        whole = record.read_text().rpartition("\n")[0] if record.exists() else ""
        found = [as_object(json.loads(line)) for line in whole.splitlines()]
        if left <= 0 or any(one.get("method") == "initialize" for one in found):
            return found
        driver.pause(_LOOKS)
        left -= _LOOKS


def _dead_mcp_server(driver: Driver) -> None:
    begin(driver)
    server: Object = {"name": "dead", "command": "/rewindow-conformance/no/such/program", "args": [], "env": []}
    request = driver.request("session/new", new_session_params(driver, mcpServers=[server]), label="new")
    driver.response(request)
    after = start_turn(driver, open_session(driver), driver.options.prompt, label="after")
    finish_turn(driver, after)


SCENARIOS: Final = (
    Scenario("files-only", "Offers files and no terminal.", _with({"fs": FULL["fs"]}), passive=True),
    Scenario(
        "reading-only", "Offers to read files, not to write them.", _with({"fs": {"readTextFile": True}}), passive=True
    ),
    Scenario("terminal-only", "Offers a terminal and no files.", _with({"terminal": True}), passive=True),
    Scenario("asked-meanwhile", "Asks things while a turn uses tools, after each update.", _asked_meanwhile),
    Scenario("files-failing", "Fails every request about a file.", _failing("fs/read_text_file", "fs/write_text_file")),
    Scenario("terminal-failing", "Fails to start terminals.", _failing("terminal/create")),
    Scenario(
        "terminal-output-failing",
        "Fails to tell a terminal's end.",
        _failing("terminal/wait_for_exit", "terminal/output"),
    ),
    Scenario(
        "mcp-server", "Opens a session with an MCP server on stdio, and looks whether it was started.", _mcp_server
    ),
    Scenario("mcp-server-dead", "Opens a session with an MCP server that cannot be started.", _dead_mcp_server),
)
