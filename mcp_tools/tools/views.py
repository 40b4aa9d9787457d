"""The tools `view` and `group`: open, change, show, list and close handles.

Each call is one statement of names and literals. Called by `requests`. Never knows MCP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from engine.core.levels import LEVELS_LINE
from engine.core.text import cut_line, legible_line, plural
from mcp_tools import statements
from mcp_tools.replies import HANDLE, ArgumentError, CallError, Reply, handle_reply, row_line
from mcp_tools.tools.schema import LOD, MAX_PATH_CHARS, NAME, TOKENS, ProgressReporter, ToolRow, described, schema

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import Display
    from mcp_tools.client_session import ClientSession, HandleKind, Handles

NO_HANDLES: Final = "No handles are open. `view` with a path opens a view."
_LIST_TOKENS: Final = 2000
_VIEW_TOKENS: Final = 2000
_GROUP_TOKENS: Final = 4000
_MAX_MEMBERS: Final = 64
_PATH_CHARS: Final = 60
_REASON_CHARS: Final = 250
_MEMBERS: Final = {
    "type": "array",
    "maxItems": _MAX_MEMBERS,
    "items": {"type": "string", "minLength": 1, "maxLength": MAX_PATH_CHARS},
}


async def view(session: ClientSession, arguments: Mapping[str, Any], _report: ProgressReporter) -> Reply:
    """Open, change, show or close a view; without arguments list all handles."""
    if not arguments:
        return await _list_handles(session)
    async with session.statement_lock:
        if arguments.get("close"):
            return await _close(session, "view", arguments)
        return await _show_view(session, arguments)


async def _show_view(session: ClientSession, arguments: Mapping[str, Any]) -> Reply:
    handles, path = session.handles, arguments.get("path")
    if path is None:
        if "name" not in arguments:
            raise ArgumentError("view needs `path` to open a view, or the `name` of an open one.")
        name = handles.require(arguments["name"], "view")
        chosen: dict[str, Any] = _chosen(arguments, "refresh", "pos", "scroll", "tokens", "lod", "follow")
        source = statements.showing(name, **chosen, builtin=session.builtin_name)
    else:
        name = handles.bindable(arguments["name"], "view") if "name" in arguments else await session.name_for_path(path)
        if "scroll" in arguments:
            raise ArgumentError("`scroll` moves an open view; use `pos` to choose where a new one opens.")
        chosen = {"tokens": _VIEW_TOKENS, **_chosen(arguments, "pos", "tokens", "lod", "follow")}
        replaces = handles.kind(name) is not None
        source = statements.opening(name, path, **chosen, replaces=replaces, builtin=session.builtin_name)
    display, number = await session.run_and_show(source)
    if "name" in arguments:
        session.handles.remember_alias(name, arguments["name"])
    if path is not None and display.reason:
        await session.run_checked(statements.closing(name))
        raise CallError(_reason(display, path))
    return handle_reply(name, display, number, arguments.get("name", name))


def _reason(display: Display, path: str) -> str:
    """Why the view has no content. If the reason is long, its path is cut first, however it is written there."""
    reason = legible_line(display.reason)
    if len(reason) > _REASON_CHARS:
        for shown in map(legible_line, (display.title, path)):
            reason = reason.replace(shown, cut_line(shown, _PATH_CHARS))
    return f"{cut_line(reason, _PATH_CHARS + _REASON_CHARS)}."


def _chosen(arguments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    chosen = {name: arguments[name] for name in names if name in arguments}
    # Clients give a line number. Statements take it as text, because an int is a character offset there.
    return {**chosen, "pos": str(chosen["pos"])} if "pos" in chosen else chosen


async def _list_handles(session: ClientSession) -> Reply:
    rows = (await session.look()).rows
    if not rows:
        return Reply(text=NO_HANDLES)
    text = "\n".join([f"{len(rows)} {plural(len(rows), 'handle')}", *map(row_line, rows)])
    return Reply(text=await session.fit(text, _LIST_TOKENS))


async def group(session: ClientSession, arguments: Mapping[str, Any], _report: ProgressReporter) -> Reply:
    """Make, change, show or close a group."""
    async with session.statement_lock:
        if arguments.get("close"):
            return await _close(session, "group", arguments)
        return await _show_group(session, arguments)


async def _show_group(session: ClientSession, arguments: Mapping[str, Any]) -> Reply:
    handles, alias = session.handles, arguments["name"]
    name = handles.resolve(alias) or alias
    budget: dict[str, Any] = {key: arguments[key] for key in ("tokens", "lod") if key in arguments}
    add, remove = _members(handles, arguments.get("add", ())), _members(handles, arguments.get("remove", ()))
    if handles.kind(name) == "group":
        if add or remove or budget:
            handles.check_alias(alias, name)
        source = statements.regrouping(name, add=add, remove=remove, **budget, builtin=session.builtin_name)
    else:
        if remove:
            handles.require(name, "group")
        name = handles.bindable(name, "group")
        budget = {"tokens": _GROUP_TOKENS, **budget}
        source = statements.grouping(name, add, **budget, builtin=session.builtin_name)
    display, number = await session.run_and_show(source)
    session.handles.remember_alias(name, alias)
    return handle_reply(name, display, number, alias)


def _members(handles: Handles, texts: Sequence[str]) -> list[statements.Member]:
    """Resolve each text to a handle's name, or else take it as a path or glob."""
    return [(found, False) if (found := _member_handle(handles, text)) else (text, True) for text in texts]


