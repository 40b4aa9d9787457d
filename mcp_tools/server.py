"""The product's `Server`, on the SDK's public low-level interface: for both eras, and run by any transport.

Tests register the fixtures of the official conformance suite on what `make_server` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mcp.server.extension import compose_tool_call_handler
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp_types import CallToolRequestParams, SetLevelRequestParams

from engine import __version__
from mcp_tools.guard import Redaction, guard
from mcp_tools.logs import Logs
from mcp_tools.pages import one_page
from mcp_tools.requests import Requests
from mcp_tools.tasks import Tasks

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Redactor

INSTRUCTIONS: Final = """\
Views are windows on files that stay open under a name, each within a token budget. Open what you work on with `view`,
put several files under one budget with `group`, and call `tick` after files may have changed: it tells what changed in
those that follow their file, as diffs, which is cheaper than viewing again. `lod` chooses how much detail is shown:
0 text, 1 symbols, 2 summary, 3 diff. The first line of a reply says what is shown and what it costs."""
_RUNNING: Final = " `run` runs Python where each view is a variable; `rewind` goes back, with the files."


class _Server(Server[Any]):
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Says to clients of the handshake era that lists change, on each transport."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(resources_changed=True), experimental_capabilities, extensions
        )


def make_server(
    requests: Requests, logs: Logs, tasks: Tasks, redactor: Callable[[], Redactor], *, runs: bool = False
) -> Server[Any]:
    """The server, which any transport can run. `redactor` takes secrets out of what it sends."""
    server = _Server(
        "rewindow",
        version=__version__,
        title="Rewindow",
        instructions=INSTRUCTIONS + (_RUNNING if runs else ""),
        get_tool_input_schema=requests.schema_of,
        on_list_tools=requests.list_tools,
        on_list_resources=requests.list_resources,
        on_list_resource_templates=requests.list_templates,
        on_read_resource=requests.read_resource,
        on_subscribe_resource=requests.subscribe,
        on_unsubscribe_resource=requests.unsubscribe,
        on_subscriptions_listen=requests.listen,
        on_list_prompts=requests.list_prompts,
        on_get_prompt=requests.get_prompt,
        on_completion=requests.complete,
    )
    # Not by an argument of the constructor, which warns that it is deprecated in the newer era.
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, logs.set_level)
    server.add_request_handler(
        "tools/call", CallToolRequestParams, compose_tool_call_handler([tasks], requests.call_tool)
    )
    for method in tasks.methods():
        server.add_request_handler(method.method, method.params_type, method.handler)
    server.extensions[tasks.identifier] = tasks.settings()
    server.middleware += [Redaction(redactor), guard, requests.note_answer, one_page]
    return server
