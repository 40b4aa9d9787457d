"""Texts of the user's editor in front of the disk: when the editor is asked, and which text is unsaved.

Used by looks, for views, and by the tools that read and change files (`if_saved`). Must not know who answers, nor what
is recorded; a replay never gets here. Until the first call of `forget` no editor is followed, and a look costs one
comparison more.

An editor has text, and a file has bytes. An editor may drop the byte order mark, turn every line end into a newline,
show what is not UTF-8 as U+FFFD, and lose the newline at the end. None of that is a change by the user. So texts are
compared without these, and an unsaved text is encoded like the file: encoding, mark and line ends. A diff of the two
then shows the user's changes and nothing else.

A text is cached until `forget` says that it may have changed. A tick relies on that: it asks for unknown texts, in one
question (`expect`), and for nothing else. A look of a statement is a wish to see the file, so the first look at a path
in each statement asks again, because editors need not report changes.

An editor may lag behind the disk. After a program has changed a file, an editor keeps the old text until it notices,
which looks like an unsaved text. So a text that the disk had before its last change counts as old while that change is
recent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import xxhash

from ..core.encodings import UTF_8, Decoded, Encoding, decode, line_ends, with_line_ends
from ..core.text import valid_text
from .manifest import is_glob
from .revision import LARGEST, Found, Hide, decoded, digest_of, recorded_path
from .sources import Files

UNSAVED: Final = "(unsaved: text of the editor; the file on disk differs)"
ONLY_IN_EDITOR: Final = "(unsaved: text of the editor; there is no such file on disk)"
NOTICES: Final = (UNSAVED, ONLY_IN_EDITOR)
"""The notices of unsaved texts, by which the log recognizes them."""
_MARK: Final = "\ufeff"


def if_saved(text: str, on_disk: bytes | None) -> bytes | None:
    """Return the file's content if the editor saved this text.

    Returns None if it is the same, or binary.

    Args:
        text: the editor's text.
        on_disk: the file's content; None without a file, which an editor may show as an empty text.
    """
    text = valid_text(text).removeprefix(_MARK)
    if on_disk is None:
        return text.encode() or None
    found = decode(on_disk)
    if found is None or _plain(text) in _readings(on_disk, found):
        return None
    return _encoded(with_line_ends(text, line_ends(found.text)), found.encoding)


def mark_of(text: str) -> str:
    """Return the xxh3 hex of a text, equal for all texts that an editor may have of one content."""
    return xxhash.xxh3_64_hexdigest(_plain(valid_text(text).removeprefix(_MARK)).encode())


def _readings(on_disk: bytes, found: Decoded) -> tuple[str, ...]:
    """Return the texts that an editor may have of this content."""
    if found.encoding.codec == UTF_8.codec:
        return (_plain(found.text),)
    return _plain(found.text), _plain(on_disk.decode("utf-8", "replace"))


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def _encoded(text: str, encoding: Encoding) -> bytes:
    try:
        return encoding.encode(text)
    except UnicodeEncodeError:
        return text.encode()


# --- buffers ---------------------------------------------------------------------------------------------------------


_LAG_SECONDS: Final = 10.0
_EARLIER: Final = 8
"""Number of earlier contents that are remembered for each path."""

LookAtDisk = Callable[[Found | None], Found]
"""Looks at one file on disk, given the result of the look before."""
AskEditor = Callable[[Sequence[str]], Mapping[str, str | None]]
"""Returns the editor's texts by absolute path: None for no text, no entry for unknown.

