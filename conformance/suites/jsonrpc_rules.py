"""The requirements of JSON-RPC over lines, each written once for all suites.

A suite describes its program as a `Subject`. It takes the rules that its protocol has sentences for, and gives each an
id and a quote. Judges are in `jsonrpc`, and `jsonrpc_scenarios` shows the behaviour. Knows no protocol above JSON-RPC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from conformance.documents import Source
from conformance.driver import METHOD_NOT_FOUND
from conformance.judging import (
    Judge,
    Level,
    Requirement,
    Verdict,
    answered,
    answered_or_refused,
    every,
    skipped,
    survived,
)
from conformance.schema import Check
from conformance.suites.jsonrpc import (
    all_answered,
    error_code_is,
    error_problem,
    form_problem,
    ids_preserved,
    malformed_answered,
    message_objects,
    messages_only,
    newline_at_end,
    no_lone_surrogates,
    no_message,
    notifications_unanswered,
    own_ids_are_valid,
    responses,
    responses_match,
    utf8,
    version_problem,
)
from conformance.traffic import OTHER, Message, Sender, Traffic

REPLY_QUOTE: Final = (
    "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."
)


def _unchanged(judge: Judge) -> Judge:
    return judge


def _results(*labels: str) -> Judge:
    return answered(*labels, expect="result")


@dataclass(frozen=True, slots=True)
class Subject:
    """A suite's program, and how the suite finds out whether it still works."""

    name: str
    """What the texts call it: `agent`."""
    prose: Callable[[str, str], Source]
    """Returns a quote of a page. The page `json-rpc` is the specification of JSON-RPC."""
    definition: Callable[[str], Check]
    """Returns the check of a definition. `Error` and `RequestId` are used."""
    side: Sender = "server"
    output: str = "standard output"
    """Where it writes its messages."""
    survived: Judge = survived
    """It still works after the act of a scenario."""
    accepts: Callable[..., Judge] = _results
    """It accepted the messages with these marks."""
    if_probed: Callable[[Judge], Judge] = _unchanged
    """Limits a judge to programs that answer the requests of the scenarios."""
    may_refuse: tuple[str, ...] = ()
    """Marks of requests that must be answered, but perhaps with an error."""

    def answered(self, *labels: str) -> Judge:
        """It answers the requests with these marks."""
        return answered(*labels, by=OTHER[self.side])

    def method_not_found(self, label: str) -> Judge:
        """It answers the requests with this mark with the error -32601."""
        return error_code_is(label, METHOD_NOT_FOUND, instead_of_result=True, by=OTHER[self.side])

    def messages(self, traffic: Traffic) -> list[Message]:
        """Return its messages."""
        return message_objects(traffic, self.side)


@dataclass(frozen=True, slots=True)
class Rule:
    """A requirement without id and program. In texts, `{program}` and `{output}` stand for those of the subject."""

    level: Level
    text: str
    judge: Callable[[Subject], Judge]
    violation: str
    scenario: str | None = None
    quote: str = ""
    """Its sentence, unless the subject's protocol has another one."""
    page: str = "json-rpc"
    """The page of the sentence."""

    def of(self, subject: Subject, name: str, source: Source | None = None, *, scenario: str = "") -> Requirement:
        """Return the requirement with the id `name`. `scenario` replaces the rule's scenario."""

        def filled(text: str) -> str:
            return text.replace("{program}", subject.name).replace("{output}", subject.output)

        return Requirement(
            name,
            self.level,
            filled(self.text),
            source or subject.prose(self.page, self.quote),
            self.judge(subject),
            scenario=scenario or self.scenario,
            violation=filled(self.violation),
        )


def _survived(subject: Subject) -> Judge:
    return subject.survived


# --- bytes and lines --------------------------------------------------------------------------------------------------

