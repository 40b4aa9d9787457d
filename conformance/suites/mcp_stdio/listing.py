"""Lists: shapes, pages, cursors, stable order, and lists that are not advertised."""

from __future__ import annotations

from collections import Counter
from typing import Final

from conformance.driver import StoppedError
from conformance.judging import PASS, Judge, Requirement, Verdict, evidence, failed, marked_requests, skipped
from conformance.suite import Scenario
from conformance.suites.jsonrpc import INVALID_PARAMS, error_code_is
from conformance.suites.mcp_stdio.client import (
    HANDSHAKE,
    LISTS,
    MODERN,
    Client,
    answered_requests,
    handshakes,
    in_both,
    known_calls,
    listed,
    offers,
    prose,
    results_fit_schema,
    schema,
    when,
)
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_text, at

_CHANGING: Final = ("tools", "resources", "prompts")
_LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


def _cursors_end(traffic: Traffic) -> Verdict:
    """No list returns a cursor that was already used since the list began."""
    pages = answered_requests(traffic, *_LISTS)
    used: dict[str, set[str]] = {}
    for request in pages:
        assert request.answer
        asked, following = request.params.get("cursor"), request.answer.result.get("nextCursor")
        seen = used.setdefault(request.method, set())
        if not isinstance(asked, str):
            seen.clear()
        else:
            seen.add(asked)
        if isinstance(following, str) and following in seen:
            return failed(f"{request.method} gives the cursor {following!r} again", *evidence(request))
    return PASS if pages else skipped("nothing was listed")


def _complete_listings(traffic: Traffic, method: str, field: str) -> list[tuple[Message, list[Object]]]:
    """Return each listing from its first page to its last, with all items."""
    found: list[tuple[Message, list[Object]]] = []
    for request, items in listed(traffic, method, field):
        if "cursor" in request.params and found:
            found[-1][1].extend(items)
        elif "cursor" not in request.params:
            found.append((request, list(items)))
    return found


def _names(items: list[Object]) -> list[str]:
    return [as_text(item.get("name")) for item in items]


def _tools_unique(traffic: Traffic) -> Verdict:
    listings = _complete_listings(traffic, "tools/list", "tools")
    for request, items in listings:
        twice = [name for name, count in Counter(_names(items)).items() if count > 1]
        if twice:
            return failed(f"two tools have the name {twice[0]!r}", *evidence(request))
    return PASS if listings else skipped("no tools were listed")


def _repeated_listings(traffic: Traffic) -> list[tuple[Message, list[str]]]:
    """Return the tool listings of a connection without change notifications; none if there is only one."""
    changed = traffic.notifications("server", "notifications/tools/list_changed")
    listings = [(request, _names(items)) for request, items in _complete_listings(traffic, "tools/list", "tools")]
    return [] if changed or len(listings) < 2 else listings  # noqa: PLR2004 -- two can differ


def _tools_unchanged(traffic: Traffic) -> Verdict:
    if traffic.marks("by-turns"):
        return skipped("clients with other capabilities sent requests")
    listings = _repeated_listings(traffic)
    for request, names in listings[1:]:
        if sorted(names) != sorted(listings[0][1]):
            gone = sorted(set(names) ^ set(listings[0][1]))
            return failed(f"the tools changed without a notification: {', '.join(gone)}", *evidence(request))
    return PASS if listings else skipped("the tools were not listed twice")


def _tools_in_order(traffic: Traffic) -> Verdict:
    listings = _repeated_listings(traffic)
    for request, names in listings[1:]:
        if sorted(names) == sorted(listings[0][1]) and names != listings[0][1]:
            return failed("the same tools were listed in another order", *evidence(request))
    return PASS if listings else skipped("the tools were not listed twice")


def _declared(capability: str, path: str) -> Judge:
    """Without the capability, a request for it returns nothing. `path` locates the items of a result."""

    def judge(traffic: Traffic) -> Verdict:
        if offers(traffic, capability):
            return PASS
        for request in marked_requests(traffic, f"undeclared-{capability}"):
            items = at(request.answer.result, path) if request.answer is not None else None
            if as_list(items):
                reason = f"{request.method} gives {len(as_list(items))} items, but {capability} is not advertised"
                return failed(reason, *evidence(request))
        return PASS

    return judge


def _logs_declared(traffic: Traffic) -> Verdict:
    if not handshakes(traffic):
        return skipped("no handshake was completed")
    if offers(traffic, "logging"):
        return PASS
    for message in traffic.notifications("server", "notifications/message"):
        return failed("a log message was sent, but logging is not advertised", message.index)
    return PASS


def _changes_declared(traffic: Traffic) -> Verdict:
    if not handshakes(traffic):
        return skipped("no handshake was completed")
    for kind in _CHANGING:
        if offers(traffic, f"{kind}.listChanged"):
            continue
        for message in traffic.notifications("server", f"notifications/{kind}/list_changed"):
            return failed(f"the list of {kind} changed, but {kind}.listChanged is not advertised", message.index)
    return PASS


def _shape(number: int, method: str, name: str, capability: str) -> Requirement:
    """A list has the shape of its result."""
    field = {"resources/templates/list": "resourceTemplates"}.get(method, capability)
    return Requirement(
        f"MCP-S-LIST-{number:03}",
        "capability",
        f"Results of {method} have the schema's shape.",
        schema(f"/$defs/{name}/required", f'["{field}"]'),
        results_fit_schema(method),
        applies=capability,
        violation=f'{{"{field}":null}}',
    )


