"""The tools of statements, one row each, and every other name that a namespace begins with.

A row has everything about a tool except its implementation, which is in `session/tools` and `session/tool_calls`; the
worker must not import that, because it performs I/O. The row determines the function that statements call
(`runtime.worker.names`), the reserved name, the step group of its calls, the examples in the instructions, and the kind
that editors show. A new tool is a row here, its implementation, and a row in `session.tools.OPERATIONS`. Pure.
"""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Collection, Mapping
from string import Formatter
from typing import Any, Final, Literal

from msgspec import Struct

from .levels import LEVELS_OF_DETAIL, LOD

ToolKind = Literal["read", "search", "edit", "delete", "move", "execute", "fetch", "other"]
"""What a tool does, as editors show it."""
GroupName = Literal["read-group", "write-group", "bash-group", "other-group"]
"""The group of a tool's calls among the steps of a request."""


class Required(Struct, frozen=True):
    """The type of REQUIRED, which marks a parameter without a default."""


REQUIRED: Final = Required()


class Parameter(Struct, frozen=True):
    """One parameter of a tool. `type` is what the host accepts; statements may pass paths as text or `os.PathLike`.

    A parameter that was added `later` is left out of a call if it has its default, because calls in older logs lack it.
    """

    name: str
    type: Any
    default: object = REQUIRED
    later: bool = False


class Example(Struct, frozen=True):
    """A statement that works in a project with a README.md, and a few words on what it does."""

    source: str
    comment: str


class Tool(Struct, frozen=True, kw_only=True):
    """One tool. `help` shows `doc`.

    `title` describes a call in one line, with its arguments in braces. A part after the first is left out if one of its
    arguments is missing or has its default. Without a title, the tool's name and path are shown.
    """

    name: str
    title: tuple[str, ...] = ()
    kind: ToolKind
    group: GroupName
    parameters: tuple[Parameter, ...]
    doc: str
    examples: tuple[Example, ...]


PLAN: Final = "plan"
"""The tool that only tells the user something."""
WRITE: Final = "write"
EDIT: Final = "edit"
"""The tools that change a text file."""
FETCH: Final = "fetch"
"""The tool that uses the network."""
ASK: Final = "ask"
"""The tool that asks the user something."""
_ROWS: Final = (
    Tool(
        name="ls",
        title=("List {path}",),
        kind="read",
        group="read-group",
        parameters=(Parameter("path", str),),
        doc="The entries of the directory at `path`, directories with a trailing slash.",
        examples=(Example("ls()", "every handle"), Example('ls(".")', "a directory")),
    ),
    Tool(
        name="read",
        title=("Read {path}", " from line {start_line}", " to line {end_line}"),
        kind="read",
        group="read-group",
        parameters=(
            Parameter("path", str),
            Parameter("start_line", int | None, None),
            Parameter("end_line", int | None, None),
        ),
        doc="The file's text, or its lines from `start_line` to `end_line`, both counted from 1 and included.",
        examples=(Example('text = read("README.md")', "a whole file as a string"),),
    ),
    Tool(
        name="grep",
        title=('Search "{pattern}"', " in {path}", ", in {glob}"),
        kind="search",
        group="read-group",
        parameters=(
            Parameter("pattern", str),
            Parameter("path", str, "."),
            Parameter("glob", str | None, None),
            Parameter("context", int, 0),
        ),
        doc=(
            "The lines below `path` that match a regular expression, as a list of matches with path, "
            "line and text. `glob` chooses among the files, `context` adds lines on either side. "
            "Binary files, and files that .gitignore or .ignore excludes, are left out. Expressions "
            "are ripgrep's: no look-around, no references; (?i) ignores case."
        ),
        examples=(Example('grep(r"def \\w+", glob="*.py")', "the matching lines, with .path, .line and .text"),),
    ),
    Tool(
        name="find",
        title=("Find {glob}", " in {path}"),
        kind="search",
        group="read-group",
        parameters=(Parameter("glob", str), Parameter("path", str, ".")),
        doc=(
            "The paths of the files below `path` that match a glob, as a list. Without a slash, a "
            "glob matches names in every directory: *.py. With a slash, it matches paths below "
            "`path`: src/**/*.{ts,tsx}. Files that .gitignore or .ignore excludes are left out."
        ),
        examples=(Example('find("*.md")', "paths of files"),),
    ),
    Tool(
        name=WRITE,
        title=("Write {path}",),
        kind="edit",
        group="write-group",
        parameters=(Parameter("path", str), Parameter("text", Any)),
        doc=(
            "Creates or replaces the file. An existing text file keeps its encoding, line ends and final newline if\n"
            "`text` is a string; bytes are written as they are. Missing directories are created."
        ),
        examples=(Example('write("docs/notes.md", "# Notes\\n")', "make or replace a file"),),
    ),
    Tool(
        name=EDIT,
        title=("Edit {path}",),
        kind="edit",
        group="write-group",
        parameters=(
            Parameter("path", str),
            Parameter("old", str),
            Parameter("new", str),
            Parameter("count", int | None, 1),
        ),
        doc="Replaces the text `old`, which must occur `count` times in the file; None replaces every occurrence.",
        examples=(Example('edit("docs/notes.md", "# Notes", "# Plan")', "replace a text that occurs once"),),
    ),
    Tool(
        name="bash",
        kind="execute",
        group="bash-group",
        title=("{command}",),
        parameters=(
            Parameter("command", str),
            Parameter("timeout", float, 120.0),
            Parameter("cwd", str, "."),
            Parameter("outside", bool, False, later=True),
        ),
        doc=(
            "Runs the command in a new shell, without a terminal or input. Then ends all processes that it started.\n"
            "The value has `.code`, `.output`, `.truncated` and `.timed_out`, and lists changed files, which the user\n"
            "can undo. `timeout` is in seconds. In mode `auto`, commands run in the sandbox, like statements;\n"
            "`outside` asks the user to run this command outside the sandbox."
        ),
        examples=(Example('tests = bash("ls -l")', "run a command; .code, .output"),),
    ),
    Tool(
        name=FETCH,
        kind="fetch",
        group="other-group",
        title=("Fetch {url}",),
        parameters=(Parameter("url", str),),
        doc=(
            "Fetches a web address. The value has `.url`, `.status`, `.type`, `.title`, `.text`, `.path`, `.note`.\n"
            "A page is Markdown in `.text`, and other text is unchanged. Other content is in the file at `.path`.\n"
            "Show a long text with view(text=page.text). At most 20 MiB; no private addresses. The user is asked\n"
            "about each site. When the statement runs again, it gets the same answer without fetching."
        ),
        examples=(
            Example('page = fetch("https://example.org")', "a web page, as information: .text (Markdown), .status"),
        ),
    ),
    Tool(
        name=ASK,
        kind="other",
        group="other-group",
        title=("{question}",),
        parameters=(Parameter("question", str), Parameter("choices", Any, None)),
        doc=(
            "Asks the user a question, and waits. The value is one of `choices`, a list of texts, or a text that the\n"
            "user types, or None without an answer. When the statement runs again, it gets the same answer without\n"
            "asking."
        ),
        examples=(Example('ask("Which one?", ["this", "that"])', "the user's choice or text; None: no answer"),),
    ),
    Tool(
        name=PLAN,
        kind="other",
        group="other-group",
        title=("Plan {entries}",),
        parameters=(Parameter("entries", Any),),
        doc=(
            "Shows the user your plan. Always pass the whole list of steps:\n"
            '{"content": ..., "priority": ..., "status": ...}. `priority` is high, medium or low.\n'
            "`status` is pending, in_progress or completed."
        ),
        examples=(
            Example('plan([{"content": "fix it", "status": "in_progress"}])', "all steps, each time one changes"),
        ),
    ),
)

