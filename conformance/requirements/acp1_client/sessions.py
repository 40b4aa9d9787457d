"""Sessions: directories, servers, what a new one may hold, and methods that the agent offers."""

from __future__ import annotations

from typing import Final

from conformance.judging import every
from conformance.judging_fields import takes_broken_fields
from conformance.requirement import Requirement
from conformance.requirements.acp1 import AGREED, is_absolute, params_are, prose, schema
from conformance.requirements.acp1_client.reading import (
    SIDE,
    bears_at_once,
    ends,
    is_offered,
    no_prompt,
    only_if_offered,
    reaches_prompt,
)
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_OPENING: Final = ("session/new", "session/load", "session/resume")


def _opened(traffic: Traffic) -> list[Message]:
    return traffic.requests(SIDE, *_OPENING)


def _unopened() -> Verdict:
    return not_tested("the client opened no session")


def _absolute_cwd(request: Message) -> str:
    cwd = as_text(request.params.get("cwd"))
    return "" if is_absolute(cwd) else f"the working directory {cwd!r} is not absolute"


def _servers(request: Message) -> list[Object]:
    return [as_object(server) for server in as_list(request.params.get("mcpServers"))]


def _offered_transports(traffic: Traffic) -> Verdict:
    remote = [(r, s) for r in _opened(traffic) for s in _servers(r) if s.get("type") in ("http", "sse")]
    for request, server in remote:
        if not is_offered(traffic, f"mcpCapabilities.{server['type']}"):
            return failed(f"a server over {server['type']}, which the agent does not advertise", request.index)
    return PASS if remote else skipped("the client names no MCP server over HTTP or SSE")


def _absolute_commands(traffic: Traffic) -> Verdict:
    local = [(r, s) for r in _opened(traffic) for s in _servers(r) if isinstance(s.get("command"), str)]
    for request, server in local:
        if not is_absolute(server["command"]):
            return failed(f"the MCP server {server['command']!r} is no absolute path", request.index)
    return PASS if local else skipped("the client names no MCP server on stdio")


def _directories(request: Message) -> list[object]:
    return as_list(request.params.get("additionalDirectories"))


def _offered_directories(traffic: Traffic) -> Verdict:
    naming = [request for request in _opened(traffic) if "additionalDirectories" in request.params]
    for request in naming:
        if not is_offered(traffic, "sessionCapabilities.additionalDirectories"):
            return failed("additionalDirectories, which the agent does not advertise", request.index)
    return PASS if _opened(traffic) else _unopened()


