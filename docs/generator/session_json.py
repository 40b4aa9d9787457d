"""The page of a session's JSON, `docs/session-json.md`: its parts as declarations of TypeScript, with their meaning."""

from __future__ import annotations

import types
from collections.abc import Iterator
from inspect import cleandoc
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from engine.log.events.session import PlanEntry
from engine.session.session_json import shapes
from engine.session.session_json.fold import LEFT_OUT
from engine.session.session_json.texts import INLINE

_HEAD: Final = f"""\
# A session as JSON

*Generated from `engine/session/session_json/shapes.py` by `make docs`. A test fails when it is out of date.*

`rewindow show SESSION --json` prints a session as one JSON object. The object has the statements on all branches with
their runs, the files with their histories, and the conversation. It also has the texts and the costs of model calls.
Rewindow computes it from the session's [events](events.md), and runs nothing. It contains no known secret.

```
$ rewindow show ses_0193f2a1 --json | jq '.statements[] | .source.text'
$ rewindow show ses_0193f2a1 --json | jq '.files[] | {{name, changes: [.changes[].statement]}}'
```

These rules apply to the whole object:
- Each table is a list of entries with a unique `key`, oldest first. `requests` are grouped by branch. Entries refer to
  other entries by their keys.
- A missing field has its default: `""`, `0`, `false`, an empty list or object, or nothing.
- A long text is stored once, in `contents`. An entry has its first {INLINE:,} characters, and the digest of the whole.
  Contents of files, prompts and pictures are in `contents` too.
- Events of these kinds have no entry, because only replays and rebuilds need them: LEFT_OUT_KINDS.
- The value of `schema` is `{shapes.SCHEMA}`. Later versions may add fields, tables and values, under the same name.
"""
_DOCUMENT: Final = """\
## The document

```ts
interface SessionDocument {
  schema: "%s";
  session: SessionHead;
%s
  contents: { [digest: string]: Content };
}
```
"""
_SCALARS: Final[dict[object, str]] = {
    str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown",
}  # fmt: skip


def page() -> str:
    """The whole page."""
    left_out = ", ".join(f"`{kind}`" for kind in sorted(kind.kind for kind in LEFT_OUT))
    tables = "\n".join(f"  {name}: {shape.__name__}[];" for name, shape in shapes.TABLES.items())
    blocks = [_HEAD.replace("LEFT_OUT_KINDS", left_out), _DOCUMENT % (shapes.SCHEMA, tables)]
    return "\n".join([*blocks, *_shapes()])


def declarations() -> str:
    """All declarations as one TypeScript module, for the front end."""
    tables = "\n".join(f"  {name}: {shape.__name__}[];" for name, shape in shapes.TABLES.items())
    document = (_DOCUMENT % (shapes.SCHEMA, tables)).split("```ts\n")[1].split("```")[0]
    return "\n".join(f"export {text}" for text in [document, *(_interface(shape) for shape in _all())])


def _all() -> Iterator[type[msgspec.Struct]]:
    for found in vars(shapes).values():
        if isinstance(found, type) and issubclass(found, msgspec.Struct) and found.__module__ == shapes.__name__:
            yield found
    yield PlanEntry


def _shapes() -> Iterator[str]:
    for shape in _all():
        meaning = cleandoc(shape.__doc__ or "").replace("\n\n- ", "\n- ")
        yield f"## {shape.__name__}\n\n{meaning}\n\n```ts\n{_interface(shape)}```\n"


def _interface(shape: type[msgspec.Struct]) -> str:
    fields = (
        f"  {each.name}{'' if each.required else '?'}: {_type(each.type, optional=not each.required)};"
        for each in msgspec.structs.fields(shape)
    )
    return "\n".join([f"interface {shape.__name__} {{", *fields, "}\n"])


def _type(kind: Any, *, optional: bool = False) -> str:
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return " | ".join(f'"{word}"' for word in arguments)
    if origin in (Union, types.UnionType):
        parts = [each for each in arguments if not (optional and each is type(None))]
        return " | ".join(dict.fromkeys(_type(each) for each in parts))
    if origin is tuple:
        inner = _type(arguments[0])
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if origin is dict:
        return f"{{ [key: string]: {_type(arguments[1])} }}"
    return kind.__name__
