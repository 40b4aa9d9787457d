"""`view`: opens a budgeted window on a file, acts on one that is open, shows it again; lists all without arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from engine import cut_line, legible_line, plural
from mcp_tools import statements
from mcp_tools.arguments import ArgumentError
from mcp_tools.errors import CallError
from mcp_tools.replies import HANDLE, Reply, handle_reply, row_line
from mcp_tools.tools.row import LOD, NAME, PATH_CHARS, TOKENS, Report, ToolRow, described, schema

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Display
    from mcp_tools.bench import Bench

_LIST_TOKENS: Final = 2000
_TOKENS: Final = 2000
_PATH_CHARS: Final = 60
_SAID_CHARS: Final = 250
_SENTENCE: Final = re.compile(
    r"(no file |)(.+?)((?: cannot be read| takes longer to read| has [\d,]+ bytes)[^;]*|)", re.DOTALL
)
"""What a view says in place of content: around a path."""
_NOTHING_THERE: Final = frozenset(("missing", "unreadable", "too large"))


async def call(bench: Bench, arguments: Mapping[str, Any], _report: Report) -> Reply:
    """Carries out a call; see the row."""
    if not arguments:
        return await _list(bench)
    async with bench.turn:
        return await _act(bench, arguments)


async def _act(bench: Bench, arguments: Mapping[str, Any]) -> Reply:
    if arguments.get("close"):
        return await _close(bench, arguments)
    handles, path = bench.handles, arguments.get("path")
    if path is None:
        if "name" not in arguments:
            raise ArgumentError("view needs `path` to open a view, or the `name` of one that is open.")
        name = handles.known(arguments["name"], "view")
        chosen: dict[str, Any] = _chosen(arguments, "refresh", "pos", "scroll", "tokens", "lod", "follow")
        source = statements.showing(name, **chosen, called=bench.called)
    else:
        name = handles.to_bind(arguments["name"], "view") if "name" in arguments else handles.for_path(path)
        if "scroll" in arguments:
            raise ArgumentError("`scroll` moves a view that is open; say with `pos` where to open one.")
        chosen = {"tokens": _TOKENS, **_chosen(arguments, "pos", "tokens", "lod", "follow")}
        replaces = handles.kind(name) is not None
        source = statements.opening(name, path, **chosen, replaces=replaces, called=bench.called)
    display, number = await bench.shown(source)
    if "name" in arguments:
        bench.handles.note_asked(name, arguments["name"])
    if path is not None and display.state in _NOTHING_THERE:
        await bench.act(statements.closing(name))
        raise CallError(_why(display, path))
    return handle_reply(name, display, number, arguments.get("name", name))


def _why(display: Display, path: str) -> str:
    """What the view says in place of content, as a sentence without the advice for statements."""
    whole = display.text.strip().removeprefix("(").removesuffix(")")
    said, _, advice = whole.rpartition(";")
    said = said or advice
    found = _SENTENCE.fullmatch(said)
    if found is None or " " not in said:  # because a budget that holds no sentence leaves a word of it at most
        return f"{cut_line(legible_line(path), _PATH_CHARS)} is {display.state}."
    if len(said) > _SAID_CHARS:  # because nobody reads a long path, and the reason comes after it
        said = f"{found[1]}{cut_line(found[2], _PATH_CHARS)}{cut_line(found[3], _SAID_CHARS)}"
    return f"{said}."


def _chosen(arguments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    chosen = {name: arguments[name] for name in names if name in arguments}
    # The number of a line, which the statements take as text: an int is an offset in characters there.
    return {**chosen, "pos": str(chosen["pos"])} if "pos" in chosen else chosen


async def _list(bench: Bench) -> Reply:
    rows = (await bench.look()).rows
    if not rows:
        return Reply(text="No handles. `view` with a path opens one.")
    text = "\n".join([f"{len(rows)} {plural(len(rows), 'handle')}", *map(row_line, rows)])
    return Reply(text=await bench.fitted(text, _LIST_TOKENS))


async def _close(bench: Bench, arguments: Mapping[str, Any]) -> Reply:
    more = sorted(set(arguments) - {"name", "close"})
    if "name" not in arguments or more:
        raise ArgumentError(f"`close` takes the `name` of a view{f', not {more[0]}' if more else ''}.")
    return Reply(text=await bench.close(bench.handles.known(arguments["name"], "view")))


ROW: Final = ToolRow(
    name="view",
    title="View a file",
    description=(
        "A window on a file or directory within a token budget, kept open under a name. With `path` opens one,"
        " with `name` moves, resizes or shows one again; without arguments lists all."
    ),
    read_only=True,
    schema=schema(
        {
            "name": described("name for later calls, made of the path if left out", NAME),
            "path": described("file or directory to open", {"type": "string", "minLength": 1, "maxLength": PATH_CHARS}),
            "pos": described(
                'line, "line:col" or symbol ("class Foo", "Foo.bar")',
                {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "maxLength": 400}]},
            ),
            "scroll": described("lines to move by, negative is up", {"type": "integer"}),
            "tokens": described("budget, 2000 at first", TOKENS),
            "lod": described("level of detail: 0 text, 1 symbols, 2 summary, 3 diff since last shown", LOD),
            "follow": described("whether `tick` updates it", {"type": "boolean"}),
            "refresh": described("read the file again first", {"type": "boolean"}),
            "close": described("close it", {"type": "boolean"}),
        }
    ),
    call=call,
    facts=(HANDLE,),
)
