"""An MCP server's tools and resources for Python: identifiers, signatures, and the arguments of calls.

The data is untrusted: invalid tools are left out, and texts and lists are limited. Pure. Takes MCP's plain data, so it
does not import the SDK. Used by `mcp_client` and `servers`.
"""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, field

from ...core.mcp_servers import address_of
from ...core.text import cut_end, cut_line, plural, valid_text
from ...core.toolbox import attribute, numbered
from ...runtime.results import ResourceHelp, ServerHelp, ToolHelp
from .mcp_prompts import Prompt, prompts_of

MOST_TOOLS: Final = 1_000
MOST_RESOURCES: Final = 1_000
LONGEST_NAME: Final = 128
"""Characters of a tool's name; the limit in MCP."""
_TEXT_CHARS: Final = 4_000
"""Characters of each description, and of a server's instructions."""
_DEFAULT_CHARS: Final = 40
_MOST_PARAMETERS: Final = 100
_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}
_MOST_CHOICES: Final = 8


class Parameter(Struct, frozen=True):
    """An argument: its name in Python and in the schema, and its text in a signature."""

    name: str
    key: str
    shown: str
    required: bool


class Tool(Struct, frozen=True):
    """A tool: its name in Python and at the server. `open_ended`: it accepts arguments outside of its schema."""

    name: str
    key: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    open_ended: bool = False

    @property
    def signature(self) -> str:
        shown = [parameter.shown for parameter in self.parameters]
        return ", ".join([*shown, "**more"] if self.open_ended else shown)


class Listing(Struct, frozen=True, kw_only=True):
    """What a server offers: tools by their names in Python, resources by URIs with short descriptions, and prompts."""

    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    resources: dict[str, str] = field(default_factory=dict[str, str])
    prompts: dict[str, Prompt] = field(default_factory=dict[str, Prompt])
    instructions: str = ""
    notes: tuple[str, ...] = ()


def listing(
    tools: Sequence[Mapping[str, Any]],
    resources: Sequence[Mapping[str, Any]] = (),
    instructions: str | None = None,
    notes: Sequence[str] = (),
    *,
    prompts: Sequence[Mapping[str, Any]] = (),
) -> Listing:
    """The listing of a server's tools, resources and prompts, given as MCP's JSON."""
    found: dict[str, Tool] = {}
    left_out = 0
    for tool in tools:
        key = tool.get("name")
        if not isinstance(key, str) or not 0 < len(key) <= LONGEST_NAME or len(found) == MOST_TOOLS:
            left_out += 1
            continue
        name = _name(key, found)
        found[name] = _tool(name, key, tool)
    said = [f"{left_out} more {plural(left_out, 'tool')} cannot be called from here."] if left_out else []
    return Listing(
        tools=found,
        resources={uri: _about(each) for each in resources[:MOST_RESOURCES] if (uri := _uri(each.get("uri")))},
        prompts=prompts_of(prompts),
        instructions=_long(instructions),
        notes=(*notes, *said),
    )


def _tool(name: str, key: str, tool: Mapping[str, Any]) -> Tool:
    schema = _object(tool.get("inputSchema"))
    properties = _object(schema.get("properties"))
    required = [each for each in _list(schema.get("required")) if isinstance(each, str) and each in properties]
    keys = [*required, *(each for each in properties if each not in required)]
    parameters: dict[str, Parameter] = {}
    for each in keys[:_MOST_PARAMETERS]:
        python = _name(each, parameters)
        shown = _shown(python, _object(properties[each]), is_required := each in required)
        parameters[python] = Parameter(python, each, shown, is_required)
    more = schema.get("additionalProperties", not properties)
    return Tool(
        name=name,
        key=key,
        description=_long(tool.get("description") or tool.get("title")),
        parameters=tuple(parameters.values()),
        open_ended=bool(more) or more == {} or len(keys) > _MOST_PARAMETERS,
    )


def _name(key: str, taken: Mapping[str, object]) -> str:
    """The key as a Python identifier."""
    base = attribute(key)
    if keyword.iskeyword(base):
        base = f"{base}_"
    if not base.isidentifier() or base.startswith("__"):
        base = f"_{base.lstrip('_')}"
    return numbered(base, taken)


