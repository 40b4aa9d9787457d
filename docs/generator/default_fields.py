"""Which default-on-error fields of the schema the suite breaks for agents and for clients.

Used by the conformance page. A test compares it with the messages of the scenarios.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.suites.acp1_agent import malformed as for_agents
from conformance.suites.acp1_client import malformed as for_clients
from conformance.suites.default_fields import default_fields

READABLE: Final = "every value is readable there, so none is wrong"
LEFT_OUT: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "agent": for_agents.LEFT_OUT,
    "client": for_clients.LEFT_OUT,
}
"""By receiving side: definitions whose fields are not broken, by the reason."""


def reachable(side: str) -> frozenset[str]:
    """Return the marked fields of messages to a side, as JSON pointers."""
    return default_fields().marked(*default_fields().sent(side))


def left_out(side: str) -> dict[str, list[str]]:
    """Return the fields that are not broken, by the reason."""
    fields = reachable(side)
    found = {
        reason: [field for field in sorted(fields) if field.split("/")[2] in definitions]
        for reason, definitions in LEFT_OUT[side].items()
    }
    return {**found, READABLE: [field for field in sorted(fields) if default_fields().accepts_anything(field)]}


def section() -> list[str]:
    """Return the lines of the section."""
    every = reachable("agent") | reachable("client")
    lines = [
        "### Fields with a default on error",
        "",
        f"The schema marks {len(every)} fields with `x-deserialize-default-on-error`. A receiver ignores the value of",
        "such a field if it cannot read it. The suite sends each of these fields that can reach a program with a wrong",
        "value: with a value of a wrong type, and with null if that is not allowed. It sends many wrong values in one",
        "message. If the program refuses the message, the suite sends them one by one.",
        "",
        "A mark in the schema is not a MUST, so these requirements do not decide. Other requirements decide whether a",
        "program accepts null where it is allowed.",
        "",
        "| sent to | marked fields | sent with a wrong value | by |",
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
    lines += [
        "",
        "These fields are not sent with a wrong value:",
        "",
        "| sent to | fields | because |",
        "|---|---|---|",
    ]
    for side in ids:
        for reason, fields in left_out(side).items():
            names: dict[str, list[str]] = {}
            for field in fields:
                names.setdefault(field.split("/")[2], []).append(f"`{field.split('/')[4]}`")
            text = "; ".join(f"{name}: {', '.join(those)}" for name, those in names.items())
            lines.append(f"| {side}s | {text} | {reason} |")
    return [*lines, ""]