def _declaration(number: int, capability: str, page: str, path: str, quote: str) -> Requirement:
    return Requirement(
        f"MCP-S-LIST-{number:03}",
        "mandatory",
        f"A server that offers {capability} advertises them.",
        prose(page, quote),
        _declared(capability, path),
        violation=f"{capability} in a list, but not in the capabilities",
    )


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    _shape(1, "tools/list", "ListToolsResult", "tools"),
    _shape(2, "resources/list", "ListResourcesResult", "resources"),
    _shape(3, "resources/templates/list", "ListResourceTemplatesResult", "resources"),
    _shape(4, "prompts/list", "ListPromptsResult", "prompts"),
    Requirement(
        "MCP-S-LIST-005",
        "advisory",
        "Lists end: no page returns a cursor that was already used.",
        prose("server/utilities/pagination", "Provide stable cursors"),
        _cursors_end,
        violation='"nextCursor":"1" in the page after the cursor "1"',
    ),
    Requirement(
        "MCP-S-LIST-006",
        "advisory",
        "The server answers an invalid cursor with -32602.",
        prose(
            "server/utilities/pagination",
            "Invalid cursors **SHOULD** result in an error with code -32602 (Invalid params).",
        ),
        when("wrong-cursor", error_code_is("wrong-cursor", INVALID_PARAMS, instead_of_result=True)),
        violation="the first page",
    ),
    Requirement(
        "MCP-S-LIST-007",
        "advisory",
        "Tool names are unique.",
        prose("server/tools", "Tool names SHOULD be unique within a server."),
        _tools_unique,
        applies="tools",
        violation="two tools with the name `search`",
    ),
    Requirement(
        "MCP-S-LIST-008",
        "capability",
        "The tools of a connection stay the same, even after other requests.",
        prose(
            "server/tools",
            "**MUST NOT** vary per-connection or as a side effect of other requests on the connection.",
            MODERN,
        ),
        _tools_unchanged,
        applies=f"{MODERN} tools",
        violation="a tool that is listed only after another tool was called",
    ),
    Requirement(
        "MCP-S-LIST-009",
        "advisory",
        "Tools are always listed in the same order.",
        prose("server/tools", "Servers **SHOULD** return tools in a deterministic order", MODERN),
        _tools_in_order,
        applies=f"{MODERN} tools",
        violation="a, b and then b, a",
    ),
    _declaration(
        10, "tools", "server/tools", "tools", "Servers that support tools **MUST** declare the `tools` capability:"
    ),
    _declaration(
        11,
        "resources",
        "server/resources",
        "resources",
        "Servers that support resources **MUST** declare the `resources` capability:",
    ),
    _declaration(
        12,
        "prompts",
        "server/prompts",
        "prompts",
        "Servers that support prompts **MUST** declare the `prompts` capability",
    ),
    _declaration(
        13,
        "completions",
        "server/utilities/completion",
        "completion.values",
        "Servers that support completions **MUST** declare the `completions` capability:",
    ),
    Requirement(
        "MCP-S-LIST-014",
        "capability",
        "A server that sends log messages advertises logging.",
        prose(
            "server/utilities/logging",
            "Servers that emit log message notifications **MUST** declare the `logging` capability:",
        ),
        _logs_declared,
        applies=HANDSHAKE,
        violation="notifications/message, and no logging in the capabilities",
    ),
    Requirement(
        "MCP-S-LIST-015",
        "capability",
        "A server that announces list changes advertises listChanged for the list.",
        prose(
            "basic/lifecycle",
            "Both parties **MUST**: - Respect the negotiated protocol version"
            " - Only use capabilities that were successfully negotiated",
        ),
        _changes_declared,
        applies=HANDSHAKE,
        violation='notifications/prompts/list_changed, and "prompts":{} in the capabilities',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_WRONG_CURSOR: Final = "rewindow-conformance-no-such-cursor"
_UNDECLARED: Final = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}


def capability_of(method: str) -> str:
    """Return the capability of a method."""
    return method.partition("/")[0]


def _run_lists(client: Client) -> None:
    for method in LISTS:
        if client.offers(capability_of(method)):
            client.listed(method)
    if client.offers("tools"):
        _call_one(client)
        client.listed("tools/list")


def _call_one(client: Client) -> None:
    """Make a call before the second list, which must not change it."""
    try:
        calls = known_calls(client.driver)
    except StoppedError:
        return
    client.asked("tools/call", **calls[0])


def _run_cursors(client: Client) -> None:
    for method in LISTS:
        if client.offers(capability_of(method)):
            client.asked(method, label="wrong-cursor", cursor=_WRONG_CURSOR)
    client.alive()


def _run_undeclared(client: Client) -> None:
    for capability, method in _UNDECLARED.items():
        if not client.offers(capability):
            client.asked(method, label=f"undeclared-{capability}")
    if not client.offers("completions"):
        reference = {"type": "ref/prompt", "name": "rewindow-conformance-none"}
        argument = {"name": "a", "value": ""}
        client.asked("completion/complete", label="undeclared-completions", ref=reference, argument=argument)
    if client.version == HANDSHAKE and not client.offers("logging"):
        client.asked("logging/setLevel", label="undeclared-logging", level="debug")


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("lists", "Lists everything page by page, and the tools again after a call.", _run_lists),
    *in_both("cursors", "Lists from an invalid cursor.", _run_cursors),
    *in_both("undeclared", "Requests what the server does not advertise.", _run_undeclared),
)