TOOLS: Final[dict[str, Tool]] = {tool.name: tool for tool in _ROWS}
"""The tools by name, in the order of the instructions."""

RENAME: Final = "rename"
_MODE: Final = Parameter("mode", int)
_SOURCE: Final = Parameter("source", str)


def _routed(name: str, title: str, kind: ToolKind, doc: str, *parameters: Parameter) -> Tool:
    return Tool(
        name=name,
        title=(title,),
        kind=kind,
        group="write-group",
        parameters=(Parameter("path", str), *parameters),
        doc=doc,
        examples=(),
    )


_ROUTED_ROWS: Final = (
    _routed("mkdir", "Make the directory {path}", "edit", "Makes a directory.", _MODE),
    _routed("rmdir", "Remove the directory {path}", "delete", "Removes an empty directory."),
    _routed("remove", "Remove {path}", "delete", "Removes a file, a link or a pipe."),
    _routed("rmtree", "Remove {path} with its contents", "delete", "Removes a directory with its contents."),
    _routed(
        RENAME,
        "Rename {source} to {path}",
        "move",
        "Renames `source`, and replaces an existing file with the new name.",
        _SOURCE,
    ),
    _routed("link", "Make {path} a hard link to {source}", "edit", "Makes a hard link.", _SOURCE),
    _routed("symlink", "Make {path} a link to {target}", "edit", "Makes a symbolic link.", Parameter("target", str)),
    _routed("mkfifo", "Make the pipe {path}", "edit", "Makes a named pipe.", _MODE),
    _routed("chmod", "Change the permissions of {path}", "edit", "Sets permission bits.", _MODE),
    _routed(
        "utime",
        "Change the times of {path}",
        "edit",
        "Sets the access and modification times, a pair in nanoseconds. None means now.",
        Parameter("times", tuple[int, int] | None),
        Parameter("follows", bool, True),
    ),
)

ROUTED: Final[dict[str, Tool]] = {tool.name: tool for tool in _ROUTED_ROWS}
"""The operations behind Python's own functions that change the file tree, by name, in a sandboxed worker. Statements
call Python's functions, so these names are not injected."""

