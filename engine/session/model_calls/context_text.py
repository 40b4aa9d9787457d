"""Texts of `/context` and `/views`: where a prompt's tokens go, and the session's handles, in aligned columns.

They are for readers who do not know the program: what a model receives, what it costs, and the command that changes it.
Pure. `rewindow show --projection` prints the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Final
from unicodedata import east_asian_width

from msgspec import Struct

from ...context.tail.prompt import INSTRUCTIONS, MESSAGES
from ...core.levels import LEVELS_LINE
from ...core.text import ELLIPSIS, cut_line, fenced, more, printable
from ...files.tails import HandleRow

# --- aligned columns --------------------------------------------------------------------------------------------------

WIDTH: Final = 80
_GAP: Final = "  "
_NARROWEST: Final = (12, 6)
"""The least cells of a column that is cut: the second is used if the first does not make enough room."""


def table(
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    yielding: Sequence[int] = (),
    paths: Collection[int] = (),
) -> str:
    """Rows of texts as a fenced block of aligned columns, which looks the same in editors and terminals.

    Empty columns are left out. The block is at most WIDTH cells wide if cutting the texts of `yielding` suffices.

    Args:
        right: columns aligned at the right.
        yielding: columns whose texts may be cut, in this order.
        paths: columns whose texts are cut at the beginning, because their ends tell them apart.
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
    # Paths are redacted where they come from; names that code chose are not.
    return ELLIPSIS + part if is_path else cut_line(text, kept + 1)


def _padded(text: str, width: int, is_right: bool) -> str:
    space = " " * (width - cells(text))
    return space + text if is_right else text + space


# --- tokens of a prompt -----------------------------------------------------------------------------------------------

_BAR: Final = 8
"""Columns of a bar for the whole prompt."""
COMPACT: Final = "/compact"
_FIXED: Final = "(fixed)"
_PASSING: Final = "(until read)"
_LEAST: Final = 20
"""Below this many tokens, no command makes a handle noticeably smaller."""

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
    "plan": "your plan",
}
"""A description of each section."""


class NodeCost(Struct, frozen=True):
    """The tokens of a handle's texts. `budget`, and `change`, a command, are empty if unknown."""

    name: str
    title: str
    tokens: int
    budget: str = ""
    change: str = ""


