"""Sends messages whose optional fields are broken, many at once, and one by one where not all of them were taken.

What was broken is marked `broken`, with the id of the request that tells whether the message was taken: itself, or one
that follows it. Where the message is refused as it is too, nothing can be learnt from it; that is tried and marked
without fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from conformance.defaults import Broken, Defaults
from conformance.documents import json_document
from conformance.driver import Driver, StoppedError
from conformance.values import Object

Send = Callable[[Object], tuple[Any, bool]]
"""Sends a message; returns the id of the request that tells whether it was taken, and whether it was."""


@cache
def defaults() -> Defaults:
    """Of version 1."""
    return Defaults(json_document("acp1.schema"))


def break_fields(
    driver: Driver,
    definition: str,
    message: Object,
    send: Send,
    about: str = "",
    revive: Callable[[], None] | None = None,
) -> None:
    """Sends versions of a message that a definition of the schema describes, until it is known which are refused.

    `about` names the message where several of one definition are tried. A program that a message ended is started anew
    by `revive`. Raises StoppedError where it was not.
    """

    def attempt(broken: Broken) -> bool:
        try:
            request, taken = send(broken.value)
        except StoppedError:
            if not driver.has_closed():
                raise
            request, taken = None, False
        driver.mark("broken", {"id": request, "message": about or definition, "fields": list(broken.fields)})
        if request is None and driver.has_closed():
            if revive is None:
                raise StoppedError("the program ended")
            revive()
        return taken

    for broken in defaults().together(definition, message):
        if attempt(broken):
            continue
        if not attempt(Broken(message, ())):
            return
        for one in defaults().alone(definition, message, broken.fields):
            attempt(one)
