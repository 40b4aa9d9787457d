"""What both drivers of the Python SDK share. Imports no SDK, because each driver runs in the environment of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio import to_thread

METHODS: Mapping[str, Callable[[Any, dict[str, Any]], Awaitable[Any]]] = {
    "ping": lambda client, _: client.send_ping(),
    "tools/list": lambda client, _: client.list_tools(),
    "tools/call": lambda client, params: client.call_tool(params["name"], params["arguments"]),
    "resources/list": lambda client, _: client.list_resources(),
    "resources/templates/list": lambda client, _: client.list_resource_templates(),
    "resources/read": lambda client, params: client.read_resource(params["uri"]),
    "prompts/list": lambda client, _: client.list_prompts(),
    "prompts/get": lambda client, params: client.get_prompt(params["name"], params["arguments"]),
    "completion/complete": lambda client, params: client.complete(params["ref"], params["argument"]),
    "subscribe": lambda client, params: client.subscribe_resource(params["uri"]),
}
"""The calls that both SDKs have under the same names, by the method of the protocol."""


def write(**line: Any) -> None:
    """One line, with every value of the SDK as it is on the wire."""
    print(json.dumps(line, default=_on_the_wire), flush=True)


def _on_the_wire(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def requests() -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The requests of standard input, until it ends."""
    while line := await to_thread.run_sync(sys.stdin.readline):
        request = json.loads(line)
        yield request["method"], request["params"]


async def serve(client: Any, failure: type[Exception], methods: Mapping[str, Any]) -> None:
    """Makes each request, in order; `failure` is what the SDK raises for an answer that is an error."""
    async for method, params in requests():
        try:
            write(result=await methods[method](client, params))
        except failure as error:
            write(error=error.error)  # pyright: ignore


def run(main: Callable[..., Awaitable[None]]) -> None:
    """Runs a driver with what its argument says: the server, and the era."""
    given = json.loads(sys.argv[1])
    anyio.run(main, given["server"], given["era"])
