"""Updates: every kind, with all that the schema allows; what a client does not know; and how a turn ends."""

from __future__ import annotations

from typing import Final

from conformance.judging_fields import no_answer, takes_broken_fields
from conformance.requirement import Requirement
from conformance.requirements.acp1 import AGREED, prose, schema
from conformance.requirements.acp1_client.reading import SIDE, ends, goes_on
from conformance.traffic import Traffic
from conformance.verdict import PASS, Verdict, failed, not_tested


def _waits(traffic: Traffic) -> Verdict:
    if not traffic.requests(SIDE, "session/prompt"):
        return not_tested("the client sent no prompt")
    cancels = traffic.notifications(SIDE, "session/cancel")
    if cancels:
        return failed("the client cancelled a turn in which nothing happened for three seconds", cancels[0].index)
    if not traffic.marks("late"):
        return failed("the client ended the connection within three seconds")
    for entry in traffic.transcript.entries:
        if entry.label == "late":
            return PASS
        if entry.label == "output-closed":
            return failed("the client ended the connection within three seconds")
    return PASS


_IGNORE = "Unlike with custom requests, implementations **SHOULD** ignore unrecognized notifications."
_META = "Implementations MUST NOT make assumptions about values at these keys."

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-UPDATE-001",
        "mandatory",
        "The client takes every kind of update that the schema has, besides those that need a capability.",
        AGREED,
        goes_on,
        scenario="every-update",
        violation="a client that ends at usage_update",
    ),
    Requirement(
        "ACP1-C-UPDATE-002",
        "mandatory",
        "The client takes any `_meta` in updates.",
        schema("/$defs/SessionNotification/properties/_meta", _META),
        goes_on,
        scenario="updates-meta",
        violation="a client that takes `_meta` for its own",
    ),
    Requirement(
        "ACP1-C-UPDATE-003",
        "mandatory",
        "The client takes null wherever the schema of updates allows it.",
        AGREED,
        goes_on,
        scenario="updates-nulls",
        violation='a client that ends at "title":null',
    ),
    Requirement(
        "ACP1-C-UPDATE-004",
        "advisory",
        "The client takes optional fields of wrong types for absent, as the schema marks them.",
        schema("/$defs/ToolCallUpdate/properties/kind", '"x-deserialize-default-on-error": true'),
        takes_broken_fields(no_answer, by="server"),
        scenario="updates-malformed",
        violation='a client that ends at "kind":5',
    ),
    Requirement(
        "ACP1-C-UPDATE-005",
        "advisory",
        "The client goes on after kinds, statuses and content that it does not know.",
        schema("/$defs/ToolCallUpdate/properties/kind", '"x-deserialize-default-on-error": true'),
        goes_on,
        scenario="unknown-values",
        violation='a client that ends at "status":"in_flight"',
    ),
    Requirement(
        "ACP1-C-UPDATE-006",
        "informational",
        "The client takes no notice of kinds of updates that it does not know.",
        prose("extensibility", _IGNORE),
        goes_on,
        scenario="unknown-updates",
        violation='a client that ends at "sessionUpdate":"a_kind_of_later"',
    ),
    Requirement(
        "ACP1-C-UPDATE-007",
        "informational",
        "The client goes on after updates of a tool call and of a session that it does not know.",
        prose("extensibility", _IGNORE),
        goes_on,
        scenario="unknown-references",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-UPDATE-008",
        "advisory",
        "The client that advertises notices takes them, of unknown severities too.",
        prose(
            "prompt-turn",
            (
                "Clients preserve unknown values and use a generic notice presentation without inferring additional "
                "behavior from them."
            ),
        ),
        goes_on,
        scenario="notices",
        applies="session.notices",
        violation='a client that ends at "severity":"_mine"',
    ),
    Requirement(
        "ACP1-C-UPDATE-009",
        "advisory",
        "The client that advertises compactions takes them, with unknown statuses too.",
        prose(
            "prompt-turn",
            (
                "Clients preserve unknown strings and present a generic state without inferring lifecycle or control "
                "behavior."
            ),
        ),
        goes_on,
        scenario="compaction",
        applies="session.compaction",
        violation='a client that ends at "status":"a_status_of_later"',
    ),
    Requirement(
        "ACP1-C-END-001",
        "informational",
        "The client waits for the end of a turn in which nothing happens.",
        prose("prompt-turn", "Once a prompt turn completes, the Client may send another `session/prompt`"),
        _waits,
        scenario="late-end",
        violation="a client that gives up after two seconds",
    ),
    Requirement(
        "ACP1-C-END-002",
        "informational",
        "A client that ends after a turn also ends where the prompt was answered with an error.",
        prose("overview", "Errors include an `error` object with `code` and `message`"),
        ends,
        scenario="prompt-error",
        violation="a client that waits for ever",
    ),
    Requirement(
        "ACP1-C-END-003",
        "informational",
        "A client that ends after a turn also ends where its agent exits in the middle of one.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        ends,
        scenario="agent-dies",
        violation="a client that waits for ever",
    ),
)
