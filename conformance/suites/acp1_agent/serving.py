"""Requests of an agent to the client: files, terminals and elicitation; and the MCP servers of a session."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from conformance.driver import Answer, Driver, is_response_to
from conformance.judging import (
    PASS,
    Judge,
    Requirement,
    Verdict,
    answered,
    every,
    evidence,
    failed,
    not_tested,
    skipped,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import TURN_ENDS, is_absolute, params_fit, prose, schema
from conformance.suites.acp1_agent.client import (
    FULL,
    QUIET,
    begin,
    client_advertises,
    finish_turn,
    is_working,
    new_session_params,
    open_session,
    start_turn,
)
from conformance.traffic import Message, Traffic, mark_indices
from conformance.values import Object, as_list, as_object, as_text

_TERMINAL: Final = ("terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")


def _only_if_advertised(path: str, *methods: str) -> Judge:
    def judge(traffic: Traffic) -> Verdict:
        if client_advertises(traffic, path):
            return skipped(f"the client offers {path}")
        for request in traffic.requests("server", *methods):
            return failed(f"{request.method} was called on a client without {path}", request.index)
        return PASS if traffic.requests("client", "session/prompt") else skipped("no turn was run")

    return judge


def _absolute(field: str) -> Callable[[Message], str]:
    def problem(request: Message) -> str:
        path = request.params.get(field)
        wrong = isinstance(path, str) and not is_absolute(path)
        return f"{field} of {request.method} is {path!r}, which is not absolute" if wrong else ""

    return problem


def _lines_from_one(request: Message) -> str:
    return "line is 0, and lines begin at 1" if request.params.get("line") == 0 else ""


def _called(*methods: str) -> Callable[[Traffic], list[Message]]:
    return lambda traffic: traffic.requests("server", *methods)


def _never(method: str) -> Callable[[], Verdict]:
    return lambda: skipped(f"the agent never called {method}; try another --tool-prompt")


def _created(traffic: Traffic) -> dict[str, Message]:
    """Return the terminals that the client created, by id, with the answers that named them."""
    return {
        as_text(request.answer.result.get("terminalId")): request.answer
        for request in traffic.requests("server", "terminal/create")
        if request.answer is not None and request.succeeded
    }


def _released(traffic: Traffic) -> Verdict:
    created = _created(traffic)
    if not created:
        return _never("terminal/create")()
    released = {as_text(request.params.get("terminalId")) for request in traffic.requests("server", "terminal/release")}
    ended = [m.answer for m in traffic.requests("client", "session/prompt") if m.answer is not None]
    known = _known_to_have_exited(traffic)
    for terminal, answer in created.items():
        exited = known.get(terminal)
        over = [m for m in ended if exited is not None and m.order > exited.order]
        if terminal not in released and exited is not None and over:
            reason = (
                f"the command of the terminal {terminal!r} exited and the turn ended, but the terminal was not released"
            )
            return failed(reason, answer.index, exited.index, over[0].index)
    if not ended:
        return skipped("no turn ended")
    return PASS if released or known else skipped("a terminal whose command may still run may still be needed")


def _known_to_have_exited(traffic: Traffic) -> dict[str, Message]:
    """Return the answers that told the agent that a terminal's command has exited, by terminal."""
    found: dict[str, Message] = {}
    for request in traffic.requests("server", "terminal/wait_for_exit", "terminal/output"):
        waited = request.method == "terminal/wait_for_exit"
        if request.answer is not None and request.succeeded and (waited or request.answer.result.get("exitStatus")):
            found.setdefault(as_text(request.params.get("terminalId")), request.answer)
    return found


def _not_after_release(traffic: Traffic) -> Verdict:
    released: dict[str, Message] = {}
    found = traffic.requests("server", *_TERMINAL[1:])
    for request in found:
        terminal = as_text(request.params.get("terminalId"))
        if terminal in released:
            return failed(
                f"{request.method} of {terminal!r}, which had been released", released[terminal].index, request.index
            )
        if request.method == "terminal/release":
            released[terminal] = request
    return PASS if found else _never("terminal/create")()


def _known_terminal(traffic: Traffic) -> Verdict:
    created = _created(traffic)
    found = traffic.requests("server", *_TERMINAL[1:])
    for request in found:
        terminal = as_text(request.params.get("terminalId"))
        if terminal and (terminal not in created or created[terminal].order > request.order):
            return failed(f"{request.method} of {terminal!r}, which the client did not create", request.index)
    return PASS if found else _never("terminal/create")()


