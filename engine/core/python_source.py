"""Python source that is not run here: its syntax tree, the tags that it sets, and whether it only calls tools.

`# tag: NAME` on a line of its own sets a tag of a statement. Such a line inside a string is no comment. Statements that
only call tools (`edit("a.py", "x", "y")`, `tests = bash("make test")`) are shown as their calls; Python's own
functions for removing and renaming files count, as the operations behind them. A name in a source may be bound to
something else when it runs, so an adapter waits for the calls themselves. Pure.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterable
from typing import Final

from .toolbox import TOOLS

_TRIES: Final = 5


def parsed(source: str) -> ast.Module | None:
    """Return the tree; None if the source is not Python, or too deep or too long for the parser.

    Before Python 3.12, threads that parse at the same moment disturb each other's count of levels, which is a
    SystemError (python/cpython#106905). So it is tried again.
    """
    for _ in range(_TRIES):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the source, which Python gives again when it runs
                return ast.parse(source)
        except SystemError:
            continue
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return None


TAG_CHARS: Final = 40
"""The length of a tag."""
TAG_RULE: Final = f"a tag must have 1 to {TAG_CHARS} visible characters, and no space at either end"
MOST_TAGS: Final = 16
"""Tags of one statement; further ones are dropped."""
_SOURCE_CHARS: Final = 1 << 18
"""A longer source sets no tags, because the host waits while it looks for them."""
_COMMENT: Final = re.compile(r"^[ \t]*#[ \t]*tag:(.*)$", re.MULTILINE)
_LEADING: Final = re.compile(r"(?:\s*#[ \t]*tag:[^\n]*\n)++\s*(?=\S)")


def is_tag(name: str) -> bool:
    """Return whether the text may be a tag: at most 40 visible characters, without spaces at its ends."""
    return 0 < len(name) <= TAG_CHARS and name.isprintable() and name == name.strip()


def tags_in(source: str) -> tuple[str, ...]:
    """Return the tags that comment lines of the source set, in order and once each."""
    if len(source) > _SOURCE_CHARS or _COMMENT.search(source) is None:  # as nearly all, which need no tokens
        return ()
    return distinct(name for name in _names(source) if is_tag(name))


def without_leading_tags(source: str) -> str:
    """Return the source from its first line that is not blank and sets no tag; all of it if there is none."""
    return source[match.end() :] if (match := _LEADING.match(source)) is not None else source


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names once each, at most `MOST_TAGS`."""
    return tuple(dict.fromkeys(names))[:MOST_TAGS]


def _names(source: str) -> Iterable[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
                found = _COMMENT.match(token.string)
                if found is not None:
                    yield found[1].strip(" \t\r")
    except (tokenize.TokenError, SyntaxError):
        return  # of a source that is no Python, the comments before the error count


_LONGEST: Final = 100_000
"""Characters of a source that is looked at; a file may be written with one call."""
_FUNCTIONS: Final = {
    "os.remove": "remove",
    "os.unlink": "remove",
    "os.rename": "rename",
    "os.replace": "rename",
    "os.rmdir": "rmdir",
    "os.mkdir": "mkdir",
    "shutil.rmtree": "rmtree",
    "shutil.move": "rename",
}
"""Functions of Python's, and the operation behind each."""
_COMPUTE: Final = (
    ast.Call,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
    ast.NamedExpr,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""Parts of arguments that do something of their own."""


def only_calls(source: str) -> tuple[str, ...]:
    """Return the names of the tools that a statement calls, in order, if it does nothing else; empty if it does.

    Each value may be assigned to a name or printed, or be an attribute of what the call returns. Imports count as part
    of the calls.
    """
    if len(source) > _LONGEST:
        return ()
    tree = parsed(source)
    if tree is None:
        return ()
    tools = [_called(each) for each in tree.body if not isinstance(each, ast.Import)]
    return () if None in tools else tuple(filter(None, tools))


def _called(statement: ast.stmt) -> str | None:
    call = _printed(_value(statement))
    while isinstance(call, ast.Attribute):
        call = call.value
    if not isinstance(call, ast.Call):
        return None
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return None if any(isinstance(part, _COMPUTE) for each in given for part in ast.walk(each)) else _tool(call.func)


def _tool(function: ast.expr) -> str | None:
    match function:
        case ast.Name(id=name) if name in TOOLS:
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return _FUNCTIONS.get(f"{module}.{name}")
        case _:
            return None


def _value(statement: ast.stmt) -> ast.expr | None:
    match statement:
        case ast.Expr(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            return value
        case _:
            return None


def _printed(value: ast.expr | None) -> ast.expr | None:
    match value:
        case ast.Call(func=ast.Name(id="print"), args=[printed], keywords=[]):
            return printed
        case _:
            return value
