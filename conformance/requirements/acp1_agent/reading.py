"""What the judges of this suite share: sessions, turns and their updates in the traffic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.requirements.acp1 import session_of
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at, is_object


def updates(traffic: Traffic, *kinds: str) -> list[tuple[Message, Object]]:
    """Every session/update with what it says, of these kinds if any are named."""
    found = traffic.derived("acp1.updates", _updates)
    return [pair for pair in found if pair[1].get("sessionUpdate") in kinds] if kinds else found


def _updates(traffic: Traffic) -> list[tuple[Message, Object]]:
    return [(m, as_object(m.params.get("update"))) for m in traffic.notifications("server", "session/update")]


def capability(traffic: Traffic, path: str) -> bool | None:
    """Whether the agent's answer to initialize advertises a capability; None where there is no such answer."""
    for request in traffic.requests("client", "initialize"):
        if request.answer is not None and request.succeeded:
            value = at(request.answer.result, f"agentCapabilities.{path}")
            return value is True or is_object(value)
    return None


def offers(traffic: Traffic, path: str) -> bool:
    """Whether the client advertises a capability: true, or an object."""
    for request in traffic.requests("client", "initialize"):
        value = at(request.params, f"clientCapabilities.{path}")
        return value is True or is_object(value)
    return False


def is_cancelled(traffic: Traffic, prompt: Message) -> bool:
    """Whether the client cancelled this prompt's turn while it ran."""
    end = prompt.answer.order if prompt.answer else len(traffic.messages)
    cancels = traffic.notifications("client", "session/cancel")
    return any(prompt.order < c.order < end and session_of(c) == session_of(prompt) for c in cancels)


def paths(value: object) -> Iterator[tuple[str, str]]:
    """Each path that a tool call names: in its locations, and in its diffs; with where it stands."""
    call = as_object(value)
    for index, location in enumerate(as_list(call.get("locations"))):
        if isinstance(as_object(location).get("path"), str):
            yield f"locations/{index}", location["path"]
    for index, content in enumerate(as_list(call.get("content"))):
        if as_object(content).get("type") == "diff" and isinstance(content.get("path"), str):
            yield f"content/{index}", content["path"]


def text_of(update: Object) -> str:
    """The text of a chunk; empty for other content."""
    return as_text(as_object(update.get("content")).get("text"))


def tool_calls(traffic: Traffic) -> list[tuple[Message, Object]]:
    """Every report on a tool call: new ones, changes, and those that permissions are asked for."""
    return traffic.derived("acp1.tool_calls", _tool_calls)


def _tool_calls(traffic: Traffic) -> list[tuple[Message, Object]]:
    asked: list[tuple[Message, Any]] = [
        (m, as_object(m.params.get("toolCall"))) for m in traffic.requests("server", "session/request_permission")
    ]
    found = [*updates(traffic, "tool_call", "tool_call_update"), *asked]
    return sorted(found, key=lambda pair: pair[0].order)
