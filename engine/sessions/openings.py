"""What a prompt had attached becomes views: one statement each, so that a replay opens them too."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Collection, Sequence
from urllib.parse import unquote, urlsplit

from ..events.conversation import Attachment
from ..toolbox import INJECTED


def openings(attachments: Sequence[Attachment], bound: Collection[str] = ()) -> list[str]:
    """A statement for every attachment that can be looked at: a local file, or text that came with the prompt.

    Names in `bound` are somebody's already and are not taken from them.
    """
    statements: list[str] = []
    taken = set(bound)
    for attachment in attachments:
        source = _source(attachment)
        if source is not None:
            name = _variable(attachment.name or attachment.uri, taken)
            taken.add(name)
            statements.append(f"{name} = view({source})")
    return statements


def local_path(uri: str) -> str | None:
    """The path that a `file://` URI or an absolute path means on this machine, else None."""
    if uri.startswith("/"):
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    return None


def _source(attachment: Attachment) -> str | None:
    path = local_path(attachment.uri)
    if path is not None:
        return repr(path)
    return None if attachment.text is None else f"text={attachment.text!r}, title={attachment.name!r}"


def _variable(title: str, taken: set[str]) -> str:
    """An identifier made of the title, in the normal form in which Python compares names."""
    stem = unicodedata.normalize("NFKC", title.rstrip("/").rsplit("/", 1)[-1])
    base = re.sub(r"\W+", "_", stem).strip("_").lower() or "attached"
    if not base.isidentifier() or keyword.iskeyword(base) or hasattr(builtins, base) or base in INJECTED:
        base = f"file_{base}"
    if not base.isidentifier():
        base = "attached"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name