class Breakdown(Struct, frozen=True, kw_only=True):
    """The tokens of one prompt.

    `shared` counts the leading tokens that the previous call had too; None if this is the first call. `nodes` are the
    largest of `node_count` handles; the count is None if there may be more. `counted` are the provider's numbers: sent,
    cached and received; None if unknown. `changes` has the command that changes each section; None for a prompt that
    was already sent. `answered` says whether a sent prompt got a reply; None if unknown.
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
    """The breakdown as Markdown: a paragraph that begins with `heading`, then tables with bars."""
    blocks = [f"{heading} {_whole(parts)}", _sections(parts)]
    if parts.nodes:
        blocks += [
            f"Tokens by handle (a view of a file, or a group of views){_of_all(parts)}:",
            _nodes(parts),
        ]
    legend = [] if parts.changes is None else _legend(parts)
    return "\n\n".join([*blocks, "\n".join(legend)] if legend else blocks)


def _of_all(parts: Breakdown) -> str:
    """Words for a list that does not have all handles."""
    shown, count = len(parts.nodes), parts.node_count
    return f", the {shown} largest" if count is None else f", the {shown} largest of {count:,}" if count > shown else ""


def _whole(parts: Breakdown) -> str:
    is_past = parts.changes is None
    beside = "." if is_past else ", and your next prompt."
    said = [f"{parts.used:,} tokens, of at most {parts.size:,} ({_percent(parts.used, parts.size)}){beside}"]
    if parts.shared is not None:
        said.append(
            f"The first {parts.shared:,} tokens ({_percent(parts.shared, parts.used)}) are the same as in the "
            f"{'call before' if is_past else 'last call'}, so a provider can take them from its cache."
        )
    sent, cached, received = parts.counted
    if sent is not None:
        from_cache = "" if cached is None else f", {cached:,} of them from its cache"
        said.append(f"The provider counted {sent:,} tokens{from_cache}, and {received or 0:,} of the reply.")
    if parts.answered is None:
        said.append("It is unknown whether the model answered: the agent ended, or the call is still running.")
    elif not parts.answered:
        said.append("The model did not answer.")
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
    lines = ["- `/compact` replaces the messages so far with a summary."] if set(MESSAGES) & set(parts.sections) else []
    if parts.nodes:
        lines += [
            "- `/run` runs your Python statement without a model. `.SetTokens(500)` sets a handle's budget, "
            f"`.SetLod(1)` its level of detail: {LEVELS_LINE}.",
            "- A budget limits each render of a handle. Earlier renders stay in `results` until replacing them pays, "
            "or until `/compact`. So a handle can take more than its budget.",
        ]
    return lines


def _bar(tokens: int, used: int) -> str:
    return "█" * round(_BAR * tokens / used) or "▏" if used and tokens else ""


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "0%"


# --- commands that make a prompt smaller ------------------------------------------------------------------------------


def section_changes(sections: Mapping[str, int], rows: Sequence[HandleRow]) -> Mapping[str, str]:
    """The command that changes each section of the next prompt, or a word in brackets if there is none."""
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
        "plan": _FIXED,
    }


def handle_change(row: HandleRow, shown: int) -> str:
    """The command that makes a handle take less, or "". `shown`: the tokens of its largest render in a result."""
    # A render larger than the budget is older than it, so another budget leaves it. Without a name none can be set.
    is_in_results = shown > row.tokens > 0 if _has_name(row) else shown > 0
    return COMPACT if is_in_results else smaller_change(row)


def smaller_change(row: HandleRow) -> str:
    """The command that roughly halves the tokens of a handle; "" without a name, or if it has few."""
    half = row.used_tokens // 2
    digits = 10 ** max(len(str(half)) - 2, 0)
    return f"/run {row.name}.SetTokens({half // digits * digits})" if _has_name(row) and half >= _LEAST else ""


def _largest(rows: Sequence[HandleRow]) -> Sequence[HandleRow]:
    return sorted(rows, key=lambda row: -row.used_tokens)


def _has_name(row: HandleRow) -> bool:
    """Whether the namespace has a name for the handle; if not, it is listed by its id."""
    return row.name != row.obj_id


# --- handles ----------------------------------------------------------------------------------------------------------

ALL: Final = "all"
"""The argument of `/views` that lists all handles."""
SHOWN_HANDLES: Final = 40
_DEEPEST: Final = 6
"""Deeper handles are not indented further, so that their names have room."""
_LEVELS: Final = LEVELS_LINE.split(", ")
_FOLLOWS: Final = {"": "no", "Sync": "each call", "Async": "when prepared"}
_IDLE: Final = "nothing, until a member runs"
_NONE: Final = 'There are no handles. `/run readme = view("README.md")` opens a view of a file.'


def views_text(rows: Sequence[HandleRow], *, is_whole: bool = False) -> str:
    """The handles as a table, members below their first group, and the commands for them.

    Args:
        is_whole: list all handles; by default the newest SHOWN_HANDLES, and the number of others.
    """
    if not rows:
        return _NONE
    trees = _trees(rows)
    number = sum(map(len, trees))
    shown = trees if is_whole else _newest(trees)
    left = number - sum(map(len, shown))
    lines = [["handle", "shows", "follows", "lod", "tokens", ""], *(line for tree in shown for line in tree)]
    note = f"\n\n{more(left, 'handle')}; `/views {ALL}` lists them." if left else ""
    return f"{table(lines, yielding=(1, 0), paths=(1,))}{note}\n\n{_handles_text_legend(rows)}"


def _trees(rows: Sequence[HandleRow]) -> list[list[list[str]]]:
    """The lines of each top-level handle and its members. Each handle occurs once."""
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
    """The last trees that fit, in their order; a tree that does not fit keeps its first lines."""
    room = SHOWN_HANDLES
    kept: list[list[list[str]]] = []
    for tree in reversed(trees):
        kept.append(tree[:room])
        room -= len(kept[-1])
        if not room:
            break
    return kept[::-1]


def budget_of(row: HandleRow) -> str:
    """The token budget of a handle: a number, or All."""
    return f"{row.tokens:,}" if row.tokens else "All"


def _line(row: HandleRow, depth: int) -> list[str]:
    return [
        f"{'  ' * (min(depth, _DEEPEST) - 1)}└ {row.name}" if depth else row.name,
        row.title,
        _IDLE if row.idle else _FOLLOWS.get(row.freq, row.freq.replace("Periodic", "every")),
        _LEVELS[row.lod],
        f"{row.used_tokens:,} of {budget_of(row)}",
        "pinned" if row.pinned else "",
    ]


def _handles_text_legend(rows: Sequence[HandleRow]) -> str:
    name = next((row.name for row in rows if row.name != row.obj_id), "NAME")
    return "\n".join(
        (
            f"- `/run show({name})` shows a handle; `/run del {name}` removes a handle.",
            f"- `/run {name}.SetTokens(500)` and `/run {name}.SetLod(1)` change how much of a handle is shown.",
            f"- `/run {name}.Run()` makes a handle follow its file, `/run {name}.Pause()` stops this.",
        )
    )
