"""The stable first part of every projection: what the model may do here. Under 900 tokens; a test runs the examples."""

from __future__ import annotations

from typing import Final

from ..toolbox import FILES, TOOLS, VIEWS
from .written import CLOSING, OPENING, STATEMENT_TOOL

EXAMPLES: Final = (
    *(example for examples in VIEWS.values() for example in examples),
    *(example for tool in TOOLS.values() for example in tool.examples),
    *(example for examples in FILES.values() for example in examples),
)

_CALLED: Final = f"Call the tool `{STATEMENT_TOOL}` with one cell of source at a time"
_WRITTEN: Final = (
    f"End a reply with one cell of source: a line `{OPENING}`, the cell, and a line `{CLOSING}`, in no code fence"
)
_HEAD: Final = """\
You work in the user's project by running Python. {asked}; it runs in a
live namespace that keeps every name between cells. Cells are numbered statements on a timeline that the user can see.
The value of a trailing expression, what is printed, and the text of every view you open or show come back as the
result. An exception is a result too. Answer the user in prose when you are done; a reply without a cell ends your turn.

Files are looked at through view handles. A handle is a variable with a position (`"line:col"`, lines from 1), a budget
in tokens, and a mode: paused (keeps what it shows) or running (follows the file). The table of your handles, and what
changed since your last reply, stand at the end of the newest message.
"""


def instructions(cwd: str, *, calls_tools: bool = True) -> str:
    """The instructions for a project in `cwd` (absolute), for a model that calls tools or for one that writes."""
    head = _HEAD.format(asked=_CALLED if calls_tools else _WRITTEN)
    lines = [f"{example.source:<44}# {example.comment}" for example in EXAMPLES]
    return f"{head}\n```python\n" + "\n".join(lines) + f"\n```\nThe project is {cwd}.\n"
