"""What an editor's text means for a file: whether it is what is on disk, and if not, the bytes that saving would make.

Owns the rule. Pure. Used by `buffers`, for what views show, and by the tools that read and change files.

An editor holds text, and a file is bytes. Between the two an editor may drop the byte order mark, turn every line end
into a newline, and show what is no UTF-8 as U+FFFD; some clients also lose the newline at the end. None of that is a
change of the user's. So the two are compared without it, and a text that does differ becomes bytes as the file has its
own: encoding, mark and line ends. A diff between the two then shows what the user changed and nothing else.
"""

from __future__ import annotations

from typing import Final

import xxhash

from ..core.encodings import UTF_8, Decoded, Encoding, decode, line_ends, with_line_ends
from ..core.text import valid_text

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
