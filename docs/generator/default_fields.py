"""Which fields that the schema marks as default-on-error are broken for agents and for clients, and which are not.

Used by the page on conformance; a test holds it to what the scenarios send.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.scenarios.acp1_agent import malformed as for_agents
from conformance.scenarios.acp1_client import malformed as for_clients
from conformance.scenarios.breaking import defaults

READABLE: Final = "any value can be read there, so that none is wrong"
LEFT_OUT: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "agent": for_agents.LEFT_OUT,
    "client": for_clients.LEFT_OUT,
}
"""Of what is sent to a side: definitions by the reason why their fields are not broken."""


def reachable(side: str) -> frozenset[str]:
    """The marked fields of what is sent to a side, as JSON pointers."""
    return defaults().marked(*defaults().sent(side))


def left_out(side: str) -> dict[str, list[str]]:
    """The fields that are not broken, by the reason."""
    fields = reachable(side)
    found = {
        reason: [field for field in sorted(fields) if field.split("/")[2] in definitions]
        for reason, definitions in LEFT_OUT[side].items()
    }
    return {**found, READABLE: [field for field in sorted(fields) if defaults().readable(field)]}


def section() -> list[str]:
    """The lines of the page."""
    every = reachable("agent") | reachable("client")
    lines = [
        "### Fields that are taken for absent where they cannot be read",
        "",
        f"The schema marks {len(every)} fields with `x-deserialize-default-on-error`. Each that can reach a",
        "program is broken, by a value of a wrong type, and by null where that is wrong; many in one message, and one",
        "by one if that is refused. A mark is no MUST, so that none of this decides. That null is taken where it is",
        "allowed does, and has requirements of its own.",
        "",
        "| sent to | marked fields | broken | by |",
        "|---|---|---|---|",
    ]
    ids = {
        "agent": "ACP1-A-INIT-008, PROMPT-010, RPC-022, RPC-023",
        "client": "ACP1-C-INIT-009, NEW-008, UPDATE-004, RPC-018",
    }
    for side, requirements in ids.items():
        count = len(reachable(side))
        broken = count - sum(map(len, left_out(side).values()))
        lines.append(f"| {side}s | {count} | {broken} | {requirements} |")
    lines += ["", "Not broken:", "", "| sent to | fields | because |", "|---|---|---|"]
    for side in ids:
        for reason, fields in left_out(side).items():
            names: dict[str, list[str]] = {}
            for field in fields:
                names.setdefault(field.split("/")[2], []).append(f"`{field.split('/')[4]}`")
            text = "; ".join(f"{name}: {', '.join(those)}" for name, those in names.items())
            lines.append(f"| {side}s | {text} | {reason} |")
    return [*lines, ""]
