"""How connections begin: the handshake and its versions, requests that bring their version along, and both at once."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import Driver
from conformance.scenarios.mcp_stdio.client import HANDSHAKE, META, MODERN, Client, initialize_params, meta, open_as
from conformance.suite import Scenario

NEWER: Final = "2099-12-31"
OLDER: Final = "2024-11-05"
UNKNOWN: Final = "1900-01-01"


def _handshake(driver: Driver) -> None:
    response = driver.request("initialize", initialize_params(), label="initialize")
    driver.response(response)
    driver.response(driver.request("ping", label="early-ping"))
    driver.notify("notifications/initialized")
    driver.response(driver.request("ping", label="alive"))


def _ask(driver: Driver, version: str) -> None:
    driver.response(driver.request("initialize", initialize_params(version), label="initialize"))


def _newer(driver: Driver) -> None:
    _ask(driver, NEWER)


def _older(driver: Driver) -> None:
    _ask(driver, OLDER)


def _more_fields(driver: Driver) -> None:
    capabilities = {"example": {"of": ["a", "capability"]}, "experimental": {"example.org/x": {"on": True}}}
    params = {**initialize_params(HANDSHAKE, capabilities), "_meta": {"example.org/text": "x"}, "further": 1}
    driver.response(driver.request("initialize", params, label="initialize"))


def _discover(driver: Driver) -> None:
    client = open_as(driver, MODERN)
    client.asked("server/discover", label="discover")
    client.alive()


def _methods(client: Client) -> list[str]:
    """Requests that this server answers without params of their own."""
    return ["server/discover", *(["tools/list"] if client.offers("tools") else [])]


def _unknown_version(driver: Driver) -> None:
    for method in _methods(open_as(driver, MODERN)):
        driver.response(driver.request(method, {"_meta": meta(UNKNOWN)}, label="unknown-version"))


def _partial(driver: Driver) -> None:
    partial = {f"{META}protocolVersion": MODERN}
    for method in _methods(open_as(driver, MODERN)):
        driver.response(driver.request(method, {"_meta": partial}, label="partial-meta"))


def _bare(driver: Driver) -> None:
    for method in _methods(open_as(driver, MODERN)):
        driver.response(driver.request(method, {}, label="no-meta"))


def _inline(driver: Driver) -> None:
    request = driver.request("tools/list", {"_meta": meta()}, label="inline")
    driver.response(request)
    open_as(driver, MODERN)


def _stateless(driver: Driver) -> None:
    """Requests of two clients by turns, one of which can do more than the other."""
    open_as(driver, MODERN)
    able: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    for capabilities in ({}, able, {}, able):
        driver.response(driver.request("tools/list", {"_meta": meta(capabilities=capabilities)}, label="by-turns"))


def _probe(driver: Driver) -> None:
    driver.response(driver.request("server/discover", {"_meta": meta()}, label="probe"))
    driver.response(driver.request("initialize", initialize_params(), label="after-probe"))


SCENARIOS: Final = (
    Scenario("handshake", "Initializes, and pings before and after it says that it has.", _handshake),
    Scenario("handshake-newer", f"Initializes with the version {NEWER}, which nobody knows.", _newer),
    Scenario("handshake-older", f"Initializes with the version {OLDER}.", _older),
    Scenario("handshake-fields", "Initializes with capabilities and fields that nobody knows.", _more_fields),
    Scenario("discover", "Asks for what the server offers, twice.", _discover, passive=True),
    Scenario("version-unknown", f"Asks in the version {UNKNOWN}, which nobody knows.", _unknown_version),
    Scenario("meta-partial", "Asks without saying what the client can do.", _partial),
    Scenario("meta-absent", "Asks without any version, and without a handshake.", _bare),
    Scenario("inline", "Begins with a list, without discovery.", _inline),
    Scenario("by-turns", "Asks as a client that can do much and as one that can do nothing, by turns.", _stateless),
    Scenario("probe", "Asks for discovery first and initializes then, as clients of both versions do.", _probe),
)