def _absolute_directories(traffic: Traffic) -> Verdict:
    naming = [(request, folder) for request in _opened(traffic) for folder in _directories(request)]
    for request, folder in naming:
        if not is_absolute(as_text(folder)):
            return failed(f"the additional directory {folder!r} is not absolute", request.index)
    return PASS if naming else skipped("the client names no additional directory")


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-NEW-001",
        "mandatory",
        "The client's session/new has the schema's shape.",
        schema("/$defs/NewSessionRequest/required", '["cwd", "mcpServers"]'),
        params_are("session/new", "NewSessionRequest", SIDE),
        violation='{"cwd":"/project"}',
    ),
    Requirement(
        "ACP1-C-NEW-002",
        "mandatory",
        "The working directory of a session is an absolute path.",
        prose("session-setup", "- **MUST** be an absolute path"),
        every(_opened, _absolute_cwd, _unopened),
        violation='"cwd":"."',
    ),
    Requirement(
        "ACP1-C-NEW-003",
        "mandatory",
        "The client names MCP servers over HTTP and SSE only where the agent advertises those.",
        prose(
            "session-setup",
            (
                "Before using HTTP or SSE transports, Clients **MUST** verify the Agent's capabilities during "
                "initialization:"
            ),
        ),
        _offered_transports,
        violation='{"type":"sse",...} to an agent without mcpCapabilities.sse',
    ),
    Requirement(
        "ACP1-C-NEW-004",
        "advisory",
        "The commands of MCP servers are absolute paths.",
        prose("session-setup", "The absolute path to the MCP server executable"),
        _absolute_commands,
        violation='"command":"npx"',
    ),
    Requirement(
        "ACP1-C-NEW-005",
        "mandatory",
        "The client names additional directories only where the agent advertises them.",
        prose(
            "session-setup",
            (
                "Clients **MUST** only send `additionalDirectories` when the Agent advertises "
                "`sessionCapabilities.additionalDirectories`."
            ),
        ),
        _offered_directories,
        violation='"additionalDirectories":["/lib"] to an agent without the capability',
    ),
    Requirement(
        "ACP1-C-NEW-006",
        "mandatory",
        "Additional directories are absolute paths.",
        prose("session-setup", "- each `additionalDirectories` entry **MUST** be an absolute path"),
        _absolute_directories,
        violation='"additionalDirectories":["../lib"]',
    ),
    Requirement(
        "ACP1-C-NEW-007",
        "mandatory",
        "The client takes null wherever the schema of the answer to session/new allows it.",
        AGREED,
        reaches_prompt,
        scenario="session-nulls",
        violation='a client that ends at "modes":null',
    ),
    Requirement(
        "ACP1-C-NEW-008",
        "advisory",
        "The client takes optional fields of wrong types for absent, as the schema marks them.",
        schema("/$defs/NewSessionResponse/properties/modes", '"x-deserialize-default-on-error": true'),
        takes_broken_fields(no_prompt, by="server"),
        scenario="session-malformed",
        violation='a client that ends at "modes":5',
    ),
    Requirement(
        "ACP1-C-NEW-009",
        "mandatory",
        "The client takes options of unknown categories.",
        prose("session-config-options", "Clients **MUST** handle missing or unknown categories gracefully."),
        reaches_prompt,
        scenario="session-categories",
        violation='a client that ends at "category":"_mine"',
    ),
    Requirement(
        "ACP1-C-NEW-010",
        "mandatory",
        "The client takes any `_meta` in the answer to session/new.",
        schema(
            "/$defs/NewSessionResponse/properties/_meta",
            "Implementations MUST NOT make assumptions about values at these keys.",
        ),
        reaches_prompt,
        scenario="session-meta",
        violation="a client that ends at an unknown key of _meta",
    ),
    Requirement(
        "ACP1-C-NEW-011",
        "advisory",
        "The client takes updates of a session before its first prompt.",
        prose("prompt-turn", "Session updates are not limited to active prompt turns."),
        bears_at_once,
        scenario="updates-before-prompt",
        violation="a client that ends at available_commands_update",
    ),
    Requirement(
        "ACP1-C-NEW-012",
        "informational",
        "A client that ends after a turn also ends where session/new was answered with an error.",
        prose("overview", "Errors include an `error` object with `code` and `message`"),
        ends,
        scenario="session-error",
        violation="a client that waits for ever",
    ),
    Requirement(
        "ACP1-C-LOAD-001",
        "mandatory",
        "The client loads sessions only where the agent advertises it.",
        prose(
            "session-setup",
            (
                "If `loadSession` is `false` or not present, the Agent does not support loading sessions and Clients "
                "**MUST NOT** attempt to call `session/load`."
            ),
        ),
        only_if_offered("session/load", "loadSession"),
        violation="session/load to an agent without loadSession",
    ),
    Requirement(
        "ACP1-C-RESUME-001",
        "mandatory",
        "The client resumes sessions only where the agent advertises it.",
        prose(
            "session-setup",
            (
                "If `sessionCapabilities.resume` is not present, the Agent does not support resuming sessions and "
                "Clients **MUST NOT** attempt to call `session/resume`."
            ),
        ),
        only_if_offered("session/resume", "sessionCapabilities.resume"),
        violation="session/resume to an agent without the capability",
    ),
    Requirement(
        "ACP1-C-CLOSE-001",
        "mandatory",
        "The client closes sessions only where the agent advertises it.",
        prose(
            "session-setup",
            (
                "If `sessionCapabilities.close` is not present, the Agent does not support closing sessions and "
                "Clients **MUST NOT** attempt to call `session/close`."
            ),
        ),
        only_if_offered("session/close", "sessionCapabilities.close"),
        violation="session/close to an agent without the capability",
    ),
)
