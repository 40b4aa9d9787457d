"""The opening: which version the server speaks, and a tool that may be called."""

from __future__ import annotations

from typing import Final

from conformance.driver import Driver, StoppedError
from conformance.scenarios.mcp_stdio.client import HANDSHAKE, MODERN, Client, candidates, open_as
from conformance.suite import Scenario
from conformance.values import at


def _opening(driver: Driver) -> None:
    client = _open_first(driver)
    if not client.offers("tools"):
        return
    for call in candidates(driver, client.listed("tools/list")):
        response = client.asked("tools/call", label="call", **call)
        if response is not None and "result" in response and at(response, "result.isError") is not True:
            return


def _open_first(driver: Driver) -> Client:
    """The handshake is tried first, because servers that know nothing else may not survive anything else.

    A server of the later version alone answers it with an error; one that is silent is dead, and not waited for again.
    """
    try:
        return open_as(driver, HANDSHAKE)
    except StoppedError as refused:
        if not driver.received:
            raise
        try:
            return open_as(driver, MODERN)
        except StoppedError:
            raise refused from None


OPENING: Final = Scenario(
    "opening", "Opens a connection, and looks for a tool that may be called.", _opening, passive=True
)
