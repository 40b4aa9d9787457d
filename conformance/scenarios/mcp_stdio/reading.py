"""Resources, prompts, completions and log levels: what is listed is read, and what is not listed is asked for."""

from __future__ import annotations

from typing import Final

from conformance.driver import Driver, StoppedError
from conformance.scenarios.mcp_stdio.both import in_both
from conformance.scenarios.mcp_stdio.client import HANDSHAKE, Client, open_as
from conformance.suite import Scenario
from conformance.values import Object, as_list, as_object, as_text

UNKNOWN_URI: Final = "rewindow-conformance://no/such/resource"
UNKNOWN_NAME: Final = "rewindow-conformance-no-such-name"
_MOST: Final = 3
"""Items of a list that are read."""


def _resources(client: Client) -> None:
    client.need("resources")
    for resource in client.listed("resources/list")[:_MOST]:
        client.asked("resources/read", label="read", uri=resource.get("uri"))
    client.asked("resources/read", label="unknown-resource", uri=UNKNOWN_URI)
    client.alive()


def _arguments(prompt: Object) -> list[Object]:
    return [as_object(argument) for argument in as_list(prompt.get("arguments"))]


def _required(prompt: Object) -> list[str]:
    return [as_text(one.get("name")) for one in _arguments(prompt) if one.get("required") is True]


def _prompts(client: Client) -> None:
    client.need("prompts")
    prompts = client.listed("prompts/list")
    for prompt in prompts[:_MOST]:
        arguments = dict.fromkeys(_required(prompt), "a")
        client.asked("prompts/get", label="get", name=prompt.get("name"), arguments=arguments)
    for prompt in [prompt for prompt in prompts if _required(prompt)][:1]:
        client.asked("prompts/get", label="missing-prompt-argument", name=prompt.get("name"), arguments={})
    client.asked("prompts/get", label="unknown-prompt", name=UNKNOWN_NAME)
    client.alive()


def _completions(client: Client) -> None:
    client.need("completions")
    for reference, name in _references(client)[:_MOST]:
        argument = {"name": name, "value": ""}
        client.asked("completion/complete", label="complete", ref=reference, argument=argument)
    unknown = {"type": "ref/prompt", "name": UNKNOWN_NAME}
    client.asked("completion/complete", label="complete-unknown", ref=unknown, argument={"name": "a", "value": ""})
    client.alive()


def _references(client: Client) -> list[tuple[Object, str]]:
    """What can be completed: arguments of prompts, and the first variable of each template."""
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


def _levels(driver: Driver) -> None:
    client = open_as(driver, HANDSHAKE)
    client.need("logging")
    for level in ("debug", "emergency"):
        client.asked("logging/setLevel", label="level", level=level)
    client.asked("logging/setLevel", label="wrong-level", level="rewindow-conformance")
    client.alive()


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("resources", "Reads listed resources, and one that does not exist.", _resources),
    *in_both("prompts", "Gets listed prompts, one without its argument, and one that does not exist.", _prompts),
    *in_both("completions", "Asks for completions of prompts and of templates.", _completions),
    Scenario("levels", "Sets levels of log messages, and one that does not exist.", _levels),
)
