"""A user's message as blocks, and as one text in which each mention keeps its place.

Editors send a sentence with a mention in it as several blocks: text, a link, more text. The log keeps the typed `text`,
the attachments, and the order of the blocks (`content`) unless it is the usual one. So a model reads the sentence as it
was written, and a loaded session shows the same blocks. A text that is too long for a message becomes an attachment,
and the message has its beginning. A picture is an attachment, and the text has a line that describes it. Pure.
`Session.accept` composes messages; everything that shows one reads it here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..core.links import Lines, target_of
from ..core.pictures import GivenPicture, Picture, description
from ..core.text import cut_end, cut_line, more, printable
from .events.conversation import Attachment, UserMessage

MAX_TEXT_CHARS: Final = 1_000_000
"""The most typed text of one prompt; longer blocks become attachments, which may be longer."""
BEGINNING_CHARS: Final = 4_000
"""How much of such a block stays in the message."""
EMBEDDED_CHARS: Final = 16_000
"""How much of the embedded texts of a prompt a model reads in the message."""
LONG_TEXT_URI: Final = "rewindow:prompt"
"""Marks an attachment as typed text that was too long."""
SYSTEM_URI: Final = "import:system-prompt"
"""Marks an attachment as the system prompt of another program, which is kept and which no model reads."""
PICTURE_URI: Final = "rewindow:picture"
"""Marks an attachment as a picture for which the client named no URI."""
_LONG_TEXT_NAME: Final = "prompt.txt"
_LONGEST_URI: Final = 200
_TICKS: Final = re.compile(r"`{3,}")
_OPENERS: Final = frozenset("([{<\"'`")

Block = str | Attachment


class Composed(Struct, frozen=True):
    """The fields of a prompt's `UserMessage`. `given` are its pictures as they came, not kept yet, in order."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    content: tuple[str | int, ...] = ()
    expansion: str = ""
    given: tuple[GivenPicture, ...] = ()


def compose(said: Sequence[Block | GivenPicture]) -> Composed:
    """Compose a message of these blocks, in their order; nothing is lost."""
    given = tuple(block for block in said if isinstance(block, GivenPicture))
    blocks = _without_long_texts([_placeholder(block) if isinstance(block, GivenPicture) else block for block in said])
    attachments = tuple(block for block in blocks if isinstance(block, Attachment))
    typed = _joined(blocks, _nothing)
    if [*([typed] if typed else []), *attachments] == blocks:
        return Composed(typed, attachments, given=given)
    places = iter(range(len(attachments)))
    content = tuple(block if isinstance(block, str) else next(places) for block in blocks)
    return Composed(typed.strip(), attachments, content, given=given)


def _placeholder(given: GivenPicture) -> Attachment:
    picture = Picture(name=given.name, size=len(given.data))
    return Attachment(
        uri=given.uri or PICTURE_URI, name=given.name, media_type=given.media_type or None, picture=picture
    )


def with_pictures(attachments: Sequence[Attachment], pictures: Sequence[Picture]) -> tuple[Attachment, ...]:
    """Return the attachments with these pictures, in order, in the place of the pictures that came."""
    kept = iter(pictures)
    return tuple(
        replace(each, picture=next(kept, each.picture)) if each.picture is not None else each for each in attachments
    )


def pictures_in(message: UserMessage) -> tuple[Picture, ...]:
    """Return the pictures of a message, in order."""
    return tuple(each.picture for each in message.attachments if each.picture is not None)


def blocks_of(message: UserMessage) -> list[Block]:
    """Return the blocks of a message. Total: an invalid index is skipped."""
    attachments = message.attachments
    if not message.content:
        return [*([message.text] if message.text else []), *attachments]
    blocks: list[Block] = []
    for block in message.content:
        if isinstance(block, str):
            blocks.append(block)
        elif 0 <= block < len(attachments):
            blocks.append(attachments[block])
    return blocks


def user_text(message: UserMessage) -> str:
    """Return the message for a model: attachments are Markdown links in their places, with reasons if not opened.

    Embedded texts follow, at most `EMBEDDED_CHARS` together; their views have the rest.
    """
    if message.expansion:
        message = replace(message, text=message.expansion, content=(), expansion="")
    if not message.attachments:
        return message.text
    return "\n\n".join([_joined(blocks_of(message), _linked), *_embedded(message.attachments)])


