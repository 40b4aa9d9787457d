"""The shapes of session/update: a row for each kind of the schema, and what some of them promise besides."""

from __future__ import annotations

from typing import Any, Final

from conformance.documents import json_document
from conformance.judging import every
from conformance.requirement import Judge, Requirement
from conformance.requirements.acp1 import definition, prose, schema, session_of
from conformance.requirements.acp1_agent.reading import offers, updates
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, is_object
from conformance.verdict import PASS, Verdict, failed, skipped

_KINDS: Final[dict[str, str]] = {
    as_object(as_object(branch["properties"])["sessionUpdate"])["const"]: f"/$defs/SessionUpdate/oneOf/{index}"
    for index, branch in enumerate(json_document("acp1.schema")["$defs"]["SessionUpdate"]["oneOf"])
}


def _unstable_kinds() -> set[str]:
    union = json_document("acp1.unstable")["$defs"]["SessionUpdate"]
    branches: list[Any] = [*as_list(union.get("oneOf")), *as_list(union.get("anyOf"))]
    return {
        as_text(as_object(as_object(branch.get("properties")).get("sessionUpdate")).get("const")) for branch in branches
    }


def _is(kind: str) -> Judge:
    def found(traffic: Traffic) -> list[Message]:
        return [message for message, _ in updates(traffic, kind)]

    def problem(message: Message) -> str:
        wrong = definition("SessionUpdate")(message.params.get("update"))
        return f"{kind}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped(f"the agent sent no {kind}"))


def _known_kind(message: Message) -> str:
    update = message.params.get("update")
    if not is_object(update):
        return "the notification holds no update"
    kind = as_text(as_object(update).get("sessionUpdate"))
    known = kind in _KINDS or kind in _unstable_kinds()
    return "" if known else f"sessionUpdate is {kind!r}, which the schema does not have"


def _names_session(message: Message) -> str:
    return "" if isinstance(message.params.get("sessionId"), str) else "the notification has no sessionId"


def _all_updates(traffic: Traffic) -> list[Message]:
    return traffic.notifications("server", "session/update")


def _none() -> Verdict:
    return skipped("the agent sent no session/update")


def _only_if_offered(path: str, *kinds: str) -> Judge:
    def judge(traffic: Traffic) -> Verdict:
        if offers(traffic, path):
            return skipped(f"the client offers {path}")
        for message, update in updates(traffic, *kinds):
            return failed(f"{update.get('sessionUpdate')} was sent to a client without {path}", message.index)
        return PASS if traffic.requests("client", "session/prompt") else skipped("no turn was run")

    return judge


def _no_requests(traffic: Traffic) -> Verdict:
    for request in traffic.requests("server", "session/update"):
        return failed("session/update was sent as a request, with an id", request.index)
    return PASS if _all_updates(traffic) else _none()


def _compactions(traffic: Traffic) -> dict[tuple[str, str], list[tuple[Message, Object]]]:
    found: dict[tuple[str, str], list[tuple[Message, Object]]] = {}
    for message, update in updates(traffic, "compaction_update"):
        found.setdefault((session_of(message), as_text(update.get("compactionId"))), []).append((message, update))
    return found


def _compactions_end(traffic: Traffic) -> Verdict:
    for (session, name), reports in _compactions(traffic).items():
        if reports[-1][1].get("status") == "in_progress":
            ended = [r for r in traffic.requests("client", "session/prompt") if r.answer and session_of(r) == session]
            if ended and ended[-1].answer and ended[-1].answer.order > reports[-1][0].order:
                return failed(f"the compaction {name!r} never ends", reports[-1][0].index)
    return PASS if _compactions(traffic) else skipped("the agent reported no compaction")


