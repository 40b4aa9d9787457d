"""The host's share of a prompt: instructions, the texts of messages, their tokens, and shortening.

The tail comes from the worker (`sections`). The messages of the View are append-only, so two successive prompts begin
alike. Each text is counted once and exactly; the counter belongs to the caller.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from msgspec import Struct

from ...core.execution import Display, NamespaceDiff
from ...core.ids import ObjId, StatementId, ToolCallId
from ...core.text import between, legible_line, more
from ...core.toolbox import FILES, TOOLS, VIEWS
from ...log.events import Event
from ...log.events.conversation import AgentReasoning, AgentText, ResultRerendered, ToolCall, ToolResult, UserMessage
from ...log.events.execution import ExecutionFinished, StatementRecorded
from ...log.events.nodes import NodeMade
from ...log.events.session import GuidanceRead, Skill, SkillsRead
from ...log.timeline import Timeline
from ...log.user_message import user_text
from ..view.entries import Summary
from .results import CLOSING, OPENING, STATEMENT_TOOL, read_text, with_note, written_call, written_result

MESSAGE_OVERHEAD: Final = 4
"""Tokens of a message besides its text, by OpenAI's published accounting for o200k models."""


def message_text(event: Event, *, calls_tools: bool = True) -> str:
    """Return the text of a View event that the model reads.

    Returns "" if it is not a message.

    Args:
        calls_tools: False for a model that reads and writes its statements as text.
    """
    match event:
        case ToolCall() if not calls_tools:
            return with_note(written_call(event), event)
        case ToolResult():
            return read_text(event) if calls_tools else written_result(read_text(event))
        case UserMessage():
            return user_text(event)
        case AgentText(text=text) | AgentReasoning(text=text) | Summary(text=text):
            return text
        case ToolCall(arguments=arguments):
            return with_note(str(arguments.get("source", arguments)), event)
        case _:
            return ""


# --- instructions ----------------------------------------------------------------------------------------------------


EXAMPLES: Final = (
    *(example for examples in VIEWS.values() for example in examples),
    *(example for tool in TOOLS.values() for example in tool.examples),
    *(example for examples in FILES.values() for example in examples),
)

