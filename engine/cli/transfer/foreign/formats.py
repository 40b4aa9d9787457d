"""The formats there are, in the order in which they are tried. A format is a file and a row here.

Must not know how any of them is read. Called by `rewindow import`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ....core.errors import InvalidRequestError
from . import anthropic, openai, openhands
from .document import Document, parse
from .writer import Imported, Writer


@dataclass(frozen=True, slots=True)
class Format:
    """`recognises` says whether a document looks like it; `read` writes it, or raises InvalidRequestError."""

    name: str
    title: str
    recognises: Callable[[Document], bool]
    read: Callable[[Document, Writer], None]


FORMATS: Final[tuple[Format, ...]] = (
    Format(openhands.NAME, openhands.TITLE, openhands.recognises, openhands.read),
    Format(anthropic.NAME, anthropic.TITLE, anthropic.recognises, anthropic.read),
    Format(openai.NAME, openai.TITLE, openai.recognises, openai.read),
)


def recognised(document: Document) -> Format:
    """The first format that the document looks like.

    Raises:
        InvalidRequestError: it looks like none.
    """
    for each in FORMATS:
        if each.recognises(document):
            return each
    known = ", ".join(each.title for each in FORMATS)
    raise InvalidRequestError(f"{document.name}: this is no conversation that is known: {known}, or Rewindow's export")


def read(data: bytes, name: str, writer: Writer, wanted: str | None = None) -> tuple[Format, Imported]:
    """A conversation in the format of that name, or in the one it looks like.

    Raises:
        InvalidRequestError: it is no conversation of that format; it names the line or the item, and what is wrong.
    """
    document = parse(data, name)
    found = next((each for each in FORMATS if each.name == wanted), None) or recognised(document)
    if document.replaced:
        writer.report.noted["characters that are no Unicode, replaced"] += document.replaced
    found.read(document, writer)
    return found, writer.finish()
