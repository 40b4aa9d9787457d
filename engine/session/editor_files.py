"""A session's files as the user's editor holds them, for views and tools."""

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
from ..core.domain import is_inside
from ..core.encodings import decode, line_ends, with_line_ends
from ..files.buffers import if_saved, mark_of
from ..files.revision import LARGEST
from ..files.safe_open import opened_file
from ..files.sources import Editor
from .tools import Workspace

# Where files really are, links resolved. Blocks, so it is called on a thread. Used by `buffers`.

_LONGEST: Final = 4096
"""Bytes of a path that Linux takes; a longer one leads nowhere."""
_UNFOLLOWED: Final = ("", ".", "..")


def real_places(paths: Iterable[str]) -> dict[str, str]:
    """Where each path leads, be there a file or not; one that cannot be followed leads to itself. Raises nothing."""
    directories: dict[str, str] = {}
    return {path: _real(path, directories) for path in paths}


def _real(path: str, directories: dict[str, str]) -> str:
    """As `os.path.realpath`, which asks for each part of each path; `directories` has those that are known."""
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


# buffers:
# A session's files as the user's editor holds them: for the views in the namespace, and for tools that change them.
#
# Owns what is asked of the editor that is attached to the session: files of the workspace alone, several at a time,
# texts up to the largest that a view reads. Must not know how an editor is spoken to
# (`files.sources_protocol.Editor`), nor what a view makes of a text (`files.buffers`). Where no editor is attached,
# all of it answers at once that there is none. Made by `SessionRuntime`,
# followed by the environment, and asked by the acts.
#
# An editor may have a file open by another path than the one that is asked about, through a link. So what it says it
# has open is looked up by its real place, which is found anew for each step and each question, because links may be
# turned meanwhile. An editor that says nothing of what it has open is asked by the real place and by the path as
# named.
#
# An editor that was told of nothing goes on for a while with what a file held before a tool wrote it, and would give
# that for an unsaved text. So what a tool has replaced is remembered for as long as that may take.
#
# A little over 300 lines, because what an editor has open and what it has not noticed yet is one state.

_AT_ONCE: Final = 16
"""Questions to an editor that wait for their answers."""
_ANSWER_CHARS: Final = 16 << 20
"""Of texts in one answer to the namespace, which asks again for the rest; each of them may be longer by itself."""
_COMPARED: Final = 64 << 20
"""Bytes of the largest file that is compared with what an editor holds, and that a tool changes."""
_LAG_SECONDS: Final = 10.0
_UNANSWERED: Final = "may have unsaved changes in the editor, which does not answer in time"
_ADVICE: Final = "nothing was written. Ask the user to save and close it, and look at it again"


