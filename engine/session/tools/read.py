"""`read(path, start_line=None, end_line=None)`: a text file, or some of its lines."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import msgspec

from ...files.revision import digest_of
from ...files.safe_open import opened_file
from .workspace import Workspace

# What a tool has read of a file, with what the whole of it was: whoever changes it later must have seen that.


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer about one file.

    Args:
        path: absolute, the real place of the file, links resolved.
        digest: xxh3 hex of the whole file.
        value: plain data that the statement gets.
    """

    path: str
    digest: str
    value: object


# read:
# `read(path, start_line=None, end_line=None)`: a text file, or some of its lines, as a string.

MAX_BYTES: Final = 8 << 20
"""Larger files have to be read by lines or looked at through a view."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines count from 1; `end_line` is the last one included."""

    path: str
    start_line: int | None = None
    end_line: int | None = None


def perform(workspace: Workspace, arguments: Arguments, limit: int = MAX_BYTES) -> Reading:
    """The text, unsaved or not, UTF-8 with undecodable bytes replaced.

    Raises:
        OSError: the file cannot be read, or lies outside the workspace.
        ValueError: the lines make no range, or the file has more than `limit` bytes.
    """
    start = 1 if arguments.start_line is None else arguments.start_line
    end = arguments.end_line
    if start < 1 or (end is not None and end < start):
        raise ValueError(f"lines {start} to {end} are no range; lines count from 1")
    place, data = _content(workspace, arguments.path, limit)
    if len(data) > limit:
        raise ValueError(f"{arguments.path} has more than {limit >> 20} MiB; use view(), or open() in the statement")
    text = data.decode("utf-8", "replace")
    if start > 1 or end is not None:
        text = "".join(text.splitlines(keepends=True)[start - 1 : end])
    return Reading(path=place, digest=digest_of(data), value=text)


def _content(workspace: Workspace, path: str, limit: int) -> tuple[str, bytes]:
    """The real place of the file, and a byte more of it than `limit`, or all."""
    absolute = workspace.absolute(path)
    for place, data in workspace.unsaved.items():
        if os.path.realpath(absolute) == place:
            return place, data
    with opened_file(absolute, workspace.roots) as file:
        return os.readlink(f"/proc/self/fd/{file.fileno()}"), file.read(limit + 1)
