"""Where the tokens of a prompt go, as text: a bar for each part and each handle, with what changes it.

For somebody who has not seen the program: what a model is sent, what that costs, and which command makes it less. The
columns stand in a code block, because editors and terminals show that alike. Pure; used by `/context` and by
`rewindow show --projection`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..cutting import cut_line
from ..ports import HandleRow
from ..text import printable

_BAR: Final = 12
"""Columns of a bar that stands for all that is sent. With these a row fits a terminal of 80 columns."""
_NAME_COLUMNS: Final = 13
_TITLE_COLUMNS: Final = 30
_BEFORE: Final = "/compact"
_TOLD: Final = "nothing: told once"

PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "instructions": ("how to work here", "nothing"),
    "prompts": ("what you wrote", _BEFORE),
    "replies": ("what the model wrote", _BEFORE),
    "statements": ("the Python that ran", _BEFORE),
    "results": ("what that printed", _BEFORE),
    "summary": ("for older messages", _BEFORE),
    "timeline": ("older statements", "nothing: bounded"),
    "feed": ("what changed", _TOLD),
    "handles": ("the table of handles", "del NAME"),
    "groups": ("changed groups", "NAME.SetTokens(n)"),
    "expansions": ("what you showed", _TOLD),
    "pins": ("what is pinned", "unpin(NAME)"),
}
"""What each section is, and what changes it."""


class NodeCost(Struct, frozen=True):
    """What the renders of a handle take. `name` is empty for one that has none now."""

    name: str
    title: str
    tokens: int
    budget: str = ""


class Breakdown(Struct, frozen=True, kw_only=True):
    """The tokens of one prompt. `shared` of them, from the first on, were in the call before; None: there was none.

    `counted` are the provider's: sent, of which cached, and received; None where they are not known.
    """

    sections: Mapping[str, int]
    size: int
    shared: int | None = None
    nodes: Sequence[NodeCost] = ()
    counted: tuple[int | None, int | None, int | None] = (None, None, None)

    @property
    def used(self) -> int:
        return sum(self.sections.values())


def breakdown_text(parts: Breakdown) -> str:
    """The bars as Markdown: a sentence on the whole, then a code block."""
    blocks = [_whole(parts), _fenced(_section_lines(parts))]
    if parts.nodes:
        blocks += ["Of these, by handle:", _fenced(_node_lines(parts)), _NODES_CHANGE]
    return "\n\n".join(blocks)


_NODES_CHANGE: Final = (
    "What a handle takes from now on: `NAME.SetTokens(500)` gives it fewer tokens, `NAME.SetLod(2)` another level of "
    "detail (lod 0 is the text, 1 an outline, 2 a summary, 3 what changed). What it has shown stays in results until "
    "`/compact` sums them up, and counts here too, so that a handle may take more than its budget. Commands with a "
    "slash are yours; the others are Python, which the model runs, or you in a session without a model."
)


def _whole(parts: Breakdown) -> str:
    said = [f"{parts.used:,} of {parts.size:,} tokens ({_percent(parts.used, parts.size)})."]
    if parts.shared is not None:
        said.append(
            f"The first {parts.shared:,} of them ({_percent(parts.shared, parts.used)}) are the same as in the call "
            "before, so a provider can take them from its cache."
        )
    sent, cached, received = parts.counted
    if sent is not None:
        from_cache = "" if cached is None else f", {cached:,} of them from its cache"
        said.append(f"The provider counted {sent:,} tokens{from_cache}, and {received or 0:,} of the reply.")
    return " ".join(said)


def _section_lines(parts: Breakdown) -> list[str]:
    rows = [(name, tokens, *PARTS.get(name, ("", ""))) for name, tokens in parts.sections.items()]
    width = max((len(about) for _, _, about, _ in rows), default=0)
    head = _row("part", "tokens", "", f"{'what it is':<{width}}  what makes it less")
    return [
        head,
        *(
            _row(name, f"{tokens:,}", _bar(tokens, parts.used), f"{about:<{width}}  {change}")
            for name, tokens, about, change in rows
        ),
    ]


def _node_lines(parts: Breakdown) -> list[str]:
    return [
        _row(cut_line(node.name, _NAME_COLUMNS), f"{node.tokens:,}", _bar(node.tokens, parts.used), _about(node))
        for node in parts.nodes
    ]


def _about(node: NodeCost) -> str:
    title = cut_line(printable(node.title), _TITLE_COLUMNS)
    return f"{title}, budget {node.budget}" if node.budget else title


def _row(name: str, tokens: str, bar: str, rest: str) -> str:
    return f"{name:<{_NAME_COLUMNS}}{tokens:>8}  {bar:<{_BAR}}  {rest}".rstrip()


def _bar(tokens: int, used: int) -> str:
    return "█" * round(_BAR * tokens / used) or "▏" if used and tokens else ""


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _fenced(lines: Sequence[str]) -> str:
    return "```text\n" + "\n".join(lines) + "\n```"


# --- handles --------------------------------------------------------------------------------------------------------


def views_text(rows: Sequence[HandleRow]) -> str:
    """The handles as a Markdown table, those in a group below it; one that is in several stands below the first."""
    if not rows:
        return 'No handles yet. Open one: `readme = view("README.md")`'
    by_id = {row.obj_id: row for row in rows}
    inside = {child for row in rows for child in row.children}
    lines: list[str] = []
    shown: set[str] = set()

    def add(row: HandleRow, depth: int) -> None:
        if row.obj_id in shown:
            return
        shown.add(row.obj_id)
        lines.append(_view_line(row, depth))
        for child in row.children:
            if child in by_id:
                add(by_id[child], depth + 1)

    for row in (*(row for row in rows if row.obj_id not in inside), *rows):
        add(row, 0)
    head = ["| handle | shows | mode | lod | tokens |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *lines])


def _view_line(row: HandleRow, depth: int) -> str:
    name = f"{'&nbsp;&nbsp;' * (depth - 1)}└ `{row.name}`" if depth else f"`{row.name}`"
    mode = f"{row.mode} {row.freq}".strip() + (", pinned" if row.pinned else "")
    title = row.title.replace("|", "\\|")
    return f"| {name} | {title} | {mode} | {row.lod} | {row.used_tokens:,} of {budget_of(row)} |"


def budget_of(row: HandleRow) -> str:
    """How many tokens a handle may take: a number, or All."""
    return f"{row.tokens:,}" if row.tokens else "All"
