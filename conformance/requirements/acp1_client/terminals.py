"""Terminals, behind the client's capability: commands, output and its limit, ends, and what becomes of ids.

One file in spite of its length, because each requirement stands beside its judge.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from conformance.documents import Source, binds
from conformance.judging import evidence, unanswered
from conformance.requirement import Judge, Requirement
from conformance.requirements.acp1 import prose, result_is, schema
from conformance.requirements.acp1_client.reading import SIDE, answered, granted, marked
from conformance.scenarios.acp1_client.terminals import ARGUMENTS, CODE, LIMIT, LINES, VALUE
from conformance.traffic import Message, Traffic, places
from conformance.values import Object, as_object, as_text, at, is_object
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_TERMINAL: Final = "terminal"
Problem = Callable[[Object, Traffic], str]
"""What is wrong with a result; empty where nothing is."""


def _result(problem: Problem, *labels: str) -> Judge:
    """The requests under these marks are answered with results that have no problem."""

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
    """Output with the line ends of a pipe: a terminal may make CR LF of them."""
    return as_text(result.get("output")).replace("\r\n", "\n")


def _holds_lines(result: Object, _: Traffic) -> str:
    found = _output(result)
    return "" if "line 1\nline 2\nline 3" in found else f"the output is {found[:80]!r}"


def _has_exited(result: Object, _: Traffic) -> str:
    code = at(result, "exitStatus.exitCode")
    return "" if code == CODE else f"the command exited with {CODE}, and exitStatus is {result.get('exitStatus')!r}"


def _has_not_exited(result: Object, _: Traffic) -> str:
    status = result.get("exitStatus")
    return "" if status is None else f"the command runs, and exitStatus is {status!r}"


def _exit_code(result: Object, _: Traffic) -> str:
    code = result.get("exitCode")
    return "" if code == CODE else f"the command exited with {CODE}, and exitCode is {code!r}"


def _anything(_: Object, __: Traffic) -> str:
    return ""


def _within_limit(result: Object, _: Traffic) -> str:
    size = len(as_text(result.get("output")).encode(errors="replace"))
    return f"{size} bytes of output, and the limit is {LIMIT}" if size > LIMIT else ""


def _is_the_end(result: Object, _: Traffic) -> str:
    found = _output(result)
    return "" if f"line {LINES}" in found else f"the output ends with {found[-40:]!r}"


def _whole_characters(result: Object, _: Traffic) -> str:
    strange = set(_output(result).strip()) - {"\u00e9"}
    return f"the output holds {sorted(strange)!r}, which the command did not print" if strange else ""


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
        return "" if found == wanted else f"the command found {found!r}, not {wanted!r}"

    return problem


def _cwd(traffic: Traffic) -> object:
    return next((entry.value for entry in traffic.marks("cwd")), None)


def _stopped_running(traffic: Traffic) -> Verdict:
    marks = traffic.marks("still-running")
    if not marks:
        return not_tested("no terminal was released")
    if marks[0].value:
        released = [index for request in traffic.requests("server", "terminal/release") for index in evidence(request)]
        reason = "the command still ran three seconds after its terminal was released"
        return failed(reason, *released, *places(traffic, "still-running"))
    return PASS


def _two(traffic: Traffic) -> list[Message]:
    return [*marked(traffic, "first"), *marked(traffic, "second")]


def _own_output(traffic: Traffic) -> Verdict:
    found = _two(traffic)
    if not found:
        return not_tested("the terminals were not made")
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
        return not_tested("no terminal was made")
    answer = requests[0].answer
    if answer is None:
        return failed(unanswered(traffic, requests[0], "a request that was cancelled"), requests[0].index)
    code = answer.error.get("code")
    if code is not None and code != _CANCELLED:
        return failed(f"a request that was cancelled was answered with the error {code}", *evidence(requests[0]))
    return PASS


_CANCELLED: Final = -32800


def _at_once(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "create")
    if not requests:
        return not_tested("no terminal was asked for")
    if requests[0].answer is None:
        return failed(unanswered(traffic, requests[0], "terminal/create of a command that runs"), requests[0].index)
    if not is_object(requests[0].answer.object.get("result")):
        return skipped("terminal/create was refused")
    return PASS


def _row(number: int, text: str, source: Source, judge: Judge, scenario: str | None, violation: str) -> Requirement:
    """A requirement for clients that advertise terminals, which decides where its quote binds."""
    name = f"ACP1-C-TERM-{number:03}"
    level = "capability" if binds(source) else "advisory"
    return Requirement(name, level, text, source, judge, scenario, _TERMINAL, violation)


_RELEASED = "After release the terminal ID becomes invalid for all other `terminal/*` methods."
_REMAINS = (
    "After killing a command, the terminal remains valid and can be used with: - `terminal/output` to get the final "
    "output - `terminal/wait_for_exit` to get the exit status"
)
_FRONT = "When the limit is exceeded, the Client truncates from the beginning of the output to stay within the limit."
_LIMIT = "/$defs/CreateTerminalRequest/properties/outputByteLimit"
_REPLY = "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."

REQUIREMENTS: Final = (
    _row(
        1,
        "The client answers terminal/create in the schema's shape.",
        schema("/$defs/CreateTerminalResponse/required", '["terminalId"]'),
        result_is("terminal/create", "CreateTerminalResponse", SIDE),
        None,
        '{"terminalId":1}',
    ),
    _row(
        2,
        "The client answers terminal/output in the schema's shape.",
        schema("/$defs/TerminalOutputResponse/required", '["output", "truncated"]'),
        result_is("terminal/output", "TerminalOutputResponse", SIDE),
        None,
        '{"output":"..."} without truncated',
    ),
    _row(
        3,
        "The client answers terminal/wait_for_exit in the schema's shape.",
        schema("/$defs/WaitForTerminalExitResponse/properties/exitCode", '"format": "uint32"'),
        result_is("terminal/wait_for_exit", "WaitForTerminalExitResponse", SIDE),
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
        "The output of a command that has ended holds what it printed.",
        schema("/$defs/TerminalOutputResponse/properties/output", "The terminal output captured so far."),
        _result(_holds_lines, "output"),
        "terminal",
        '{"output":""}',
    ),
    _row(
        6,
        "The output of a command that has ended comes with its exit status.",
        schema("/$defs/TerminalOutputResponse/properties/exitStatus", "Exit status if the command has completed."),
        _result(_has_exited, "output"),
        "terminal",
        '"exitStatus":null',
    ),
    _row(
        7,
        "The output of a command that runs has no exit status.",
        prose("terminals", "Present only if the command has exited."),
        _result(_has_not_exited, "running"),
        "terminal-kill",
        '"exitStatus":{"exitCode":0}',
    ),
    _row(
        8,
        "The client tells the exit code once the command has ended.",
        schema("/$defs/WaitForTerminalExitResponse/properties/exitCode", "The process exit code"),
        _result(_exit_code, "wait"),
        "terminal",
        '{"exitCode":0} of a command that exited with 7',
    ),
    _row(
        9,
        "Output that was not cut is not called truncated.",
        schema(
            "/$defs/TerminalOutputResponse/properties/truncated", "Whether the output was truncated due to byte limits."
        ),
        _result(_is_whole, "output"),
        "terminal",
        '"truncated":true',
    ),
    _row(
        10,
        "Output that was cut is called truncated.",
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
        "Of output beyond the limit, the end is kept.",
        schema(_LIMIT, _FRONT),
        _result(_is_the_end, "limited"),
        "terminal-limit",
        "the first 1001 bytes",
    ),
    _row(
        13,
        "Output is cut at the boundary of a character.",
        schema(_LIMIT, "The Client MUST ensure truncation happens at a character boundary"),
        _result(_whole_characters, "wide"),
        "terminal-limit",
        '"output":"\\ufffd\u00e9\u00e9..."',
    ),
    _row(
        14,
        "The command is given its arguments as they are.",
        schema("/$defs/CreateTerminalRequest/properties/args", "Array of command arguments."),
        _result(_given("args", lambda _: ARGUMENTS), "given"),
        "terminal-given",
        "arguments that a shell has split",
    ),
    _row(
        15,
        "The command is given its variables.",
        schema("/$defs/CreateTerminalRequest/properties/env", "Environment variables for the command."),
        _result(_given("env", lambda _: VALUE), "given"),
        "terminal-given",
        "a command without them",
    ),
    _row(
        16,
        "The command runs in its directory.",
        schema("/$defs/CreateTerminalRequest/properties/cwd", "Working directory for the command."),
        _result(_given("cwd", _cwd), "given"),
        "terminal-given",
        "a command in the client's directory",
    ),
    _row(
        17,
        "A request that waits for a command is answered when the command is killed.",
        prose("terminals", "The Client responds once the command exits:"),
        _result(_anything, "waiting"),
        "terminal-kill",
        "silence",
    ),
    _row(
        18,
        "A terminal whose command was killed still tells its output.",
        prose("terminals", _REMAINS),
        _result(_anything, "killed-output"),
        "terminal-kill",
        '"error":{"code":-32002,"message":"There is no such terminal"}',
    ),
    _row(
        19,
        "A terminal whose command was killed still tells its end.",
        prose("terminals", _REMAINS),
        _result(_anything, "killed-wait"),
        "terminal-kill",
        '"error":{"code":-32002,"message":"There is no such terminal"}',
    ),
    _row(
        20,
        "A terminal that was released is none any more.",
        prose("terminals", _RELEASED),
        answered("released", expect="error"),
        "terminal",
        '{"output":"...","truncated":false} after the release',
    ),
    _row(
        21,
        "A release ends a command that runs.",
        prose("terminals", "The `terminal/release` kills the command if still running and releases all resources:"),
        _stopped_running,
        "terminal-release",
        "a build that goes on",
    ),
    _row(
        22,
        "Two terminals have ids and output of their own.",
        schema("/$defs/CreateTerminalResponse/properties/terminalId", "The unique identifier for the created"),
        _own_output,
        "terminals-at-once",
        "the output of both in one",
    ),
    _row(
        23,
        "The client answers requests about a terminal that never was with errors.",
        schema("/$defs/ErrorCode/anyOf/7", "A given resource, such as a session or file, was not found."),
        answered("unknown-terminal", expect="error"),
        "terminal-unknown",
        "{}",
    ),
    _row(
        24,
        "The client answers the wish for a command that does not exist.",
        prose("json-rpc", _REPLY),
        answered("no-command"),
        "terminal-unknown",
        "silence",
    ),
    _row(
        25,
        "A request that was cancelled is answered: with a result, or with -32800.",
        schema(
            "/anyOf/2/properties/params/anyOf/0/anyOf/0",
            "MUST send one of these responses for the original request:",
        ),
        _cancel_answered,
        "terminal-cancel",
        "silence after $/cancel_request",
    ),
)
