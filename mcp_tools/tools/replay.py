"""`replay`: statements run again; there only where the command line allowed Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp_tools.replies import Reply
from mcp_tools.tools.row import ToolRow, described, schema

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from mcp_tools.bench import Bench

_TOKENS: Final = 2000


async def call(bench: Bench, arguments: Mapping[str, Any]) -> Reply:
    """Carries out a call; see the row."""
    async with bench.turn:
        report = await bench.session.replay(arguments["from"], arguments.get("to"), arguments.get("mode", "recorded"))
    return Reply(text=await bench.fitted(bench.replayed(report), _TOKENS), is_error=report.outcome != "completed")


ROW: Final = ToolRow(
    name="replay",
    title="Run again",
    description=(
        "Runs statements of `timeline` again with the recorded answers to what they ask for, and says what comes out"
        " differently. Variables and files stay as they are."
    ),
    schema=schema(
        {
            "from": described("number of the first", {"type": "integer", "minimum": 1}),
            "to": described("of the last; else the newest", {"type": "integer", "minimum": 1}),
            "mode": described("dry ends at the first effect", {"type": "string", "enum": ["recorded", "dry"]}),
        },
        "from",
    ),
    call=call,
    takes_long=lambda _: True,
)