Blocks until they are there; raises only what interrupts the statement.
"""


def nobody(paths: Sequence[str]) -> Mapping[str, str | None]:
    """Answer for no editor."""
    del paths
    return {}


@dataclass(frozen=True, slots=True)
class _Known:
    """The editor's answer about a path, in a statement.

    `found` is None if the disk counts. `is_old`: the text may have changed since.
    """

    statement: int
    found: Found | None
    is_old: bool = False


class Buffers:
    """The editor's texts for the files of one board.

    `now` is in seconds since the epoch.
    """

    __slots__ = ("_ask", "_earlier", "_files", "_follows", "_hide", "_known", "_now", "_statement", "_texts", "_ticks")

    def __init__(self, files: Files, now: Callable[[], float], hide: Hide, ask: AskEditor = nobody) -> None:
        self._files = files
        self._now = now
        self._hide = hide
        self._ask = ask
        self._follows = False
        self._known: dict[str, _Known] = {}
        self._texts: dict[str, str | None] = {}
        """Answers that no look has used yet."""
        self._earlier: dict[str, deque[str]] = {}
        self._statement = 0
        self._ticks = 0

    # --- what is known ------------------------------------------------------------------------------------------------

    def forget(self, paths: Collection[str] | None) -> None:
        """Note that texts of these files, or all, may have changed.

        The first call starts following the editor.
        """
        self._follows = True
        for path in list(self._known) if paths is None else self._known.keys() & paths:
            # Kept in case the editor does not answer.
            self._known[path] = replace(self._known[path], is_old=True)

    def begin(self) -> None:
        """Begin a statement."""
        self._statement += 1
        self._texts.clear()

    def begin_tick(self) -> None:
        """Begin a tick, perhaps within a statement."""
        self._ticks += 1

    def end_tick(self) -> None:
        """End the tick."""
        self._ticks -= 1
        self._texts.clear()

    def expect(self, paths: Callable[[], Iterable[str]]) -> None:
        """Ask once for all unknown texts that a tick is about to need."""
        if self._follows:
            wanted = [path for path in dict.fromkeys(paths()) if self._is_wanted(path)]
            if wanted:
                self._texts.update(self._ask(wanted))

    def _is_wanted(self, path: str) -> bool:
        known = self._known.get(path)
        return (known is None or known.is_old) and _may_be_asked(path)

    # --- looks --------------------------------------------------------------------------------------------------------

    def look(self, path: str, last: Found | None, on_disk: LookAtDisk) -> Found:
        """Return the unsaved text at a path, if there is one, else the result of `on_disk`."""
        if not self._follows or not _may_be_asked(path):
            return on_disk(last)
        known = self._known.get(path)
        if known is not None and not known.is_old and (self._ticks or known.statement == self._statement):
            return self._on_disk(path, last, on_disk) if known.found is None else _kept(known.found, last)
        return self._asked(path, last, on_disk)

    def unsaved(self, path: str) -> Found | None:
        """Return the unsaved text of a file, if one is known."""
        known = self._known.get(path)
        return None if known is None else known.found

    def _asked(self, path: str, last: Found | None, on_disk: LookAtDisk) -> Found:
        file = self._on_disk(path, last, on_disk)
        if file.revision.state not in ("text", "missing"):
            return file
        if path not in self._texts:
            self._texts.update(self._ask((path,)))
        if path not in self._texts:  # there is no editor now, or no answer
            return self._remembered(path, last) or file
        found = self._over(path, self._texts.pop(path), file)
        self._known[path] = _Known(self._statement, found)
        return file if found is None else _kept(found, last)

    def _remembered(self, path: str, last: Found | None) -> Found | None:
        """Return the last known unsaved text, perhaps from another worker.

        Returns None without one.
        """
        if path not in self._known:
            return last if _is_unsaved(last) else None
        found = self._known[path].found
        return None if found is None else _kept(found, last)

    def _over(self, path: str, text: str | None, file: Found) -> Found | None:
        if text is None:
            return None
        held = file.data
        if held is None and file.revision.state == "text":
            try:
                held = self._files.read(path, LARGEST + 1)
            except OSError:
                return None  # the file is gone, and the next look reports that
        data = if_saved(text, held)
        if data is None or len(data) > LARGEST or self._is_late(path, data):
            return None
        revision = decoded(data, self._hide)
        if revision.state != "text":
            return None
        return Found(replace(revision, notice=UNSAVED if held is not None else ONLY_IN_EDITOR), data=data)

    def _on_disk(self, path: str, last: Found | None, on_disk: LookAtDisk) -> Found:
        """Look at the disk; remember the earlier content if it changed."""
        # Otherwise the disk would report a text that was just saved as unchanged.
        before = None if _is_unsaved(last) else last
        found = on_disk(before)
        if before is not None and before.revision.digest and before.revision.digest != found.revision.digest:
            self._earlier.setdefault(path, deque(maxlen=_EARLIER)).append(before.revision.digest)
        return found

    def _is_late(self, path: str, data: bytes) -> bool:
        if digest_of(data) not in self._earlier.get(path, ()):
            return False
        try:
            changed = self._files.stamp(path).mtime_ns / 1e9
        except OSError:
            return False
        return abs(self._now() - changed) < _LAG_SECONDS


def _may_be_asked(path: str) -> bool:
    """Return whether a path is a file's, normalized, and valid text."""
    return not is_glob(path) and "/../" not in path and recorded_path(path) == path


def _is_unsaved(found: Found | None) -> bool:
    return found is not None and found.revision.notice in NOTICES


def _kept(found: Found, last: Found | None) -> Found:
    """Return the result, or the earlier object if it is the same."""
    return last if last is not None and last.revision.same_as(found.revision) else found
