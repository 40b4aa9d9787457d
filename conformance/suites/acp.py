"""Shared by the suites for agents of both versions of the Agent Client Protocol: when an agent cannot be judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from conformance.judging import no_opening_reason
from conformance.traffic import Message, Traffic
from conformance.values import as_list, as_object, as_text

_AUTH_REQUIRED: Final = -32000


def other_version(requests: Iterable[Message], version: int) -> str:
    """Return why the answers to initialize use another version; empty if they use this one, or there are none."""
    for request in requests:
        given = request.answer.result.get("protocolVersion") if request.answer is not None else None
        if isinstance(given, int) and given != version:
            return f"the agent speaks version {given} of the protocol, but this suite is for version {version}"
    return ""


def obstacle(traffic: Traffic, version: int, login: str, id_field: str) -> str:
    """Return why an agent cannot be judged by the opening; empty if it can.

    Args:
        login: the method that authenticates.
        id_field: the field with the id of an authentication method.
    """
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    asked = traffic.requests("client", "initialize")
    if not asked or asked[0].answer is None:
        return no_opening_reason(traffic, "agent", "initialize")
    if not asked[0].succeeded:
        return f"the agent answered initialize with an error: {asked[0].answer.error.get('message')}"
    if other := other_version(asked[:1], version):
        return other
    for request in traffic.requests("client", login):
        if request.answer is not None and not request.succeeded:
            methods = map(as_object, as_list(asked[0].answer.result.get("authMethods")))
            offered = ", ".join(as_text(method.get(id_field)) for method in methods) or "none"
            chosen, why = as_text(request.params.get("methodId")), as_text(request.answer.error.get("message"))
            return f"the agent refused the authentication method {chosen!r}: {why}. It offers: {offered}"
    for request in traffic.requests("client", "session/new", "session/prompt"):
        if request.answer is not None and request.answer.error.get("code") == _AUTH_REQUIRED:
            return "the agent needs authentication: choose one of its methods with --auth"
    return ""