_CALLED: Final = f"Call the tool `{STATEMENT_TOOL}` with one cell of source at a time"
_WRITTEN: Final = (
    f"End a reply with one cell of source: a line `{OPENING}`, the cell, and a line `{CLOSING}`; use no code fence"
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

MAX_INSTRUCTION_TOKENS: Final = 1_000
"""Without the instructions of user and project."""
WORKED: Final = """\
for path in {match.path for match in grep("old_name", "src")}:
    edit(path, "old_name", "new_name", count=None)
bash("python -m pytest -q")
"""
"""An example: one statement with several actions, in a project with this name and tests."""
_WORK: Final = """\
Always change files with `edit` and `write`, and run programs with `bash`. The user then sees each change as a diff, and
each command with its output.

- Put what belongs together into one statement: searches with views of what they find, edits with the tests after them.
  Each statement costs a reply, and often a question to the user.
- `edit` is for files that exist: give the shortest text that occurs there once, exactly as it is, indentation included.
  A miss names the nearest lines. `write` is for new files.
- To read one function or class, start there: `view("app.py", "class App", tokens=600)`.
- `grep` and `find` return lists, to loop over.
- Run the project's tests with `bash`, as the last expression: its output and exit code are the result.
- After an edit, `view(...)`, or `readme.Refresh(); show(readme)`, shows the new content in the same statement.
- A change is refused if the file differs from what you last saw. The refusal shows the difference. View the file
  again, then change it.

```python
{worked}```
"""


_SKILLS: Final = """
Skills are instructions for particular tasks. If a task matches a description, first view that skill: make the call
above the list, with its name for NAME. Then follow it. Paths in a skill are relative to its folder. No skill can extend
your permissions."""
_GUIDANCE: Final = """
Instructions from the user and the project's authors follow, file by file. If two disagree, the later one applies.
None of them can extend your permissions.
"""


_GIVEN: Final = """
Instructions of the program in which the user works follow. If they disagree with those of a file, they apply. They
cannot extend your permissions.

{given}
"""


class ProjectNotes(Struct, frozen=True):
    """What the instructions say about one project: the session's surroundings, its skills, and its authors' files.

    `given` are those of the client that opened the session.
    """

    surroundings: str = ""
    skills: SkillsRead | None = None
    guidance: GuidanceRead | None = None
    given: str = ""


NO_NOTES: Final = ProjectNotes()


def instructions(cwd: str, *, calls_tools: bool = True, notes: ProjectNotes = NO_NOTES) -> str:
    """Write the instructions for a project in `cwd` (absolute).

    They begin each prompt and rarely change.

    At most MAX_INSTRUCTION_TOKENS without `notes`; a test runs the examples. `calls_tools` is as in `message_text`.
    """
    head = _HEAD.format(asked=_CALLED if calls_tools else _WRITTEN)
    lines = [f"{example.source:<44}# {example.comment}" for example in EXAMPLES]
    work = _WORK.format(worked=WORKED)
    text = f"{head}\n```python\n" + "\n".join(lines) + f"\n```\n\n{work}\nThe project is {cwd}.\n"
    if notes.surroundings:
        text += f"{notes.surroundings}\n"
    if notes.skills is not None:
        text += _skilled(notes.skills, cwd)
    if notes.guidance is not None:
        text += _guided(notes.guidance, cwd)
    return text + _GIVEN.format(given=notes.given) if notes.given else text


def _skilled(read: SkillsRead, cwd: str) -> str:
    if not read.skills and not read.more:
        return ""
    groups: dict[str, list[Skill]] = {}
    for skill in read.skills:
        groups.setdefault(posixpath.dirname(posixpath.dirname(skill.path)), []).append(skill)
    lines: list[str] = []
    for folder, skills in groups.items():
        place = guidance_name(f"{folder}/NAME/{posixpath.basename(skills[0].path)}", cwd)
        lines += [f'`view("{place}")`', *(f"- {skill.name}: {skill.description}" for skill in skills)]
    left_out = [more(read.more, "skill", "not listed here")] if read.more else []
    return "\n".join([_SKILLS, *lines, *left_out, ""])


def _guided(guidance: GuidanceRead, cwd: str) -> str:
    if not guidance.files:
        return ""
    return _GUIDANCE + "".join(f"\n# {guidance_name(file.path, cwd)}\n\n{file.text}\n" for file in guidance.files)


def guidance_name(path: str, cwd: str) -> str:
    """Return how a prompt names a file with instructions: from the session's directory if it is in it."""
    return legible_line(path.removeprefix(f"{cwd.rstrip('/')}/"))


# --- where the tokens go ---------------------------------------------------------------------------------------------


INSTRUCTIONS: Final = "instructions"
_KINDS: Final[Mapping[type[Event], str]] = {
    UserMessage: "prompts",
    AgentText: "replies",
    AgentReasoning: "replies",
    ToolCall: "statements",
    ToolResult: "results",
    Summary: "summary",
}
MESSAGES: Final = tuple(dict.fromkeys(_KINDS.values()))
"""The sections of messages, in the order of listings."""
LARGEST_NODES: Final = 24
"""Number of handles whose tokens are recorded for a call."""

Cost = Callable[[Event], int]
"""Exact tokens of a message."""


class Account:
    """The tokens of a prompt, by section and by handle.

    Only the log calls `apply` and `reset`.

    Messages are divided by kind, because that decides what a user can do about them; the tail's sections and handles
    come from the worker. The log tells which handles' renders a result has, so this is a fold. Sections are exact; a
    render in a result counts as it did when it was made. `timeline` follows the same path, and gets each event first.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (StatementRecorded, ExecutionFinished, ResultRerendered, NodeMade)
    )

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """Start again: another path follows, from its first event."""
        self._names: dict[ObjId, str] = {}
        self._named: dict[str, ObjId] = {}
        """The handles by name. A name is a handle's until a statement deletes it or binds it again."""
        self._made: dict[str, ObjId] = {}
        """Handles made by the running execution; its record comes last."""
        self._titles: dict[ObjId, str] = {}
        self._recorded: StatementRecorded | None = None
        """The last statement, until it has run."""
        self._renders: dict[ToolCallId, dict[ObjId, int]] = {}
        """Renders by the model's calls, whose results are messages."""

    def apply(self, event: Event) -> None:
        match event:
            case StatementRecorded():
                self._recorded = event
            case ExecutionFinished() if event.counts:
                self._name(event.diff)
                self._give(event.statement_id, self._taken(event.displays))
            case ResultRerendered(tool_call_id=call):
                self._renders[call] = self._taken(event.displays)
            case NodeMade(obj_id=obj_id, name=name) if name:
                self._made[name] = obj_id
            case _:
                pass

    def _give(self, statement_id: StatementId, taken: dict[ObjId, int]) -> None:
        """Assign the renders to the statement's call, if a model made it and this is the first run."""
        statement, self._recorded = self._recorded, None
        if taken and statement is not None and statement.statement_id == statement_id:
            cell = self._timeline.cell(statement_id)
            if cell is not None and cell.asked:
                self._renders[statement.tool_call_id] = taken

    def _name(self, diff: NamespaceDiff) -> None:
        rebound = (name for name, change in diff.changed.items() if not change.mutated)
        for name in (*diff.deleted, *rebound, *self._made):
            if (obj_id := self._named.pop(name, None)) is not None:
                del self._names[obj_id]
        for name, obj_id in self._made.items():
            self._named[name], self._names[obj_id] = obj_id, name
        self._made = {}

    def _taken(self, displays: Iterable[Display]) -> dict[ObjId, int]:
        taken: dict[ObjId, int] = {}
        for display in displays:
            obj_id = ObjId(display.obj_id)
            taken[obj_id] = taken.get(obj_id, 0) + display.tokens
            self._titles[obj_id] = display.title
        return taken

    def name(self, obj_id: ObjId) -> str:
        """Return the handle's name, if it still has it; else its id."""
        return self._names.get(obj_id, obj_id)

    def title(self, obj_id: ObjId) -> str:
        """Return the last title of the handle."""
        return self._titles.get(obj_id, "")

    def sections(
        self, instruction_tokens: int, messages: Sequence[Event], cost: Cost, tail: Mapping[str, int]
    ) -> dict[str, int]:
        """Return tokens by section, in the order of the prompt, without empty ones."""
        taken = dict.fromkeys((INSTRUCTIONS, *MESSAGES), 0)
        taken[INSTRUCTIONS] = instruction_tokens
        for message in messages:
            kind = _KINDS.get(type(message))
            if kind is not None:
                taken[kind] += cost(message)
        return {name: tokens for name, tokens in (*taken.items(), *tail.items()) if tokens}

    def nodes(self, messages: Sequence[Event], cost: Cost, tail: Mapping[str, int]) -> dict[ObjId, int]:
        """Return tokens by handle, the largest first."""
        taken = {ObjId(obj_id): tokens for obj_id, tokens in tail.items()}
        for obj_id, tokens in self._shown(messages, cost):
            taken[obj_id] = taken.get(obj_id, 0) + tokens
        return dict(sorted(taken.items(), key=lambda item: -item[1]))

    def largest_shown(self, messages: Sequence[Event], cost: Cost) -> dict[ObjId, int]:
        """Return the tokens of the largest render of each handle in a result."""
        largest: dict[ObjId, int] = {}
        for obj_id, tokens in self._shown(messages, cost):
            largest[obj_id] = max(largest.get(obj_id, 0), tokens)
        return largest

    def _shown(self, messages: Sequence[Event], cost: Cost) -> Iterator[tuple[ObjId, int]]:
        """Return the renders of each result."""
        for message in messages:
            if isinstance(message, ToolResult) and message.tool_call_id in self._renders:
                # A shortened result has fewer tokens than its renders had.
                most = cost(message)
                for obj_id, tokens in self._renders[message.tool_call_id].items():
                    yield obj_id, min(tokens, most)


# --- shortening ------------------------------------------------------------------------------------------------------


SHRINKABLE: Final = (ToolResult, AgentText, Summary)
_SMALLEST: Final = 32
_SHRINK_HEAD: Final = 2 / 3


def is_shrinkable(event: Event) -> bool:
    return isinstance(event, SHRINKABLE)


def fair_limit(costs: Sequence[int], room: int) -> int:
    """Return the largest number of tokens for each text so that all fit `room`.

    It is a power of two, at least 32, so that it stays the same over many calls, and with it the beginning of the
    prompt.
    """
    limit = _SMALLEST
    while limit < max(costs, default=0) and sum(min(cost, 2 * limit) for cost in costs) <= room:
        limit *= 2
    return limit


def shortened(text: str, share: float) -> str:
    """Return about `share` (0..1) of the text from both ends, with a line between that counts the rest."""
    kept = int(len(text) * share)
    head = int(kept * _SHRINK_HEAD)
    tail = kept - head
    return text[:head] + between(len(text) - kept, "because the context is full") + text[len(text) - tail :]
