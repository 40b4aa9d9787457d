"""A session's files as the user's editor holds them: for the views in the namespace, and for tools that change them.

Owns what is asked of the editor that is attached to the session: files of the workspace alone, several at a time,
texts up to the largest that a view reads. Must not know how an editor is spoken to (`ports.Editor`), nor what a view
makes of a text (`nodes.buffers`). Where no editor is attached, all of it answers at once that there is none. Made by
`turns`; followed by the environment, and asked by the acts.

An editor that was told of nothing goes on for a while with what a file held before a tool wrote it, and would give that
for an unsaved text. So what a tool has replaced is remembered for as long as that may take.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread

from ..confinement import opened_file
from ..encodings import decode, line_ends, with_line_ends
from ..nodes.revision import LARGEST
from ..nodes.source import is_inside
from ..nodes.unsaved import if_saved, mark_of
from ..ports import Clock, Editor
from ..tools import Workspace

_AT_ONCE: Final = 16
"""Questions to an editor that wait for their answers."""
_ANSWER_CHARS: Final = 16 << 20
"""Of texts in one answer to the namespace, which asks again for the rest; each of them may be longer by itself."""
_LAG_SECONDS: Final = 10.0


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
    """Implements `ports.Buffers`. `editor` is who is attached to the session; None where nobody offers files."""

    def __init__(self, workspace: Workspace, clock: Clock) -> None:
        self.editor: Editor | None = None
        self._workspace = workspace
        self._clock = clock
        self._links: dict[str, set[str]] = {}
        """By the real place that was asked for, the paths that lead there by links."""
        self._replaced: dict[str, dict[str, float]] = {}
        """What tools have replaced, by place and mark, and when."""
        self._reading: anyio.CancelScope | None = None
        self._is_given_up = False
        """Whoever is cancelled in the step that is under way waits for no further answer."""

    # --- for the namespace --------------------------------------------------------------------------------------------

    @property
    def offers(self) -> bool:
        """As `ports.Buffers`."""
        return self.editor is not None and self.editor.offers

    def take_moved(self) -> Collection[str] | None:
        """As `ports.Buffers`."""
        self._is_given_up = False  # because a step begins
        moved = () if self.editor is None else self.editor.take_moved()
        return None if moved is None else {path for each in moved for path in (each, *self._links.get(each, ()))}

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """As `ports.Buffers`."""
        if self.editor is None:
            return dict.fromkeys(paths)
        if self._is_given_up:
            return {}
        places = await anyio.to_thread.run_sync(lambda: {path: os.path.realpath(path) for path in paths})
        found: dict[str, str | None] = {}
        limit = anyio.CapacityLimiter(_AT_ONCE)
        with anyio.CancelScope() as self._reading:
            async with anyio.create_task_group() as tasks:
                for path, place in places.items():
                    tasks.start_soon(self._add, path, place, found, limit)
        self._reading = None
        return _within(found)

    def give_up(self) -> None:
        """Whoever waits for the editor on behalf of the namespace does without the answers that are not there.

        So does the step that is under way from now on.
        """
        self._is_given_up = True
        if self._reading is not None:
            self._reading.cancel()

    async def _add(self, path: str, place: str, found: dict[str, str | None], limit: anyio.CapacityLimiter) -> None:
        async with limit:
            try:
                held = await self._held(path, place)
                found[path] = None if held is None else held[1]
            except TimeoutError:
                return

    async def _held(self, path: str, place: str) -> tuple[str, str] | None:
        """By which of the two paths the editor holds the file, and the text; None where none counts.

        Behind a link the file may be open by its real path, so what is unsaved by that comes first. Raises
        TimeoutError.
        """
        if self.editor is None or not is_inside(place, self._workspace.real_roots):
            return None
        if place != path:
            self._links.setdefault(place, set()).add(path)
            text = await self._text(self.editor, place, place)
            if text is not None and await anyio.to_thread.run_sync(self._is_unsaved, place, text):
                return place, text
        text = await self._text(self.editor, path, place)
        return None if text is None else (path, text)

    async def _text(self, editor: Editor, path: str, place: str) -> str | None:
        text = await editor.read(path)
        return None if text is None or len(text) > LARGEST or self._is_late(place, text) else text

    def _is_unsaved(self, place: str, text: str) -> bool:
        try:
            return if_saved(text, self._on_disk(place)) is not None
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

    async def unsaved(self, path: object) -> Unsaved | None:
        """The unsaved changes of a file, by its path as tools take it; None where there are none to be known of."""
        if not self.offers or not isinstance(path, str):
            return None
        try:
            absolute, place = await anyio.to_thread.run_sync(self._place, path)
            held = await self._held(absolute, place)
            if held is None:
                return None
            known_as, text = held
            data = if_saved(text, await anyio.to_thread.run_sync(self._on_disk, absolute))
        except (OSError, ValueError):  # TimeoutError too; the tool says what is wrong with the path
            return None
        return None if data is None else Unsaved(path=known_as, place=place, text=text, data=data)

    def _place(self, path: str) -> tuple[str, str]:
        absolute = os.path.normpath(self._workspace.absolute(path))
        return absolute, os.path.realpath(absolute)

    def _on_disk(self, path: str) -> bytes | None:
        try:
            with opened_file(path, self._workspace.roots) as file:
                return file.read(LARGEST + 1)
        except FileNotFoundError:
            return None

    async def write(self, held: Unsaved, after: bytes) -> None:
        """Has the editor put that content into the file in the place of its unsaved text.

        Raises:
            OSError: it did not, or its text is another by now, and is as it was (ESTALE).
            ValueError: the content is no text.
        """
        shown = self._workspace.shown(held.place)
        found = decode(after)
        if found is None:
            raise ValueError(f"{shown} has unsaved changes in the editor, which takes text only")
        try:
            text = None if self.editor is None else await self.editor.read(held.path)
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, f"the editor does not answer about {shown}; nothing was written") from None
        if self.editor is None or text != held.text:
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
