"""What a server of 2026-07-28 sends: types and hints of results, codes of errors, and nothing that nobody asked for."""

from __future__ import annotations

from typing import Final

from conformance.judging import every
from conformance.requirement import Judge, Requirement
from conformance.requirements.mcp_stdio.reading import (
    HANDSHAKE,
    META,
    MODERN,
    discoveries,
    is_modern,
    meta_of,
    prose,
    schema,
    version_of,
)
from conformance.traffic import Message, Traffic, id_key
from conformance.values import as_object, as_text, at, is_object
from conformance.verdict import PASS, Verdict, failed, skipped

_OF_OLDER: Final = (-32002, -32042)
_DEFINED: Final = (-32020, -32021, -32022)
_RESERVED: Final = range(-32099, -32019)
_CACHEABLE: Final = (
    "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read",
)  # fmt: skip
_TYPES: Final = ("complete", "input_required")


def _results(traffic: Traffic) -> list[Message]:
    """The results of requests that are of MODERN."""
    found = [m for m in traffic.sent("server") if m.answers is not None and "result" in m.object]
    return [m for m in found if m.answers is not None and version_of(m.answers) == MODERN]


def _none() -> Verdict:
    return skipped(f"nothing was answered in version {MODERN}")


def _type_problem(extensions: bool) -> Judge:
    def problem(message: Message) -> str:
        given = message.result.get("resultType")
        if not isinstance(given, str):
            return f"a result of {_asked(message)} has no resultType"
        return "" if given in _TYPES or extensions else f"a result of {_asked(message)} has the resultType {given!r}"

    return every(_results, problem, _none)


def _result_types(traffic: Traffic) -> Verdict:
    extended = any(is_object(at(m.result, "capabilities.extensions")) for m in discoveries(traffic))
    return _type_problem(extended)(traffic)


def _asked(message: Message) -> str:
    return message.answers.method if message.answers is not None else ""


def _hints(message: Message) -> str:
    if _asked(message) not in _CACHEABLE or message.result.get("resultType") == "input_required":
        return ""
    ttl = message.result.get("ttlMs")
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl < 0:
        return f"the result of {_asked(message)} has the ttlMs {ttl!r}"
    scope = message.result.get("cacheScope")
    return "" if scope in ("private", "public") else f"the result of {_asked(message)} has the cacheScope {scope!r}"


def _codes(traffic: Traffic) -> Verdict:
    errors = [m for m in traffic.sent("server") if m.error and m.answers and version_of(m.answers) != HANDSHAKE]
    for message in errors:
        code = message.error.get("code")
        if code in _OF_OLDER:
            return failed(f"the code {code} is of earlier versions", message.index)
        if isinstance(code, int) and code in _RESERVED and code not in _DEFINED:
            return failed(f"the code {code} is reserved, and this version does not define it", message.index)
    return PASS if errors else skipped(f"nothing was answered with an error in version {MODERN}")


def _asks_nothing(traffic: Traffic) -> Verdict:
    if not is_modern(traffic):
        return skipped("a handshake was made, after which servers may ask")
    for message in traffic.sent("server"):
        if message.is_request:
            return failed(f"the server asked for {message.method}", message.index)
    return PASS


def _named(message: Message) -> str:
    info = as_object(message.result.get("_meta")).get(f"{META}serverInfo")
    return "" if is_object(info) else f"a result of {_asked(message)} does not name the server in _meta"


def _declared_alone(traffic: Traffic) -> Verdict:
    results = _results(traffic)
    for message in results:
        assert message.answers
        able = as_object(meta_of(message.answers).get(f"{META}clientCapabilities"))
        for request in as_object(message.result.get("inputRequests")).values():
            need = as_text(as_object(request).get("method")).partition("/")[0]
            if not is_object(able.get(need)):
                return failed(f"a result wants {need}, which the client does not declare", message.index)
    return PASS if results else _none()


def _unasked_logs(traffic: Traffic) -> Verdict:
    if not is_modern(traffic):
        return skipped("a handshake was made, after which servers choose what they log")
    if any(f"{META}logLevel" in meta_of(message) for message in traffic.sent("client")):
        return skipped("the client asked for log messages")
    for message in traffic.notifications("server", "notifications/message"):
        return failed("a log message was sent to a client that asked for none", message.index)
    return PASS


def _cancels_streams_alone(traffic: Traffic) -> Verdict:
    if not is_modern(traffic):
        return skipped("a handshake was made, after which servers may cancel their own requests")
    streams = {id_key(request.id) for request in traffic.requests("client", "subscriptions/listen")}
    for message in traffic.notifications("server", "notifications/cancelled"):
        if id_key(message.params.get("requestId")) not in streams:
            return failed("the server cancelled a request that opened no stream", message.index)
    return PASS


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-META-007",
        "capability",
        "Every result has a resultType that this version knows.",
        prose(
            "basic", "The `result` **MUST** include a `resultType` field to indicate the type of the result.", MODERN
        ),
        _result_types,
        applies=MODERN,
        violation='{"content":[]}',
    ),
    Requirement(
        "MCP-S-META-008",
        "capability",
        "Lists, contents and discovery say how long they may be kept, and by whom.",
        prose("server/utilities/caching", "Servers MUST include caching hints on results", MODERN),
        every(_results, _hints, _none),
        applies=MODERN,
        violation='{"resultType":"complete","tools":[]}',
    ),
    Requirement(
        "MCP-S-META-009",
        "capability",
        "The server's errors have no code of an earlier version, and none that is reserved and not defined.",
        prose("basic", "Implementations of this protocol version **MUST NOT** emit these codes:", MODERN),
        _codes,
        applies=MODERN,
        violation='{"code":-32002,"message":"Resource not found"}',
    ),
    Requirement(
        "MCP-S-META-010",
        "capability",
        "The server sends no requests.",
        prose("basic/transports/stdio", "The server **MUST NOT** write JSON-RPC _requests_ to `stdout`.", MODERN),
        _asks_nothing,
        applies=MODERN,
        violation='{"jsonrpc":"2.0","id":1,"method":"ping"}',
    ),
    Requirement(
        "MCP-S-META-011",
        "advisory",
        "Every result names the server in its `_meta`.",
        prose("basic", "Servers **SHOULD** include the following `io.modelcontextprotocol/*` field", MODERN),
        every(_results, _named, _none),
        applies=MODERN,
        violation='{"resultType":"complete","content":[]}',
    ),
    Requirement(
        "MCP-S-META-012",
        "capability",
        "The server wants no input for which the client does not declare a capability.",
        prose("basic", "A server **MUST NOT** rely on capabilities the client has not declared.", MODERN),
        _declared_alone,
        applies=MODERN,
        violation='"inputRequests":{"name":{"method":"elicitation/create"}} for a client without elicitation',
    ),
    Requirement(
        "MCP-S-META-013",
        "capability",
        "The server sends log messages only to requests that ask for them.",
        schema(
            "/$defs/RequestMetaObject/properties/io.modelcontextprotocol~1logLevel",
            "If absent, the server MUST NOT send any",
            MODERN,
        ),
        _unasked_logs,
        applies=MODERN,
        violation='{"method":"notifications/message","params":{"level":"info","data":"called"}}',
    ),
    Requirement(
        "MCP-S-META-014",
        "capability",
        "The server cancels nothing but streams.",
        prose(
            "basic/patterns/cancellation",
            "Servers **MUST NOT** send `notifications/cancelled` for any other purpose.",
            MODERN,
        ),
        _cancels_streams_alone,
        applies=MODERN,
        violation='{"method":"notifications/cancelled","params":{"requestId":3}} of a call that failed',
    ),
)
