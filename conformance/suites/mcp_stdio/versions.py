"""How connections begin in both versions, and what version 2026-07-28 requires of every message.

Covers the handshake and its versions, discovery, requests that state their version in `_meta`, result types, caching
hints, error codes, and messages that servers must not send.
"""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import METHOD_NOT_FOUND, Driver
from conformance.judging import (
    PASS,
    Judge,
    Requirement,
    Verdict,
    answered,
    every,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
    unanswered_reason,
)
from conformance.suite import Scenario
from conformance.suites.jsonrpc import INVALID_PARAMS, error_code_is, refused_with_error
from conformance.suites.mcp_stdio.client import (
    HANDSHAKE,
    META,
    MODERN,
    Client,
    definition,
    discoveries,
    handshakes,
    initialize_params,
    is_modern,
    meta,
    meta_of,
    offers,
    open_as,
    prose,
    results_fit_schema,
    schema,
    version_of,
)
from conformance.traffic import Message, Traffic, id_key
from conformance.values import as_list, as_object, as_text, at, is_object

_KNOWN: Final = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)
_NEEDS: Final = {"roots": "roots", "sampling": "sampling", "elicitation": "elicitation", "tasks": "tasks"}
"""Client capabilities, by the first word of the methods that need them."""
_VERSION: Final = "Otherwise, the server **MUST** respond with another protocol version it supports."


def _answered_with(versions: tuple[str, ...]) -> Judge:
    """The marked handshake has a result with one of these versions, or the error that lists versions."""

    def judge(traffic: Traffic) -> Verdict:
        requests = marked_requests(traffic, "initialize")
        if not requests:
            return not_tested("initialize was not sent")
        request = requests[0]
        if request.answer is None:
            return failed(unanswered_reason(traffic, request, "initialize"), request.index)
        error = request.answer.error
        if error.get("code") == INVALID_PARAMS and is_object(error.get("data")):
            return PASS  # the specification's own example of a mismatch
        version = request.answer.result.get("protocolVersion")
        if request.succeeded and version in versions:
            return PASS
        said = f"version {version}" if request.succeeded else f"the error {error.get('code')}: {error.get('message')}"
        asked = request.params.get("protocolVersion")
        return failed(f"initialize with version {asked} was answered with {said}", *evidence(request))

    return judge


def _asks_early(traffic: Traffic) -> Verdict:
    ready = traffic.notifications("client", "notifications/initialized")
    if not handshakes(traffic) or not ready:
        return skipped("no handshake was completed")
    for message in traffic.sent("server"):
        if message.is_request and message.method != "ping" and message.order < ready[0].order:
            return failed(f"{message.method} was requested before notifications/initialized", message.index)
    return PASS


def _negotiated(traffic: Traffic) -> Verdict:
    if not handshakes(traffic):
        return skipped("no handshake was completed")
    offered = as_object(at(traffic.requests("client", "initialize")[0].params, "capabilities"))
    for message in traffic.sent("server"):
        need = _need(message)
        if need and not is_object(offered.get(need)):
            return failed(f"the server sent {message.method} to a client that does not advertise {need}", message.index)
    return PASS


def _need(message: Message) -> str:
    return _NEEDS.get(message.method.partition("/")[0], "") if message.is_request else ""


def _after_probe(traffic: Traffic) -> Verdict:
    verdict = answered("after-probe", expect="result")(traffic)
    if discoveries(traffic) and verdict.outcome == "fail":
        return skipped(f"the server supports {MODERN}, so clients do not fall back to {HANDSHAKE}")
    return verdict


# --- metadata ---------------------------------------------------------------------------------------------------------


_STATELESS: Final = "Servers **MUST NOT** rely on prior requests over the same connection to establish context"
_MALFORMED: Final = (
    "A request missing any required field is malformed; the server **MUST** reject it with JSON-RPC error code "
    "`-32602` (Invalid params)."
)


def _unknown_version(traffic: Traffic) -> Verdict:
    requests = marked_requests(traffic, "unknown-version")
    if not requests:
        return not_tested("the request was not sent")
    for request in requests:
        if request.answer is None:
            return failed(unanswered_reason(traffic, request, f"{request.method} in an unknown version"), request.index)
        wrong = definition("UnsupportedProtocolVersionError", MODERN)(request.answer.object)
        if wrong:
            return failed(f"the answer to an unknown version: {wrong}", *evidence(request))
    return PASS


