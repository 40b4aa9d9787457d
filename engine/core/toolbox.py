"""The tools of a statement, one row each, and every other name that its namespace begins with.

A row says all there is to say about a tool but how it is performed: that is `engine/session/tools/<name>.py`, which the
worker must not import, because it performs I/O.
 From the row follow the function that statements call (`runtime.worker.names`), the
names that nobody else may take, the step group of its calls, the examples in the instructions, and the kind that
editors show. Pure. A new tool is a row here and its module.
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

ToolKind = Literal["read", "search", "edit", "delete", "move", "execute", "other"]
"""What a tool does, as editors show it."""
GroupName = Literal["read-group", "write-group", "bash-group", "other-group"]
"""Where a person looks for a tool's calls among the steps of a request."""


class Required(Struct, frozen=True):
    """The default of a parameter that has none."""


REQUIRED: Final = Required()


class Parameter(Struct, frozen=True):
    """One argument of a tool. `type` is what the host takes for it; paths are given as text or as `os.PathLike`.

    One that came `later` is not said where it is as by default, because in older logs recorded calls do not have it.
    """

    name: str
    type: Any
    default: object = REQUIRED
    later: bool = False


class Example(Struct, frozen=True):
    """A statement that works in a project with a README.md, and what it does in a few words."""

    source: str
    comment: str


class Tool(Struct, frozen=True, kw_only=True):
    """One tool. `doc` is what `help` shows: one sentence, more where it is needed.

    `title` says in one line what a call does, with its arguments in braces; from its second part on each is left out
    where one of its arguments is left out, or is what it is by default. Without one it is the tool's name and a path.
    """

    name: str
    title: tuple[str, ...] = ()
    kind: ToolKind
    group: GroupName
    parameters: tuple[Parameter, ...]
    doc: str
    examples: tuple[Example, ...]


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
            "The lines below `path` that match a regular expression, as a list of matches with path, line and text."
            " `glob` chooses among the files, `context` adds lines on either side. Left out are binary files and what"
            " .gitignore and .ignore name. Expressions are ripgrep's: no look-around, no references; (?i) ignores case."
        ),
        examples=(Example('grep(r"def \\w+", glob="*.py")', "matching lines, with .path, .line and .text"),),
    ),
    Tool(
        name="find",
        title=("Find {glob}", " in {path}"),
        kind="search",
        group="read-group",
        parameters=(Parameter("glob", str), Parameter("path", str, ".")),
        doc=(
            "The paths of the files below `path` that match a glob, as a list. A glob without a slash matches names in"
            " every directory, one with a slash the path from there: *.py, src/**/*.{ts,tsx}. Left out is what"
            " .gitignore and .ignore name."
        ),
        examples=(Example('find("*.md")', "paths of files"),),
    ),
    Tool(
        name="write",
        title=("Write {path}",),
        kind="edit",
        group="write-group",
        parameters=(Parameter("path", str), Parameter("text", Any)),
        doc=(
            "Makes or replaces the file. An existing text file keeps its encoding, line ends and final newline where\n"
            "`text` is a string; bytes are written as they are. Directories that are missing are made."
        ),
        examples=(Example('write("docs/notes.md", "# Notes\\n")', "make or replace a file"),),
    ),
    Tool(
        name="edit",
        title=("Edit {path}",),
        kind="edit",
        group="write-group",
        parameters=(
            Parameter("path", str),
            Parameter("old", str),
            Parameter("new", str),
            Parameter("count", int | None, 1),
        ),
        doc="Replaces the text `old`, which has to occur `count` times in the file; None replaces it wherever it does.",
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
            "Runs the command in a shell of its own, with nobody to answer it and no terminal, and ends all that it\n"
            "started. The value has `.code`, `.output`, `.truncated`, `.timed_out`; `timeout` is in seconds.\n"
            "In the mode `auto` it is in the sandbox, like statements; `outside` asks the user to have it run without."
        ),
        examples=(Example('tests = bash("ls -l")', "run a command; .code, .output"),),
    ),
)

TOOLS: Final[dict[str, Tool]] = {tool.name: tool for tool in _ROWS}
"""The tools by name, in the order in which the instructions show them."""

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
    _routed("rmtree", "Remove {path} with all that is in it", "delete", "Removes a directory with all that is in it."),
    _routed("rename", "Rename {source} to {path}", "move", "Renames `source`, in the place of what is there.", _SOURCE),
    _routed("link", "Give {source} the further name {path}", "edit", "Makes a hard link.", _SOURCE),
    _routed("symlink", "Make {path} a link to {target}", "edit", "Makes a symbolic link.", Parameter("target", str)),
    _routed("mkfifo", "Make the pipe {path}", "edit", "Makes a named pipe.", _MODE),
    _routed("chmod", "Change the permissions of {path}", "edit", "Sets permission bits.", _MODE),
    _routed(
        "utime",
        "Change the times of {path}",
        "edit",
        "Sets the times of access and of change, a pair in nanoseconds; None for now.",
        Parameter("times", tuple[int, int] | None),
        Parameter("follows", bool, True),
    ),
)