MESSAGES_ONLY: Final = Rule(
    "mandatory",
    "The {program} writes only messages to {output}, one per line.",
    lambda subject: partial(messages_only, side=subject.side),
    "a line of {output}: Loading ...",
)
UTF8: Final = Rule(
    "mandatory",
    "The {program}'s messages are UTF-8.",
    lambda subject: partial(utf8, side=subject.side),
    '{"jsonrpc":"2.0", ... "text":"caf\\xe9"}',
)
NEWLINE_AT_END: Final = Rule(
    "mandatory",
    "The {program} ends each message with a newline, including the last one.",
    lambda subject: partial(newline_at_end, side=subject.side),
    '{"jsonrpc":"2.0","id":1,"result":{}} and no newline before the {program} exits',
)
NO_LONE_SURROGATES: Final = Rule(
    "informational",
    "The {program}'s strings contain no lone surrogates.",
    lambda subject: partial(no_lone_surrogates, side=subject.side),
    '"text":"\\ud83d"',
)
SPLIT_WRITES: Final = Rule(
    "mandatory",
    "The {program} accepts a message in many small pieces.",
    lambda subject: subject.accepts("split"),
    "the second half of a line, treated as a separate message",
    "split-writes",
)
JOINED_WRITES: Final = Rule(
    "mandatory",
    "The {program} accepts several messages in one write.",
    lambda subject: subject.accepts("joined"),
    "only one of three requests is answered",
    "joined-writes",
)
UNUSUAL_CHARACTERS: Final = Rule(
    "mandatory",
    "The {program} accepts line separators and characters outside the basic plane in strings.",
    lambda subject: subject.accepts("unusual"),
    "a message split at U+2028",
    "unusual-characters",
)
LONE_SURROGATE: Final = Rule(
    "informational",
    "The {program} keeps working after an escaped lone surrogate.",
    _survived,
    "the {program} exits",
    "lone-surrogate",
)
SURVIVES_MALFORMED_LINES: Final = Rule(
    "advisory",
    "The {program} keeps working after lines that are not messages.",
    _survived,
    "the {program} exits at the line `5`",
    "malformed-lines",
)
ANSWERS_MALFORMED_LINES: Final = Rule(
    "advisory",
    "The {program} answers lines that are not messages with a parse error or an invalid request error.",
    lambda subject: partial(malformed_answered, side=subject.side),
    "silence",
    "malformed-lines",
)
NOT_UTF8: Final = Rule(
    "informational",
    "The {program} keeps working after a line that is not UTF-8.",
    _survived,
    "the {program} exits",
    "not-utf8",
)
BLANK_LINES: Final = Rule(
    "informational", "The {program} ignores empty lines.", _survived, "the {program} exits", "blank-lines"
)
CR_LF: Final = Rule(
    "informational",
    "The {program} accepts a line that ends with CR LF, because JSON allows CR as white space.",
    lambda subject: subject.accepts("crlf"),
    "silence",
    "crlf",
)
BYTE_ORDER_MARK: Final = Rule(
    "informational",
    "The {program} accepts a byte order mark before the first message, or answers it with an error.",
    lambda _: answered_or_refused("bom"),
    "silence",
    "byte-order-mark",
)
LONG_LINE: Final = Rule(
    "informational",
    "The {program} keeps working after a line of 50 MB, accepted or not.",
    _survived,
    "a reader that stops at 64 KiB",
    "long-line",
)
UNASKED_RESPONSE: Final = Rule(
    "informational",
    "The {program} keeps working after responses to no request.",
    _survived,
    "the {program} exits",
    "unasked-response",
)


# --- messages ---------------------------------------------------------------------------------------------------------


def _no_response(subject: Subject) -> Verdict:
    return no_message() if subject.side == "server" else skipped(f"the {subject.name} received no request")


VERSION: Final = Rule(
    "mandatory",
    "Every message of the {program} declares JSON-RPC 2.0.",
    lambda subject: every(subject.messages, version_problem, no_message),
    '{"id":1,"result":{}}',
)
RESULT_OR_ERROR: Final = Rule(
    "mandatory",
    "A response of the {program} has either a result or an error.",
    lambda subject: every(subject.messages, form_problem, no_message),
    '{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32603,"message":"Internal error"}}',
    quote="Either the result member or error member MUST be included, but both members MUST NOT be included.",
)
ERROR_SHAPE: Final = Rule(
    "mandatory",
    "An error of the {program} has an integer code and a message.",
    lambda subject: every(
        partial(responses, side=subject.side), error_problem(subject.definition), partial(_no_response, subject)
    ),
    '{"jsonrpc":"2.0","id":1,"error":"not found"}',
)
ANSWERS_ONCE: Final = Rule(
    "mandatory",
    "The {program} answers only requests, and answers each request once.",
    lambda subject: partial(responses_match, side=subject.side),
    "two responses with the id 3",
    quote="It MUST be the same as the value of the id member in the Request Object.",
)
NOTIFICATIONS: Final = Rule(
    "mandatory",
    "The {program} answers no notification.",
    lambda subject: partial(notifications_unanswered, side=subject.side),
    '{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}',
    quote="The Server MUST NOT reply to a Notification, including those that are within a batch request.",
)
IDS: Final = Rule(
    "mandatory",
    "The {program}'s responses repeat ids exactly, whatever their type.",
    lambda subject: subject.if_probed(partial(ids_preserved, side=subject.side)),
    'the request with the id "7" answered with the id 7',
    "ids",
)
OWN_IDS: Final = Rule(
    "mandatory",
    "The {program}'s own requests have valid ids, and pending requests have different ids.",
    lambda subject: own_ids_are_valid(subject.definition("RequestId"), subject.side),
    "a request that reuses the id of a pending request",
)
UNKNOWN_METHOD: Final = Rule(
    "mandatory",
    "The {program} answers an unknown method.",
    lambda subject: subject.answered("unknown"),
    "silence",
    "unknown-methods",
    quote=REPLY_QUOTE,
)
UNKNOWN_METHOD_CODE: Final = Rule(
    "advisory",
    "The answer to an unknown method is the error -32601.",
    lambda subject: subject.method_not_found("unknown"),
    '"code":-32603',
    "unknown-methods",
)
UNKNOWN_NOTIFICATIONS: Final = Rule(
    "advisory",
    "The {program} ignores unknown notifications.",
    _survived,
    "the {program} exits",
    "unknown-notifications",
)
EVERY_REQUEST: Final = Rule(
    "mandatory",
    "The {program} answers every request.",
    lambda subject: all_answered(*subject.may_refuse, side=subject.side),
    "silence",
    quote=REPLY_QUOTE,
)
