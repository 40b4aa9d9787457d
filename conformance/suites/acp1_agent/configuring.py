"""Modes and configuration options: their lists, setting them, and the answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from conformance.driver import Driver
from conformance.judging import (
    PASS,
    Judge,
    Requirement,
    Verdict,
    answered,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import prose, results_fit, schema
from conformance.suites.acp1_agent.client import (
    begin,
    client_advertises,
    finish_turn,
    is_working,
    new_session_params,
    start_turn,
    updates,
)
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at, is_list, is_object

_CATEGORIES: Final = ("mode", "model", "model_config", "thought_level")


def _mode_states(traffic: Traffic) -> Iterator[tuple[Message, Object]]:
    for request in traffic.requests("client", "session/new", "session/load", "session/resume"):
        if request.answer is not None and is_object(request.answer.result.get("modes")):
            yield request.answer, request.answer.result["modes"]


def _mode_ids(state: Object) -> list[str]:
    return [as_text(as_object(mode).get("id")) for mode in as_list(state.get("availableModes"))]


def _modes(traffic: Traffic) -> Verdict:
    found = list(_mode_states(traffic))
    for message, state in found:
        if state.get("currentModeId") not in _mode_ids(state):
            return failed(
                f"currentModeId is {state.get('currentModeId')!r}, not one of {_mode_ids(state)}", message.index
            )
    return PASS if found else skipped("the agent has no modes")


def _modes_differ(traffic: Traffic) -> Verdict:
    found = list(_mode_states(traffic))
    for message, state in found:
        if len(set(_mode_ids(state))) < len(_mode_ids(state)):
            return failed(f"two modes have the same id: {_mode_ids(state)}", message.index)
    return PASS if found else skipped("the agent has no modes")


def _reported_modes(traffic: Traffic) -> Verdict:
    known = {mode for _, state in _mode_states(traffic) for mode in _mode_ids(state)}
    found = updates(traffic, "current_mode_update")
    for message, update in found:
        if isinstance(update.get("currentModeId"), str) and update["currentModeId"] not in known:
            return failed(f"the current mode is {update['currentModeId']!r}, which is not available", message.index)
    return PASS if found else skipped("the agent reported no mode change")


def _unless(label: str, reason: str, judge: Judge) -> Judge:
    return lambda traffic: skipped(reason) if traffic.marks(label) else judge(traffic)


def _option_lists(traffic: Traffic) -> Iterator[tuple[Message, list[Object]]]:
    """Yield every list of options from the agent, with its message."""
    methods = ("session/new", "session/load", "session/resume", "session/set_config_option")
    for request in traffic.requests("client", *methods):
        if request.answer is not None and is_list(request.answer.result.get("configOptions")):
            yield request.answer, [as_object(option) for option in request.answer.result["configOptions"]]
    for message, update in updates(traffic, "config_option_update"):
        yield message, [as_object(option) for option in as_list(update.get("configOptions"))]


def _select_values(option: Object) -> list[Any]:
    """Return the values of a select, flat or grouped."""
    entries = [as_object(entry) for entry in as_list(option.get("options"))]
    nested = [as_object(inner) for entry in entries for inner in as_list(entry.get("options"))]
    return [entry.get("value") for entry in (*entries, *nested) if "value" in entry]


def _no_options() -> Verdict:
    return skipped("the agent has no configuration options")


def _current_is_offered(traffic: Traffic) -> Verdict:
    found = list(_option_lists(traffic))
    for message, options in found:
        for option in options:
            if option.get("type") == "select" and option.get("currentValue") not in _select_values(option):
                said = f"the option {option.get('id')!r} has the value {option.get('currentValue')!r}"
                return failed(f"{said}, which it does not offer", message.index)
    return PASS if found else _no_options()


def _ids_differ(traffic: Traffic) -> Verdict:
    found = list(_option_lists(traffic))
    for message, options in found:
        ids = [as_text(option.get("id")) for option in options]
        if len(set(ids)) < len(ids):
            return failed(f"two options have the same id: {ids}", message.index)
    return PASS if found else _no_options()


def _no_booleans(traffic: Traffic) -> Verdict:
    if client_advertises(traffic, "session.configOptions.boolean"):
        return skipped("the client offers session.configOptions.boolean")
    for message, options in _option_lists(traffic):
        for option in options:
            if option.get("type") == "boolean":
                return failed(
                    f"the option {option.get('id')!r} is a boolean, which the client does not support", message.index
                )
    opened = any(request.succeeded for request in traffic.requests("client", "session/new"))
    return PASS if opened else skipped("no session was opened")


def _categories(traffic: Traffic) -> Verdict:
    found = list(_option_lists(traffic))
    for message, options in found:
        for option in options:
            category = option.get("category")
            if isinstance(category, str) and category not in _CATEGORIES and not category.startswith("_"):
                return failed(f"the category {category!r} is reserved for the protocol", message.index)
    return PASS if found else _no_options()


def _set(traffic: Traffic) -> list[Message]:
    return [
        request
        for request in marked_requests(traffic, "set-option")
        if request.answer is not None and request.succeeded
    ]


def _answer_has_all_options(traffic: Traffic) -> Verdict:
    opened = [request for request in traffic.requests("client", "session/new") if request.succeeded]
    if not opened or not _set(traffic):
        return not_tested("no option was set")
    first = opened[0].answer
    assert first
    before = {as_text(as_object(option).get("id")) for option in as_list(first.result.get("configOptions"))}
    for request in _set(traffic):
        assert request.answer
        after = {as_text(as_object(option).get("id")) for option in as_list(request.answer.result.get("configOptions"))}
        if not after or (len(after) < len(before) and after <= {as_text(request.params.get("configId"))}):
            return failed(f"the answer contains only the options {sorted(after)}", *evidence(request))
    return PASS


def _value_was_set(traffic: Traffic) -> Verdict:
    for request in _set(traffic):
        assert request.answer
        for option in as_list(request.answer.result.get("configOptions")):
            if as_object(option).get("id") == request.params.get("configId"):
                given, wanted = as_object(option).get("currentValue"), request.params.get("value")
                if given != wanted:
                    return failed(f"after setting {wanted!r}, the answer shows {given!r}", *evidence(request))
    return PASS if _set(traffic) else not_tested("no option was set")


def _mode_and_option_agree(traffic: Traffic) -> Verdict:
    found = False
    for request in traffic.requests("client", "session/new", "session/load"):
        if request.answer is None:
            continue
        mode = at(request.answer.result, "modes.currentModeId")
        options = [as_object(option) for option in as_list(request.answer.result.get("configOptions"))]
        chosen = [option.get("currentValue") for option in options if option.get("category") == "mode"]
        if mode in _mode_ids(as_object(request.answer.result.get("modes"))) and chosen:
            found = True
            if mode not in chosen:
                return failed(f"the mode is {mode!r}, but the option for modes is {chosen[0]!r}", *evidence(request))
    return PASS if found else skipped("the agent does not offer both modes and an option for modes")


_NO_MODES: Final = "the agent has no modes"
_NO_OPTIONS: Final = "the agent has no configuration options"
_DEFAULT: Final = "Agents **MUST** always provide a default value for every configuration option."
_AT_ANY: Final = (
    "The current mode can be changed at any point during a session, whether the Agent is idle or generating a response."
)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-MODE-001",
        "advisory",
        "The current mode is one of the available modes.",
        prose("session-modes", "The ID of the mode that is currently active"),
        _modes,
        violation='{"currentModeId":"code","availableModes":[{"id":"ask",...}]}',
    ),
    Requirement(
        "ACP1-A-MODE-002",
        "advisory",
        "Available modes have different ids.",
        prose("session-modes", "The ID of the mode to switch to. Must be one of the modes listed in `availableModes`"),
        _modes_differ,
        violation='two modes with "id":"ask"',
    ),
    Requirement(
        "ACP1-A-MODE-003",
        "advisory",
        "The agent changes only to available modes.",
        prose("session-modes", "The ID of the mode that is currently active"),
        _reported_modes,
        violation='{"sessionUpdate":"current_mode_update","currentModeId":"secret"}',
    ),
    Requirement(
        "ACP1-A-MODE-004",
        "advisory",
        "The agent sets each mode that it offers.",
        prose(
            "session-modes",
            "The current mode can be changed at any point during a session",
        ),
        _unless("no-modes", _NO_MODES, answered("set-mode", expect="result")),
        scenario="modes",
        violation='"code":-32602 for an available mode',
    ),
    Requirement(
        "ACP1-A-MODE-005",
        "informational",
        "The agent answers an unknown mode with an error.",
        prose("session-modes", "The ID of the mode to switch to. Must be one of the modes listed in `availableModes`"),
        _unless("no-modes", _NO_MODES, answered("unknown-mode", expect="error")),
        scenario="modes",
        violation="{}",
    ),
    Requirement(
        "ACP1-A-MODE-006",
        "advisory",
        "The agent sets a mode during a turn.",
        prose("session-modes", _AT_ANY),
        _unless("no-modes", _NO_MODES, answered("set-mode-meanwhile", expect="result")),
        scenario="modes",
        violation="an answer when the turn has ended, or an error",
    ),
    Requirement(
        "ACP1-A-MODE-007",
        "mandatory",
        "The results of session/set_mode have the schema's shape.",
        schema("/$defs/SetSessionModeResponse", '"type": "object"'),
        results_fit("session/set_mode", "SetSessionModeResponse"),
        violation='"result":null',
    ),
    Requirement(
        "ACP1-A-CONFIG-001",
        "advisory",
        "The value of each option is one of its choices.",
        schema("/$defs/SessionConfigSelect/properties/currentValue", "The currently selected value."),
        _current_is_offered,
        violation='"currentValue":"gpt" among options without it',
    ),
    Requirement(
        "ACP1-A-CONFIG-002",
        "advisory",
        "Options have different ids.",
        schema("/$defs/SessionConfigOption/properties/id", "Unique identifier for the configuration option."),
        _ids_differ,
        violation='two options with "id":"model"',
    ),
    Requirement(
        "ACP1-A-CONFIG-003",
        "mandatory",
        "The agent offers boolean options only to clients that support them.",
        prose(
            "session-config-options",
            (
                'Agents **MUST NOT** include `type: "boolean"` options in `configOptions` payloads '
                "unless the Client advertised support."
            ),
        ),
        _no_booleans,
        violation='{"id":"brave","type":"boolean",...} to a client without it',
    ),
    Requirement(
        "ACP1-A-CONFIG-004",
        "advisory",
        "Option categories are defined by the protocol, or begin with an underscore.",
        schema(
            "/$defs/SessionConfigOptionCategory",
            "Category names that do not begin with `_` are reserved for the ACP spec.",
        ),
        _categories,
        violation='"category":"persona"',
    ),
    Requirement(
        "ACP1-A-CONFIG-005",
        "advisory",
        "The agent sets each option to each of its values.",
        prose(
            "session-config-options",
            "The current value of a config option can be changed at any point during a session",
        ),
        _unless("no-options", _NO_OPTIONS, answered("set-option", expect="result")),
        scenario="config-options",
        violation='"code":-32602 for an offered value',
    ),
    Requirement(
        "ACP1-A-CONFIG-006",
        "mandatory",
        "The answer to session/set_config_option contains all options.",
        prose(
            "session-config-options",
            "The Agent **MUST** respond with the complete list of all configuration options and their current values:",
        ),
        _unless("no-options", _NO_OPTIONS, _answer_has_all_options),
        scenario="config-options",
        violation="only the option that was set",
    ),
    Requirement(
        "ACP1-A-CONFIG-007",
        "advisory",
        "The answer to session/set_config_option contains the new value.",
        prose(
            "session-config-options",
            "The Agent **MUST** respond with the complete list of all configuration options and their current values:",
        ),
        _unless("no-options", _NO_OPTIONS, _value_was_set),
        scenario="config-options",
        violation="the old value",
    ),
    Requirement(
        "ACP1-A-CONFIG-008",
        "informational",
        "The agent answers an unknown option or value with an error.",
        schema(
            "/$defs/SetSessionConfigOptionRequest/properties/configId", "The ID of the configuration option to set."
        ),
        _unless("no-options", _NO_OPTIONS, answered("unknown-option", "unknown-value", expect="error")),
        scenario="config-options",
        violation="a list of options instead of an error",
    ),
    Requirement(
        "ACP1-A-CONFIG-009",
        "mandatory",
        "The results of session/set_config_option have the schema's shape.",
        schema("/$defs/SetSessionConfigOptionResponse/required", '["configOptions"]'),
        results_fit("session/set_config_option", "SetSessionConfigOptionResponse"),
        violation="{}",
    ),
    Requirement(
        "ACP1-A-CONFIG-010",
        "advisory",
        "The current mode and the option for modes agree.",
        prose(
            "session-config-options",
            (
                "Agents **SHOULD** keep both in sync to ensure consistent behavior regardless of "
                "which field the Client uses"
            ),
        ),
        _mode_and_option_agree,
        violation='"currentModeId":"ask" beside "currentValue":"code"',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_MOST_VALUES: Final = 8
"""Values per option to set. The others are similar."""


def _ask(driver: Driver, label: str, method: str, params: Any) -> None:
    request = driver.request(method, params, label=label)
    driver.response(request)


def _run_modes(driver: Driver) -> None:
    begin(driver)
    new = driver.call("session/new", new_session_params(driver))
    session = as_text(new.get("sessionId"))
    modes = [as_text(as_object(mode).get("id")) for mode in as_list(at(new, "modes.availableModes"))]
    if not modes:
        driver.mark("no-modes")
        return
    current = as_text(at(new, "modes.currentModeId"))
    for mode in (*modes[:_MOST_VALUES], *([current] if current in modes else [])):
        _ask(driver, "set-mode", "session/set_mode", {"sessionId": session, "modeId": mode})
    _ask(driver, "unknown-mode", "session/set_mode", {"sessionId": session, "modeId": "no such mode"})
    prompt = start_turn(driver, session, driver.options.slow_prompt)
    driver.wait(is_working, 2)
    _ask(driver, "set-mode-meanwhile", "session/set_mode", {"sessionId": session, "modeId": modes[0]})
    driver.notify("session/cancel", {"sessionId": session})
    finish_turn(driver, prompt)


def settable_values(option: Object) -> list[Any]:
    """Return the values of an option: those of a select, flat or grouped, or both booleans."""
    if option.get("type") == "boolean":
        return [True, False]
    entries = [as_object(entry) for entry in as_list(option.get("options"))]
    nested = [as_object(inner) for entry in entries for inner in as_list(entry.get("options"))]
    return [entry["value"] for entry in (*entries, *nested) if isinstance(entry.get("value"), str)]


def _run_options(driver: Driver) -> None:
    begin(driver)
    new = driver.call("session/new", new_session_params(driver))
    session = as_text(new.get("sessionId"))
    options = [as_object(option) for option in as_list(new.get("configOptions"))]
    if not options:
        driver.mark("no-options")
        return
    for option in options:
        kind = {"type": "boolean"} if option.get("type") == "boolean" else {}
        for value in (*settable_values(option)[:_MOST_VALUES], option.get("currentValue")):
            params = {"sessionId": session, "configId": option.get("id"), "value": value, **kind}
            _ask(driver, "set-option", "session/set_config_option", params)
    unknown = {"sessionId": session, "configId": "no such option", "value": "x"}
    _ask(driver, "unknown-option", "session/set_config_option", unknown)
    first = {"sessionId": session, "configId": options[0].get("id"), "value": "no such value"}
    _ask(driver, "unknown-value", "session/set_config_option", first)


SCENARIOS: Final = (
    Scenario("modes", "Sets each mode, an unknown mode, and a mode during a turn.", _run_modes, alone=True),
    Scenario("config-options", "Sets each configuration option to its values and to an unknown value.", _run_options),
)
