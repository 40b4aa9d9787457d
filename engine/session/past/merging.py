"""Merge what somebody else has changed in a file with what a rewind or an undo changes there.

The base is what the session left in the file, or would have left alone; the copies are what the file has now, and what
would come back (`core.merging`). Everything is done before the plan is recorded: the plan then has the present content
and the result, both in the store. So a kill leaves the file as before or as after, whoever opens the session next needs
no second merge, and a redo gives back exactly what was there. If the file changes once more before its turn, it stays.

Only text of the session's directories is merged: no file that other programs run, none with unsaved changes in the
editor, and none whose permissions somebody has changed. A file that cannot be merged stays as it is, and is named. What
is no file any more, or was none, is judged when it is restored. Called by `rewinding`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from typing import Final

import xxhash
from msgspec.structs import replace

from ...core.errors import StoreError
from ...core.execution import LINK
from ...core.ids import BlobDigest
from ...core.merging import merged
from ...files.safe_open import LARGEST, is_within
from ...log.events.going_back import FileToRestore, OwnContents
from ...log.file_history import Restorable, is_merge_due
from ...log.redaction import Storable
from ...log.store_protocol import Store
from ..tool_records import file_state
from ..tools import CHANGED, CHANGED_MODE, Target, Workspace
from ..tools.landing import placed
from .left_files import leaving

MOST_BYTES: Final = 4 << 20
"""Of each content of a file that is merged."""
_PERMISSIONS: Final = 0o777
SAME_LINES: Final = f"{CHANGED}, in the same lines or next to them"
NOT_TEXT: Final = f"{CHANGED}, and only UTF-8 text is merged, up to {MOST_BYTES >> 20} MiB"
PROTECTED: Final = f"{CHANGED}, and it is not merged, because {{}}"
SECRET: Final = f"{CHANGED}, and it is not merged, because it contains a secret"
NOT_STORED: Final = f"{CHANGED}, and a content to merge is not stored"


class _NotMergedError(Exception):
    """The file stays, for a reason."""


class Merger:
    """Merges the files of one session.

    Args:
        storable: returns a content as the store takes it; None if it contains a secret.
    """

    def __init__(self, store: Store, workspace: Workspace, storable: Callable[[bytes], Storable | None]) -> None:
        self._store = store
        self._workspace = workspace
        self._storable = storable

    def changed(self, found: Restorable) -> Collection[str]:
        """Return the paths of files of a plan that somebody else has changed, as far as files are merged. Blocks."""
        return frozenset(file.path for file in found.files if _has_texts(file) and self._is_changed(file))

    def _is_changed(self, file: FileToRestore) -> bool:
        if not is_within(file.path, self._workspace.roots):
            return False
        state = file_state(file.path, LARGEST)
        present = {state.digest, state.mark} - {""}
        if not present or file.wanted_digest in present:
            return False
        return is_merge_due(file) or file.present_digest not in present

    def merge(self, found: Restorable, changed: Collection[str], *, is_dry: bool) -> Restorable:
        """Return the plan with those files merged, or left. Blocks.

        Args:
            changed: the paths of the files.
            is_dry: store nothing; the plan can then not be carried out.
        """
        results: dict[str, FileToRestore] = {}
        reasons: dict[str, str] = {}
        for file in found.files:
            if file.path in changed:
                try:
                    results[file.path] = self._merged(file, is_dry=is_dry)
                except _NotMergedError as error:
                    reasons[file.path] = str(error)
                except (OSError, ValueError):
                    pass  # what is wrong with the place is said when it is restored
        files = tuple(results.get(file.path, file) for file in found.files)
        return leaving(Restorable(files, found.left), lambda file: reasons.get(file.path, ""))

    def _merged(self, file: FileToRestore, *, is_dry: bool) -> FileToRestore:
        data, mode = self._read(file)
        own = file.own or OwnContents(
            present=file.present,
            present_digest=file.present_digest,
            wanted=file.wanted,
            wanted_digest=file.wanted_digest,
        )
        base, theirs = self._stored(own.present), self._stored(own.wanted)
        try:
            texts = [each.decode() for each in (base, data, theirs)]
        except UnicodeDecodeError:
            raise _NotMergedError(NOT_TEXT) from None
        if any("\0" in text for text in texts) or max(map(len, (base, data, theirs))) > MOST_BYTES:
            raise _NotMergedError(NOT_TEXT)
        text = merged(*texts)
        if text is None:
            raise _NotMergedError(SAME_LINES)
        result = text.encode()
        both = [self._storable(each) for each in (data, result)]
        if None in both:
            raise _NotMergedError(SECRET)
        present, wanted = (None if is_dry or each is None else self._store.blob_put(each) for each in both)
        return replace(
            file,
            present=present,
            present_digest=xxhash.xxh3_64_hexdigest(data),
            present_mode=mode,
            wanted=wanted,
            wanted_digest=xxhash.xxh3_64_hexdigest(result),
            own=own,
            is_merged=True,
        )

    def _read(self, file: FileToRestore) -> tuple[bytes, int]:
        """Return the present content and permissions.

        Raises:
            OSError, ValueError: there is no such file in the session's directories.
        """
        path = self._workspace.absolute(file.path)
        with placed(self._workspace, path, _check, making=False, follows=False) as place, place.opened() as opened:
            if opened is None:
                raise FileNotFoundError(path)
            state = os.fstat(opened.fileno())
            data = opened.read(MOST_BYTES + 1)
        mode = stat.S_IMODE(state.st_mode)
        if file.present_mode is not None and (mode ^ file.present_mode) & _PERMISSIONS:
            raise _NotMergedError(CHANGED_MODE.format(file.present_mode, mode))
        return data, mode

    def _stored(self, content: BlobDigest | None) -> bytes:
        try:
            if content is not None:
                return self._store.blob_get(content)
        except (KeyError, StoreError):
            pass
        raise _NotMergedError(NOT_STORED)


def _check(target: Target) -> None:
    if why := target.protected:
        raise _NotMergedError(PROTECTED.format(why))


def _has_texts(file: FileToRestore) -> bool:
    """Return whether both contents are those of files, and known."""
    is_link = file.present_digest.startswith(LINK) or file.wanted_digest.startswith(LINK)
    return file.present is not None and file.wanted is not None and not is_link
