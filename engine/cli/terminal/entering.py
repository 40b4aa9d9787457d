"""When Enter ends what is typed, and with what its next line begins. Pure; called by the line editor.

Two kinds of session, two habits. Where what is typed runs as it is, Enter does what it does in a Python shell: a
complete statement ends, an open bracket or string goes on, a block goes on until an empty line. Where a language model
reads it, Enter always ends it. In both a backslash at the end of the line is taken away and the text goes on.
"""

from __future__ import annotations

import ast
import codeop
import re
import warnings
from typing import Final

_INDENT: Final = "    "
_LEADING: Final = re.compile(r"[ \t]*")
_COMMENT: Final = re.compile(r"#.*\Z")


def after_enter(text: str, is_python: bool) -> str | None:
    """The text with what Enter at its end adds to it; None where Enter ends it."""
    if text.endswith("\\") and not text.endswith("\\\\"):
        return text + "\n" if is_python else text[:-1] + "\n"
    if not is_python or text.startswith("/") or not text.strip():
        return None
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1].strip():
        return None if _is_complete(text) else text + "\n"
    if _is_complete(text) and not _ends_in_block(text):
        return None
    return text + "\n" + _indent_after(lines[-1])


def _is_complete(text: str) -> bool:
    """Whether more lines would not make it another statement; what is no Python at all is complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # because what is wrong with it is said when it runs
        try:
            return codeop.compile_command(text + "\n", symbol="exec") is not None
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return True


def _ends_in_block(text: str) -> bool:
    """Whether its last statement has a body below its first line, which may go on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    last = body[-1] if body else None
    return last is not None and bool(getattr(last, "body", None)) and last.end_lineno != last.lineno


def _indent_after(line: str) -> str:
    match = _LEADING.match(line)
    indent = match[0] if match else ""
    return indent + _INDENT if _COMMENT.sub("", line).rstrip().endswith(":") else indent
