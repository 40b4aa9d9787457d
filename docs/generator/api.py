"""The page of the public API, `docs/api.md`: the names of `engine.__all__`, the event kinds and the errors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import engine
import engine.core.errors
import engine.log.events

from .source import (
    Definition,
    Function,
    definitions,
    fields,
    first_paragraph,
    is_property,
    methods,
    prose,
    sections,
    signature,
)

ROOMS = {
    "session": "Begin here: make a `Host` from the settings and enter it. `Host.sessions` makes, loads, lists and"
    " deletes sessions. A `Session` takes prompts and statements. A `Subscription` gives every event once it is"
    " durable, and between events the pieces of what is streamed.",
    "runtime": "The process that runs statements, and the Protocol of an environment.",
    "context": "The models, and texts as a model reads them.",
    "files": "Files as views see them.",
    "log": "Branches, statements, cycles, the store, and redaction.",
    "core": "Values, settings, the table of tools, and text.",
}
"""The rooms of the engine in the order of the page, with what their public names are for."""

_HEAD = """\
# The engine's public API

*Generated from the docstrings by `make docs`; a test fails when it is out of date.*

```python
import os

import anyio

from engine import Host, load_settings


async def main() -> None:
    async with Host(load_settings(os.environ)) as host:
        session = await host.sessions.create(os.getcwd())
        finished = await session.cell("[name for name in ls('.') if name.endswith('.toml')]")
        print(finished.status, finished.value)


anyio.run(main)
```

```
ok ['pyproject.toml']
```

An adapter, an embedding program or a test may import these names: those of `engine`, the event kinds in
`engine.log.events` ([events](events.md)) and the errors in `engine.core.errors`. `acp_adapter` imports nothing else of
the engine. Everything behind these names may change without notice.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    owners = _owners()
    for room, about in ROOMS.items():
        names = [name for name in engine.__all__ if owners[name].partition(".")[0] == room]
        if names:
            parts.append(f"## engine.{room}\n\n{about}\n")
            parts += [part for name in names for part in _entry(name, owners[name])]
    parts += _own_names(engine.log.events, "engine.log.events", "The kinds are on [their own page](events.md).")
    parts += _errors()
    return "\n".join(parts)


def _owners() -> dict[str, str]:
    """The module of each public name, from the imports for type checkers in `engine/__init__.py`."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(_source(engine))):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is not None:
            found |= {alias.asname: node.module for alias in node.names if alias.asname is not None}
    return found


def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        return file.read()


def _entry(name: str, owner: str) -> Iterator[str]:
    module = import_module(f"engine.{owner}")
    found = definitions(module).get(name)
    while found is None:  # a package that re-exports a name of one of its modules
        module = import_module(getattr(module, name).__module__)
        found = definitions(module).get(name)
    path = module.__name__.replace(".", "/")
    path += "/__init__.py" if hasattr(module, "__path__") else ".py"
    yield f"### {name}\n\n```python\n{_head(name, found)}\n```\n\n`{path}`. {prose(found.doc)}\n"
    yield from _sections(found.doc)
    if isinstance(found.node, ast.ClassDef):
        yield from _members(found.node)


def _head(name: str, found: Definition) -> str:
    match found.node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return signature(found.node)
        case ast.ClassDef():
            return _class_head(found.node)
        case ast.AnnAssign(annotation=ast.Subscript(value=ast.Name(id="Final"), slice=kind)):
            return f"{name}: {ast.unparse(kind)}"
        case ast.AnnAssign():
            return name
        case _:
            return found.text


def _class_head(node: ast.ClassDef) -> str:
    own = list(fields(node))
    if own:
        lines = [f"    {field.name}: {field.type}" + (f" = {field.default}" if field.default else "") for field in own]
        return "\n".join([f"class {node.name}:", *lines])
    made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if made is not None:
        return f"class {signature(made, node.name)}".replace("()", "")
    bases = ", ".join(map(ast.unparse, node.bases))
    return f"class {node.name}({bases})" if bases else f"class {node.name}"


def _sections(doc: str) -> Iterator[str]:
    for title, body in sections(doc):
        yield f"{title}:\n\n" + "\n".join(f"- {_item(line)}" for line in body.splitlines()) + "\n"


def _item(line: str) -> str:
    name, colon, text = line.partition(": ")
    return f"`{name}`: {text}" if colon and " " not in name else line


def _members(node: ast.ClassDef) -> Iterator[str]:
    found = list(methods(node))
    if found:
        yield "Members:\n"
    for each in found:
        yield f"- {_member(each)}"
    if found:
        yield ""


def _member(node: Function) -> str:
    doc = ast.get_docstring(node) or ""
    head = f"{node.name}: {ast.unparse(node.returns)}" if is_property(node) and node.returns else signature(node)
    parts = [f"`{head}`", first_paragraph(doc)]
    for title, body in sections(doc):
        items = "; ".join(line.rstrip(".") for line in body.splitlines())
        parts.append(f"*{title}*: {items}.")
    return "<br>".join(part for part in parts if part)


def _own_names(module: ModuleType, title: str, about: str) -> Iterator[str]:
    yield f"## `{title}`\n\n{about}\n"
    for name in module.__all__:
        owner = definitions(module).get(name)
        if owner is not None:
            yield f"- `{name}`: {prose(owner.doc)}"
        else:
            value = getattr(module, name)
            yield f"- `{name}`: " + (first_paragraph(value.__doc__ or "") if isinstance(value, type) else _union(value))
    yield ""


def _union(value: object) -> str:
    members = getattr(value, "__args__", ())
    return ", ".join(f"`{member.__name__}`" for member in members) if members else f"`{value!r}`"


def _errors() -> Iterator[str]:
    about = first_paragraph(engine.core.errors.__doc__ or "")
    yield f"## `engine.core.errors`\n\n{about} Each message says what to do.\n"
    for name, found in definitions(engine.core.errors).items():
        if isinstance(found.node, ast.ClassDef):
            base = ", ".join(map(ast.unparse, found.node.bases))
            yield f"- `{name}({base})`: {prose(found.doc)}"
    yield ""
