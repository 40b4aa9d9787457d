"""What an editor's text means for a file: whether it is what is on disk, and if not, the bytes that saving would make.

Owns the rule. Pure. Used by `buffers`, for what views show, and by the tools that read and change files.

An editor holds text, and a file is bytes. Between the two an editor may drop the byte order mark, turn every line end
into a newline, and show what is no UTF-8 as U+FFFD; some clients also lose the newline at the end. None of that is a
change of the user's. So the two are compared without it, and a text that does differ becomes bytes as the file has its
own: encoding, mark and line ends. A diff between the two then shows what the user changed and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import xxhash

from ..core.encodings import UTF_8, Decoded, Encoding, decode, line_ends, with_line_ends
from ..core.text import valid_text
from .revision import LARGEST, Found, decoded, digest_of, is_glob, recorded_path
from .sources import Files

UNSAVED: Final = "(unsaved: the text of the editor; the file on disk is another)"
ONLY_IN_EDITOR: Final = "(unsaved: in the editor only, there is no such file on disk)"
NOTICES: Final = (UNSAVED, ONLY_IN_EDITOR)
"""What stands above a text that is no file's yet; the notice of its revision, so that the log has it."""
_MARK: Final = "\ufeff"


def if_saved(text: str, on_disk: bytes | None) -> bytes | None:
    """What the file would hold if the editor saved this text; None where it holds that already, or is binary.

    Args:
        text: what the editor holds of it.
        on_disk: what the file holds; None where there is none, which an editor may know as an empty text.
    """
    text = valid_text(text).removeprefix(_MARK)
    if on_disk is None:
        return text.encode() or None
    found = decode(on_disk)
    if found is None or _plain(text) in _readings(on_disk, found):
        return None
    return _encoded(with_line_ends(text, line_ends(found.text)), found.encoding)


def mark_of(text: str) -> str:
    """xxh3 hex of what two texts have in common that an editor may hold of one content."""
    return xxhash.xxh3_64_hexdigest(_plain(valid_text(text).removeprefix(_MARK)).encode())


def _readings(on_disk: bytes, found: Decoded) -> tuple[str, ...]:
    """How an editor may hold what is on disk."""
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


# buffers:
# What the user's editor holds of files, in front of the disk: a view shows the unsaved text.
#
# Owns when the editor is asked, and what its texts mean beside what is on disk (`unsaved` has the rule). Must not
# know who answers, nor what is recorded: `live` records what it gets from here, and a replay never comes here. Until
# `forget` is called first, nobody's editor is followed, and a look costs one comparison more.
#
# A text is asked for once and then known until `forget` says that it may be another. That is all a tick goes by, so
# it asks for what it does not know, in one question (`expect`), and for nothing else. A look of a statement is
# somebody's wish to see the file, so the first one at a path in each statement asks again: editors need not say what
# changes.
#
# An editor may lag behind the disk. When a program has changed a file, an editor that had it open goes on with the
# text of before until it notices; asked meanwhile, it gives what looks like an unsaved text. So a text that the disk
# was seen to hold before its last change counts as old while that change is young.

_LAG_SECONDS: Final = 10.0
_EARLIER: Final = 8
"""Contents that the disk was seen to hold, of each path."""

LookAtDisk = Callable[[Found | None], Found]
"""A look at one file on disk, with what the look before it found."""
AskEditor = Callable[[Sequence[str]], Mapping[str, str | None]]
"""The texts that the editor holds of files, by absolute path; None where it holds none, nothing where it is not known.

Blocks until they are there; raises nothing but what interrupts the statement.
"""


def nobody(paths: Sequence[str]) -> Mapping[str, str | None]:
    """An `AskEditor` without an editor."""
    del paths
    return {}


@dataclass(frozen=True, slots=True)
class _Known:
    """What the editor said of one path, in the statement of that number. `found` is None where the disk counts.

    `is_old`: it may hold another text by now.
    """

    statement: int
    found: Found | None
    is_old: bool = False


