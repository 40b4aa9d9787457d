"""Lists: every page of each, the same again, cursors that nobody gave, and lists that are not advertised."""

from __future__ import annotations

from typing import Final

from conformance.driver import StoppedError
from conformance.scenarios.mcp_stdio.both import in_both
from conformance.scenarios.mcp_stdio.client import HANDSHAKE, LISTS, Client, known_calls
from conformance.suite import Scenario

_WRONG_CURSOR: Final = "rewindow-conformance-no-such-cursor"
_UNDECLARED: Final = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}


def capability_of(method: str) -> str:
    """The capability that a method belongs to."""
    return method.partition("/")[0]


def _lists(client: Client) -> None:
    for method in LISTS:
        if client.offers(capability_of(method)):
            client.listed(method)
    if client.offers("tools"):
        _call_one(client)
        client.listed("tools/list")


def _call_one(client: Client) -> None:
    """So that the second list comes after a call, which must not change it."""
    try:
        calls = known_calls(client.driver)
    except StoppedError:
        return
    client.asked("tools/call", **calls[0])


def _cursors(client: Client) -> None:
    for method in LISTS:
        if client.offers(capability_of(method)):
            client.asked(method, label="wrong-cursor", cursor=_WRONG_CURSOR)
    client.alive()


def _undeclared(client: Client) -> None:
    for capability, method in _UNDECLARED.items():
        if not client.offers(capability):
            client.asked(method, label=f"undeclared-{capability}")
    if not client.offers("completions"):
        reference = {"type": "ref/prompt", "name": "rewindow-conformance-none"}
        argument = {"name": "a", "value": ""}
        client.asked("completion/complete", label="undeclared-completions", ref=reference, argument=argument)
    if client.version == HANDSHAKE and not client.offers("logging"):
        client.asked("logging/setLevel", label="undeclared-logging", level="debug")


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("lists", "Lists all there is, page by page, and the tools again after a call.", _lists),
    *in_both("cursors", "Lists from a cursor that the server never gave.", _cursors),
    *in_both("undeclared", "Asks for what the server does not advertise.", _undeclared),
)
