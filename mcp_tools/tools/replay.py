"""`replay`: statements run again; there only where the command line allowed Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp_tools.errors import CallError
from mcp_tools.replies import Reply
from mcp_tools.tools.row import Report, ToolRow, described, schema

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import ReplayReport
    from mcp_tools.bench import Bench

_TOKENS: Final = 2000


async def call(bench: Bench, arguments: Mapping[str, Any], report: Report) -> Reply:
    """Carries out a call; see the row."""
    if "code" in arguments and arguments.get("mode", "recorded") != "recorded":
        raise CallError("With `code` the mode is recorded; leave `mode` out.")

    async def act() -> ReplayReport:
        first, last = arguments["from"], arguments.get("to")
        if "code" in arguments:
            return await bench.session.edit(first, arguments["code"], last)
        return await bench.session.replay(first, last, arguments.get("mode", "recorded"))

    async with bench.turn:
        came = await bench.reported(act, report)
    return Reply(text=await bench.fitted(bench.replayed(came), _TOKENS), is_error=came.outcome != "completed")


ROW: Final = ToolRow(
    name="replay",
    title="Run again",
    description=(
        "Runs statements of `timeline` again with recorded answers and says what differs. Variables and files stay."
    ),
    schema=schema(
        {
            "from": described("number of the first", {"type": "integer", "minimum": 1}),
            "to": described("of the last", {"type": "integer", "minimum": 1}),
            "code": described("in place of `from`, on a branch", {"type": "string"}),
            "mode": described("dry ends at the first effect", {"type": "string", "enum": ["recorded", "dry"]}),
        },
        "from",
    ),
    call=call,
    takes_long=lambda _: True,
)
