"""What the suites send is what the schema allows, but for the scenarios that are about messages which are not."""

from __future__ import annotations

import pytest

from conformance.requirements.acp1 import definition, shaped
from conformance.traffic import Message, Traffic
from tests.conformance.suite_runs import suite, transcript_of

MALFORMED = {
    "acp": {
        "new-without-cwd",
        "client-methods",
        "wrong-params",
        "initialize-malformed",
        "prompt-malformed",
        "requests-malformed",
        "answers-malformed",
        "malformed-lines",
        "not-utf8",
        "unknown-methods",
    },
    "acp-client": {
        "unknown-values",
        "unknown-updates",
        "initialize-malformed",
        "session-malformed",
        "updates-malformed",
        "requests-malformed",
        "malformed-lines",
        "blank-lines",
        "not-utf8",
        "unknown-notifications",
        "unknown-methods",
    },
}
"""The scenarios whose subject is what the schema does not allow."""
SCENARIOS = [(of, scenario.name) for of in MALFORMED for scenario in suite(of).every_scenario()]


def problems(of: str, name: str) -> list[str]:
    """What the schema does not allow of the messages that the suite sends in a scenario."""
    sent = list(Traffic(transcript_of(name, of=of)).sent("client" if of == "acp" else "server"))
    found = [(shape, definition(shape)(value)) for shape, value in map(shaped, sent) if shape]
    return [*filter(None, map(envelope, sent)), *(f"{shape}: {problem}" for shape, problem in found if problem)]


def envelope(message: Message) -> str:
    """What is wrong with a message by JSON-RPC and the protocol's methods, whatever it holds."""
    if form := message_problem(message):
        return f"{form}: {message.line[:200]!r}"
    is_known = not message.method or message.method.startswith("_") or shaped(message)[0] is not None
    return "" if is_known else f"no method of the protocol: {message.method}"


def message_problem(message: Message) -> str:
    if not message.object:
        return "no object"
    if message.object.get("jsonrpc") != "2.0" or not (message.method or message.is_response):
        return "no message"
    given = message.object.get("id")
    return "" if given is None or type(given) in (str, int, float) else "no id"


@pytest.mark.parametrize(("of", "name"), [each for each in SCENARIOS if each[1] not in MALFORMED[each[0]]])
def test_what_is_sent_is_what_the_schema_allows(of: str, name: str) -> None:
    assert problems(of, name) == []


@pytest.mark.parametrize(("of", "name"), [(of, name) for of, names in MALFORMED.items() for name in sorted(names)])
def test_a_scenario_about_malformed_messages_sends_one(of: str, name: str) -> None:
    assert problems(of, name) != []
