"""Changes of a document in words: a line, and a unified diff within a token budget.

Text in, text out; knows no node and no file. Called by ViewHandle when a tick brings new content; levels of detail and
groups use some of the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ..core.diff import Opcode, hunk_lines, hunks, opcodes
from ..core.text import DOTS, cut_line, plural
from ..log.events.nodes import FileChangeKind
from .buffers import NOTICES
from .paging import PagedLines, PageLostError
from .revision import Revision
from .ticks import SourceChange, TickResult

_CONTEXT: Final = 1
_LONGEST_LINE: Final = 200
"""Characters of a changed line in a delta."""


def describe(
    title: str, before: Sequence[str], after: Sequence[str], count: Callable[[str], int], budget: int, form: str = ""
) -> tuple[str, str]:
    """Return a summary line, and the summary with as much of the diff as `budget` tokens hold.

    Neither ends in a newline. The summary is never truncated: it is short except for the title. `form` names changes
    besides the lines, if known.
    """
    # Without carriage returns, so that a change of all line ends is one sentence and not a diff of equal lines.
    before, after = (tuple(line.rstrip("\r") for line in lines) for lines in (before, after))
    codes = opcodes(before, after)
    changed = [code for code in codes if code.tag != "equal"]
    if not changed:
        summary = f"only the form of {title} changed: {form or 'encoding, line ends or final newline'}"
        return summary, summary
    removed = sum(code.i2 - code.i1 for code in changed)
    added = sum(code.j2 - code.j1 for code in changed)
    lines = sum(max(code.i2 - code.i1, code.j2 - code.j1) for code in changed)
    noun = "line" if lines == 1 else "lines"
    summary = f"{lines} {noun} changed in {title} (+{added} -{removed}), first at line {changed[0].j1 + 1}"
    summary += f"; {form}" if form else ""
    return summary, _within(summary, _unified(codes, before, after), count, budget)


def with_added(summary: str, added: Iterable[str], count: Callable[[str], int], budget: int) -> str:
    """Return the summary, and as many of the added lines as `budget` tokens hold."""
    return _within(summary, (cut_line("+" + line.rstrip("\r"), _LONGEST_LINE) for line in added), count, budget)


def _within(summary: str, diff: Iterator[str], count: Callable[[str], int], budget: int) -> str:
    """Keep the diff lines that fit.

    A last line marks the truncation, if it fits too.
    """
    kept = [summary]
    used = count(summary + "\n")
    is_cut = False
    for line in diff:
        used += count(line + "\n")
        if used > budget:
            is_cut = True
            break
        kept.append(line)
    text = "\n".join(kept)
    # Count the whole, because a blank context line may merge with its neighbours, and then the sum is too low.
    while len(kept) > 1 and count(text + (f"\n{DOTS}\n" if is_cut else "\n")) > budget:
        kept.pop()
        is_cut = True
        text = "\n".join(kept)
    return f"{text}\n{DOTS}" if is_cut and len(kept) > 1 else text


def _unified(codes: Sequence[Opcode], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for hunk in hunks(codes, _CONTEXT):
        yield from hunk_lines(hunk, before, after, _LONGEST_LINE)


# --- large texts -----------------------------------------------------------------------------------------------------


_LONGEST: Final = 400
"""Characters of an added line in a report."""


class Change(NamedTuple):
    """How a text that is read by pages changed: where it begins to differ, or what was added at its end."""

    summary: str
    added: Iterable[str] = ()


def size_of(revision: Revision) -> str:
    """Describe the size of a text in a few words."""
    lines = len(revision.lines)
    return f"{lines:,} {plural(lines, 'line')}, {revision.size:,} bytes"


def change_between(before: Revision, after: Revision) -> Change:
    """Compare two texts, at least one of which is read by pages.

    Equal pages are known without reading. To see that only the end is new, as in a log, the last page of the old text
    is read, which the file then still has.
    """
    old, new = before.lines, after.lines
    sizes = f"{len(old):,} {plural(len(old), 'line')} became {len(new):,}"
    if not isinstance(old, PagedLines) or not isinstance(new, PagedLines):
        return Change(sizes)
    if _is_grown(old, new):
        begins, number = len(old) - (not old.pages.final_newline), len(new) - len(old)
        summary = f"{number:,} {plural(number, 'line')} added at the end, from line {begins + 1:,} on"
        return Change(summary, _lines(new, begins))
    first = old.pages.lines[old.pages.common(new.pages)] + 1
    return Change(f"{sizes}, the first change at or after line {first:,}")


def _is_grown(old: PagedLines, new: PagedLines) -> bool:
    last = old.pages.number - 1
    first = min(old.pages.common(new.pages), last)
    # Appended text changes the last page, and the one before it if its line had no end.
    if new.pages.codec != old.pages.codec or first < last - 1 or len(new) < len(old):
        return False
    *whole, end = range(old.pages.lines[first], len(old))
    try:
        if any(old[line] != new[line] for line in whole):
            return False
        return new[end] == old[end] if old.pages.final_newline else new[end].startswith(old[end])
    except ValueError:
        return False  # a page is lost, or the line is too long to compare


def _lines(new: PagedLines, begins: int) -> Iterator[str]:
    for line in range(begins, len(new)):
        try:
            yield new.part(line, 0, _LONGEST)
        except PageLostError:
            return


# --- reports of ticks ------------------------------------------------------------------------------------------------


_DELTA_TOKENS: Final = 300
"""Budget of the diff in a tick's report about a view."""
_NAMED: Final = 8
"""Number of directory entries named for each kind of change."""
_SAVED: Final = "now has the editor's text on disk"
_UNSAVED: Final = "changed on disk, and its text in the editor is unsaved"


