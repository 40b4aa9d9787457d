"""Bytes on stdio: message framing and encoding, malformed lines, and the end of input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from conformance.driver import Driver
from conformance.judging import PASS, Requirement, Verdict, answered, failed, skipped
from conformance.suite import Scenario
from conformance.suites import jsonrpc_rules as rules
from conformance.suites.acp1 import INVALID_JSON, LINE, SAME_ID, UTF8, prose
from conformance.suites.acp1_agent.client import (
    AGENT,
    NONE,
    begin,
    finish_turn,
    initialize,
    is_working,
    new_session_params,
    open_probe,
    open_session,
    prompt_params,
    start_turn,
    text_block,
)
from conformance.suites.jsonrpc import exits_after_input, no_processes_left
from conformance.suites.jsonrpc_rules import REPLY_QUOTE
from conformance.suites.jsonrpc_scenarios import (
    MALFORMED_LINES,
    UNUSUAL_TEXT,
    Probe,
    byte_order_mark,
    lone_surrogate,
    long_line,
    running,
    scenarios,
)
from conformance.traffic import Traffic

_MESSAGE = "The agent MUST NOT write anything to its `stdout` that is not a valid ACP message."
_PIPE: Final = 65_536
"""Bytes in a Linux pipe by default."""


def _modest_log(traffic: Traffic) -> Verdict:
    logged = [(i, entry) for i, entry in enumerate(traffic.transcript.entries) if entry.kind == "server-log"]
    size = sum(entry.omitted or len(entry.data) for _, entry in logged)
    shown = [index for index, _ in (*logged[:2], *logged[-1:])]
    return failed(f"{size:,} bytes were written to standard error", *shown) if size > _PIPE else PASS


def _answers_meanwhile(traffic: Traffic) -> Verdict:
    if not traffic.marks("meanwhile"):
        return skipped("the agent showed no activity in the turn")
    return answered("meanwhile")(traffic)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    rules.MESSAGES_ONLY.of(AGENT, "ACP1-A-FRAME-001", prose("transports", _MESSAGE)),
    rules.UTF8.of(AGENT, "ACP1-A-FRAME-002", UTF8),
    rules.NEWLINE_AT_END.of(AGENT, "ACP1-A-FRAME-003", LINE),
    rules.NO_LONE_SURROGATES.of(AGENT, "ACP1-A-FRAME-004", UTF8),
    rules.SPLIT_WRITES.of(AGENT, "ACP1-A-FRAME-005", LINE),
    rules.JOINED_WRITES.of(AGENT, "ACP1-A-FRAME-006", LINE),
    rules.UNUSUAL_CHARACTERS.of(AGENT, "ACP1-A-FRAME-007", UTF8),
    rules.LONE_SURROGATE.of(AGENT, "ACP1-A-FRAME-008", UTF8),
    rules.SURVIVES_MALFORMED_LINES.of(AGENT, "ACP1-A-FRAME-009", INVALID_JSON),
    rules.ANSWERS_MALFORMED_LINES.of(AGENT, "ACP1-A-FRAME-010", INVALID_JSON),
    rules.NOT_UTF8.of(AGENT, "ACP1-A-FRAME-011", UTF8),
    rules.BLANK_LINES.of(AGENT, "ACP1-A-FRAME-012", LINE),
    rules.CR_LF.of(AGENT, "ACP1-A-FRAME-013", LINE),
    rules.BYTE_ORDER_MARK.of(AGENT, "ACP1-A-FRAME-014", UTF8),
    rules.LONG_LINE.of(AGENT, "ACP1-A-FRAME-015", LINE),
    rules.UNASKED_RESPONSE.of(AGENT, "ACP1-A-FRAME-016", SAME_ID),
    Requirement(
        "ACP1-A-FRAME-017",
        "informational",
        "The agent exits within three seconds after its input ends.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        exits_after_input,
        scenario="end-of-input",
        violation="an agent that runs on after its editor was closed",
    ),
    Requirement(
        "ACP1-A-FRAME-018",
        "informational",
        "The agent exits within three seconds after its input ends during a turn.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        exits_after_input,
        scenario="end-of-input-in-a-turn",
        violation="an agent that still finishes its turn",
    ),
    Requirement(
        "ACP1-A-FRAME-019",
        "advisory",
        "The agent answers a request that is directly followed by the end of its input.",
        prose("json-rpc", REPLY_QUOTE),
        answered("last", expect="result"),
        scenario="end-of-input-at-once",
        violation="`echo '{...initialize...}' | agent` prints nothing",
    ),
    Requirement(
        "ACP1-A-FRAME-020",
        "informational",
        "The agent leaves no processes behind.",
        prose("session-setup", "then free the resources associated with the session."),
        no_processes_left,
        violation="an MCP server that outlives its agent",
    ),
    Requirement(
        "ACP1-A-FRAME-021",
        "informational",
        "The agent writes at most 64 KiB to standard error in a scenario, because a pipe holds no more.",
        prose("transports", "Clients **MAY** capture, forward, or ignore this logging."),
        _modest_log,
        violation="an agent that stops when the pipe is full, because its client does not read it",
    ),
    Requirement(
        "ACP1-A-FRAME-022",
        "mandatory",
        "While tools run, the agent answers requests, and no process of a tool reads its input.",
        prose("json-rpc", REPLY_QUOTE),
        _answers_meanwhile,
        scenario="asked-meanwhile",
        violation="a command of the agent reads the request",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_run = partial(running, open_probe)


def _run_unusual(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    text = f"{driver.options.prompt} {UNUSUAL_TEXT}"
    request = driver.request("session/prompt", prompt_params(session, text_block(text)), label="unusual")
    finish_turn(driver, request)


def _run_escaped(driver: Driver) -> None:
    begin(driver)
    params = prompt_params(open_session(driver), text_block(driver.options.prompt))
    lone_surrogate("\ud83d", driver.options.scenario_timeout / 2)(Probe(driver, "session/prompt", params))
    _alive(driver)


def _run_bom(driver: Driver) -> None:
    byte_order_mark(Probe(driver, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}))


def _alive(driver: Driver) -> None:
    Probe(driver, "session/new", new_session_params(driver)).alive()


def _run_unknown(driver: Driver) -> None:
    begin(driver, NONE)
    for label, method in (("unknown", "session/rewindow_conformance"), ("extension", "_rewindow_conformance/unknown")):
        request = driver.request(method, {}, label=label)
        driver.response(request)
    for method in ("_rewindow_conformance/note", "$/rewindow_conformance", "session/rewindow_conformance"):
        driver.mark("notification", method)
        driver.notify(method, {"text": "nothing"})
    driver.pause(0.3)
    _alive(driver)


def _run_unadvertised(driver: Driver) -> None:
    initialize(driver, NONE)
    for method in ("session/rewindow_conformance_other", "terminal/create", "fs/read_text_file"):
        request = driver.request(method, {"sessionId": "none"}, label="unknown")
        driver.response(request)


def _run_without_params(driver: Driver) -> None:
    begin(driver, NONE)
    for label, method in (("no-params", "session/new"), ("no-params", "session/prompt")):
        request = driver.request(method, label=label)
        driver.response(request)
    # JSON-RPC allows params that are an array or an object. The others are not requests and may be ignored.
    wrong: tuple[tuple[str, Any], ...] = (("no-params", []), ("no-request", "text"), ("no-request", 5))
    for label, params in wrong:
        request = driver.request("session/new", params, label=label)
        driver.response(request)
    _alive(driver)


def _end(driver: Driver, prepare: Callable[[Driver], Any]) -> None:
    prepare(driver)
    driver.close_input()
    driver.mark("closed-in-time", driver.wait_closed(3.0))


def _run_end_idle(driver: Driver) -> None:
    _end(driver, lambda d: (begin(d), open_session(d)))


def _run_end_turn(driver: Driver) -> None:
    def prepare(d: Driver) -> None:
        begin(d)
        start_turn(d, open_session(d), d.options.slow_prompt)
        d.wait(is_working, 2)

    _end(driver, prepare)


def _run_end_unread(driver: Driver) -> None:
    request = driver.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, label="last")
    driver.close_input()
    driver.response(request, 5)


SCENARIOS: Final = (
    *scenarios(_run, (*MALFORMED_LINES, b"[]\n")),
    Scenario(
        "unusual-characters", "Prompts with line separators and characters outside the basic plane.", _run_unusual
    ),
    Scenario("lone-surrogate", "Prompts with an escaped lone surrogate.", _run_escaped),
    Scenario("byte-order-mark", "Sends a byte order mark before the first message.", _run_bom),
    Scenario(
        "long-line", "Sends a notification of 50 MB.", _run(long_line("_rewindow_conformance/long"), True), alone=True
    ),
    Scenario("unknown-methods", "Sends unknown requests and notifications.", _run_unknown),
    Scenario("client-methods", "Calls the client's methods on the agent.", _run_unadvertised),
    Scenario(
        "wrong-params", "Sends requests without params, and with params that are not an object.", _run_without_params
    ),
    Scenario("end-of-input", "Closes the input while nothing happens.", _run_end_idle),
    Scenario("end-of-input-in-a-turn", "Closes the input during a slow turn.", _run_end_turn),
    Scenario("end-of-input-at-once", "Closes the input right after a request.", _run_end_unread),
)
