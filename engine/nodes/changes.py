"""What a tick brought a view, in words: the kind of the change, one line on it, and a short diff.

Pure. Called by ViewHandle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..cutting import plural
from ..events.nodes import FileChangeKind
from ..ticks.delta import describe
from ..ticks.result import SourceChange, TickResult
from .revision import Revision

_DELTA_TOKENS: Final = 300
"""Budget of the diff that one tick reports of one view."""
_SENTENCES: Final[dict[FileChangeKind, str]] = {
    "modified": "changed",
    "created": "is there now",
    "deleted": "was deleted",
    "unreadable": "cannot be read any more",
}


def told(
    title: str, path: str, before: Revision, after: Revision, count: Callable[[str], int], note: str = ""
) -> TickResult:
    """How a document changed. `note` is a clause on the view, which follows the first line."""
    change = _kind(before, after)
    if before.state == after.state and after.state in ("text", "directory"):
        summary, delta = describe(title, before.lines, after.lines, count, _DELTA_TOKENS)
    else:
        summary = delta = f"{title} {_SENTENCES[change]}{content_of(after)}"
    source = SourceChange(path=path, change=change, before_digest=before.digest, after_digest=after.digest)
    ended = f"{summary}; {note}" if note else summary
    return TickResult(summary=ended, delta=ended + delta.removeprefix(summary), source=source)


def content_of(revision: Revision) -> str:
    """How much there is, or why there is nothing, to follow a title; empty for what is missing."""
    if revision.state == "text":
        return f": {len(revision.lines)} {plural(len(revision.lines), 'line')}"
    return "" if revision.state == "missing" else f": {revision.notice.strip('()')}"


def _kind(before: Revision, after: Revision) -> FileChangeKind:
    if after.state == "missing":
        return "deleted"
    if not after.has_content:
        return "unreadable"
    return "created" if before.state == "missing" else "modified"
