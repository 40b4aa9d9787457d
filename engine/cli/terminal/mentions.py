"""`@path` in a prompt: the file is attached, so that it is opened as a view, as an editor's mention is.

Only what is there is a mention; anything else that begins with an `@` is text. Called where a prompt is sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...log.events.conversation import Attachment

_MENTION: Final = re.compile(r"(?<!\S)@(\S+)")
_AFTER: Final = ".,;:!?)]}'\""
"""What ends a sentence or a bracket, and is no part of the path before it."""


def with_mentions(text: str, cwd: str) -> Sequence[str | Attachment]:
    """The text in the order in which it is to be read, with an attachment for each `@path` that is there."""
    blocks: list[str | Attachment] = []
    taken = 0
    for match in _MENTION.finditer(text):
        path = _path(match[1], cwd)
        if path is None:
            continue
        before = text[taken : match.start()]
        blocks += [before] if before else []
        blocks.append(Attachment(uri=Path(cwd, os.path.expanduser(path)).absolute().as_uri(), name=path))
        taken = match.start(1) + len(path)
    rest = text[taken:]
    return [*blocks, rest] if rest or not blocks else blocks


def _path(spelled: str, cwd: str) -> str | None:
    """What of it is there: all, or all but the punctuation at its end."""
    for path in (spelled, spelled.rstrip(_AFTER)):
        try:
            if path and os.path.exists(os.path.join(cwd, os.path.expanduser(path))):
                return path
        except ValueError:  # a NUL
            return None
    return None
