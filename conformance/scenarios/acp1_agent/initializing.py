"""How connections begin: versions, capabilities that are absent, null or malformed, and authentication."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import Driver
from conformance.scenarios.acp1_agent.client import (
    FULL,
    NONE,
    VERSION,
    Editor,
    begin,
    finish_turn,
    initialize,
    need,
    open_session,
    prompt_params,
    text_block,
    turn,
)
from conformance.suite import Scenario

NEWER: Final = 65535
"""The largest version that the schema allows."""


def _ask(driver: Driver, label: str, params: Any) -> None:
    driver.response(driver.request("initialize", params, label=label))


def _newer(driver: Driver) -> None:
    _ask(driver, "initialize", {"protocolVersion": NEWER, "clientCapabilities": {}})


def _older(driver: Driver) -> None:
    _ask(driver, "initialize", {"protocolVersion": 0, "clientCapabilities": {}})


def _bare(driver: Driver) -> None:
    Editor().serve(driver, NONE)
    _ask(driver, "initialize", {"protocolVersion": VERSION})
    turn(driver, open_session(driver), driver.options.tool_prompt)


def _nulls(driver: Driver) -> None:
    capabilities = {"fs": {"_meta": None}, "session": None, "elicitation": None, "_meta": None}
    params = {"protocolVersion": VERSION, "clientCapabilities": capabilities, "clientInfo": None, "_meta": None}
    _ask(driver, "initialize", params)


def _meta(driver: Driver) -> None:
    meta = {"example.org/number": 1, "traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01"}
    params = {"protocolVersion": VERSION, "clientCapabilities": {**FULL, "_meta": meta}, "_meta": meta}
    Editor().serve(driver, FULL)
    _ask(driver, "initialize", params)
    session = open_session(driver, _meta={**meta, "cwd": "/nonexistent", "sessionId": "spoofed"})
    prompted = {**prompt_params(session, text_block(driver.options.prompt)), "_meta": meta}
    finish_turn(driver, driver.request("session/prompt", prompted, label="prompt"))


def _minimal(driver: Driver) -> None:
    begin(driver, NONE)
    turn(driver, open_session(driver), driver.options.tool_prompt)


def _logout(driver: Driver) -> None:
    begin(driver)
    need(driver, "auth.logout")
    if not driver.options.allow_logout:
        driver.mark("logout-not-allowed")
        return
    driver.response(driver.request("logout", {}, label="logout"))


def _unknown_method_id(driver: Driver) -> None:
    initialize(driver, NONE)
    request = driver.request("authenticate", {"methodId": "rewindow-conformance-unknown"}, label="authenticate")
    driver.response(request)


SCENARIOS: Final = (
    Scenario("version-newer", "Asks for protocol version 65535, which nobody supports.", _newer),
    Scenario("version-older", "Asks for protocol version 0, which nobody supports.", _older),
    Scenario("initialize-bare", "Initializes with nothing but the version, and runs a turn.", _bare),
    Scenario("initialize-nulls", "Initializes with null wherever the schema allows it.", _nulls),
    Scenario("meta", "Sends `_meta` with its own keys, and with names of real parameters.", _meta),
    Scenario("minimal-client", "Advertises no capability, and runs a turn that wants to use a tool.", _minimal),
    Scenario("logout", "Logs out, where `--allow-logout` permits it.", _logout),
    Scenario("authenticate-unknown", "Authenticates by a method that was not advertised.", _unknown_method_id),
)
