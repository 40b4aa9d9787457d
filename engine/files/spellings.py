"""Spellings of one name: some file systems find a file by its name in another case or Unicode form, and list one only.

macOS does by default, and Linux in directories that were made so. There, two paths may be one file. So paths that are
recorded and compared have the spelling that the directory lists; what only changes the spelling is a change of its own.
On other file systems this costs one look-up for a name, and two if it is not ASCII. Must not know what the names are
for. Used by `safe_open` and by whoever puts files back.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from .pins import opened_again

# Bound here, because a statement may replace these functions in their modules, and its code would run here.
_stat, _listdir, _close = os.stat, os.listdir, os.close
_join, _dirname, _basename, _exists = os.path.join, os.path.dirname, os.path.basename, os.path.lexists
_is_same, _normalize = os.path.samestat, unicodedata.normalize
_FORMS: Final = ("NFC", "NFD")


def folded(name: str) -> str:
    """Return what all spellings of one name have in common."""
    text = name if name.isascii() else _normalize("NFD", name)
    return text.casefold() if name.isascii() else _normalize("NFD", text.casefold())


def composed(text: str) -> str:
    """Return a name, a path or a pattern in the form in which people type it, to compare one with another."""
    return text if text.isascii() else _normalize("NFC", text)


def stored_name(directory: int, name: str) -> str:
    """Return the spelling that the directory lists of a name that it finds; the name itself if it finds none.

    `directory` is a descriptor, which may be a pin. Raises OSError if it may not be listed.
    """
    state = _state(directory, name)
    if state is None or not any(
        (other := _state(directory, each)) is not None and _is_same(state, other) for each in _others(name)
    ):
        return name
    descriptor = opened_again(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return _among(_listdir(descriptor), name)
    finally:
        _close(descriptor)


def stored_path(path: str) -> str:
    """Return a real path with the spellings that its directories list, as far as it exists and they may be listed.

    Looks at the names from the last one upwards, until one is on a file system that tells spellings apart.
    """
    here, below = path, ""
    while (folder := _dirname(here)) != here:
        name = _basename(here)
        is_folding, stored = _listed(folder, name)
        below = _join(stored, below) if below else stored
        here = folder
        if is_folding is False:
            break
    return _join(here, below)


def is_listed(path: str) -> bool:
    """Return whether something is at the real path, and its directories list these spellings."""
    return _exists(path) and stored_path(path) == path


def _listed(folder: str, name: str) -> tuple[bool | None, str]:
    """Whether another spelling finds the name too, None if unknown; and the spelling that the folder lists."""
    try:
        state = _stat(_join(folder, name), follow_symlinks=False)
    except (OSError, ValueError):
        return None, name
    others = _others(name)
    if not others:
        return None, name
    for each in others:
        with suppress(OSError):
            if _is_same(state, _stat(_join(folder, each), follow_symlinks=False)):
                break
    else:
        return False, name
    try:
        return True, _among(_listdir(folder), name)
    except OSError:
        return True, name


def _among(names: Sequence[str], name: str) -> str:
    if name in names:  # also where two names of one file differ in case
        return name
    sought = folded(name)
    return next((each for each in names if folded(each) == sought), name)


def _others(name: str) -> list[str]:
    """Other spellings, of which a file system that does not tell them apart finds at least one."""
    forms = () if name.isascii() else (_normalize(form, name) for form in _FORMS)
    return [each for each in dict.fromkeys((name.swapcase(), *forms)) if each != name]


def _state(directory: int, name: str) -> os.stat_result | None:
    try:
        return _stat(name, dir_fd=directory, follow_symlinks=False)
    except (OSError, ValueError):
        return None
