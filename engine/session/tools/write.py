"""`write(path, text)`: a whole file, made or replaced.

Text goes into an existing file as that writes its own: encoding, line ends, and whether its last line is ended. Bytes
are written as they are.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ...core.encodings import UTF_8, Encoding, decode, line_ends, with_line_ends
from .change import Change, change_to, file_to_change
from .workspace import Workspace


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`text` is text or bytes, which msgspec cannot say. `mode` are the permission bits of a new file.

    No statement gives a mode: it comes with what other code has opened by `os.open`.
    """

    path: str
    text: Any
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o777)] | None = None


def perform(workspace: Workspace, arguments: Arguments) -> Change:
    """The change that makes the file that text.

    Raises:
        OSError: as `file_to_change`.
        TypeError: `text` is neither text nor bytes.
        ValueError: the file's encoding has no bytes for the text.
    """
    text: object = arguments.text
    if not isinstance(text, str | bytes):
        raise TypeError(f"write(): text is a string or bytes, not {type(text).__name__}")
    file = file_to_change(workspace, arguments.path)
    after = text if isinstance(text, bytes) else in_the_manner_of(file.data or b"", text, arguments.path)
    return change_to(workspace, file, after, mode=arguments.mode if file.data is None else None)


def in_the_manner_of(existing: bytes, text: str, path: str) -> bytes:
    """The text as the existing file would have it; UTF-8 and as it is where that is empty or no text."""
    found = decode(existing)
    if found is None or not found.text:
        return encoded(text, UTF_8 if found is None else found.encoding, path)
    text = with_line_ends(text, line_ends(found.text))
    return encoded(_ended_as(found.text, text), found.encoding, path)


def _ended_as(existing: str, text: str) -> str:
    if not text or existing.endswith("\n") == text.endswith("\n"):
        return text
    if existing.endswith("\n"):
        return text + ("\r\n" if existing.endswith("\r\n") else "\n")
    return text.removesuffix("\n").removesuffix("\r")


def encoded(text: str, encoding: Encoding, path: str) -> bytes:
    """The text as bytes. Raises ValueError, with a sentence, for what the encoding has no bytes for."""
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is in {encoding.name}, which has no bytes for {text[error.start]!r} in line {line}; "
            "leave that out, or write() the file as bytes in another encoding"
        ) from None
