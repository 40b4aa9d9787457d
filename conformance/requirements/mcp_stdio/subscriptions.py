"""Subscriptions: to resources after a handshake, and streams of notifications with an acknowledgement first."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, evidence, survived, within
from conformance.requirement import Requirement
from conformance.requirements.mcp_stdio.reading import (
    HANDSHAKE,
    META,
    MODERN,
    is_modern,
    meta_of,
    notifications_are_shaped,
    prose,
    schema,
    subscription_of,
    when,
)
from conformance.traffic import Message, Traffic, id_key
from conformance.values import Object, as_list, as_object
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_FLAGS: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
_UPDATED: Final = "notifications/resources/updated"
_LATE: Final = 200.0
"""Milliseconds after a cancel in which what was on its way may still arrive."""


def _streams(traffic: Traffic) -> dict[object, Message]:
    return {id_key(request.id): request for request in traffic.requests("client", "subscriptions/listen")}


def _on_streams(traffic: Traffic) -> list[Message]:
    """Notifications that belong on a stream, or say that they came on one."""
    kinds = (*_FLAGS, _UPDATED, _ACKNOWLEDGED)
    return [m for m in traffic.sent("server") if m.is_notification and (m.method in kinds or _names_stream(m))]


def _names_stream(message: Message) -> bool:
    return f"{META}subscriptionId" in meta_of(message)


def _filter(message: Message) -> Object:
    return as_object(message.params.get("notifications"))


def _updates_wanted(traffic: Traffic) -> Verdict:
    if is_modern(traffic):
        return skipped("updates come on streams")
    wanted = {
        request.params.get("uri") for request in traffic.requests("client", "resources/subscribe") if _uri(request)
    }
    for message in traffic.notifications("server", _UPDATED):
        if not wanted:
            return failed("an update was sent, and nothing was subscribed to", message.index)
    return PASS if wanted else skipped("nothing was subscribed to")


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
            silent = f"{named} was not acknowledged{within(traffic, request)}"
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
                return failed(f"{name} was acknowledged, and not asked for", message.index)
    return PASS if acknowledged else skipped("no stream was acknowledged")


def _stream(streams: dict[object, Message], message: Message) -> Message | None:
    return streams.get(id_key(subscription_of(message)))


def _on_known_streams(traffic: Traffic) -> Verdict:
    if not is_modern(traffic):
        return skipped("a handshake was made, after which notifications belong to no stream")
    streams = _streams(traffic)
    found = _on_streams(traffic)
    for message in found:
        if _stream(streams, message) is None:
            named = repr(subscription_of(message)) if _names_stream(message) else "nothing"
            return failed(f"{message.method} names {named} as its stream", message.index)
    return PASS if found else skipped("no notification of a stream was sent")


def _only_asked_for(traffic: Traffic) -> Verdict:
    streams = _streams(traffic)
    for message in _on_streams(traffic):
        request = _stream(streams, message)
        if request is None or message.method == _ACKNOWLEDGED:
            continue
        flag = _FLAGS.get(message.method)
        if flag is not None and _filter(request).get(flag) is not True:
            return failed(f"{message.method} came on a stream that did not ask for it", message.index)
        if message.method == _UPDATED and not as_list(_filter(request).get("resourceSubscriptions")):
            return failed(f"{message.method} came on a stream that asked for no resource", message.index)
    return PASS if streams else skipped("no stream was opened")


def _silent_after_cancel(traffic: Traffic) -> Verdict:
    cancelled = {id_key(entry.value): entry.ms for entry in traffic.marks("listen-cancelled")}
    if not cancelled:
        return not_tested("no stream was cancelled")
    for message in _on_streams(traffic):
        moment = cancelled.get(id_key(subscription_of(message)))
        if moment is not None and message.ms > moment + _LATE:
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

REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-SUB-001",
        "advisory",
        "A server with subscriptions takes one to a resource that it lists.",
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
        "A server with subscriptions takes the end of one.",
        schema("/$defs/UnsubscribeRequest", "This should follow a previous resources/subscribe request."),
        when("unsubscribe", answered("unsubscribe", expect="result")),
        scenario="subscribe",
        applies=_SUBSCRIBE,
        violation='{"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "MCP-S-SUB-003",
        "advisory",
        "Updates of resources are sent to clients that subscribed.",
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
        "Notifications of changes have the shape that the schema gives them.",
        schema("/$defs/ResourceUpdatedNotificationParams/required", '["uri"]'),
        notifications_are_shaped(_PARAMS),
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
        "The acknowledgement holds nothing that was not asked for.",
        schema("/$defs/SubscriptionFilter", _NOT_ASKED, MODERN),
        when("listen", _acknowledged_subset),
        scenario="listen",
        applies=MODERN,
        violation='{"toolsListChanged":true} for an empty filter',
    ),
    Requirement(
        "MCP-S-SUB-007",
        "capability",
        "Notifications of changes name the stream that they come on, by the id of its request.",
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
        "On a stream comes nothing that it did not ask for.",
        schema("/$defs/SubscriptionFilter", _NOT_ASKED, MODERN),
        _only_asked_for,
        scenario="listen",
        applies=MODERN,
        violation="notifications/tools/list_changed on a stream with an empty filter",
    ),
    Requirement(
        "MCP-S-SUB-009",
        "capability",
        "On a stream that was cancelled comes nothing more.",
        prose("basic/transports/stdio", "**MUST NOT** send any further messages for it.", MODERN),
        when("listen-cancelled", _silent_after_cancel),
        scenario="listen",
        applies=MODERN,
        violation="notifications/tools/list_changed a second after the cancel",
    ),
    Requirement(
        "MCP-S-SUB-010",
        "capability",
        "The server goes on after a stream was cancelled.",
        prose("basic/patterns/cancellation", "Both parties **MUST** handle these race conditions gracefully:", MODERN),
        when("listen-cancelled", survived),
        scenario="listen",
        applies=MODERN,
        violation="a server that exits",
    ),
)
