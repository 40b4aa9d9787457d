"""What the judges of this suite share: sources, the schema, sessions, turns and their updates in the traffic."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from conformance.documents import Source, json_document
from conformance.judging import every
from conformance.requirement import Judge
from conformance.schema import Check, Schema
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at, is_object
from conformance.verdict import skipped

DOCUMENT: Final = "acp1.schema"


def schema(place: str, quote: str) -> Source:
    return Source(DOCUMENT, place, quote)


def prose(page: str, quote: str) -> Source:
    return Source("acp1.prose", page, quote)


@cache
def definition(name: str) -> Check:
    """The compiled check of one definition of the schema."""
    return _schema().definition(name)


@cache
def _schema() -> Schema:
    return Schema(json_document(DOCUMENT))


def result_is(method: str, name: str) -> Judge:
    """Every result of a method has the shape of a definition."""

    def found(traffic: Traffic) -> list[Message]:
        return [r.answer for r in traffic.requests("client", method) if r.answer is not None and r.succeeded]

    def problem(answer: Message) -> str:
        wrong = definition(name)(answer.object.get("result"))
        return f"the result of {method}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped(f"{method} was never answered with a result"))


def params_are(method: str, name: str, *, notification: bool = False) -> Judge:
    """The params of every request, or notification, of the agent with this method have the shape of a definition."""

    def found(traffic: Traffic) -> list[Message]:
        return traffic.notifications("server", method) if notification else traffic.requests("server", method)

    def problem(message: Message) -> str:
        wrong = definition(name)(message.object.get("params"))
        return f"the params of {method}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped(f"the agent never sent {method}"))


def updates(traffic: Traffic, *kinds: str) -> list[tuple[Message, Object]]:
    """Every session/update with what it says, of these kinds if any are named."""
    found = traffic.derived("acp1.updates", _updates)
    return [pair for pair in found if pair[1].get("sessionUpdate") in kinds] if kinds else found


def _updates(traffic: Traffic) -> list[tuple[Message, Object]]:
    return [(m, as_object(m.params.get("update"))) for m in traffic.notifications("server", "session/update")]


def session_of(message: Message) -> str:
    return as_text(message.params.get("sessionId"))


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


def is_absolute(path: str) -> bool:
    """On POSIX or on Windows: what an agent runs on is its own matter."""
    drive = len(path) > 2 and path[0].isalpha() and path[1] == ":" and path[2] in "\\/"  # noqa: PLR2004 -- `C:\\`
    return path.startswith(("/", "\\\\")) or drive


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
