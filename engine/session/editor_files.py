"""A session's files as the user's editor has them, for views in the namespace and for tools that change them.

Owns what is requested from the attached editor: only files of the workspace, several at a time, texts up to the largest
that a view reads. Must not know the editor's protocol (`files.sources.Editor`), nor what a view makes of a
text (`files.buffers`). Without an editor it answers at once that there is no text. Made by `SessionRuntime`, followed
by the environment, and used by tool calls.

An editor may have a file open by another path, through a link. So its open files are compared by their real paths,
which are resolved again for each step and request, because links may change meanwhile. An editor that does not list its
open files is asked by the real path and by the path as named.

An editor that was not told of a write shows the old content for a while. That would look like unsaved text. So contents
that a tool replaced are remembered for as long as this may take.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, NoReturn

import anyio
import anyio.to_thread

from ..core.clock import Clock
from ..core.encodings import decode, line_ends, with_line_ends
from ..files.buffers import if_saved, mark_of
from ..files.revision import LARGEST
from ..files.safe_open import is_within, opened_file
from ..files.sources import Editor
from .tools import Workspace

_LONGEST: Final = 4096
"""The longest path that Linux takes, in bytes. A longer one leads nowhere."""
_UNFOLLOWED: Final = ("", ".", "..")


_AT_ONCE: Final = 16
"""Requests to an editor at the same time."""
_ANSWER_CHARS: Final = 16 << 20
"""Characters of all texts in one answer to the namespace, which asks again for the rest. A single text may be
longer."""
_COMPARED: Final = 64 << 20
"""The largest file, in bytes, that is compared with an editor's text, and that a tool changes."""
_LAG_SECONDS: Final = 10.0
_UNANSWERED: Final = "may have unsaved changes in the editor, which did not answer in time"
_ADVICE: Final = "nothing was written. Ask the user to save and close the file; then view it again"


