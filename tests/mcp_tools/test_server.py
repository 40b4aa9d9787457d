"""The server: the engine is loaded after the first response, and malformed lines are answered."""

from __future__ import annotations

import subprocess
import sys

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from mcp_tools.server import NOT_A_MESSAGE, NOT_JSON, relay_messages

SECONDS = 30


LOADED = {
    "",
    "core",
    "core.clock",
    "core.errors",
    "core.ids",
    "core.import_path",
    "core.installation",
    "core.levels",
    "core.settings",
    "core.text",
    "core.web_access",
    "runtime",
    "runtime.hardening",
    "runtime.system",
    "runtime.system.addresses",
    "runtime.system.passing",
    "runtime.system.process_table",
    "runtime.system.processes",
    "runtime.system.brands",
    "runtime.system.kernel",
    "runtime.system.own_process",
    "runtime.zygote",
}
"""The engine modules of a server that can respond. Every client would wait for more."""


SOURCE = """
import sys
import mcp_tools.cli
from engine import Zygote, load_settings
from engine.runtime.hardening import harden_process
from mcp_tools.server import Service, serve_stdio
print(*[name for name in sys.modules if name.partition(".")[0] in ("engine", "acp_adapter", "conformance")])
"""


@pytest.mark.slow
def test_engine_is_not_loaded_before_first_response() -> None:
    done = subprocess.run([sys.executable, "-c", SOURCE], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert {name.removeprefix("engine").removeprefix(".") for name in done.stdout.split()} == LOADED


@pytest.mark.anyio
async def test_lines_that_are_not_messages_are_answered() -> None:
    from_client, read = anyio.create_memory_object_stream[SessionMessage | Exception](9)
    write, to_client = anyio.create_memory_object_stream[SessionMessage](9)
    passed_on, messages = anyio.create_memory_object_stream[SessionMessage](9)
    for line in ("{", " \n", "5", '{"jsonrpc":"2.0","id":1,"method":"ping"}'):
        try:
            from_client.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_json(line)))
        except ValidationError as error:
            from_client.send_nowait(error)
    from_client.close()
    with anyio.fail_after(SECONDS):
        async with read, to_client, messages:
            async with write:
                await relay_messages(read, write, passed_on)
            answers = [answer.message async for answer in to_client]
            relayed = [one.message async for one in messages]
    errors = (ErrorData(code=PARSE_ERROR, message=NOT_JSON), ErrorData(code=INVALID_REQUEST, message=NOT_A_MESSAGE))
    assert answers == [JSONRPCError(jsonrpc="2.0", id=None, error=error) for error in errors]
    assert relayed == [JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")]
