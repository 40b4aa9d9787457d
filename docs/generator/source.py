"""Reads docstrings, fields, signatures and assignments from source files.

Reads syntax trees, so defaults and types keep their spelling, and the pages are the same on every version of Python.
Must not know what is documented. Used by the pages of this package.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

Function = ast.FunctionDef | ast.AsyncFunctionDef
UNDOCUMENTED = "*undocumented*"
"""Marks a missing docstring on a page; a test finds it."""
_SECTIONS = ("Args:", "Returns:", "Raises:")
_WIDTH = 90
"""Characters of arguments on one line. Longer constructor arguments get a line each."""
_CLAUSE = re.compile(r"(?<=[.;])\s+")
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


def methods(node: ast.ClassDef) -> Iterator[Function]:
    """The public methods and properties, in file order, without property setters."""
    for statement in node.body:
        if not isinstance(statement, Function) or statement.name.startswith("_"):
            continue
        if not any(isinstance(decorator, ast.Attribute) for decorator in statement.decorator_list):
            yield statement


def is_property(node: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def signature(node: Function, name: str | None = None) -> str:
    """`name(arguments) -> type`, without `self` and `cls`; after `async` for coroutines."""
    arguments = ", ".join(_arguments(node.args))
    if name is not None and len(arguments) > _WIDTH:
        arguments = "".join(f"\n    {argument}," for argument in _arguments(node.args)) + "\n"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and name is None else ""
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{prefix}{name or node.name}({arguments}){returns}"


def _arguments(args: ast.arguments) -> Iterator[str]:
    positional = [*args.posonlyargs, *args.args]
    defaults: Sequence[ast.expr | None] = [*[None] * (len(positional) - len(args.defaults)), *args.defaults]
    for arg, default in zip(positional, defaults, strict=True):
        if arg.arg not in ("self", "cls"):
            yield _argument(arg, default)
    if args.kwonlyargs:
        yield "*"
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _argument(arg, default)


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    text = arg.arg if arg.annotation is None else f"{arg.arg}: {ast.unparse(arg.annotation)}"
    return text if default is None else f"{text} = {ast.unparse(default)}"


def first_paragraph(doc: str) -> str:
    """The docstring up to its first blank line, on one line."""
    return " ".join(doc.partition("\n\n")[0].split())


def prose(doc: str) -> str:
    """All paragraphs of the docstring except its sections, each on one line; UNDOCUMENTED without a docstring."""
    paragraphs = (" ".join(each.split()) for each in doc.split("\n\n") if each.partition("\n")[0] not in _SECTIONS)
    return "\n\n".join(paragraphs) or UNDOCUMENTED


def sections(doc: str) -> Iterator[tuple[str, str]]:
    """Title and items of Args, Returns and Raises, in that order, each item on one line."""
    for paragraph in doc.split("\n\n"):
        title, _, body = paragraph.partition("\n")
        if title in _SECTIONS:
            yield title.rstrip(":"), inspect.cleandoc(body).replace("\n    ", " ")


def meaning(doc: str, name: str) -> str:
    """The docstring's clauses that name the field, without the name at the start."""
    clauses = [clause for clause in _CLAUSE.split(" ".join(doc.split())) if f"`{name}`" in clause]
    return "; ".join(clause.removeprefix(f"`{name}` ").rstrip(".;") for clause in clauses)