def _mcp_request_entries(traffic: Traffic) -> list[int]:
    """Return the entries of the request with an MCP server, of its answer, and of the next turn."""
    asked = [r for r in traffic.requests("client", "session/new") if as_list(r.params.get("mcpServers"))]
    return [index for r in (*asked, *traffic.requests("client", "session/prompt")) for index in evidence(r)]


def _started(traffic: Traffic) -> Verdict:
    for entry in traffic.marks("mcp-server"):
        records = [as_object(record) for record in as_list(entry.value)]
        if any(record.get("method") == "initialize" for record in records):
            return PASS
        said = "was started but never initialized" if records else "of the session was never started"
        return failed(f"the MCP server {said}", *_mcp_request_entries(traffic), *mark_indices(traffic, "mcp-server"))
    return not_tested("no session with an MCP server was opened")


def _with_arguments(traffic: Traffic) -> Verdict:
    for entry in traffic.marks("mcp-server"):
        for record in as_list(entry.value):
            if "started" in as_object(record):
                given = as_list(as_object(record)["started"])
                right = [as_text(argument) for argument in given] == ["an argument"]
                reason = f"the MCP server was started with the arguments {given!r}"
                return (
                    PASS
                    if right
                    else failed(reason, *_mcp_request_entries(traffic), *mark_indices(traffic, "mcp-server"))
                )
    return skipped("the MCP server was not started")


