"""Which files a rewind or an undo leaves as they are, and why: the rules that need only the log and the plan.

**Nothing is lost.** A file stays if its place is unknown, or if its present content is not stored: a redo could not
bring it back (`why_unknown`).

**The only copy stays.** If a file cannot go back under its earlier name, its content may still have the name to which
it was moved. That one stays, too, though it could be restored (`OnlyCopies`, `leaving`).

**A claim is no trust.** Once a model, a client or an import has had a part in a session, a file that other programs run
gets only contents that the user has allowed there: somebody could choose what these programs run (`Claims`).

**A client writes no such file at all**, whatever the log says (`without_protected`).

What is on the disk is judged as each file is restored: by `tools.restoring`, and by the editor's buffers. What cannot
be known of the earlier content is judged by `log.file_history`. Used by `rewinding` and `undoing`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final

import xxhash

from ...core.execution import DIRECTORY
from ...log.events import Event
from ...log.events.execution import FileWritten
from ...log.events.going_back import FileLeft, FileToRestore, RewindBegun, Rewound
from ...log.facts import SessionFacts
from ...log.file_history import Restorable, is_unknown
from ...log.redaction import HIDDEN
from ..tools import REPLACED, UNTRUSTED, Workspace

HIDDEN_PATH: Final = "the path contains a secret, which is not recorded, so the file is unknown"
NOT_UTF8: Final = "the name is not UTF-8, so the file could not be created again"
NOT_STORED: Final = "the present content is not stored, so a restore would lose it"
ONLY_COPY: Final = "this is the only copy of a file that could not be restored under its earlier name"
PROTECTED: Final = "the file is protected, because {}, and the editor may not write it; restore it yourself"
_UNRESOLVED: Final = "the path cannot be resolved"
_EMPTY: Final = xxhash.xxh3_64_hexdigest(b"")
_NO_CONTENT: Final = ("", DIRECTORY, _EMPTY)
"""Digests of what nobody would miss, and that says nothing about who wrote it."""


def leaving(found: Restorable, why: Callable[[FileToRestore], str]) -> Restorable:
    """Return the plan without files for which `why` gives a reason, and without losing the only copy of one."""
    reasons = {file.path: reason for file in found.files if (reason := why(file))}
    copies = OnlyCopies(each.path for each in found.left)
    for file in found.files:
        if file.path in reasons:
            copies.leave(file)
    while more := [file for file in found.files if file.path not in reasons and copies.has(file)]:
        for file in more:
            reasons[file.path] = ONLY_COPY
            copies.leave(file)
    files = tuple(file for file in found.files if file.path not in reasons)
    return Restorable(files, (*found.left, *(FileLeft(path=path, reason=why) for path, why in reasons.items())))


def why_unknown(file: FileToRestore) -> str:
    """Return why a file stays of which the log does not know enough; empty if it does."""
    if HIDDEN in file.path:
        return HIDDEN_PATH
    if REPLACED in file.path and "" in (file.present_digest, file.wanted_digest):
        return NOT_UTF8
    return NOT_STORED if is_unknown(file.present, file.present_digest) else ""


class OnlyCopies:
    """Files that hold what nothing else holds, because others, which had it, are not restored.

    A file that was moved names its `source`. If it was moved in several acts, only its content tells.
    """

    def __init__(self, left: Iterable[str] = ()) -> None:
        self._left = set(left)
        self._digests: set[str] = set()

    def leave(self, file: FileToRestore) -> None:
        """Note that a file is not restored."""
        self._left.add(file.path)
        if file.wanted_digest not in _NO_CONTENT:
            self._digests.add(file.wanted_digest)

    def has(self, file: FileToRestore) -> bool:
        """Return whether restoring a file would remove or replace the only copy of a file that is not restored."""
        return file.source in self._left or (not file.wanted_digest and file.present_digest in self._digests)


class Claims:
    """Contents of which nobody knows that they are the user's choice.

    In a session of the user alone there are none. In another one, a statement, a program that it left running, or a
    merge may have written any part of any content. So the user has chosen a content only if the file was protected when
    it was written, because then the user was asked.

    Args:
        events: the whole log.
        is_way_back: whether contents come back that were there a moment ago, whoever wrote them.
    """

    def __init__(self, events: Sequence[Event], facts: SessionFacts, *, is_way_back: bool = False) -> None:
        self._is_foreign = facts.is_foreign
        self._is_way_back = is_way_back
        self._paths: Container[str] = ()
        self._allowed: Container[tuple[str, str]] = ()
        if facts.is_foreign:
            imported = facts.imported_at
            self._paths = {path for each in events for path in _claimed(each, is_imported=each.seq <= imported)}
            self._allowed = set(_allowed(events, imported))

    def has(self, file: FileToRestore) -> bool:
        """Return whether a content would come back that is only claimed, or that the user has not allowed there."""
        if not self._is_foreign:
            return False
        is_allowed = self._is_way_back or file.wanted_digest in _NO_CONTENT
        return file.path in self._paths or not (is_allowed or (file.path, file.wanted_digest) in self._allowed)

    def without_untrusted(self, found: Restorable, workspace: Workspace) -> Restorable:
        """Return the plan without protected files that would get a claimed content. Blocks."""
        claimed = [file.path for file in found.files if self.has(file)]
        if claimed:
            workspace.protection.current_places()  # the user may have made a link to one since the last look
        reasons = {path: why_protected(workspace, path) for path in claimed}
        return leaving(found, lambda file: UNTRUSTED.format(why) if (why := reasons.get(file.path)) else "")


def _claimed(event: Event, *, is_imported: bool) -> Iterable[str]:
    """Return the paths whose contents the event claims, without this program having read them."""
    match event:
        case FileWritten(path=path) if is_imported or event.noticed:
            return (path,)
        case Rewound(restored=files) | RewindBegun(files=files) if is_imported:
            return (file.path for file in files)
        case _:
            return ()


def _allowed(events: Iterable[Event], imported: int) -> Iterator[tuple[str, str]]:
    """Yield the paths and digests of the contents that a protected file had when the user was asked about it."""
    for event in events:
        if isinstance(event, FileWritten) and event.protected and event.seq > imported:
            yield from ((event.path, digest) for digest in (event.before_digest, event.after_digest))


def without_protected(found: Restorable, workspace: Workspace) -> Restorable:
    """Return the plan without files that are protected now. Blocks."""
    reasons = {file.path: why_protected(workspace, file.path) for file in found.files}
    return leaving(found, lambda file: PROTECTED.format(why) if (why := reasons[file.path]) else "")


def why_protected(workspace: Workspace, path: str) -> str:
    """Return why a file is protected, because other programs run it; empty if it is not. Blocks."""
    try:
        return workspace.protection.why(os.path.realpath(workspace.absolute(path)))
    except (OSError, ValueError):  # a program may exchange a directory and a link meanwhile
        return _UNRESOLVED
