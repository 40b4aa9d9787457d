"""A text stream without secrets: what a process's standard streams become while something secret is known.

Owns that no text reaches them by another way: there is no `buffer` to write bytes to. What is JSON is redacted by its
structure before, and written with `write_json`. Used by the console scripts of the engine and the adapter.
"""

from __future__ import annotations

import io
from typing import TextIO, cast

from .redactor import Redactor


class RedactedStream(io.TextIOBase):
    """Writes to `stream` what `redactor` leaves of each text; closed by whoever closes that one."""

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor

    def write(self, text: str, /) -> int:
        self._stream.write(self._redactor.redact(text))
        return len(text)

    def write_json(self, data: bytes) -> None:
        """Lines of JSON in UTF-8, which hold no secrets, whatever encoding the stream has."""
        write_json(self._stream, data)

    def flush(self) -> None:
        if not self._stream.closed:  # by whoever closes that one, before this one is closed as garbage
            self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] -- an attribute in typeshed
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride] -- as above
        return self._stream.errors


def without_secrets(stream: TextIO, redactor: Redactor) -> TextIO:
    """The stream, redacted where there is anything to redact."""
    return cast("TextIO", RedactedStream(stream, redactor)) if redactor else stream


def write_json(stream: TextIO, data: bytes) -> None:
    """Writes lines of JSON in UTF-8 to a text stream, whatever its encoding is."""
    if isinstance(stream, RedactedStream):
        stream.write_json(data)
        return
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()