@dataclass(frozen=True, slots=True)
class _Named:
    """A file as it was requested: its absolute path, its real path, and the paths by which the editor has it open."""

    path: str
    place: str
    opened: Sequence[str]

    @property
    def spellings(self) -> Collection[str]:
        """The paths by which the editor may know it: the real one first, the one as named last."""
        others = dict.fromkeys((self.place, *self.opened))
        others.pop(self.path, None)
        return (*others, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsaved:
    """A file with unsaved changes.

    Args:
        path: absolute, as the editor knows it: as named, or the real path.
        place: its real path.
        text: the editor's text.
        data: what the file would contain if the editor saved it.
    """

    path: str
    place: str
    text: str
    data: bytes


class EditorBuffers:
    """The unsaved texts of a session. `editor` is the attached one, or None."""

    def __init__(self, workspace: Workspace, clock: Clock) -> None:
        self.editor: Editor | None = None
        self.stopped: Callable[[], AbstractAsyncContextManager[bool] | None] = _nothing_runs
        """As `Environment.stopped`; returns None if no sandboxed statement runs."""
        self.acting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
        """As `Environment.acting`."""
        self._workspace = workspace
        self._clock = clock
        self._links: dict[str, str] = {}
        """Requested paths that lead elsewhere, with the place where each led last."""
        self._places: dict[str, str] = {}
        """The places of these, and of the editor's open files, when the step began."""
        self._replaced: dict[str, dict[str, float]] = {}
        """Contents that tools replaced, by place and mark, with the time."""
        self._reading: anyio.CancelScope | None = None
        self._is_given_up = False
        """A cancelled step waits for no further answers."""

    # --- for the namespace --------------------------------------------------------------------------------------------

    @property
    def offers(self) -> bool:
        """As `files.sources.Buffers`."""
        return self.editor is not None and self.editor.offers

    async def take_moved(self) -> Collection[str] | None:
        """As `files.sources.Buffers`."""
        self._is_given_up = False  # because a step begins
        editor, before = self.editor, self._places | self._links
        if editor is None:
            return ()
        now = self._links
        if editor.opened:
            now = await anyio.to_thread.run_sync(real_places, (*editor.opened, *self._links))
        self._places, self._links = now, {path: now.get(path, place) for path, place in self._links.items()}
        moved = editor.take_moved()
        if moved is None or not now.keys() >= set(editor.opened):  # because more was opened meanwhile
            return None
        turned = [path for path in before.keys() & now.keys() if before[path] != now[path]]
        places = {*moved, *(led[path] for led in (before, now) for path in (*moved, *turned) if path in led)}
        return {*places, *(path for led in (before, now) for path, place in led.items() if place in places)}

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """As `files.sources.Buffers`."""
        if self.editor is None:
            return dict.fromkeys(paths)
        opened = tuple(self.editor.opened)
        places = await anyio.to_thread.run_sync(real_places, (*paths, *opened))
        if self._is_given_up:
            return {}
        open_at = _by_place(opened, places)
        found: dict[str, str | None] = {}
        limit = anyio.CapacityLimiter(_AT_ONCE)
        with anyio.CancelScope() as self._reading:
            async with anyio.create_task_group() as tasks:
                for path in paths:
                    file = _Named(path, places[path], open_at.get(places[path], ()))
                    tasks.start_soon(self._add, file, found, limit)
        self._reading = None
        return _within(found)

    def give_up(self) -> None:
        """Stop waiting for the editor on behalf of the namespace, for the current step.

        Missing answers count as missing.
        """
        self._is_given_up = True
        if self._reading is not None:
            self._reading.cancel()

    async def _add(self, file: _Named, found: dict[str, str | None], limit: anyio.CapacityLimiter) -> None:
        async with limit:
            try:
                held = await self._text_of(file)
                found[file.path] = None if held is None else held[1]
            except LookupError:
                found[file.path] = None
            except TimeoutError:
                return

    async def _text_of(self, file: _Named) -> tuple[str, str] | None:
        """Return the editor's path and text of the file, or None.

        Unsaved text by any path wins over the text by the path as named.

        Raises:
            TimeoutError: the editor has not answered in time.
            LookupError: its text cannot be used; the reason is a clause about the file.
        """
        if self.editor is None or not is_within(file.place, self._workspace.roots):
            return None
        if file.place != file.path:
            self._links[file.path] = file.place
        named: tuple[str, str] | None = None
        failure: LookupError | None = None
        for path in file.spellings:
            try:
                text = await self._text(self.editor, path, file.place)
            except LookupError as error:
                failure = error
                continue
            if text is None:
                continue
            if path == file.path:
                named = path, text
            if len(file.spellings) > 1 and await anyio.to_thread.run_sync(self._is_unsaved, file.place, text):
                return await self._confirmed(file, path, text)
        if failure is not None:
            raise failure
        if named is None or await anyio.to_thread.run_sync(self._is_saved, file.place, named[1]):
            return named
        return await self._confirmed(file, *named)

    async def _confirmed(self, file: _Named, path: str, text: str) -> tuple[str, str]:
        """Read it once more while no statement's process can change the path.

        Raises LookupError if the editor had another file.
        """
        stopped = self.stopped()
        if stopped is None:
            return path, text
        async with stopped as still:
            places = await anyio.to_thread.run_sync(real_places, (path,))
            again = None if self.editor is None or not still else await self.editor.read(path)
        if places[path] != file.place or again != text:
            raise LookupError("seems to have unsaved changes in the editor, or its path now leads elsewhere")
        return path, text

    async def _text(self, editor: Editor, path: str, place: str) -> str | None:
        try:
            text = await editor.read(path)
        except LookupError:
            raise LookupError("is open in the editor, which did not send its text") from None
        if text is not None and len(text) > LARGEST:
            if not await anyio.to_thread.run_sync(self._is_unsaved, place, text):
                return None
            raise LookupError(f"has unsaved changes in the editor, in a text of more than {LARGEST:,} characters")
        return None if text is None or self._is_late(place, text) else text

    def _is_unsaved(self, place: str, text: str) -> bool:
        try:
            return if_saved(text, self._on_disk(place, LARGEST if len(text) <= LARGEST else _COMPARED)) is not None
        except (OSError, ValueError):
            return False

    def _is_saved(self, place: str, text: str) -> bool:
        try:
            return if_saved(text, self._on_disk(place, LARGEST if len(text) <= LARGEST else _COMPARED)) is None
        except (OSError, ValueError):
            return False

    def _is_late(self, place: str, text: str) -> bool:
        replaced = self._replaced.get(place)
        if not replaced:
            return False
        now = self._clock.now()
        for mark in [mark for mark, at in replaced.items() if not 0 <= now - at < _LAG_SECONDS]:
            del replaced[mark]
        return mark_of(text) in replaced

    # --- for tools ----------------------------------------------------------------------------------------------------

    async def unsaved(self, path: object, *, changes: bool) -> Unsaved | None:
        """Return the unsaved changes of a file, by its path as tools take it, or None.

        Args:
            changes: whether the tool will change the file.

        Raises:
            OSError: with `changes`, the editor's text cannot be used, or may be unsaved (EBUSY).
        """
        if self.editor is None or not self.offers or not isinstance(path, str):
            return None
        try:
            file = await anyio.to_thread.run_sync(self._file, path, tuple(self.editor.opened))
        except (OSError, ValueError):
            return None  # the tool says what is wrong with the path
        try:
            held = await self._text_of(file)
        except LookupError as error:
            return self._refuse(file, str(error.args[0])) if changes else None
        except TimeoutError:
            # An editor that does not list its open files may need long for a large text, but for nothing else.
            may_be = bool(file.opened) or await anyio.to_thread.run_sync(_is_large, file.place)
            return self._refuse(file, _UNANSWERED) if changes and may_be else None
        if held is None:
            return None
        known_as, text = held
        try:
            data = if_saved(text, await anyio.to_thread.run_sync(self._on_disk, file.place, LARGEST))
        except (OSError, ValueError):
            return None
        return None if data is None else Unsaved(path=known_as, place=file.place, text=text, data=data)

    def _refuse(self, file: _Named, reason: str) -> NoReturn:
        raise OSError(errno.EBUSY, f"{self._workspace.shown(file.place)} {reason}; {_ADVICE}")

    def _file(self, path: str, opened: Sequence[str]) -> _Named:
        absolute = os.path.normpath(self._workspace.absolute(path))
        places = real_places((absolute, *opened))
        return _Named(absolute, places[absolute], _by_place(opened, places).get(places[absolute], ()))

    def _on_disk(self, path: str, most: int) -> bytes | None:
        try:
            with opened_file(path, self._workspace.roots) as file:
                return file.read(most + 1)
        except FileNotFoundError:
            return None

    async def write(self, held: Unsaved, after: bytes) -> None:
        """Let the editor replace its unsaved text.

        Raises:
            OSError: it did not. ESTALE if its text has changed, or its path leads to another file; nothing is written
            then.
            ValueError: the content is not text.
        """
        shown = self._workspace.shown(held.place)
        found = decode(after)
        if found is None:
            raise ValueError(f"{shown} has unsaved changes in the editor, which accepts only text")
        try:
            text = None if self.editor is None else await self.editor.read(held.path)
        except LookupError:
            text = None
        except TimeoutError:
            raise OSError(
                errno.ETIMEDOUT, f"the editor did not answer a request about {shown}; nothing was written"
            ) from None
        is_there = (await anyio.to_thread.run_sync(real_places, (held.path,)))[held.path] == held.place
        if self.editor is None or text != held.text or not is_there:
            message = f"{shown} has changed in the editor since the change was requested; nothing was written"
            raise OSError(errno.ESTALE, message)
        await self.editor.write(held.path, with_line_ends(found.text, line_ends(held.text) or "LF"))

    def saved_since(self, moment: int) -> Collection[str]:
        """As `files.sources.Editor`; nothing without an editor."""
        return () if self.editor is None else self.editor.saved_since(moment)

    def note_replaced(self, place: str, before: bytes | None) -> None:
        """Remember the earlier content of a file that a tool has written."""
        if self.editor is None or before is None or len(before) > LARGEST:
            return
        found = decode(before)
        if found is not None:
            self._replaced.setdefault(place, {})[mark_of(found.text)] = self._clock.now()


def _nothing_runs() -> None:
    return None


def _by_place(paths: Iterable[str], places: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(places[path], []).append(path)
    return found


def _is_large(path: str) -> bool:
    try:
        return os.stat(path).st_size > LARGEST
    except (OSError, ValueError):
        return False


def _within(found: dict[str, str | None]) -> dict[str, str | None]:
    """Return as many texts as one answer may contain, at least one."""
    kept: dict[str, str | None] = {}
    chars = 0
    for path, text in found.items():
        chars += len(text or "")
        if kept and chars > _ANSWER_CHARS:
            break
        kept[path] = text
    return kept


# --- real paths -------------------------------------------------------------------------------------------------------


def real_places(paths: Iterable[str]) -> dict[str, str]:
    """Resolve each path, whether or not the file exists. Raises nothing.

    A path that cannot be followed stays as it is.
    """
    directories: dict[str, str] = {}
    return {path: _real(path, directories) for path in paths}


def _real(path: str, directories: dict[str, str]) -> str:
    """As `os.path.realpath`, but faster: `directories` caches resolved directories."""
    try:
        if len(os.fsencode(path)) > _LONGEST:
            return path
        above, last = os.path.split(path)
        if last in _UNFOLLOWED:
            return os.path.realpath(path)
        if (real := directories.get(above)) is None:
            real = directories[above] = os.path.realpath(above)
        place = os.path.join(real, last)
        return os.path.realpath(place) if os.path.islink(place) else place
    except (OSError, ValueError):
        return path
