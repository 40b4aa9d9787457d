"""What a prompt had attached becomes views: one statement each, so that a replay opens them too.

Text that came with the prompt wins over the disk, because it is what the person sees in the editor, saved or not.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence
from typing import Final

from ..core.links import Lines, target_of
from ..core.toolbox import original, variable
from ..log.events.conversation import Attachment
from ..log.user_message import unopened

MOST_OPENED: Final = 200
"""Views that one prompt opens; each is a statement that runs before the turn begins."""
MOST_SAID: Final = 20
"""Links of which it is said why they are not opened."""


def openings(
    attachments: Sequence[Attachment], cwd: str, bound: Collection[str] = (), rebound: Collection[str] = ()
) -> list[str]:
    """A statement for every attachment that can be looked at: a local file, or text that came with the prompt.

    What was attached more than once is opened once, and no more than `MOST_OPENED` are. Relative paths start from
    `cwd`. Names in `bound` are somebody's already and are not taken from them; injected ones in `rebound` may mean
    something else by now.
    """
    statements: list[str] = []
    taken = set(bound)
    view = original("view") if "view" in rebound else "view"
    for attachment in _openable(attachments)[:MOST_OPENED]:
        title = (attachment.name or attachment.uri).rstrip("/").rsplit("/", 1)[-1]
        name = variable(title, taken, prefix="file_", otherwise="attached")
        taken.add(name)
        statements.append(f"{name} = {view}({_source(attachment, cwd)})")
    return statements


def not_opened(attachments: Sequence[Attachment]) -> list[str]:
    """One sentence for each attachment that is not opened, of the first few, and one for those that are too many."""
    sentences = [sentence for sentence in map(unopened, dict.fromkeys(attachments)) if sentence is not None]
    if len(sentences) > MOST_SAID:
        sentences[MOST_SAID:] = [f"{len(sentences) - MOST_SAID:,} more links were not opened."]
    excess = len(_openable(attachments)) - MOST_OPENED
    if excess > 0:
        sentences.append(f"{excess:,} more attachments were not opened; `view(path)` opens one.")
    return sentences


def _openable(attachments: Sequence[Attachment]) -> list[Attachment]:
    return [attachment for attachment in _once_each(attachments) if unopened(attachment) is None]


def _once_each(attachments: Sequence[Attachment]) -> list[Attachment]:
    """By URI and text; a link to what came with its text too is not opened."""
    texts = {attachment.uri for attachment in attachments if attachment.text is not None}
    kept = {
        (attachment.uri, attachment.text): attachment
        for attachment in reversed(attachments)
        if attachment.text is not None or attachment.uri not in texts
    }
    return list(reversed(kept.values()))


def _source(attachment: Attachment, cwd: str) -> str:
    """The arguments of `view`, for one that can be looked at."""
    target = target_of(attachment.uri)
    text = attachment.text
    if target.path is None:
        return f"text={text!r}, title={attachment.name!r}"
    arguments = [repr(posixpath.normpath(posixpath.join(cwd, target.path)))]
    lines = target.lines
    if lines is not None:
        arguments.append(f"pos={str(lines.first)!r}")
    if text is not None:
        arguments.append(f"text={text!r}")
        if lines is not None and _is_part(text, lines):
            arguments.append(f"first_line={lines.first}")
    return ", ".join(arguments)


def _is_part(text: str, lines: Lines) -> bool:
    """Whether the text is these lines of a file alone, and not the whole file.

    A whole file has its last line at `lines.last` or later. The lines alone are `last - first + 1`, which is less than
    `last` unless they are the first ones; then both readings show the same.
    """
    return text.count("\n") + 1 < lines.last
