"""Places of a module where one change makes a mutant, and the changed text.

A change replaces a piece of the source, so that the rest of the file stays as it is, with its comments and lines.
Reads sources alone: knows no rooms, no tests and no files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

_SWAPS: Final = {
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
    ast.And: (r"\band\b", "or"),
    ast.Or: (r"\bor\b", "and"),
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: (r"//", "*"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: (r"&", "|"),
    ast.LShift: (r"<<", ">>"),
    ast.RShift: (r">>", "<<"),
}
"""An operator, how it is written (a regular expression), and what replaces it."""

_OPPOSITE: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Operators whose replacement negates the comparison."""

_REPORTERS: Final = {"_logger", "_log", "logger", "logging", "warnings"}
"""Calls of their methods only report."""

_NOT_EXCHANGED: Final = {"cast", "isinstance", "max", "min", *_REPORTERS}
"""Exchanging their arguments shows nothing about the program."""

_BUILTIN_TYPES: Final = {"str", "int", "bytes", "bool", "float", "dict", "list", "tuple", "set", "frozenset"}

RARE: Final = ("fsync", "finally", "await")
"""Kinds that each sample has, if the room has them."""


class Place(NamedTuple):
    """One change of one module."""

    kind: str
    """`operator`, `condition`, `statement`, `arguments`, or one of `RARE`."""
    function: str
    """The dotted name of the class and function around it; empty at the top of the module."""
    first_line: int
    last_line: int
    start: int
    """Offset of the first replaced byte."""
    end: int
    before: str
    after: str

    @property
    def change(self) -> str:
        """The change in one line. It names the place even after the lines around it have moved."""
        return f"{' '.join(self.before.split())} => {' '.join(self.after.split())}"


def mutate(source: bytes, place: Place) -> bytes | None:
    """Return the changed source; None if it is not Python."""
    text = source[: place.start] + place.after.encode() + source[place.end :]
    try:
        ast.parse(text)
    except SyntaxError:
        return None
    return text


def places(source: bytes) -> list[Place]:
    """Return all places of a module, in the order of its lines."""
    found = _Source(source).places(ast.parse(source), ())
    return sorted(found, key=lambda place: (place.start, place.end, place.kind, place.after))


class _Change(NamedTuple):
    """What is replaced, from the first node to the last, and by what."""

    kind: str
    first: ast.AST
    last: ast.AST
    after: str


class _Source:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._lines = [0, *(match.end() for match in re.finditer(rb"\n", source))]

    def places(self, node: ast.AST, around: tuple[str, ...]) -> Iterator[Place]:
        """Yield the places in a node."""
        changes = self._of_statement(node) if isinstance(node, ast.stmt) else self._of_expression(node)
        for kind, first, last, after in changes:
            start, end = self._start(first), self._end(last)
            before = self._source[start:end].decode()
            yield Place(kind, ".".join(around), first.lineno, last.end_lineno, start, end, before, after)
        for child in _children(node):
            yield from self.places(child, (*around, node.name) if isinstance(node, _Definition) else around)

    def _of_statement(self, node: ast.stmt) -> Iterator[_Change]:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))) if name in _REPORTERS:
                pass
            case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))) if name.endswith("sync"):
                yield _Change("fsync", node, node, "pass")
            case ast.Expr(value=ast.Constant()) | ast.Return(value=None):
                pass
            case (
                ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_])
                | ast.Return()
                | ast.Expr()
                | ast.AugAssign()
                | ast.Delete(targets=[ast.Attribute() | ast.Subscript(), *_])
                | ast.Raise()
                | ast.Continue()
                | ast.Break()
            ):
                yield _Change("statement", node, node, "pass")
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.If() | ast.While():
                yield from self._negated(node.test)
            case ast.Try(finalbody=[first, *_]) | ast.TryStar(finalbody=[first, *_]):
                yield _Change("finally", first, node.finalbody[-1], "pass")
            case _:
                pass

    def _of_expression(self, node: ast.AST) -> Iterator[_Change]:
        match node:
            case ast.comprehension():
                for test in node.ifs:
                    yield from self._negated(test)
            case ast.IfExp():
                yield from self._negated(node.test)
            case ast.UnaryOp(op=ast.Not()):
                yield _Change("condition", node, node, f"({self._text(node.operand)})")
            case ast.Await():
                yield _Change("await", node, node, self._text(node.value))
            case ast.Call():
                yield from self._of_call(node)
            case _:
                for operator, left, right in _operations(node):
                    yield from self._swapped(operator, left, right)

    def _of_call(self, node: ast.Call) -> Iterator[_Change]:
        match node.func:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name)) if name in _NOT_EXCHANGED:
                return
            case _:
                named = [keyword.value for keyword in node.keywords if keyword.arg is not None]
                for left, right in (*pairwise(node.args), *pairwise(named)):
                    yield from self._exchanged(left, right)

    def _negated(self, test: ast.expr) -> Iterator[_Change]:
        """Yield the negation, if no change of an operator is the same."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                pass
            case ast.Compare(ops=[operator]) if isinstance(operator, _OPPOSITE):
                pass
            case _:
                yield _Change("condition", test, test, f"not ({self._text(test)})")

    def _swapped(self, operator: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[_Change]:
        if type(operator) not in _SWAPS:
            return
        written, other = _SWAPS[type(operator)]
        between = re.sub(written, other, self._between(left, right), count=1)
        yield _Change("operator", left, right, self._text(left) + between + self._text(right))

    def _exchanged(self, left: ast.expr, right: ast.expr) -> Iterator[_Change]:
        """Exchange two neighbours among the arguments, or among the values of named ones, unless they are the same."""
        first, second = self._text(left), self._text(right)
        if first != second and not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
            yield _Change("arguments", left, right, second + self._between(left, right) + first)

    def _text(self, node: ast.AST) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _between(self, left: ast.AST, right: ast.AST) -> str:
        return self._source[self._end(left) : self._start(right)].decode()

    def _start(self, node: ast.AST) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.AST) -> int:
        return self._lines[node.end_lineno - 1] + node.end_col_offset


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node without types, decorators and bases."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None)
            yield from node.body
        case ast.ClassDef():
            yield from node.body
        case ast.AnnAssign():
            yield from () if node.value is None else (node.value,)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            pass
        case _:
            yield from ast.iter_child_nodes(node)


def _operations(node: ast.AST) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    match node:
        case ast.Compare():
            yield from (
                (op, *pair) for op, pair in zip(node.ops, pairwise([node.left, *node.comparators]), strict=True)
            )
        case ast.BoolOp():
            yield from ((node.op, *pair) for pair in pairwise(node.values))
        case ast.BinOp() if not _is_type(node.left) and not _is_type(node.right):
            yield node.op, node.left, node.right
        case _:
            pass


def _is_type(node: ast.expr) -> bool:
    """Whether an operand is a type, so that the operation is a union."""
    name = getattr(node, "attr", getattr(node, "id", ""))
    is_class = name.lstrip("_")[:1].isupper() and not name.isupper()
    return is_class or name in _BUILTIN_TYPES or (isinstance(node, ast.Constant) and node.value is None)
