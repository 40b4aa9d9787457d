"""What the judges of this suite share: sessions, turns and their updates in the traffic."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from conformance.requirements.acp1 import session_of
from conformance.traffic import Message, Traffic, id_key
from conformance.values import Object, as_list, as_object, as_text, at, is_object


def updates(traffic: Traffic, *kinds: str) -> list[tuple[Message, Object]]:
    """Every session/update with what it says, of these kinds if any are named."""
    return traffic.derived(("acp1.updates", kinds), lambda _: _updates(traffic, kinds))


def _updates(traffic: Traffic, kinds: tuple[str, ...]) -> list[tuple[Message, Object]]:
    if kinds:
        return [pair for pair in updates(traffic) if pair[1].get("sessionUpdate") in kinds]
    return [(m, as_object(m.params.get("update"))) for m in traffic.notifications("server", "session/update")]


def updates_between(
    traffic: Traffic, session: str, after: int, before: int, *kinds: str
) -> list[tuple[Message, Object]]:
    """One session's updates of these kinds that came after one place (`Message.order`) and before another."""
    found = traffic.derived(("acp1.updates of sessions", kinds), lambda _: _by_session(updates(traffic, *kinds)))
    of_session = found.get(session, [])
    first = bisect_right(of_session, after, key=_place)
    return of_session[first : bisect_left(of_session, before, lo=first, key=_place)]


def _by_session(found: Iterable[tuple[Message, Object]]) -> dict[str, list[tuple[Message, Object]]]:
    grouped: dict[str, list[tuple[Message, Object]]] = defaultdict(list)
    for message, update in found:
        grouped[session_of(message)].append((message, update))
    return grouped


def _place(pair: tuple[Message, Object]) -> int:
    return pair[0].order


def next_of(traffic: Traffic, message: Message, *methods: str) -> int:
    """The place of the client's next message with one of these methods that is about the same session.

    One beyond all messages where there is none.
    """
    places = traffic.derived(("acp1.places of sessions", methods), lambda _: _places(traffic, methods))
    of_session = places.get(session_of(message), [])
    later = bisect_right(of_session, message.order)
    return of_session[later] if later < len(of_session) else len(traffic.messages)


def _places(traffic: Traffic, methods: tuple[str, ...]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for message in traffic.sent("client"):
        if message.method in methods:
            grouped[session_of(message)].append(message.order)
    return grouped


def capability(traffic: Traffic, path: str) -> bool | None:
    """Whether the agent's answer to initialize advertises a capability; None where there is no such answer."""
    for request in traffic.requests("client", "initialize"):
        if request.answer is not None and request.succeeded:
            value = at(request.answer.result, f"agentCapabilities.{path}")
            return value is True or is_object(value)
    return None


def auth_methods(traffic: Traffic) -> list[Object] | None:
    """The methods of authentication that the agent advertises; None where initialize has no result."""
    for request in traffic.requests("client", "initialize"):
        if request.answer is not None and request.succeeded:
            return [as_object(method) for method in as_list(request.answer.result.get("authMethods"))]
    return None


def offers(traffic: Traffic, path: str) -> bool:
    """Whether the client advertises a capability: true, or an object."""
    for request in traffic.requests("client", "initialize"):
        value = at(request.params, f"clientCapabilities.{path}")
        return value is True or is_object(value)
    return False


def is_cancelled(traffic: Traffic, prompt: Message) -> bool:
    """Whether the client cancelled this prompt's turn while it ran, by whatever it may do that by."""
    end = prompt.answer.order if prompt.answer else len(traffic.messages)
    requests = traffic.notifications("client", "$/cancel_request")
    of_request = (m for m in requests if id_key(m.params.get("requestId")) == id_key(prompt.id))
    return next_of(traffic, prompt, "session/cancel", "session/close") < end or any(
        prompt.order < m.order < end for m in of_request
    )


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
