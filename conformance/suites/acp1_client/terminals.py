"""Terminals that clients serve: commands, output and its limit, exit status, kill and release."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from conformance.documents import Source, is_binding
from conformance.driver import StoppedError
from conformance.judging import (
    PASS,
    Judge,
    Requirement,
    Verdict,
    evidence,
    failed,
    not_tested,
    skipped,
    unanswered_reason,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import prose, results_fit, schema
from conformance.suites.acp1_client.agent import SIDE, InTurn, Turn, answered, granted, marked
from conformance.suites.jsonrpc_rules import REPLY_QUOTE
from conformance.traffic import Message, Traffic, mark_indices
from conformance.values import Object, as_object, as_text, at, is_object

_TERMINAL: Final = "terminal"
Problem = Callable[[Object, Traffic], str]
"""Describes what is wrong with a result; empty if nothing is."""


def _result(problem: Problem, *labels: str) -> Judge:
    """The requests under these marks have results without a problem."""

    def judge(traffic: Traffic) -> Verdict:
        verdict = granted(*labels)(traffic)
        if verdict.outcome != "pass":
            return verdict
        for request in marked(traffic, *labels):
            assert request.answer
            reason = problem(request.answer.result, traffic)
            if reason:
                return failed(reason, *evidence(request))
        return PASS

    return judge


def _output(result: Object) -> str:
    """Return the output with the line ends of a pipe, because a terminal may produce CR LF."""
    return as_text(result.get("output")).replace("\r\n", "\n")


def _holds_lines(result: Object, _: Traffic) -> str:
    found = _output(result)
    return "" if "line 1\nline 2\nline 3" in found else f"the output is {found[:80]!r}"


def _has_exited(result: Object, _: Traffic) -> str:
    code = at(result, "exitStatus.exitCode")
    return "" if code == CODE else f"the command exited with {CODE}, but exitStatus is {result.get('exitStatus')!r}"


def _has_not_exited(result: Object, _: Traffic) -> str:
    status = result.get("exitStatus")
    return "" if status is None else f"the command still runs, but exitStatus is {status!r}"


def _exit_code(result: Object, _: Traffic) -> str:
    code = result.get("exitCode")
    return "" if code == CODE else f"the command exited with {CODE}, but exitCode is {code!r}"


def _anything(_: Object, __: Traffic) -> str:
    return ""


def _within_limit(result: Object, _: Traffic) -> str:
    size = len(as_text(result.get("output")).encode(errors="replace"))
    return f"the output has {size} bytes, and the limit is {LIMIT}" if size > LIMIT else ""


def _is_the_end(result: Object, _: Traffic) -> str:
    found = _output(result)
    return "" if f"line {LINES}" in found else f"the output ends with {found[-40:]!r}"


def _whole_characters(result: Object, _: Traffic) -> str:
    strange = set(_output(result).strip()) - {"\u00e9"}
    return f"the output contains {sorted(strange)!r}, which the command did not print" if strange else ""


def _is_truncated(result: Object, _: Traffic) -> str:
    return "" if result.get("truncated") is True else f"truncated is {result.get('truncated')!r}"


def _is_whole(result: Object, _: Traffic) -> str:
    return "" if result.get("truncated") is False else f"truncated is {result.get('truncated')!r}"


def _shown(result: Object) -> Object:
    text = _output(result)
    try:
        return as_object(json.loads(text[text.index("{") :].strip()))
    except ValueError:
        return {}


def _given(key: str, expected: Callable[[Traffic], object]) -> Problem:
    def problem(result: Object, traffic: Traffic) -> str:
        found, wanted = _shown(result).get(key), expected(traffic)
        return "" if found == wanted else f"the command received {found!r}, not {wanted!r}"

    return problem


def _cwd(traffic: Traffic) -> object:
    return next((entry.value for entry in traffic.marks("cwd")), None)


def _stopped_running(traffic: Traffic) -> Verdict:
    marks = traffic.marks("still-running")
    if not marks:
        return not_tested("no terminal was released")
    if marks[0].value:
        released = [index for request in traffic.requests("server", "terminal/release") for index in evidence(request)]
        reason = "the command still ran three seconds after the release of its terminal"
        return failed(reason, *released, *mark_indices(traffic, "still-running"))
    return PASS


def _two(traffic: Traffic) -> list[Message]:
    return [*marked(traffic, "first"), *marked(traffic, "second")]


def _own_output(traffic: Traffic) -> Verdict:
    found = _two(traffic)
    if not found:
        return not_tested("the terminals were not created")
    ids = next((entry.value for entry in traffic.marks("two")), [None, None])
    if ids[0] == ids[1]:
        return failed(f"two terminals have the id {ids[0]!r}", *evidence(found[0]))
    for request, count in zip(found, (2, 9), strict=False):
        if request.answer is None or not request.succeeded:
            return failed("terminal/output was not answered with a result", *evidence(request))
        if _output(request.answer.result).count("line ") != count:
            return failed(f"the output is {_output(request.answer.result)[:80]!r}", *evidence(request))
    return PASS


def _cancel_answered(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "cancelled-wait")
    if not requests:
        return not_tested("no terminal was created")
    answer = requests[0].answer
    if answer is None:
        return failed(unanswered_reason(traffic, requests[0], "a cancelled request"), requests[0].index)
    code = answer.error.get("code")
    if code is not None and code != _CANCELLED:
        return failed(f"a cancelled request was answered with the error {code}", *evidence(requests[0]))
    return PASS


_CANCELLED: Final = -32800


def _at_once(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "create")
    if not requests:
        return not_tested("no terminal was requested")
    if requests[0].answer is None:
        return failed(
            unanswered_reason(traffic, requests[0], "terminal/create of a running command"), requests[0].index
        )
    if not is_object(requests[0].answer.object.get("result")):
        return skipped("terminal/create was refused")
    return PASS


def _row(number: int, text: str, source: Source, judge: Judge, scenario: str | None, violation: str) -> Requirement:
    """Return a requirement for clients with terminals. It decides if its quote is binding."""
    name = f"ACP1-C-TERM-{number:03}"
    level = "capability" if is_binding(source) else "advisory"
    return Requirement(name, level, text, source, judge, scenario, _TERMINAL, violation)


_RELEASED = "After release the terminal ID becomes invalid for all other `terminal/*` methods."
_REMAINS = (
    "After killing a command, the terminal remains valid and can be used with: - `terminal/output` to get the final "
    "output - `terminal/wait_for_exit` to get the exit status"
)
_FRONT = "When the limit is exceeded, the Client truncates from the beginning of the output to stay within the limit."
_LIMIT = "/$defs/CreateTerminalRequest/properties/outputByteLimit"


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    _row(
        1,
        "The client answers terminal/create in the schema's shape.",
        schema("/$defs/CreateTerminalResponse/required", '["terminalId"]'),
        results_fit("terminal/create", "CreateTerminalResponse", SIDE),
        None,
        '{"terminalId":1}',
    ),
    _row(
        2,
        "The client answers terminal/output in the schema's shape.",
        schema("/$defs/TerminalOutputResponse/required", '["output", "truncated"]'),
        results_fit("terminal/output", "TerminalOutputResponse", SIDE),
        None,
        '{"output":"..."} without truncated',
    ),
    _row(
        3,
        "The client answers terminal/wait_for_exit in the schema's shape.",
        schema("/$defs/WaitForTerminalExitResponse/properties/exitCode", '"format": "uint32"'),
        results_fit("terminal/wait_for_exit", "WaitForTerminalExitResponse", SIDE),
        None,
        '{"exitCode":"7"}',
    ),
    _row(
        4,
        "The client answers terminal/create while the command runs.",
        prose("terminals", "The Client returns a Terminal ID immediately without waiting for completion:"),
        _at_once,
        "terminal-kill",
        "silence until the command has ended",
    ),
    _row(
        5,
        "The output of a finished command contains what it printed.",
        schema("/$defs/TerminalOutputResponse/properties/output", "The terminal output captured so far."),
        _result(_holds_lines, "output"),
        "terminal",
        '{"output":""}',
    ),
    _row(
        6,
        "The output of a finished command includes its exit status.",
        schema("/$defs/TerminalOutputResponse/properties/exitStatus", "Exit status if the command has completed."),
        _result(_has_exited, "output"),
        "terminal",
        '"exitStatus":null',
    ),
    _row(
        7,
        "The output of a running command has no exit status.",
        prose("terminals", "Present only if the command has exited."),
        _result(_has_not_exited, "running"),
        "terminal-kill",
        '"exitStatus":{"exitCode":0}',
    ),
    _row(
        8,
        "The client reports the exit code of a finished command.",
        schema("/$defs/WaitForTerminalExitResponse/properties/exitCode", "The process exit code"),
        _result(_exit_code, "wait"),
        "terminal",
        '{"exitCode":0} of a command that exited with 7',
    ),
    _row(
        9,
        "Complete output is not marked as truncated.",
        schema(
            "/$defs/TerminalOutputResponse/properties/truncated", "Whether the output was truncated due to byte limits."
        ),
        _result(_is_whole, "output"),
        "terminal",
        '"truncated":true',
    ),
    _row(
        10,
        "Truncated output is marked as truncated.",
        schema(
            "/$defs/TerminalOutputResponse/properties/truncated", "Whether the output was truncated due to byte limits."
        ),
        _result(_is_truncated, "limited"),
        "terminal-limit",
        '"truncated":false',
    ),
    _row(
        11,
        "Output stays within the limit.",
        schema(_LIMIT, _FRONT),
        _result(_within_limit, "limited", "wide"),
        "terminal-limit",
        "18 KB of output, with the limit 1001",
    ),
    _row(
        12,
        "Output beyond the limit loses its beginning, not its end.",
        schema(_LIMIT, _FRONT),
        _result(_is_the_end, "limited"),
        "terminal-limit",
        "the first 1001 bytes",
    ),
    _row(
        13,
        "Output is truncated at a character boundary.",
        schema(_LIMIT, "The Client MUST ensure truncation happens at a character boundary"),
        _result(_whole_characters, "wide"),
        "terminal-limit",
        '"output":"\\ufffd\u00e9\u00e9..."',
    ),
    _row(
        14,
        "The command receives its arguments unchanged.",
        schema("/$defs/CreateTerminalRequest/properties/args", "Array of command arguments."),
        _result(_given("args", lambda _: ARGUMENTS), "given"),
        "terminal-given",
        "arguments that a shell has split",
    ),
    _row(
        15,
        "The command receives its environment variables.",
        schema("/$defs/CreateTerminalRequest/properties/env", "Environment variables for the command."),
        _result(_given("env", lambda _: VALUE), "given"),
        "terminal-given",
        "a command without the variables",
    ),
    _row(
        16,
        "The command runs in the given directory.",
        schema("/$defs/CreateTerminalRequest/properties/cwd", "Working directory for the command."),
        _result(_given("cwd", _cwd), "given"),
        "terminal-given",
        "a command in the client's directory",
    ),
    _row(
        17,
        "A pending terminal/wait_for_exit is answered when the command is killed.",
        prose("terminals", "The Client responds once the command exits:"),
        _result(_anything, "waiting"),
        "terminal-kill",
        "silence",
    ),
    _row(
        18,
        "A terminal still returns its output after its command was killed.",
        prose("terminals", _REMAINS),
        _result(_anything, "killed-output"),
        "terminal-kill",
        '"error":{"code":-32002,"message":"There is no such terminal"}',
    ),
    _row(
        19,
        "A terminal still returns the exit status after its command was killed.",
        prose("terminals", _REMAINS),
        _result(_anything, "killed-wait"),
        "terminal-kill",
        '"error":{"code":-32002,"message":"There is no such terminal"}',
    ),
    _row(
        20,
        "A released terminal no longer exists.",
        prose("terminals", _RELEASED),
        answered("released", expect="error"),
        "terminal",
        '{"output":"...","truncated":false} after the release',
    ),
    _row(
        21,
        "A release ends a running command.",
        prose("terminals", "The `terminal/release` kills the command if still running and releases all resources:"),
        _stopped_running,
        "terminal-release",
        "a build that keeps running",
    ),
    _row(
        22,
        "Two terminals have separate ids and output.",
        schema("/$defs/CreateTerminalResponse/properties/terminalId", "The unique identifier for the created"),
        _own_output,
        "terminals-at-once",
        "the output of both commands in one terminal",
    ),
    _row(
        23,
        "The client answers requests for an unknown terminal with errors.",
        schema("/$defs/ErrorCode/anyOf/7", "A given resource, such as a session or file, was not found."),
        answered("unknown-terminal", expect="error"),
        "terminal-unknown",
        "{}",
    ),
    _row(
        24,
        "The client answers terminal/create of an unknown command.",
        prose("json-rpc", REPLY_QUOTE),
        answered("no-command"),
        "terminal-unknown",
        "silence",
    ),
    _row(
        25,
        "A cancelled request is answered with a result or with -32800.",
        schema(
            "/anyOf/2/properties/params/anyOf/0/anyOf/0",
            "MUST send one of these responses for the original request:",
        ),
        _cancel_answered,
        "terminal-cancel",
        "silence after $/cancel_request",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_PROBE: Final = Path(__file__).parents[2] / "probes" / "terminal_command.py"
CODE: Final = 7
LIMIT: Final = 1001
"""Odd, so that it splits a two-byte character."""
LINES: Final = 2000
ARGUMENTS: Final = ["two words", "", 'it\'s "quoted" $HOME', "\u00e9\u4e2d"]
VARIABLE: Final = "REWINDOW_CONFORMANCE_VALUE"
VALUE: Final = "a value; with $signs"
_HELD: Final = 30
"""Seconds that a command runs if it is not ended."""
_BRIEF: Final = 1
"""Seconds that a command runs that exits normally, if the client ignores a cancel."""
_SOON: Final = 3.0


def running(*words: str) -> Object:
    """Return a terminal command that runs the probe."""
    return {"command": sys.executable, "args": ["-I", "-S", str(_PROBE), "--", *words]}


def create(turn: Turn, label: str, *words: str, **more: Any) -> str:
    """Create a terminal that runs the probe, and return its id. Raises StoppedError."""
    created = turn.call("terminal/create", label, **running(*words), **more)
    name = as_text(at(created, "result.terminalId"))
    if not name:
        raise StoppedError("terminal/create was not answered with a terminalId")
    return name


def _on(turn: Turn, method: str, label: str, terminal: str) -> None:
    turn.call(f"terminal/{method}", label, terminalId=terminal)


def _run_finished(turn: Turn) -> None:
    turn.need("terminal")
    terminal = create(turn, "started", "lines", "3", str(CODE))
    _on(turn, "wait_for_exit", "wait", terminal)
    _on(turn, "output", "output", terminal)
    _on(turn, "release", "release", terminal)
    for method in ("output", "wait_for_exit", "kill"):
        _on(turn, method, "released", terminal)


def _run_killed(turn: Turn) -> None:
    turn.need("terminal")
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        terminal = create(turn, "create", "hold", f"{folder}/held", str(_HELD))
        _wait_for(turn, Path(folder, "held"))
        _on(turn, "output", "running", terminal)
        waiting = turn.ask("terminal/wait_for_exit", "waiting", terminalId=terminal)
        _on(turn, "kill", "kill", terminal)
        turn.driver.response(waiting)
        _on(turn, "output", "killed-output", terminal)
        _on(turn, "wait_for_exit", "killed-wait", terminal)
        _on(turn, "release", "release", terminal)


def _run_limited(turn: Turn) -> None:
    turn.need("terminal")
    for label, words in (("limited", ("lines", str(LINES), "0")), ("wide", ("wide", str(LINES)))):
        terminal = create(turn, "started", *words, outputByteLimit=LIMIT)
        _on(turn, "wait_for_exit", "wait-limited", terminal)
        _on(turn, "output", label, terminal)
        _on(turn, "release", "release", terminal)


def _run_released(turn: Turn) -> None:
    turn.need("terminal")
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        held = Path(folder, "held")
        terminal = create(turn, "create", "hold", str(held), str(_HELD))
        _wait_for(turn, held)
        _on(turn, "release", "release-running", terminal)
        for _ in range(round(_SOON / 0.1)):
            if not _is_running(held):
                break
            turn.driver.pause(0.1)
        turn.driver.mark("still-running", _is_running(held))


def _wait_for(turn: Turn, path: Path) -> None:
    for _ in range(round(turn.driver.options.timeout / 0.1)):
        if path.exists() and path.read_text():
            return
        turn.driver.pause(0.1)
    raise StoppedError("the command of the terminal was not started")


def _is_running(held: Path) -> bool:
    """Whether the process still runs that wrote its id to the file."""
    try:
        os.kill(int(held.read_text()), 0)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return False
    return True


def _run_given(turn: Turn) -> None:
    turn.need("terminal")
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        cwd = str(Path(folder).resolve())
        turn.driver.mark("cwd", cwd)
        variables = [{"name": VARIABLE, "value": VALUE}]
        terminal = create(turn, "started", "show", VARIABLE, *ARGUMENTS, env=variables, cwd=cwd)
        _on(turn, "wait_for_exit", "wait-given", terminal)
        _on(turn, "output", "given", terminal)
        _on(turn, "release", "release", terminal)


def _run_two(turn: Turn) -> None:
    turn.need("terminal")
    first = create(turn, "started", "lines", "2", "0")
    second = create(turn, "started", "lines", "9", "0")
    turn.driver.mark("two", [first, second])
    for label, terminal in (("first", first), ("second", second)):
        _on(turn, "wait_for_exit", "wait-two", terminal)
        _on(turn, "output", label, terminal)
    for terminal in (first, second):
        _on(turn, "release", "release", terminal)


def _run_unknown(turn: Turn) -> None:
    turn.need("terminal")
    for method in ("output", "wait_for_exit", "kill", "release"):
        _on(turn, method, "unknown-terminal", "rewindow-conformance-no-such-terminal")
    created = turn.call("terminal/create", "no-command", command="/rewindow-conformance/no/such/command")
    name = as_text(at(created, "result.terminalId"))
    if name:
        _on(turn, "wait_for_exit", "no-command", name)
        _on(turn, "release", "release", name)


def _run_cancelled_wait(turn: Turn) -> None:
    turn.need("terminal")
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        terminal = create(turn, "create", "hold", f"{folder}/held", str(_BRIEF))
        request = turn.ask("terminal/wait_for_exit", "cancelled-wait", terminalId=terminal)
        turn.driver.notify("$/cancel_request", {"requestId": request})
        turn.driver.response(request, _BRIEF + turn.driver.options.timeout)
        _on(turn, "release", "release", terminal)


SCENARIOS: Final = (
    Scenario("terminal", "Runs a command to its end, and uses its terminal after the release.", InTurn(_run_finished)),
    Scenario("terminal-kill", "Kills a running command, and continues to use its terminal.", InTurn(_run_killed)),
    Scenario("terminal-limit", "Runs commands with more output than the limit.", InTurn(_run_limited)),
    Scenario("terminal-release", "Releases a terminal with a running command.", InTurn(_run_released)),
    Scenario("terminal-given", "Passes arguments, a variable and a directory to a command.", InTurn(_run_given)),
    Scenario("terminals-at-once", "Runs two commands at the same time.", InTurn(_run_two)),
    Scenario("terminal-unknown", "Uses an unknown terminal and an unknown command.", InTurn(_run_unknown)),
    Scenario("terminal-cancel", "Cancels a terminal/wait_for_exit.", InTurn(_run_cancelled_wait)),
)
