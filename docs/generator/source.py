"""Reads docstrings, fields and assignments from source files.

Reads syntax trees, so defaults and types keep their spelling, and the pages are the same on every version of Python.
Must not know what is documented. Used by the pages of this package.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType

Function = ast.FunctionDef | ast.AsyncFunctionDef
UNDOCUMENTED = "*undocumented*"
"""Marks a missing docstring on a page; a test finds it."""
_SECTIONS = ("Args:", "Returns:", "Raises:")
_STATEMENT = re.compile(r"(?<=\.)\s+|;\s+(?=`)")
"""Between sentences, and between the parts of one that each begin with a field's name."""
_FACTORY = re.compile(r"field\(default_factory=(.+)\)")


@dataclass(frozen=True, slots=True)
class Field:
    """One annotated name in the body of a class; `default` is None if it is required."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Definition:
    """A module-level class, function or assignment, with its docstring ("" for none) and source."""

    node: ast.stmt
    doc: str
    text: str


@cache
def definitions(module: ModuleType) -> dict[str, Definition]:
    """The module's definitions by name, in file order."""
    source = inspect.getsource(module)
    body = ast.parse(source).body
    found: dict[str, Definition] = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        name = _name(node)
        if name is not None:
            doc = ast.get_docstring(node) if isinstance(node, Function | ast.ClassDef) else _literal(following)
            found[name] = Definition(node, doc or "", ast.get_source_segment(source, node) or "")
    return found


def _name(node: ast.stmt) -> str | None:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return None


def _literal(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""


def fields(node: ast.ClassDef) -> Iterator[Field]:
    """The fields of a Struct or dataclass, without private names and class variables."""
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                if not name.startswith("_") and not ast.unparse(annotation).startswith("ClassVar"):
                    yield Field(name, ast.unparse(annotation), None if value is None else _default(value))
            case _:
                pass


def _default(value: ast.expr) -> str:
    text = ast.unparse(value)
    factory = _FACTORY.fullmatch(text)
    if factory is None:
        return text
    made = factory[1].partition("[")[0]
    return {"dict": "{}", "list": "[]"}.get(made, f"{made}()")


def prose(doc: str) -> str:
    """All paragraphs of the docstring except its sections, each on one line; UNDOCUMENTED without a docstring."""
    paragraphs = (" ".join(each.split()) for each in doc.split("\n\n") if each.partition("\n")[0] not in _SECTIONS)
    return "\n\n".join(paragraphs) or UNDOCUMENTED


def meaning(doc: str, name: str) -> str:
    """The docstring's sentences that name the field, without the name at the start of the first."""
    found = [each.rstrip(".") for each in _STATEMENT.split(" ".join(doc.split())) if f"`{name}`" in each]
    return re.sub(rf"\A`{name}`(:| is| are|(?! (?:and|or|then|was|were)\b|,)) ", "", ". ".join(found))