class Buffers:
    """The files of one board as the editor holds them; `now` is in seconds since the epoch."""

    __slots__ = ("_ask", "_earlier", "_files", "_follows", "_known", "_now", "_statement", "_texts", "_ticks")

    def __init__(self, files: Files, now: Callable[[], float], ask: AskEditor = nobody) -> None:
        self._files = files
        self._now = now
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
        """The editor may hold another text of these files, or of all; from the first call on it is followed."""
        self._follows = True
        for path in list(self._known) if paths is None else self._known.keys() & paths:
            # Kept for the case that the editor does not answer.
            self._known[path] = replace(self._known[path], is_old=True)

    def begin(self) -> None:
        """A statement begins."""
        self._statement += 1
        self._texts.clear()

    def begin_tick(self) -> None:
        """A tick begins; within a statement, perhaps."""
        self._ticks += 1

    def end_tick(self) -> None:
        """The tick has ended."""
        self._ticks -= 1
        self._texts.clear()

    def expect(self, paths: Callable[[], Iterable[str]]) -> None:
        """A tick is about to look at these: what is not known of them is asked for at once."""
        if self._follows:
            wanted = [path for path in dict.fromkeys(paths()) if self._is_wanted(path)]
            if wanted:
                self._texts.update(self._ask(wanted))

    def _is_wanted(self, path: str) -> bool:
        known = self._known.get(path)
        return (known is None or known.is_old) and _may_be_asked(path)

    # --- looks --------------------------------------------------------------------------------------------------------

    def look(self, path: str, last: Found | None, on_disk: LookAtDisk) -> Found:
        """What there is at a path: the unsaved text, where there is one, else what `on_disk` finds."""
        if not self._follows or not _may_be_asked(path):
            return on_disk(last)
        known = self._known.get(path)
        if known is not None and not known.is_old and (self._ticks or known.statement == self._statement):
            return self._on_disk(path, last, on_disk) if known.found is None else _kept(known.found, last)
        return self._asked(path, last, on_disk)

    def unsaved(self, path: str) -> Found | None:
        """The unsaved text of the file, where there is one and it is known."""
        known = self._known.get(path)
        return None if known is None else known.found

    def _asked(self, path: str, last: Found | None, on_disk: LookAtDisk) -> Found:
        file = self._on_disk(path, last, on_disk)
        if file.revision.state not in ("text", "missing"):
            return file
        if path not in self._texts:
            self._texts.update(self._ask((path,)))
        if path not in self._texts:  # so nobody could be asked now, or did not answer
            return self._remembered(path, last) or file
        found = self._over(path, self._texts.pop(path), file)
        self._known[path] = _Known(self._statement, found)
        return file if found is None else _kept(found, last)

    def _remembered(self, path: str, last: Found | None) -> Found | None:
        """The unsaved text that was known before, perhaps to another worker; None where there was none."""
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
                return None  # gone since it was looked at, and the next look says so
        data = if_saved(text, held)
        if data is None or len(data) > LARGEST or self._is_late(path, data):
            return None
        revision = decoded(data)
        if revision.state != "text":
            return None
        return Found(replace(revision, notice=UNSAVED if held is not None else ONLY_IN_EDITOR), data=data)

    def _on_disk(self, path: str, last: Found | None, on_disk: LookAtDisk) -> Found:
        """What `on_disk` finds; what the disk held before is remembered where it holds something else now."""
        # The disk would give a text that is saved now for the same as it was.
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
    """Whether it is a file's path, in its normal form, and one that is text."""
    return not is_glob(path) and "/../" not in path and recorded_path(path) == path


def _is_unsaved(found: Found | None) -> bool:
    return found is not None and found.revision.notice in NOTICES


def _kept(found: Found, last: Found | None) -> Found:
    """The find, or the object that stands for the same already."""
    return last if last is not None and last.revision.same_as(found.revision) else found
