"""The host's share of a projection: which texts a model call is made of, so that each is counted once and exactly.

The tail comes from the worker (`tail.py`); the View's messages are append-only, which keeps the prefix of two
successive calls the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from msgspec import Struct

from ...core.execution import Display, NamespaceDiff
from ...core.ids import ObjId, StatementId, ToolCallId
from ...core.text import between
from ...core.toolbox import FILES, TOOLS, VIEWS
from ...log.events import Event
from ...log.events.conversation import AgentReasoning, AgentText, ResultRerendered, ToolCall, ToolResult, UserMessage
from ...log.events.execution import ExecutionFinished, StatementRecorded
from ...log.events.nodes import NodeMade
from ...log.timeline import Timeline
from ...log.user_message import user_text
from ..view.entries import Summary
from .results import CLOSING, OPENING, STATEMENT_TOOL, with_note, written_call, written_result

MESSAGE_OVERHEAD: Final = 4
"""Tokens that a message costs besides its text, after OpenAI's published accounting for o200k models."""


def message_text(event: Event, *, calls_tools: bool = True) -> str:
    """What of a View event the model reads; "" for one that is no message.

    Args:
        calls_tools: False for a model that reads and writes its statements as text.
    """
    match event:
        case ToolCall() if not calls_tools:
            return with_note(written_call(event), event)
        case ToolResult(text=text) if not calls_tools:
            return written_result(text)
        case UserMessage():
            return user_text(event)
        case AgentText(text=text) | AgentReasoning(text=text) | ToolResult(text=text) | Summary(text=text):
            return text
        case ToolCall(arguments=arguments):
            return with_note(str(arguments.get("source", arguments)), event)
        case _:
            return ""


# instructions:
# The stable first part of every projection: what the model may do here. Under 900 tokens; a test runs the examples.

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


# account:
# Where the tokens of a projection go: by section, and by the handle whose renders they are.
#
# The messages are divided by what they are, because that says what can be done about them; the tail's sections and
# its share of each handle come from the worker. What a handle's renders take of a statement's result is known from
# the log, so this is a fold. Counts are exact for sections; a render inside a result counts as it did when it was
# made.

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
"""The sections of the messages, in the order in which they are listed."""
LARGEST_NODES: Final = 24
"""Handles of which it is said, and written down, what they took of one call."""

Cost = Callable[[Event], int]
"""Exact tokens of a message."""


class Account:
    """Divides costs. `apply` is for the log alone.

    `timeline` follows the same path, and is told of each event before.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (StatementRecorded, ExecutionFinished, ResultRerendered, NodeMade)
    )

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._names: dict[ObjId, str] = {}
        self._named: dict[str, ObjId] = {}
        """The same by name: each is one handle's, until a statement deletes it or binds it to something else."""
        self._made: dict[str, ObjId] = {}
        """What the execution that is under way has made, whose record comes last."""
        self._titles: dict[ObjId, str] = {}
        self._recorded: StatementRecorded | None = None
        """The last statement, until it has run."""
        self._renders: dict[ToolCallId, dict[ObjId, int]] = {}
        """Of the calls that a model made, whose results are messages."""

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
        """The renders are in the result of the statement's call, if this is its first run and a model made the call."""
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
        """What the statement that made the handle called it, as long as that is its name; else its id."""
        return self._names.get(obj_id, obj_id)

    def title(self, obj_id: ObjId) -> str:
        """What the handle was shown under last."""
        return self._titles.get(obj_id, "")

    def sections(
        self, instruction_tokens: int, messages: Sequence[Event], cost: Cost, tail: Mapping[str, int]
    ) -> dict[str, int]:
        """Tokens by section, in the order in which they are sent; of empty ones nothing."""
        taken = dict.fromkeys((INSTRUCTIONS, *MESSAGES), 0)
        taken[INSTRUCTIONS] = instruction_tokens
        for message in messages:
            kind = _KINDS.get(type(message))
            if kind is not None:
                taken[kind] += cost(message)
        return {name: tokens for name, tokens in (*taken.items(), *tail.items()) if tokens}

    def nodes(self, messages: Sequence[Event], cost: Cost, tail: Mapping[str, int]) -> dict[ObjId, int]:
        """Tokens by handle, the largest first."""
        taken = {ObjId(obj_id): tokens for obj_id, tokens in tail.items()}
        for obj_id, tokens in self._shown(messages, cost):
            taken[obj_id] = taken.get(obj_id, 0) + tokens
        return dict(sorted(taken.items(), key=lambda item: -item[1]))

    def largest_shown(self, messages: Sequence[Event], cost: Cost) -> dict[ObjId, int]:
        """Tokens of the largest part that a result has of each handle; none of a handle that no result shows."""
        largest: dict[ObjId, int] = {}
        for obj_id, tokens in self._shown(messages, cost):
            largest[obj_id] = max(largest.get(obj_id, 0), tokens)
        return largest

    def _shown(self, messages: Sequence[Event], cost: Cost) -> Iterator[tuple[ObjId, int]]:
        """What each result has of each handle."""
        for message in messages:
            if isinstance(message, ToolResult) and message.tool_call_id in self._renders:
                # Of a result that was shortened less is left than its renders had.
                most = cost(message)
                for obj_id, tokens in self._renders[message.tool_call_id].items():
                    yield obj_id, min(tokens, most)


