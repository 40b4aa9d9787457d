"""The tools `run`, `rewind` and `replay`, which exist only if the command line allows clients to run Python.

Called by `requests`. Never knows MCP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from engine.core.text import cut_line
from mcp_tools.replies import BRANCH, STATEMENT, STATUS, CallError, Reply
from mcp_tools.tools.schema import TOKENS, ProgressReporter, ToolRow, described, schema

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import ReplayReport
    from mcp_tools.client_session import ClientSession

_SECONDS: Final = 30
_MAX_SECONDS: Final = 600
_MAX_CODE_CHARS: Final = 1 << 20
_TOKENS: Final = 2000
_LINE_CHARS: Final = 1000
NO_FILES_RESTORED: Final = "no files needed restoring"


async def run(session: ClientSession, arguments: Mapping[str, Any], _report: ProgressReporter) -> Reply:
    """Run the client's own Python as one statement."""
    async with session.statement_lock:
        done = await session.run(arguments["code"], arguments.get("seconds", _SECONDS))
    text = await session.fit(session.result_text(done.finished), arguments.get("tokens", _TOKENS))
    status = done.finished.status
    first = f"statement {done.number}  {status}  {done.finished.time_ms:.0f} ms"
    meta = {STATEMENT: done.number, STATUS: status}
    return Reply(text=f"{first}\n{text}".rstrip("\n"), is_error=status != "ok", meta=meta)


async def rewind(session: ClientSession, arguments: Mapping[str, Any], report: ProgressReporter) -> Reply:
    """Go back to the end of a statement, with files unless the client keeps them."""
    statement, restores_files = arguments["to"], arguments.get("files", True)
    engine_session = session.engine_session
    async with session.statement_lock:
        rewound = await session.with_progress(
            lambda: engine_session.rewind(statement, files=restores_files, protected=False), report
        )
        branch = next(row.name for row in engine_session.branches if row.is_active)
    lines = [f"after statement {statement}  branch {branch}"]
    if rewound is not None:
        lines += session.rewound_lines(rewound)
    elif restores_files:
        lines.append(NO_FILES_RESTORED)
    meta = {STATEMENT: statement, BRANCH: branch}
    return Reply(text="\n".join(cut_line(line, _LINE_CHARS) for line in lines), meta=meta)


async def replay(session: ClientSession, arguments: Mapping[str, Any], report: ProgressReporter) -> Reply:
    """Run statements again and report the differences."""
    if "code" in arguments and arguments.get("mode", "recorded") != "recorded":
        raise CallError("`code` works only in mode `recorded`; leave out `mode`.")

    async def act() -> ReplayReport:
        first, last = arguments["from"], arguments.get("to")
        if "code" in arguments:
            return await session.engine_session.edit(first, arguments["code"], last)
        return await session.engine_session.replay(first, last, arguments.get("mode", "recorded"))

    async with session.statement_lock:
        outcome = await session.with_progress(act, report)
    text = await session.fit(outcome.text(), _TOKENS)
    return Reply(text=text, is_error=outcome.outcome != "completed")


RUN: Final = ToolRow(
    name="run",
    title="Run Python",
    description=(
        "Runs Python in the session's namespace, where every view and group is a variable. Returns "
        "output, value, traceback. Has ls, read, grep, find, write, edit and bash; a sandbox may "
        "limit writing. `timeline` has output beyond `tokens`."
    ),
    schema=schema(
        {
            "code": described(
                "statements; the last expression's value is shown",
                {"type": "string", "minLength": 1, "maxLength": _MAX_CODE_CHARS},
            ),
            "seconds": described("time limit, default 30", {"type": "number", "minimum": 0.1, "maximum": _MAX_SECONDS}),
            "tokens": described("budget, default 2000", TOKENS),
        },
        "code",
    ),
    call=run,
    takes_long=lambda _: True,
    meta_keys=(STATEMENT, STATUS),
    destructive=True,
)
REWIND: Final = ToolRow(
    name="rewind",
    title="Go back",
    description=(
        "Goes back to the end of a statement in `timeline`. Undoes later changes of variables, views, groups and files,"
        " except changes of others. Later statements stay on their branch."
    ),
    schema=schema(
        {
            "to": described("statement number; 0 is the start", {"type": "integer", "minimum": 0}),
            "files": described("false leaves files unchanged", {"type": "boolean"}),
        },
        "to",
    ),
    call=rewind,
    takes_long=lambda _: True,
    meta_keys=(STATEMENT, BRANCH),
    destructive=True,
)
REPLAY: Final = ToolRow(
    name="replay",
    title="Run again",
    description=(
        "Runs statements of `timeline` again with recorded answers, and reports the differences. Files stay unchanged."
        " Variables stay unchanged too, unless you give `code`."
    ),
    schema=schema(
        {
            "from": described("number of the first statement", {"type": "integer", "minimum": 1}),
            "to": described("number of the last", {"type": "integer", "minimum": 1}),
            "code": described("replaces statement `from`, on a new branch", {"type": "string"}),
            "mode": described("dry stops at the first effect", {"type": "string", "enum": ["recorded", "dry"]}),
        },
        "from",
    ),
    call=replay,
    takes_long=lambda _: True,
)