def _member_handle(handles: Handles, text: str) -> str | None:
    looks_like_path = any(each in text for each in "/.*?[")
    return (text if handles.kind(text) else None) if looks_like_path else handles.resolve(text)


async def _close(session: ClientSession, kind: HandleKind, arguments: Mapping[str, Any]) -> Reply:
    """Close a handle and remove it from its groups, where its name would be unknown."""
    others = sorted(set(arguments) - {"name", "close"})
    if "name" not in arguments or others:
        raise ArgumentError(f"`close` takes the `name` of a {kind}{f', not {others[0]}' if others else ''}.")
    name = session.handles.require(arguments["name"], kind)
    rows = (await session.look()).rows
    closed = {row.obj_id for row in rows if row.name == name}
    groups = [row.name for row in rows if closed.intersection(row.children) and row.name != row.obj_id]
    done = await session.run_checked(statements.closing(name, groups))
    return Reply(text=f"{name} is closed  statement {done.number}")


VIEW: Final = ToolRow(
    name="view",
    title="View a file",
    description=(
        "A window on a file or directory within a token budget, kept open under a name. With `path`, "
        "opens a view. With `name`, moves, resizes or shows it. Without arguments, lists all."
    ),
    read_only=True,
    schema=schema(
        {
            "name": described("name for later calls; by default made from the path", NAME),
            "path": described(
                "file or directory to open", {"type": "string", "minLength": 1, "maxLength": MAX_PATH_CHARS}
            ),
            "pos": described(
                'line, "line:col" or symbol ("class Foo", "Foo.bar")',
                {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "maxLength": 400}]},
            ),
            "scroll": described("lines to move by; negative is up", {"type": "integer"}),
            "tokens": described("budget, initially 2000", TOKENS),
            "lod": described(f"level of detail: {LEVELS_LINE}", LOD),
            "follow": described("whether `tick` updates the view", {"type": "boolean"}),
            "refresh": described("read the file again first", {"type": "boolean"}),
            "close": described("close it", {"type": "boolean"}),
        }
    ),
    call=view,
    meta_keys=(HANDLE,),
)
GROUP: Final = ToolRow(
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
            "remove": described("members to remove", _MEMBERS),
            "tokens": described("budget, initially 4000", TOKENS),
            "lod": described("finest level of detail for members, initially 1", LOD),
            "close": described("close the group; its members stay open", {"type": "boolean"}),
        },
        "name",
    ),
    call=group,
    meta_keys=(HANDLE,),
)