def _inline(traffic: Traffic) -> Verdict:
    for request in marked_requests(traffic, "inline"):
        refused_so = request.answer is not None and request.answer.error.get("code") == METHOD_NOT_FOUND
        if refused_so and not offers(traffic, "tools"):
            return skipped("the server offers no tools to list")
    return answered("inline", expect="result")(traffic)


def _stateless(traffic: Traffic) -> Verdict:
    """Equal requests get equal answers, whatever was sent in between."""
    requests = marked_requests(traffic, "by-turns")
    if not requests:
        return not_tested("the requests were not sent")
    seen: dict[str, tuple[Message, object]] = {}
    for request in requests:
        if not request.succeeded or request.answer is None:
            continue
        able = str(at(request.params, "_meta") and meta_of(request).get(f"{META}clientCapabilities"))
        names = sorted(as_text(as_object(tool).get("name")) for tool in as_list(request.answer.result.get("tools")))
        before = seen.setdefault(able, (request, names))
        if before[1] != names:
            reason = "the same request listed other tools after a request with other capabilities"
            return failed(reason, *evidence(before[0]), *evidence(request))
    return PASS if seen else skipped("the server offers no tools to list")


# --- version 2026-07-28 -----------------------------------------------------------------------------------------------


_OF_OLDER: Final = (-32002, -32042)
_DEFINED: Final = (-32020, -32021, -32022)
_RESERVED: Final = range(-32099, -32019)
_CACHEABLE: Final = (
    "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read",
)  # fmt: skip
_TYPES: Final = ("complete", "input_required")


def _results(traffic: Traffic) -> list[Message]:
    """Return the results of MODERN requests."""
    found = [m for m in traffic.sent("server") if m.answers is not None and "result" in m.object]
    return [m for m in found if m.answers is not None and version_of(m.answers) == MODERN]


def _none() -> Verdict:
    return skipped(f"the server sent no result in version {MODERN}")


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
            return failed(f"the code {code} belongs to earlier versions", message.index)
        if isinstance(code, int) and code in _RESERVED and code not in _DEFINED:
            return failed(f"the code {code} is reserved, and this version does not define it", message.index)
    return PASS if errors else skipped(f"the server sent no error in version {MODERN}")


def _asks_nothing(traffic: Traffic) -> Verdict:
    if not is_modern(traffic):
        return skipped("after a handshake, servers may send requests")
    for message in traffic.sent("server"):
        if message.is_request:
            return failed(f"the server sent the request {message.method}", message.index)
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
                return failed(f"a result asks for {need}, which the client does not declare", message.index)
    return PASS if results else _none()


def _unasked_logs(traffic: Traffic) -> Verdict:
    if not is_modern(traffic):
        return skipped("after a handshake, servers choose what they log")
    if any(f"{META}logLevel" in meta_of(message) for message in traffic.sent("client")):
        return skipped("the client asked for log messages")
    for message in traffic.notifications("server", "notifications/message"):
        return failed("a log message was sent to a client that asked for none", message.index)
    return PASS


