"""The stable first part of every projection: what the model may do here. Under 900 tokens; a test runs the examples."""

from __future__ import annotations

from typing import Final

from ...core.toolbox import FILES, TOOLS, VIEWS
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

You look at files through view handles. A handle is a variable with a position (`"line:col"`, lines from 1, or a symbol:
`"class Foo"`), a budget in tokens, and a mode: paused (keeps what it shows) or running (follows the file). The table of
your handles, and what has changed since your last reply, are at the end of the newest message.
"""

WORKED: Final = """\
for path in {match.path for match in grep("old_name", "src")}:
    edit(path, "old_name", "new_name", count=None)
bash("python -m pytest -q")
"""
"""One statement with several acts, in a project that has such a name and tests."""
_WORK: Final = """\
Change files with `edit` and `write`, and run programs with `bash`, rather than by other means: the user sees each as a
diff, or as a command with its output.

- Put what belongs together into one statement: searches with views of what they find, edits with the tests after them.
  Each statement costs a reply, and often a question to the user.
- `edit` is for files that exist: give the shortest text that occurs there once, exactly as it is, indentation included.
  A miss names the nearest lines. `write` is for new files.
- `grep` and `find` return lists, to loop over.
- Run the project's tests with `bash`, as the last expression: its output and exit code are the result.
- After an edit, `view(...)`, or `readme.Refresh(); show(readme)`, shows the file as it is then, in the same statement.
- A change to a file that is not as you last saw it is refused, with the difference. View it again, then change it.

```python
{worked}```
"""


def instructions(cwd: str, *, calls_tools: bool = True) -> str:
    """The instructions for a project in `cwd` (absolute), for a model that calls tools or for one that writes."""
    head = _HEAD.format(asked=_CALLED if calls_tools else _WRITTEN)
    lines = [f"{example.source:<44}# {example.comment}" for example in EXAMPLES]
    work = _WORK.format(worked=WORKED)
    return f"{head}\n```python\n" + "\n".join(lines) + f"\n```\n\n{work}\nThe project is {cwd}.\n"
