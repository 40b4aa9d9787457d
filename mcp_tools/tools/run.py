"""`run`: a statement of the client's own; there only where the command line allowed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp_tools.replies import STATEMENT, STATUS, Reply
from mcp_tools.tools.row import TOKENS, Report, ToolRow, described, schema

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from mcp_tools.bench import Bench

_SECONDS: Final = 30
_MOST_SECONDS: Final = 600
_CODE_CHARS: Final = 1 << 20
_TOKENS: Final = 2000


async def call(bench: Bench, arguments: Mapping[str, Any], _report: Report) -> Reply:
    """Carries out a call; see the row."""
    async with bench.turn:
        ran = await bench.run(arguments["code"], arguments.get("seconds", _SECONDS))
    said = await bench.fitted(bench.given_by(ran.finished), arguments.get("tokens", _TOKENS))
    status = ran.finished.status
    first = f"statement {ran.number}  {status}  {ran.finished.time_ms:.0f} ms"
    facts = {STATEMENT: ran.number, STATUS: status}
    return Reply(text=f"{first}\n{said}".rstrip("\n"), is_error=status != "ok", meta=facts)


ROW: Final = ToolRow(
    name="run",
    title="Run Python",
    description=(
        "Runs Python in the session's namespace, where every view and group is a variable: output, value, traceback."
        " Has ls, read, grep, find, write, edit and bash; a sandbox may limit writing. What exceeds"
        " `tokens` is in `timeline`."
    ),
    schema=schema(
        {
            "code": described(
                "statements; the last expression's value is shown",
                {"type": "string", "minLength": 1, "maxLength": _CODE_CHARS},
            ),
            "seconds": described("limit, 30 if left out", {"type": "number", "minimum": 0.1, "maximum": _MOST_SECONDS}),
            "tokens": described("budget, 2000 if left out", TOKENS),
        },
        "code",
    ),
    call=call,
    takes_long=lambda _: True,
    facts=(
        STATEMENT,
        STATUS,
    ),
    destructive=True,
)
