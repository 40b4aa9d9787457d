"""Tools: calls with more requests behind them in the same write, wrong calls, and several at once."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import Driver, StoppedError, line, request_message
from conformance.scenarios.mcp_stdio.both import in_both
from conformance.scenarios.mcp_stdio.client import (
    Client,
    arguments_of,
    candidates,
    is_safe,
    known_calls,
    open_any,
)
from conformance.scenarios.mcp_stdio.making import CannotMakeError
from conformance.suite import Scenario
from conformance.values import Object, as_list, as_object, at

UNKNOWN_TOOL: Final = "rewindow-conformance-no-such-tool"
_AT_ONCE: Final = 5


def _calls(client: Client) -> None:
    client.need("tools")
    calls = candidates(client.driver, client.listed("tools/list"))
    if not calls:
        known_calls(client.driver)
    for call in calls:
        _call_and_more(client, call)


def _call_and_more(client: Client, call: Object) -> None:
    """A call and two requests behind it in one write: whoever else reads standard input takes them away."""
    driver = client.driver
    ids = [driver.new_id() for _ in range(3)]
    driver.mark("call", ids[0])
    method, params = client.probe()
    messages = [request_message(ids[0], "tools/call", client.params(**call))]
    for one in ids[1:]:
        driver.mark("behind", one)
        messages.append(request_message(one, method, params))
    driver.raw(b"".join(map(line, messages)))
    for one in ids:
        driver.response(one)


def _wrong(client: Client) -> None:
    client.need("tools")
    tools = client.listed("tools/list")
    client.asked("tools/call", label="unknown-tool", name=UNKNOWN_TOOL, arguments={})
    client.asked("tools/call", label="malformed-call", arguments={})
    client.asked("tools/call", label="malformed-call", name=5, arguments={})
    for tool in tools:
        if is_safe(client.driver, tool) and _break(client, tool):
            break
    client.alive()


def _break(client: Client, tool: Object) -> bool:
    """Calls a tool without a required argument, and with one of another type; False where it requires none."""
    required = [name for name in as_list(at(tool, "inputSchema.required")) if isinstance(name, str)]
    try:
        arguments = arguments_of(client.driver, tool)
    except CannotMakeError:
        arguments = {}
    if not required:
        return False
    less = {name: value for name, value in arguments.items() if name != required[0]}
    client.asked("tools/call", label="missing-argument", name=tool.get("name"), arguments=less)
    kind = as_object(as_object(at(tool, "inputSchema.properties")).get(required[0])).get("type")
    if isinstance(kind, str):
        wrong: Any = {"an": "object"} if kind != "object" else ["an array"]
        given = {**arguments, required[0]: wrong}
        client.asked("tools/call", label="wrong-type", name=tool.get("name"), arguments=given)
    return True


def _at_once(driver: Driver) -> None:
    client = open_any(driver)
    method, params = client.probe()
    requests: list[tuple[str, Object]] = [(method, params)] * _AT_ONCE
    try:
        requests += [("tools/call", client.params(**known_calls(driver)[0]))] * _AT_ONCE
    except StoppedError:
        requests += [(method, params)] * _AT_ONCE
    ids: list[Any] = []
    for index, (name, given) in enumerate(requests):
        ids.append(f"at-once-{index}" if index % 2 else driver.new_id())
        driver.request(name, given, label="at-once", request_id=ids[-1])
    for one in ids:
        driver.response(one)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("calls", "Calls tools, with more requests behind each call in the same write.", _calls),
    *in_both("wrong-calls", "Calls a tool that does not exist, and one with wrong arguments.", _wrong),
    Scenario("at-once", "Sends ten requests without waiting, calls among them.", _at_once),
)
