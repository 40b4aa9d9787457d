"""Files, terminals, elicitation and MCP servers: what an agent may ask of a client, and how.

One file in spite of its length, because each requirement stands beside its judge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.judging import answered, every, evidence
from conformance.requirement import Judge, Requirement
from conformance.requirements.acp1 import TURN_ENDS, is_absolute, params_are, prose, schema
from conformance.requirements.acp1_agent.reading import offers
from conformance.traffic import Message, Traffic, places
from conformance.values import as_list, as_object, as_text
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_TERMINAL: Final = ("terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")


def _only_if_offered(path: str, *methods: str) -> Judge:
    def judge(traffic: Traffic) -> Verdict:
        if offers(traffic, path):
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


def _from_one(request: Message) -> str:
    return "line is 0, and lines begin at 1" if request.params.get("line") == 0 else ""


def _called(*methods: str) -> Callable[[Traffic], list[Message]]:
    return lambda traffic: traffic.requests("server", *methods)


def _never(method: str) -> Callable[[], Verdict]:
    return lambda: skipped(f"the agent never called {method}; perhaps --tool-prompt makes it")


def _created(traffic: Traffic) -> dict[str, Message]:
    """The terminals that the client created, by their ids, with the answers that named them."""
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
            reason = f"the command of the terminal {terminal!r} exited and the turn ended, and it was not released"
            return failed(reason, answer.index, exited.index, over[0].index)
    if not ended:
        return skipped("no turn ended")
    return PASS if released or known else skipped("a terminal whose command may still run may still be needed")


def _known_to_have_exited(traffic: Traffic) -> dict[str, Message]:
    """The answers that told the agent that the command of a terminal has exited, by terminal."""
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


def _named(traffic: Traffic) -> list[int]:
    """The entries of the request that names an MCP server, of its answer, and of the turn after it."""
    asked = [r for r in traffic.requests("client", "session/new") if as_list(r.params.get("mcpServers"))]
    return [index for r in (*asked, *traffic.requests("client", "session/prompt")) for index in evidence(r)]


def _started(traffic: Traffic) -> Verdict:
    for entry in traffic.marks("mcp-server"):
        records = [as_object(record) for record in as_list(entry.value)]
        if any(record.get("method") == "initialize" for record in records):
            return PASS
        said = "was started and never initialized" if records else "of the session was never started"
        return failed(f"the MCP server {said}", *_named(traffic), *places(traffic, "mcp-server"))
    return not_tested("no session with an MCP server was opened")


def _with_arguments(traffic: Traffic) -> Verdict:
    for entry in traffic.marks("mcp-server"):
        for record in as_list(entry.value):
            if "started" in as_object(record):
                given = as_list(as_object(record)["started"])
                right = [as_text(argument) for argument in given] == ["an argument"]
                reason = f"the MCP server was started with the arguments {given!r}"
                return PASS if right else failed(reason, *_named(traffic), *places(traffic, "mcp-server"))
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

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-FS-001",
        "mandatory",
        "The agent reads files of clients that offer it alone.",
        prose("file-system", _FILES),
        _only_if_offered("fs.readTextFile", "fs/read_text_file"),
        violation="fs/read_text_file to a client without fs",
    ),
    Requirement(
        "ACP1-A-FS-002",
        "mandatory",
        "The agent writes files of clients that offer it alone.",
        prose("file-system", _FILES),
        _only_if_offered("fs.writeTextFile", "fs/write_text_file"),
        violation="fs/write_text_file to a client that offers to read",
    ),
    Requirement(
        "ACP1-A-FS-003",
        "mandatory",
        "A request to read a file has the schema's shape.",
        schema("/$defs/ReadTextFileRequest/required", '["sessionId", "path"]'),
        params_are("fs/read_text_file", "ReadTextFileRequest"),
        violation='{"path":"/project/a.py"}',
    ),
    Requirement(
        "ACP1-A-FS-004",
        "mandatory",
        "A request to write a file has the schema's shape.",
        schema("/$defs/WriteTextFileRequest/required", '["sessionId", "path", "content"]'),
        params_are("fs/write_text_file", "WriteTextFileRequest"),
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
        "The lines that files are read from begin at 1.",
        schema("/$defs/ReadTextFileRequest/properties/line", "Line number to start reading from (1-based)."),
        every(_called("fs/read_text_file"), _from_one, _never("fs/read_text_file")),
        violation='"line":0',
    ),
    Requirement(
        "ACP1-A-FS-008",
        "mandatory",
        "A turn ends where the client fails to read and to write files.",
        TURN_ENDS,
        answered("turn"),
        scenario="files-failing",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-TERM-001",
        "mandatory",
        "The agent uses terminals of clients that offer them alone.",
        prose(
            "terminals",
            "If `terminal` is `false` or not present, the Agent **MUST NOT** attempt to call any terminal methods.",
        ),
        _only_if_offered("terminal", *_TERMINAL),
        violation="terminal/create to a client without terminal",
    ),
    *(
        Requirement(
            f"ACP1-A-TERM-{number:03}",
            "mandatory",
            f"The params of {method} have the schema's shape.",
            schema(f"/$defs/{name}/required", required),
            params_are(method, name),
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
        "The agent releases each terminal whose command it knows to have exited, by the end of the turn or later.",
        prose(
            "terminals", "The Agent **MUST** release the terminal using `terminal/release` when it's no longer needed."
        ),
        _released,
        violation="terminal/create, terminal/kill, and the end of the turn",
    ),
    Requirement(
        "ACP1-A-TERM-009",
        "advisory",
        "A terminal that was released is used no more.",
        prose("terminals", "After release the terminal ID becomes invalid for all other `terminal/*` methods."),
        _not_after_release,
        violation="terminal/release, and then terminal/output",
    ),
    Requirement(
        "ACP1-A-TERM-010",
        "advisory",
        "The agent uses the ids of terminals that the client gave.",
        schema("/$defs/TerminalOutputRequest/properties/terminalId", "The ID of the terminal to get output from."),
        _known_terminal,
        violation='"terminalId":"term-1" before the answer to terminal/create',
    ),
    Requirement(
        "ACP1-A-TERM-011",
        "mandatory",
        "A turn ends where the client fails to create a terminal.",
        TURN_ENDS,
        answered("turn"),
        scenario="terminal-failing",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-TERM-012",
        "mandatory",
        "A turn ends where the client fails to tell how a terminal ended.",
        TURN_ENDS,
        answered("turn"),
        scenario="terminal-output-failing",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-ELICIT-001",
        "mandatory",
        "The agent elicits nothing from clients that do not offer it.",
        prose(
            "initialization",
            (
                "Clients and Agents **MUST** treat all capabilities omitted in the `initialize` "
                "request as **UNSUPPORTED**."
            ),
        ),
        _only_if_offered("elicitation", "elicitation/create"),
        violation="elicitation/create to a client without elicitation",
    ),
    Requirement(
        "ACP1-A-MCP-001",
        "advisory",
        "The agent connects to the MCP servers of a session on stdio.",
        prose("session-setup", "Agents **SHOULD** connect to all MCP servers specified by the Client."),
        _started,
        scenario="mcp-server",
        violation="a server that is never started",
    ),
    Requirement(
        "ACP1-A-MCP-002",
        "mandatory",
        "The agent starts MCP servers with the arguments it is given.",
        schema("/$defs/McpServer/anyOf/2", "Stdio transport configuration All Agents MUST support this transport."),
        _with_arguments,
        scenario="mcp-server",
        violation="a server started without arguments",
    ),
    Requirement(
        "ACP1-A-MCP-003",
        "mandatory",
        "The agent answers session/new where an MCP server cannot be started, with a session or with an error.",
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
        "The agent opens sessions and runs turns after an MCP server could not be started.",
        TURN_ENDS,
        answered("after", expect="result"),
        scenario="mcp-server-dead",
        violation="an agent that exits",
    ),
)