def _cancels_streams_alone(traffic: Traffic) -> Verdict:
    if not is_modern(traffic):
        return skipped("after a handshake, servers may cancel their own requests")
    streams = {id_key(request.id) for request in traffic.requests("client", "subscriptions/listen")}
    for message in traffic.notifications("server", "notifications/cancelled"):
        if id_key(message.params.get("requestId")) not in streams:
            return failed("the server cancelled a request that opened no stream", message.index)
    return PASS


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-INIT-001",
        "capability",
        "The server answers initialize with its version, its capabilities and its name.",
        schema("/$defs/InitializeResult/required", '["capabilities", "protocolVersion", "serverInfo"]'),
        results_fit_schema("initialize"),
        applies=HANDSHAKE,
        violation='{"protocolVersion":"2025-11-25","capabilities":{}}',
    ),
    Requirement(
        "MCP-S-INIT-002",
        "capability",
        "The server answers an unknown version with a version that it supports.",
        prose("basic/lifecycle", _VERSION),
        _answered_with(_KNOWN),
        scenario="handshake-newer",
        applies=HANDSHAKE,
        violation='"protocolVersion":"2099-12-31" in the result, as in the request',
    ),
    Requirement(
        "MCP-S-INIT-003",
        "capability",
        "The server answers an older version with the same or another supported version.",
        prose("basic/lifecycle", _VERSION),
        _answered_with(_KNOWN),
        scenario="handshake-older",
        applies=HANDSHAKE,
        violation='{"error":{"code":-32603,"message":"Unsupported version"}}',
    ),
    Requirement(
        "MCP-S-INIT-004",
        "capability",
        "The server accepts unknown client capabilities and fields.",
        prose("basic/lifecycle", "The server **MUST** respond with its own capabilities and information:"),
        answered("initialize", expect="result"),
        scenario="handshake-fields",
        applies=HANDSHAKE,
        violation='{"error":{"code":-32602,"message":"Unknown capability"}}',
    ),
    Requirement(
        "MCP-S-INIT-005",
        "advisory",
        "The server answers a ping before notifications/initialized.",
        schema("/$defs/PingRequest", "The receiver must promptly respond, or else may be disconnected."),
        answered("early-ping", expect="result"),
        scenario="handshake",
        applies=HANDSHAKE,
        violation="silence",
    ),
    Requirement(
        "MCP-S-INIT-006",
        "advisory",
        "The server sends only pings to the client before notifications/initialized.",
        prose("basic/lifecycle", "The server **SHOULD NOT** send requests other than"),
        _asks_early,
        applies=HANDSHAKE,
        violation="roots/list right after the result of initialize",
    ),
    Requirement(
        "MCP-S-INIT-007",
        "capability",
        "The server requests only what the client advertises.",
        prose("basic/lifecycle", "Both parties **MUST**: - Respect the negotiated protocol version - Only use"),
        _negotiated,
        applies=HANDSHAKE,
        violation="sampling/createMessage sent to a client without sampling",
    ),
    Requirement(
        "MCP-S-INIT-008",
        "advisory",
        "A server without server/discover answers initialize after a server/discover request.",
        prose(
            "basic/transports/stdio",
            "Any other error, or no response within a reasonable timeout, identifies a legacy server",
            MODERN,
        ),
        _after_probe,
        scenario="probe",
        applies=HANDSHAKE,
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-META-001",
        "capability",
        "The server answers server/discover with its versions and its capabilities.",
        schema("/$defs/DiscoverResult/required", '"capabilities"', MODERN),
        results_fit_schema("server/discover"),
        applies=MODERN,
        violation='{"supportedVersions":["2026-07-28"]} without capabilities',
    ),
    Requirement(
        "MCP-S-META-002",
        "capability",
        "The server answers an unsupported version with -32022 and its supported versions.",
        prose("basic/versioning", "it **MUST** respond with an [`UnsupportedProtocolVersionError`]", MODERN),
        _unknown_version,
        scenario="version-unknown",
        applies=MODERN,
        violation='{"error":{"code":-32602,"message":"Unsupported version"}}',
    ),
    Requirement(
        "MCP-S-META-003",
        "capability",
        "The server refuses a request with a version but no capabilities in `_meta`, with -32602.",
        prose("basic", _MALFORMED, MODERN),
        error_code_is("partial-meta", INVALID_PARAMS, instead_of_result=True),
        scenario="meta-partial",
        applies=MODERN,
        violation="the tools, listed",
    ),
    Requirement(
        "MCP-S-META-004",
        "advisory",
        "The server refuses a request without a version and without an earlier handshake.",
        prose("basic", _MALFORMED, MODERN),
        refused_with_error("no-meta"),
        scenario="meta-absent",
        applies=MODERN,
        violation="the tools, listed",
    ),
    Requirement(
        "MCP-S-META-005",
        "capability",
        "The server answers a first request other than server/discover.",
        prose("basic", _STATELESS, MODERN),
        _inline,
        scenario="inline",
        applies=MODERN,
        violation='{"error":{"code":-32600,"message":"Discover first"}}',
    ),
    Requirement(
        "MCP-S-META-006",
        "capability",
        "The server answers each request by its own `_meta`, independent of earlier requests.",
        prose("basic", _STATELESS, MODERN),
        _stateless,
        scenario="by-turns",
        applies=MODERN,
        violation="tools that appear after a request with elicitation, and remain for a request without it",
    ),
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
        "Lists, contents and discovery have caching hints.",
        prose("server/utilities/caching", "Servers MUST include caching hints on results", MODERN),
        every(_results, _hints, _none),
        applies=MODERN,
        violation='{"resultType":"complete","tools":[]}',
    ),
    Requirement(
        "MCP-S-META-009",
        "capability",
        "The server's errors have no codes of earlier versions, and no reserved codes without a definition.",
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
        "The server asks for input only if the client declares the capability.",
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
        "The server cancels only streams.",
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


# --- scenarios --------------------------------------------------------------------------------------------------------


NEWER: Final = "2099-12-31"
OLDER: Final = "2024-11-05"
UNKNOWN: Final = "1900-01-01"


def _run_handshake(driver: Driver) -> None:
    response = driver.request("initialize", initialize_params(), label="initialize")
    driver.response(response)
    driver.response(driver.request("ping", label="early-ping"))
    driver.notify("notifications/initialized")
    driver.response(driver.request("ping", label="alive"))


def _ask(driver: Driver, version: str) -> None:
    driver.response(driver.request("initialize", initialize_params(version), label="initialize"))


def _run_newer(driver: Driver) -> None:
    _ask(driver, NEWER)


def _run_older(driver: Driver) -> None:
    _ask(driver, OLDER)


def _run_more_fields(driver: Driver) -> None:
    capabilities = {"example": {"of": ["a", "capability"]}, "experimental": {"example.org/x": {"on": True}}}
    params = {**initialize_params(HANDSHAKE, capabilities), "_meta": {"example.org/text": "x"}, "further": 1}
    driver.response(driver.request("initialize", params, label="initialize"))


def _run_discover(driver: Driver) -> None:
    client = open_as(driver, MODERN)
    client.asked("server/discover", label="discover")
    client.alive()


def _methods(client: Client) -> list[str]:
    """Return requests that this server answers without further params."""
    return ["server/discover", *(["tools/list"] if client.offers("tools") else [])]


def _run_unknown_version(driver: Driver) -> None:
    for method in _methods(open_as(driver, MODERN)):
        driver.response(driver.request(method, {"_meta": meta(UNKNOWN)}, label="unknown-version"))


def _run_partial(driver: Driver) -> None:
    partial = {f"{META}protocolVersion": MODERN}
    for method in _methods(open_as(driver, MODERN)):
        driver.response(driver.request(method, {"_meta": partial}, label="partial-meta"))


def _run_bare(driver: Driver) -> None:
    for method in _methods(open_as(driver, MODERN)):
        driver.response(driver.request(method, {}, label="no-meta"))


def _run_inline(driver: Driver) -> None:
    request = driver.request("tools/list", {"_meta": meta()}, label="inline")
    driver.response(request)
    open_as(driver, MODERN)


def _run_stateless(driver: Driver) -> None:
    """Alternate the requests of two clients with different capabilities."""
    open_as(driver, MODERN)
    able: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    for capabilities in ({}, able, {}, able):
        driver.response(driver.request("tools/list", {"_meta": meta(capabilities=capabilities)}, label="by-turns"))


def _run_probe(driver: Driver) -> None:
    driver.response(driver.request("server/discover", {"_meta": meta()}, label="probe"))
    driver.response(driver.request("initialize", initialize_params(), label="after-probe"))


SCENARIOS: Final = (
    Scenario("handshake", "Initializes, and pings before and after notifications/initialized.", _run_handshake),
    Scenario("handshake-newer", f"Initializes with the unknown version {NEWER}.", _run_newer),
    Scenario("handshake-older", f"Initializes with the version {OLDER}.", _run_older),
    Scenario("handshake-fields", "Initializes with unknown capabilities and fields.", _run_more_fields),
    Scenario("discover", "Requests what the server offers, twice.", _run_discover, passive=True),
    Scenario("version-unknown", f"Sends a request in the unknown version {UNKNOWN}.", _run_unknown_version),
    Scenario("meta-partial", "Sends a request without client capabilities.", _run_partial),
    Scenario("meta-absent", "Sends a request without a version and without a handshake.", _run_bare),
    Scenario("inline", "Begins with a list request, without server/discover.", _run_inline),
    Scenario("by-turns", "Alternates requests with many capabilities and with none.", _run_stateless),
    Scenario("probe", "Sends server/discover and then initialize, as clients of both versions do.", _run_probe),
)