@dataclass(frozen=True, slots=True)
class _Named:
    """A file as it was asked for: by which absolute path, where it really is, and by which paths the editor has it."""

    path: str
    place: str
    opened: Sequence[str]

    @property
    def spellings(self) -> Collection[str]:
        """The paths by which the editor may know it, the real one first and the one as named last."""
        others = dict.fromkeys((self.place, *self.opened))
        others.pop(self.path, None)
        return (*others, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsaved:
    """A file with unsaved changes.

    Args:
        path: absolute, as the editor knows it: as whoever asked wrote it, or the real place.
        place: its real place, links resolved.
        text: what the editor holds of it.
        data: what the file would hold if the editor saved that.
    """

    path: str
    place: str
    text: str
    data: bytes


class SessionBuffers:
    """The unsaved texts of a session. `editor` is the one that is attached; None where nobody offers files."""

    def __init__(self, workspace: Workspace, clock: Clock) -> None:
        self.editor: Editor | None = None
        self.stopped: Callable[[], AbstractAsyncContextManager[bool] | None] = _nothing_runs
        """As `Environment.stopped`; gives None where nothing runs that is held."""
        self.acting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
        """As `Environment.acting`."""
        self._workspace = workspace
        self._clock = clock
        self._links: dict[str, str] = {}
        """The paths that were asked for and lead elsewhere, each with where it led last."""
        self._places: dict[str, str] = {}
        """Where these led, and what the editor has open, when the step began."""
        self._replaced: dict[str, dict[str, float]] = {}
        """What tools have replaced, by place and mark, and when."""
        self._reading: anyio.CancelScope | None = None
        self._is_given_up = False
        """Whoever is cancelled in the step that is under way waits for no further answer."""

    # --- for the namespace --------------------------------------------------------------------------------------------

    @property
    def offers(self) -> bool:
        """As `files.sources_protocol.Buffers`."""
        return self.editor is not None and self.editor.offers

    async def take_moved(self) -> Collection[str] | None:
        """As `files.sources_protocol.Buffers`."""
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
        """As `files.sources_protocol.Buffers`."""
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
        """Whoever waits for the editor on behalf of the namespace does without the answers that are not there.

        So does the step that is under way from now on.
        """
        self._is_given_up = True
        if self._reading is not None:
            self._reading.cancel()

    async def _add(self, file: _Named, found: dict[str, str | None], limit: anyio.CapacityLimiter) -> None:
        async with limit:
            try:
                held = await self._held(file)
                found[file.path] = None if held is None else held[1]
            except LookupError:
                found[file.path] = None
            except TimeoutError:
                return

    async def _held(self, file: _Named) -> tuple[str, str] | None:
        """By which path the editor holds the file, and the text; None where none counts.

        What is unsaved by any path comes first, before what it holds by the path as named.

        Raises:
            TimeoutError: the editor has not answered in time.
            LookupError: it holds something that is not to be worked with; the reason, a clause about the file.
        """
        if self.editor is None or not is_inside(file.place, self._workspace.real_roots):
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
        """The same, once more while no process of a statement can lead the editor to another file by that path.

        Raises LookupError where the editor had another one.
        """
        stopped = self.stopped()
        if stopped is None:
            return path, text
        async with stopped as still:
            places = await anyio.to_thread.run_sync(real_places, (path,))
            again = None if self.editor is None or not still else await self.editor.read(path)
        if places[path] != file.place or again != text:
            raise LookupError("seems to have unsaved changes in the editor, or its path leads elsewhere meanwhile")
        return path, text

    async def _text(self, editor: Editor, path: str, place: str) -> str | None:
        try:
            text = await editor.read(path)
        except LookupError:
            raise LookupError("is open in the editor, which does not say with which text") from None
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
        """The unsaved changes of a file, by its path as tools take it; None where there are none to be known of.

        Args:
            changes: whether the file is to be changed.

        Raises:
            OSError: it is, and what the editor holds of it cannot be worked with, or may be unsaved (EBUSY).
        """
        if self.editor is None or not self.offers or not isinstance(path, str):
            return None
        try:
            file = await anyio.to_thread.run_sync(self._file, path, tuple(self.editor.opened))
        except (OSError, ValueError):
            return None  # the tool says what is wrong with the path
        try:
            held = await self._held(file)
        except LookupError as error:
            return self._refuse(file, str(error.args[0])) if changes else None
        except TimeoutError:
            # An editor that says nothing of what it has open may need long for a large text, and for nothing else.
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
        """Has the editor put that content into the file in the place of its unsaved text.

        Raises:
            OSError: it did not; or its text is another by now, or another file's, and is as it was (ESTALE).
            ValueError: the content is no text.
        """
        shown = self._workspace.shown(held.place)
        found = decode(after)
        if found is None:
            raise ValueError(f"{shown} has unsaved changes in the editor, which takes text only")
        try:
            text = None if self.editor is None else await self.editor.read(held.path)
        except LookupError:
            text = None
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, f"the editor does not answer about {shown}; nothing was written") from None
        is_there = (await anyio.to_thread.run_sync(real_places, (held.path,)))[held.path] == held.place
        if self.editor is None or text != held.text or not is_there:
            message = f"{shown} has changed in the editor since the change was asked for; nothing was written"
            raise OSError(errno.ESTALE, message)
        await self.editor.write(held.path, with_line_ends(found.text, line_ends(held.text) or "LF"))

    def note_replaced(self, place: str, before: bytes | None) -> None:
        """A tool has written the file at a real place, which held that until now."""
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
    """As much of it as one answer may hold, and at least one text."""
    kept: dict[str, str | None] = {}
    chars = 0
    for path, text in found.items():
        chars += len(text or "")
        if kept and chars > _ANSWER_CHARS:
            break
        kept[path] = text
    return kept