_ABSOLUTE: Final = "All file paths in the protocol **MUST** be absolute."
_FILES: Final = (
    "If `readTextFile` or `writeTextFile` is `false` or not present, the Agent **MUST NOT** attempt "
    "to call the corresponding filesystem method."
)
_TERMINAL_SHAPES: Final = {
    "terminal/create": ("CreateTerminalRequest", '["sessionId", "command"]'),
    "terminal/output": ("TerminalOutputRequest", '["sessionId", "terminalId"]'),
    "terminal/wait_for_exit": ("WaitForTerminalExitRequest", '["sessionId", "terminalId"]'),
    "terminal/kill": ("KillTerminalRequest", '["sessionId", "terminalId"]'),
    "terminal/release": ("ReleaseTerminalRequest", '["sessionId", "terminalId"]'),
}


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-FS-001",
        "mandatory",
        "The agent reads files only from clients that support it.",
        prose("file-system", _FILES),
        _only_if_advertised("fs.readTextFile", "fs/read_text_file"),
        violation="fs/read_text_file to a client without fs",
    ),
    Requirement(
        "ACP1-A-FS-002",
        "mandatory",
        "The agent writes files only through clients that support it.",
        prose("file-system", _FILES),
        _only_if_advertised("fs.writeTextFile", "fs/write_text_file"),
        violation="fs/write_text_file to a client that offers only reading",
    ),
    Requirement(
        "ACP1-A-FS-003",
        "mandatory",
        "A request to read a file has the schema's shape.",
        schema("/$defs/ReadTextFileRequest/required", '["sessionId", "path"]'),
        params_fit("fs/read_text_file", "ReadTextFileRequest"),
        violation='{"path":"/project/a.py"}',
    ),
    Requirement(
        "ACP1-A-FS-004",
        "mandatory",
        "A request to write a file has the schema's shape.",
        schema("/$defs/WriteTextFileRequest/required", '["sessionId", "path", "content"]'),
        params_fit("fs/write_text_file", "WriteTextFileRequest"),
        violation='{"sessionId":"s1","path":"/project/a.py","text":"x"}',
    ),
    Requirement(
        "ACP1-A-FS-005",
        "mandatory",
        "The paths of files to read are absolute.",
        prose("overview", _ABSOLUTE),
        every(_called("fs/read_text_file"), _absolute("path"), _never("fs/read_text_file")),
        violation='"path":"a.py"',
    ),
    Requirement(
        "ACP1-A-FS-006",
        "mandatory",
        "The paths of files to write are absolute.",
        prose("overview", _ABSOLUTE),
        every(_called("fs/write_text_file"), _absolute("path"), _never("fs/write_text_file")),
        violation='"path":"a.py"',
    ),
    Requirement(
        "ACP1-A-FS-007",
        "advisory",
        "Line numbers of files to read begin at 1.",
        schema("/$defs/ReadTextFileRequest/properties/line", "Line number to start reading from (1-based)."),
        every(_called("fs/read_text_file"), _lines_from_one, _never("fs/read_text_file")),
        violation='"line":0',
    ),
    Requirement(
        "ACP1-A-FS-008",
        "mandatory",
        "A turn ends even if the client fails to read and write files.",
        TURN_ENDS,
        answered("turn"),
        scenario="files-failing",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-TERM-001",
        "mandatory",
        "The agent uses a terminal only if the client supports terminals.",
        prose(
            "terminals",
            "If `terminal` is `false` or not present, the Agent **MUST NOT** attempt to call any terminal methods.",
        ),
        _only_if_advertised("terminal", *_TERMINAL),
        violation="terminal/create to a client without terminal",
    ),
    *(
        Requirement(
            f"ACP1-A-TERM-{number:03}",
            "mandatory",
            f"The params of {method} have the schema's shape.",
            schema(f"/$defs/{name}/required", required),
            params_fit(method, name),
            violation="{}",
        )
        for number, (method, (name, required)) in enumerate(_TERMINAL_SHAPES.items(), 2)
    ),
    Requirement(
        "ACP1-A-TERM-007",
        "mandatory",
        "The working directories of terminals are absolute.",
        schema(
            "/$defs/CreateTerminalRequest/properties/cwd",
            "Working directory for the command. Must be an absolute path.",
        ),
        every(_called("terminal/create"), _absolute("cwd"), _never("terminal/create")),
        violation='"cwd":"."',
    ),
    Requirement(
        "ACP1-A-TERM-008",
        "mandatory",
        "The agent releases each terminal after it learns that the command exited, during the turn or later.",
        prose(
            "terminals", "The Agent **MUST** release the terminal using `terminal/release` when it's no longer needed."
        ),
        _released,
        violation="terminal/create, terminal/kill, and the end of the turn",
    ),
    Requirement(
        "ACP1-A-TERM-009",
        "advisory",
        "The agent does not use a released terminal.",
        prose("terminals", "After release the terminal ID becomes invalid for all other `terminal/*` methods."),
        _not_after_release,
        violation="terminal/release, and then terminal/output",
    ),
    Requirement(
        "ACP1-A-TERM-010",
        "advisory",
        "The agent uses only terminal ids from the client.",
        schema("/$defs/TerminalOutputRequest/properties/terminalId", "The ID of the terminal to get output from."),
        _known_terminal,
        violation='"terminalId":"term-1" before the answer to terminal/create',
    ),
    Requirement(
        "ACP1-A-TERM-011",
        "mandatory",
        "A turn ends even if the client fails to create a terminal.",
        TURN_ENDS,
        answered("turn"),
        scenario="terminal-failing",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-TERM-012",
        "mandatory",
        "A turn ends even if the client fails to report the exit of a terminal.",
        TURN_ENDS,
        answered("turn"),
        scenario="terminal-output-failing",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-ELICIT-001",
        "mandatory",
        "The agent sends elicitations only to clients that support them.",
        prose(
            "initialization",
            (
                "Clients and Agents **MUST** treat all capabilities omitted in the `initialize` "
                "request as **UNSUPPORTED**."
            ),
        ),
        _only_if_advertised("elicitation", "elicitation/create"),
        violation="elicitation/create to a client without elicitation",
    ),
    Requirement(
        "ACP1-A-MCP-001",
        "advisory",
        "The agent connects to the session's MCP servers on stdio.",
        prose("session-setup", "Agents **SHOULD** connect to all MCP servers specified by the Client."),
        _started,
        scenario="mcp-server",
        violation="a server that is never started",
    ),
    Requirement(
        "ACP1-A-MCP-002",
        "mandatory",
        "The agent starts MCP servers with the given arguments.",
        schema("/$defs/McpServer/anyOf/2", "Stdio transport configuration All Agents MUST support this transport."),
        _with_arguments,
        scenario="mcp-server",
        violation="a server started without arguments",
    ),
    Requirement(
        "ACP1-A-MCP-003",
        "mandatory",
        "The agent answers session/new with a session or an error if an MCP server cannot start.",
        prose(
            "json-rpc",
            "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications.",
        ),
        answered("new"),
        scenario="mcp-server-dead",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-MCP-004",
        "mandatory",
        "The agent opens sessions and runs turns after an MCP server failed to start.",
        TURN_ENDS,
        answered("after", expect="result"),
        scenario="mcp-server-dead",
        violation="an agent that exits",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_QUESTIONS: Final = 10
_POLL_SECONDS: Final = 0.1
"""Seconds between checks of an MCP server's record."""
_PROBE: Final = Path(__file__).parents[2] / "probes" / "mcp_server.py"


def _tool_turn(driver: Driver, capabilities: Object) -> None:
    begin(driver, capabilities)
    request = start_turn(driver, open_session(driver), driver.options.tool_prompt, label="turn")
    finish_turn(driver, request)
    driver.pause(QUIET)


def _run_asked_meanwhile(driver: Driver) -> None:
    begin(driver)
    prompt = start_turn(driver, open_session(driver), driver.options.tool_prompt, label="turn")
    asked: list[Any] = []
    while len(asked) < _QUESTIONS:
        seen = driver.wait(lambda m: is_working(m) or is_response_to(m, prompt), driver.options.scenario_timeout)
        if seen is None or not is_working(seen):
            break
        asked.append(driver.request("_rewindow_conformance/meanwhile", {}, label="meanwhile"))
    finish_turn(driver, prompt)
    for request in asked:
        driver.response(request)


def _run_with(capabilities: Object) -> Callable[[Driver], None]:
    return lambda driver: _tool_turn(driver, capabilities)


def _run_failing(*methods: str) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        begin(driver)
        for method in methods:
            driver.answerers[method] = lambda _: Answer.failing(-32603, "The client failed")
        request = start_turn(driver, open_session(driver), driver.options.tool_prompt, label="turn")
        finish_turn(driver, request)
        driver.pause(QUIET)

    return run


def _run_mcp_server(driver: Driver) -> None:
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        record = Path(folder) / "record.jsonl"
        variables = [{"name": "REWINDOW_CONFORMANCE_RECORD", "value": str(record)}]
        server = {"name": "probe", "command": sys.executable, "args": [str(_PROBE), "an argument"], "env": variables}
        begin(driver)
        session = driver.call("session/new", new_session_params(driver, mcpServers=[server])).get("sessionId")
        finish_turn(driver, start_turn(driver, str(session), driver.options.prompt))
        driver.mark("mcp-server", _recorded(driver, record))


def _recorded(driver: Driver, record: Path) -> list[Object]:
    """Return the requests that the MCP server received. Waits a response's time, because agents may connect later."""
    left = driver.options.timeout
    while True:
        whole = record.read_text().rpartition("\n")[0] if record.exists() else ""
        found = [as_object(json.loads(line)) for line in whole.splitlines()]
        if left <= 0 or any(one.get("method") == "initialize" for one in found):
            return found
        driver.pause(_POLL_SECONDS)
        left -= _POLL_SECONDS


def _run_dead_mcp_server(driver: Driver) -> None:
    begin(driver)
    server: Object = {"name": "dead", "command": "/rewindow-conformance/no/such/program", "args": [], "env": []}
    request = driver.request("session/new", new_session_params(driver, mcpServers=[server]), label="new")
    driver.response(request)
    after = start_turn(driver, open_session(driver), driver.options.prompt, label="after")
    finish_turn(driver, after)


SCENARIOS: Final = (
    Scenario("files-only", "Supports files but no terminal.", _run_with({"fs": FULL["fs"]}), passive=True),
    Scenario(
        "reading-only",
        "Supports reading files, but not writing them.",
        _run_with({"fs": {"readTextFile": True}}),
        passive=True,
    ),
    Scenario("terminal-only", "Supports a terminal but no files.", _run_with({"terminal": True}), passive=True),
    Scenario("asked-meanwhile", "Sends requests during a turn with tools, after each update.", _run_asked_meanwhile),
    Scenario(
        "files-failing", "Fails every request for a file.", _run_failing("fs/read_text_file", "fs/write_text_file")
    ),
    Scenario("terminal-failing", "Fails to create terminals.", _run_failing("terminal/create")),
    Scenario(
        "terminal-output-failing",
        "Fails to report a terminal's exit.",
        _run_failing("terminal/wait_for_exit", "terminal/output"),
    ),
    Scenario(
        "mcp-server", "Opens a session with an MCP server on stdio, and checks whether it was started.", _run_mcp_server
    ),
    Scenario("mcp-server-dead", "Opens a session with an MCP server that cannot be started.", _run_dead_mcp_server),
)
