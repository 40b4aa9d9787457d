"""Modes and configuration options: setting each, setting what there is not, and while a turn runs."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import Driver
from conformance.scenarios.acp1_agent.client import (
    begin,
    finish_turn,
    is_working,
    new_session_params,
    start_turn,
)
from conformance.suite import Scenario
from conformance.values import Object, as_list, as_object, as_text, at

_FEW: Final = 8
"""Values of one option that are set; the others are alike."""


def _ask(driver: Driver, label: str, method: str, params: Any) -> None:
    request = driver.request(method, params, label=label)
    driver.response(request)


def _modes(driver: Driver) -> None:
    begin(driver)
    new = driver.call("session/new", new_session_params(driver))
    session = as_text(new.get("sessionId"))
    modes = [as_text(as_object(mode).get("id")) for mode in as_list(at(new, "modes.availableModes"))]
    if not modes:
        driver.mark("no-modes")
        return
    current = as_text(at(new, "modes.currentModeId"))
    for mode in (*modes[:_FEW], *([current] if current in modes else [])):
        _ask(driver, "set-mode", "session/set_mode", {"sessionId": session, "modeId": mode})
    _ask(driver, "unknown-mode", "session/set_mode", {"sessionId": session, "modeId": "no such mode"})
    prompt = start_turn(driver, session, driver.options.slow_prompt)
    driver.wait(is_working, 2)
    _ask(driver, "set-mode-meanwhile", "session/set_mode", {"sessionId": session, "modeId": modes[0]})
    driver.notify("session/cancel", {"sessionId": session})
    finish_turn(driver, prompt)


def values(option: Object) -> list[Any]:
    """What an option can be set to: the values of a select, flat or in groups, or both booleans."""
    if option.get("type") == "boolean":
        return [True, False]
    entries = [as_object(entry) for entry in as_list(option.get("options"))]
    nested = [as_object(inner) for entry in entries for inner in as_list(entry.get("options"))]
    return [entry["value"] for entry in (*entries, *nested) if isinstance(entry.get("value"), str)]


def _options(driver: Driver) -> None:
    begin(driver)
    new = driver.call("session/new", new_session_params(driver))
    session = as_text(new.get("sessionId"))
    options = [as_object(option) for option in as_list(new.get("configOptions"))]
    if not options:
        driver.mark("no-options")
        return
    for option in options:
        kind = {"type": "boolean"} if option.get("type") == "boolean" else {}
        for value in (*values(option)[:_FEW], option.get("currentValue")):
            params = {"sessionId": session, "configId": option.get("id"), "value": value, **kind}
            _ask(driver, "set-option", "session/set_config_option", params)
    unknown = {"sessionId": session, "configId": "no such option", "value": "x"}
    _ask(driver, "unknown-option", "session/set_config_option", unknown)
    first = {"sessionId": session, "configId": options[0].get("id"), "value": "no such value"}
    _ask(driver, "unknown-value", "session/set_config_option", first)


SCENARIOS: Final = (
    Scenario("modes", "Sets each mode, one that does not exist, and one while a turn runs.", _modes, alone=True),
    Scenario("config-options", "Sets each configuration option to its values, and to one it does not have.", _options),
)
