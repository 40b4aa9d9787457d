"""Resources, prompts, completions and logging: their results, and errors for unknown items."""

from __future__ import annotations

from typing import Final

from conformance.driver import Driver, StoppedError
from conformance.judging import PASS, Requirement, Verdict, answered, failed, skipped
from conformance.suite import Scenario
from conformance.suites.jsonrpc import INVALID_PARAMS, error_code_is
from conformance.suites.jsonrpc_rules import REPLY_QUOTE
from conformance.suites.mcp_stdio.client import (
    HANDSHAKE,
    Client,
    answers_to,
    in_both,
    notifications_fit_schema,
    open_as,
    prose,
    results_fit_schema,
    schema,
    when,
)
from conformance.traffic import Traffic
from conformance.values import Object, as_list, as_object, as_text, at

_MISSING: Final = -32002
_MOST_COMPLETIONS: Final = 100


def _at_most(traffic: Traffic) -> Verdict:
    answers = answers_to(traffic, "completion/complete")
    for answer in answers:
        count = len(as_list(at(answer.result, "completion.values")))
        if count > _MOST_COMPLETIONS:
            return failed(f"{count} completions were given", answer.index)
    return PASS if answers else skipped("nothing was completed")


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-RES-001",
        "capability",
        "Results of resources/read have the schema's shape.",
        schema("/$defs/ReadResourceResult/required", '["contents"]'),
        results_fit_schema("resources/read"),
        applies="resources",
        violation='{"contents":[{"text":"..."}]}',
    ),
    Requirement(
        "MCP-S-RES-002",
        "capability",
        "A request for a listed resource is answered.",
        prose("json-rpc", REPLY_QUOTE),
        when("read", answered("read")),
        applies="resources",
        violation="silence",
    ),
    Requirement(
        "MCP-S-RES-003",
        "advisory",
        "A request for an unknown resource is answered with -32002, or with -32602 as in the later version.",
        prose("server/resources", "Resource not found: `-32002`"),
        when("unknown-resource", error_code_is("unknown-resource", _MISSING, INVALID_PARAMS, instead_of_result=True)),
        applies="resources",
        violation='{"contents":[]}',
    ),
    Requirement(
        "MCP-S-PROMPT-001",
        "capability",
        "Results of prompts/get have the schema's shape.",
        schema("/$defs/GetPromptResult/required", '["messages"]'),
        results_fit_schema("prompts/get"),
        applies="prompts",
        violation='{"messages":[{"role":"system","content":"..."}]}',
    ),
    Requirement(
        "MCP-S-PROMPT-002",
        "capability",
        "A request for a listed prompt is answered.",
        prose("json-rpc", REPLY_QUOTE),
        when("get", answered("get")),
        applies="prompts",
        violation="silence",
    ),
    Requirement(
        "MCP-S-PROMPT-003",
        "advisory",
        "A request for an unknown prompt is answered with -32602.",
        prose("server/prompts", "Invalid prompt name: `-32602` (Invalid params)"),
        when("unknown-prompt", error_code_is("unknown-prompt", INVALID_PARAMS, instead_of_result=True)),
        applies="prompts",
        violation='"code":-32603',
    ),
    Requirement(
        "MCP-S-PROMPT-004",
        "advisory",
        "A request for a prompt without a required argument is answered with -32602.",
        prose("server/prompts", "Missing required arguments: `-32602` (Invalid params)"),
        when(
            "missing-prompt-argument", error_code_is("missing-prompt-argument", INVALID_PARAMS, instead_of_result=True)
        ),
        applies="prompts",
        violation="a prompt with `undefined` in it",
    ),
    Requirement(
        "MCP-S-COMPLETE-001",
        "capability",
        "Results of completion/complete have the schema's shape.",
        schema("/$defs/CompleteResult/required", '["completion"]'),
        results_fit_schema("completion/complete"),
        applies="completions",
        violation='{"values":["a"]}',
    ),
    Requirement(
        "MCP-S-COMPLETE-002",
        "capability",
        "A result has at most 100 completions.",
        schema("/$defs/CompleteResult/properties/completion/properties/values", "Must not exceed 100 items."),
        _at_most,
        applies=f"{HANDSHAKE} completions",
        violation="101 values",
    ),
    Requirement(
        "MCP-S-COMPLETE-003",
        "advisory",
        "Completions of an unknown prompt are answered with -32602.",
        prose("server/utilities/completion", "Invalid prompt name: `-32602` (Invalid params)"),
        when("complete-unknown", error_code_is("complete-unknown", INVALID_PARAMS, instead_of_result=True)),
        applies="completions",
        violation='{"completion":{"values":[]}}',
    ),
    Requirement(
        "MCP-S-LOG-001",
        "advisory",
        "A server with logging accepts a level.",
        schema("/$defs/SetLevelRequest", '"const": "logging/setLevel"'),
        when("level", answered("level", expect="result")),
        scenario="levels",
        applies=f"{HANDSHAKE} logging",
        violation='{"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "MCP-S-LOG-002",
        "advisory",
        "An unknown level is answered with -32602.",
        prose("server/utilities/logging", "Invalid log level: `-32602` (Invalid params)"),
        when("wrong-level", error_code_is("wrong-level", INVALID_PARAMS, instead_of_result=True)),
        scenario="levels",
        applies=f"{HANDSHAKE} logging",
        violation="{}",
    ),
    Requirement(
        "MCP-S-LOG-003",
        "mandatory",
        "Log messages have the schema's shape.",
        schema("/$defs/LoggingMessageNotificationParams/required", '["data", "level"]'),
        notifications_fit_schema({"notifications/message": "LoggingMessageNotificationParams"}),
        violation='{"level":"warn","message":"..."}',
    ),
    Requirement(
        "MCP-S-EMPTY-001",
        "mandatory",
        "Pings, levels and subscriptions are answered with an object.",
        schema("/$defs/JSONRPCResultResponse/properties/result", '"$ref": "#/$defs/Result"'),
        results_fit_schema("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"),
        violation='{"jsonrpc":"2.0","id":1,"result":null}',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


UNKNOWN_URI: Final = "rewindow-conformance://no/such/resource"
UNKNOWN_NAME: Final = "rewindow-conformance-no-such-name"
_MOST: Final = 3
"""Items of a list to read."""


def _run_resources(client: Client) -> None:
    client.need("resources")
    for resource in client.listed("resources/list")[:_MOST]:
        client.asked("resources/read", label="read", uri=resource.get("uri"))
    client.asked("resources/read", label="unknown-resource", uri=UNKNOWN_URI)
    client.alive()


def _arguments(prompt: Object) -> list[Object]:
    return [as_object(argument) for argument in as_list(prompt.get("arguments"))]


def _required(prompt: Object) -> list[str]:
    return [as_text(one.get("name")) for one in _arguments(prompt) if one.get("required") is True]


def _run_prompts(client: Client) -> None:
    client.need("prompts")
    prompts = client.listed("prompts/list")
    for prompt in prompts[:_MOST]:
        arguments = dict.fromkeys(_required(prompt), "a")
        client.asked("prompts/get", label="get", name=prompt.get("name"), arguments=arguments)
    for prompt in [prompt for prompt in prompts if _required(prompt)][:1]:
        client.asked("prompts/get", label="missing-prompt-argument", name=prompt.get("name"), arguments={})
    client.asked("prompts/get", label="unknown-prompt", name=UNKNOWN_NAME)
    client.alive()


def _run_completions(client: Client) -> None:
    client.need("completions")
    for reference, name in _references(client)[:_MOST]:
        argument = {"name": name, "value": ""}
        client.asked("completion/complete", label="complete", ref=reference, argument=argument)
    unknown = {"type": "ref/prompt", "name": UNKNOWN_NAME}
    client.asked("completion/complete", label="complete-unknown", ref=unknown, argument={"name": "a", "value": ""})
    client.alive()


def _references(client: Client) -> list[tuple[Object, str]]:
    """Return what can be completed: prompt arguments, and the first variable of each template."""
    found: list[tuple[Object, str]] = []
    for prompt in client.listed("prompts/list") if client.offers("prompts") else ():
        reference = {"type": "ref/prompt", "name": prompt.get("name")}
        found += [(reference, as_text(argument.get("name"))) for argument in _arguments(prompt)]
    for template in client.listed("resources/templates/list") if client.offers("resources") else ():
        uri = as_text(template.get("uriTemplate"))
        variable = uri.partition("{")[2].partition("}")[0].strip("+#./;?&*")
        if variable:
            found.append(({"type": "ref/resource", "uri": uri}, variable.partition(",")[0]))
    if not found:
        raise StoppedError("neither a prompt nor a template has arguments")
    return found


def _run_levels(driver: Driver) -> None:
    client = open_as(driver, HANDSHAKE)
    client.need("logging")
    for level in ("debug", "emergency"):
        client.asked("logging/setLevel", label="level", level=level)
    client.asked("logging/setLevel", label="wrong-level", level="rewindow-conformance")
    client.alive()


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("resources", "Reads listed resources, and an unknown resource.", _run_resources),
    *in_both("prompts", "Gets listed prompts, a prompt without its argument, and an unknown prompt.", _run_prompts),
    *in_both("completions", "Requests completions of prompts and templates.", _run_completions),
    Scenario("levels", "Sets log levels, including an unknown level.", _run_levels),
)