def _compactions_differ(traffic: Traffic) -> Verdict:
    for (_, name), reports in _compactions(traffic).items():
        ended = False
        loads = [m.order for m in traffic.requests("client", "session/load")]
        for (before, _), (message, update) in zip((reports[0], *reports), reports, strict=False):
            ended = ended and not any(before.order < order < message.order for order in loads)
            if ended and update.get("status") == "in_progress":
                return failed(f"the id {name!r} of a compaction that has ended is used again", message.index)
            ended = ended or update.get("status") in ("completed", "failed", "cancelled")
    return PASS if _compactions(traffic) else skipped("the agent reported no compaction")


_EXAMPLES: Final = {
    "tool_call": '{"sessionUpdate":"tool_call","title":"no toolCallId"}',
    "plan": '{"sessionUpdate":"plan","entries":[{"content":"no priority and no status"}]}',
    "current_mode_update": '{"sessionUpdate":"current_mode_update","modeId":"code"}',
}

REQUIREMENTS: Final = (
    *(
        Requirement(
            f"ACP1-A-UPDATE-{number:03}",
            "mandatory",
            f"Updates of the kind {kind} have the schema's shape.",
            schema(place, f'"const": "{kind}"'),
            _is(kind),
            violation=_EXAMPLES.get(kind, f'{{"sessionUpdate":"{kind}"}}'),
        )
        for number, (kind, place) in enumerate(_KINDS.items(), 1)
    ),
    Requirement(
        "ACP1-A-UPDATE-015",
        "mandatory",
        "Updates are of kinds that the schema has, stable or not.",
        schema("/$defs/SessionUpdate", '"discriminator": {"propertyName": "sessionUpdate"}'),
        every(_all_updates, _known_kind, _none),
        violation='{"sessionUpdate":"token"}',
    ),
    Requirement(
        "ACP1-A-UPDATE-016",
        "mandatory",
        "Updates name their session.",
        schema("/$defs/SessionNotification/required", '["sessionId", "update"]'),
        every(_all_updates, _names_session, _none),
        violation='{"method":"session/update","params":{"update":{...}}}',
    ),
    Requirement(
        "ACP1-A-UPDATE-017",
        "advisory",
        "Updates are notifications: they have no id.",
        schema("/$defs/SessionNotification", "Notification containing a session update from the agent."),
        _no_requests,
        violation='{"id":5,"method":"session/update",...}',
    ),
    Requirement(
        "ACP1-A-UPDATE-018",
        "mandatory",
        "The agent sends notices to clients that advertise them alone.",
        prose("prompt-turn", "The Agent **MUST NOT** send `notice` updates unless the Client advertised support"),
        _only_if_offered("session.notices", "notice"),
        scenario="minimal-client",
        violation='{"sessionUpdate":"notice",...} to a client without session.notices',
    ),
    Requirement(
        "ACP1-A-UPDATE-019",
        "mandatory",
        "The agent reports compactions to clients that advertise them alone.",
        prose(
            "prompt-turn",
            (
                "The Agent **MUST NOT** send `compaction_update` or `compaction_summary_chunk` "
                "unless the Client advertised support"
            ),
        ),
        _only_if_offered("session.compaction", "compaction_update", "compaction_summary_chunk"),
        scenario="minimal-client",
        violation='{"sessionUpdate":"compaction_update",...} to a client without session.compaction',
    ),
    Requirement(
        "ACP1-A-UPDATE-020",
        "advisory",
        "A reported compaction ends.",
        prose("prompt-turn", "The Agent **MUST** report a terminal status when a reported compaction ends."),
        _compactions_end,
        violation='"status":"in_progress" and nothing more',
    ),
    Requirement(
        "ACP1-A-UPDATE-021",
        "mandatory",
        "The id of a compaction is used for no other.",
        prose(
            "prompt-turn",
            (
                "The ID is an opaque, Agent-owned string, unique within the session, and **MUST "
                "NOT** be reused for another compaction."
            ),
        ),
        _compactions_differ,
        violation='"status":"completed" and then "status":"in_progress" for the same id',
    ),
)
