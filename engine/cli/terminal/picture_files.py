"""Pictures in a terminal: each is a file, and a line says where it is.

Files are named by their content, so a picture that is shown again has the same path. They stay after the session, in
the user's cache directory. Must not know how a line is shown. Used by `program`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...core.pictures import PNG, Picture, PictureContent, description

FOLDER: Final = "rewindow/pictures"


class PictureFiles:
    """The files of the pictures of one session. `content` returns that of a picture, None if there is none."""

    def __init__(self, content: Callable[[Picture], PictureContent | None], environ: Mapping[str, str]) -> None:
        base = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", "/"), ".cache")
        self._content = content
        self._folder = Path(base) / FOLDER

    def line(self, picture: Picture) -> str:
        """Describe a picture, with the path of its file if that can be written."""
        content = self._content(picture)
        with suppress(OSError):
            if content is not None:
                return f"{description(picture)} {self._written(picture, content)}"
        return description(picture)

    def _written(self, picture: Picture, content: PictureContent) -> Path:
        """Write the file unless it is there, whole or not at all; return its path."""
        path = (
            self._folder
            / f"{hashlib.blake2b(content, digest_size=8).hexdigest()}.{'png' if picture.media_type == PNG else 'jpg'}"
        )
        if not path.exists() or path.stat().st_size != len(content):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                file.write(content)
            os.replace(file.name, path)
        return path
