"""What the judges of this suite share: sources, both versions' schemas, and which version a message is of."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from conformance.documents import Source, json_document
from conformance.judging import every
from conformance.requirement import Judge
from conformance.schema import Check, Schema
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at, is_object
from conformance.verdict import Verdict, skipped

HANDSHAKE: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
_RESULTS: Final = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "logging/setLevel": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}


def schema(place: str, quote: str, version: str = HANDSHAKE) -> Source:
    return Source(f"mcp.{version}.schema", place, quote)


def prose(page: str, quote: str, version: str = HANDSHAKE) -> Source:
    return Source(f"mcp.{version}.prose", page, quote)


@cache
def definition(name: str, version: str = HANDSHAKE) -> Check:
    """The compiled check of one definition of a version's schema."""
    return _schema(version).definition(name)


@cache
def _schema(version: str) -> Schema:
    return Schema(json_document(f"mcp.{version}.schema"))


# --- versions and capabilities ----------------------------------------------------------------------------------------


def meta_of(message: Message) -> Object:
    return as_object(message.params.get("_meta"))


def version_of(request: Message) -> str:
    """The version that a request is made in: what its `_meta` says; without, that of the handshake."""
    return as_text(meta_of(request).get(f"{META}protocolVersion")) or HANDSHAKE


def handshakes(traffic: Traffic) -> list[Message]:
    """The results of initialize that agreed on HANDSHAKE."""
    return [
        request.answer
        for request in traffic.requests("client", "initialize")
        if request.answer is not None and request.answer.result.get("protocolVersion") == HANDSHAKE
    ]


def discoveries(traffic: Traffic) -> list[Message]:
    """The results of server/discover that offer MODERN."""
    return [
        request.answer
        for request in traffic.requests("client", "server/discover")
        if request.answer is not None and MODERN in as_list(request.answer.result.get("supportedVersions"))
    ]


def capability(traffic: Traffic, wanted: str) -> bool | None:
    """Whether the server advertises all of these words: a version, or a dotted path of its capabilities.

    A path is looked up in what answered for the version beside it, else for any. None where nothing tells. Whether a
    server knows the handshake is what the opening found, because scenarios try versions that it refuses.
    """
    found = {HANDSHAKE: handshakes(traffic), MODERN: discoveries(traffic)}
    words = wanted.split()
    if wanted == HANDSHAKE and "calibration" in traffic.transcript.facts:
        return at(traffic.transcript.facts, "calibration.version") == HANDSHAKE
    versions = [word for word in words if word in found]
    answers = [answer for version in versions or found for answer in found[version]]
    if not answers:
        asked = traffic.requests("client", "initialize", "server/discover")
        return False if any(request.answer is not None for request in asked) else None
    capabilities = as_object(answers[0].result.get("capabilities"))
    return all(_is_on(at(capabilities, word)) for word in words if word not in found)


def offers(traffic: Traffic, name: str) -> bool:
    """Whether any answer in this traffic advertises a capability."""
    return any(
        _is_on(at(answer.result.get("capabilities"), name)) for answer in (*handshakes(traffic), *discoveries(traffic))
    )


def _is_on(value: object) -> bool:
    return value is True or is_object(value)


def is_modern(traffic: Traffic) -> bool:
    """Whether nothing but MODERN was agreed on, so that the server's own messages are of that version."""
    return bool(discoveries(traffic)) and not handshakes(traffic)


# --- results and notifications ----------------------------------------------------------------------------------------


def answered_requests(traffic: Traffic, *methods: str) -> list[Message]:
    """Requests with these methods that were answered with a result, in order."""
    return [request for request in traffic.requests("client", *methods) if request.succeeded]


def answers_to(traffic: Traffic, *methods: str) -> list[Message]:
    """The results of these methods, in the order of their requests."""
    return [request.answer for request in answered_requests(traffic, *methods) if request.answer is not None]


def result_problem(answer: Message) -> str:
    """What is wrong with a result by the schema of its request's version; empty where nothing is.

    What MODERN adds to every result is left to the requirements that are about it.
    """
    request = answer.answers
    value = answer.object.get("result")
    if request is None or version_of(request) not in (HANDSHAKE, MODERN):
        return ""
    name = _RESULTS[request.method]
    if version_of(request) == MODERN and is_object(value):
        if value.get("resultType") == "input_required":
            name = "InputRequiredResult"
        value = {**value, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        check = definition(name, version_of(request))
    except LookupError:
        return ""  # the method is not of this version, and another requirement says so
    wrong = check(value)
    return f"the result of {request.method}: {wrong}" if wrong else ""


def results_are_shaped(*methods: str) -> Judge:
    """Every result of these methods has the shape that the schema of its version gives it."""
    return every(
        lambda traffic: answers_to(traffic, *methods),
        result_problem,
        lambda: skipped(f"{' and '.join(methods)} had no result"),
    )


def when(label: str, judge: Judge) -> Judge:
    """A judge of transcripts that have a mark; of others it says that nothing was done."""

    def judged(traffic: Traffic) -> Verdict:
        if traffic.marks(label):
            return judge(traffic)
        stopped = traffic.marks("stopped")
        return skipped(str(stopped[0].value) if stopped else "nothing of the kind was sent")

    return judged


def notifications_are_shaped(shapes: dict[str, str]) -> Judge:
    """Every notification with these methods has params of these definitions."""

    def found(traffic: Traffic) -> list[Message]:
        return [m for m in traffic.sent("server") if m.is_notification and m.method in shapes]

    def problem(message: Message) -> str:
        checks = [definition(shapes[message.method], version) for version in _defining(shapes[message.method])]
        problems = [check(message.object.get("params", {})) for check in checks]
        return f"the params of {message.method}: {problems[-1]}" if all(problems) else ""

    return every(found, problem, lambda: skipped("the server sent no such notification"))


@cache
def _defining(name: str) -> tuple[str, ...]:
    versions = [v for v in (HANDSHAKE, MODERN) if name in as_object(json_document(f"mcp.{v}.schema")["$defs"])]
    return tuple(versions)


def listed(traffic: Traffic, method: str, field: str) -> list[tuple[Message, list[Object]]]:
    """Every page of a list, with its items; in the order in which they were answered."""
    return [
        (request, [as_object(item) for item in as_list(request.answer.result.get(field))])
        for request in answered_requests(traffic, method)
        if request.answer is not None
    ]


def subscription_of(message: Message) -> Any:
    """The id of the stream that a notification says it came on; None for none."""
    return meta_of(message).get(f"{META}subscriptionId")
