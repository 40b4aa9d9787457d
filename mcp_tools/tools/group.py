"""`group`: handles, paths and globs under one budget, as one summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mcp_tools import statements
from mcp_tools.arguments import ArgumentError
from mcp_tools.replies import HANDLE, Reply, handle_reply
from mcp_tools.tools.row import LOD, NAME, PATH_CHARS, TOKENS, Report, ToolRow, described, schema

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from mcp_tools.bench import Bench
    from mcp_tools.handles import Handles

_TOKENS: Final = 4000
_MOST_MEMBERS: Final = 64
_MEMBERS: Final = {
    "type": "array",
    "maxItems": _MOST_MEMBERS,
    "items": {"type": "string", "minLength": 1, "maxLength": PATH_CHARS},
}


async def call(bench: Bench, arguments: Mapping[str, Any], _report: Report) -> Reply:
    """Carries out a call; see the row."""
    async with bench.turn:
        return await _act(bench, arguments)


async def _act(bench: Bench, arguments: Mapping[str, Any]) -> Reply:
    handles, asked = bench.handles, arguments["name"]
    name = handles.meant(asked) or asked
    if arguments.get("close"):
        more = sorted(set(arguments) - {"name", "close"})
        if more:
            raise ArgumentError(f"`close` takes the `name` of a group, not {more[0]}.")
        return Reply(text=await bench.close(handles.known(name, "group")))
    policy: dict[str, Any] = {key: arguments[key] for key in ("tokens", "lod") if key in arguments}
    add, remove = _members(handles, arguments.get("add", ())), _members(handles, arguments.get("remove", ()))
    if handles.kind(name) == "group":
        if add or remove or policy:
            handles.check_same(asked, name)
        source = statements.regrouping(name, add=add, remove=remove, **policy, called=bench.called)
    else:
        if remove:
            handles.known(name, "group")
        policy = {"tokens": _TOKENS, **policy}
        name = handles.to_bind(name, "group")
        source = statements.grouping(name, add, **policy, called=bench.called)
    display, number = await bench.shown(source)
    bench.handles.note_asked(name, asked)
    return handle_reply(name, display, number, asked)


def _members(handles: Handles, texts: Sequence[str]) -> list[statements.Member]:
    """The handles of these names, and of what is no name of one, or looks like it, the path or glob."""
    return [(found, False) if (found := _handle(handles, text)) else (text, True) for text in texts]


def _handle(handles: Handles, text: str) -> str | None:
    looks_like_path = any(each in text for each in "/.*?[")
    return (text if handles.kind(text) else None) if looks_like_path else handles.meant(text)


ROW: Final = ToolRow(
    name="group",
    title="Group files and views",
    description=(
        "Views, groups, files and globs under one token budget, summarised together and kept up to date by `tick`."
        " Makes the group, changes it, or shows it again."
    ),
    read_only=True,
    schema=schema(
        {
            "name": described("the group's name", NAME),
            "add": described('names of views or groups, paths, globs ("src/**/*.py")', _MEMBERS),
            "remove": described("which to take out", _MEMBERS),
            "tokens": described("budget, 4000 at first", TOKENS),
            "lod": described("finest level of detail a member gets, 1 at first", LOD),
            "close": described("close it; what it held stays", {"type": "boolean"}),
        },
        "name",
    ),
    call=call,
    facts=(HANDLE,),
)
