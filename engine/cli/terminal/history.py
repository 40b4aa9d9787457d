"""The lines that a person typed, kept from one run of the program to the next.

Kept in the state directory, for its owner alone (0600), one JSON text for each line, without the secrets of the
environment: within a run a line comes back as it was typed, later with `***` where one stood. A file that cannot be
read or written only means that nothing comes back. Called by the line editor; its library has the interface.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History

from ...log.redaction import Redactor
from ...log.store.database import make_directory, make_private

FILE_NAME: Final = "typed.jsonl"
READ_BYTES: Final = 1 << 20
"""The end of the file that is read, and all that is kept of one that has become four times as long."""
LINE_CHARS: Final = 20_000
"""A longer text is not kept: it was pasted, and comes from somewhere."""


class TypedHistory(History):
    """What was typed, the newest first."""

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        super().__init__()
        self._path = directory / FILE_NAME
        self._redactor = redactor

    def load_history_strings(self) -> Iterable[str]:
        """What former runs have kept; lines that are damaged are left out."""
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - READ_BYTES))
                lines = file.read(READ_BYTES).splitlines()
        except OSError:
            return []
        if size > READ_BYTES:
            lines = lines[1:]  # because its beginning may be missing
        if size > 4 * READ_BYTES:
            self._keep_only(lines)
        return [text for text in map(_text, reversed(lines)) if text is not None]

    def store_string(self, string: str) -> None:
        """Keeps a line, if it can be kept."""
        if len(string) > LINE_CHARS:
            return
        with suppress(OSError):
            make_directory(str(self._path.parent))
            make_private(str(self._path))
            self._append(json.dumps(self._redactor.redact(string)).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _keep_only(self, lines: list[bytes]) -> None:
        """Replaces the file by one with these lines; what another process adds at this moment is lost."""
        shorter = self._path.with_name(f"{FILE_NAME}.{os.getpid()}")
        with suppress(OSError):
            make_private(str(shorter))
            shorter.write_bytes(b"".join(line + b"\n" for line in lines))
            shorter.replace(self._path)


def _text(line: bytes) -> str | None:
    try:
        text = json.loads(line)
    except ValueError:
        return None
    return text if isinstance(text, str) else None
