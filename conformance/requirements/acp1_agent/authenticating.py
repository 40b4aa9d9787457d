"""Authentication: what logging in and out is answered with, and that sessions are there for whoever has logged in."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, evidence
from conformance.requirement import Requirement
from conformance.requirements.acp1 import prose, schema
from conformance.requirements.acp1_agent.reading import auth_methods
from conformance.traffic import Message, Traffic
from conformance.verdict import PASS, Verdict, failed, skipped

_REQUIRED: Final = -32000
_LOGOUT: Final = "auth.logout"


def _needs_authentication(requests: list[Message]) -> Verdict:
    for request in requests:
        if request.answer is not None and request.answer.error.get("code") == _REQUIRED:
            return failed(f"session/new was answered with {_REQUIRED}: authentication is required", *evidence(request))
    return PASS if requests else skipped("no session was asked for")


def _let_in(traffic: Traffic) -> Verdict:
    login = next((request for request in traffic.requests("client", "authenticate") if request.succeeded), None)
    if login is None or not auth_methods(traffic):
        return skipped("nobody logged in; --auth says by which method")
    logouts = traffic.requests("client", "logout")
    until = logouts[0].order if logouts else len(traffic.messages)
    return _needs_authentication(
        [request for request in traffic.requests("client", "session/new") if login.order < request.order < until]
    )


def _open_to_all(traffic: Traffic) -> Verdict:
    if auth_methods(traffic):
        return PASS
    return _needs_authentication(traffic.requests("client", "session/new"))


def _logged_out(traffic: Traffic) -> Verdict:
    if traffic.marks("logout-not-allowed"):
        return skipped("logging out may end sessions of the user's; --allow-logout permits it")
    return answered("logout", expect="result")(traffic)


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-AUTH-001",
        "advisory",
        "A client that has logged in opens sessions without being asked to log in.",
        prose(
            "authentication",
            "After successful authentication, the Client can create new sessions without receiving an "
            "`auth_required` error",
        ),
        _let_in,
        violation='session/new after authenticate: {"error":{"code":-32000,"message":"Authentication required"}}',
    ),
    Requirement(
        "ACP1-A-AUTH-002",
        "advisory",
        "An agent that advertises logout logs its client out.",
        prose("authentication", "Supplying `{}` means the Agent supports the method."),
        _logged_out,
        scenario="logout",
        applies=_LOGOUT,
        violation='{"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "ACP1-A-AUTH-003",
        "informational",
        "The agent requires authentication only where it advertises a method of it.",
        schema("/$defs/InitializeResponse/properties/authMethods", "Authentication methods supported by the agent."),
        _open_to_all,
        violation='"authMethods":[], and then {"error":{"code":-32000,"message":"Authentication required"}}',
    ),
)