# shrink:
# What is left of messages that cannot all be sent: long outputs keep their beginning and their end.
#
# Used where no condensation can help. What the user said and what was run stay whole. Pure; counting is the caller's.

SHRINKABLE: Final = (ToolResult, AgentText, Summary)
_SMALLEST: Final = 32
_SHRINK_HEAD: Final = 2 / 3


def is_shrinkable(event: Event) -> bool:
    return isinstance(event, SHRINKABLE)


def fair_limit(costs: Sequence[int], room: int) -> int:
    """Tokens that each text may have so that all fit `room`: a power of two, at least 32.

    A power of two, because it then stays the same over many calls, and so does the beginning of the prompt.
    """
    limit = _SMALLEST
    while limit < max(costs, default=0) and sum(min(cost, 2 * limit) for cost in costs) <= room:
        limit *= 2
    return limit


def shortened(text: str, share: float) -> str:
    """About `share` (0..1) of the text, from its two ends, with a line between them that says what is missing."""
    kept = int(len(text) * share)
    head = int(kept * _SHRINK_HEAD)
    tail = kept - head
    return text[:head] + between(len(text) - kept, "because the context is full") + text[len(text) - tail :]


# rerender:
# Which results to render anew, so that a prompt costs less and not more: a policy over costs alone.
#
# A provider keeps the prompts that it was sent for a while, and reads what is the same from the first token on for
# about a tenth of the price. So what changes a message near the beginning has all tokens behind it read at the full
# price: one break in front of 50,000 cached tokens costs as much as 45,000 new ones. It pays where the prefix breaks
# at that place anyway, and where a change saves more than a fifth of the tokens behind it.
#
# Pure. Called by `sessions.rerendering`.

SHARE: Final = 5
"""A change has to save one part in so many of the tokens behind it."""


class Rewrite(Struct, frozen=True):
    """A message that could become another: its place in the prompt, and what it would cost, in tokens."""

    place: int
    tokens: int


def choose_rewrites(
    rewrites: Sequence[Rewrite], costs: Sequence[int], kept: int, room: int, *, at_any_price: bool = False
) -> tuple[Rewrite, ...]:
    """Those to carry out, by their places.

    What makes a message larger is carried out only as far as all of them fit `room`, the first in the prompt first.

    Args:
        rewrites: ascending by place, one for a place at most.
        costs: tokens of each message as it is.
        kept: how many messages from the first on the call before was sent, too; what follows is read anew anyway.
        room: tokens that the messages may take.
        at_any_price: all of them, whether it pays or not.
    """
    start = 0 if at_any_price else _break(rewrites, costs, kept)
    chosen: list[Rewrite] = []
    found = [rewrite for rewrite in rewrites if rewrite.place >= start]
    left = room - sum(costs) + sum(_saved(rewrite, costs) for rewrite in found if _saved(rewrite, costs) > 0)
    for rewrite in found:
        growth = -_saved(rewrite, costs)
        if growth <= 0:
            chosen.append(rewrite)
        elif growth <= left:
            left -= growth
            chosen.append(rewrite)
    return tuple(chosen)


def _break(rewrites: Sequence[Rewrite], costs: Sequence[int], kept: int) -> int:
    """The place from which on the prompt is to change: the one that saves most, at the latest where it does anyway."""
    best, start, saved = 0, kept, 0
    for rewrite in reversed([rewrite for rewrite in rewrites if rewrite.place < kept]):
        behind = sum(costs[rewrite.place + 1 : kept]) - saved
        saved += _saved(rewrite, costs)
        gain = SHARE * saved - behind
        if gain > best:
            best, start = gain, rewrite.place
    return start


def _saved(rewrite: Rewrite, costs: Sequence[int]) -> int:
    return costs[rewrite.place] - rewrite.tokens