def _shown(name: str, schema: Mapping[str, Any], required: bool) -> str:
    kind = _kind(schema)
    annotated = f"{name}: {kind}" if kind else name
    if required:
        return annotated
    default = cut_line(valid_text(repr(schema["default"])), _DEFAULT_CHARS) if "default" in schema else "..."
    return f"{annotated} = {default}" if kind else f"{name}={default}"


def _kind(schema: Mapping[str, Any]) -> str:
    choices = _list(schema.get("enum"))
    if choices:
        shown = [cut_line(valid_text(repr(choice)), _DEFAULT_CHARS) for choice in choices[:_MOST_CHOICES]]
        return " | ".join([*shown, "..."] if len(choices) > _MOST_CHOICES else shown)
    kinds = schema.get("type")
    named = [kinds] if isinstance(kinds, str) else _list(kinds)
    named += [_object(each).get("type") for each in _list(schema.get("anyOf"))]
    found = dict.fromkeys(_TYPES[each] for each in named if isinstance(each, str) and each in _TYPES)
    return " | ".join(found)


# --- calls ------------------------------------------------------------------------------------------------------------


def tool_called(found: Listing, operation: str, name: str) -> Tool:
    """The tool of that name, in Python or at the server. Raises AttributeError, with similar names."""
    tool = found.tools.get(name) or next((tool for tool in found.tools.values() if tool.key == name), None)
    if tool is None:
        raise AttributeError(f"{operation}: the server has no such tool{_alike(name, found.tools)}")
    return tool


def arguments_of(tool: Tool, operation: str, given: Mapping[str, object]) -> dict[str, object]:
    """The arguments by the keys of the schema. Raises TypeError for missing or unknown ones, or non-JSON values."""
    keys = {parameter.name: parameter.key for parameter in tool.parameters}
    own = set(keys.values())
    arguments: dict[str, object] = {}
    for name, value in given.items():
        key = name if name in own else keys.get(name)
        if key is None and not tool.open_ended:
            raise TypeError(f"{operation}() takes no argument {name!r}{_alike(name, keys)}")
        arguments[name if key is None else key] = _json(operation, name, value)
    missing = [each.name for each in tool.parameters if each.required and each.key not in arguments]
    if missing:
        named = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
        raise TypeError(f"{operation}() needs {plural(len(missing), 'the argument')} {named}: ({tool.signature})")
    return arguments


def shown_arguments(arguments: Mapping[str, object]) -> str:
    """The arguments as text for the question to the user."""
    return msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()


def _json(operation: str, name: str, value: object) -> object:
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, bytes):
            raise TypeError(f"{operation}(): {name} contains bytes; pass text, such as base64")
        if isinstance(each, dict):
            stack.extend(cast("dict[str, object]", each).values())
        elif isinstance(each, list | tuple):
            stack.extend(cast("list[object]", each))
    return value


def _alike(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [*names][:MOST_TOOLS], n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""


# --- what is shown ----------------------------------------------------------------------------------------------------


def help_on(found: Listing, server: str, module: str) -> ServerHelp:
    """The listing as `help` shows it."""
    return ServerHelp(
        server=server,
        module=module,
        notes=found.notes,
        instructions=found.instructions,
        tools=tuple(ToolHelp(tool.name, tool.signature, tool.description) for tool in found.tools.values()),
        resources=tuple(ResourceHelp(address_of(module, uri), about) for uri, about in found.resources.items()),
    )


def _about(resource: Mapping[str, Any]) -> str:
    return _text(resource.get("description")) or _text(resource.get("title")) or _text(resource.get("name"))


def _text(value: object) -> str:
    return cut_line(" ".join(valid_text(value).split()), 200) if isinstance(value, str) else ""


def _uri(value: object) -> str:
    is_one = isinstance(value, str) and len(value) <= _TEXT_CHARS and value.isprintable()
    return cast("str", value) if is_one else ""


def _long(value: object) -> str:
    return cut_end(valid_text(value), _TEXT_CHARS) if isinstance(value, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
