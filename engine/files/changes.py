"""What a tick brought a view, in words: the kind of the change, one line on it, and a short diff.

Pure. Called by ViewHandle; the levels and groups take words from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..core.cutting import plural
from ..log.events.nodes import FileChangeKind
from .paged_change import change_between, size_of
from .revision import Revision
from .ticks.delta import describe, with_added
from .ticks.result import SourceChange, TickResult
from .unsaved import NOTICES

_DELTA_TOKENS: Final = 300
"""Budget of the diff that one tick reports of one view."""
_NAMED: Final = 8
"""Entries of a directory that are named of each kind."""
_SAVED: Final = "is on disk now as the editor had it"
_UNSAVED: Final = "is another file on disk now, and unsaved in the editor"


def told(
    title: str, path: str, before: Revision, after: Revision, count: Callable[[str], int], note: str = ""
) -> TickResult:
    """How a document changed. `note` is a clause on the view, which follows the first line."""
    if before.digest and before.digest == after.digest:
        summary = delta = f"{title} {_SAVED if before.notice in NOTICES else _UNSAVED}"
    elif before.state == after.state == "text":
        form = changed_form(before, after)
        summary, delta = describe(title, before.lines, after.lines, count, _DELTA_TOKENS, form)
    elif before.is_listing and after.is_listing:
        summary = delta = f"entries of {title}: {_of_listings(before, after)}"
    elif {before.state, after.state} <= {"text", "paged"}:
        change = change_between(before, after)
        summary = f"{title} changed: {change.said}"
        delta = with_added(summary, change.added, count, _DELTA_TOKENS)
    else:
        summary = delta = _sentence(title, before, after)
    source = SourceChange(
        path=path, change=_kind(before, after), before_digest=before.digest, after_digest=after.digest
    )
    ended = f"{summary}; {note}" if note else summary
    return TickResult(summary=ended, delta=ended + delta.removeprefix(summary), source=source)


def counted(changes: Iterable[tuple[str, Sequence[str]]], most: int = _NAMED) -> str:
    """What became of how many, with the names of the first of them: `2 changed (a.py, b.py), 1 gone (c.py)`.

    Args:
        changes: what became of them, and their names; left out where there are none.
        most: names of each that are said.
    """
    said: list[str] = []
    for what, names in changes:
        rest = f" and {len(names) - most:,} more" if len(names) > most else ""
        if names:
            said.append(f"{len(names):,} {what} ({', '.join(names[:most])}{rest})")
    return ", ".join(said)


def changed_form(before: Revision, after: Revision) -> str:
    """In what two texts differ besides their lines: `LF became CRLF`; empty for nothing, or where one has no line."""
    if not before.lines or not after.lines:
        return ""
    facts = ((before.line_ends, after.line_ends), (before.encoding, after.encoding))
    said = [f"{was} became {now}" for was, now in facts if was != now and not {was, now} & {"", "text"}]
    if before.final_newline != after.final_newline:
        said.append("a newline was added at the end" if after.final_newline else "the newline at the end was removed")
    return ", ".join(said)


def content_of(revision: Revision) -> str:
    """How much there is, to follow a title; empty where there is nothing, which a line of its own explains."""
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
        return _inner(after.notice)  # a sentence by itself
    if before.state == "missing":
        return f"{title} is there now{content_of(after)}"
    if before.state == after.state:
        return f"{title} changed{content_of(after)}"
    text = f"{_amount(after)} of text" if after.lines else "an empty text"
    what = f": {text}" if after.state == "text" else content_of(after)
    return f"{title} is something else now{what}" if before.has_content else f"{title} can be read now{what}"


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
