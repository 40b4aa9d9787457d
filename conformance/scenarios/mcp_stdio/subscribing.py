"""Subscriptions: to resources after a handshake, and streams of notifications that requests open."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import Driver, StoppedError
from conformance.scenarios.mcp_stdio.client import HANDSHAKE, META, MODERN, Client, known_calls, open_as
from conformance.suite import Scenario
from conformance.values import Object, as_object, at

QUIET: Final = 0.5
_LISTS: Final = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


def _subscribe(driver: Driver) -> None:
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
    """Does something that may make notifications: a call, where one is known."""
    try:
        call = known_calls(client.driver)[0]
    except StoppedError:
        return
    client.asked("tools/call", **call)
    client.driver.pause(QUIET)


def wanted(client: Client) -> Object:
    """The filter that asks for everything the server advertises. Raises StoppedError for nothing."""
    found: Object = {name: True for kind, name in _LISTS.items() if client.offers(f"{kind}.listChanged")}
    if client.offers("resources.subscribe"):
        found["resourceSubscriptions"] = [item.get("uri") for item in client.listed("resources/list")[:1]]
    if not found:
        raise StoppedError("neither listChanged nor subscribe is advertised")
    return found


def listen(client: Client, notifications: Object, request_id: Any) -> None:
    """Opens a stream, and waits for its acknowledgement."""
    driver = client.driver
    driver.mark("listen", request_id)
    params = client.params(notifications=notifications)
    driver.request("subscriptions/listen", params, request_id=request_id)
    driver.wait(lambda message: subscription(message) == request_id or message.get("id") == request_id)


def subscription(message: Object) -> Any:
    """The id of the stream that a notification came on."""
    return as_object(at(message, "params._meta")).get(f"{META}subscriptionId")


def _listen(driver: Driver) -> None:
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
    Scenario("subscribe", "Subscribes to a resource, calls a tool, and unsubscribes.", _subscribe),
    Scenario("listen", "Opens two streams of notifications, calls a tool, and cancels one of them.", _listen),
)
