"""What a rewind did to files, in words: one text for the report, the editor and the model. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..cutting import ELLIPSIS, more, plural
from ..events.rewinding import FileLeft, FileToRestore, Rewound
from ..text import printable

SHOWN_FILES: Final = 20


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


def _names(files: Iterable[FileToRestore], shown: Callable[[str], str]) -> str:
    names = [_name(file, shown) for file in files]
    return ", ".join([*names[:SHOWN_FILES], *[ELLIPSIS] * (len(names) > SHOWN_FILES)])


def _name(file: FileToRestore | FileLeft, shown: Callable[[str], str]) -> str:
    return printable(shown(file.path))
