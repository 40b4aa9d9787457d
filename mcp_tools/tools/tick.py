"""`tick`: has what is followed catch up, and tells what changed, since then or since a cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from engine import plural
from mcp_tools.arguments import ArgumentError
from mcp_tools.replies import CURSOR, Reply
from mcp_tools.tools.row import TOKENS, Report, ToolRow, described, schema

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import FeedItem
    from mcp_tools.bench import Bench

_TOKENS: Final = 2000
_MOST_SECONDS: Final = 25
_REST_TOKENS: Final = 16


async def call(bench: Bench, arguments: Mapping[str, Any], _report: Report) -> Reply:
    """Carries out a call; see the row."""
    since = arguments.get("since")
    if since is not None and since > bench.cursor:
        raise ArgumentError(f"There is no cursor {since} yet; the newest is {bench.cursor}.")
    if since is None:
        since = bench.cursor
    if arguments.get("wait"):
        await bench.until_changed(since, arguments["wait"])
    await bench.tick()
    items = bench.changes(since)
    cursor = bench.cursor
    text = await changes_text(bench, items, arguments.get("tokens", _TOKENS))
    return Reply(text=f"{text}\ncursor {cursor}", meta={CURSOR: cursor})


async def changes_text(bench: Bench, items: Sequence[FeedItem], tokens: int) -> str:
    """The changes within a budget, the oldest first; where not all fit, the newest, and how many are missing."""
    if not items:
        return "Nothing changed."
    names = {row.obj_id: row.name for row in (await bench.look()).rows}
    texts = [_line(item, names) for item in items]
    costs = await bench.session.count([f"{text}\n" for text in texts])
    first, left = len(texts), tokens - _REST_TOKENS
    while first > 0 and costs[first - 1] <= left:
        first -= 1
        left -= costs[first]
    if first < len(texts):
        return "\n".join([*_left_out(first), *texts[first:]])
    # Not even the newest fits beside the line that counts the others: of it there is what that line leaves room for.
    missing = "\n".join(_left_out(len(texts) - 1))
    (cost,) = await bench.session.count([f"{missing}\n"])
    if cost > tokens:
        return await bench.fitted(missing or texts[-1], tokens)
    return f"{missing}\n{await bench.fitted(texts[-1], tokens - cost)}".strip("\n")


def _left_out(number: int) -> list[str]:
    return [f"{number} earlier {plural(number, 'change')} left out"] if number else []


def _line(item: FeedItem, names: Mapping[str, str]) -> str:
    name = names.get(item.obj_id, item.obj_id)
    return f"{name}: {item.text}" if name else item.text


ROW: Final = ToolRow(
    name="tick",
    title="Catch up with changed files",
    description=(
        "Updates every view and group that follows its files, and tells changes as short diffs, then a cursor."
    ),
    read_only=True,
    schema=schema(
        {
            "since": described("a cursor: tell what changed since", {"type": "integer", "minimum": 0}),
            "wait": described(
                "seconds to wait for a change first", {"type": "number", "minimum": 0, "maximum": _MOST_SECONDS}
            ),
            "tokens": described("budget, 2000 if left out", TOKENS),
        }
    ),
    call=call,
    takes_long=lambda arguments: bool(arguments.get("wait")),
    facts=(CURSOR,),
)