def spoken_text(message: UserMessage) -> str:
    """Return the message for a line that people read: attachments are names."""
    return _joined(blocks_of(message), _named) if message.attachments else message.text


def unopened(attachment: Attachment) -> str | None:
    """Return a sentence about an attachment that cannot be opened; None for others."""
    if attachment.picture is not None:
        name, problem = printable(attachment.name), printable(attachment.picture.problem)
        return f"{name} is not shown to the model as a picture: {problem}." if problem else None
    if attachment.text is not None:
        return None
    target = target_of(attachment.uri)
    shown = cut_line(printable(attachment.uri), _LONGEST_URI)
    return None if target.path is not None else f"{shown} was not opened: {target.reason}."


def is_long_text(attachment: Attachment) -> bool:
    """Return whether the attachment is typed text that was too long."""
    return attachment.uri == LONG_TEXT_URI and attachment.text is not None


def _embedded(attachments: Sequence[Attachment]) -> list[str]:
    """Return each embedded text once, fenced, as far as there is room."""
    texts = {
        (attachment.uri, attachment.text): attachment
        for attachment in attachments
        if attachment.text is not None and attachment.uri not in (LONG_TEXT_URI, SYSTEM_URI)
    }
    shown: list[str] = []
    room = EMBEDDED_CHARS
    for attachment in texts.values():
        text = attachment.text or ""
        start = _start(text, target_of(attachment.uri).lines, room)
        piece = text[start : start + room]
        if piece:
            shown.append(_fenced(f"{printable(attachment.name)} as attached to this prompt:", text, start, piece))
        room -= len(piece)
    return shown


def _start(text: str, lines: Lines | None, room: int) -> int:
    """Return where to begin: at the first line that the link names, if not all of the text fits."""
    if len(text) <= room or lines is None or text.count("\n") + 1 < lines.last:
        return 0
    return sum(map(len, text.splitlines(keepends=True)[: lines.first - 1]))


def _fenced(heading: str, text: str, start: int, piece: str) -> str:
    fence = "`" * (max((len(run) for run in _TICKS.findall(piece)), default=2) + 1)
    before = [more(start, "character", "before this part; the view shows them")] if start else []
    after = len(text) - start - len(piece)
    behind = [more(after, "character", "in its view")] if after else []
    return "\n".join([heading, fence, *before, piece.removesuffix("\n"), *behind, fence])


def _without_long_texts(blocks: Sequence[Block]) -> list[Block]:
    kept = list(blocks)
    texts = {place: len(block) for place, block in enumerate(blocks) if isinstance(block, str)}
    excess = sum(texts.values()) - MAX_TEXT_CHARS
    for place in sorted(texts, key=lambda place: -texts[place]):
        if excess <= 0:
            break
        block = blocks[place]
        assert isinstance(block, str)
        kept[place] = Attachment(uri=LONG_TEXT_URI, name=_LONG_TEXT_NAME, media_type="text/plain", text=block)
        excess -= len(block)
    return kept


def _joined(blocks: Sequence[Block], shown: Callable[[Attachment], str]) -> str:
    text, after_text = "", True
    for block in blocks:
        is_text = isinstance(block, str) or is_long_text(block)
        piece = block if isinstance(block, str) else _beginning(block) if is_text else shown(block)
        if piece:
            text += _separator(text, piece, after_text, is_text) + piece
        after_text = is_text
    return text


def _separator(before: str, after: str, after_text: bool, is_text: bool) -> str:
    """Return what separates two blocks: a newline, or nothing if one continues the other's sentence."""
    if not before:
        return ""
    if after_text and not is_text:
        continues = before[-1].isspace() or before[-1] in _OPENERS
    else:
        continues = not after_text and is_text and not after[:1].isalnum()
    return "" if continues else "\n"


def _beginning(attachment: Attachment) -> str:
    return cut_end(attachment.text or "", BEGINNING_CHARS, f"of this prompt, attached as {attachment.name}")


def _nothing(_: Attachment) -> str:
    return ""


def _named(attachment: Attachment) -> str:
    return printable(attachment.name)


def _linked(attachment: Attachment) -> str:
    if attachment.picture is not None:
        return description(attachment.picture)
    sentence = unopened(attachment)
    link = f"[{printable(attachment.name)}]({printable(attachment.uri)})"
    return link if sentence is None else f"{link} (not opened: {target_of(attachment.uri).reason})"
