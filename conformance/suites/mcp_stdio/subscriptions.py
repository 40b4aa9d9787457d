"""Subscriptions to resources after a handshake, and notification streams with an acknowledgement."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import Driver, StoppedError
from conformance.judging import (
    PASS,
    Requirement,
    Verdict,
    answered,
    evidence,
    failed,
    not_tested,
    skipped,
    survived,
    waited_text,
)
from conformance.suite import Scenario
from conformance.suites.mcp_stdio.client import (
    HANDSHAKE,
    META,
    MODERN,
    Client,
    is_modern,
    known_calls,
    meta_of,
    notifications_fit_schema,
    open_as,
    prose,
    schema,
    subscription_of,
    when,
)
from conformance.traffic import Message, Traffic, id_key
from conformance.values import Object, as_list, as_object, at

_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_FLAGS: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
_UPDATED: Final = "notifications/resources/updated"
_GRACE_MS: Final = 200.0
"""Milliseconds in which notifications may still arrive after a cancel."""


def _streams(traffic: Traffic) -> dict[object, Message]:
    return {id_key(request.id): request for request in traffic.requests("client", "subscriptions/listen")}


def _on_streams(traffic: Traffic) -> list[Message]:
    """Return notifications that belong on a stream, or name one."""
    kinds = (*_FLAGS, _UPDATED, _ACKNOWLEDGED)
    return [m for m in traffic.sent("server") if m.is_notification and (m.method in kinds or _names_stream(m))]


def _names_stream(message: Message) -> bool:
    return f"{META}subscriptionId" in meta_of(message)


def _filter(message: Message) -> Object:
    return as_object(message.params.get("notifications"))


def _updates_wanted(traffic: Traffic) -> Verdict:
    if is_modern(traffic):
        return skipped("this version sends updates on streams")
    wanted = {
        request.params.get("uri") for request in traffic.requests("client", "resources/subscribe") if _uri(request)
    }
    for message in traffic.notifications("server", _UPDATED):
        if not wanted:
            return failed("an update was sent without a subscription", message.index)
    return PASS if wanted else skipped("there was no subscription")


def _uri(request: Message) -> bool:
    return isinstance(request.params.get("uri"), str)


def _acknowledged_first(traffic: Traffic) -> Verdict:
    streams = _streams(traffic)
    if not streams:
        return not_tested("no stream was opened")
    first: dict[object, Message] = {}
    for message in traffic.sent("server"):
        if message.is_notification and _names_stream(message):
            first.setdefault(id_key(subscription_of(message)), message)
    for key, request in streams.items():
        if key not in first:
            refused = request.answer is not None and not request.succeeded
            named = f"subscriptions/listen with the id {request.id!r}"
            silent = f"{named} was not acknowledged{waited_text(traffic, request)}"
            return failed(f"{named} was answered with an error" if refused else silent, *evidence(request))
        if first[key].method != _ACKNOWLEDGED:
            return failed(f"{first[key].method} came before the acknowledgement", first[key].index)
    return PASS


def _acknowledged_subset(traffic: Traffic) -> Verdict:
    streams = _streams(traffic)
    acknowledged = [m for m in traffic.notifications("server", _ACKNOWLEDGED) if _stream(streams, m) is not None]
    for message in acknowledged:
        request = _stream(streams, message)
        assert request
        asked = _filter(request)
        for name, value in _filter(message).items():
            more = [item for item in as_list(value) if item not in as_list(asked.get(name))]
            if more or (value is True and asked.get(name) is not True):
                return failed(f"{name} was acknowledged, but not requested", message.index)
    return PASS if acknowledged else skipped("no stream was acknowledged")


def _stream(streams: dict[object, Message], message: Message) -> Message | None:
    return streams.get(id_key(subscription_of(message)))


def _on_known_streams(traffic: Traffic) -> Verdict:
    if not is_modern(traffic):
        return skipped("after a handshake, notifications belong to no stream")
    streams = _streams(traffic)
    found = _on_streams(traffic)
    for message in found:
        if _stream(streams, message) is None:
            named = repr(subscription_of(message)) if _names_stream(message) else "nothing"
            return failed(f"{message.method} names {named} as its stream", message.index)
    return PASS if found else skipped("no notification was sent on a stream")


def _only_asked_for(traffic: Traffic) -> Verdict:
    streams = _streams(traffic)
    for message in _on_streams(traffic):
        request = _stream(streams, message)
        if request is None or message.method == _ACKNOWLEDGED:
            continue
        flag = _FLAGS.get(message.method)
        if flag is not None and _filter(request).get(flag) is not True:
            return failed(f"{message.method} came on a stream that did not request it", message.index)
        if message.method == _UPDATED and not as_list(_filter(request).get("resourceSubscriptions")):
            return failed(f"{message.method} came on a stream that requested no resource", message.index)
    return PASS if streams else skipped("no stream was opened")


def _silent_after_cancel(traffic: Traffic) -> Verdict:
    cancelled = {id_key(entry.value): entry.ms for entry in traffic.marks("listen-cancelled")}
    if not cancelled:
        return not_tested("no stream was cancelled")
    for message in _on_streams(traffic):
        moment = cancelled.get(id_key(subscription_of(message)))
        if moment is not None and message.ms > moment + _GRACE_MS:
            return failed(f"{message.method} came on a stream that was cancelled", message.index)
    return PASS


_PARAMS: Final = {
    **dict.fromkeys(_FLAGS, "NotificationParams"),
    _UPDATED: "ResourceUpdatedNotificationParams",
    _ACKNOWLEDGED: "SubscriptionsAcknowledgedNotificationParams",
    "notifications/cancelled": "CancelledNotificationParams",
}
_SUBSCRIBE: Final = f"{HANDSHAKE} resources.subscribe"
_NOT_ASKED: Final = "the server **MUST NOT** send notification types the client has not explicitly requested here."


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-SUB-001",
        "advisory",
        "A server with subscriptions accepts a subscription to a listed resource.",
        schema(
            "/$defs/ServerCapabilities/properties/resources/properties/subscribe",
            "Whether this server supports subscribing to resource updates.",
        ),
        when("subscribe", answered("subscribe", expect="result")),
        scenario="subscribe",
        applies=_SUBSCRIBE,
        violation='{"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "MCP-S-SUB-002",
        "advisory",
        "A server with subscriptions accepts an unsubscribe request.",
        schema("/$defs/UnsubscribeRequest", "This should follow a previous resources/subscribe request."),
        when("unsubscribe", answered("unsubscribe", expect="result")),
        scenario="subscribe",
        applies=_SUBSCRIBE,
        violation='{"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "MCP-S-SUB-003",
        "advisory",
        "Resource updates are sent only to subscribed clients.",
        schema(
            "/$defs/ResourceUpdatedNotification",
            "This should only be sent if the client previously sent a resources/subscribe request.",
        ),
        _updates_wanted,
        applies=HANDSHAKE,
        violation="notifications/resources/updated to a client that never subscribed",
    ),
    Requirement(
        "MCP-S-SUB-004",
        "mandatory",
        "Change notifications have the schema's shape.",
        schema("/$defs/ResourceUpdatedNotificationParams/required", '["uri"]'),
        notifications_fit_schema(_PARAMS),
        violation="notifications/resources/updated without a uri",
    ),
    Requirement(
        "MCP-S-SUB-005",
        "capability",
        "A stream begins with its acknowledgement.",
        schema(
            "/$defs/SubscriptionsAcknowledgedNotification",
            "This notification MUST be the first message the server sends carrying the subscription's ID",
            MODERN,
        ),
        when("listen", _acknowledged_first),
        scenario="listen",
        applies=MODERN,
        violation="silence until something changes",
    ),
    Requirement(
        "MCP-S-SUB-006",
        "capability",
        "The acknowledgement contains only what was requested.",
        schema("/$defs/SubscriptionFilter", _NOT_ASKED, MODERN),
        when("listen", _acknowledged_subset),
        scenario="listen",
        applies=MODERN,
        violation='{"toolsListChanged":true} for an empty filter',
    ),
    Requirement(
        "MCP-S-SUB-007",
        "capability",
        "Change notifications name their stream by the id of its request.",
        schema(
            "/$defs/NotificationMetaObject/properties/io.modelcontextprotocol~1subscriptionId",
            "The server MUST include this key on every notification delivered via a",
            MODERN,
        ),
        _on_known_streams,
        applies=MODERN,
        violation='notifications/tools/list_changed without "io.modelcontextprotocol/subscriptionId"',
    ),
    Requirement(
        "MCP-S-SUB-008",
        "capability",
        "A stream contains only what was requested.",
        schema("/$defs/SubscriptionFilter", _NOT_ASKED, MODERN),
        _only_asked_for,
        scenario="listen",
        applies=MODERN,
        violation="notifications/tools/list_changed on a stream with an empty filter",
    ),
    Requirement(
        "MCP-S-SUB-009",
        "capability",
        "A cancelled stream contains nothing more.",
        prose("basic/transports/stdio", "**MUST NOT** send any further messages for it.", MODERN),
        when("listen-cancelled", _silent_after_cancel),
        scenario="listen",
        applies=MODERN,
        violation="notifications/tools/list_changed a second after the cancel",
    ),
    Requirement(
        "MCP-S-SUB-010",
        "capability",
        "The server keeps working after a cancelled stream.",
        prose("basic/patterns/cancellation", "Both parties **MUST** handle these race conditions gracefully:", MODERN),
        when("listen-cancelled", survived),
        scenario="listen",
        applies=MODERN,
        violation="a server that exits",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


QUIET: Final = 0.5
_LISTS: Final = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


def _run_subscribe(driver: Driver) -> None:
    client = open_as(driver, HANDSHAKE)
    client.need("resources.subscribe")
    resources = client.listed("resources/list")
    if not resources:
        raise StoppedError("the server lists no resource to subscribe to")
    uri = resources[0].get("uri")
    client.asked("resources/subscribe", label="subscribe", uri=uri)
    _work(client)
    client.asked("resources/unsubscribe", label="unsubscribe", uri=uri)
    driver.pause(QUIET)
    client.alive()


def _work(client: Client) -> None:
    """Make a call if one is known, which may trigger notifications."""
    try:
        call = known_calls(client.driver)[0]
    except StoppedError:
        return
    client.asked("tools/call", **call)
    client.driver.pause(QUIET)


def wanted(client: Client) -> Object:
    """Return a filter for everything that the server advertises. Raises StoppedError for nothing."""
    found: Object = {name: True for kind, name in _LISTS.items() if client.offers(f"{kind}.listChanged")}
    if client.offers("resources.subscribe"):
        found["resourceSubscriptions"] = [item.get("uri") for item in client.listed("resources/list")[:1]]
    if not found:
        raise StoppedError("neither listChanged nor subscribe is advertised")
    return found


def listen(client: Client, notifications: Object, request_id: Any) -> None:
    """Open a stream and wait for its acknowledgement."""
    driver = client.driver
    driver.mark("listen", request_id)
    params = client.params(notifications=notifications)
    driver.request("subscriptions/listen", params, request_id=request_id)
    driver.wait(lambda message: subscription(message) == request_id or message.get("id") == request_id)


def subscription(message: Object) -> Any:
    """Return the id of a notification's stream."""
    return as_object(at(message, "params._meta")).get(f"{META}subscriptionId")


def _run_listen(driver: Driver) -> None:
    client = open_as(driver, MODERN)
    everything = wanted(client)
    listen(client, everything, "stream")
    listen(client, {}, driver.new_id())
    _work(client)
    driver.mark("listen-cancelled", "stream")
    client.cancel("stream")
    driver.pause(QUIET)
    _work(client)
    client.alive()


SCENARIOS: Final = (
    Scenario("subscribe", "Subscribes to a resource, calls a tool, and unsubscribes.", _run_subscribe),
    Scenario("listen", "Opens two streams of notifications, calls a tool, and cancels one of them.", _run_listen),
)