ROUTED: Final[dict[str, Tool]] = {tool.name: tool for tool in _ROUTED_ROWS}
"""What Python's own functions that change the file tree ask for, by name, in a worker with a domain. Statements call
those functions, and no names of ours."""

RECALL_ANSWER: Final = "recall an answer"
RECALL_FILE: Final = "recall a file"
RECALLS: Final = frozenset((RECALL_ANSWER, RECALL_FILE))
"""What a worker asks of the record by which a statement is answered that runs in the place of another. It is no effect:
whether there is an answer to the `operation` with those `arguments`, and what the file at the real `path` held then,
None where that is not known, else its `content`, which is None where there was no file."""

CHANGING: Final = frozenset(
    tool.name for tool in (*_ROWS, *_ROUTED_ROWS) if tool.kind in ("edit", "delete", "move", "execute")
)
"""The operations that change something, which are asked about, and refused where nothing may be changed."""

STALE: Final = "has changed since"
"""The words by which an error says that a file is not as it was seen: the worker may know what differs."""

VIEWS: Final[dict[str, tuple[Example, ...]]] = {
    "view": (
        Example('readme = view("README.md", tokens=400)', "a window on a file; its text is in this statement's result"),
        Example('readme.SetPos("12").SetTokens(900)', "move it to line 12, give it more room"),
        Example("readme.Scroll(20)", "20 lines on"),
        Example("readme.SetLod(1)", "symbols with their lines; 2: summary, 3: what changed since you read it, 0: text"),
        Example('readme.Run(freq="Sync")', "follow the file: changes are reported after every statement"),
        Example("readme.Pause()", "keep what it shows"),
        Example("readme.Refresh()", "take the file as it is now"),
    ),
    "tick": (Example("tick()", "running views catch up now, not before your next reply; those that changed"),),
    "show": (Example("show(readme)", "its text once more"),),
    "group": (Example("docs = group(readme, tokens=500)", "a summary that follows its members; docs.Add(...)"),),
    "pin": (Example('pin(docs, "the task")', "always in the table"),),
    "unpin": (Example("unpin(docs)", "no more"),),
    "All": (),
}
"""The names that the worker's board provides, with their examples."""

OPEN: Final = "open"
"""The function that opens files; what it writes lands as the tool `write` does."""

FILES: Final[dict[str, tuple[Example, ...]]] = {
    OPEN: (Example('open("docs/list.txt", "w").write(text)', "lands at close, as a write"),),
}
"""The names that the worker provides over the tools, with their examples."""

RESTORE: Final = "restore_names"
"""The function that gives all these names their meaning back."""

INJECTED: Final = frozenset((*VIEWS, *TOOLS, *FILES, RESTORE))
"""Every name that a namespace begins with."""

ORIGINALS: Final = "__rewindow__"
"""What has all of them as attributes; it is there at the beginning of every statement, whatever others did to it."""


def original(name: str) -> str:
    """How a statement writes an injected name so that it means what it did at first, also where it was rebound."""
    return f"{ORIGINALS}.{name}"


def tool_named(name: str) -> Tool | None:
    """The row of an operation, whether statements call it by that name or not."""
    return TOOLS.get(name) or ROUTED.get(name)


def call_title(name: str, arguments: Mapping[str, object]) -> str:
    """What a call of a tool does, in the words of its row; of one without a row, its name and its path.

    Any argument may be missing or of another type: a log of another program may call its tools as we do.
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


# identifiers:
# Names for what has a title and no name: identifiers that statements can use and that hide nothing of theirs. Pure.

_NO_WORD: Final = re.compile(r"\W+")


def variable(title: str, taken: Collection[str], *, prefix: str, otherwise: str) -> str:
    """A variable for what has that title: no keyword, no builtin, no injected name, and none of those that are taken.

    `prefix` comes before a name that is one of the first three, or begins with a digit; `otherwise` is the name where
    the title has no letter.
    """
    base = attribute(title).strip("_").lower() or otherwise
    if not base.isidentifier() or keyword.iskeyword(base) or hasattr(builtins, base) or base in INJECTED:
        base = f"{prefix}{base}"
    return numbered(base if base.isidentifier() else otherwise, taken)


def attribute(title: str) -> str:
    """The title with an underscore in the place of what no identifier holds, in the form in which Python compares
    names; perhaps empty, or beginning with a digit."""
    return _NO_WORD.sub("_", unicodedata.normalize("NFKC", title))


def numbered(base: str, taken: Collection[str]) -> str:
    """The name, with a number from 2 on where it is taken."""
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name
