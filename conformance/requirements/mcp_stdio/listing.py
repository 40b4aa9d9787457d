"""Lists: their shapes, their pages, that they stay as they are, and that what is offered is advertised."""

from __future__ import annotations

from collections import Counter
from typing import Final

from conformance.judging import evidence, marked
from conformance.judging_rpc import coded
from conformance.requirement import Judge, Requirement
from conformance.requirements.mcp_stdio.reading import (
    HANDSHAKE,
    MODERN,
    answered_requests,
    handshakes,
    listed,
    offers,
    prose,
    results_are_shaped,
    schema,
    when,
)
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_text, at
from conformance.verdict import PASS, Verdict, failed, skipped

_INVALID: Final = -32602
_CHANGING: Final = ("tools", "resources", "prompts")
_LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


def _cursors_end(traffic: Traffic) -> Verdict:
    """No list gives a cursor that it was asked from since it was last begun."""
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


def _whole(traffic: Traffic, method: str, field: str) -> list[tuple[Message, list[Object]]]:
    """Each listing from its first page to its last, with all its items."""
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
    listings = _whole(traffic, "tools/list", "tools")
    for request, items in listings:
        twice = [name for name, count in Counter(_names(items)).items() if count > 1]
        if twice:
            return failed(f"two tools have the name {twice[0]!r}", *evidence(request))
    return PASS if listings else skipped("no tools were listed")


def _repeated(traffic: Traffic) -> list[tuple[Message, list[str]]]:
    """Listings of tools on a connection whose tools did not change by themselves; none where there is no second."""
    changed = traffic.notifications("server", "notifications/tools/list_changed")
    listings = [(request, _names(items)) for request, items in _whole(traffic, "tools/list", "tools")]
    return [] if changed or len(listings) < 2 else listings  # noqa: PLR2004 -- two can differ


def _tools_stay(traffic: Traffic) -> Verdict:
    if traffic.marks("by-turns"):
        return skipped("clients with other capabilities asked")
    listings = _repeated(traffic)
    for request, names in listings[1:]:
        if sorted(names) != sorted(listings[0][1]):
            gone = sorted(set(names) ^ set(listings[0][1]))
            return failed(f"the tools changed without a notification: {', '.join(gone)}", *evidence(request))
    return PASS if listings else skipped("the tools were not listed twice")


def _tools_in_order(traffic: Traffic) -> Verdict:
    listings = _repeated(traffic)
    for request, names in listings[1:]:
        if sorted(names) == sorted(listings[0][1]) and names != listings[0][1]:
            return failed("the same tools were listed in another order", *evidence(request))
    return PASS if listings else skipped("the tools were not listed twice")


def _declared(capability: str, path: str) -> Judge:
    """Where a capability is not advertised, asking for it gives nothing. `path`: where a result has its items."""

    def judge(traffic: Traffic) -> Verdict:
        if offers(traffic, capability):
            return PASS
        for request in marked(traffic, f"undeclared-{capability}"):
            items = at(request.answer.result, path) if request.answer is not None else None
            if as_list(items):
                reason = f"{request.method} gives {len(as_list(items))}, and {capability} is not advertised"
                return failed(reason, *evidence(request))
        return PASS

    return judge


def _logs_declared(traffic: Traffic) -> Verdict:
    if not handshakes(traffic):
        return skipped("no handshake was completed")
    if offers(traffic, "logging"):
        return PASS
    for message in traffic.notifications("server", "notifications/message"):
        return failed("a log message was sent, and logging is not advertised", message.index)
    return PASS


def _changes_declared(traffic: Traffic) -> Verdict:
    if not handshakes(traffic):
        return skipped("no handshake was completed")
    for kind in _CHANGING:
        if offers(traffic, f"{kind}.listChanged"):
            continue
        for message in traffic.notifications("server", f"notifications/{kind}/list_changed"):
            return failed(
                f"the list of {kind} is said to have changed, and {kind}.listChanged is not advertised", message.index
            )
    return PASS


def _shape(number: int, method: str, name: str, capability: str) -> Requirement:
    """A list has the shape of its result."""
    field = {"resources/templates/list": "resourceTemplates"}.get(method, capability)
    return Requirement(
        f"MCP-S-LIST-{number:03}",
        "capability",
        f"Results of {method} have the shape that the schema gives them.",
        schema(f"/$defs/{name}/required", f'["{field}"]'),
        results_are_shaped(method),
        applies=capability,
        violation=f'{{"{field}":null}}',
    )


def _declaration(number: int, capability: str, page: str, path: str, quote: str) -> Requirement:
    return Requirement(
        f"MCP-S-LIST-{number:03}",
        "mandatory",
        f"A server with {capability} advertises them.",
        prose(page, quote),
        _declared(capability, path),
        violation=f"{capability} that are given, and no {capability} in the capabilities",
    )


REQUIREMENTS: Final = (
    _shape(1, "tools/list", "ListToolsResult", "tools"),
    _shape(2, "resources/list", "ListResourcesResult", "resources"),
    _shape(3, "resources/templates/list", "ListResourceTemplatesResult", "resources"),
    _shape(4, "prompts/list", "ListPromptsResult", "prompts"),
    Requirement(
        "MCP-S-LIST-005",
        "advisory",
        "Lists end: no page gives a cursor that was used already.",
        prose("server/utilities/pagination", "Provide stable cursors"),
        _cursors_end,
        violation='"nextCursor":"1" in the page after the cursor "1"',
    ),
    Requirement(
        "MCP-S-LIST-006",
        "advisory",
        "The server answers a cursor that it never gave with -32602.",
        prose(
            "server/utilities/pagination",
            "Invalid cursors **SHOULD** result in an error with code -32602 (Invalid params).",
        ),
        when("wrong-cursor", coded("wrong-cursor", _INVALID, instead_of_result=True)),
        violation="the first page",
    ),
    Requirement(
        "MCP-S-LIST-007",
        "advisory",
        "No two tools have the same name.",
        prose("server/tools", "Tool names SHOULD be unique within a server."),
        _tools_unique,
        applies="tools",
        violation="two tools with the name `search`",
    ),
    Requirement(
        "MCP-S-LIST-008",
        "capability",
        "The tools stay the same on a connection, whatever else was asked.",
        prose(
            "server/tools",
            "**MUST NOT** vary per-connection or as a side effect of other requests on the connection.",
            MODERN,
        ),
        _tools_stay,
        applies=f"{MODERN} tools",
        violation="a tool that is listed once another was called",
    ),
    Requirement(
        "MCP-S-LIST-009",
        "advisory",
        "The tools are listed in the same order each time.",
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
        "A server that says that a list has changed advertises listChanged for it.",
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