RECALL_ANSWER: Final = "recall an answer"
RECALL_FILE: Final = "recall a file"
RECALLS: Final = frozenset((RECALL_ANSWER, RECALL_FILE))
"""Questions of a worker to the record, while a statement gets recorded answers. They are not effects.

RECALL_ANSWER: is there an answer to the `operation` with these `arguments`? RECALL_FILE: what was in the file at the
real `path`? The answer is None if that is unknown, else its `content`, which is None if there was no file."""

CHANGING: Final = frozenset(
    tool.name for tool in (*_ROWS, *_ROUTED_ROWS) if tool.kind in ("edit", "delete", "move", "execute")
)
"""The operations that change something: they need permission, and plan mode refuses them."""

STALE: Final = "has changed since"
"""The words of an error about a file that changed since it was seen; the worker adds the difference if it knows it."""


def _level_comments(lod: int) -> str:
    """The comment of the level `lod`, then those of the levels after it and before it, each with its number."""
    others = (*range(lod + 1, len(LEVELS_OF_DETAIL)), *range(lod))
    listed = ", ".join(f"{each}: {LEVELS_OF_DETAIL[each].comment}" for each in others)
    return f"{LEVELS_OF_DETAIL[lod].comment}; {listed}"


VIEWS: Final[dict[str, tuple[Example, ...]]] = {
    "view": (
        Example('readme = view("README.md", tokens=400)', "a window on a file; its text is in this statement's result"),
        Example('readme.SetPos("12").SetTokens(900)', "move the window to line 12, and enlarge it"),
        Example("readme.Scroll(20)", "20 lines on"),
        Example(f"readme.SetLod({LOD['outline']})", _level_comments(LOD["outline"])),
        Example('readme.Run(freq="Sync")', "follow the file: changes are reported after every statement"),
        Example("readme.Pause()", "stop following; keep the shown text"),
        Example("readme.Refresh()", "show the current content of the file"),
    ),
    "tick": (Example("tick()", "update running views now; the value lists changed views"),),
    "show": (Example("show(readme)", "show the text of a view again"),),
    "group": (Example("docs = group(readme, tokens=500)", "one summary of several views; docs.Add(...) adds more"),),
    "pin": (Example('pin(docs, "the task")', "always keep the group in the table"),),
    "unpin": (Example("unpin(docs)", "no longer keep it there"),),
    "All": (),
}
"""The names that the worker's board provides, with their examples."""

OPEN: Final = "open"
"""The function that opens files. It writes as the tool `write` does."""

FILES: Final[dict[str, tuple[Example, ...]]] = {
    OPEN: (Example('open("docs/list.txt", "w").write(text)', "writes the file when closed, like write()"),),
}
"""The names that the worker builds on the tools, with their examples."""

RESTORE: Final = "restore_names"
"""The function that restores all these names."""

INJECTED: Final = frozenset((*VIEWS, *TOOLS, *FILES, RESTORE))
"""Every name that a namespace begins with."""

ORIGINALS: Final = "__rewindow__"
"""An object with all these names as attributes. Every statement finds it, even if an earlier one removed it."""


def original(name: str) -> str:
    """Return how a statement writes an injected name so that it works even after the name was rebound."""
    return f"{ORIGINALS}.{name}"


def tool_named(name: str) -> Tool | None:
    """Return the row of an operation, even if statements do not call it by that name."""
    return TOOLS.get(name) or ROUTED.get(name)


def call_title(name: str, arguments: Mapping[str, object]) -> str:
    """Return the title of a call by its tool's row, or its name and path if there is no row.

    Any argument may be missing or have another type, because tools in logs of other programs may have the same names.
    """
    tool = tool_named(name)
    if tool is None or not tool.title or not _named_in(tool.title[0]) <= arguments.keys():
        path = arguments.get("path")
        return f"{name} {path}" if isinstance(path, str) else name
    defaults = {each.name: each.default for each in tool.parameters}
    given = {key: value for key, value in arguments.items() if value is not None and value != defaults.get(key)}
    first, *rest = tool.title
    return first.format_map(arguments) + "".join(
        part.format_map(given) for part in rest if _named_in(part) <= given.keys()
    )


def _named_in(part: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(part) if name}


# --- names for things that have only a title --------------------------------------------------------------------------

_NO_WORD: Final = re.compile(r"\W+")


def variable(title: str, taken: Collection[str], *, prefix: str, otherwise: str) -> str:
    """Return a variable name for a title that is no keyword, builtin, injected or taken name.

    Args:
        prefix: comes before a keyword, builtin or injected name, or one that begins with a digit.
        otherwise: the name for a title without letters.
    """
    base = attribute(title).strip("_").lower() or otherwise
    if not base.isidentifier() or keyword.iskeyword(base) or hasattr(builtins, base) or base in INJECTED:
        base = f"{prefix}{base}"
    return numbered(base if base.isidentifier() else otherwise, taken)


def attribute(title: str) -> str:
    """Return the title, normalized, with underscores for other characters; may be empty or begin with a digit."""
    return _NO_WORD.sub("_", unicodedata.normalize("NFKC", title))


def numbered(base: str, taken: Collection[str]) -> str:
    """Return the name, with a number from 2 on if it is taken."""
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name
