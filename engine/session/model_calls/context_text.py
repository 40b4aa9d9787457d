"""Where the tokens of a prompt go, and the handles of a session, as text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Final
from unicodedata import east_asian_width

from msgspec import Struct

from ...context.tail.prompt import INSTRUCTIONS, MESSAGES
from ...core.text import ELLIPSIS, fenced, more, printable
from ...files.tails import HandleRow

# Rows as a block of aligned columns, which every surface shows alike: an editor as code, a terminal as it is.
#
# At most 80 cells wide where its texts can be cut. Pure. Used by the answers of slash commands.

WIDTH: Final = 80
_GAP: Final = "  "
_NARROWEST: Final = (12, 6)
"""Cells that a column keeps where there is no room: if that is enough, and else."""


def table(
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    yielding: Sequence[int] = (),
    paths: Collection[int] = (),
) -> str:
    """The rows, which have one text for each column, as a fenced block; columns without any text are left out.

    Args:
        right: the columns that are aligned at their right.
        yielding: the columns whose texts are cut where there is no room, in this order.
        paths: the columns whose texts are cut at their beginning, because their ends tell them apart.
    """
    texts = [[printable(text) for text in row] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*texts, strict=True)]
    filled = [column for column, width in enumerate(widths) if width]
    room = WIDTH - len(_GAP) * (len(filled) - 1)
    for least, column in product(_NARROWEST, yielding):
        excess = sum(widths) - room
        widths[column] = min(widths[column], max(widths[column] - excess, least))
    lines = (
        _GAP.join(
            _padded(_cut(row[column], widths[column], column in paths), widths[column], column in right)
            for column in filled
        ).rstrip()
        for row in texts
    )
    return fenced("\n".join(lines), "text")


def cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _cut(text: str, width: int, is_path: bool) -> str:
    if cells(text) <= width:
        return text
    kept = min(len(text), width - 1)
    while cells(part := text[len(text) - kept :] if is_path else text[:kept]) >= width:
        kept -= 1
    return ELLIPSIS + part if is_path else part + ELLIPSIS


def _padded(text: str, width: int, is_right: bool) -> str:
    space = " " * (width - cells(text))
    return space + text if is_right else text + space


# context text:
# Where the tokens of a prompt go, as text: a bar for each part and for each handle, with what changes it.
#
# For somebody who has not seen the program: what a model is sent, what that costs, and what to type to change it. A
# command that begins with a slash stands there as it can be typed; what no command changes is said in brackets. Pure;
# used by `/context` and by `rewindow show --projection`.

_BAR: Final = 8
"""Columns of a bar that stands for all that is sent."""
COMPACT: Final = "/compact"
_FIXED: Final = "(fixed)"
_PASSING: Final = "(until read)"
_LEAST: Final = 20
"""Tokens below which a handle cannot take noticeably less."""

PARTS: Final[Mapping[str, str]] = {
    "instructions": "how to work here",
    "prompts": "what you wrote",
    "replies": "what the model said",
    "statements": "the Python it ran",
    "results": "what it returned",
    "summary": "of older messages",
    "timeline": "older statements",
    "feed": "what has changed",
    "handles": "table of handles",
    "groups": "what groups show",
    "expansions": "shown by your /run",
    "pins": "what is pinned",
}
"""What each section is."""


class NodeCost(Struct, frozen=True):
    """What the texts of a handle take. `budget` and `change`, a command, are empty where they are not known."""

    name: str
    title: str
    tokens: int
    budget: str = ""
    change: str = ""


class Breakdown(Struct, frozen=True, kw_only=True):
    """The tokens of one prompt. `shared` of them, from the first on, were in the call before; None: there was none.

    `nodes` are the handles that take most, of `node_count`; None where there may be more. `counted` are the provider's:
    sent, of which cached, and received; None where they are not known. `changes` has the commands that change a
    section; None for a prompt that was sent, and is as it is. `answered` says of such a one whether a model has read
    it, None where that is not known.
    """

    sections: Mapping[str, int]
    size: int
    shared: int | None = None
    nodes: Sequence[NodeCost] = ()
    node_count: int | None = 0
    counted: tuple[int | None, int | None, int | None] = (None, None, None)
    changes: Mapping[str, str] | None = None
    answered: bool | None = True

    @property
    def used(self) -> int:
        return sum(self.sections.values())


def breakdown_text(heading: str, parts: Breakdown) -> str:
    """The bars as Markdown: a paragraph on the whole, which `heading` begins, then blocks of columns."""
    blocks = [f"{heading} {_whole(parts)}", _sections(parts)]
    if parts.nodes:
        blocks += [
            f"Of these tokens, by handle (a view of a file, or a group of such){_of_all(parts)}:",
            _nodes(parts),
        ]
    legend = [] if parts.changes is None else _legend(parts)
    return "\n\n".join([*blocks, "\n".join(legend)] if legend else blocks)


def _of_all(parts: Breakdown) -> str:
    """Says of a list of handles that it is not all of them."""
    shown, count = len(parts.nodes), parts.node_count
    return f", the {shown} largest" if count is None else f", the {shown} largest of {count:,}" if count > shown else ""


def _whole(parts: Breakdown) -> str:
    is_past = parts.changes is None
    beside = "." if is_past else ", and your next prompt."
    said = [f"{parts.used:,} tokens, of at most {parts.size:,} ({_percent(parts.used, parts.size)}){beside}"]
    if parts.shared is not None:
        said.append(
            f"The first {parts.shared:,} of them ({_percent(parts.shared, parts.used)}) are the same as in the "
            f"{'call before' if is_past else 'last call'}, so a provider can take them from its cache."
        )
    sent, cached, received = parts.counted
    if sent is not None:
        from_cache = "" if cached is None else f", {cached:,} of them from its cache"
        said.append(f"The provider counted {sent:,} tokens{from_cache}, and {received or 0:,} of the reply.")
    if parts.answered is None:
        said.append("Whether it was answered is not known: the agent was ended, or the call is still under way.")
    elif not parts.answered:
        said.append("It was not answered.")
    return " ".join(said)


def _sections(parts: Breakdown) -> str:
    head = ["part", "tokens", "", "what it is", "" if parts.changes is None else "what changes it"]
    rows = [
        [name, f"{tokens:,}", _bar(tokens, parts.used), PARTS.get(name, ""), _change(parts, name)]
        for name, tokens in parts.sections.items()
    ]
    return table([head, *rows], right=(1,), yielding=(3,))


def _change(parts: Breakdown, section: str) -> str:
    return "" if parts.changes is None else parts.changes.get(section, _FIXED)


def _nodes(parts: Breakdown) -> str:
    head = [
        "handle",
        "tokens",
        "",
        "budget" if any(node.budget for node in parts.nodes) else "",
        "shows",
        "" if parts.changes is None else "what changes it",
    ]
    rows = [
        [node.name, f"{node.tokens:,}", _bar(node.tokens, parts.used), node.budget, node.title, node.change]
        for node in parts.nodes
    ]
    return table([head, *rows], right=(1, 3), yielding=(4, 0), paths=(4,))


def _legend(parts: Breakdown) -> list[str]:
    lines = ["- `/compact` replaces the messages so far by a summary."] if set(MESSAGES) & set(parts.sections) else []
    if parts.nodes:
        lines += [
            "- `/run` runs a Python statement of yours; no model is called. `.SetTokens(500)` sets a handle's budget, "
            "`.SetLod(1)` its level of detail: 0 the text, 1 an outline, 2 a summary, 3 what changed.",
            "- A budget is for what a handle shows once. What it has shown stays in `results` until changing them "
            "pays, or until `/compact`; with that, and its line in `handles`, it may take more.",
        ]
    return lines


def _bar(tokens: int, used: int) -> str:
    return "█" * round(_BAR * tokens / used) or "▏" if used and tokens else ""


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "0%"


# --- what changes it --------------------------------------------------------------------------------------------------


def section_changes(sections: Mapping[str, int], rows: Sequence[HandleRow]) -> Mapping[str, str]:
    """What changes each section that is sent now, of a session with these handles: a command, or a word in brackets."""
    named = [row for row in rows if _has_name(row)]
    inner = {child for row in rows for child in row.children}
    loose = [f"/run del {row.name}" for row in named if not row.pinned and row.obj_id not in inner]
    groups = [smaller for row in _largest(named) if row.obj_type == "group" and (smaller := smaller_change(row))]
    pinned = [f"/run unpin({row.name})" for row in _largest(named) if row.pinned and row.obj_type != "group"]
    messages = [name for name in MESSAGES if sections.get(name)]
    return {
        INSTRUCTIONS: _FIXED,
        **dict.fromkeys(MESSAGES, _FIXED if messages == ["summary"] else COMPACT),
        "timeline": _FIXED,
        "feed": _PASSING,
        "handles": loose[-1] if loose else _FIXED,
        "groups": groups[0] if groups else _FIXED,
        "expansions": _PASSING,
        "pins": pinned[0] if pinned else _FIXED,
    }


def handle_change(row: HandleRow, shown: int) -> str:
    """The command that has a handle take less, of whose text a result has `shown` tokens; empty where there is none."""
    # A budget that is smaller already did not change that result, and the budget of what has no name cannot be set.
    is_in_results = shown > row.tokens > 0 if _has_name(row) else shown > 0
    return COMPACT if is_in_results else smaller_change(row)


def smaller_change(row: HandleRow) -> str:
    """The command that gives a handle about half of the tokens that it shows; empty where there is none."""
    half = row.used_tokens // 2
    digits = 10 ** max(len(str(half)) - 2, 0)
    return f"/run {row.name}.SetTokens({half // digits * digits})" if _has_name(row) and half >= _LEAST else ""


def _largest(rows: Sequence[HandleRow]) -> Sequence[HandleRow]:
    return sorted(rows, key=lambda row: -row.used_tokens)


def _has_name(row: HandleRow) -> bool:
    """Whether the namespace has a name for it; else it is listed by its id."""
    return row.name != row.obj_id


# handles text:
# The handles of a session as text: a row for each, those in a group below it. Pure; used by `/views`.

ALL: Final = "all"
"""The argument of `/views` that lists all handles."""
SHOWN_HANDLES: Final = 40
_DEEPEST: Final = 6
"""A handle in more groups is not indented further, so that its name has room."""
_LEVELS: Final = {0: "0 text", 1: "1 outline", 2: "2 summary", 3: "3 changes"}
_FOLLOWS: Final = {"": "no", "Sync": "each call", "Async": "when prepared"}
_IDLE: Final = "nothing, until a member runs"
_NONE: Final = 'There are no handles. `/run readme = view("README.md")` opens a view of a file.'


def views_text(rows: Sequence[HandleRow], *, is_whole: bool = False) -> str:
    """The handles as a block of columns; one that is in several groups stands below the first. What can be done.

    Args:
        is_whole: whether each has its row; else of more than SHOWN_HANDLES the newest have, and the others are counted.
    """
    if not rows:
        return _NONE
    trees = _trees(rows)
    number = sum(map(len, trees))
    shown = trees if is_whole else _newest(trees)
    left = number - sum(map(len, shown))
    lines = [["handle", "shows", "follows", "lod", "tokens", ""], *(line for tree in shown for line in tree)]
    note = f"\n\n{more(left, 'handle')}; `/views {ALL}` lists them, too." if left else ""
    return f"{table(lines, yielding=(1, 0), paths=(1,))}{note}\n\n{_handles_text_legend(rows)}"


def _trees(rows: Sequence[HandleRow]) -> list[list[list[str]]]:
    """The lines of each handle that is in no group, with those of what is in it; each handle once."""
    by_id = {row.obj_id: row for row in rows}
    inside = {child for row in rows for child in row.children}
    seen: set[str] = set()
    trees: list[list[list[str]]] = []
    for root in (*(row for row in rows if row.obj_id not in inside), *rows):
        tree: list[list[str]] = []
        waiting = [(root, 0)]
        while waiting:
            row, depth = waiting.pop()
            if row.obj_id not in seen:
                seen.add(row.obj_id)
                tree.append(_line(row, depth))
                waiting += [(by_id[child], depth + 1) for child in reversed(row.children) if child in by_id]
        if tree:
            trees.append(tree)
    return trees


def _newest(trees: Sequence[list[list[str]]]) -> list[list[list[str]]]:
    """The last of the trees that have room, in their order; the first lines of one that has not."""
    room = SHOWN_HANDLES
    kept: list[list[list[str]]] = []
    for tree in reversed(trees):
        kept.append(tree[:room])
        room -= len(kept[-1])
        if not room:
            break
    return kept[::-1]


def budget_of(row: HandleRow) -> str:
    """How many tokens a handle may take: a number, or All."""
    return f"{row.tokens:,}" if row.tokens else "All"


def _line(row: HandleRow, depth: int) -> list[str]:
    return [
        f"{'  ' * (min(depth, _DEEPEST) - 1)}└ {row.name}" if depth else row.name,
        row.title,
        _IDLE if row.idle else _FOLLOWS.get(row.freq, row.freq.replace("Periodic", "every")),
        _LEVELS.get(row.lod, str(row.lod)),
        f"{row.used_tokens:,} of {budget_of(row)}",
        "pinned" if row.pinned else "",
    ]


def _handles_text_legend(rows: Sequence[HandleRow]) -> str:
    name = next((row.name for row in rows if row.name != row.obj_id), "NAME")
    return "\n".join(
        (
            f"- `/run show({name})` shows one; `/run del {name}` ends it.",
            f"- `/run {name}.SetTokens(500)` and `/run {name}.SetLod(1)` change how much of it is shown.",
            f"- `/run {name}.Run()` has it follow its file, `/run {name}.Pause()` no longer.",
        )
    )
