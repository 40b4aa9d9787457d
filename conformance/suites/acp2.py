"""Shared by the requirements for agents of version 2 of the Agent Client Protocol: quotes, shapes, and the client."""

from __future__ import annotations

from functools import cache
from typing import Final

from conformance.documents import Source, json_document
from conformance.driver import Answer, Driver, StoppedError
from conformance.schema import Check, Schema
from conformance.values import Object, as_list, as_object, as_text

VERSION: Final = 2
DOCUMENT: Final = "acp2.schema"


def schema(place: str, quote: str) -> Source:
    """Return a quote of the schema."""
    return Source(DOCUMENT, place, quote)


def begin(driver: Driver, version: int = VERSION, *, permit: str = "allow") -> Object:
    """Initialize as an editor that answers permissions, and authenticate if the user chose a method."""
    driver.answerers["session/request_permission"] = lambda params: _choose(params, permit)
    info = {"name": "rewindow-conformance", "version": "1"}
    result = driver.call("initialize", {"protocolVersion": version, "info": info, "capabilities": {}})
    if driver.options.auth is not None:
        driver.call("auth/login", {"methodId": driver.options.auth})
    return result


def _choose(params: Object, permit: str) -> Answer:
    options = [as_object(option) for option in as_list(params.get("options"))]
    alike = [option for option in options if as_text(option.get("kind")).startswith(permit)]
    chosen = as_text((alike or options or [{}])[0].get("optionId"))
    return Answer(result={"outcome": {"outcome": "selected", "optionId": chosen}})


def open_session(driver: Driver) -> str:
    """Open a session and return its id."""
    session = as_text(driver.call("session/new", {"cwd": driver.options.cwd}).get("sessionId"))
    if not session:
        raise StoppedError("session/new was answered without a sessionId")
    return session


@cache
def _compiled() -> Schema:
    return Schema(json_document(DOCUMENT))


@cache
def definition(name: str) -> Check:
    """Return the compiled check of a definition."""
    return _compiled().definition(name)