def report(
    title: str,
    path: str,
    before: Revision,
    after: Revision,
    count: Callable[[str], int],
    note: str = "",
    budget: int = _DELTA_TOKENS,
) -> TickResult:
    """Report a change of a document.

    `note` is a clause about the view, after the first line. `budget` is for the diff, in tokens.
    """
    if before.digest and before.digest == after.digest:
        summary = delta = f"{title} {_SAVED if before.notice in NOTICES else _UNSAVED}"
    elif before.state == after.state == "text":
        form = changed_form(before, after)
        summary, delta = describe(title, before.lines, after.lines, count, budget, form)
    elif before.is_listing and after.is_listing:
        summary = delta = f"entries of {title}: {_of_listings(before, after)}"
    elif {before.state, after.state} <= {"text", "paged"}:
        change = change_between(before, after)
        summary = f"{title} changed: {change.summary}"
        delta = with_added(summary, change.added, count, budget)
    else:
        summary = delta = _sentence(title, before, after)
    source = SourceChange(
        path=path, change=_kind(before, after), before_digest=before.digest, after_digest=after.digest
    )
    ended = f"{summary}; {note}" if note else summary
    return TickResult(summary=ended, delta=ended + delta.removeprefix(summary), source=source)


def counted(changes: Iterable[tuple[str, Sequence[str]]], most: int = _NAMED) -> str:
    """Count changes, with the first names of each kind: `2 changed (a.py, b.py), 1 gone (c.py)`.

    Args:
        changes: kinds of change with their names; kinds without names are omitted.
        most: number of names for each kind.
    """
    parts: list[str] = []
    for what, names in changes:
        rest = f" and {len(names) - most:,} more" if len(names) > most else ""
        if names:
            parts.append(f"{len(names):,} {what} ({', '.join(names[:most])}{rest})")
    return ", ".join(parts)


def changed_form(before: Revision, after: Revision) -> str:
    """Describe a change besides the lines, such as `LF became CRLF`.

    Returns "" for none, or empty text.
    """
    if not before.lines or not after.lines:
        return ""
    facts = ((before.line_ends, after.line_ends), (before.encoding, after.encoding))
    parts = [f"{was} became {now}" for was, now in facts if was != now and not {was, now} & {"", "text"}]
    if before.final_newline != after.final_newline:
        parts.append("a newline was added at the end" if after.final_newline else "the newline at the end was removed")
    return ", ".join(parts)


def content_of(revision: Revision) -> str:
    """Describe the size of a content, to follow a title.

    Returns "" without content, which has its own notice.
    """
    if revision.state == "text":
        return f": {_amount(revision)}"
    if revision.state == "paged":
        return f": {size_of(revision)}"
    return f": {_inner(revision.notice)}" if revision.has_content else ""


def _amount(revision: Revision) -> str:
    lines = len(revision.lines)
    return f"{lines} {plural(lines, 'line')}" if lines else "empty"


def _sentence(title: str, before: Revision, after: Revision) -> str:
    if after.state == "missing":
        return f"{title} was deleted"
    if not after.has_content:
        return _inner(after.notice)  # a whole sentence
    if before.state == "missing":
        return f"{title} exists now{content_of(after)}"
    if before.state == after.state:
        return f"{title} changed{content_of(after)}"
    text = f"{_amount(after)} of text" if after.lines else "empty text"
    what = f": {text}" if after.state == "text" else content_of(after)
    return f"{title} was replaced{what}" if before.has_content else f"{title} can be read now{what}"


def _inner(notice: str) -> str:
    return notice.removeprefix("(").removesuffix(")")


def _of_listings(before: Revision, after: Revision) -> str:
    had, has = set(before.lines), set(after.lines)
    fresh = [name for name in after.lines if name not in had]
    gone = [name for name in before.lines if name not in has]
    return counted((("new", fresh), ("gone", gone))) or "in another order"


def _kind(before: Revision, after: Revision) -> FileChangeKind:
    if after.state == "missing":
        return "deleted"
    if not after.has_content:
        return "unreadable"
    return "created" if before.state == "missing" else "modified"
