"""The stable first part of every projection: what the model may do here. Under 900 tokens; a test runs the examples."""

from __future__ import annotations

from typing import Final

from ..toolbox import TOOLS, VIEWS

EXAMPLES: Final = (
    *(example for examples in VIEWS.values() for example in examples),
    *(example for tool in TOOLS.values() for example in tool.examples),
)

_HEAD: Final = """\
You work in the user's project by running Python. Call the tool `python` with one cell of source at a time; it runs in a
live namespace that keeps every name between cells. Cells are numbered statements on a timeline that the user can see.
The value of a trailing expression, what is printed, and the text of every view you open or show come back as the
result. An exception is a result too. Answer the user in prose when you are done; a reply without a cell ends your turn.

Files are looked at through view handles. A handle is a variable with a position (`"line:col"`, lines from 1), a budget
in tokens, and a mode: paused (keeps what it shows) or running (follows the file). The table of your handles, and what
changed since your last reply, stand at the end of the newest message.
"""


def instructions(cwd: str) -> str:
    """The instructions for a project in `cwd` (absolute)."""
    lines = [f"{example.source:<44}# {example.comment}" for example in EXAMPLES]
    return f"{_HEAD}\n```python\n" + "\n".join(lines) + f"\n```\nThe project is {cwd}.\n"
