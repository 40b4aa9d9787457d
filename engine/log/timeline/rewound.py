"""What a rewind did to files, in words: one text for the report, the editor and the model. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...core.cutting import ELLIPSIS, more, plural
from ...core.text import printable
from ..events import Event
from ..events.branches import HeadMoved
from ..events.rewinding import FileLeft, FileToRestore, Rewound

SHOWN_FILES: Final = 20
_FINISHED: Final = "A rewind that was cut off, because its process ended, is finished now."


def rewound_lines(event: Rewound, shown: Callable[[str], str]) -> Sequence[str]:
    """A sentence on the files that went back, and one on each that was left as it was; none where there was neither.

    Args:
        shown: how a path is spelled for whoever reads it.
    """
    count, names = len(event.restored), _names(event.restored, shown)
    files = plural(count, "file")
    if event.cancelled:
        back = f" {count} {files} could not be brought back to that: {names}." if count else ""
        return (f"The rewind was given up, and the files are as they were before it.{back}",)
    when = f"after statement {event.statement}" if event.statement else "at the beginning"
    lines = [f"Restored {count} {files} to what was there {when}: {names}."] * bool(count)
    lines += [f"{_name(left, shown)} is left as it is: {left.reason}." for left in event.left[:SHOWN_FILES]]
    if len(event.left) > SHOWN_FILES:
        lines.append(more(len(event.left) - SHOWN_FILES, "file", "that are left as they are"))
    return lines


def finished_lines(settled: Sequence[Event], shown: Callable[[str], str]) -> Sequence[str]:
    """Sentences on the rewind that the opening of a session has brought to its end; none where there was none.

    Args:
        settled: what the opening has added to the log.
        shown: as above.
    """
    files = [line for event in settled if isinstance(event, Rewound) for line in rewound_lines(event, shown)]
    head = [f"The session is on branch {event.branch}." for event in settled if isinstance(event, HeadMoved)]
    return [_FINISHED, *files, *head] if files else ()


def _names(files: Iterable[FileToRestore], shown: Callable[[str], str]) -> str:
    names = [_name(file, shown) for file in files]
    return ", ".join([*names[:SHOWN_FILES], *[ELLIPSIS] * (len(names) > SHOWN_FILES)])


def _name(file: FileToRestore | FileLeft, shown: Callable[[str], str]) -> str:
    return printable(shown(file.path))
