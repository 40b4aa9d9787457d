"""`rewind`: back to where a statement had ended; there only where the command line allowed Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from engine import cut_line
from mcp_tools.replies import BRANCH, STATEMENT, Reply
from mcp_tools.tools.row import Report, ToolRow, described, schema

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from mcp_tools.bench import Bench

_LINE_CHARS: Final = 1000
_NOTHING: Final = "no file that statements wrote is otherwise"


async def call(bench: Bench, arguments: Mapping[str, Any], report: Report) -> Reply:
    """Carries out a call; see the row."""
    statement, takes_files = arguments["to"], arguments.get("files", True)
    async with bench.turn:
        rewound = await bench.reported(lambda: bench.session.rewind(statement, files=takes_files), report)
        branch = next(row.name for row in bench.session.branches if row.is_active)
    lines = [f"after statement {statement}  branch {branch}"]
    if rewound is not None:
        lines += bench.rewound(rewound)
    elif takes_files:
        lines.append(_NOTHING)
    facts = {STATEMENT: statement, BRANCH: branch}
    return Reply(text="\n".join(cut_line(line, _LINE_CHARS) for line in lines), meta=facts)


ROW: Final = ToolRow(
    name="rewind",
    title="Go back",
    description=(
        "Goes back to where a statement of `timeline` had ended: variables, views, groups, and files written since,"
        " but for those that others changed. What came after stays on its branch."
    ),
    schema=schema(
        {
            "to": described("its number; 0 is the beginning", {"type": "integer", "minimum": 0}),
            "files": described("false leaves files as they are", {"type": "boolean"}),
        },
        "to",
    ),
    call=call,
    takes_long=lambda _: True,
    facts=(STATEMENT, BRANCH),
    destructive=True,
)
