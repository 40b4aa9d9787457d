"""Makes of one way to drive a server a scenario for each version of the protocol."""

from __future__ import annotations

from collections.abc import Callable

from conformance.driver import Driver
from conformance.scenarios.mcp_stdio.client import VERSIONS, Client, open_as
from conformance.suite import Scenario


def in_both(name: str, text: str, run: Callable[[Client], None], *, alone: bool = False) -> tuple[Scenario, ...]:
    """A scenario for each version, on a connection of that version; each has the version at the end of its name.

    Requirements do not name them: they hold in both versions, and judge by the marks that they find.
    """

    def in_one(version: str) -> Scenario:
        def opened(driver: Driver) -> None:
            run(open_as(driver, version))

        return Scenario(f"{name}-{version}", f"{text} (Version {version}.)", opened, alone=alone, passive=True)

    return tuple(in_one(version) for version in VERSIONS)
